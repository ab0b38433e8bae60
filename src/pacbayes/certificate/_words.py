"""Certificates in words: one sentence, a text, and rows for tables and plots. All of them come from the statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pacbayes._formatting import (
    escape_control,
    format_confidence,
    format_lower,
    format_nearest,
    format_percent_upper,
    format_upper,
)
from pacbayes._losses import describe_loss, is_of_probabilities, largest_cost
from pacbayes.bounds import pac_bayes_kl, pac_bayes_lambda, pac_bayes_sqrt
from pacbayes.certificate._answers import (
    class_table,
    compare_with_commonest,
    count_errors,
    format_loss,
    held_out_loss,
    name_class,
    name_loss,
)
from pacbayes.certificate._derivation import divided_prior
from pacbayes.certificate._statements import BEST, RANDOMISED, Event, Statement

if TYPE_CHECKING:
    from pacbayes.certificate._certificate import Certificate

__all__ = ["Row", "figures", "rows", "summary", "text"]


# Classes up to which the confusion matrix is part of the text.
_MOST_PREDICTED = 6


@dataclass(frozen=True)
class Row:
    """A line of a table or a bar of a plot.

    Attributes
    ----------
    label : str
        Method of the bound, or what was measured.
    predictor : str
        Whose loss it is about.
    value : float
        The loss or bound.
    kind : {"measured", "certified", "comparison"}
        Whether it was measured, is part of the certificate, or is there to compare with.
    covered : bool, default=True
        Whether the theorem covers a bound.
    """

    label: str
    predictor: str
    value: float
    kind: Literal["measured", "certified", "comparison"]
    covered: bool = True

    @property
    def shown(self) -> str:
        """The value: to the nearest if it was measured; a bound rounded up, with a remark if it proves nothing."""
        if self.kind == "measured":
            return format_nearest(self.value)
        return f"{format_upper(self.value)}, nothing is proved" if self.value >= 1 else format_upper(self.value)


def rows(certificate: Certificate, tested: Statement | None = None) -> list[Row]:
    """Return the measured losses and the certified bounds; without held-out points, bounds to compare with.

    What other test points prove about the same loss comes last: the test of another loss has no place beside these.
    """
    of_test = _test_rows(tested) if tested is not None and tested.loss == certificate.loss else []
    n, n_max, delta = certificate.n_validation, certificate.n_validation_max, certificate.delta
    arguments = (certificate.empirical_loss, divided_prior(certificate.kl_div, certificate.n_votes), n)
    who = BEST if certificate.voting == "best" else RANDOMISED
    held_out = [statement for statement in certificate.statements if statement.event == Event.TEST_SET]
    result = [
        Row(f"loss on {s.figures['n']} held-out points", s.predictor, held_out_loss(s), "measured") for s in held_out
    ]
    result.append(Row("validation loss", who, certificate.empirical_loss, "measured"))
    strict = certificate.strict
    result += [
        Row(s.title, s.predictor, s.bound, "certified", strict or s.event == Event.TEST_SET)
        for s in certificate.statements
    ]
    if held_out:
        return result + of_test
    # The kl bound's posterior may be sharper than any lambda of the theorem.
    if certificate.lam is not None and 0 < certificate.lam < 2:
        bound = float(pac_bayes_lambda(*arguments, certificate.lam, delta, n_max=n_max))
        result.append(Row(f"PAC-Bayes-lambda, lambda = {certificate.lam:.3g}", who, bound, "comparison", strict))
    if certificate.voting != "best":
        kl_bound = float(pac_bayes_kl(*arguments, delta, n_max=n_max))
        if not any(statement.method == "pac-bayes-kl" for statement in certificate.statements):
            result.append(Row("PAC-Bayes-kl", who, kl_bound, "comparison", strict))
        bound = float(pac_bayes_sqrt(*arguments, delta, n_max=n_max))
        result.append(Row("square-root relaxation", who, bound, "comparison", strict))
    label = f"Chernoff, if tested on {n} points"
    result.append(Row(label, "one classifier with this loss", certificate.held_out_bound(), "comparison"))
    return result + of_test


def _test_rows(tested: Statement) -> list[Row]:
    what, method = ("error", "Clopper-Pearson") if tested.loss == "zero_one" else ("loss", "Chernoff")
    return [
        Row(f"test {what}, {tested.figures['n']} points", tested.predictor, held_out_loss(tested), "measured"),
        Row(f"{method}, test set", tested.predictor, tested.bound, "comparison"),
    ]


def figures(certificate: Certificate) -> dict[str, str]:
    """Return what the bounds are made of, by name."""
    result = {
        "Hypotheses m": f"{certificate.n_hypotheses}",
        "Validation points of each": _sizes(certificate),
        "Validation loss": format_nearest(certificate.empirical_loss),
        "KL(posterior || prior)": format_nearest(certificate.kl_div),
        "Delta": f"{certificate.delta}",
        "Posterior": _posterior(certificate),
    }
    if certificate.n_dropped:
        result["Dropped in the race"] = f"{certificate.n_dropped} hypotheses, which have no weight"
    if certificate.n_votes > 1:
        result["Competing votes"] = f"{certificate.n_votes}, under one delta"
    if _rest_on_several_events(certificate):
        result["Bounds"] = "each holds with probability 1 - delta, not all of them at once"
    for statement in certificate.statements:
        if statement.event == Event.TEST_SET:
            result["Held-out points"] = count_errors(statement)
    if certificate.lam is not None:
        result["Lambda"] = f"{certificate.lam:.4g}"
    if certificate.quasiconvex is not None:
        result["F(lambda)"] = f"strongly quasiconvex, by the condition {certificate.quasiconvex!r}"
    return result


def text(certificate: Certificate) -> str:
    """Return the certificate as a text of some lines: first what `predict` does, and what that compares with."""
    commonest = certificate.commonest_class if certificate.is_zero_one else None
    names = [statement.predictor for statement in certificate.statements]
    names += [] if commonest is None else [f"always {name_class(commonest[0])}"]
    width = max(map(len, names))
    claims = [f"  {statement.predictor:<{width}}  {_claim(statement)}" for statement in certificate.statements]
    unproved = _unproved(certificate)
    if unproved:
        claims.insert(0, f"  {unproved}: nothing is proved for this loss")
    if commonest is not None:
        claims.insert(
            1, f"  {names[-1]:<{width}}  error {format_nearest(commonest[1])}, measured: the share of all other classes"
        )
        claims[2:2] = [f"  {line}" for line in (compare_with_commonest(certificate),) if line is not None]
    lines = [
        f"With probability {format_confidence(certificate.delta)} over the sample, on new points from the same "
        "distribution:",
        *claims,
    ]
    if certificate.voting != "best" and any(statement.predictor == BEST for statement in certificate.statements):
        lines.append("  to predict with the best hypothesis instead: voting='best'")
    if _rest_on_several_events(certificate):
        lines.append("  these rest on different events: each holds with this probability, not all of them at once")
    if certificate.n_votes > 1:
        lines.append(f"  {certificate.n_votes} votes competed under one delta: the smallest bound may be chosen")
    lines += _by_class(certificate)
    lines += [
        f"  validation loss {format_nearest(certificate.empirical_loss)}, KL {format_nearest(certificate.kl_div)}, "
        f"{certificate.n_hypotheses} hypotheses, {_sizes(certificate)} validation points each",
        *_dropped(certificate),
        f"  posterior: {_posterior(certificate)}",
        f"  {'strict' if certificate.strict else 'NOT STRICT'}, assuming:",
        *(f"    - {assumption}" for assumption in certificate.assumptions),
    ]
    return "\n".join(escape_control(line) for line in lines)


def _unproved(certificate: Certificate) -> str | None:
    """Return what `predict` does, if the certificate has no statement about it."""
    stated = [statement.predictor for statement in certificate.statements]
    return None if certificate.unproved in stated else certificate.unproved


def _by_class(certificate: Certificate) -> list[str]:
    table = class_table(certificate, _MOST_PREDICTED)
    if table is None:
        return []
    columns = list(zip(table.header, *table.rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    # Names to the left, numbers to the right.
    lines = [
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (table.header, *table.rows)
    ]
    return [f"  {table.title}:", *(f"    {line}" for line in lines), *(f"    {note}" for note in table.notes)]


def _rest_on_several_events(certificate: Certificate) -> bool:
    return len({statement.event for statement in certificate.statements}) > 1


def _claim(statement: Statement) -> str:
    vacuous = "; nothing is proved" if statement.is_vacuous else ""
    tested = f": {count_errors(statement)}" if statement.event == Event.TEST_SET else ""
    value = format_loss(statement.loss, statement.bound, upper=True, percent=False)
    return f"{name_loss(statement.loss)} at most {value} ({statement.title}{tested}{vacuous})"


def _sizes(certificate: Certificate) -> str:
    n, n_max = certificate.n_validation, certificate.n_validation_max
    return f"{n} to {n_max}" if n_max > n else f"{n}"


def _dropped(certificate: Certificate) -> list[str]:
    if certificate.n_dropped == 0:
        return []
    return [
        f"  {certificate.n_dropped} hypotheses were dropped before they were validated in full: they have no weight"
    ]


def _posterior(certificate: Certificate) -> str:
    if certificate.voting == "best":
        return "all weight on the best hypothesis"
    if certificate.voting == "uniform":
        return "the prior itself"
    over = ""
    if certificate.n_dropped:
        everyone = certificate.minimum_over == certificate.n_hypotheses
        which = "all" if everyone else f"the {certificate.minimum_over}"
        over = f" over {which} hypotheses{'' if everyone else ' validated in full'}"
    if certificate.global_minimum:
        return f"global minimum of the {certificate.objective} bound{over}, proved"
    lower = 0.0 if certificate.minimum_lower_bound is None else certificate.minimum_lower_bound
    return f"minimises the {certificate.objective} bound{over}, whose minimum is at least {format_lower(lower, 6)}"


def summary(certificate: Certificate) -> str:
    r"""Return what a certificate proves, in one plain sentence.

    >>> from pacbayes import certify
    >>> certificate, _ = certify([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> print(summary(certificate).replace(", the", ",\nthe").replace(", and", ",\nand"))
    With probability at least 0.95 over the draw of the sample (delta = 0.05),
    the majority vote errs on at most 16.38% of new points from the same distribution,
    and the randomised classifier on at most 16.38%.
    """
    # One sentence holds what holds jointly.
    proved = [s for s in certificate.statements if not s.is_vacuous]
    proved = [s for s in proved if s.event == proved[0].event]
    if not proved:
        sentence = (
            f"Nothing is proved: the bound on the {certificate.statements[0].predictor} is "
            f"{format_upper(certificate.statements[0].bound)} (delta = {certificate.delta}). More data would help, or "
            "a base learner that errs less."
        )
        return escape_control(sentence)
    start = (
        f"With probability at least {format_confidence(certificate.delta)} over the draw of the sample (delta = "
        f"{certificate.delta}),"
    )
    if not certificate.strict and proved[0].event != Event.TEST_SET:
        start = f"The theorem does not cover this fit. If it did: {start[0].lower()}{start[1:]}"
    first, *others = proved
    if certificate.is_zero_one:
        claims = [
            f"the {first.predictor} errs on at most {format_percent_upper(first.bound)} of new points from the same "
            "distribution",
            *(f"the {other.predictor} on at most {format_percent_upper(other.bound)}" for other in others),
        ]
    else:
        whose = "the probabilities of " if is_of_probabilities(certificate.loss) else ""
        what = "mean cost" if largest_cost(certificate.loss) is not None else f"{describe_loss(certificate.loss)} loss"
        claims = [
            f"the {what} of {whose}the {first.predictor} on new points from the same distribution is at most "
            f"{format_loss(certificate.loss, first.bound, upper=True)}",
            *(f"that of the {other.predictor} at most {format_upper(other.bound)}" for other in others),
        ]
    end = "" if certificate.unproved is None else f"; about the {certificate.unproved} nothing is proved"
    return escape_control(f"{start} {', and '.join(claims)}{end}.")
