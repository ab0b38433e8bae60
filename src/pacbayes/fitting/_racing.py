r"""Which hypotheses to drop before they are validated in full, and which not to train at all.

The bounds hold for all posteriors at once: a hypothesis may be dropped at any time and for any reason, if it gets no
weight. What is dropped after a round would hardly have got any. The rows are taken in a random order, drawn without
looking at the sample, in rounds that grow. After a round, hypothesis h is dropped if its loss so far exceeds
that of the best so far by more than noise can explain plus what the posterior resolves: a Gibbs posterior at inverse
temperature t gives h at most :math:`\frac{\pi(h)}{\pi(b)} e^{-t (\hat L_h - \hat L_b)}` of the weight of b. Kinds that
are not trained at all, which has to be asked for, might have got weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from pacbayes._validation import Array
from pacbayes.posterior import minimize_lambda_bound, optimal_lambda

# Fewer rows are seen in one round: the posterior resolves too little on them for many hypotheses to be dropped.
_LEAST_ROWS = 2500

# Rows of the first round. Fewer say little about a hypothesis, whatever it is.
_FIRST_ROUND = 128

# From so many rows, or kernel values in a round, rounds double.
_LARGE_ROUND = 2048
_MUCH_WORK = 300_000_000

# Share of the candidates that must be dropped for a round to drop any.
_LEAST_SHARE_DROPPED = 0.1

# Standard errors of a difference that count as noise.
_NOISE = 3.5

# Total posterior weight that may be lost.
_LOST_WEIGHT = 1e-10

# Share of the kinds that go on from one subsample size to the next, where kinds are left out at all. Chosen among
# several rules on 18 problems, figures in benchmarks/RESULTS.md: differences of test losses and bounds to training all
# are within their noise, but much of the posterior's mass is lost.
_KEPT_KINDS = 0.55


def round_ends(n: int, n_points: int) -> list[int]:
    """Return the number of rows seen after each round; one round only if the sample is small.

    `n_points` is the number of training points of all hypotheses together, which the work of a row grows with.

    >>> round_ends(10_000, n_points=1000), round_ends(2000, n_points=1000)
    ([128, 512, 2048, 4096, 10000], [2000])
    """
    ends = []
    end = _FIRST_ROUND
    while n >= _LEAST_ROWS:
        # A round has costs of its own: where there is little work, there are fewer.
        little = end < _LARGE_ROUND and end * n_points < _MUCH_WORK
        if end > (n / 4 if little else 3 * n / 4):
            break
        ends.append(end)
        end *= 4 if little else 2
    return [*ends, n]


@dataclass(frozen=True)
class DropRule:
    """Decide by the losses so far who stays in the race."""

    log_prior: Array
    n_validation: NDArray[np.intp]  # (m,): validation points of each hypothesis
    delta: float  # probability with which the certificate may fail

    @property
    def heaviest(self) -> int:
        """The hypothesis with the largest prior, which is never dropped: those that are left have some of the prior."""
        return int(np.argmax(self.log_prior))

    def survivors(self, candidates: NDArray[np.intp], totals: Array, seen: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which of the candidates stay: all, if only a few could go, since a new field has costs of its own.

        `totals` are the sums of the losses of all m hypotheses so far, `seen` the numbers of points that these are
        over: 0 for hypotheses that are not trained.
        """
        known = np.flatnonzero((seen > 0) & (self.log_prior > -np.inf))
        if known.size == 0:
            return np.ones(candidates.size, dtype=bool)
        losses = np.full(seen.size, np.inf)
        losses[known] = totals[known] / seen[known]  # without prior there is no weight, whatever the loss
        log_weight = math.log(seen.size) - math.log(_LOST_WEIGHT)
        if np.ptp(self.log_prior) == 0:
            # Lambda is at most 1: if even then too few would go, the temperature need not be known.
            best = int(np.argmin(losses))
            excess = losses[candidates] - losses[best] - self._noise(candidates, best, totals, seen)
            if np.mean(excess > log_weight / self.n_validation.min()) < _LEAST_SHARE_DROPPED:
                return np.ones(candidates.size, dtype=bool)
        temperature = self._temperature(known, losses, totals, seen)
        # The loss that a hypothesis of equal prior would have for the same weight.
        scores = losses - self.log_prior / temperature
        best = known[np.argmin(scores[known])]
        difference = scores[candidates] - scores[best]
        noise = self._noise(candidates, int(best), totals, seen)
        # Hypotheses that saw no point yet, since all were in their subsample, stay.
        stays = (seen[candidates] == 0) | ~(difference > noise + log_weight / temperature)
        if np.mean(~stays) < _LEAST_SHARE_DROPPED:
            stays[:] = True
        stays[candidates == self.heaviest] = True
        return np.asarray(stays)

    def _temperature(self, known: NDArray[np.intp], losses: Array, totals: Array, seen: NDArray[np.intp]) -> float:
        """Return a low estimate of the inverse temperature of the posterior, by eq. lambda.

        Noise makes the losses so far differ more than the final ones will. The posterior is then too concentrated: the
        temperature is that of a larger loss and a smaller divergence.
        """
        n = int(self.n_validation.min())
        log_prior = self.log_prior[known]
        prior = None if np.ptp(log_prior) == 0 else log_prior - logsumexp(log_prior)
        posterior = minimize_lambda_bound(losses[known], n, delta=self.delta, prior=prior)
        best = int(np.argmin(losses))
        error = math.sqrt((totals[best] + 1) / seen[best] ** 2)
        loss = min(1.0, max(posterior.loss, float(losses[best]) + 2 * error) + 1 / n)
        share = min(1.0, seen[best] / n)
        return float(optimal_lambda(loss, (0.5 + share / 2) * posterior.kl_div, n, self.delta)) * n

    def _noise(self, candidates: NDArray[np.intp], best: int, totals: Array, seen: NDArray[np.intp]) -> Array:
        """Return how far the difference of losses may be off: standard errors, and a term for few points (Bernstein).

        The squared difference of two losses in [0, 1] is at most their sum.
        """
        points = np.maximum(seen[candidates], 1)
        variance = totals[candidates] / points**2 + (totals[best] / seen[best] + 1 / points) / points
        # Of the points that a loss is the mean of, those not seen yet are uncertain.
        unseen = np.maximum(1 - points / self.n_validation[candidates], 0.0)
        return np.asarray(unseen**0.5 * _NOISE * np.sqrt(variance) + unseen * _NOISE**2 / (3 * points))

    def lost_kinds(
        self, hypotheses: NDArray[np.intp], kinds: NDArray[np.intp], totals: Array, seen: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return the kinds that need not be trained on larger subsamples, from hypotheses trained on those of one size.

        A kind is as good as the best of its hypotheses. The better ones stay, and those within a standard error of the
        best. `totals` and `seen` are as in `survivors`.
        """
        names, kind = np.unique(kinds, return_inverse=True)
        points = np.maximum(seen[hypotheses], 1)
        losses = np.full(names.size, np.inf)
        np.minimum.at(losses, kind, totals[hypotheses] / points)
        error = np.sqrt((losses + losses.min()) / points.mean())
        last = np.sort(losses)[math.ceil(_KEPT_KINDS * names.size) - 1]
        return np.asarray(names[(losses > last) & (losses - losses.min() > error)])
