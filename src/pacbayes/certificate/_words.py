"""Certificates in words: sections of text, which `str`, notebooks, the command line and pages lay out.

All of them come from the statements. What is printed never says more than what is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pacbayes._formatting import (
    escape_control,
    format_confidence,
    format_count,
    format_lower,
    format_nearest,
    format_number,
    format_percent,
    format_percent_lower,
    format_percent_upper,
    format_upper,
    join_names,
)
from pacbayes._losses import MEANS, describe_loss, find_cap, is_of_numbers, is_of_probabilities, largest_cost, to_error
from pacbayes.bounds import pac_bayes_kl, pac_bayes_lambda, pac_bayes_sqrt
from pacbayes.certificate._objectives import OBJECTIVES, VOTINGS
from pacbayes.certificate._rates import GroupErrors, Rate
from pacbayes.certificate._statements import BEST, MAJORITY, RANDOMISED, Statement, divided_prior

if TYPE_CHECKING:
    from pacbayes.certificate._certificate import Certificate, FamilyWeight

# Letters of a label that are shown.
_LONGEST_NAME = 40

# Families of hypotheses in words, which are true of whatever somebody would give that name; others are called by it.
_FAMILIES = {
    "svm": "SVMs",
    "boosting": "boosted trees",
    "forest": "forests of trees",
    "linear": "linear models",
    "ridge": "kernel ridge regressions",
    "lightgbm": "LightGBM models",
    "catboost": "CatBoost models",
    "tabpfn": "TabPFN models",
}


@dataclass(frozen=True)
class Section:
    """A part of what a certificate says, as text.

    Attributes
    ----------
    title : str
        What it is about.
    header, rows : list of str, list of list of str
        Names of the columns, if they have any, and cells: bounds rounded up, measured shares to the nearest.
    notes, warnings : list of str
        What there is to know about the rows, or a list; and what a reader must not miss.
    """

    title: str
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers, which are set to the right; the first one holds names."""
        columns = enumerate(zip(*self.rows, strict=True))
        return [k > 0 and all(cell[:1].isdigit() or cell == "-" for cell in column) for k, column in columns]


class RateTable(Section):
    """Errors of parts of the points, by class or by group: all bounds of a table hold at once."""


class ClassTable(RateTable):
    """Errors by class: names of the columns, a row for each class, and notes on what is proved."""


@dataclass(frozen=True)
class Answer:
    """A number about what `predict` does, or to compare that with.

    Attributes
    ----------
    title, value, remark : str
        Whose error it is, the number, bounds rounded up and measured shares to the nearest, and what kind it is of.
    """

    title: str
    value: str
    remark: str


@dataclass(frozen=True)
class Row:
    """A line of a table or a bar of a plot.

    Attributes
    ----------
    label, predictor : str
        Method of the bound, or what was measured, and whose loss it is about.
    value : float
        The loss or bound.
    kind : {"measured", "certified", "comparison"}
        Whether it was measured, is part of the certificate, or is there to compare with.
    covered, unit : bool
        Whether the theorem covers a bound, and whether the value is in the unit of the target, rather than in [0, 1].
    """

    label: str
    predictor: str
    value: float
    kind: Literal["measured", "certified", "comparison"]
    covered: bool = True
    unit: bool = False

    @property
    def shown(self) -> str:
        """The value: to the nearest if it was measured; a bound rounded up, with a remark if it proves nothing."""
        if self.unit:
            return format_number(self.value, "nearest" if self.kind == "measured" else "up")
        if self.kind == "measured":
            return format_nearest(self.value)
        return f"{format_upper(self.value)}, nothing is proved" if self.value >= 1 else format_upper(self.value)

    @property
    def remark(self) -> str:
        """The kind in words."""
        if self.kind == "certified" and not self.covered:
            return "not covered by the theorem"
        return "to compare with" if self.kind == "comparison" else self.kind


