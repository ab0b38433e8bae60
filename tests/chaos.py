"""Kill workers, and whole fits, at random times, and compare with what undisturbed fits give. Long: run it by hand.

    python tests/chaos.py [--fits 10] [--kills 20] [--restarts 10] [--rows 200000]

The first part fits on a local Dask cluster of two processes, whose workers are killed (SIGKILL, SIGSEGV, or closed
gracefully) at random times while they work; the second fits in a process of its own with a checkpoint, which is killed
at random times and started again. Every fit must give the certificate, losses and weights of the undisturbed one, to
the bit. Of the second part, the number of tasks that were begun but not kept when the process was killed is counted.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

SETTINGS = {"n_hypotheses": 60, "subsample_size": [50, 200, 800], "random_state": 0}


def write_rows(path: Path, n: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10), dtype=np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(n) > 0).astype(np.int8)
    columns = {f"x{j}": X[:, j] for j in range(10)} | {"label": y}
    pq.write_table(pa.table(columns), path, row_group_size=max(1000, n // 40))


def summary(model: Any) -> str:
    """Digest of all that a fit gave."""
    digest = hashlib.sha256()
    for vote in model.votes_:
        for array in (vote.losses, vote.seen, vote.posterior):
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(vote.certificate.to_json().encode())
    return digest.hexdigest()


def fit(path: Path, **settings: Any) -> str:
    from pacbayes import PACBayesClassifier
    from pacbayes.pools import RBFSVMPool

    return summary(PACBayesClassifier(RBFSVMPool(), **SETTINGS, **settings).fit(path, "label"))


def disturb(client: Any, kills: int, seconds: float, stop: threading.Event, done: list[str]) -> None:
    """Lose workers at random times: killed, by a segmentation fault, or gracefully."""
    rng = np.random.default_rng(1)
    while len(done) < kills:
        if stop.wait(rng.exponential(seconds)):
            return
        how = ("SIGKILL", "SIGSEGV", "graceful")[len(done) % 3]
        try:
            workers = client.run(os.getpid, on_error="ignore")
            if not workers:
                continue
            address = rng.choice(sorted(workers))
            if how == "graceful":
                client.retire_workers([address], close_workers=True)
            else:
                os.kill(workers[address], getattr(signal, how))
            done.append(how)
        except (OSError, TimeoutError, ValueError):
            continue


def chaos_on_a_cluster(path: Path, fits: int, kills: int, expected: str) -> None:
    from distributed import Client, LocalCluster

    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(**settings) as cluster, Client(cluster), Client(cluster, set_as_default=False) as other:
        start = time.perf_counter()
        assert fit(path) == expected, "a cluster gives other bits than one machine"
        seconds = time.perf_counter() - start
        cluster.adapt(minimum=2, maximum=2, interval="500ms")  # one that left for good is replaced
        stop, done = threading.Event(), []
        # Somewhat more often than needed: a worker that is just coming up cannot be lost.
        thread = threading.Thread(target=disturb, args=(other, kills, fits * seconds / kills / 2, stop, done))
        thread.start()
        same, count = 0, 0
        while count < fits or (thread.is_alive() and count < 4 * fits):
            same += fit(path) == expected
            count += 1
        stop.set()
        thread.join()
    print(f"cluster: {len(done)} workers lost ({', '.join(done)}); {same} of {count} fits identical", flush=True)
    assert same == count


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import chaos
import pacbayes.fitting._workers as workers
save, log = workers._save, open({log!r}, "a", buffering=1)
run = workers._run_and_save
def logged(function, checkpoint, encode, name, common, *task):
    log.write("begun " + name + "\\n")
    result = run(function, checkpoint, encode, name, common, *task)
    log.write("kept " + name + "\\n")
    return result
workers._run_and_save = logged
print(chaos.fit(Path({path!r}), n_jobs=2, checkpoint={parts!r}))
"""


def chaos_on_one_machine(path: Path, restarts: int, expected: str, folder: Path) -> None:
    log, parts = folder / "log.txt", folder / "parts"
    script = SCRIPT.format(folder=str(Path(__file__).parent), log=str(log), path=str(path), parts=str(parts))
    command = [sys.executable, "-c", script]
    start = time.perf_counter()
    fit(path, n_jobs=2)
    seconds = time.perf_counter() - start
    rng = np.random.default_rng(2)
    kills, lost = 0, []
    for _ in range(restarts):
        before = log.read_text() if log.exists() else ""
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while process.poll() is None and (log.read_text() if log.exists() else "") == before:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, seconds / restarts * 1.5))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        lines = log.read_text()[len(before) :].splitlines() if log.exists() else []
        begun, kept = ({line.split()[1] for line in lines if line.startswith(word)} for word in ("begun", "kept"))
        lost.append(len(begun - kept))
    result = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    print(
        f"one machine: killed {kills} times; at most {max(lost)} tasks of 2 workers lost per kill; "
        f"{'identical' if result == expected else 'DIFFERENT'}",
        flush=True,
    )
    assert result == expected
    assert max(lost) <= 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=10)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--rows", type=int, default=200_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "rows.parquet"
        write_rows(path, arguments.rows)
        expected = fit(path)
        chaos_on_one_machine(path, arguments.restarts, expected, folder)
        chaos_on_a_cluster(path, arguments.fits, arguments.kills, expected)


if __name__ == "__main__":
    main()
