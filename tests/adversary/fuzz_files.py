"""Damage model files and tables at random, and use them: none may crash, leave a traceback, or take two gigabytes.

python tests/adversary/fuzz_files.py --models 10000 --tables 10000
"""

import argparse
import copy
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp
from crafting import nodes, npy, pack, unpack
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import pacbayes
from pacbayes import PACBayesClassifier
from pacbayes.exceptions import ModelFileError, PACBayesError, TableError
from pacbayes.io import ColumnEncoder, Table, inspect_table, load_model, read_losses, read_table, save_model
from pacbayes.pools import RBFSVMPool

MEMORY = 2 * 10**9
NUMBERS = [-1, 0, 1, 2, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**62, 2**63, -(2**31), 10**20, 0.5, -0.5, 1e308, 5e-324]
ODD = [*NUMBERS, None, True, "", "x", [], {}, float("nan"), float("inf"), "9" * 5000, "\x1b[2K", "\0", [[]], {"a": 1}]
TOKENS = [b'"', b",", b";", b"\t", b"\n", b"\r", b"\0", b"\xff", b"\xc3", b"nan", b"inf", b"-", b"1e999", b":"]
TOKENS += [b"#", b"9" * 30, b"7", b"."]


# ---------------------------------------------------------------------------------------------------
# What is damaged
# ---------------------------------------------------------------------------------------------------


def frame():
    """Return rows with numbers, text and gaps."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"size": rng.normal(size=60), "city": rng.choice(["Oslo", "Rome", "x,y"], 60)})
    rows["kind"] = np.where(rows["size"] + (rows["city"] == "Oslo") > 0.3, "wet", "dry")
    rows.loc[::9, "size"] = np.nan
    return rows


def raced(racing):
    """Fit a classifier that drops hypotheses, and with "training" has some that were not trained."""
    X, y = make_moons(3000, noise=0.1, random_state=0)
    pool = RBFSVMPool(gamma_grid=(0.001, 1.0, 1000.0), C=10.0, scaler=(None, "standard"))
    settings = {"n_hypotheses": 24, "subsample_size": [2, 12, 60], "holdout": None, "random_state": 0}
    model = PACBayesClassifier(pool, racing=racing, **settings).fit(X, y)
    assert model.certificate_.n_dropped
    assert racing is True or not model.n_validation_.all()
    return model


def write_models(folder):
    """Write models of several kinds."""
    dated = Table.from_frame(frame().assign(day=pd.date_range("2024-01-01", periods=60)), "kind")
    mixed = Table.from_frame(frame(), "kind")
    numbers = Table.from_frame(frame().assign(city=np.arange(60.0)).fillna(0.0), "kind")
    wide = sp.hstack([sp.csr_matrix(numbers.X.to_numpy()), sp.eye(60, 400)], format="csr")
    encoder = ColumnEncoder(["size"], ["city"], "standard")
    settings = {"n_hypotheses": 4, "subsample_size": 20, "random_state": 0}
    kinds = {
        "svms": (RBFSVMPool(scaler="standard"), numbers),
        "sparse": (None, wide),
        "table": (None, dated),
        "encoder": (make_pipeline(encoder, SVC()), mixed),
        "tree": (DecisionTreeClassifier(), numbers),
        "forest": (RandomForestClassifier(2), numbers),
        "neighbours": (KNeighborsClassifier(1, algorithm="brute"), numbers),
        "logistic": (make_pipeline(encoder, LogisticRegression()), mixed),
    }
    for name, (estimator, data) in kinds.items():
        X, schema = (data.X, data.schema) if isinstance(data, Table) else (data, None)
        model = PACBayesClassifier(estimator, **settings).fit(X, numbers.y)
        save_model(model, folder / f"{name}.skops", schema)
    for racing in (True, "training"):
        model = raced(racing)
        save_model(model, folder / f"raced {racing}.skops")
    model = PACBayesClassifier(SVC(), subsamples=[list(range(20)), list(range(30, 55))])
    save_model(model.fit(numbers.X, numbers.y), folder / "given.skops", numbers.schema)


def write_tables(folder):
    """Write tables of all formats."""
    rows = frame()
    rows.to_csv(folder / "data.csv", index=False)
    rows.to_csv(folder / "data.tsv", index=False, sep="\t")
    (folder / "lines.csv").write_bytes(b"\xef\xbb\xbf" + rows.assign(city="a\r\nb").to_csv(index=False).encode())
    rows.to_csv(folder / "commas.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    (folder / "latin.csv").write_bytes(rows.assign(city="é").to_csv().encode("latin-1"))
    for compression in ("gz", "bz2", "xz", "zip"):
        rows.to_csv(folder / f"data.csv.{compression}", index=False)
    (folder / "data.csv.zst").write_bytes(pa.compress(rows.to_csv(index=False).encode(), "zstd", asbytes=True))
    days = pd.date_range("2024-01-01", periods=60, tz="Europe/Oslo")
    rows.assign(day=days, date=days.date, span=days - days[0]).to_parquet(folder / "dates.parquet")
    for compression in ("none", "snappy", "gzip", "zstd", "brotli"):
        rows.to_parquet(folder / f"{compression}.parquet", compression=None if compression == "none" else compression)
    categories = rows.astype({"city": "category"}).assign(count=np.arange(60), open=rows["size"] > 0)
    categories.to_parquet(folder / "categories.parquet", use_dictionary=False, index=True)
    lines = [f"{i % 2} 1:{i / 7:.3f} {2 + i % 3}:{i}" for i in range(60)]
    (folder / "data.svm").write_text("\n".join(lines) + "\n")
    (folder / "losses.csv").write_text("loss\n" + "\n".join(str(i / 60) for i in range(60)))


# ---------------------------------------------------------------------------------------------------
# How it is damaged
# ---------------------------------------------------------------------------------------------------


def damage_bytes(data, rng):
    """Flip, cut, insert or repeat bytes."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        if rng.random() < 0.3:
            at = len(data) - min(len(data), int(rng.expovariate(1 / 200)))  # where formats have their index
        size = min(rng.choice([1, 1, 1, 2, 4, 8, 64]), len(data) - at)
        how = rng.randrange(6)
        if how == 0:
            data[at : at + size] = bytes(rng.randrange(256) for _ in range(size))
        elif how == 1:
            del data[at : at + size]
        elif how == 2:
            data[at:at] = rng.choice(TOKENS)
        elif how == 3:
            data[at:at] = data[at : at + size]
        elif how == 4:
            data[at : at + size] = bytes([rng.choice([0, 255])]) * size
        elif at < len(data):
            data[at] ^= 1 << rng.randrange(8)
    if rng.random() < 0.05:
        del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


