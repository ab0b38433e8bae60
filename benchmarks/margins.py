"""Count votes that rounding could change, which validation counts as errors, on the paper's datasets.

    python benchmarks/margins.py FOLDER

FOLDER holds one NAME.csv.gz for each. One split at the paper's training sizes; every hypothesis at every training row.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from problems import load

from pacbayes import PACBayesClassifier
from pacbayes.datasets import NAMES
from pacbayes.pools import GAMMA_GRID, RBFSVMPool

PAPER = {"gamma_grid": GAMMA_GRID, "gamma_source": "sample", "C": 1000.0, "scaler": None, "assignment": "drawn"}


def main() -> None:
    folder = Path(sys.argv[1])
    print("| | votes, defaults | uncertain | votes, paper's setting | uncertain | with any | smallest loss |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in NAMES:
        problem = load(name, folder)
        rows = problem.split(0)[0]
        X, y = problem.X[rows], problem.y[rows]
        cells = []
        for pool, size in ((RBFSVMPool(), "auto"), (RBFSVMPool(**PAPER), "paper")):
            model = PACBayesClassifier(pool, n_hypotheses=200, subsample_size=size, holdout=None, random_state=0).fit(
                X, y
            )
            uncertain = model.hypotheses_.votes_and_doubts(X)[1]
            cells += [str(uncertain.size), str(np.count_nonzero(uncertain))]
        some = uncertain.any(axis=1)
        smallest = f"{np.nanmin(model.losses_[some]):.3f}" if some.any() else ""
        print(f"| {problem.name} | {' | '.join(cells)} | {np.count_nonzero(some)} | {smallest} |", flush=True)


if __name__ == "__main__":
    main()