def sections(certificate: Certificate, tested: Statement | None = None, most_predicted: int = 6) -> list[Section]:
    """Return all that a certificate says, as text: `str`, notebooks and the command line lay it out.

    `tested` is what other test points prove about what `predict` does. The confusion matrix of up to `most_predicted`
    classes is part of it.
    """
    notes, shift = [describe_weights(certificate)], certificate.shift
    if shift is not None:
        notes.append(
            f"About a shifted distribution: of {format_count(shift.n, 'new point')}, {shift.n_kept} were kept, each "
            f"with probability weight / {shift.max_weight:g}, whatever its label (seed {shift.seed})."
        )
    proved = Section(
        summary(certificate),
        rows=[[answer.title, answer.value, answer.remark] for answer in answers(certificate, tested)],
        notes=list(filter(None, notes)),
        warnings=list(filter(None, [_warn(certificate), compare_with_commonest(certificate)])),
    )
    others = (group_table, abstention_table, set_table, interval_table, error_table, probability_table)
    tables = [class_table(certificate, most_predicted), *(table(certificate) for table in others)]
    instead = certificate.predictor != BEST and any(s.predictor == BEST for s in certificate.statements)
    bounds = Section(
        "How it is proved",
        header=["Loss or bound", "Value", "Whose loss", "Kind"],
        rows=[[row.label, row.shown, row.predictor, row.remark] for row in rows(certificate, tested)],
        notes=["To predict with the best hypothesis instead: voting='best'."] if instead else [],
    )
    facts = Section("The figures behind it", rows=[list(item) for item in figures(certificate).items()])
    strict = "Strict" if certificate.strict else "NOT STRICT"
    assumed = Section(f"{strict}, assuming that:", notes=list(certificate.assumptions))
    return [proved, *(table for table in tables if table is not None), bounds, facts, assumed]


def _warn(certificate: Certificate) -> str:
    codes = certificate.assumption_codes
    if certificate.strict:
        doubt = "Did any of these rows train the models, or choose them? Models do not show it, and then nothing is"
        return f"{doubt} proved." if "trained-elsewhere" in codes else ""
    if "rows-in-time" in codes:
        why = "rows follow each other in time, and no bound covers those that come later. What is said here would be "
        why += "true of new rows of the same time."
    elif not certificate.test_covered:
        why = "the weights were estimated, and nothing is proved unless they are the true ones."
    elif certificate.is_tested:
        why = "the theorem covers the bound from held-out points, and no other bound of this fit."
    else:
        why = "the theorem does not cover this fit, and one of the assumptions says why."
    return f"NOT STRICT: {why}"


def text(certificate: Certificate) -> str:
    """Return the sections as lines, those of tables in columns."""
    lines = []
    for section in certificate.sections():
        table = [section.header, *section.rows] if section.header else section.rows
        cells = [[escape_control(cell) for cell in row] for row in table]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        columns = zip(section.numeric, widths, strict=True)
        layout = "  ".join(f"{{:{'>' if number else '<'}{width}}}" for number, width in columns)
        lines += [escape_control(section.title), *(f"  {escape_control(line)}" for line in section.warnings)]
        lines += [f"  {layout.format(*row)}".rstrip() for row in cells]
        lines += [f"  - {escape_control(note)}" for note in section.notes]
    return "\n".join(lines)


def summary(certificate: Certificate) -> str:
    r"""Return what a certificate proves, in one plain sentence.

    >>> from pacbayes import certify
    >>> certificate, _ = certify([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> print(summary(certificate).replace(", the", ",\nthe").replace(", and", ",\nand"))
    With probability at least 0.95 over the draw of the sample (delta = 0.05),
    the majority vote errs on at most 15.28% of new points from the same distribution,
    and the randomised classifier on at most 15.27%.
    """
    delta, loss = certificate.delta, certificate.loss
    # One sentence holds what holds jointly.
    proved = [s for s in certificate.statements if not s.is_vacuous]
    proved = [s for s in proved if s.event == proved[0].event]
    if not proved:
        first = certificate.statements[0]
        bound = f"the bound on the {name_predictor(certificate, first)} is {format_upper(first.bound)}"
        advice = "More data would help, or a base learner that errs less."
        return escape_control(f"Nothing is proved: {bound} (delta = {delta}). {advice}")
    # For a given seed, a randomised tail or a choice of points may fail more often, or less.
    by_seed = certificate.shift is not None or "seed" in proved[0].figures
    drawn = "the sample and of the seed" if by_seed else "the sample"
    start = f"With probability at least {format_confidence(delta)} over the draw of {drawn} (delta = {delta}),"
    if not proved[0].is_covered:
        doubt = "The theorem does not cover this fit. If it did:"
        if "weights-estimated" in certificate.assumption_codes:
            doubt = "The weights were estimated. If they were the true ones:"
        start = f"{doubt} {start[0].lower()}{start[1:]}"
    new = "new points from the same distribution"
    if certificate.shift is not None:
        new = "new points from the shifted distribution that the weights describe"
    first, *others = proved
    if certificate.is_zero_one:
        claims = [f"the {first.predictor} errs on at most {format_percent_upper(first.bound)} of {new}"]
        claims += [f"the {other.predictor} on at most {format_percent_upper(other.bound)}" for other in others]
    else:
        whose = "the probabilities of " if is_of_probabilities(loss) else ""
        whose += f"the {name_predictor(certificate, first)}"
        bound = _format_loss(loss, first.bound, upper=True)
        claims = [f"the {_name_loss(loss)} of {whose} on {new} is at most {bound}"]
        claims += [f"that of the {one.predictor} at most {_format_loss(loss, one.bound, upper=True)}" for one in others]
        claims[-1] += f", where {_describe_cap(loss)}" if is_of_numbers(loss) else ""
    end = "" if certificate.unproved is None else f"; about the {certificate.unproved} nothing is proved"
    return escape_control(f"{start} {', and '.join(claims)}{end}.")


