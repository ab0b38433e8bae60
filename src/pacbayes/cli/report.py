"""``pacbayes report``: write the page of a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pacbayes._progress import show_progress
from pacbayes.cli._command import usage_error
from pacbayes.cli._console import print_result
from pacbayes.cli._tables import MaxBytes, TableOptions, check_model_exists, check_output, describe_data, is_source


def report(
    model: Path,
    output: Path = Path("report.html"),
    certificate: Path | None = None,
    title: str | None = None,
    data: Path | None = None,
    voters: Annotated[int, typer.Option(min=1)] = 10,
    max_bytes: MaxBytes = None,
    json: bool = False,
) -> None:
    """Write one HTML page about a fit: what was proved, errors by class, what was assumed, plots, and how to verify it.

    With --data, which columns matter, measured on rows that had no part in making the predictor.

    Parameters
    ----------
    output
        HTML file to write.
    certificate
        Certificate that the page names. [default: MODEL.certificate.json]
    title
        Title of the page. [default: name of the data]
    data
        The table that the model was made from: the page then shows which columns matter.
    voters
        Number of voters to show, heaviest first.
    """
    check_model_exists(model)
    from pacbayes.report import fit_page, write_page

    certificate = certificate or model.with_suffix(".certificate.json")
    inputs = [model, certificate, *([] if data is None else [data])]
    check_output(output, inputs, "the page must go to a file of its own")
    options = TableOptions(max_bytes=max_bytes)
    classifier, schema = options.load(model)
    source = None if schema is None else schema.source
    rows: dict[str, Any] = {}
    if data is not None:
        if schema is None:
            raise usage_error(f"{str(model)!r} does not say what its columns are: --data cannot be read")
        table = options.read_training_table(data, schema)
        if source is not None and not is_source(table, schema):
            raise usage_error(f"{str(data)!r} is not the file that the model was made from, {source.name!r}")
        rows = {"X": table.X, "y": table.y}
    with show_progress("drawing the report"):
        html = fit_page(
            classifier,
            title=title or ("" if source is None else source.name),
            heaviest=voters,
            model_path=str(model),
            certificate_path=str(certificate),
            **rows,
            **describe_data(schema),
        )
    write_page(output, html)
    print_result(json, {"report": str(output), "model": str(model)}, f"report  {output}")
