"""Fits whose results must stay the same to the bit, whatever is done to the code between data and certificate.

    python tests/recorded_fits.py record before.json [--only PART_OF_A_NAME ...]
    python tests/recorded_fits.py compare before.json [--only PART_OF_A_NAME ...]

`record` writes digests of every fit's losses, weights, bounds and predictions; `compare` fits again, names what differs
and exits with 1 if anything does. The paper's datasets are read from the folder PACBAYES_CSV; without it, only those
fits are left out. Only public names are used, so that the same script runs on two versions of the package.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from pacbayes import PACBayesClassifier
from pacbayes.datasets import waveform
from pacbayes.pools import EstimatorPool, RBFSVMPool, make_union

DATASETS = ("adult", "avsb", "breast-cancer", "haberman", "ionosphere", "mushrooms", "skin", "waveform")
COSTS = [[0.0, 1.0], [4.0, 0.0]]


def describe(model, X):
    """Digests and hexadecimal figures of all that a user sees of a fit."""
    shown = {"predict": model.predict(X).tolist(), "classes": model.classes_.tolist()}
    if model.voting != "gibbs":
        shown["predict_proba"] = model.predict_proba(X)
    for k, vote in enumerate(model.votes_):
        shown |= {f"losses {k}": vote.losses, f"seen {k}": vote.seen, f"posterior {k}": vote.posterior}
        certificate = vote.certificate
        for name in ("bound", "gibbs_bound", "vote_bound", "empirical_loss", "kl_div", "lam"):
            value = getattr(certificate, name)
            shown[f"{name} {k}"] = None if value is None else float(value).hex()
        shown[f"hypotheses {k}"] = certificate.digests["hypotheses"]
    return {name: _digest(value) if not isinstance(value, str | None) else value for name, value in shown.items()}


def _digest(value):
    data = value.tobytes() if isinstance(value, np.ndarray) else json.dumps(value).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def make_rows(n=1200, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] + 0.4 * rng.normal(size=n) > 0).astype(np.int64)


def make_table(n=900, seed=1):
    rng = np.random.default_rng(seed)
    X, y = make_rows(n, 3, seed)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["town"] = rng.choice(["Bonn", "Lyon", "Turku", None], n)
    table["kind"] = pd.Categorical(rng.choice(["x", "y"], n))
    table.loc[rng.random(n) < 0.1, "b"] = np.nan
    y = np.where((y > 0) ^ (table["town"] == "Lyon"), "yes", "no")
    return table, y


def fit(X, y, estimator=None, **settings):
    pool = RBFSVMPool() if estimator is None else estimator
    return PACBayesClassifier(pool, **{"random_state": 0, **settings}).fit(X, y), X


def three_classes():
    data = waveform(500, random_state=0, classes=(0, 1, 2))
    return fit(data.X, data.y)


def default_on(name):
    folder = os.environ.get("PACBAYES_CSV")
    if folder is None:
        return None
    table = pd.read_csv(Path(folder) / f"{name}.csv.gz")
    X, y = table.iloc[:, :-1].to_numpy(dtype=float), table.iloc[:, -1].to_numpy()
    rows = np.random.default_rng(0).permutation(y.size)[:2000]
    return fit(X[rows], y[rows])


def on_parquet(**settings):
    X, y = make_rows()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.parquet")
        pd.DataFrame(X, columns=list("abcde")).assign(label=y).to_parquet(path, row_group_size=100)
        model = PACBayesClassifier(**{"estimator": RBFSVMPool(), "random_state": 0, **settings}).fit(path, "label")
    return model, pd.DataFrame(X, columns=list("abcde"))


def on_cluster():
    from dask import array
    from distributed import Client

    X, y = make_rows()
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None):
        model = PACBayesClassifier(RBFSVMPool(), random_state=0).fit(
            array.from_array(X, chunks=(200, 5)), array.from_array(y, 200)
        )
    return model, X


def from_checkpoint():
    X, y = make_rows()
    with tempfile.TemporaryDirectory() as folder:
        fit(X, y, checkpoint=folder)
        return fit(X, y, checkpoint=folder)


def with_emulated_device():
    # In a process of its own: whether there is a device is found out once.
    command = [sys.executable, __file__, "describe-emulated-device", os.devnull]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def describe_emulated_device():
    sys.path.insert(0, str(Path(__file__).parent / "pools"))
    import emulated_cupy

    sys.modules["cupy"] = emulated_cupy
    X, y = make_rows(160)
    settings = {"n_hypotheses": 12, "subsample_size": [8, 20], "holdout": (0.5, 0.4)}
    model, _ = fit(emulated_cupy.asarray(X), y, RBFSVMPool(engine="cuda"), **settings)
    return describe(model, emulated_cupy.asarray(X))


def cases():
    """Yield the name of each fit, and a function that returns the model and the rows to predict."""
    for name in DATASETS:
        yield f"default, {name}", lambda name=name: default_on(name)
    small = {"n_hypotheses": 30, "subsample_size": [20, 60]}
    for objective in ("auto", "lambda", "kl", "dual", "direct"):
        for voting in ("majority", "gibbs", "best", "uniform"):
            for holdout in ("auto", None, 0.5, (0.5, 0.4, 0.3)):
                settings = {**small, "objective": objective, "voting": voting, "holdout": holdout}
                name = f"objective {objective}, voting {voting}, holdout {holdout}"
                yield name, lambda settings=settings: fit(*make_rows(400), **settings)
    rows = make_rows
    yield "three classes", three_classes
    yield "costs", lambda: fit(*rows(), loss=COSTS)
    yield "brier", lambda: fit(*rows(400), EstimatorPool(LogisticRegression()), loss="brier", n_hypotheses=10)
    yield "paper", lambda: fit(*rows(), RBFSVMPool(gamma_source="sample"), subsample_size="paper", holdout=None)
    yield "all kinds, racing in training", lambda: fit(*rows(3000), racing="training")
    yield "no racing", lambda: fit(*rows(), racing=False)
    yield "scaled", lambda: fit(*rows(), RBFSVMPool(scaler="standard"))
    yield "two workers", lambda: fit(*rows(), n_jobs=2)
    yield "trees", lambda: fit(*rows(), EstimatorPool(DecisionTreeClassifier(max_depth=4)), n_hypotheses=20)
    yield "linear", lambda: fit(*rows(), LogisticRegression(), n_hypotheses=20)
    yield "table", lambda: fit(*make_table())
    yield "sparse", lambda: fit(sparse.csr_matrix(np.where(np.abs(rows()[0]) > 0.5, rows()[0], 0.0)), rows()[1])
    yield "single precision", lambda: fit(rows()[0].astype(np.float32), rows()[1])
    yield "parquet", on_parquet
    yield "parquet, trees", lambda: on_parquet(estimator=DecisionTreeClassifier(max_depth=3), n_hypotheses=10)
    yield "union", lambda: fit(*rows(), make_union())
    yield "union, table", lambda: fit(*make_table(), make_union())
    yield "cluster", on_cluster
    yield "checkpoint", from_checkpoint
    yield "device, emulated", with_emulated_device


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("record", "compare", "describe-emulated-device"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--only", nargs="+", default=[""])
    arguments = parser.parse_args()
    if arguments.action == "describe-emulated-device":
        print(json.dumps(describe_emulated_device()))
        return
    before = {} if arguments.action == "record" else json.loads(arguments.path.read_text(encoding="utf-8"))
    found, different = {}, 0
    warnings.simplefilter("ignore")
    for name, make in cases():
        if not any(part in name for part in arguments.only):
            continue
        try:
            made = make()
        except ValueError as error:  # a combination that is refused stays refused
            made = {"refused": type(error).__name__}
        if made is None:
            continue
        found[name] = made if isinstance(made, dict) else describe(*made)
        if arguments.action == "compare":
            known = before.get(name, {})
            changed = sorted(key for key in found[name] | known if found[name].get(key) != known.get(key))
            different += bool(changed)
            if changed:
                print(f"{name}: {', '.join(changed)}", flush=True)
    if arguments.action == "record":
        arguments.path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"{len(found)} fits" + (f", {different} of which differ" if arguments.action == "compare" else " recorded"))
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
