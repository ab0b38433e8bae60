"""Racing against validating everyone, and what it makes possible: a million points, a hundred thousand SVMs.

FOLDER holds the paper's datasets, as in `certificates.py`; without it, their parts are left out. Seconds are the best
of several runs in one process, of the wall clock and of the processor (all threads together): on a machine that does
something else as well, compare the latter. "Lost" is the posterior weight, in a fit that validates everyone, of what
the race dropped.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _results import best, in_fresh_process, make_parser, show
from engine import JOBS, waveforms
from problems import load
from sklearn.tree import DecisionTreeClassifier

from pacbayes import PACBayesClassifier
from pacbayes.datasets import NAMES
from pacbayes.pools import EstimatorPool, RBFSVMPool


def fit(X: np.ndarray, y: np.ndarray, pool: Any = None, **settings: Any) -> PACBayesClassifier:
    return PACBayesClassifier(pool, **{"random_state": 0, "n_jobs": JOBS, **settings}).fit(X, y)


def kernel_share(vote: Any) -> float:
    """Share of the validation's kernel values that were computed, counting all training points."""
    sizes = vote.subsamples.sizes
    return float((vote.seen * sizes).sum() / (vote.subsamples.n_validation * sizes).sum())


COLUMNS = (
    *("", "s, racing", "s, all", "times", "processor", "kernel values", "trained", "lost"),
    *("bound", "difference", "labels", "test loss", "difference"),
)
Row = tuple[object, ...]


def compare(
    name: str, problem: tuple[np.ndarray, ...], pool: Any, repeats: int, racing: bool | str = True, **settings: Any
) -> tuple[Row, list[float]]:
    """Fit with and without racing; return a row of the table, and times and differences as numbers."""
    X, y, X_test, y_test = problem
    cpu, wall, raced = best(lambda: fit(X, y, pool, racing=racing, **settings), repeats)
    cpu_all, wall_all, everyone = best(lambda: fit(X, y, pool, racing=False, **settings), repeats)
    lost = max(
        float(full.posterior[np.isnan(vote.losses)].sum())
        for vote, full in zip(raced.votes_, everyone.votes_, strict=True)
    )
    share = float(np.mean([kernel_share(vote) for vote in raced.votes_]))
    trained = float(np.mean([np.mean(vote.seen > 0) for vote in raced.votes_]))
    labels, labels_all = raced.predict(X_test), everyone.predict(X_test)
    bound, bound_all = raced.certificate_.bound, everyone.certificate_.bound
    loss, loss_all = np.mean(labels != y_test), np.mean(labels_all != y_test)
    row = (
        name,
        f"{wall:.3f}",
        f"{wall_all:.3f}",
        f"{wall_all / wall:.1f}",
        f"{cpu_all / cpu:.1f}",
        f"{share:.1%}",
        f"{trained:.0%}",
        f"{lost:.1e}",
        f"{bound:.4f}",
        f"{bound - bound_all:+.1e}",
        "equal" if np.array_equal(labels, labels_all) else f"{np.mean(labels != labels_all):.2%} differ",
        f"{loss:.4f}",
        f"{loss - loss_all:+.4f}",
    )
    return row, [wall, wall_all, cpu, cpu_all, bound - bound_all, loss - loss_all]


def split(problem: Any, seed: int) -> tuple[np.ndarray, ...]:
    train, test = problem.split(seed)
    return problem.X[train], problem.y[train], problem.X[test], problem.y[test]


def defaults(arguments: argparse.Namespace) -> None:
    for racing, what in ((True, "the default"), ("training", "kinds that lose are not trained")):
        title = f"The default fit, racing={racing!r} ({what}) against racing=False"
        rows = compare_defaults(arguments, racing)
        show(f"scale, defaults, {racing}", title, COLUMNS, rows)


