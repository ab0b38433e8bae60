"""Bounds for pools with unequal validation sets, on the paper's datasets.

    python benchmarks/dual.py FOLDER [--splits 3] [--only NAME ...] [--record]

FOLDER holds one NAME.csv.gz per dataset, as for `certificates.py`. For three ladders of subsample sizes, the minimum
over all posteriors, with a uniform prior, of PAC-Bayes-lambda and PAC-Bayes-kl (with the smallest and the largest
number of points) and of the dual bound with both comparators: means over splits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from _results import make_parser, show, with_mean
from direct import bounds
from problems import load

from pacbayes import PACBayesClassifier
from pacbayes.datasets import NAMES

LADDERS = ("default", "to 0.8 n", "0.25 to 0.8 n")
BOUNDS = ("lambda", "kl", "dual, kl", "dual, mixture")


def settings(ladder: str, n: int, d: int) -> dict[str, object]:
    if ladder == "to 0.8 n":
        doubling = [(d + 1) * 2**k for k in range(40) if (d + 1) * 2**k < 0.8 * n]
        sizes = [*doubling, int(0.8 * n)]
        return {"subsample_size": sizes, "n_hypotheses": 40 * len(sizes)}
    if ladder == "0.25 to 0.8 n":
        return {"subsample_size": [int(share * n) for share in (0.25, 0.5, 0.65, 0.8)], "n_hypotheses": 120}
    return {}


def measure(ladder: str, name: str, folder: Path, splits: int) -> np.ndarray:
    """Return the mean bounds of a dataset."""
    problem, found = load(name, folder), []
    for split in range(splits):
        X, y = problem.rows(problem.split(split)[0])
        how = settings(ladder, problem.n, problem.X.shape[1])
        model = PACBayesClassifier(holdout=None, random_state=split, n_jobs=2, **how).fit(X, y)
        found.append(bounds(model.losses_, model.n_validation_, None)[: len(BOUNDS)])
    return np.mean(found, axis=0)


def main() -> None:
    arguments = make_parser(__doc__, folder=True, splits=3, only=NAMES).parse_args()
    for ladder in LADDERS:
        rows = ((name, measure(ladder, name, arguments.folder, arguments.splits)) for name in arguments.only)
        title = f"Bounds with unequal validation sets, subsample sizes: {ladder}"
        show(f"dual, {ladder}", title, ("", *BOUNDS), with_mean(rows))


if __name__ == "__main__":
    main()
