"""Damage model files and tables at random, and use them: none may crash, hang, or take two gigabytes.

Models are damaged in two ways: anywhere ("models"), which mostly gives files that are refused before an object is made;
and in one attribute of one object ("attributes"), in archives that are otherwise in order, with a value that is made to
harm. A model that is loaded must predict.

python tests/adversary/fuzz_files.py --models 10000 --attributes 10000 --tables 10000
"""

import argparse
import copy
import io
import json
import os
import random
import resource
import signal
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
from crafting import a_list, nodes, npy, pack, text, unpack
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_moons
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import KFold
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import pacbayes
from pacbayes import PACBayesClassifier
from pacbayes.exceptions import CertificateError, ModelFileError, TableError
from pacbayes.io import ColumnEncoder, Table, inspect_table, load_model, read_losses, read_table, save_model
from pacbayes.pools import BoostingPool, ForestPool, LinearPool, RBFSVMPool, UnionPool

MEMORY = 2 * 10**9
SECONDS = 60  # of processor time
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


def small_union():
    """Return a pool of all families of which hypotheses are arrays."""
    boosting, linear = BoostingPool(max_iter=3, max_leaf_nodes=4), LinearPool(splines=True)
    return UnionPool([("boosting", boosting), ("forest", ForestPool(n_estimators=3)), ("linear", linear)])


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
        "union": (small_union(), mixed),
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


