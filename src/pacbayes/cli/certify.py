"""``pacbayes certify``: a certificate from losses alone, or from a model and rows that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pacbayes._wording import confidence, percent_up
from pacbayes.cli._mistakes import mistake, mistakes_told
from pacbayes.cli._options import (
    JSON,
    Column,
    Delta,
    Format,
    Missing,
    Objective,
    ObjectiveOption,
    Separator,
)
from pacbayes.cli._show import certificate_values, print_json, show_certificate


def certify(
    data: Annotated[
        Path,
        typer.Argument(
            help="Losses, one per line or a column of a CSV file; with --model, a table.", show_default=False
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
    missing: Missing = None,
    separator: Separator = None,
    format: Format = None,
    json: JSON = False,
) -> None:
    """Certify hypotheses by their validation losses, or one model by rows that it has not seen.

    From losses: weights that minimise a PAC-Bayesian bound, and what is proved about the weighted vote. With --model:
    the exact binomial bound (Clopper-Pearson) on the error of the model's vote, which takes the model as one
    classifier, fixed before the rows were seen.
    """
    with mistakes_told():
        if model is not None:
            if n is not None or n_max is not None or column is not None or output is not None:
                raise mistake("--n, --n-max, --column and --output belong to a file of losses, not to --model")
            tested = _test(model, data, target, delta, format, separator, missing)
            _show_test(tested, json)
            return
        if n is None:
            raise mistake("--n is needed: the number of points that each loss was measured on")
        _certify_losses(data, n, n_max, column, delta, str(objective), output, json)


def _certify_losses(
    data: Path,
    n: int,
    n_max: int | None,
    column: str | None,
    delta: float,
    objective: Any,
    output: Path | None,
    json: bool,
) -> None:
    from pacbayes import certify as certify_losses
    from pacbayes._writing import check_writable, write_whole
    from pacbayes.table_file import read_losses

    if output is not None:
        check_writable(output)
    losses = read_losses(data, column)
    certificate, rho = certify_losses(losses, n, n_max=n_max, delta=delta, objective=objective)
    if output is not None:
        write_whole({output: certificate.to_json().encode()})
    if json:
        print_json({"certificate": certificate_values(certificate), "posterior": rho.tolist()})
        return
    show_certificate(certificate)
    if output is not None:
        print(f"certificate  {output}")


def _test(
    model: Path, data: Path, target: str | None, delta: float, format: Any, separator: str | None, missing: Any
) -> dict[str, Any]:
    from pacbayes import model_file, table_file
    from pacbayes.cli.fit import fingerprint, held_out_result
    from pacbayes.cli.predict import columns_of, read_for_model

    classifier, metadata = model_file.load(model)
    table = read_for_model(metadata, data, format, separator, missing)
    if fingerprint(data) == metadata.get("sha256"):
        raise mistake(f"{str(data)!r} is the file that the model was trained on: rows that it has not seen are needed")
    name = target or metadata["target"]
    if name not in table.columns:
        raise mistake(f"{str(data)!r} has no column {name!r} with the classes: give --target")
    y = table_file.labels(table[name], text=classifier.classes_.dtype.kind == "O")
    X = columns_of(metadata, table, data, allow_extra=True)
    return held_out_result(classifier, X, y, delta)


def _show_test(tested: dict[str, Any], json: bool) -> None:
    if json:
        print_json({"kind": "held-out test bound (Clopper-Pearson) on the vote", **tested})
        return
    print(
        f"The vote errs on {tested['errors']} of {tested['rows']} rows ({tested['error']:.2%}).\n"
        f"With probability {confidence(tested['delta'])} over the draw of these rows, its error on new points from the "
        f"same distribution is at most {percent_up(tested['bound'])}.\n"
        "This is the held-out test-set bound for a single classifier (Clopper-Pearson, exact).\n"
        "Assuming that:\n"
        "  - the rows are independent and identically distributed, and so are the points to predict\n"
        "  - the model was trained and chosen without them"
    )
