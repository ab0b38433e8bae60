"""What a reader asks first: how often `predict` errs, compared with what, and how often for each class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pacbayes._formatting import (
    format_confidence,
    format_count,
    format_nearest,
    format_percent,
    format_percent_upper,
    format_upper,
)
from pacbayes._losses import describe_loss, is_of_probabilities, largest_cost
from pacbayes.certificate._classes import Confusion, Rate
from pacbayes.certificate._statements import BEST, Event, Statement

if TYPE_CHECKING:
    from pacbayes.certificate._certificate import Certificate

__all__ = [
    "Answer",
    "ClassTable",
    "answers",
    "class_table",
    "compare_with_commonest",
    "count_errors",
    "format_loss",
    "held_out_loss",
    "name_class",
    "name_loss",
]

# Letters of a label that are shown.
_LONGEST_NAME = 40


@dataclass(frozen=True)
class Answer:
    """A number about what `predict` does, or to compare that with.

    Attributes
    ----------
    title : str
        Whose error it is.
    value : str
        The number: bounds rounded up, measured shares to the nearest.
    remark : str
        What kind of number it is.
    """

    title: str
    value: str
    remark: str


def name_class(label: str, longest: int = _LONGEST_NAME) -> str:
    """Return a class label in quotes, cut if it is long."""
    return repr(label if len(label) <= longest else f"{label[: longest - 1]}…")


def name_loss(loss: str) -> str:
    """Return what a loss measures, in words."""
    if loss == "zero_one":
        return "error"
    if largest_cost(loss) is not None:
        return "mean cost"
    named = f"{describe_loss(loss)} loss"
    return f"{named} of a hypothesis's own probabilities" if is_of_probabilities(loss) else named


def format_loss(loss: str, value: float, *, upper: bool, percent: bool = True) -> str:
    """Format a bound, rounded up, or a measured loss, to the nearest; a cost with its unit."""
    if loss == "zero_one" and percent:
        return format_percent_upper(value) if upper else format_percent(value)
    number = format_upper(value) if upper else format_nearest(value)
    unit = largest_cost(loss)
    return number if unit is None else f"{number} of the largest cost, {unit}"


def answers(certificate: Certificate, tested: Statement | None = None) -> list[Answer]:
    """Return the bound on what `predict` does, what was measured on held-out points and in a test, and a constant."""
    who, loss = certificate.predictor, certificate.loss
    if certificate.unproved is None:
        proved = next(s for s in certificate.statements if s.bound == certificate.bound)
        title = f"the {who} errs on at most" if certificate.is_zero_one else f"{name_loss(loss)} of the {who}, at most"
        value = format_loss(loss, certificate.bound, upper=True)
        how = f"certified, with probability {format_confidence(certificate.delta)}"
        if not certificate.strict and proved.event != Event.TEST_SET:
            how = "NOT STRICT: the theorem does not cover this"
        result = [Answer(title, value, f"{how}; {proved.title}")]
    else:
        result = [Answer(f"the {certificate.unproved}", "nothing is proved", "there is no bound below 1")]
    result += [_measured(s, "held-out points") for s in certificate.statements if s.event == Event.TEST_SET]
    commonest = certificate.commonest_class
    if commonest is not None and certificate.is_zero_one:
        label, error = commonest
        title = f"always predicting {name_class(label)} errs on"
        result.append(Answer(title, format_percent(error), "measured: the share of all other classes"))
    if tested is not None:
        answer = _measured(tested, "test points")
        bound = format_loss(tested.loss, tested.bound, upper=True)
        result.append(replace(answer, remark=f"{answer.remark}, which alone prove at most {bound}"))
    return result


def _measured(statement: Statement, where: str) -> Answer:
    """Return what was measured in a test."""
    title = f"on {where} it erred on" if statement.loss == "zero_one" else f"on {where}"
    value = format_loss(statement.loss, held_out_loss(statement), upper=False)
    return Answer(title, value, f"measured: {count_errors(statement)}")


def compare_with_commonest(certificate: Certificate) -> str | None:
    """Return a plain sentence if the bound is not below the error of always predicting the commonest class."""
    commonest = certificate.commonest_class
    if commonest is None or not certificate.is_zero_one or certificate.bound < commonest[1]:
        return None
    label, error = commonest
    return (
        f"This does not show that the classifier is any better than always predicting {name_class(label)}, which errs "
        f"on {format_percent(error)} (measured)."
    )


def held_out_loss(statement: Statement) -> float:
    """Return the loss that was measured on held-out points."""
    figures = statement.figures
    return figures["errors"] / figures["n"] if "errors" in figures else figures["loss"]


def count_errors(statement: Statement) -> str:
    """Return the result of a test in words."""
    n = statement.figures["n"]
    if "errors" in statement.figures:
        return f"{format_count(int(statement.figures['errors']), 'error')} on {n} points"
    return f"loss {format_nearest(statement.figures['loss'])} on {n} points"


@dataclass(frozen=True)
class ClassTable:
    """Errors by class, as text.

    Attributes
    ----------
    title : str
        Which points they are of.
    header : list of str
        Names of the columns: class, misses and false alarms, points, and one for each predicted class.
    rows : list of list of str
        Cells, one row for each class.
    notes : list of str
        What the columns are, and what is proved.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]