# -- what a reader asks first: how often `predict` errs, and compared with what ----------------------


def name_class(label: str, longest: int = _LONGEST_NAME) -> str:
    """Return a class label in quotes, cut if it is long."""
    return repr(label if len(label) <= longest else f"{label[: longest - 1]}…")


def name_predictor(certificate: Certificate, about: Statement | Certificate) -> str:
    """Return what the predictor of a statement is called; a vote by costs may predict a class that loses the vote."""
    by_cost = about.predictor == MAJORITY and "expected-costs" in certificate.assumption_codes
    return "vote by expected cost" if by_cost else about.predictor


def _name_loss(loss: str) -> str:
    """Return what a loss other than the zero-one loss measures, in words."""
    if is_of_numbers(loss):
        return MEANS[find_cap(loss)[0]]
    return f"{describe_loss(loss)} loss" if largest_cost(loss) is None else "mean cost"


def _format_loss(loss: str, value: float, *, upper: bool = False) -> str:
    """Format a bound, rounded up, or a measured loss, to the nearest; a cost with its unit."""
    if loss == "zero_one":
        return format_percent_upper(value) if upper else format_percent(value)
    if is_of_numbers(loss):
        return format_number(to_error(loss, value), "up" if upper else "nearest")
    number = format_upper(value) if upper else format_nearest(value)
    unit = largest_cost(loss)
    return number if unit is None else f"{number} of the largest cost, {unit}"


def _describe_cap(loss: str) -> str:
    """Say how large errors of numbers count; nothing about other losses."""
    cap = format_number(find_cap(loss)[1]) if is_of_numbers(loss) else ""
    return cap and f"errors beyond {cap} count as {cap}"


def answers(certificate: Certificate, tested: Statement | None = None) -> list[Answer]:
    """Return the bound on what `predict` does, its error on held-out points, and that of the commonest class.

    `tested` is what other test points prove about what `predict` does, as the first statement of `certify(X, y)`.
    """
    who, loss, bound = name_predictor(certificate, certificate), certificate.loss, certificate.bound
    if certificate.unproved is None:
        proved = next(s for s in certificate.statements if s.bound == bound)
        title = f"the {who} errs on" if certificate.is_zero_one else f"{_name_loss(loss)} of the {who},"
        how = f"certified, with probability {format_confidence(certificate.delta)}"
        if not proved.is_covered:
            how = "NOT STRICT: the theorem does not cover this"
        remark = "; ".join(filter(None, (how, proved.title, _describe_cap(loss))))
        result = [Answer(f"{title} at most", _format_loss(loss, bound, upper=True), remark)]
    else:
        result = [Answer(f"the {certificate.unproved}", "nothing is proved", "there is no bound below 1")]
    result += [_measured(s, "held-out points") for s in certificate.statements if s.is_test]
    if certificate.commonest_class is not None and certificate.is_zero_one:
        label, error = certificate.commonest_class
        title, share = f"always predicting {name_class(label)} errs on", "the share of all other classes"
        result.append(Answer(title, format_percent(error), f"measured: {share}"))
    if certificate.numbers is not None:
        median, value = format_number(certificate.numbers.median), certificate.numbers.median_loss
        result.append(Answer(f"always predicting the median, {median}", _format_loss(loss, value), "measured"))
    for level, chosen in _prove_levels(certificate.choose_interval, (_COVERAGE,)):
        title = f"intervals that hold {level:.0%} of new points are wide, on average"
        how = f"certified, {_surely(certificate)}; {chosen.misses} of {chosen.n} held-out points are outside"
        result.append(Answer(title, format_number(chosen.mean_width, "up"), how))
    if certificate.groups is not None:
        result.append(_worst_group(certificate, certificate.groups))
    if tested is not None:
        answer, alone = _measured(tested, "test points"), _format_loss(tested.loss, tested.bound, upper=True)
        result.append(replace(answer, remark=f"{answer.remark}, which alone prove at most {alone}"))
    return result


