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
from _results import in_fresh_process, make_parser, show

FEATURES = 30
_FILE_ROWS, _GROUP_ROWS = 1_250_000, 125_000
COLUMNS = ("rows", "fit, s", "processor, s", "reading", "peak, GiB", "predict, s", "reading", "peak, GiB", "bound")
# How each figure of a run is written, in the order of the columns.
FORMS = {
    "rows": "{:,}",
    "fit": "{:.1f}",
    "processor": "{:.1f}",
    "reading": "{:.0%}",
    "peak": "{:.2f}",
    "predict": "{:.1f}",
    "predict reading": "{:.0%}",
    "peak after predict": "{:.2f}",
    "bound": "{:.5f}",
}


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


def count_bytes() -> dict[str, int]:
    """Make the cluster count what it is sent: what tasks share, and the tasks."""
    import pickle

    from pacbayes.fitting import _workers

    sent = {"tasks": 0, "shared": 0, "number": 0}
    run = _workers.run_on_cluster

    def counted(client: Any, function: Any, common: Any, tasks: Any, name: str) -> Iterator[Any]:
        sent["shared"] += len(pickle.dumps(common))
        sent["tasks"] += sum(len(pickle.dumps(task)) for task in tasks)
        sent["number"] += len(tasks)
        return run(client, function, common, tasks, name)

    _workers.run_on_cluster = counted
    return sent


def run_on_cluster(folder: Path, n: int, m: int, jobs: int) -> dict[str, Any]:
    """Fit and predict on a local cluster."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        sent = count_bytes()
        figures = fit_and_predict(folder, n, m, jobs)
        return figures | {"sent": (sent["shared"] + sent["tasks"]) / 2**20}


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
    start, used = time.perf_counter(), time.process_time()
    model.fit(pattern, "label")
    fitted, cpu, reading = time.perf_counter() - start, time.process_time() - used, spent[0]
    fit_peak = peak()
    spent[0], start = 0.0, time.perf_counter()
    n_predicted = sum(labels.size for labels in model.predict_batches(pattern))
    predicted = time.perf_counter() - start
    return {
        "rows": n,
        "fit": fitted,
        "processor": cpu,
        "reading": reading / (fitted * jobs),
        "peak": fit_peak,
        "predict": predicted,
        "predict reading": spent[0] / (predicted * jobs),
        "peak after predict": peak(),
        "predicted": n_predicted,
        "bound": model.certificate_.bound,
        "full": [int(np.count_nonzero(~np.isnan(vote.losses))) for vote in model.votes_],
        "kernel values": [float((vote.seen * vote.subsamples.sizes).sum()) for vote in model.votes_],
    }


def exponent(rows: list[float], values: list[float]) -> float:
    """Slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(rows), np.log(values), 1)[0])


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
    columns = (*COLUMNS, "sent, MiB") if arguments.cluster else COLUMNS
    section = "sources, cluster" if arguments.cluster else "sources"
    show(section, title, columns, measure(arguments))


def measure(arguments: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """Yield the figures of each number of rows, in a process of its own; the last row has the exponents of growth."""
    forms = FORMS | {"sent": "{:.1f}"} if arguments.cluster else FORMS
    results = []
    for million in arguments.millions:
        run = "run_on_cluster" if arguments.cluster else "fit_and_predict"
        settings = f"{int(million * 1e6)}, {arguments.hypotheses}, {arguments.jobs}"
        one = in_fresh_process("sources", f"{run}(sources.Path({str(arguments.folder)!r}), {settings})")
        results.append(one)
        yield tuple(form.format(one[key]) for key, form in forms.items())
    if len(results) > 1:
        rows = [one["rows"] for one in results]
        growing = ("fit", "processor", "peak", "predict", "peak after predict")
        yield (
            "exponent",
            *(
                f"{exponent(rows, [one[key] for one in results]):.2f}" if key in growing else ""
                for key in list(forms)[1:]
            ),
        )


if __name__ == "__main__":
    main()
