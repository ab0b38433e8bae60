"""Racing against validating everyone, and what it makes possible: a million points, a hundred thousand SVMs.

    python benchmarks/scale.py [FOLDER] [--only defaults | pools | waveform | rivals | million | trees] [--splits 3]

FOLDER holds the paper's datasets, as in `defaults.py`; without it, their parts are left out. Seconds are the best of
several runs in one process, of the wall clock and of the processor (all threads together): on a machine that does
something else as well, compare the latter. "Lost" is the posterior weight, in a fit that validates everyone, of what
the race dropped.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from engine import JOBS, one_by_one, waveforms
from problems import load
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pacbayes import PACBayesClassifier
from pacbayes.datasets import NAMES
from pacbayes.paper.experiments import cross_validated_svm
from pacbayes.pools import EstimatorPool, RBFSVMPool


def measure(task: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Shortest times of several runs, by the wall clock and of the processor, and what the last gave."""
    wall, cpu = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        result = task()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return min(wall), min(cpu), result


def fit(X: np.ndarray, y: np.ndarray, pool: Any = None, **settings: Any) -> PACBayesClassifier:
    return PACBayesClassifier(pool, **{"random_state": 0, "n_jobs": JOBS, **settings}).fit(X, y)


def kernel_share(vote: Any) -> float:
    """Share of the validation's kernel values that were computed, counting all training points."""
    sizes = vote.subsamples.sizes
    return float((vote.seen * sizes).sum() / (vote.subsamples.n_validation * sizes).sum())


HEADER = (
    "| | s, racing | s, all | times | processor | kernel values | trained | lost | bound | difference | "
    "labels | test loss | difference |\n|---|" + "---:|" * 12
)


def compare(
    name: str, problem: tuple[np.ndarray, ...], pool: Any, repeats: int, racing: bool | str = True, **settings: Any
) -> list[float]:
    """Fit with and without racing, print a row, and return its figures."""
    X, y, X_test, y_test = problem
    wall, cpu, raced = measure(lambda: fit(X, y, pool, racing=racing, **settings), repeats)
    wall_all, cpu_all, everyone = measure(lambda: fit(X, y, pool, racing=False, **settings), repeats)
    lost = max(
        float(full.posterior[np.isnan(vote.losses)].sum())
        for vote, full in zip(raced.votes_, everyone.votes_, strict=True)
    )
    share = float(np.mean([kernel_share(vote) for vote in raced.votes_]))
    trained = float(np.mean([np.mean(vote.seen > 0) for vote in raced.votes_]))
    labels, labels_all = raced.predict(X_test), everyone.predict(X_test)
    bound, bound_all = raced.certificate_.bound, everyone.certificate_.bound
    loss, loss_all = np.mean(labels != y_test), np.mean(labels_all != y_test)
    print(
        f"| {name} | {wall:.3f} | {wall_all:.3f} | {wall_all / wall:.1f} | {cpu_all / cpu:.1f} | {share:.1%} | "
        f"{trained:.0%} | {lost:.1e} | {bound:.4f} | {bound - bound_all:+.1e} | "
        f"{'equal' if np.array_equal(labels, labels_all) else f'{np.mean(labels != labels_all):.2%} differ'} | "
        f"{loss:.4f} | {loss - loss_all:+.4f} |",
        flush=True,
    )
    return [wall, wall_all, cpu, cpu_all, bound - bound_all, loss - loss_all]


def split(problem: Any, seed: int) -> tuple[np.ndarray, ...]:
    train, test = problem.split(seed)
    return problem.X[train], problem.y[train], problem.X[test], problem.y[test]


def defaults(folder: Path, splits: int, repeats: int) -> None:
    for racing, what in ((True, "the default"), ("training", "kinds that lose are not trained")):
        print(f"\n**The default fit, racing={racing!r} ({what}) against racing=False**\n\n{HEADER}")
        compare_defaults(folder, splits, repeats, racing)


def compare_defaults(folder: Path, splits: int, repeats: int, racing: bool | str) -> None:
    rows = []
    for name in NAMES:
        problem = load(name, folder)
        for seed in range(splits):
            data, settings = split(problem, seed), {"racing": racing, "random_state": seed}
            rows.append(compare(f"{name}, split {seed}", data, None, repeats, **settings))
    total, mean = np.sum(rows, axis=0), np.mean(rows, axis=0)
    error = np.std(rows, axis=0) / len(rows) ** 0.5
    print(
        f"\nAll: {total[0]:.2f} s against {total[1]:.2f} s, {total[1] / total[0]:.2f} times; of the processor "
        f"{total[3] / total[2]:.2f} times. Mean difference of bounds {mean[4]:+.5f} (standard error {error[4]:.5f}), "
        f"of test losses {mean[5]:+.5f} ({error[5]:.5f})."
    )