def _worst_group(certificate: Certificate, groups: GroupErrors) -> Answer:
    """Return the group with the largest bound."""
    label, rate = groups.worst
    wrong = f" {_wrong_in_words(certificate)}" if certificate.numbers is not None else ""
    title = f"the worst of {format_count(len(groups.labels), 'group')}, {name_class(label)}:{wrong} at most"
    how = f"certified, with probability {format_confidence(certificate.delta)} for all groups at once"
    if not certificate.test_covered:
        how = "NOT STRICT: the theorem does not cover this"
    counted = f"{format_count(rate.errors, 'error')} on {format_count(rate.n, 'point')}"
    return Answer(title, format_percent_upper(rate.bound or 0.0), f"{how}; {counted}")


def _surely(certificate: Certificate, about: str = "", of_departure: bool = False) -> str:
    """Return with which probability statements hold, and what the theorem does not cover, of the fit or the points."""
    departure = "this fit" if of_departure else ""
    if not (of_departure or certificate.test_covered):
        departure = "estimated weights" if "weights-estimated" in certificate.assumption_codes else "rows in time"
    remark = f"; the theorem does not cover {departure}" if departure else ""
    return f"with probability {format_confidence(certificate.delta)}{about}{remark}"


def _prove_levels(choose: Callable[[float], Any], levels: Sequence[float]) -> list[tuple[float, Any]]:
    """Return those of some coverages that are proved, which few points do not do, with what is chosen for each."""
    proved = []
    for level in levels:
        with suppress(ValueError):
            proved.append((level, choose(level)))
    return proved


def _measured(statement: Statement, where: str) -> Answer:
    """Return what was measured in a test."""
    title = f"on {where} it erred on" if statement.loss == "zero_one" else f"on {where}"
    value = _format_loss(statement.loss, statement.measured_loss)
    return Answer(title, value, f"measured: {_describe_test(statement)}")


def _describe_test(statement: Statement) -> str:
    """Return the result of a test in words."""
    n = statement.figures["n"]
    if "errors" in statement.figures:
        return f"{format_count(int(statement.figures['errors']), 'error')} on {n} points"
    if is_of_numbers(statement.loss):
        beyond = format_count(statement.figures["counts"][-1], "error")
        error = _format_loss(statement.loss, statement.measured_loss)
        return f"{_name_loss(statement.loss)} {error} on {n} points, {beyond} beyond the cap"
    return f"loss {format_nearest(statement.figures['loss'])} on {n} points"


def compare_with_commonest(certificate: Certificate) -> str | None:
    """Return a sentence if the bound is not below the error of the best constant, class or number, else None."""
    commonest, loss = certificate.commonest_class, certificate.loss
    if certificate.numbers is not None:
        what, constant, error = "regressor", "the median", certificate.numbers.median_loss
        measured = f"with a {_name_loss(loss)} of {_format_loss(loss, error)}"
    elif commonest is not None and certificate.is_zero_one:
        what, constant, error = "classifier", name_class(commonest[0]), commonest[1]
        measured = f"which errs on {format_percent(error)}"
    else:
        return None
    no_better = f"This does not show that the {what} is any better than always predicting {constant}, {measured}"
    return f"{no_better} (measured)." if certificate.bound >= error else None


# -- by class ----------------------------------------------------------------------------------------

_WHERE = {
    "held-out": "{} held-out points",
    "validation": f"the {{}} validation points of the {BEST}",
    "out-of-bag": "{} validation points, each with the votes of those that were not trained on it",
}


