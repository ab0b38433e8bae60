r"""Bounds on the error of the weighted majority vote: numbers and arrays in, a number out.

The vote predicts the class with the largest weight :math:`\sum_h \rho(h) 1\{h(x) = c\}`. Its bounds start
from what is known about its voters, an upper bound on their expected loss :math:`E_\rho[L(h)]` or one for
each voter, and differ in what else they look at: nothing (`first_order`), the weights (`subset_sum_bound`),
unlabelled points (`disagreement_bound`, `margin_bound`, `voters_bound`), or the losses of pairs of voters
(`tandem`, `c_bound`, `chebyshev_cantelli`, `split_kl`). Derivations and conditions: docs/votes.md.

Every bound is rounded up. 1 means that nothing is proved.
"""

from pacbayes.votes._aggregation import count_half_mass, tally, weighted_vote
from pacbayes.votes._means import mean_upper_bound
from pacbayes.votes._second_order import PairLosses, c_bound, chebyshev_cantelli, pair_losses, split_kl, tandem
from pacbayes.votes._unlabelled import (
    MarginChoice,
    choose_margin,
    choose_voter,
    disagreement_bound,
    margin_bound,
    split_delta,
)
from pacbayes.votes._voters import VoterWeights, optimize_voter_weights, voters_bound
from pacbayes.votes._weights import first_order, heavy_voter, subset_sum_bound, subset_sum_constant

__all__ = [
    "MarginChoice",
    "PairLosses",
    "VoterWeights",
    "c_bound",
    "chebyshev_cantelli",
    "choose_margin",
    "choose_voter",
    "count_half_mass",
    "disagreement_bound",
    "first_order",
    "heavy_voter",
    "margin_bound",
    "mean_upper_bound",
    "optimize_voter_weights",
    "pair_losses",
    "split_delta",
    "split_kl",
    "subset_sum_bound",
    "subset_sum_constant",
    "tally",
    "tandem",
    "voters_bound",
    "weighted_vote",
]