def pools(folder: Path, splits: int, repeats: int) -> None:
    print(f"\n**One pool of the paper's size, m = n, r = d + 1, all rows**\n\n{HEADER}")
    for name in NAMES:
        problem = load(name, folder)
        settings = {"n_hypotheses": problem.n, "subsample_size": "paper", "holdout": None}
        compare(name, split(problem, 0), RBFSVMPool(scaler=None), repeats, **settings)


def waveform(folder: Path | None, splits: int, repeats: int) -> None:
    print(f"\n**Waveform, n = 100,000, m = 5000, r = 41**\n\n{HEADER}")
    data = (*waveforms(100_000), *waveforms(4000, seed=1))
    settings = {"n_hypotheses": 5000, "subsample_size": 41, "holdout": None}
    compare("waveform", data, RBFSVMPool(scaler=None), 1, **settings)


def rivals(folder: Path | None, splits: int, repeats: int) -> None:
    n, m, r = 2000, 2000, 41
    X, y = waveforms(n)
    settings = {"n_hypotheses": m, "subsample_size": r, "holdout": None}
    unscaled, scaled = RBFSVMPool(scaler=None), RBFSVMPool(scaler="minmax")
    model = fit(X, y, unscaled, **settings)
    points = waveforms(2000, seed=1)[0]
    tasks: list[tuple[str, Callable[[], Any]]] = [
        ("pacbayes, racing", lambda: fit(X, y, unscaled, **settings)),
        ("pacbayes, racing=False", lambda: fit(X, y, unscaled, racing=False, **settings)),
        ("pacbayes, scaled by subsample", lambda: fit(X, y, scaled, **settings)),
        ("pacbayes, all defaults (two votes, r to 1040)", lambda: fit(X, y)),
        ("pacbayes, all defaults, racing='training'", lambda: fit(X, y, racing="training")),
        ("SVC loop", lambda: one_by_one(SVC, X, y, m, r)),
        (f"cross-validated SVM, n_jobs={JOBS}", lambda: cross_validated_svm(X, y, JOBS)),
        ("predict 2000 points", lambda: model.predict(points)),
        ("predict_proba 2000 points", lambda: model.predict_proba(points)),
    ]
    print(f"\n**n = {n}, d = 40, r = {r}, m = {m}**\n")
    print("| | seconds | ratio | processor | ratio |\n|---|---:|---:|---:|---:|")
    reference = None
    for name, task in tasks:
        wall, cpu, _ = measure(task, 5 if name.startswith("p") else 1)
        reference = reference or (wall, cpu)
        print(f"| {name} | {wall:.4f} | {wall / reference[0]:.1f} | {cpu:.4f} | {cpu / reference[1]:.1f} |", flush=True)


def million(folder: Path | None, splits: int, repeats: int) -> None:
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import scale; scale.one_million()"
    print("\n**n = 1,000,000, m = 100,000, d = 40, r = 41, in a fresh process**\n")
    subprocess.run([sys.executable, "-c", program], check=True)


def one_million(n: int = 1_000_000, m: int = 100_000) -> None:
    X, y = waveforms(n)
    settings = {"n_hypotheses": m, "subsample_size": 41, "holdout": None}
    wall, cpu, model = measure(lambda: fit(X, y, RBFSVMPool(scaler=None), **settings), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{wall:.1f} s, of the processor {cpu:.1f} s; {kernel_share(model.votes_[0]):.2%} of the kernel values; "
        f"{np.count_nonzero(~np.isnan(model.losses_))} validated in full; peak {peak:.2f} GiB; bound "
        f"{model.certificate_.bound:.4f}"
    )


def trees(folder: Path | None, splits: int, repeats: int) -> None:
    print(f"\n**Trees of a random forest (EstimatorPool), n = 20,000, m = 500**\n\n{HEADER}")
    data = (*waveforms(20_000), *waveforms(4000, seed=1))
    tree = DecisionTreeClassifier(max_features="sqrt")
    settings: dict[str, Any] = {"n_hypotheses": 500, "holdout": None, "n_jobs": None}
    compare("r = 41", data, EstimatorPool(tree), 1, subsample_size=41, **settings)
    compare("r = 41 to 1000", data, EstimatorPool(tree), 1, subsample_size=[41, 200, 1000], **settings)


PARTS = (defaults, pools, waveform, rivals, million, trees)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", choices=[part.__name__ for part in PARTS])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    for part in PARTS:
        if arguments.only in (None, part.__name__) and (arguments.folder or part not in (defaults, pools)):
            part(arguments.folder, arguments.splits, arguments.repeats)


if __name__ == "__main__":
    main()
