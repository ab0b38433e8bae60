"""The defaults on the paper's datasets, beside the cross-validated SVM of the paper.

    python benchmarks/defaults.py FOLDER [--splits 5] [--paper] [--only NAME ...]

FOLDER holds one NAME.csv.gz per dataset: a header line, the label last. Sizes are the paper's (table uci_sizes),
features scaled to [-1, 1] by their range; up to 4000 other points are the test set. With --paper, the setting of the
paper instead of the defaults: m = n, r = d + 1 (sqrt(n) where d = 3), kernel widths from the whole
sample, C = 1000.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from problems import load

from pacbayes import PACBayesClassifier
from pacbayes.datasets import NAMES
from pacbayes.paper.baseline import cross_validated_svm
from pacbayes.pools import RBFSVMPool


def run(name: str, folder: Path, splits: int, paper: bool) -> dict[str, float]:
    """Means over splits of losses, bounds and training seconds."""
    problem = load(name, folder)
    X, y, n = problem.X, problem.y, problem.n
    pool = RBFSVMPool(gamma_source="sample", C=1e3) if paper else RBFSVMPool()
    settings = {"n_hypotheses": n, "subsample_size": "paper"} if paper else {}
    rows = []
    for split in range(splits):
        train, test = problem.split(split)
        start = time.perf_counter()
        model = PACBayesClassifier(pool, random_state=split, n_jobs=2, **settings).fit(X[train], y[train])
        ours = time.perf_counter() - start
        vote = np.mean(model.predict(X[test]) != y[test])
        # Expected loss of the randomised classifier: one minus the share of the true label.
        shares = model.predict_proba(X[test[:1000]])
        codes = np.searchsorted(model.classes_, y[test[:1000]])
        gibbs = 1 - shares[np.arange(codes.size), codes].mean()
        start = time.perf_counter()
        svm = (
            np.nan if paper else np.mean(cross_validated_svm(X[train], y[train], n_jobs=2).predict(X[test]) != y[test])
        )
        theirs = time.perf_counter() - start
        certificate = model.certificate_
        holds = float(gibbs <= certificate.gibbs_bound and vote <= certificate.vote_bound)
        rows.append((vote, svm, gibbs, certificate.gibbs_bound, holds, ours, theirs))
    names = ("vote", "svm", "gibbs", "kl bound", "holds", "seconds", "svm seconds")
    return dict(zip(names, np.mean(rows, axis=0), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--only", nargs="+", default=list(NAMES))
    arguments = parser.parse_args()
    results = []
    for name in arguments.only:
        row = run(name, arguments.folder, arguments.splits, arguments.paper)
        if not results:
            print(f"{'':16}" + "".join(f"{key:>13}" for key in row))
        results.append(list(row.values()))
        print(f"{name:16}" + "".join(f"{value:13.4f}" for value in row.values()), flush=True)
    print(f"{'mean':16}" + "".join(f"{value:13.4f}" for value in np.mean(results, axis=0)))


if __name__ == "__main__":
    main()
