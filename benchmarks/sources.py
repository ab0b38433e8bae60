"""Rows larger than the memory: 20,000,000 x 30 in Parquet files, one machine, and how time and memory grow.

Files are made under FOLDER (2.4 GB for 20 million rows) unless they are there. Each fit and each prediction runs in a
process of its own, whose peak memory is what the system says. "Reading" is the time that workers spend in reading and
decoding rows, as a share of the time of all workers. With --cluster, a local Dask cluster of as many processes does the
work, the processor time and the peak are those of the process that asks, and what it sends is counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _results import Clock, in_fresh_process, make_parser, show

FEATURES = 30
_FILE_ROWS, _GROUP_ROWS = 1_250_000, 125_000
# The columns: figures of a run, and how they are written.
COLUMNS = {
    "rows": "{:,}",
    "fit, s": "{:.1f}",
    "fit, processor, s": "{:.1f}",
    "fit, reading": "{:.0%}",
    "fit, peak GiB": "{:.2f}",
    "predict, s": "{:.1f}",
    "predict, reading": "{:.0%}",
    "predict, peak GiB": "{:.2f}",
    "bound": "{:.5f}",
}
# Those that grow with the rows.
GROWING = ("fit, s", "fit, processor, s", "fit, peak GiB", "predict, s", "predict, peak GiB")


def problem(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal features; the label is the sign of a quadratic function with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, FEATURES), dtype=np.float32)
    weights = np.linspace(1, 0, FEATURES, dtype=np.float32)
    score = X @ weights + X[:, 0] * X[:, 1] + 0.7 * (X[:, 2] ** 2 - 1) + 0.5 * rng.standard_normal(n, dtype=np.float32)
    return X, (score > 0).astype(np.int8)


def make_files(folder: Path, n: int) -> None:
    """Write files of rows, unless they are there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for k in range(-(-n // _FILE_ROWS)):
        path = folder / f"part-{k:03d}.parquet"
        if not path.exists():
            X, y = problem(min(_FILE_ROWS, n - k * _FILE_ROWS), seed=k)
            columns = {f"x{j:02d}": X[:, j] for j in range(FEATURES)} | {"label": y}
            partial = path.with_suffix(".partial")
            pq.write_table(pa.table(columns), partial, row_group_size=_GROUP_ROWS, compression="none")
            partial.rename(path)


def time_reading() -> list[float]:
    """Make reading count its seconds, of all threads together."""
    from pacbayes.rows import ParquetSource

    spent = [0.0]
    read = ParquetSource.batches

    def timed(self: Any, start: int, stop: int, size: int) -> Iterator[Any]:
        batches = read(self, start, stop, size)
        while True:
            begin = time.perf_counter()
            batch = next(batches, None)
            spent[0] += time.perf_counter() - begin
            if batch is None:
                return
            yield batch

    ParquetSource.batches = timed  # type: ignore[method-assign]
    return spent


def count_bytes() -> list[int]:
    """Make the cluster count the bytes that it is sent: what tasks share, and the tasks."""
    import pickle

    from pacbayes.fitting import _workers

    sent, run = [0], _workers.run_on_cluster

    def counted(client: Any, function: Any, common: Any, tasks: Any, name: str) -> Iterator[Any]:
        sent[0] += len(pickle.dumps(common)) + sum(len(pickle.dumps(task)) for task in tasks)
        return run(client, function, common, tasks, name)

    _workers.run_on_cluster = counted
    return sent


def run_on_cluster(folder: Path, n: int, m: int, jobs: int) -> dict[str, Any]:
    """Fit and predict on a local cluster."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        sent = count_bytes()
        figures = fit_and_predict(folder, n, m, jobs)
        return figures | {"sent, MiB": sent[0] / 2**20}


def fit_and_predict(folder: Path, n: int, m: int, jobs: int) -> dict[str, Any]:
    """Return the figures of a fit and of the predictions of its rows."""
    import resource

    from pacbayes import PACBayesClassifier
    from pacbayes.pools import RBFSVMPool

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    files = n // _FILE_ROWS
    chosen = folder / f"first-{files}"
    chosen.mkdir(exist_ok=True)
    for k in range(files):
        link = chosen / f"part-{k:03d}.parquet"
        if not link.exists():
            link.symlink_to(Path("..") / link.name)
    pattern = str(chosen / "*.parquet")
    spent = time_reading()
    model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=m, n_jobs=jobs, random_state=0, verbose=1)
    clock = Clock()
    model.fit(pattern, "label")
    cpu, fitted = clock.read()
    figures = {"rows": n, "fit, s": fitted, "fit, processor, s": cpu, "fit, reading": spent[0] / (fitted * jobs)}
    figures |= {"fit, peak GiB": peak(), "bound": model.certificate_.bound}
    spent[0], clock = 0.0, Clock()
    for _ in model.predict_batches(pattern):
        pass
    predicted = clock.read()[1]
    reading = spent[0] / (predicted * jobs)
    return figures | {"predict, s": predicted, "predict, reading": reading, "predict, peak GiB": peak()}


def main() -> None:
    parser = make_parser(__doc__, folder=True)
    parser.add_argument("--millions", type=float, nargs="+", default=[1.25, 2.5, 5, 10, 20])
    parser.add_argument("--hypotheses", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cluster", action="store_true")
    arguments = parser.parse_args()
    make_files(arguments.folder, int(max(arguments.millions) * 1e6))
    where = "on a local cluster" if arguments.cluster else "in one process"
    title = f"Parquet files, {FEATURES} columns, {arguments.hypotheses} hypotheses per vote, {where}"
    columns = COLUMNS | ({"sent, MiB": "{:.1f}"} if arguments.cluster else {})
    section = "sources, cluster" if arguments.cluster else "sources"
    show(section, title, [*columns], measure(arguments, columns))


def measure(arguments: argparse.Namespace, columns: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the figures of each number of rows, in a process of its own; the last row has the exponents of growth."""
    results = []
    for million in arguments.millions:
        run = "run_on_cluster" if arguments.cluster else "fit_and_predict"
        settings = f"{int(million * 1e6)}, {arguments.hypotheses}, {arguments.jobs}"
        one = in_fresh_process("sources", f"{run}(sources.Path({str(arguments.folder)!r}), {settings})")
        results.append(one)
        yield tuple(form.format(one[column]) for column, form in columns.items())
    if len(results) > 1:
        rows, *others = columns
        slopes = {
            # Of a straight line through the logarithms.
            column: np.polyfit(np.log([one[rows] for one in results]), np.log([one[column] for one in results]), 1)[0]
            for column in GROWING
        }
        yield "exponent", *(f"{slopes[column]:.2f}" if column in slopes else "" for column in others)


if __name__ == "__main__":
    main()
