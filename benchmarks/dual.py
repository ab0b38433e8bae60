"""Bounds for pools with unequal validation sets, on the paper's datasets.

    python benchmarks/dual.py FOLDER [--splits 3] [--only NAME ...] [--record]

FOLDER holds one NAME.csv.gz per dataset, as for `certificates.py`. For three ladders of subsample sizes, the minimum
over all posteriors, with a uniform prior, of PAC-Bayes-lambda and PAC-Bayes-kl (with the smallest and the largest
number of points) and of the dual bound with both comparators: means over splits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _results import add_record_option, show
from problems import load

from pacbayes import PACBayesClassifier
from pacbayes.datasets import NAMES
from pacbayes.posterior import minimize_dual_bound, minimize_kl_bound, minimize_lambda_bound

DELTA = 0.05
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


def bounds(losses: np.ndarray, n: np.ndarray) -> list[float]:
    smallest, largest = int(n.min()), int(n.max())
    return [
        minimize_lambda_bound(losses, smallest, n_max=largest, delta=DELTA, method="global").fun,
        minimize_kl_bound(losses, smallest, n_max=largest, delta=DELTA).fun,
        minimize_dual_bound(losses, n, delta=DELTA).fun,
        minimize_dual_bound(losses, n, delta=DELTA, comparator="mixture").fun,
    ]


def measure(ladder: str, names: list[str], folder: Path, splits: int) -> Iterator[tuple[str, ...]]:
    """Yield the mean bounds of each dataset, and their mean."""
    rows = []
    for name in names:
        problem = load(name, folder)
        found = []
        for split in range(splits):
            train, _ = problem.split(split)
            model = PACBayesClassifier(
                holdout=None, random_state=split, n_jobs=2, **settings(ladder, problem.n, problem.X.shape[1])
            )
            model.fit(problem.X[train], problem.y[train])
            found.append(bounds(model.losses_, model.n_validation_))
        rows.append(np.mean(found, axis=0))
        yield name, *(f"{value:.4f}" for value in rows[-1])
    yield "mean", *(f"{value:.4f}" for value in np.mean(rows, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=list(NAMES))
    add_record_option(parser)
    arguments = parser.parse_args()
    for ladder in LADDERS:
        rows = measure(ladder, arguments.only, arguments.folder, arguments.splits)
        title = f"Bounds with unequal validation sets, subsample sizes: {ladder}"
        show(f"dual, {ladder}", title, ("", *BOUNDS), rows, recording=arguments.record)


if __name__ == "__main__":
    main()
