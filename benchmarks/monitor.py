"""How soon a monitor raises its alarm, beside MAPIE's RiskMonitoring, and how often it raises a false one.

    python -m pip install "mapie>=1.4"
    python benchmarks/monitor.py delay [--streams 400] [--record]
    python benchmarks/monitor.py false-alarms [--streams 10000] [--record]

The reference is a test of the classifier before it is used: errors among 500 points at a true error of 0.05, drawn anew
for every stream. Labels then arrive one by one, and both monitors look after each: delta 0.05, tolerance 0.05.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np
from _results import make_parser, show
from numpy.typing import NDArray
from scipy.special import betainc

from pacbayes import Monitor, certify
from pacbayes.bounds.sequences import LOG_STAKES, log_gains
from pacbayes.certificate import with_test

ERROR = TOLERANCE = DELTA = 0.05
N_REFERENCE = 500

# Points of a stream before nothing is expected any more.
LONGEST = 5000

# Streams that MAPIE is tried on, which computes each point anew, and streams that are held in memory at once.
MOST_MAPIE = 40
PART = 500

Flags = NDArray[np.bool_]


def thresholds(errors: NDArray[np.intp], n: int, delta: float) -> NDArray[np.float64]:
    """Return the threshold of a monitor for each number of errors in the reference."""
    certificate, _ = certify([0.5], n=n, delta=delta)
    known = {k: Monitor(with_test(certificate, k, n), TOLERANCE).threshold for k in np.unique(errors).tolist()}
    return np.array([known[k] for k in errors.tolist()])


def first_alarms(threshold: NDArray[np.float64], points: Flags, delta: float, batch: int = 1) -> NDArray[np.float64]:
    """Return after how many points of each row, in batches, an alarm is raised; infinity if it is not.

    As in `Monitor`, but for many streams at once, and without logarithms, which is faster: what underflows is lost.
    """
    at = np.full(threshold.size, np.inf)
    capital = np.zeros((threshold.size, LOG_STAKES.size))
    # What a point gains, that errs or does not.
    wrong, right = np.exp(log_gains([[1], [0]], 1, threshold))
    for i, begin in enumerate(range(0, points.shape[1], batch), start=1):
        part = points[:, begin : begin + batch]
        capital += 0.5 / max(1, i * (i - 1))
        if part.shape[1] == 1:
            capital *= np.where(part, wrong, right)
        else:
            # Whoever has won so much has won.
            capital *= np.exp(np.minimum(log_gains(part.sum(axis=1), part.shape[1], threshold), 100))
        at[(capital @ np.exp(LOG_STAKES) >= 2 / delta) & np.isinf(at)] = begin + part.shape[1]
        if np.isfinite(at).all():
            break
        np.minimum(capital, 1e100, out=capital)
    return at


def first_peeks(threshold: NDArray[np.float64], points: Flags, delta: float) -> NDArray[np.float64]:
    """Return the same of a broken monitor, which after each point looks at a limit that is meant for one look."""
    errors, n = np.cumsum(points, axis=1), np.arange(1, points.shape[1] + 1)
    # P(as many errors or more) at the threshold, by which Clopper and Pearson's lower limit is above it or not.
    tail = betainc(np.maximum(errors, 1), n - errors + 1, threshold[:, np.newaxis])
    above = (errors > 0) & (tail <= delta / 2)
    return np.where(above.any(axis=1), above.argmax(axis=1) + 1.0, np.inf)


def false_alarms(n_streams: int, n_points: int, n_reference: int, delta: float, seed: int = 0) -> tuple[float, float]:
    """Return how often the monitor, and the broken one, raise an alarm at the largest error that is tolerated."""
    counts = np.zeros(2)
    for part in range(0, n_streams, PART):
        rng = np.random.default_rng([seed, part])
        size = min(PART, n_streams - part)
        threshold = thresholds(rng.binomial(n_reference, ERROR, size), n_reference, delta)
        points = rng.random((size, n_points)) < ERROR + TOLERANCE
        counts += [np.isfinite(find(threshold, points, delta)).sum() for find in (first_alarms, first_peeks)]
    ours, peeked = (counts / n_streams).tolist()
    return ours, peeked


def mapie_alarms(errors: NDArray[np.intp], points: Flags) -> NDArray[np.float64]:
    """Return after how many points of each row MAPIE's monitor raises its alarm; infinity if it does not."""
    from mapie.exchangeability_testing import RiskMonitoring

    at = []
    for k, row in zip(errors.tolist(), points, strict=False):
        reference = np.arange(N_REFERENCE) < k
        monitor = RiskMonitoring("accuracy", test_level=DELTA, tolerance=TOLERANCE, warn=False)
        monitor.compute_threshold(np.zeros(N_REFERENCE, dtype=int), reference.astype(int))
        monitor.update(np.zeros(row.size, dtype=int), row.astype(int))
        above = np.flatnonzero(monitor.online_risk_lower_bound_sequence_history > monitor.threshold)
        at.append(above[0] + 1 if above.size else np.inf)
    return np.array(at)


def measure_delays(n_streams: int) -> Iterator[tuple[object, ...]]:
    rng = np.random.default_rng(0)
    for good in (0, 2000):
        for rate in (0.15, 0.2, 0.3):
            errors = rng.binomial(N_REFERENCE, ERROR, n_streams)
            points = rng.random((n_streams, good + LONGEST)) < np.repeat([ERROR, rate], [good, LONGEST])
            threshold = thresholds(errors, N_REFERENCE, DELTA)
            at = [
                first_alarms(threshold, points, DELTA),
                first_alarms(threshold, points, DELTA, batch=100),
                mapie_alarms(errors[:MOST_MAPIE], points),
            ]
            ours, batched, theirs = (np.median(alarms) - good for alarms in at)
            shown = [f"{x:.0f}" if np.isfinite(x) else f"none in {LONGEST}" for x in (ours, batched, theirs)]
            before = f"after {good} points at {ERROR}" if good else "from the first point"
            yield f"error {rate} {before}", *shown, f"{ours / theirs:.2f}" if np.isfinite(theirs) else "-"


def measure_false_alarms(n_streams: int) -> Iterator[tuple[object, ...]]:
    for n_reference in (N_REFERENCE, 100_000):
        for delta in (0.05, 0.3):
            ours, peeked = false_alarms(n_streams, 3000, n_reference, delta)
            yield f"delta {delta}, reference of {n_reference} points", f"{ours:.4f}", f"{peeked:.4f}"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("what", choices=["delay", "false-alarms"])
    parser.add_argument("--streams", type=int, default=400)
    arguments = parser.parse_args()
    n = arguments.streams
    if arguments.what == "delay":
        show(
            "monitor, delay",
            f"Labelled points until the alarm, median of {n} streams ({MOST_MAPIE} for MAPIE)",
            ("", "Monitor", "Monitor, in batches of 100", "MAPIE's RiskMonitoring", "Monitor / MAPIE"),
            measure_delays(n),
            f"Error {ERROR} on {N_REFERENCE} reference points, tolerance {TOLERANCE}, delta {DELTA}; "
            f"MAPIE {version('mapie')}.",
        )
    else:
        show(
            "monitor, false alarms",
            f"False alarms in {n} streams of 3000 points at the largest error that is tolerated",
            ("", "Monitor", "broken: a fixed-n interval at every point"),
            measure_false_alarms(n),
            f"The error is {ERROR} in the reference and {ERROR + TOLERANCE:g} online, the tolerance {TOLERANCE}.",
        )


if __name__ == "__main__":
    main()