def damage_array(content, rng):
    """Change the numbers, the shape or the type of an array."""
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:
        # Damaged before.
        return damage_bytes(content, rng)
    how = rng.randrange(7)
    if how == 0 or not isinstance(array, np.ndarray) or array.dtype.names:
        return damage_bytes(content, rng)
    if how == 1 and array.size:
        array = array.copy()
        with np.errstate(all="ignore"):
            array.flat[rng.randrange(array.size)] = np.array(float(rng.choice(NUMBERS))).astype(array.dtype)
    elif how == 2:
        array = array.ravel()[: rng.randrange(array.size + 1)]
    elif how == 3:
        array = array.astype(rng.choice(["<f8", "<f4", "<i4", "<i8", "|b1", "<u2", ">f8", "<c16", "<U3"]))
    elif how == 4:
        array = np.flip(array.T).copy()
    elif how == 5:
        array = np.concatenate([array.ravel(), array.ravel()])
    else:
        array = np.asfortranarray(array.reshape(-1, 1))
    return npy(array)


def places(value, path=()):
    """Yield the places of all values in a tree of lists and dicts."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def damage_schema(schema, members, rng):
    """Change what the schema of a model file says about its objects."""
    everything = list(nodes(schema))
    files = [node for node in everything if "file" in node]
    node = rng.choice(everything)
    how = rng.randrange(9)
    if how == 0:
        node[rng.choice(list(node))] = copy.deepcopy(rng.choice(ODD))
    elif how == 1:
        del node[rng.choice(list(node))]
    elif how == 2:
        other = copy.deepcopy(rng.choice(everything))
        node.clear()
        node.update(other)
    elif how == 3:
        key = rng.choice(["__class__", "__module__", "__loader__"])
        node[key] = rng.choice(everything)[key]
    elif how == 4:
        node["__id__"] = rng.choice(everything).get("__id__")
    elif how == 5 and files:
        rng.choice(files)["file"] = rng.choice([*members, "none"])
    elif how == 6:
        texts = [other for other in everything if other["__loader__"] == "JsonNode"]
        rng.choice(texts)["content"] = json.dumps(rng.choice(ODD))
    elif how == 7:
        path = rng.choice([path for path in places(schema) if path])
        target = schema
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = copy.deepcopy(rng.choice(ODD))
    else:
        lists = [other for other in everything if isinstance(other.get("content"), list)]
        if lists:
            content = rng.choice(lists)["content"]
            content[:] = content * 2 if rng.random() < 0.5 else content[:-1]


def damage_model(source, target, rng):
    """Write a damaged copy of a model file: of its bytes, or of what is in it, with an archive that is in order."""
    if rng.random() < 0.2:
        target.write_bytes(damage_bytes(source.read_bytes(), rng))
        return
    schema, members = unpack(source)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if rng.random() < 0.4 and members:
            name = rng.choice(list(members))
            members[name] = damage_array(members[name], rng)
        else:
            damage_schema(schema, members, rng)
    pack(target, schema, members)


# ---------------------------------------------------------------------------------------------------
# How it is used
# ---------------------------------------------------------------------------------------------------


def use_model(path, rng, row):
    """Load a model, predict and verify: what happened."""
    try:
        model, schema = load_model(path)
    except ModelFileError:
        return "refused"
    X = np.zeros((3, model.n_features_in_))
    if schema is not None:
        try:
            X = schema.apply(frame().fillna(0.0).assign(city="7"), allow_extra=True)
        except TableError:
            return "loaded, with another schema"
    try:
        model.predict(X)
        model.predict_proba(X)
        model.verify_certificate(model.certificate_)
        repr(model)
        model.predict_hypotheses(X)
    except (PACBayesError, ValueError):
        # One line for the command line's user.
        return "loaded, and refused the rows"
    return "loaded and used"


def use_table(path, rng, row):
    """Read a table: what happened."""
    try:
        if path.name.endswith("losses.csv"):
            read_losses(path)
        else:
            inspect_table(read_table(path, rng.choice(["kind", None]) if path.suffix != ".svm" else None))
    except TableError:
        return "refused"
    return "read"


def work(kind, folder, seed, start, stop):
    """Damage and use files, in a process whose memory is limited; say what happened, a line for each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    sources = sorted((folder / kind).iterdir())
    damage, use = (damage_model, use_model) if kind == "models" else (None, use_table)
    for case in range(start, stop):
        rng = random.Random(f"{kind} {seed} {case}")
        source = rng.choice(sources)
        target = folder / f"{os.getpid()}-{source.name}"
        if damage is None:
            target.write_bytes(damage_bytes(source.read_bytes(), rng))
        else:
            damage(source, target, rng)
        print(f"begin {case} {source.name}", flush=True)
        try:
            outcome = use(target, rng, case)
        except Exception as error:
            outcome = f"FAILED {type(error).__name__}: {error}"[:300].replace("\n", " ")
        # The most memory of this process; `getrusage` would count that of the one that started it.
        status = Path("/proc/self/status").read_text().split()
        memory = int(status[status.index("VmHWM:") + 1]) // 1024
        print(f"end {case} {memory} {outcome!r}", flush=True)
        target.unlink()


