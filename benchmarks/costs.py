"""Certified cost where errors cost differently: a vote by expected cost beside the majority vote of the same models.

The rarest class costs ten times as much to miss as another error. Both votes are weighted and tested by the costs; the
majority vote is what a loss that is a function comes to.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from _results import make_parser, show
from problems import load

from pacbayes import PACBayesClassifier

NAMES = ("churn", "attrition", "credit")
COST = 10.0


def measure(name: str, splits: int) -> list[object]:
    problem = load(name, Path())
    classes, counts = np.unique(problem.y, return_counts=True)
    rare = int(np.argmin(counts))
    costs = 1.0 - np.eye(classes.size)
    costs[rare] *= COST

    def as_function(true: object, predicted: object) -> object:
        return costs[np.searchsorted(classes, true), np.searchsorted(classes, predicted)] / COST

    found = []
    for seed in range(splits):
        (X, y), (X_test, y_test) = (problem.rows(rows) for rows in problem.split(seed))
        row = []
        for loss in (as_function, costs):
            model = PACBayesClassifier(loss=loss, random_state=seed).fit(X, y)
            predicted = model.predict(X_test)
            cost = costs[np.searchsorted(classes, y_test), np.searchsorted(classes, predicted)].mean()
            missed = np.mean(predicted[y_test == classes[rare]] != classes[rare])
            row += [COST * model.certificate_.bound, cost, missed]
        found.append(row)
    means = np.mean(found, axis=0)
    share = counts[rare] / counts.sum()
    shown = [f"{value:.3f}" if k % 3 < 2 else f"{value:.0%}" for k, value in enumerate(means)]
    return [name, problem.n, f"{share:.0%}", *shown]


def main() -> None:
    arguments = make_parser(__doc__, splits=3, only=NAMES).parse_args()
    columns = ["dataset", "rows", "rare class"]
    columns += [f"{vote}: {what}" for vote in ("majority", "by cost") for what in ("certified", "test cost", "missed")]
    rows = (measure(name, arguments.splits) for name in arguments.only)
    note = f"Missing the rare class costs {COST:g}, another error 1. Means over {arguments.splits} draws of the rows."
    show("costs", "Certified cost: the vote by expected cost beside the majority vote", columns, rows, note)


if __name__ == "__main__":
    main()
