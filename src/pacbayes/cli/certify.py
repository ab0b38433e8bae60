"""``pacbayes certify``: a certificate from losses alone, or from a model and rows that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbayes._progress import show_progress
from pacbayes.cli._console import certificate_values, print_answers, print_certificate, print_json, print_lines
from pacbayes.cli._errors import usage_error, user_errors
from pacbayes.cli._models import TableOptions, check_output, limit, load_with_schema, take_held_out, test_values
from pacbayes.cli._options import (
    JSON,
    Column,
    Decimal,
    Delta,
    Encoding,
    Format,
    HeldOut,
    MaxBytes,
    Missing,
    Objective,
    ObjectiveOption,
    Separator,
)

if TYPE_CHECKING:
    from pacbayes.certificate import Certificate

_OWN_FILE = "the certificate must go to a file of its own"


def certify(
    data: Annotated[
        Path,
        typer.Argument(
            help="Losses, one per line or a column of a CSV file; with --model, a table. - for standard input.",
            show_default=False,
        ),
    ],
    n: Annotated[
        int | None, typer.Option(help="Points that each loss was measured on; the smallest number, if they differ.")
    ] = None,
    n_max: Annotated[int | None, typer.Option(help="The largest such number.", show_default="the same")] = None,
    column: Column = None,
    delta: Delta = 0.05,
    objective: ObjectiveOption = Objective.LAMBDA,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the certificate.")] = None,
    model: Annotated[Path | None, typer.Option(help="Test this model on the table instead.")] = None,
    target: Annotated[
        str | None, typer.Option(help="With --model: column of the classes.", show_default="as in training")
    ] = None,
    held_out: HeldOut = False,
    missing: Missing = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    format: Format = None,
    max_bytes: MaxBytes = None,
    json: JSON = False,
) -> None:
    """Certify hypotheses by their validation losses, or one model by rows that it has not seen.

    From losses: weights that minimise a PAC-Bayesian bound, and what is proved about the weighted vote. With --model:
    the exact binomial bound (Clopper-Pearson) on the error of the model's vote and on its errors by class, which takes
    the model as one classifier, fixed before the rows were seen. Rows that it was trained on are refused.
    """
    with user_errors():
        if model is not None:
            if n is not None or n_max is not None or column is not None:
                raise usage_error("--n, --n-max and --column belong to a file of losses, not to --model")
            options = TableOptions(format, separator, decimal, encoding, missing, max_bytes)
            _print_test(_test_on_table(model, data, target, delta, options, held_out, output), output, json)
            return
        if held_out:
            raise usage_error("--held-out belongs to --model")
        if n is None:
            raise usage_error("--n is needed: the number of points that each loss was measured on")
        settings = {"n": n, "n_max": n_max, "delta": delta, "objective": str(objective)}
        _certify_losses(data, column, max_bytes, output, settings, json)


def _certify_losses(
    data: Path, column: str | None, max_bytes: int | None, output: Path | None, settings: dict[str, Any], json: bool
) -> None:
    from pacbayes import certify as certify_losses
    from pacbayes.io import read_losses, write_atomic

    if output is not None:
        check_output(output, [data], _OWN_FILE)
    certificate, rho = certify_losses(read_losses(data, column, **limit(max_bytes)), **settings)
    if output is not None:
        write_atomic({output: certificate.to_json().encode()})
    if json:
        print_json({"certificate": certificate_values(certificate), "posterior": rho.tolist()})
        return
    print_certificate(certificate)
    if output is not None:
        print_lines(f"certificate  {output}")


def _test_on_table(
    model: Path,
    data: Path,
    target: str | None,
    delta: float,
    options: TableOptions,
    held_out: bool,
    output: Path | None,
) -> Certificate:
    """Certify a model by the rows of a table, and write the certificate."""
    from pacbayes.io import write_atomic

    if output is not None:
        check_output(output, [model, data], _OWN_FILE)
    classifier, schema = load_with_schema(model, options.max_bytes)
    if held_out and schema.source is not None:
        options = TableOptions.of_training(schema.source, options.max_bytes)
    table = options.read(data, target or schema.target, schema=schema, allow_extra=True)
    if table.y is None:
        raise usage_error("the model does not say which column holds the classes: give --target")
    digests = [source.sha256 for source in (schema.source, table.schema.source) if source is not None]
    if held_out:
        table = take_held_out(table, schema, data)
    elif len(digests) == 2 and digests[0] == digests[1]:
        raise usage_error(
            f"{str(data)!r} is the file that the model was trained on: rows that it has not seen are needed"
            + (" (--held-out takes those)" if schema.test is not None else "")
        )
    with show_progress(f"testing on {len(table.X)} rows"):
        certificate = classifier.certify(table.X, table.y, delta=delta)
    if output is not None:
        write_atomic({output: certificate.to_json().encode()})
    return certificate


def _print_test(certificate: Certificate, output: Path | None, json: bool) -> None:
    from pacbayes.io import HeldOutTest

    figures = certificate.statements[0].figures
    method, exact = ("Clopper-Pearson", ", exact") if "errors" in figures else ("Chernoff", "")
    if json:
        values: dict[str, Any] = {"kind": f"held-out test bound ({method}) on the vote"}
        if "errors" in figures:
            values |= test_values(HeldOutTest(int(figures["n"]), int(figures["errors"]), certificate.delta))
        print_json({**values, "certificate": certificate_values(certificate)})
        return
    print_answers(certificate)
    print_lines(
        f"This is the held-out test-set bound for a single classifier ({method}{exact}).",
        "Assuming that:",
        "  - the rows are independent and identically distributed, and so are the points to predict",
        "  - the model was trained and chosen without them",
        *([] if output is None else [f"certificate  {output}"]),
    )