def class_table(certificate: Certificate, most_predicted: int = 50) -> ClassTable | None:
    """Return errors by class as a table of text, with the confusion matrix of up to `most_predicted` classes."""
    confusion = certificate.confusion
    if confusion is None:
        return None
    names = [name_class(label)[1:-1] for label in certificate.labels]
    shown = len(names) <= most_predicted
    predicted = [*(f"as {name}" for name in names), *(["in doubt"] if confusion.n_doubtful else [])] if shown else []
    bounded = ["at most"] if confusion.is_certified else []
    table = []
    for name, counts, rates in zip(names, confusion.counts, certificate.class_rates(), strict=False):
        cells = [str(count) for count in counts][: len(predicted)]
        table.append([name, *_format_rate(rates.misses), *_format_rate(rates.false_alarms), str(sum(counts)), *cells])
    if confusion.n_unknown and shown:
        last = [str(count) for count in confusion.counts[-1]][: len(predicted)]
        table.append(["other labels", *["-"] * (2 + 2 * len(bounded)), str(confusion.n_unknown), *last])
    notes = [
        "Missed: of the points of a class, the share that is predicted as another.",
        "False alarms: of the points predicted as a class, the share that is of another.",
    ]
    if confusion.is_certified:
        of_departure = confusion.points == "validation" and not certificate.strict
        sure = _surely(certificate, ", for all classes known beforehand or seen in training", of_departure)
        balanced = format_percent_upper(confusion.balanced_error)
        notes.append(f"All bounds of this table hold at once, {sure}.")
        notes.append(f"Balanced error, the mean of the misses over classes: at most {balanced}.")
    else:
        notes.append("Measured, not certified. Held-out rows (holdout) or new labelled points (certify) prove bounds.")
    if confusion.n_doubtful:
        notes.append("A prediction in doubt, which rounding could change on another engine, counts as an error.")
    header = ["class", "missed", *bounded, "false alarms", *bounded, "points", *predicted]
    return ClassTable(f"By class, on {_WHERE[confusion.points].format(confusion.n)}", header, table, notes)


def _format_rate(rate: Rate) -> list[str]:
    return [_format_share(rate.measured)] + ([] if rate.bound is None else [format_percent_upper(rate.bound)])


def _format_share(measured: float | None) -> str:
    return "-" if measured is None else format_percent(measured)


def _format_limits(low: float, high: float) -> str:
    return f"{format_percent_lower(low)} to {format_percent_upper(high)}"


# -- by group ----------------------------------------------------------------------------------------

# Groups that are shown, and names in one line.
_MOST_SHOWN, _MOST_NAMES = 50, 8


def group_table(certificate: Certificate) -> RateTable | None:
    """Return errors by group as a table of text, the groups with the largest bounds first; None without groups."""
    groups = certificate.groups
    if groups is None:
        return None
    worst_first = sorted(groups.rates(), key=lambda one: -(one.errors.bound or 0.0))
    table = [
        [name_class(label)[1:-1], *_format_rate(rate), str(rate.errors), str(rate.n)]
        for label, rate in worst_first[:_MOST_SHOWN]
    ]
    label, rate = groups.worst
    notes = [
        f"All bounds of this table hold at once, {_surely(certificate, ', for all groups that were declared')}.",
        f"The worst group is {name_class(label)}, with an error of at most {format_percent_upper(rate.bound or 0.0)}: "
        "no group errs more often.",
    ]
    if groups.overlapping:
        notes.append("A point may be in several groups, or in none.")
    small = groups.find_small(certificate.delta)
    if small:
        named = join_names([f"{name_class(name)} ({rate.n})" for name, rate in small], _MOST_NAMES)
        notes.append(f"Too few points to prove much, even if none were an error: {named}.")
    if len(groups.labels) > _MOST_SHOWN:
        notes.append(f"{len(groups.labels) - _MOST_SHOWN} more groups, with smaller bounds, are not shown.")
    by = f"By {name_class(groups.name)}" if groups.name else "By group"
    header = ["group", _wrong_in_words(certificate), "at most", "errors", "points"]
    return RateTable(f"{by}, on {certificate.statements[0].figures['n']} held-out points", header, table, notes)


def _wrong_in_words(certificate: Certificate) -> str:
    """Return what the points of a group are that count as errors."""
    if certificate.numbers is None:
        return "erred on"
    return f"off by more than {format_number(certificate.large_error)}"


# -- by the shares of the vote -----------------------------------------------------------------------

# Levels that the table of prediction sets shows.
_LEVELS = (0.9, 0.95, 0.99)


