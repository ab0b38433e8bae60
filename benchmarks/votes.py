"""Bounds on the weighted majority vote, on the paper's datasets.

FOLDER and sizes as in benchmarks/certificates.py; all other points, 20000 at most, are the unlabelled ones (for the
column "test loss", labelled). The fit is that of ``holdout=None``. The weights of the vote are the posterior's, or with
--flatness F proportional to exp(-F n (b_h - min b)) for the bounds b_h below. Columns, all for delta = 0.05:

    gibbs       randomised classifier, PAC-Bayes bound of the fit at delta
    2 gibbs     twice that: what needs neither unlabelled points nor bounds for each hypothesis
    E[b]        randomised classifier, from simultaneous Clopper-Pearson bounds b_h at delta_1 (votes.split_delta)
    subset sum  E[b] over the subset-sum constant
    margin      E[b] and margins at the unlabelled points; gamma and bet chosen on the training inputs
    voters      several b_h at once and disagreements there; weights chosen on the training inputs
    voter       one b_h and its disagreement there; voter chosen on its validation points
    recipe      b_h if a voter has more than half of the weight, else the smaller of subset sum and voter
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from _results import Clock, make_parser, show, with_mean
from problems import load

from pacbayes import PACBayesClassifier, bounds, votes
from pacbayes.datasets import NAMES
from pacbayes.pools import RBFSVMPool

DELTA = 0.05
MOST_UNLABELLED = 20_000
COLUMNS = ("test loss", "gibbs", "2 gibbs", "E[b]", "subset sum", "margin", "voters", "voter", "recipe", "seconds")


def shares(rho: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Share of each class at each point."""
    return np.stack([rho @ (codes == c) for c in range(n_classes)], axis=1)


def winner_and_runner_up(vote_shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ranked = np.sort(vote_shares, axis=1)
    return ranked[:, -1], ranked[:, -2]


def certify(
    model: PACBayesClassifier, train: np.ndarray, points: np.ndarray, labels: np.ndarray, flatness: float | None
) -> dict[str, float]:
    """All bounds on the vote, from the voters' predictions at training and unlabelled points."""
    m, n_classes = model.losses_.size, model.classes_.size
    n, u = train.shape[1], points.shape[1]
    delta_labelled, delta_points = votes.split_delta(DELTA, n, u)
    errors = np.rint(model.losses_ * model.n_validation_)
    voter_bounds = bounds.clopper_pearson(errors, model.n_validation_, delta_labelled, prior_mass=1 / m)
    rho = model.posterior_
    if flatness is not None:
        rho = np.exp(-flatness * n * (voter_bounds - voter_bounds.min()))
        rho /= rho.sum()
    gibbs = float(rho @ voter_bounds)
    known, new = shares(rho, train, n_classes), shares(rho, points, n_classes)
    predicted = new.argmax(axis=1)
    apart_known, apart_new = train != known.argmax(axis=1), points != predicted
    validated = np.ones(train.shape, dtype=bool)
    for h in range(m):
        validated[h, model.subsamples_[h]] = False

    margin = votes.choose_margin(gibbs, *winner_and_runner_up(known), n_points=u, delta=delta_points)
    weights = votes.optimize_voter_weights(voter_bounds, apart_known, n_points=u, delta=delta_points)
    rates = (apart_known & validated).sum(axis=1) / model.n_validation_
    best = votes.choose_voter(voter_bounds, rates, u, delta_points)
    subset_sum = votes.subset_sum_bound(gibbs, rho)
    voter = votes.disagreement_bound(voter_bounds[best], int(apart_new[best].sum()), u, delta_points)
    heavy = votes.heavy_voter(rho)
    return {
        "test loss": float(np.mean(predicted != labels)),
        "gibbs": model.certificate_.gibbs_bound,
        "2 gibbs": votes.first_order(model.certificate_.gibbs_bound),
        "E[b]": gibbs,
        "subset sum": subset_sum,
        "margin": votes.margin_bound(
            gibbs, *winner_and_runner_up(new), delta=delta_points, gamma=margin.gamma, bet=margin.bet
        ),
        "voters": votes.voters_bound(voter_bounds, apart_new, weights.w, delta_points, bet=weights.bet),
        "voter": voter,
        "recipe": min(subset_sum, voter) if heavy is None else voter_bounds[heavy],
    }


def run(name: str, folder: Path, splits: int, flatness: float | None) -> np.ndarray:
    """Means over splits of test loss, bounds and seconds."""
    problem = load(name, folder)
    X, y = problem.X, problem.y
    rows = []
    for split in range(splits):
        train, rest = problem.split(split, MOST_UNLABELLED)
        model = PACBayesClassifier(RBFSVMPool(), holdout=None, random_state=split, n_jobs=2).fit(X[train], y[train])
        known = np.searchsorted(model.classes_, model.predict_hypotheses(X[train]))
        new = np.searchsorted(model.classes_, model.predict_hypotheses(X[rest]))
        clock = Clock()
        row = certify(model, known, new, np.searchsorted(model.classes_, y[rest]), flatness)
        rows.append([*row.values(), clock.read()[1]])
    return np.mean(rows, axis=0)


def main() -> None:
    parser = make_parser(__doc__, folder=True, splits=3, only=NAMES)
    parser.add_argument("--flatness", type=float)
    arguments = parser.parse_args()
    rows = ((name, run(name, arguments.folder, arguments.splits, arguments.flatness)) for name in arguments.only)
    weights = "the posterior's" if arguments.flatness is None else f"flatness {arguments.flatness:g}"
    title = f"Bounds on the majority vote, weights: {weights}"
    show(f"votes, {weights}", title, ("", *COLUMNS), with_mean(rows))


if __name__ == "__main__":
    main()