def write_every_type(folder):
    """Write models that hold every type that is trusted."""
    write_models(folder)
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(120, 3))).round(1)
    y = np.digitize(X[:, 0], [0.4, 0.9])
    codes = ColumnTransformer([("code", OneHotEncoder(handle_unknown="ignore"), [0])], remainder=StandardScaler())
    learners = {
        "poly": SVC(kernel="poly", probability=False),
        "nu": NuSVC(nu=0.1),
        "linear": LinearSVC(),
        "ridge": RidgeClassifier(),
        "lda": LinearDiscriminantAnalysis(),
        "gaussian": GaussianNB(),
        "bernoulli": BernoulliNB(binarize=0.5),
        "extra": ExtraTreeClassifier(),
        "extra trees": ExtraTreesClassifier(2),
        "bagging": BaggingClassifier(n_estimators=2),
        "bagged pipelines": BaggingClassifier(make_pipeline(StandardScaler(), GaussianNB()), n_estimators=2),
        "boosting": AdaBoostClassifier(n_estimators=2),
        "weighted": KNeighborsClassifier(3, algorithm="brute", weights="distance", n_jobs=1),
        "pca": make_pipeline(SimpleImputer(), PCA(2), MaxAbsScaler(), SVC()),
        "scalers": make_pipeline(MinMaxScaler(), RobustScaler(), Normalizer(), FunctionTransformer(), SVC()),
        "one hot": make_pipeline(OneHotEncoder(sparse_output=False, handle_unknown="ignore"), SVC()),
        "columns": make_pipeline(codes, DecisionTreeClassifier()),
        "union": small_union(),
    }
    settings = {"n_hypotheses": 3, "subsample_size": 30, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, learner in learners.items():
            save_model(PACBayesClassifier(learner, **settings).fit(X, y), folder / f"{name}.skops")
        folds = PACBayesClassifier(SVC(), subsamples=KFold(3), random_state=np.random.RandomState(0)).fit(X, y)
        save_model(folds, folder / "folds.skops")
        trained = [GaussianNB().fit(X[:60], y[:60]), FrozenEstimator(DecisionTreeClassifier().fit(X[:60], y[:60]))]
        save_model(PACBayesClassifier.from_prefit(trained, X[60:], y[60:]), folder / "prefit.skops")


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


def hostile_numbers(array, rng):
    """Return an array with numbers that compiled code must not follow."""
    array = array.copy()
    part = array[rng.choice(array.dtype.names)] if array.dtype.names else array
    if part.size and part.dtype.kind in "biuf":
        number = rng.choice([-1, 0, 1, part.size, 2**15, 2**31 - 1, 2**40, -(2**40), 1e300, float("nan"), float("inf")])
        with np.errstate(all="ignore"):
            number = np.array(float(number)).astype(part.dtype)
        part.flat[rng.choice([0, -1, rng.randrange(part.size), slice(None), slice(None, None, 2)])] = number
    return array


def hostile_array(array, rng):
    """Return an array with other numbers, another shape, order or type."""
    if array.dtype.names or array.ndim == 0 or rng.random() < 0.4:
        return hostile_numbers(array, rng)
    changes = [
        lambda a: a[:-1],
        lambda a: a[:0],
        lambda a: np.concatenate([a, a]),
        lambda a: a[::-1].copy(),
        lambda a: np.sort(a.ravel())[::-1].reshape(a.shape),
        lambda a: np.asfortranarray(np.atleast_2d(a)),
        lambda a: a.reshape(1, -1),
        lambda a: a.reshape(-1, 1),
        lambda a: np.roll(a, 1),
        lambda a: a * 0,
        lambda a: a.astype(rng.choice(["<f8", "<f4", "<f2", "<i4", "<i8", "|b1", "<u2", "|i1", ">f8", "<f16", "<U3"])),
        lambda a: np.zeros(rng.choice([0, 1, 7, 1000])).astype(a.dtype),
    ]
    return rng.choice(changes)(array)


def hostile_value(node, everything, members, rng):
    """Return a node in the place of another: its array with other numbers, or something else entirely."""
    how = rng.randrange(8)
    if node["__loader__"] == "NdArrayNode" and node["type"] == "numpy" and how < 5:
        array = np.load(io.BytesIO(members[node["file"]]))
        name = f"hostile {len(members)}.npy"
        members[name] = npy(hostile_array(array, rng))
        return {**node, "file": name, "__id__": None}
    if isinstance(node.get("content"), list) and how < 5:
        content = list(node["content"])
        change = rng.randrange(5)
        if change == 0:
            content = content * rng.choice([0, 2, 20])
        elif change == 1:
            content = content[:-1]
        elif change == 2:
            content = content[::-1]
        elif content:
            at = rng.randrange(len(content))
            content[at] = hostile_value(content[at], everything, members, rng)
        return {**node, "content": content, "__id__": None}
    if how == 5:
        return text(copy.deepcopy(rng.choice(ODD)))
    if how == 6:
        # A tree that belongs to nobody, a matrix, a generator: what is made by a constructor of its own.
        rare = [one for one in everything if one["__loader__"] in ("TreeNode", "SparseMatrixNode", "RandomStateNode")]
        return copy.deepcopy(rng.choice(rare or everything))
    if how == 7:
        other = copy.deepcopy(rng.choice([one for one in everything if one["__loader__"] == "ObjectNode"]))
        return a_list(*[other] * rng.choice([1, 3])) if rng.random() < 0.3 else other
    return copy.deepcopy(rng.choice(everything))


def damage_attribute(source, target, rng):
    """Write a copy of a model file in which an attribute of an object, or part of a tree, has a hostile value."""
    schema, members = unpack(source)
    everything = list(nodes(schema))
    objects = [one for one in everything if one["__loader__"] in ("ObjectNode", "TreeNode") and "content" in one]
    kinds = sorted({one["__class__"] for one in objects})
    kind = rng.choice(kinds)  # most objects are of few types
    node = rng.choice([one for one in objects if one["__class__"] == kind])
    attributes = node["content"]["content"]
    known = sorted(name for name in attributes)
    name = rng.choice(known)
    if rng.random() < 0.15:
        # One that the class defines, or that is computed from others.
        extra = ["_impl", "_used", "_offsets", "_ensemble", "_gathered", "_device", "_numbers", "_codes", "n_jobs"]
        extra += ["memory", "checkpoint", "predict", "classes_", "_sparse", "_tree", "n_features_in_"]
        name = rng.choice([one for one in extra if one not in attributes])
        attributes[name] = hostile_value(attributes[rng.choice(known)], everything, members, rng)
        key = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
        node["content"]["key_types"]["content"].append(key)
    else:
        attributes[name] = hostile_value(attributes[name], everything, members, rng)
    # The object has another identity now, and so have those that hold it.
    for one in nodes(schema):
        one.pop("__id__", None)
    pack(target, schema, members)
    return f"{kind}.{name}"


# ---------------------------------------------------------------------------------------------------
# How it is used
# ---------------------------------------------------------------------------------------------------


def use_model(path, rng, row):
    """Load a model, predict and verify: what happened."""
    try:
        model, schema = load_model(path)
    except ModelFileError:
        return "refused"
    d = model.n_features_in_
    values = np.random.default_rng(row).normal(size=(3, d)).round(1)
    rows = [np.zeros((3, d)), values, values.astype(np.float32), np.arange(3 * d).reshape(3, d)]
    if schema is not None:
        try:
            rows = [schema.apply(frame().fillna(0.0).assign(city="7"), allow_extra=True)]
        except TableError:
            return "loaded, with another schema"
    for X in rows:
        try:
            model.predict(X)
            model.predict_proba(X)
            trained = model.hypotheses_.take(np.flatnonzero(model.n_validation_ > 0))
            for points in model.open_rows(X).batches():
                trained.votes(points)
        except ValueError as error:
            if "infinity" not in str(error) and "NaN" not in str(error):
                raise
            # Its numbers are finite, and too large for these rows.
            return "loaded, and refused the rows"
    repr(model)
    try:
        model.verify_certificate(model.certificate_)
    except CertificateError:
        return "loaded and used, and is not what was certified"
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
    damage, use = {
        "models": (damage_model, use_model),
        "attributes": (damage_attribute, use_model),
        "tables": (None, use_table),
    }[kind]
    for case in range(start, stop):
        rng = random.Random(f"{kind} {seed} {case}")
        source = rng.choice(sources)
        target = folder / f"{os.getpid()}-{source.name}"
        what = None
        if damage is None:
            target.write_bytes(damage_bytes(source.read_bytes(), rng))
        else:
            what = damage(source, target, rng)
        print(f"begin {case} {source.name} {what}", flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends the process, if nothing else does
        try:
            outcome = use(target, rng, case)
        except Exception as error:
            outcome = f"FAILED {source.name} {what} {type(error).__name__}: {error}"[:300].replace("\n", " ")
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
    attributes: Counter = field(default_factory=Counter)
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
    begun, last = None, None
    outcomes = getattr(counts, kind)
    for line in output.splitlines():
        word, case, rest = line.split(" ", 2)
        if word == "begin":
            begun, last = int(case), rest
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
        counts.failures.append((kind, begun, f"{last}: exit code {worker.returncode}: {errors[-500:]}"))
    return begun


def run(seed, jobs, folder, only=None, **numbers):
    """Damage so many files of each kind, and count what happens."""
    counts = Counts()
    for kind, number in numbers.items():
        (folder / kind).mkdir()
        if number:
            WRITERS[kind](folder / kind)
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


WRITERS = {"models": write_models, "attributes": write_every_type, "tables": write_tables}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for kind in WRITERS:
        parser.add_argument(f"--{kind}", type=int, default=0)
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
        numbers = {kind: getattr(options, kind) for kind in WRITERS}
        counts = run(options.seed, options.jobs, Path(folder), options.only, **numbers)
    for name in WRITERS:
        print(name, dict(getattr(counts, name)))
    print(f"most memory of a process: {counts.memory} MiB")
    for kind, case, message in counts.failures:
        print(f"FAILED {kind} {case}: {message}")
    sys.exit(bool(counts.failures))


if __name__ == "__main__":
    main()
