"""Tables with text and gaps, larger than the memory: Parquet files in Python, and a CSV file from the shell.

    python benchmarks/large_tables.py FOLDER [--rows 2000000] [--csv-megabytes 1000] [--hypotheses 90] [--memory]

Files are made under FOLDER unless they are there: five columns of numbers, two of them with gaps, a date, and three
columns of text with 8, 200 and 5000 categories and gaps. Every fit and every prediction is a process of its own, whose
time and peak memory are what the system says. With --memory, the same rows are also fitted as a data frame in memory,
and the certificates compared. The CSV file is fitted with a quarter of its size as --max-bytes, and predicted with
--stream.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

_FILE_ROWS = 500_000

_FIT = """
import sys, pandas as pd
from pacbayes import PACBayesClassifier
from pacbayes.pools import RBFSVMPool
from pacbayes.io import save_model
rows, model, kind, m, jobs = sys.argv[1:]
y = "label"
if kind == "memory":
    frame = pd.read_parquet(rows.rpartition("/")[0])
    rows, y = frame.drop(columns="label"), frame["label"].to_numpy()
fitted = PACBayesClassifier(RBFSVMPool(), n_hypotheses=int(m), n_jobs=int(jobs), random_state=0).fit(rows, y)
save_model(fitted, model)
open(model + ".json", "w").write(fitted.certificate_.to_json())
"""

_PREDICT = """
import sys
from pacbayes.io import load_model
rows, model, jobs = sys.argv[1:]
fitted, _ = load_model(model)
fitted.set_params(n_jobs=int(jobs))
print(sum(labels.size for labels in fitted.predict_batches(rows)))
"""


def make_rows(n: int, seed: int):
    """Numbers, a date and text, some of it missing; the label depends on some of each."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{j}": rng.standard_normal(n).round(4) for j in range(5)})
    frame["since"] = np.datetime64("2015-01-01", "s") + rng.integers(0, 3 * 10**8, n).astype("timedelta64[s]")
    effects = np.random.default_rng(0)
    score = frame["x0"] + frame["x1"] * frame["x2"] + 0.3 * rng.standard_normal(n)
    for name, count in (("plan", 8), ("city", 200), ("product", 5000)):
        codes = rng.integers(0, count, n)
        score += effects.normal(0, 0.7 if count < 1000 else 0.2, count)[codes]
        frame[name] = np.array([f"{name} {k}" for k in range(count)], dtype=object)[codes]
    frame["label"] = np.where(score > 0, "yes", "no")
    for name in ("x1", "x3", "plan", "city", "product"):
        frame.loc[rng.random(n) < 0.05, name] = None
    return frame


def make_parquet(folder: Path, n: int) -> str:
    """Write Parquet files, and return their pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(-(-n // _FILE_ROWS)):
        path = folder / f"part-{k:03d}.parquet"
        if not path.exists():
            make_rows(min(_FILE_ROWS, n - k * _FILE_ROWS), seed=k).to_parquet(path, row_group_size=100_000)
    return str(folder / "*.parquet")


def make_csv(path: Path, megabytes: int) -> Path:
    """Write a CSV file of about this size."""
    k = 0
    while not path.exists() or path.stat().st_size < megabytes * 10**6:
        make_rows(100_000, seed=1000 + k).to_csv(path, mode="a", header=k == 0, index=False)
        k += 1
    return path


def measure(what: str, command: list[str]) -> None:
    """Run a process, and print a row of the table."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(f"{what} failed")
    print(
        f"| {what} | {wall:.1f} | {usage.ru_utime + usage.ru_stime:.1f} | {usage.ru_maxrss / 2**20:.2f} |", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--csv-megabytes", type=int, default=1000)
    parser.add_argument("--hypotheses", type=int, default=90)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    m, jobs = str(given.hypotheses), str(given.jobs)
    streamed, memory = (str(given.folder / f"{name}.skops") for name in ("streamed", "memory"))
    print("| | seconds | processor, s | peak, GiB |\n|---|---:|---:|---:|")
    if given.rows:
        rows = make_parquet(given.folder / f"rows-{given.rows}", given.rows)
        what = f"{given.rows:,} rows in Parquet files"
        measure(f"fit, {what}", [sys.executable, "-c", _FIT, rows, streamed, "blocks", m, jobs])
        measure(f"predict, {what}", [sys.executable, "-c", _PREDICT, rows, streamed, jobs])
        if given.memory:
            measure(
                f"fit, {given.rows:,} rows in memory", [sys.executable, "-c", _FIT, rows, memory, "memory", m, jobs]
            )
            same = Path(f"{streamed}.json").read_bytes() == Path(f"{memory}.json").read_bytes()
            print(f"certificates are {'the same' if same else 'DIFFERENT'}")
    if given.csv_megabytes:
        data = str(make_csv(given.folder / f"rows-{given.csv_megabytes}.csv", given.csv_megabytes))
        program, model = [sys.executable, "-m", "pacbayes"], str(given.folder / "csv.skops")
        what = f"CSV of {given.csv_megabytes} MB"
        how = ["--n-hypotheses", m, "--jobs", jobs, "--max-bytes", str(given.csv_megabytes * 250_000)]
        fit = [*program, "fit", data, "--target", "label", "--estimator", "svm", "-o", model, *how]
        measure(f"pacbayes fit, {what}", fit)
        output = str(given.folder / "predicted.parquet")
        measure(f"pacbayes predict, {what}", [*program, "predict", model, data, "-o", output, "--stream"])


if __name__ == "__main__":
    main()
