"""``pacbayes verify``: recompute a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes._progress import show_progress
from pacbayes.cli._console import print_json, print_lines
from pacbayes.cli._errors import usage_error, user_errors
from pacbayes.cli._models import limit, load_with_schema, read_training_table
from pacbayes.cli._options import JSON, Column, MaxBytes

if TYPE_CHECKING:
    from pacbayes.certificate import Certificate

# What each level of verification proves, and what it does not.
_LEVELS = {
    "arithmetic": "the bounds follow from the figures in the certificate; whether those are true is not checked",
    "arithmetic and losses": "the certificate follows from these losses; whether they are a model's is not checked",
    "arithmetic and model": (
        "the certificate is about this model, and follows from the validation losses in its file; whether those were "
        "measured on data is not checked"
    ),
    "arithmetic, model and data": (
        "the certificate is about this model, and its validation losses come out again on these data"
    ),
}


def verify(
    certificate: Annotated[Path, typer.Argument(help="Certificate that `fit` or `certify` wrote.", show_default=False)],
    losses: Annotated[Path | None, typer.Option(help="Validation losses of the hypotheses.")] = None,
    column: Column = None,
    model: Annotated[Path | None, typer.Option(help="The model that the certificate is about.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="With --model: the table that the model was trained on.", show_default=False)
    ] = None,
    max_bytes: MaxBytes = None,
    json: JSON = False,
) -> None:
    """Recompute a certificate, and name the first thing that does not match.

    Alone: from its own figures. With --losses: from these. With --model: from the model's losses, weights, hypotheses
    and settings. With --model and --data: from the losses of the model's hypotheses on the data, measured anew.
    """
    with user_errors():
        from pacbayes import Certificate
        from pacbayes.io import load_model, read_losses

        if losses is not None and model is not None:
            raise usage_error("give --losses or --model, not both")
        if data is not None and model is None:
            raise usage_error("--data needs --model: the losses of its hypotheses are measured on the data")
        stated = Certificate.from_json(_read_text(certificate))
        level = "arithmetic"
        if losses is not None:
            stated.verify(read_losses(losses, column, **limit(max_bytes)))
            level = "arithmetic and losses"
        elif model is not None and data is not None:
            level = _verify_on_data(stated, model, data, max_bytes)
        elif model is not None:
            level = load_model(model, **limit(max_bytes))[0].verify_certificate(stated)
    if json:
        print_json({"verified": True, "level": level, "proves": _LEVELS[level]})
    else:
        print_lines(f"Verified: {level}. This shows that {_LEVELS[level]}.", stated.summary())


def _read_text(path: Path) -> str:
    if path.is_dir():
        raise usage_error(f"{str(path)!r} is a folder, not a certificate")
    if not path.exists():
        raise usage_error(f"there is no file {str(path)!r}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise usage_error(f"{str(path)!r} is not a certificate: not UTF-8 text") from None


def _verify_on_data(stated: Certificate, path: Path, data: Path, max_bytes: int | None) -> str:
    """Verify a certificate with a model and the rows of a table that it was trained on."""
    model, schema = load_with_schema(path, max_bytes)
    table = read_training_table(data, schema, max_bytes)
    assert schema.source is not None  # otherwise the table was refused
    trained_on = table.take(schema.source.split()[0])
    with show_progress(f"measuring the losses on {len(trained_on.X)} rows again"):
        return model.verify_certificate(stated, trained_on.X, trained_on.y)
