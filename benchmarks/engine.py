"""The engine of small RBF-SVMs beside what people use today: times, memory and how they grow.

Needs `pip install scikit-learn-intelex` for the rows named after it. Every row is measured in this process, side by
side, best of three; cold starts and peak memory in a fresh process each. Data are two of Breiman's waveforms, from
their generator.
A fit is training, validation, posterior and certificate; the strict default of kernel widths from each subsample.
"""

from __future__ import annotations

import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _results import best, in_fresh_process, make_parser, show
from joblib import Parallel, delayed
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from pacbayes import PACBayesClassifier
from pacbayes.certificate import certify
from pacbayes.datasets import waveform
from pacbayes.paper.experiments import cross_validated_svm
from pacbayes.pools import GAMMA_GRID, RBFSVMPool, jaakkola_gamma
from pacbayes.sampling import RandomSubsamples

JOBS = 2


def waveforms(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two of Breiman's three classes of noisy waves, with 19 features of noise: d = 40, scaled to about [-1, 1]."""
    data = waveform(n, random_state=seed)
    return data.X / 4, data.y


def svms(**settings: Any) -> RBFSVMPool:
    """The paper's widths and soft margins, unscaled, as the loops below train them."""
    return RBFSVMPool(**{"gamma_grid": tuple(GAMMA_GRID), "scaler": None, "assignment": "drawn", **settings})


def ours(X: np.ndarray, y: np.ndarray, pool: RBFSVMPool | None = None, **settings: Any) -> PACBayesClassifier:
    """One vote of all rows, validated, weighted and certified."""
    model = PACBayesClassifier(pool or svms(), holdout=None, random_state=0, **{"n_jobs": JOBS, **settings})
    return model.fit(X, y)


def all_defaults(X: np.ndarray, y: np.ndarray) -> PACBayesClassifier:
    return PACBayesClassifier(RBFSVMPool(), random_state=0, n_jobs=JOBS).fit(X, y)


def one_by_one(svc: Any, X: np.ndarray, y: np.ndarray, m: int, r: int) -> Any:
    """The plain loop: fit on r points, predict the others, m times; then posterior and certificate."""
    rng = np.random.default_rng(0)
    losses = []
    for subsample in RandomSubsamples(y.size, [r], m, entropy=0):
        rest = np.setdiff1d(np.arange(y.size), subsample, assume_unique=True)
        X_h, y_h = X[subsample], y[subsample]
        gamma = jaakkola_gamma(X_h, y_h) * rng.choice(GAMMA_GRID)
        predicted = svc(C=rng.choice([10.0, 100.0, 1000.0]), gamma=gamma).fit(X_h, y_h).predict(X[rest])
        losses.append(np.mean(predicted != y[rest]))
    return certify(np.array(losses), y.size - r)


def bagging(X: np.ndarray, y: np.ndarray, m: int, r: int) -> BaggingClassifier:
    svc = SVC(C=100.0, gamma=jaakkola_gamma(X, y))
    return BaggingClassifier(svc, n_estimators=m, max_samples=r, bootstrap=False, n_jobs=JOBS, random_state=0).fit(X, y)


def intelex_svc() -> Any:
    """scikit-learn-intelex's SVC, or None."""
    try:
        import sklearnex.svm
    except ImportError:
        print("scikit-learn-intelex is not installed: its rows are left out", file=sys.stderr)
        return None
    return sklearnex.svm.SVC


Tasks = dict[str, Callable[[], Any]]


def time_all(tasks: Tasks, repeats: int) -> dict[str, float]:
    """Shortest times of tasks; that of the first, which others are compared with, of at least five runs."""
    return {name: best(task, repeats if k else max(repeats, 5))[1] for k, (name, task) in enumerate(tasks.items())}


def table(part: str, title: str, times: dict[str, float]) -> None:
    """Show times, and how many times longer than the first."""
    first, *_ = times.values()
    cells = [(name, f"{seconds:.4f}", f"{seconds / first:.1f}") for name, seconds in times.items()]
    show(f"engine, {part}", title, ("", "seconds", "ratio"), cells)


def fit(repeats: int) -> None:
    n, m, r = 2000, 2000, 41
    X, y = waveforms(n)
    settings = {"n_hypotheses": m, "subsample_size": r}
    single, halves = X.astype(np.float32), [delayed(one_by_one)(SVC, X, y, m // JOBS, r) for _ in range(JOBS)]
    tasks: Tasks = {
        f"pacbayes, n_jobs={JOBS}": lambda: ours(X, y, **settings),
        "pacbayes, n_jobs=1": lambda: ours(X, y, n_jobs=1, **settings),
        "pacbayes, racing=False": lambda: ours(X, y, racing=False, **settings),
        "pacbayes, widths of the paper": lambda: ours(X, y, svms(gamma_source="sample"), **settings),
        "pacbayes, scaled by subsample": lambda: ours(X, y, svms(scaler="minmax"), **settings),
        "pacbayes, balanced classes": lambda: ours(X, y, svms(class_weight="balanced"), **settings),
        "pacbayes, float32 input": lambda: ours(single, y, **settings),
        "SVC loop": lambda: one_by_one(SVC, X, y, m, r),
        f"SVC loop, {JOBS} processes": lambda: Parallel(n_jobs=JOBS)(halves),
        f"BaggingClassifier(SVC), n_jobs={JOBS} (no validation)": lambda: bagging(X, y, m, r),
    }
    searches: Tasks = {f"cross-validated SVM, n_jobs={JOBS}": lambda: cross_validated_svm(X, y, JOBS)}
    if intelex := intelex_svc():
        tasks["intelex SVC loop"] = lambda: one_by_one(intelex, X, y, m, r)
        for jobs in (1, JOBS):
            name = f"cross-validated intelex SVM, n_jobs={jobs}"
            searches[name] = lambda jobs=jobs: cross_validated_svm(X, y, jobs, intelex)
    Parallel(n_jobs=JOBS)([delayed(int)(0)] * JOBS)  # start the workers before timing them
    times, of_searches = time_all(tasks, repeats), time_all(searches, repeats)
    table("fit", f"Fit, n = {n}, d = 40, r = {r}, m = {m}", times | of_searches)
    defaults = time_all({"pacbayes, all defaults": lambda: all_defaults(X, y)}, repeats)
    title = f"Fit with all defaults, n = {n}, d = 40 (two votes of 225 hypotheses, r = 125 to 1040)"
    table("defaults", title, defaults | of_searches)


def large(repeats: int) -> None:
    n, m, r = 2000, 400, 500
    X, y = waveforms(n)
    tasks: Tasks = {
        "pacbayes": lambda: ours(X, y, n_hypotheses=m, subsample_size=r),
        "SVC loop": lambda: one_by_one(SVC, X, y, m, r),
    }
    if intelex := intelex_svc():
        tasks["intelex SVC loop"] = lambda: one_by_one(intelex, X, y, m, r)
    table("large", f"Fit, n = {n}, d = 40, r = {r}, m = {m}", time_all(tasks, repeats))


def predict(repeats: int) -> None:
    n, m, r = 2000, 2000, 41
    X, y = waveforms(n)
    points, _ = waveforms(2000, seed=1)
    model = ours(X, y, n_hypotheses=m, subsample_size=r)
    if not np.array_equal(model.predict(points), model.classes_[np.argmax(model.predict_proba(points), axis=1)]):
        raise AssertionError("the vote that stops early is not the vote of all")
    bags, strong = bagging(X, y, m, r), cross_validated_svm(X, y, JOBS)
    tasks: Tasks = {
        "pacbayes, predict": lambda: model.predict(points),
        "pacbayes, predict_proba (asks all voters with weight)": lambda: model.predict_proba(points),
        f"BaggingClassifier(SVC), n_jobs={JOBS}": lambda: bags.predict(points),
        "cross-validated SVM (one machine)": lambda: strong.predict(points),
    }
    table("predict", f"Predict 2000 points, n = {n}, d = 40, r = {r}, m = {m}", time_all(tasks, repeats))


def time_fit(n: int, m: int, r: int) -> tuple[float, float]:
    """Return the seconds of a fit in this process, and its peak memory in MiB."""
    X, y = waveforms(n)
    _, seconds, _ = best(lambda: ours(X, y, n_hypotheses=m, subsample_size=r), 1)
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def time_search(n: int) -> float:
    X, y = waveforms(n)
    return best(lambda: cross_validated_svm(X, y, JOBS), 1)[1]


def cold(repeats: int) -> None:
    statement = "from pacbayes import PACBayesClassifier"
    calls = {
        "first fit after an import, m = 2000, r = 41": ("engine", "time_fit(2000, 2000, 41)[0]"),
        "import pacbayes.PACBayesClassifier": ("timeit", f"timeit({statement!r}, number=1)"),
        "first cross-validated SVM": ("engine", "time_search(2000)"),
    }
    times = {name: min(in_fresh_process(*call) for _ in range(repeats)) for name, call in calls.items()}
    table("cold", "Cold start, in a fresh process, n = 2000, d = 40", times)


def growth(repeats: int) -> None:
    title = "Growth, each in a fresh process; the exponent is that of the last doubling"
    show("engine, growth", title, ("", "seconds", "exponent", "peak MiB"), measure_growth(repeats))


def measure_growth(repeats: int) -> Iterator[tuple[str, ...]]:
    series = {
        "m": [(20_000, m, 41) for m in (500, 1000, 2000, 4000)],
        "n": [(n, 500, 41) for n in (25_000, 50_000, 100_000, 200_000)],
        "r": [(4000, 400, r) for r in (62, 125, 250, 500, 1000)],
    }
    for grows, settings in series.items():
        before = None
        for n, m, r in settings:
            runs = (in_fresh_process("engine", f"time_fit({n}, {m}, {r})") for _ in range(repeats))
            seconds, peak = min(runs if n < 200_000 else [next(runs)])
            exponent = "" if before is None else f"{np.log2(seconds / before):.2f}"
            yield f"{grows}: n = {n}, m = {m}, r = {r}", f"{seconds:.3f}", exponent, f"{peak:.0f}"
            before = seconds


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=["fit", "large", "predict", "cold", "growth"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for part in (fit, large, predict, cold, growth):
        if arguments.only in (None, part.__name__):
            part(arguments.repeats)


if __name__ == "__main__":
    main()