def abstention_table(certificate: Certificate) -> Section | None:
    """Return what is proved where the vote answers only some points, as a table of text; None if nothing is."""
    rows = certificate.abstention
    if not rows:
        return None
    n = rows[0].n
    cells = [
        [
            f"{row.threshold:.4f} or more" if row.threshold else "any",
            format_percent(row.answered[0] / n),
            _format_limits(*row.share),
            _format_share(row.measured_error),
            format_percent_upper(row.bound),
        ]
        for row in rows
    ]
    notes = [
        f"All bounds on errors hold at once, {_surely(certificate)}: a row may be chosen by them. So do, with the "
        "same probability, all limits of the share that is answered.",
        "Each has its share of delta: for all points, the bound on the vote alone is smaller than in the first row.",
        "To answer by them: predict_selective(X, max_error), predict --max-error.",
    ]
    declared = certificate.declared
    if declared is not None:
        how, row = "is not proved", declared.proved
        if row is not None:
            how = f"is proved, as a statement of its own with probability {format_confidence(certificate.delta)}, at "
            how += "any share" if row.threshold == 0 else f"a share of {row.threshold:.4f} or more"
            how += f": {format_percent(row.answered[0] / n)} answered"
        most = format_percent(declared.max_error)
        notes.append(f"The error of at most {most} that was declared beforehand {how}.")
    header = ["winner's share", "answered", "proved", "error in these", "at most"]
    return Section(f"Where the vote answers, on {n} held-out points", header, cells, notes)


def set_table(certificate: Certificate) -> Section | None:
    """Return sets of classes with a proved coverage as a table of text; None if no level of those shown is proved."""
    cells = []
    for level, sets in _prove_levels(certificate.choose_sets, _LEVELS):
        added = "none" if sets.threshold == 1 else f"share {sets.threshold:.4f} or more"
        cells.append([f"{level:.0%} or more", f"{sets.mean_size:.3f}", f"{sets.misses}", added])
    if not cells:
        return None
    notes = [
        f"Each level alone holds {_surely(certificate)}: choose it before a look at the sets.",
        "To predict sets: predict_set(X, coverage), predict --coverage.",
    ]
    header = ["coverage", "mean size, measured", "misses", "besides the winner"]
    return Section(f"Sets that hold the class, on {sets.n} held-out points", header, cells, notes)


def probability_table(certificate: Certificate) -> Section | None:
    """Return what is proved about probabilities as a table of text; None if nothing is."""
    proved = certificate.probabilities
    if proved is None:
        return None
    cells = [
        [
            f"{one.low:g} to {one.high:g}",
            str(one.n),
            format_percent(one.mean),
            _format_share(one.measured),
            _format_limits(*one.limits),
        ]
        for one in proved.bins
        if one.n
    ]
    notes = [
        f"The Brier score of predict_proba is at most {format_upper(proved.bound)}, {_surely(certificate)}; on these "
        f"points it is {format_upper(proved.measured)} or less. It is half the squared distance of the probabilities "
        "from the class.",
        "All limits of the share that is right hold at once, with probability "
        f"{format_confidence(certificate.delta)}, as a statement of their own.",
    ]
    if certificate.calibration is not None:
        rows = f"{certificate.calibration.n} training rows"
        notes.append(f"Shares of the vote were calibrated on {rows}, by voters not trained on them.")
    header = ["winner's probability", "points", "mean", "right", "proved"]
    return Section(f"Probabilities, on {proved.n} held-out points", header, cells, notes)


# -- predicted numbers -------------------------------------------------------------------------------

# Coverages of intervals that are shown, and the one that is told first.
_COVERAGES, _COVERAGE = (0.5, 0.8, 0.9, 0.95, 0.99), 0.9

# Errors of the curve that are shown.
_MOST_ERRORS = 12


def interval_table(certificate: Certificate) -> Section | None:
    """Return intervals with a proved coverage as a table of text; None if no level of those shown is proved."""
    proved = _prove_levels(certificate.choose_interval, _COVERAGES)
    if not proved:
        return None
    cells = [[f"{level:.0%} or more", format_number(one.mean_width, "up"), str(one.misses)] for level, one in proved]
    notes = [
        f"Each level alone holds {_surely(certificate)}: choose it before a look at the intervals. Intervals are wider "
        "where the hypotheses disagree.",
        "To predict intervals: predict_interval(X, coverage), predict --coverage.",
    ]
    title = f"Intervals that hold the target, on {proved[0][1].n} held-out points"
    return Section(title, ["coverage", "mean width", "misses"], cells, notes)


