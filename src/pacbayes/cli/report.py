"""``pacbayes report``: write the page of a fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbayes._progress import show_progress
from pacbayes.cli._console import print_json, print_lines
from pacbayes.cli._errors import usage_error, user_errors
from pacbayes.cli._models import check_output, describe_data, limit, read_training_table
from pacbayes.cli._options import JSON, MaxBytes, ModelPath

if TYPE_CHECKING:
    from pacbayes.io import Schema


def report(
    model: ModelPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    certificate: Annotated[
        Path | None,
        typer.Option(help="Certificate that the page names.", show_default="MODEL.certificate.json"),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="name of the data")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="The table that the model was made from: the page then shows which columns matter.", show_default=False
        ),
    ] = None,
    voters: Annotated[int, typer.Option(help="Number of voters to show, heaviest first.", min=1)] = 10,
    max_bytes: MaxBytes = None,
    json: JSON = False,
) -> None:
    """Write one HTML page about a fit: what was proved, errors by class, what was assumed, plots, and how to verify it.

    With --data, which columns matter, measured on rows that had no part in making the predictor.
    """
    certificate = certificate or model.with_suffix(".certificate.json")
    with user_errors():
        from pacbayes.io import load_model
        from pacbayes.report import fit_page, write_page

        inputs = [model, certificate, *([] if data is None else [data])]
        check_output(output, inputs, "the page must go to a file of its own")
        classifier, schema = load_model(model, **limit(max_bytes))
        if data is not None and schema is None:
            raise usage_error(f"{str(model)!r} does not say what its columns are: --data cannot be read")
        rows = {} if data is None or schema is None else _read_rows(data, schema, max_bytes)
        with show_progress("drawing the report"):
            html = fit_page(
                classifier,
                title=title or ("" if schema is None or schema.source is None else schema.source.name),
                heaviest=voters,
                model_path=str(model),
                certificate_path=str(certificate),
                **rows,
                **describe_data(schema),
            )
        write_page(output, html)
    if json:
        print_json({"report": str(output), "model": str(model)})
    else:
        print_lines(f"report  {output}")


def _read_rows(path: Path, schema: Schema, max_bytes: int | None) -> dict[str, Any]:
    """Return the rows that a model was trained on, as arguments of `fit_page`."""
    table = read_training_table(path, schema, max_bytes)
    if schema.source is not None and table.schema.source is not None:
        if schema.source.sha256 != table.schema.source.sha256:
            raise usage_error(f"{str(path)!r} is not the file that the model was made from, {schema.source.name!r}")
        table = table.take(schema.source.split()[0])
    return {"X": table.X, "y": table.y}