def compare_defaults(arguments: argparse.Namespace, racing: bool | str) -> Iterator[Row]:
    """Yield a row for each dataset and split; the last has the sums of times and the mean differences."""
    figures = []
    for name in NAMES:
        problem = load(name, arguments.folder)
        for seed in range(arguments.splits):
            settings = {"racing": racing, "random_state": seed}
            row, numbers = compare(f"{name}, split {seed}", split(problem, seed), None, arguments.repeats, **settings)
            figures.append(numbers)
            yield row
    wall, wall_all, cpu, cpu_all, *_ = np.sum(figures, axis=0)
    bounds, losses = (
        f"{mean:+.5f} ({error:.5f})"
        for mean, error in zip(
            np.mean(figures, axis=0)[4:], np.std(figures, axis=0)[4:] / len(figures) ** 0.5, strict=True
        )
    )
    times = f"{wall:.2f}", f"{wall_all:.2f}", f"{wall_all / wall:.2f}", f"{cpu_all / cpu:.2f}"
    yield "all; mean difference (standard error)", *times, "", "", "", "", bounds, "", "", losses


def pools(arguments: argparse.Namespace) -> None:
    title = "One pool of the paper's size, m = n, r = d + 1, all rows"
    show("scale, pools", title, COLUMNS, compare_pools(arguments))


def compare_pools(arguments: argparse.Namespace) -> Iterator[Row]:
    for name in NAMES:
        problem = load(name, arguments.folder)
        settings = {"n_hypotheses": problem.n, "subsample_size": "paper", "holdout": None}
        yield compare(name, split(problem, 0), RBFSVMPool(scaler=None), arguments.repeats, **settings)[0]


def waveform(arguments: argparse.Namespace) -> None:
    data = (*waveforms(100_000), *waveforms(4000, seed=1))
    settings = {"n_hypotheses": 5000, "subsample_size": 41, "holdout": None}
    row, _ = compare("waveform", data, RBFSVMPool(scaler=None), 1, **settings)
    show("scale, waveform", "Waveform, n = 100,000, m = 5000, r = 41", COLUMNS, [row])


def million(arguments: argparse.Namespace) -> None:
    columns = ("seconds", "processor", "kernel values", "validated in full", "peak GiB", "bound")
    title = "n = 1,000,000, m = 100,000, d = 40, r = 41, in a fresh process"
    show("scale, million", title, columns, [in_fresh_process("scale", "one_million()")])


def one_million(n: int = 1_000_000, m: int = 100_000) -> list[object]:
    """Fit in this process and return a row of the table."""
    X, y = waveforms(n)
    settings = {"n_hypotheses": m, "subsample_size": 41, "holdout": None}
    cpu, wall, model = best(lambda: fit(X, y, RBFSVMPool(scaler=None), **settings), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    share, full = kernel_share(model.votes_[0]), int(np.count_nonzero(~np.isnan(model.losses_)))
    return [f"{wall:.1f}", f"{cpu:.1f}", f"{share:.2%}", full, f"{peak:.2f}", f"{model.certificate_.bound:.4f}"]


def trees(arguments: argparse.Namespace) -> None:
    title = "Trees of a random forest (EstimatorPool), n = 20,000, m = 500"
    show("scale, trees", title, COLUMNS, compare_trees())


def compare_trees() -> Iterator[Row]:
    data = (*waveforms(20_000), *waveforms(4000, seed=1))
    tree = DecisionTreeClassifier(max_features="sqrt")
    settings: dict[str, Any] = {"n_hypotheses": 500, "holdout": None, "n_jobs": None}
    yield compare("r = 41", data, EstimatorPool(tree), 1, subsample_size=41, **settings)[0]
    yield compare("r = 41 to 1000", data, EstimatorPool(tree), 1, subsample_size=[41, 200, 1000], **settings)[0]


PARTS = (defaults, pools, waveform, million, trees)


def main() -> None:
    parser = make_parser(__doc__, splits=3)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", choices=[part.__name__ for part in PARTS])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    for part in PARTS:
        if arguments.only in (None, part.__name__) and (arguments.folder or part not in (defaults, pools)):
            part(arguments)


if __name__ == "__main__":
    main()