def error_table(certificate: Certificate) -> Section | None:
    """Return how many points are off by no more than an error, as a table of text; None without held-out points."""
    if certificate.numbers is None:
        return None
    curve = [point for point in certificate.error_curve() if point.share > 0]
    most = max((point.share for point in curve), default=0.0)
    curve = curve[: 1 + next((k for k, point in enumerate(curve) if point.share == most), 0)]
    curve = curve[:: max(1, -(-len(curve) // _MOST_ERRORS))]
    cells = [
        [format_number(point.error, "up"), format_percent(point.measured), format_percent_lower(point.share)]
        for point in curve
    ]
    if not cells:
        return None
    n = certificate.statements[0].figures["n"]
    kind: Literal["absolute", "squared"] = "squared" if certificate.loss.startswith("absolute") else "absolute"
    squared, other = certificate.bound_error(kind), MEANS[f"{kind}_error"]
    notes = [
        f"All shares hold at once, {_surely(certificate)}.",
        f"With the same probability, the {other} is at most {format_number(squared, 'up')}, with the same cap.",
    ]
    header = ["off by at most", "measured", "at least"]
    return Section(f"How far predictions are off, on {n} held-out points", header, cells, notes)


# -- how it is proved --------------------------------------------------------------------------------


def rows(certificate: Certificate, tested: Statement | None = None) -> list[Row]:
    """Return the measured loss, the certified bounds and bounds to compare them with, for tables and plots.

    `tested` is what other test points prove about what `predict` does; shown if it is about the same loss.
    """
    of_numbers, held_out = is_of_numbers(certificate.loss), [s for s in certificate.statements if s.is_test]
    name, whose = _name_loss(certificate.loss), "hypotheses, by their weights" if of_numbers else RANDOMISED
    whose = BEST if certificate.predictor == BEST else whose

    def named(statement: Statement) -> str:
        return name_predictor(certificate, statement)

    def row(label: str, who: str, loss: float, kind: Any, covered: bool = True) -> Row:
        return Row(label, who, certificate.to_error(loss) if of_numbers else loss, kind, covered, unit=of_numbers)

    label = f"{name}, {{}} held-out points" if of_numbers else "loss on {} held-out points"
    result = [row(label.format(s.figures["n"]), named(s), s.measured_loss, "measured") for s in held_out]
    label = f"{name} in validation" if of_numbers else "validation loss"
    result.append(row(label, whose, certificate.empirical_loss, "measured"))
    proved = [s for s in certificate.statements if s.bound < 1 or not of_numbers]
    result += [row(s.title, named(s), s.bound, "certified", s.is_covered) for s in proved]
    if certificate.numbers is not None:
        result.append(row(f"{name}, median", "always the median", certificate.numbers.median_loss, "measured"))
    elif not held_out and not of_numbers:
        bounds = _relaxations(certificate).items()
        result += [row(label, whose, bound, "comparison", certificate.strict) for label, bound in bounds]
        label = f"Chernoff, if tested on {certificate.n_validation} points"
        result.append(row(label, "one classifier with this loss", certificate.held_out_bound(), "comparison"))
    if tested is not None and tested.loss == certificate.loss:
        label, method = (f"{name}, {{}} test points", "betting") if of_numbers else ("test loss, {} points", "Chernoff")
        if tested.loss == "zero_one":
            label, method = "test error, {} points", "Clopper-Pearson"
        result.append(row(label.format(tested.figures["n"]), named(tested), tested.measured_loss, "measured"))
        result.append(row(f"{method}, test set", named(tested), tested.bound, "comparison"))
    return result


def _relaxations(certificate: Certificate) -> dict[str, float]:
    """Return bounds on the same posterior that the certificate does not state, by their names."""
    lam, delta, n_max = certificate.lam, certificate.delta, certificate.n_validation_max
    paid = divided_prior(certificate.kl_div, certificate.n_votes)
    arguments = (certificate.empirical_loss, paid, certificate.n_validation)
    bounds = {}
    # The kl bound's posterior may be sharper than any lambda of the theorem.
    if lam is not None and 0 < lam < 2:
        bounds[f"PAC-Bayes-lambda, lambda = {lam:.3g}"] = pac_bayes_lambda(*arguments, lam, delta, n_max=n_max)
    if certificate.predictor != BEST:
        if not any(statement.method == "pac-bayes-kl" for statement in certificate.statements):
            bounds["PAC-Bayes-kl"] = pac_bayes_kl(*arguments, delta, n_max=n_max)
        bounds["square-root relaxation"] = pac_bayes_sqrt(*arguments, delta, n_max=n_max)
    return {label: float(bound) for label, bound in bounds.items()}


def figures(certificate: Certificate) -> dict[str, str]:
    """Return what the bounds are made of, by name."""
    n, n_max, of_numbers = certificate.n_validation, certificate.n_validation_max, is_of_numbers(certificate.loss)
    n_dropped, n_votes, shift = certificate.n_dropped, certificate.n_votes, certificate.shift
    tests = [_describe_test(statement) for statement in certificate.statements if statement.is_test]
    several = len({statement.event for statement in certificate.statements}) > 1
    known = {
        "Hypotheses m": f"{certificate.n_hypotheses}",
        "Validation points of each": f"{n} to {n_max}" if n_max > n else f"{n}",
        "Validation loss": _format_loss(certificate.loss if of_numbers else "", certificate.empirical_loss),
        "KL(posterior || prior)": format_nearest(certificate.kl_div),
        "Delta": f"{certificate.delta}",
        "Posterior": _describe_posterior(certificate),
        "Weight by family": describe_families(certificate),
        "Dropped in the race": n_dropped and f"{n_dropped} hypotheses, which have no weight",
        "Competing votes": n_votes > 1 and f"{n_votes}, under one delta",
        "Bounds": several and "each holds with probability 1 - delta, not all of them at once",
        "Held-out points": tests and tests[-1],
        "Kept for the shift": shift and f"{shift.n_kept} of {shift.n} points, by weight / {shift.max_weight:g}",
        "Lambda": certificate.lam is not None and f"{certificate.lam:.4g}",
        "F(lambda)": certificate.quasiconvex and f"strongly quasiconvex, by the condition {certificate.quasiconvex!r}",
    }
    return {name: value for name, value in known.items() if isinstance(value, str) and value}


def name_family(name: str) -> str:
    """Return a family of hypotheses in words, as a plural; by its name if it is somebody's own."""
    return _FAMILIES.get(name, f"{name_class(name)} hypotheses")


def describe_families(certificate: Certificate) -> str:
    """Return how the weight is divided among families, the heaviest first; empty if there is no union of them."""
    return ", ".join(
        f"{name_family(family.name)} {format_percent(family.weight)} (of {family.n_hypotheses}"
        f"{', by probabilities' if family.vote_by == 'probabilities' else ''})"
        for family in sorted(certificate.families, key=lambda family: -family.weight)
    )


def describe_weights(certificate: Certificate) -> str:
    """Return a sentence such as "SVMs hold 98% of the weight, linear models 2%."; empty if there is no union."""
    if not certificate.families:
        return ""
    first, *others = sorted(certificate.families, key=lambda family: -family.weight)
    name, weight = name_family(first.name), "all" if not any(one.weight for one in others) else _format_weight(first)
    shares = [f"{name_family(one.name)} {_format_weight(one)}" for one in others if weight != "all"]
    return f"{name[:1].upper()}{name[1:]} hold {', '.join([f'{weight} of the weight', *shares])}."


def _format_weight(family: FamilyWeight) -> str:
    """Return the share of a family, one of several with weight, as a whole percentage that is neither 0 nor 100."""
    weight = family.weight
    if weight < 0.01:
        return "less than 1%" if weight else "none"
    return "more than 99%" if weight > 0.99 else f"{weight:.0%}"


def _describe_posterior(certificate: Certificate) -> str:
    chosen = VOTINGS[certificate.voting].posterior
    if chosen is not None:
        return chosen
    objective = OBJECTIVES[certificate.objective]
    if not objective.of_losses:
        return objective.title
    what = f"the {objective.title}"
    if certificate.n_dropped:
        everyone = certificate.minimum_over == certificate.n_hypotheses
        what += f" over {'all' if everyone else f'the {certificate.minimum_over}'} hypotheses"
        what += "" if everyone else " validated in full"
    if certificate.global_minimum:
        return f"global minimum of {what}, proved"
    return f"minimises {what}, whose minimum is at least {format_lower(certificate.minimum_lower_bound or 0.0, 6)}"
