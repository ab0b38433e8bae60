"""``pacbayes report``: a model in, the page of its fit out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacbayes.cli._mistakes import mistake, mistakes_told
from pacbayes.cli._options import JSON, ModelPath
from pacbayes.cli._show import print_json

# What a model says about its data, as the page calls it.
_FACTS = {"source": "File", "sha256": "SHA-256", "target": "Target"}


def report(
    model: ModelPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    certificate: Annotated[
        Path | None,
        typer.Option(help="Certificate that the page names.", show_default="MODEL.certificate.json"),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="name of the data")] = None,
    voters: Annotated[int, typer.Option(help="Number of voters to show, heaviest first.", min=1)] = 10,
    json: JSON = False,
) -> None:
    """Write one HTML page about a fit: what was proved, what was assumed, plots, voters, and how to verify it."""
    from pacbayes import model_file
    from pacbayes._writing import check_writable
    from pacbayes.report import fit_page, write_page

    proof = certificate or model.with_suffix(".certificate.json")
    with mistakes_told():
        if output.resolve() in (model.resolve(), proof.resolve()):
            raise mistake("the page must go to a file of its own")
        check_writable(output)
        classifier, metadata = model_file.load(model)
        counts = metadata.get("class_counts")
        html = fit_page(
            classifier,
            title=title or str(metadata.get("source", "")),
            data={name: metadata[key] for key, name in _FACTS.items() if key in metadata},
            class_counts=counts if isinstance(counts, dict) else None,
            heaviest=voters,
            model_path=str(model),
            certificate_path=str(proof),
        )
        write_page(output, html)
    if json:
        print_json({"report": str(output), "model": str(model)})
    else:
        print(f"report  {output}")
