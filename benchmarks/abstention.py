"""What held-out rows prove where the vote answers only the points it is sure of, on the paper's eight datasets.

FOLDER holds the paper's datasets, one NAME.csv.gz each. For each of them, means over splits: the bound for all points,
and for 90%, 80% and 60% of the held-out rows answered the bound on the error among answered points, with the share that
is answered and the error among these of test rows; last, the mean size of sets of 95% coverage and their coverage of
test rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _results import make_parser, show
from numpy.typing import NDArray
from problems import Problem, groups, load

from pacbayes import PACBayesClassifier

DELTA = 0.05
ANSWERED = (0.9, 0.8, 0.6)
COVERAGE = 0.95

COLUMNS = ("", "all", *(f"{share:.0%}: proved (answered, test error)" for share in ANSWERED), "sets of 95%")


def measure(problem: Problem, seed: int) -> NDArray[np.float64]:
    """Return the bound for all; for each share bound, share and error; mean size and coverage of sets."""
    (X, y), (X_test, y_test) = (problem.rows(rows) for rows in problem.split(seed))
    model = PACBayesClassifier(delta=DELTA, random_state=seed, n_jobs=1).fit(X, y)
    certificate, shares = model.certificate_, model.predict_shares(X_test)
    wrong, winner = model.predict(X_test) != y_test, shares.max(axis=1)
    n = certificate.abstention[0].n
    values = [certificate.bound]
    for share in ANSWERED:
        # The threshold that was made for this share; a smaller one where too many scores are equal to answer fewer.
        row = min(certificate.abstention, key=lambda one, share=share: abs(one.answered[0] / n - share))
        answered = winner >= row.threshold
        values += [row.bound, answered.mean(), wrong[answered].mean() if answered.any() else np.nan]
    try:
        sets = model.predict_set(X_test, COVERAGE)
        held = sets[np.arange(y_test.size), np.searchsorted(model.classes_, y_test)]
        values += [sets.sum(axis=1).mean(), held.mean()]
    except ValueError:  # too few rows to prove it
        values += [np.nan, np.nan]
    return np.array(values)


def rows(folder: Path, splits: int, only: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each dataset."""
    for name in only:
        problem = load(name, folder)
        bound, *values = np.mean([measure(problem, seed) for seed in range(splits)], axis=0)
        parts = np.reshape(values[:-2], (-1, 3))
        cells = [f"{proved:.4f} ({share:.3f}, {error:.4f})" for proved, share, error in parts]
        yield name, f"{bound:.4f}", *cells, f"{values[-2]:.3f}, {values[-1]:.4f}"


def main() -> None:
    arguments = make_parser(__doc__, folder=True, splits=3, only=groups()["paper"]).parse_args()
    table = rows(arguments.folder, arguments.splits, arguments.only)
    note = "Means over splits; NaN where some split proves no such coverage with its held-out rows."
    show("abstention", "Errors proved where the vote abstains, and prediction sets", COLUMNS, table, note)


if __name__ == "__main__":
    main()