def class_table(certificate: Certificate, most_predicted: int) -> ClassTable | None:
    """Return errors by class, with the confusion matrix of up to `most_predicted` classes; None if there is none."""
    confusion = certificate.confusion
    if confusion is None:
        return None
    names = [name_class(label)[1:-1] for label in certificate.labels]
    shown = len(names) <= most_predicted
    doubtful = confusion.n_doubtful > 0
    predicted = [*(f"as {name}" for name in names), *(["in doubt"] if doubtful else [])] if shown else []
    bounded = ["at most"] if confusion.is_certified else []
    rows = []
    for name, counts, rates in zip(names, confusion.counts, certificate.class_rates(), strict=False):
        cells = [str(count) for count in counts][: len(predicted)]
        rows.append([name, *_format(rates.misses), *_format(rates.false_alarms), str(sum(counts)), *cells])
    if confusion.n_unknown and shown:
        last = [str(count) for count in confusion.counts[-1]][: len(predicted)]
        rows.append(["other labels", *["-"] * (2 + 2 * len(bounded)), str(confusion.n_unknown), *last])
    header = ["class", "missed", *bounded, "false alarms", *bounded, "points", *predicted]
    return ClassTable(_title(certificate, confusion), header, rows, _notes(certificate, confusion))


def _format(rate: Rate) -> list[str]:
    measured = "-" if rate.measured is None else format_percent(rate.measured)
    return [measured] if rate.bound is None else [measured, format_percent_upper(rate.bound)]


def _title(certificate: Certificate, confusion: Confusion) -> str:
    where = {
        "held-out": f"on {confusion.n} held-out points",
        "validation": f"on the {confusion.n} validation points of the {BEST}",
        "out-of-bag": f"on {confusion.n} validation points, each with the votes of those that were not trained on it",
    }[confusion.points]
    return f"By class, {where}"


def _notes(certificate: Certificate, confusion: Confusion) -> list[str]:
    notes = [
        "Missed: of the points of a class, the share that is predicted as another.",
        "False alarms: of the points predicted as a class, the share that is of another.",
    ]
    if confusion.is_certified:
        proved = (
            f"All bounds of this table hold at once, with probability {format_confidence(certificate.delta)}, for "
            "classes that were known beforehand"
        )
        if confusion.points == "validation" and not certificate.strict:
            proved += "; the theorem does not cover this fit"
        balanced = confusion.balanced_error
        notes.append(f"{proved}.")
        notes.append(f"Balanced error, the mean of the misses over classes: at most {format_percent_upper(balanced)}.")
    else:
        notes.append("Measured, not certified. Held-out rows (holdout) or new labelled points (certify) prove bounds.")
    if confusion.n_doubtful:
        notes.append("A prediction in doubt, which rounding could change on another engine, counts as an error.")
    return notes
