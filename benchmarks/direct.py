"""The direct bound beside all others on the paper's datasets, and its time beside that of other minimisers.

    python benchmarks/direct.py FOLDER [--splits 5] [--only NAME ...] [--tables bounds time] [--record]

FOLDER holds one NAME.csv.gz per dataset, as for `certificates.py`. Two pools without held-out rows: SVMs, and the
default's union of families, each with its own prior and unequal validation sets. The smallest bound on the randomised
classifier over all posteriors, by each method, and the bound of the best hypothesis: means over splits.

Times are those of pools with losses Binomial(2000, 0.3) / 2000 and a uniform prior, best of three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from _results import best, make_parser, show, with_mean
from problems import load

from pacbayes import PACBayesClassifier, certify
from pacbayes.datasets import NAMES
from pacbayes.pools import RBFSVMPool
from pacbayes.posterior import minimize_direct_bound, minimize_dual_bound, minimize_kl_bound, minimize_lambda_bound

DELTA = 0.05
POOLS = {"SVMs": RBFSVMPool, "the default's families": lambda: None}
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


def measure(pool: Callable[[], object], name: str, folder: Path, splits: int) -> np.ndarray:
    """Return the mean bounds of a dataset."""
    problem, found = load(name, folder), []
    for split in range(splits):
        X, y = problem.rows(problem.split(split)[0])
        model = PACBayesClassifier(pool(), holdout=None, racing=False, random_state=split, n_jobs=1).fit(X, y)
        found.append(bounds(model.losses_, model.n_validation_, model.prior_))
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
    parser.add_argument("--tables", nargs="+", choices=("bounds", "time"), default=("bounds", "time"))
    arguments = parser.parse_args()
    for kind, pool in POOLS.items() if "bounds" in arguments.tables else ():
        rows = ((name, measure(pool, name, arguments.folder, arguments.splits)) for name in arguments.only)
        columns = ("", *BOUNDS, "best hypothesis")
        title = f"Smallest bounds on the randomised classifier, pool: {kind}"
        show(f"direct, {kind}", title, columns, with_mean(rows))
    if "time" in arguments.tables:
        columns = ("", "one sort", "lambda, alternating", "lambda, global", "dual, mixture", *BOUNDS[4:])
        show("direct, time", "Seconds to the best posterior", columns, times())


if __name__ == "__main__":
    main()
