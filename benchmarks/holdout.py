"""Which parts of the rows to hold out: expected bound and loss of the vote that wins, from measured learning curves.

Test losses of single votes that hold out a half down to a fifth of the rows are lines of CURVES.jsonl, and what is
there is not computed again; ``--report`` computes nothing. A line a + b / rows is fitted to the curve of each dataset.
For each choice of parts, errors of its votes are then drawn many times from binomial laws, each vote is bounded by
Clopper-Pearson with its part of delta, and the one with the smallest bound wins: figures without the luck of a split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _comparison import KEY, Result, add_jobs, keep_result, open_jobs, read_results
from _results import make_parser, show
from problems import Problem, groups, load
from rivals import DELTA

from pacbayes import PACBayesClassifier
from pacbayes.bounds import clopper_pearson

SHARES = (0.5, 0.4, 0.3333, 0.25, 0.2)
PARTS = {
    "1/2": (0.5,),
    "1/2, 1/2": (0.5, 0.5),
    "1/3 x 3": (1 / 3,) * 3,
    "1/2, 1/4, 1/4": (0.5, 0.25, 0.25),
    "1/4 x 4": (0.25,) * 4,
    "1/5 x 5": (0.2,) * 5,
    "1/5 x 3": (0.2,) * 3,
}
N_DRAWS = 4000
# Datasets by their number of rows, and the paper's.
SIZES = ((0, 250), (250, 450), (450, 1300), (1300, 5000))

Curves = dict[tuple[str, str, int], Callable[[float], float]]


def measure(problem: Problem, split: int, share: float) -> Result:
    """Return the errors of a vote that holds out a share of the rows."""
    (X, y), (X_test, y_test) = (problem.rows(rows) for rows in problem.split(split))
    model = PACBayesClassifier(holdout=share, delta=DELTA, random_state=split, n_jobs=1).fit(X, y)
    return {"errors": int(np.sum(model.predict(X_test) != y_test)), "n_test": y_test.size}


def fit_curves(results: list[dict[str, Any]]) -> Curves:
    """Return, for each dataset of which all shares were measured, the loss by the share that is held out."""
    curves: Curves = {}
    for about in sorted({(result["group"], result["problem"], result["n"]) for result in results}):
        own = [result for result in results if (result["group"], result["problem"], result["n"]) == about]
        if {result["share"] for result in own} == set(SHARES):
            curves[about] = _fit_curve(own)
    return curves


def _fit_curve(results: list[dict[str, Any]]) -> Callable[[float], float]:
    sums = [np.sum([[r["errors"], r["n_test"]] for r in results if r["share"] == share], axis=0) for share in SHARES]
    losses = np.array([errors / n for errors, n in sums])
    slope, intercept = np.polyfit(1 / (1 - np.array(SHARES)), losses, 1)
    if slope <= 0:  # noise: more rows do no harm
        slope, intercept = 0.0, losses.mean()
    return lambda share: float(max(1e-4, intercept + slope / (1 - share)))


def simulate(n: int, parts: tuple[float, ...], curve: Callable[[float], float], rng: Any) -> tuple[float, float]:
    """Return the expected bound and loss of the vote that wins."""
    bounds, losses = [], np.array([curve(share) for share in parts])
    for share, loss in zip(parts, losses, strict=True):
        held_out = max(1, int(share * n))
        table = np.asarray(clopper_pearson(np.arange(held_out + 1), held_out, DELTA / len(parts)))
        bounds.append(table[rng.binomial(held_out, loss, N_DRAWS)])
    return float(np.min(bounds, axis=0).mean()), float(losses[np.argmin(bounds, axis=0)].mean())


def rows_of(curves: Curves) -> Iterator[list[str]]:
    """Rows of the table: parts, and bound / loss on the datasets of each column."""
    for name, parts in PARTS.items():
        rng = np.random.default_rng(0)
        found = {about: simulate(about[2], parts, curve, rng) for about, curve in curves.items()}
        cells = []
        for chosen in columns_of(curves).values():
            bound, loss = np.mean([found[about] for about in chosen], axis=0)
            cells.append(f"{bound:.4f} / {loss:.4f}")
        yield [name, *cells]


def columns_of(curves: Curves) -> dict[str, list[tuple[str, str, int]]]:
    """Datasets of each column."""
    columns = {f"{low} to {high - 1} rows": [a for a in curves if low <= a[2] < high] for low, high in SIZES}
    columns |= {"the paper's": [about for about in curves if about[0] == "paper"], "all": list(curves)}
    return {f"{name}: {len(chosen)}": chosen for name, chosen in columns.items() if chosen}


def count_splits(results: list[dict[str, Any]]) -> str:
    """Return on how many splits the curves were measured: a number, or two if some have more than others."""
    splits = {name: {r["split"] for r in results if r["problem"] == name} for name in {r["problem"] for r in results}}
    fewest, most = (choose(map(len, splits.values())) for choose in (min, max))
    return str(most) if fewest == most else f"{fewest} to {most}"


def main() -> None:
    parser = make_parser(__doc__, folder=True)
    parser.add_argument("curves", metavar="CURVES.jsonl", type=Path)
    parser.add_argument("--report", action="store_true", help="compute nothing: a table of what is there")
    add_jobs(parser, groups()).set_defaults(groups=[group for group in groups() if group != "large"], splits=2)
    arguments = parser.parse_args()
    for about, problem in () if arguments.report else open_jobs(groups(), arguments, load):
        for share in SHARES:
            keep_result(
                arguments.curves,
                {**about, "share": share},
                lambda problem=problem, about=about, share=share: measure(problem, about["split"], share),
            )
    results = list(read_results(arguments.curves, (*KEY, "share")).values())
    curves = fit_curves(results)
    title = f"Parts that competing votes hold out: expected bound / loss of the winner, {len(curves)} datasets"
    note = (
        "Columns: groups of datasets, with their number. Means over datasets, from learning curves of the default,\n"
        f"{count_splits(results)} splits."
    )
    show("holdout", title, ("parts", *columns_of(curves)), rows_of(curves), note)


if __name__ == "__main__":
    main()
