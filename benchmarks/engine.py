"""The engine of small RBF-SVMs beside what people use today: times, memory and how they grow.

    python benchmarks/engine.py [--repeats 3] [--only fit | large | predict | cold | growth] [--record]

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


def shortest(task: Callable[[], Any], repeats: int) -> float:
    """Shortest time of several runs."""
    return best(task, repeats)[1]


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


def table(part: str, title: str, rows: list[tuple[str, float]], reference: float) -> None:
    """Show times, and how many times longer than the reference."""
    cells = [(name, f"{seconds:.4f}", f"{seconds / reference:.1f}") for name, seconds in rows]
    show(f"engine, {part}", title, ("", "seconds", "ratio"), cells)


def fit(repeats: int) -> None:
    n, m, r = 2000, 2000, 41
    X, y = waveforms(n)
    intelex = intelex_svc()
    settings = {"n_hypotheses": m, "subsample_size": r}
    reference = shortest(lambda: ours(X, y, **settings), max(repeats, 5))
    rows = [(f"pacbayes, n_jobs={JOBS}", reference)]
    rows.append(("pacbayes, n_jobs=1", shortest(lambda: ours(X, y, n_jobs=1, **settings), repeats)))
    for title, pool in (
        ("pacbayes, widths of the paper", svms(gamma_source="sample")),
        ("pacbayes, scaled by subsample", svms(scaler="minmax")),
        ("pacbayes, balanced classes", svms(class_weight="balanced")),
    ):
        rows.append((title, shortest(lambda pool=pool: ours(X, y, pool, **settings), repeats)))
    single = X.astype(np.float32)
    rows.append(("pacbayes, float32 input", shortest(lambda: ours(single, y, **settings), repeats)))
    rows.append(("SVC loop", shortest(lambda: one_by_one(SVC, X, y, m, r), repeats)))
    halves = [delayed(one_by_one)(SVC, X, y, m // JOBS, r) for _ in range(JOBS)]
    Parallel(n_jobs=JOBS)([delayed(int)(0)] * JOBS)  # start the workers before timing them
    rows.append((f"SVC loop, {JOBS} processes", shortest(lambda: Parallel(n_jobs=JOBS)(halves), repeats)))
    rows.append(
        (f"BaggingClassifier(SVC), n_jobs={JOBS} (no validation)", shortest(lambda: bagging(X, y, m, r), repeats))
    )
    rows.append((f"cross-validated SVM, n_jobs={JOBS}", shortest(lambda: cross_validated_svm(X, y, JOBS), repeats)))
    if intelex:
        rows.append(("intelex SVC loop", shortest(lambda: one_by_one(intelex, X, y, m, r), repeats)))
        for jobs in (1, JOBS):
            seconds = shortest(lambda jobs=jobs: cross_validated_svm(X, y, jobs, intelex), repeats)
            rows.append((f"cross-validated intelex SVM, n_jobs={jobs}", seconds))
    table("fit", f"Fit, n = {n}, d = 40, r = {r}, m = {m}", rows, reference)
    defaults = shortest(lambda: all_defaults(X, y), max(repeats, 5))
    rows = [("pacbayes, all defaults", defaults), *(row for row in rows if row[0].startswith("cross"))]
    title = f"Fit with all defaults, n = {n}, d = 40 (two votes of 225 hypotheses, r = 125 to 1040)"
    table("defaults", title, rows, defaults)


def large(repeats: int) -> None:
    n, m, r = 2000, 400, 500
    X, y = waveforms(n)
    reference = shortest(lambda: ours(X, y, n_hypotheses=m, subsample_size=r), repeats)
    rows = [("pacbayes", reference), ("SVC loop", shortest(lambda: one_by_one(SVC, X, y, m, r), repeats))]
    intelex = intelex_svc()
    if intelex:
        rows.append(("intelex SVC loop", shortest(lambda: one_by_one(intelex, X, y, m, r), repeats)))
    table("large", f"Fit, n = {n}, d = 40, r = {r}, m = {m}", rows, reference)


def predict(repeats: int) -> None:
    n, m, r = 2000, 2000, 41
    X, y = waveforms(n)
    points, _ = waveforms(2000, seed=1)
    model = ours(X, y, n_hypotheses=m, subsample_size=r)
    _, reference, labels = best(lambda: model.predict(points), max(repeats, 5))
    _, everyone, shares = best(lambda: model.predict_proba(points), repeats)
    if not np.array_equal(labels, model.classes_[np.argmax(shares, axis=1)]):
        raise AssertionError("the vote that stops early is not the vote of all")
    bags, strong = bagging(X, y, m, r), cross_validated_svm(X, y, JOBS)
    table(
        "predict",
        f"Predict 2000 points, n = {n}, d = 40, r = {r}, m = {m}",
        [
            ("pacbayes, predict", reference),
            ("pacbayes, predict_proba (asks all voters with weight)", everyone),
            (f"BaggingClassifier(SVC), n_jobs={JOBS}", shortest(lambda: bags.predict(points), repeats)),
            ("cross-validated SVM (one machine)", shortest(lambda: strong.predict(points), repeats)),
        ],
        reference,
    )


def time_fit(n: int, m: int, r: int) -> tuple[float, float]:
    """Return the seconds of a fit in this process, and its peak memory in MiB."""
    X, y = waveforms(n)
    seconds = shortest(lambda: ours(X, y, n_hypotheses=m, subsample_size=r), 1)
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def time_search(n: int) -> float:
    X, y = waveforms(n)
    return shortest(lambda: cross_validated_svm(X, y, JOBS), 1)


def cold(repeats: int) -> None:
    statement = "from pacbayes import PACBayesClassifier"
    rows = [
        (name, min(in_fresh_process(script, call) for _ in range(repeats)))
        for name, script, call in (
            ("import pacbayes.PACBayesClassifier", "timeit", f"timeit({statement!r}, number=1)"),
            ("first fit after it, m = 2000, r = 41", "engine", "time_fit(2000, 2000, 41)[0]"),
            ("first cross-validated SVM", "engine", "time_search(2000)"),
        )
    ]
    table("cold", "Cold start, in a fresh process, n = 2000, d = 40", rows, rows[1][1])


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