# ---------------------------------------------------------------------------------------------------
# Many of them
# ---------------------------------------------------------------------------------------------------


@dataclass
class Counts:
    """What happened to all of them; failures by kind and number; the most memory that a process took, in MiB."""

    models: Counter = field(default_factory=Counter)
    tables: Counter = field(default_factory=Counter)
    failures: list = field(default_factory=list)
    memory: int = 0


def start_worker(kind, folder, seed, start, stop):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(pacbayes.__file__).parents[1]),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "PYTHONFAULTHANDLER": "1",
    }
    command = [sys.executable, __file__, "--work", kind, str(folder), str(seed), str(start), str(stop)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def collect(kind, worker, counts):
    """Count what a worker said; return the number of the case that ended it before its time, or None."""
    output, errors = worker.communicate()
    begun = None
    outcomes = counts.models if kind == "models" else counts.tables
    for line in output.splitlines():
        word, case, rest = line.split(" ", 2)
        if word == "begin":
            begun = int(case)
            continue
        begun = None
        memory, outcome = rest.split(" ", 1)
        counts.memory = max(counts.memory, int(memory))
        outcome = outcome.strip("'\"")
        outcomes[outcome.split(" ")[0] if outcome.startswith("FAILED") else outcome] += 1
        if outcome.startswith("FAILED"):
            counts.failures.append((kind, int(case), outcome))
    if worker.returncode != 0:
        outcomes["FAILED"] += begun is not None
        counts.failures.append((kind, begun, f"exit code {worker.returncode}: {errors[-500:]}"))
    return begun


def run(models, tables, seed, jobs, folder, only=None):
    """Damage so many files, and count what happens."""
    for kind, number, write in (("models", models, write_models), ("tables", tables, write_tables)):
        (folder / kind).mkdir()
        if number:
            write(folder / kind)
    counts = Counts()
    for kind, number in (("models", models), ("tables", tables)):
        size = max(1, min(500, -(-number // jobs)))
        waiting = [(start, min(start + size, number)) for start in range(0, number, size)]
        if only is not None:
            waiting = [(only, only + 1)] if number else []
        while waiting:
            batch, waiting = waiting[:jobs], waiting[jobs:]
            workers = [(start_worker(kind, folder, seed, *part), part) for part in batch]
            for worker, (_, stop) in workers:
                crashed = collect(kind, worker, counts)
                if crashed is not None and crashed + 1 < stop:
                    waiting.append((crashed + 1, stop))
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=0)
    parser.add_argument("--tables", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", type=int, help="the number of one case")
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        kind, folder, *numbers = options.work
        work(kind, Path(folder), *map(int, numbers))
        return
    with tempfile.TemporaryDirectory() as folder:
        counts = run(options.models, options.tables, options.seed, options.jobs, Path(folder), options.only)
    for name in ("models", "tables"):
        print(name, dict(getattr(counts, name)))
    print(f"most memory of a process: {counts.memory} MiB")
    for kind, case, message in counts.failures:
        print(f"FAILED {kind} {case}: {message}")
    sys.exit(bool(counts.failures))


if __name__ == "__main__":
    main()
