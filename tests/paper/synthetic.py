"""Synthetic records of the paper's experiments, with the shapes and sizes of real ones."""

import math

import numpy as np

from pacbayes.paper.aggregation import grid
from pacbayes.paper.tables import BASELINE_LOSS, SIZES
from pacbayes.sampling import subsample_sizes

PAPER = tuple(BASELINE_LOSS)
FEATURES = {
    "mushrooms": 112,
    "skin": 3,
    "waveform": 40,
    "adult": 122,
    "ionosphere": 34,
    "avsb": 16,
    "haberman": 3,
    "breast-cancer": 10,
    "waveform-generated": 21,
    "breast-cancer-sklearn": 30,
}
EXPERIMENTS = (
    "baseline",
    "accuracy",
    "runtime",
    "weighting",
    "quasiconvexity",
    "f_lambda",
    "validation",
    "comparison",
)


def make_records(datasets=PAPER, *, splits=5, values=20, experiments=EXPERIMENTS):
    """Records of the given experiments on the given datasets; `values` of m and of r at most."""
    return [
        {
            "experiment": experiment,
            "dataset": name,
            "split": split,
            "seconds": 1.5,
            "result": _result(experiment, *unit),
        }
        for name in datasets
        for split in range(splits)
        for unit in [(name, split, values)]
        for experiment in experiments
    ]


def _result(experiment, name, split, values):
    rng = np.random.default_rng([split, sum(name.encode()), len(experiment)])
    n = SIZES[name].train if name in SIZES else 200
    d = FEATURES.get(name, 10)
    floor = BASELINE_LOSS.get(name, 0.08)
    baseline = max(0.0, floor + 0.01 * float(np.random.default_rng([split, n, d]).normal()))
    (r,) = subsample_sizes("paper", n, d)
    m = np.array(grid(1, n, values))

    def losses(excess, noise=0.01):
        return np.clip(floor + excess + noise * rng.normal(size=np.shape(excess)), 0, 1)

    vote = losses(0.25 / np.sqrt(m) + 0.005)
    curves = {"r": r, "m": m.tolist(), "vote": vote.tolist(), "bound": (1.2 * vote + 8 / math.sqrt(n) * 0.3).tolist()}
    if experiment == "baseline":
        return {"loss": baseline, "C": 10.0, "gamma": 0.1, "seconds": n**2 / 4e4 * (1 + 0.1 * rng.random())}
    if experiment == "accuracy":
        rs = np.array(grid(2, r, values))
        excess = 0.4 / np.sqrt(m)[None, :] * np.exp(-rs / 40)[:, None] + 0.1 / rs[:, None] - 0.012
        return {"m": m.tolist(), "r": rs.tolist(), "loss": losses(excess, 0.004).tolist()}
    if experiment == "runtime":
        return curves | {"seconds": (0.004 + m * 2e-4 * (1 + 0.2 * rng.random(m.size))).tolist()}
    if experiment == "weighting":
        return curves | {
            "uniform": losses(0.15 + 0.2 / np.sqrt(m)).tolist(),
            "best": np.clip(vote + 0.004 * rng.normal(size=m.size), 0, 1).tolist(),
        }
    if experiment == "quasiconvexity":
        return {"theorem_var": 27, "stronger": n, "floor": 24, "largest": n}
    if experiment == "f_lambda":
        lam = np.linspace(0.02, 1, 99)

        def bound(lam):
            return (floor + 0.02 + 0.02 / (lam + 0.05)) / (1 - lam / 2) + 8 / n / (lam * (1 - lam / 2))

        best = float(lam[np.argmin(bound(lam))])
        return {
            "lam": lam.tolist(),
            "F": (bound(lam) + 0.002 * split).tolist(),
            "lam_alternating": best,
            "F_alternating": float(bound(best)) + 0.002 * split,
            "lam_global": best,
            "F_global": float(bound(best)) + 0.002 * split,
            "convex": True,
            "quasiconvex": True,
            "guaranteed": split != 3,
            "condition": None if split == 3 else "variance",
        }
    if experiment == "validation":
        direct, validate = losses(np.array([0.01, 0.015])).tolist()
        return {"direct": direct, "validate": validate, "lam_direct": 0.5, "lam_validate": 0.74}
    if experiment == "comparison":
        vote, randomised, best = losses(np.array([0.01, 0.015, 0.016])).tolist()
        randomised_bound = 1.1 * randomised + 2 / math.sqrt(n)
        return {
            "r": r,
            "m": n,
            "vote": vote,
            "randomised": randomised,
            "best": best,
            "bound": randomised_bound,
            "vote_bound": min(1.0, 2 * randomised_bound),
            "direct_bound": 0.9 * randomised_bound,
            "half_mass": 3,
            "n_validation": n - r,
        }
    raise ValueError(experiment)
