"""How certificates and numbers are shown."""

from __future__ import annotations

import json
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING, Any

from pacbayes._wording import rounded_up, what_is_proved

if TYPE_CHECKING:
    from pacbayes.certificate import Certificate


def significant(value: float, *, upwards: bool | None) -> str:
    """Ten significant digits, rounded up or down, or to the nearest for None."""
    if not math.isfinite(value):
        return str(value)
    rounding = {True: ROUND_CEILING, False: ROUND_FLOOR, None: ROUND_HALF_EVEN}[upwards]
    return f"{Context(prec=10, rounding=rounding).create_decimal(Decimal(value)).normalize():g}"


def print_json(values: dict[str, Any]) -> None:
    """The one object on standard output."""
    print(json.dumps(values, indent=2, allow_nan=False))


def certificate_values(certificate: Certificate) -> dict[str, Any]:
    """A certificate as JSON holds it."""
    values: dict[str, Any] = json.loads(certificate.to_json())
    return values


def show_certificate(certificate: Certificate) -> None:
    """A table of the figures, what is proved, and what was assumed."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    sizes = f"{certificate.n_validation}"
    if certificate.n_validation_max > certificate.n_validation:
        sizes += f" to {certificate.n_validation_max}"
    posterior = f"minimises the {certificate.objective} bound"
    if certificate.voting in ("best", "uniform"):
        posterior = certificate.voting
    elif certificate.global_minimum:
        posterior += ", proved"
    table = Table(title="Certificate", show_header=False, title_justify="left")
    table.add_row("majority vote, error at most", rounded_up(certificate.vote_bound), style="bold")
    table.add_row(
        f"randomised classifier, {certificate.loss} loss at most", rounded_up(certificate.gibbs_bound), style="bold"
    )
    table.add_row("probability that this fails (delta)", f"{certificate.delta:g}", end_section=True)
    table.add_row("validation loss", rounded_up(certificate.empirical_loss))
    table.add_row("KL(posterior || prior)", rounded_up(certificate.kl_div))
    table.add_row("hypotheses", str(certificate.n_hypotheses))
    table.add_row("validation points of each", sizes)
    table.add_row("lambda", "-" if certificate.lam is None else f"{certificate.lam:.4f}")
    table.add_row("posterior", posterior)
    table.add_row("strict", "yes" if certificate.strict else "NO: the theorem does not cover what is listed below")
    console = Console(highlight=False)
    console.print(table)
    console.print(escape(what_is_proved(certificate)), soft_wrap=True)
    console.print("Assuming that:")
    for assumption in certificate.assumptions:
        console.print(f"  - {escape(assumption)}", soft_wrap=True)
