"""``pacbayes bound``: a calculator for every bound in `pacbayes.bounds`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Annotated, NamedTuple

import typer

from pacbayes._formatting import format_confidence
from pacbayes.cli._command import make_command, show_help_without_command
from pacbayes.cli._console import format_significant, print_result

app = typer.Typer(name="bound", invoke_without_command=True)


@app.callback()
def _bound(context: typer.Context) -> None:
    """Calculate a bound. Numbers are rounded so that a bound stays a bound."""
    show_help_without_command(context)


_HELP = {
    "c": "Budget of divergence, non-negative.",
    "c1": "Ratio of the grid for the variance, above 1.",
    "c2": "Ratio of the grid for the loss, above 1.",
    "errors": "Number of mistakes on n points.",
    "gibbs_bound": "Bound on the randomised classifier.",
    "kl_div": "KL(posterior || prior).",
    "lam": "Trade-off lambda.",
    "loss": "Empirical loss, in [0, 1].",
    "n": "Number of validation points; the smallest, if they differ.",
    "n_max": "Largest number of validation points, if they differ.",
    "p": "Bias of the first coin, in [0, 1].",
    "prior_mass": "Prior probability of the hypothesis, in (0, 1].",
    "q": "Bias of the second coin, in [0, 1].",
    "u": "Random number in (0, 1], drawn beforehand, for the randomised tail; 1 for none.",
    "variance": "Posterior mean of the sample variances of the losses.",
}

_DEFAULTS: dict[str, float | None] = {"n_max": None, "delta": 0.05, "c1": 1.15, "c2": 1.15, "prior_mass": 1.0, "u": 1.0}

_RANDOMISED = "With probability {confidence}, the expected loss of the randomised classifier is at most {value}."
_SINGLE = "With probability {confidence}, the expected loss of the hypothesis is at most {value}."


class Entry(NamedTuple):
    """A function of `pacbayes.bounds`, as the command line shows it."""

    arguments: str
    help: str
    meaning: str  # of the number, with places for the value, the confidence and arguments
    upwards: bool | None = True  # whether the number is to be rounded up or down; None where it is no bound
    proves: bool = True  # whether a value of 1 or more means that nothing is proved


ENTRIES = {
    "kl": Entry("p q", "Binary kl divergence.", "kl({p} || {q}) is {value}.", None, False),
    "kl_inverse_upper": Entry(
        "p c", "Largest q with kl(p || q) <= c.", "kl({p} || q) <= {c} for no q above {value}.", True, False
    ),
    "kl_inverse_lower": Entry(
        "p c", "Smallest q with kl(p || q) <= c.", "kl({p} || q) <= {c} for no q below {value}.", False, False
    ),
    "confidence_term": Entry(
        "n delta n_max",
        "Confidence term ln(2 sqrt(n) / delta).",
        "The confidence term at confidence {confidence} is {value}.",
        True,
        False,
    ),
    "xi": Entry("n", "Largest E[exp(n kl(loss || true loss))], Maurer's constant.", "xi({n}) is {value}.", True, False),
    "pac_bayes_kl": Entry("loss kl_div n delta n_max", "PAC-Bayes-kl (Theorem PBkl).", _RANDOMISED),
    "pac_bayes_lambda": Entry(
        "loss kl_div n lam delta n_max", "PAC-Bayes-lambda (Theorem PBlambda), for all lambda at once.", _RANDOMISED
    ),
    "pac_bayes_sqrt": Entry("loss kl_div n delta n_max", "The square-root relaxation (eq. PBsqrt).", _RANDOMISED),
    "catoni": Entry(
        "loss kl_div n lam delta", "Catoni's bound, for a lambda fixed before the sample is seen.", _RANDOMISED
    ),
    "empirical_bernstein": Entry("loss variance kl_div n delta c1 c2", "PAC-Bayes-Empirical-Bernstein.", _RANDOMISED),
    "majority_vote": Entry(
        "gibbs_bound",
        "The majority vote: twice the randomised classifier.",
        "If the randomised classifier errs on at most {gibbs_bound} of the points, the vote does on at most {value}.",
    ),
    "single_hypothesis_kl": Entry(
        "loss n delta prior_mass", "One hypothesis on a test set, any loss (Chernoff).", _SINGLE
    ),
    "clopper_pearson": Entry(
        "errors n delta prior_mass u", "One hypothesis on a test set, zero-one loss (exact).", _SINGLE
    ),
    "anytime_upper": Entry(
        "errors n delta",
        "One hypothesis on points that still arrive, zero-one loss (exact at all times at once).",
        "With probability {confidence}, the error is at most {value}, and such bounds hold at all times at once.",
    ),
    "anytime_lower": Entry(
        "errors n delta",
        "The same from below.",
        "With probability {confidence}, the error is at least {value}, and such bounds hold at all times at once.",
        False,
        False,
    ),
}


def _make_command(name: str, entry: Entry) -> Callable[..., None]:
    """Return the command of a bound, whose options are the arguments in the table."""

    def calculate(json: bool, **options: float | None) -> None:
        from pacbayes import bounds

        given = {name: value for name, value in options.items() if value is not None}
        value = float(getattr(bounds, name)(**given))
        shown = format_significant(value, upwards=entry.upwards)
        meaning = entry.meaning.format(
            value=shown,
            confidence=format_confidence(given.get("delta", 0.05)),
            **{k: f"{v:g}" for k, v in given.items()},
        )
        if entry.proves and value >= 1:
            meaning = "Nothing is proved: the bound is 1 or more."
        number = value if math.isfinite(value) else "Infinity"  # JSON has no number for it
        values = {"bound": name, "arguments": given, "value": number, "meaning": meaning}
        print_result(json, values, shown, meaning)

    parameters = [
        inspect.Parameter(
            argument,
            inspect.Parameter.KEYWORD_ONLY,
            default=_DEFAULTS.get(argument, inspect.Parameter.empty),
            annotation=Annotated[float | None if _DEFAULTS.get(argument, 0.0) is None else float, typer.Option()],
        )
        for argument in entry.arguments.split()
    ]
    json = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    return make_command(calculate, [*parameters, json], _HELP)


for _name, _entry in ENTRIES.items():
    app.command(_name.replace("_", "-"), help=_entry.help)(_make_command(_name, _entry))
