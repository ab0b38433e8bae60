"""Ask hypotheses for the same rows in different company: a prediction has to be a function of its row.

A certificate is about the error on one new point. Losses and tests are counted on blocks of rows, which comes to the
same only if a label does not depend on the other rows of its block, on their order or on earlier calls. The hypotheses
of this package are like that by construction. Of others, some are asked about some rows: that finds a mistake such as
``FunctionTransformer(scale)``, but proves nothing, so that it is among the assumptions of a certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._compat import take_rows
from pacbayes._losses import Loss
from pacbayes._validation import Array
from pacbayes.exceptions import HypothesisError
from pacbayes.pools._base import ROUNDED_SHARE, ROUNDED_SINGLE, Codes, Hypotheses, protect

# Hypotheses to probe. Each predicts many rows at once, and some of them again in blocks of these sizes: few calls,
# since there are learners that take long for each, and small blocks, in which what depends on others shows most.
_MOST_HYPOTHESES = 4
_BLOCKS = (1, 1, 2, 4, 24, 96)


def probe_hypotheses(
    hypotheses: Hypotheses, weights: Array, X: Any, rows: Codes, most_rows: int, loss: Loss, rng: np.random.Generator
) -> None:
    """Raise HypothesisError if an answer depends on the rows that are predicted with it, their order, or the call.

    Draws some of the hypotheses by their weights. Only `rows` of X are used, at most `most_rows` at once.
    """
    if hypotheses.predict_by_row:
        return
    n_rows = min(rows.size, most_rows)
    points = take_rows(X, rows[rng.choice(rows.size, n_rows, replace=False)])
    n_voters = min(_MOST_HYPOTHESES, int(np.count_nonzero(weights)))
    for i, h in enumerate(rng.choice(weights.size, n_voters, replace=False, p=weights / weights.sum())):
        # Other rows are alone for each hypothesis: many agree on a row.
        order = np.roll(np.arange(min(n_rows, sum(_BLOCKS))), i * sum(_BLOCKS[:4]))
        one = hypotheses.take(np.array([h]))
        _probe(one, partial(_answers, one, loss), points, order, loss.unit)
        # Losses may be of labels where the vote is by probabilities.
        if one.vote_by == "probabilities" and not loss.on_probabilities:
            _probe(one, partial(_shares, one), points, order, 1.0)


def _answers(one: Hypotheses, loss: Loss, X: Any) -> NDArray[Any]:
    """Return what a loss is about, of a single hypothesis."""
    return np.asarray(one.responses(X, loss)[0])


def _shares(one: Hypotheses, X: Any) -> Array:
    """Return how a hypothesis divides its weight in a vote among the classes."""
    shares = np.zeros((X.shape[0], one.classes.size))
    one.add_votes(X, np.ones(1), shares)
    return shares


def _probe(one: Hypotheses, ask: Callable[[Any], NDArray[Any]], X: Any, order: Codes, unit: float) -> None:
    """Compare what a hypothesis answers for all rows at once and for reversed blocks of some of them.

    Differences count in a unit; of numbers, not in a larger one than by how much they vary. Those of small numbers
    would otherwise pass for rounding, and rounding of large ones for differences.
    """
    together, n_rows = ask(X), X.shape[0]
    if one.is_numeric:
        with np.errstate(over="ignore"):  # of numbers far beyond any target, which have no unit of their own
            unit = min(unit, float(np.std(together)))
    for block in np.split(order[::-1], np.cumsum(_BLOCKS)):
        if block.size == 0:
            continue
        company, cause = "one row alone" if block.size == 1 else f"{block.size} rows", None
        try:
            again = ask(take_rows(X, block))
            # Labels must be equal; probabilities come out of sums that blocks may round differently.
            if np.allclose(again, together[block], rtol=ROUNDED_SHARE, atol=ROUNDED_SINGLE * unit):
                continue
            outcome = f"gives other answers for {company} than for {n_rows} rows together"
        except Exception as error:
            outcome, cause = f"answers for {n_rows} rows together and fails for {company}, {error!r}", error
        raise HypothesisError(
            "a prediction must be a function of its row, or no certificate holds for it, but "
            f"{_find_culprit(one, X, block)} {outcome}. What is computed from several rows must be learned in "
            "training: by StandardScaler(), for example, not by FunctionTransformer(scale)"
        ) from cause


def _find_culprit(one: Hypotheses, X: Any, block: Codes) -> str:
    """Return the first step of a pipeline that transforms a block otherwise than all rows, or the whole hypothesis."""
    with suppress(Exception):  # of steps whose results cannot be compared
        whole, part = X, take_rows(X, block)
        for name, step in one[0].steps[:-1]:
            whole, part = (step.transform(protect(rows)) for rows in (whole, part))
            if not np.allclose(take_rows(whole, block), part, equal_nan=True):
                return f"the step {name!r} of a pipeline, {step}"
    return one.describe(0)
