"""The CUDA engine beside the compiled one: the same bits, and the time they take.

Needs CuPy and a device. Checks first: machines trained on both engines, votes and counts of mistakes, with and without
the filter. Times are of the device alone, data on it and kernels compiled, medians of five.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np
from _results import make_parser, show

from pacbayes import PACBayesClassifier
from pacbayes.datasets import waveform
from pacbayes.pools import RBFSVMPool, _cuda, _device, _engine
from pacbayes.sampling import RandomSubsamples

ARRAYS = ("n_classes", "classes", "counts", "support", "coefficients", "intercepts", "gamma")
GRID = np.array([0.001, 0.01, 0.1, 1.0, 10.0])
TOLERANCE, STEPS = 1e-3, 10**8


def timed(task: Callable[[], Any], repeats: int = 5) -> tuple[float, Any]:
    """Median time of several runs after one to warm up, and what the last gave."""
    result = task()
    times = []
    for _ in range(repeats):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        result = task()
        cupy.cuda.Device().synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times)), result


def settings(m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.choice(GRID, m), rng.choice([10.0, 100.0, 1000.0], m)


def check(n: int, d: int, m: int, r: int, classes: int, dtype: type, scaler: str | None, offset: float) -> list[Any]:
    """Train, vote and count on both engines; return how many machines, votes and counts differ."""
    rng = np.random.default_rng([n, d, m, r, classes])
    X = np.ascontiguousarray(rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, d) + offset, dtype=dtype)
    labels = (X[:, :3] - X[:, :3].mean(axis=0)).sum(axis=1) + rng.normal(size=n)
    codes = np.searchsorted(np.quantile(labels, np.arange(1, classes) / classes), labels).astype(np.int32)
    parts = [np.sort(rng.choice(n, rng.integers(max(2, r // 2), r + 1), replace=False)) for _ in range(m)]
    rows, sizes = np.concatenate(parts).astype(np.int32), np.array([part.size for part in parts], dtype=np.int64)
    multipliers, C = settings(m)
    host = _engine.train(X, codes, rows, sizes, np.nan, multipliers, C, scaler, TOLERANCE, STEPS)
    device = _device.DeviceRows.of(X)
    trained = _cuda.train(device, codes, rows, sizes, np.nan, multipliers, C, scaler, TOLERANCE, STEPS, classes)
    result = trained.to_host()
    same = [
        name
        for name in (*ARRAYS, *(["scale"] if scaler else []))
        if host[name].shape == result[name].shape and np.array_equal(host[name], result[name])
    ]
    bits = len(same) == len(ARRAYS) + bool(scaler)
    # The host's machines on both engines.
    scale = host["scale"].reshape(m, d) if scaler else None
    points = X.astype(np.float64)
    ensemble = _engine.Ensemble(*(host[name] for name in ARRAYS), scale)
    votes, certain = np.empty((m, n), dtype=np.uint16), np.empty((m, n), dtype=np.uint8)
    _engine.vote(X, points, ensemble, 2**28, votes, certain)
    mistakes = np.empty(m, dtype=np.int64)
    _engine.count_mistakes(X, codes, 0, points, ensemble, rows, sizes, 2**28, mistakes)
    machines = _cuda.DeviceMachines.of(*(host[name] for name in ARRAYS), scale, points)
    seen, uncertain = machines.vote(device)
    at = cupy.asarray(np.concatenate(([0], np.cumsum(sizes))))
    inside, truth = cupy.asarray(rows), cupy.asarray(codes)
    counts = [machines.count_mistakes(device, truth, at, inside, use_filter=f).get() for f in (True, False)]
    halves = sum(
        machines.count_mistakes(device, truth, at, inside, first=a, stop=b).get() for a, b in ((0, n // 3), (n // 3, n))
    )
    own = trained.count_mistakes(device, truth, at, inside).get()
    return [
        bits or sorted(set(ARRAYS) - set(same)),
        int(np.count_nonzero(seen != votes)),
        int(np.count_nonzero(uncertain != (certain == 0))),
        int(np.count_nonzero(counts[0] != mistakes)),
        int(np.count_nonzero(counts[1] != mistakes)),
        int(np.count_nonzero(halves != mistakes)),
        int(np.count_nonzero(own != mistakes)),
        int(np.count_nonzero(certain == 0)),
    ]


def share_marked(machines: Any, X: Any, codes: Any) -> float:
    """Share of decision values that the filter leaves to double precision."""
    everyone = np.arange(len(machines), dtype=np.int32)
    for rows, part, packed in machines._parts(X, codes, range(min(len(X), 1 << 16)), everyone, True):
        count = part.stop - part.start
        masks = packed.filter_rows({"errors": cupy.zeros(count, dtype=np.int32), "sign": 1})
        bits = np.bitwise_count(masks[: min(count, 2000)].get()).sum()
        return float(bits) / (min(count, 2000) * len(rows))
    raise AssertionError("no parts")


def gather(at: Any, inside: Any, chosen: Any) -> tuple[Any, Any]:
    """Training rows of chosen machines, and where those of each begin; all subsamples have the same size."""
    size = inside.size // (at.size - 1)
    rows = inside.reshape(-1, size)[chosen].ravel()
    return rows, cupy.arange(chosen.size + 1, dtype=np.int64) * size


def race(machines: Any, X: Any, codes: Any, at: Any, inside: Any, block: int = 256) -> tuple[Any, Any, int]:
    """Validate in doubling blocks; drop machines whose loss is above the best one's by 30 / n and noise.

    The noise is that of `racing.DropRule`: standard errors of the difference of two losses at the rows not seen yet.
    """
    n = len(X)
    alive = cupy.arange(len(machines), dtype=np.int32)
    errors = cupy.zeros(len(machines), dtype=np.int64)
    seen, pairs = 0, 0
    while seen < n:
        stop = min(n, max(block, 2 * seen)) if alive.size > 64 else n
        rows, starts = gather(at, inside, alive)
        found = machines.count_mistakes(X, codes, starts, rows, first=seen, stop=stop, chosen=alive)
        errors[alive] += found
        pairs += int(alive.size) * (stop - seen)
        seen = stop
        if seen < n:
            loss = errors[alive] / seen
            best = loss.min()
            unseen = 1 - seen / n
            noise = 3.5 * cupy.sqrt(unseen * (loss + best + 1 / seen) / seen) + unseen * 3.5**2 / (3 * seen)
            alive = alive[loss <= best + 30 / n + noise]
    return alive, errors, pairs


CASES = [
    (3000, 40, 200, 41, 2, np.float64, None, 0.0),
    (3000, 40, 200, 41, 2, np.float32, "standard", 0.0),
    (2000, 7, 100, 30, 2, np.float64, "minmax", 1e6),
    (2000, 100, 60, 300, 2, np.float32, None, 0.0),
    (1500, 21, 60, 60, 4, np.float64, "standard", 3.0),
    (3000, 11, 12, 1400, 2, np.float64, "standard", 0.0),
]
CHECKS = ("n, d, m, r, classes, type, scaler, offset", "bits of training", "votes", "uncertain votes", "counts")
CHECKS += ("unfiltered", "blocks", "own", "uncertain", "seconds")
RACES = ("", "scaler", "draw", "train", "race", "pairs", "left", "best survives", "equal", "full", "marked", "CPU")
RACES += ("support vectors",)
FITS = ("fit", "two cores", "device", "times", "losses", "bound", "labels")


def check_all() -> Iterator[tuple[object, ...]]:
    """Yield what differs between the engines, for each case."""
    for case in CASES:
        start = time.perf_counter()
        differing = check(*case)
        described = ", ".join(str(getattr(value, "__name__", value)) for value in case)
        yield described, *differing, f"{time.perf_counter() - start:.1f}"


def measure_all(quick: bool) -> Iterator[tuple[object, ...]]:
    for n, m in ((100_000, 5000),) if quick else ((100_000, 5000), (1_000_000, 100_000)):
        yield from measure(n, m, 41)


def measure_fits(quick: bool) -> Iterator[tuple[object, ...]]:
    yield measure_fit(2000, 2000, 41)
    yield measure_default(2000)
    if not quick:
        for racing in (True, False):
            yield measure_fit(200_000, 2000, 41, racing=racing)
        yield measure_default(200_000)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="checks and small sizes only")
    arguments = parser.parse_args()
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    on = f"{name}, CuPy {cupy.__version__}, {_engine.instructions}"
    for section, title, columns, rows in (
        ("checks", "differences between the engines", CHECKS, check_all()),
        ("races", "seconds of training and validation", RACES, measure_all(arguments.quick)),
        ("fits", "seconds of a fit", FITS, measure_fits(arguments.quick)),
    ):
        show(f"device, {section}", f"Device ({on}): {title}", columns, rows)


def measure_fit(n: int, m: int, r: int, **parameters: Any) -> tuple[object, ...]:
    """Time a whole fit: subsamples, training, validation, posterior and certificate, from arrays on the host."""
    data = waveform(n, random_state=0)
    parameters |= {"n_hypotheses": m, "subsample_size": r, "holdout": None}
    return compare_fits(f"n={n} m={m} r={r} {parameters}", data.X / 4, data.y, scaler=None, **parameters)


def measure_default(n: int) -> tuple[object, ...]:
    data = waveform(n, random_state=0)
    return compare_fits(f"n={n}, all defaults", data.X / 4, data.y)


def compare_fits(
    title: str, X: Any, y: Any, scaler: Any = (None, "minmax", "standard"), **parameters: Any
) -> tuple[object, ...]:
    """Fit on two cores and on the device, and compare losses and bounds."""
    times, fits = {}, {}
    for engine, jobs in (("cpu", 2), ("cuda", 1)):
        pool = RBFSVMPool(engine=engine, scaler=scaler)
        model = PACBayesClassifier(pool, n_jobs=jobs, random_state=0, **parameters)
        times[engine], fits[engine] = timed(lambda model=model: model.fit(X, y), repeats=3 if len(y) < 10_000 else 1)
    equal = np.array_equal(fits["cpu"].losses_, fits["cuda"].losses_, equal_nan=True)
    same_bound = fits["cpu"].certificate_.bound == fits["cuda"].certificate_.bound
    labels = np.array_equal(fits["cpu"].predict(X[:5000]), fits["cuda"].predict(X[:5000]))
    seconds = f"{times['cpu']:.3f}", f"{times['cuda']:.3f}", f"{times['cpu'] / times['cuda']:.1f}"
    return title, *seconds, *("equal" if same else "differ" for same in (equal, same_bound, labels))


def measure(n: int, m: int, r: int) -> Iterator[tuple[object, ...]]:
    """Yield a row for rows as they are, and for rows scaled by subsample."""
    data = waveform(n, random_state=0)
    order = np.random.default_rng(0).permutation(n)
    X = np.ascontiguousarray(data.X / 4, dtype=np.float32)[order]
    codes = np.unique(data.y, return_inverse=True)[1].astype(np.int32)[order]
    start = time.perf_counter()
    subsamples = RandomSubsamples(n, [r], m, entropy=0)
    rows, sizes = subsamples.concatenated(range(m)), subsamples.sizes.astype(np.int64)
    drawing = time.perf_counter() - start
    multipliers, C = settings(m)
    device, truth = _device.DeviceRows.of(X), cupy.asarray(codes)
    at, inside = cupy.asarray(np.concatenate(([0], np.cumsum(sizes)))), cupy.asarray(rows)
    for scaler in (None, "standard"):
        arguments = (device, truth, inside, sizes, np.nan, multipliers, C, scaler, TOLERANCE, STEPS, 2)
        training, machines = timed(lambda arguments=arguments: _cuda.train(*arguments))
        racing, (alive, errors, pairs) = timed(
            lambda machines=machines: race(machines, device, truth, at, inside), repeats=3
        )
        full, counts = timed(lambda machines=machines: machines.count_mistakes(device, truth, at, inside), repeats=1)
        marked = share_marked(machines, device, truth)
        agree = bool((counts[alive] == errors[alive]).all())
        best_survives = bool((alive == counts.argmin()).any())
        # The same machines on the CPU, a few of them at some rows.
        some = np.random.default_rng(1).choice(m, 60, replace=False)
        few = min(n, 100_000)
        equal = compare_with_host(machines, sizes, X, codes, at.get(), rows, some, few, scaler, device, truth, inside)
        times = f"{drawing:.3f}", f"{training:.4f}", f"{racing:.4f}"
        raced = f"{pairs / n / m:.4%}", alive.size, best_survives, agree
        support = f"{machines.sizes['support'].mean():.1f}"
        yield f"n={n} m={m}", scaler, *times, *raced, f"{full:.3f}", f"{marked:.3%}", equal, support
        del machines
        _device.release()


def compare_with_host(
    machines: Any,
    sizes: Any,
    X: Any,
    codes: Any,
    at: Any,
    rows: Any,
    some: Any,
    few: int,
    scaler: Any,
    device: Any,
    truth: Any,
    inside: Any,
) -> str:
    """Count mistakes of some machines at the first rows on the CPU, and train them there."""
    arrays = machines.arrays
    multipliers, C = settings(sizes.size)
    parts = np.concatenate([rows[at[h] : at[h + 1]] for h in some])
    host = _engine.train(X, codes, parts, sizes[some], np.nan, multipliers[some], C[some], scaler, TOLERANCE, STEPS)
    intercepts, gamma = arrays["intercepts"].get()[some], arrays["gamma"].get()[some]
    same = int(
        np.count_nonzero((host["intercepts"] == intercepts[: host["intercepts"].size]) & (host["gamma"] == gamma))
    )
    used, support = np.unique(host["support"], return_inverse=True)
    scale = host["scale"].reshape(some.size, -1) if scaler else None
    named = dict(host, support=support.astype(np.int32))
    ensemble = _engine.Ensemble(*(named[name] for name in ARRAYS), scale)
    mistakes = np.empty(some.size, dtype=np.int64)
    points = X[used].astype(np.float64)
    _engine.count_mistakes(X[:few], codes[:few], 0, points, ensemble, parts, sizes[some], 2**28, mistakes)
    chosen = cupy.asarray(some.astype(np.int32))
    own, starts = gather(at, inside, chosen)
    found = machines.count_mistakes(device, truth, starts, own, stop=few, chosen=chosen).get()
    return f"trained equal {same}/{some.size}, counts equal {int(np.count_nonzero(found == mistakes))}/{some.size}"


if __name__ == "__main__":
    main()
