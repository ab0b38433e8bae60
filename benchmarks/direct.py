"""The direct bound beside all others on the paper's datasets, and its time beside that of other minimisers.

FOLDER holds one NAME.csv.gz per dataset, as for `certificates.py`. Two pools without held-out rows: SVMs, and the
default's union of families, each with its own prior and unequal validation sets. The smallest bound on the randomised
classifier over all posteriors, by each method, and the bound of the best hypothesis: means over splits.

Ladders are three of subsample sizes, whose validation sets are more or less unequal: for losses of the default, with a
uniform prior, PAC-Bayes-lambda and -kl (with the smallest and the largest number of points) and the dual bound.

Times are those of pools with losses Binomial(2000, 0.3) / 2000 and a uniform prior, best of three.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from _results import best, make_parser, show, with_mean
from problems import load

from pacbayes import PACBayesClassifier, certify
from pacbayes.datasets import NAMES
from pacbayes.pools import RBFSVMPool
from pacbayes.posterior import minimize_direct_bound, minimize_dual_bound, minimize_kl_bound, minimize_lambda_bound

DELTA = 0.05
POOLS = {"SVMs": RBFSVMPool, "the default's families": lambda: None}
TABLES = ("bounds", "time", "ladders")
LADDERS = ("default", "to 0.8 n", "0.25 to 0.8 n")
BOUNDS = ("lambda", "kl", "dual, kl", "dual, mixture", "direct, kl", "direct, p-value", "direct, mixture")


def bounds(losses: np.ndarray, n: np.ndarray, prior: np.ndarray | None) -> list[float]:
    """The smallest bounds by each method, and that of the best hypothesis."""
    theorem = {"delta": DELTA, "prior": prior}
    ends = {"n": int(n.min()), "n_max": int(n.max())}
    return [
        minimize_lambda_bound(losses, **ends, **theorem, method="global").fun,
        minimize_kl_bound(losses, **ends, **theorem).fun,
        *(minimize_dual_bound(losses, n, **theorem, comparator=name).fun for name in ("kl", "mixture")),
        *(minimize_direct_bound(losses, n, **theorem, comparator=name).fun for name in ("kl", "p-value", "mixture")),
        certify(losses, n, **theorem, voting="best")[0].bound,
    ]


def settings_of(ladder: str, n: int, d: int) -> dict[str, object]:
    if ladder == "to 0.8 n":
        doubling = [(d + 1) * 2**k for k in range(40) if (d + 1) * 2**k < 0.8 * n]
        sizes = [*doubling, int(0.8 * n)]
        return {"subsample_size": sizes, "n_hypotheses": 40 * len(sizes)}
    if ladder == "0.25 to 0.8 n":
        return {"subsample_size": [int(share * n) for share in (0.25, 0.5, 0.65, 0.8)], "n_hypotheses": 120}
    return {}


def measure(name: str, arguments: argparse.Namespace, pool: Any = None, ladder: str | None = None) -> np.ndarray:
    """Return the mean bounds of a dataset."""
    problem, found = load(name, arguments.folder), []
    how = {"racing": False} if ladder is None else settings_of(ladder, problem.n, problem.X.shape[1])
    for split in range(arguments.splits):
        X, y = problem.rows(problem.split(split)[0])
        model = PACBayesClassifier(pool, holdout=None, random_state=split, n_jobs=1, **how).fit(X, y)
        found.append(bounds(model.losses_, model.n_validation_, model.prior_ if ladder is None else None))
    return np.mean(found, axis=0)


def times() -> Iterator[tuple[str, ...]]:
    """Yield the seconds of each minimiser for growing pools."""
    n = 2000
    for m in (10**3, 10**4, 10**5, 10**6):
        losses = np.random.default_rng(0).binomial(n, 0.3, m) / n
        calls = (
            lambda losses=losses: np.unique(losses, return_inverse=True),
            lambda losses=losses: minimize_lambda_bound(losses, n),
            lambda losses=losses: minimize_lambda_bound(losses, n, method="global"),
            lambda losses=losses: minimize_dual_bound(losses, n, comparator="mixture"),
            *(
                lambda losses=losses, name=name: minimize_direct_bound(losses, n, comparator=name)
                for name in ("kl", "p-value", "mixture")
            ),
        )
        yield f"m = {m:,}", *(f"{best(call, 3)[1]:.4f}" for call in calls)


def main() -> None:
    parser = make_parser(__doc__, folder=True, splits=5, only=NAMES)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES[:2])
    arguments = parser.parse_args()
    for kind, pool in POOLS.items() if "bounds" in arguments.tables else ():
        rows = ((name, measure(name, arguments, pool())) for name in arguments.only)
        columns = ("", *BOUNDS, "best hypothesis")
        title = f"Smallest bounds on the randomised classifier, pool: {kind}"
        show(f"direct, {kind}", title, columns, with_mean(rows))
    for ladder in LADDERS if "ladders" in arguments.tables else ():
        rows = ((name, measure(name, arguments, ladder=ladder)[:4]) for name in arguments.only)
        title = f"Bounds with unequal validation sets, subsample sizes: {ladder}"
        show(f"dual, {ladder}", title, ("", *BOUNDS[:4]), with_mean(rows))
    if "time" in arguments.tables:
        columns = ("", "one sort", "lambda, alternating", "lambda, global", "dual, mixture", *BOUNDS[4:])
        show("direct, time", "Seconds to the best posterior", columns, times())


if __name__ == "__main__":
    main()
