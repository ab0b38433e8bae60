"""``pacbayes report``: write the page of a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacbayes.cli._console import print_json, print_lines
from pacbayes.cli._errors import usage_error, user_errors
from pacbayes.cli._models import describe_data, limit
from pacbayes.cli._options import JSON, MaxBytes, ModelPath
from pacbayes.progress import show_progress


def report(
    model: ModelPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    certificate: Annotated[
        Path | None,
        typer.Option(help="Certificate that the page names.", show_default="MODEL.certificate.json"),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="name of the data")] = None,
    voters: Annotated[int, typer.Option(help="Number of voters to show, heaviest first.", min=1)] = 10,
    max_bytes: MaxBytes = None,
    json: JSON = False,
) -> None:
    """Write one HTML page about a fit: what was proved, what was assumed, plots, voters, and how to verify it."""
    certificate = certificate or model.with_suffix(".certificate.json")
    with user_errors():
        from pacbayes.io import check_writable, load_model
        from pacbayes.report import fit_page, write_page

        if output.resolve() in (model.resolve(), certificate.resolve()):
            raise usage_error("the page must go to a file of its own")
        check_writable(output)
        classifier, schema = load_model(model, **limit(max_bytes))
        with show_progress("drawing the report"):
            html = fit_page(
                classifier,
                title=title or ("" if schema is None or schema.source is None else schema.source.name),
                heaviest=voters,
                model_path=str(model),
                certificate_path=str(certificate),
                **describe_data(schema),
            )
        write_page(output, html)
    if json:
        print_json({"report": str(output), "model": str(model)})
    else:
        print_lines(f"report  {output}")
