"""``pacbayes verify``: recompute a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pacbayes
from pacbayes import io
from pacbayes._progress import show_progress
from pacbayes.cli._command import usage_error
from pacbayes.cli._console import print_result
from pacbayes.cli._tables import MaxBytes, TableOptions

# What each level of verification proves, and what it does not.
_LEVELS = {
    "arithmetic": "the bounds follow from the figures in the certificate; whether those are true is not checked",
    "arithmetic and losses": "the certificate follows from these losses; whether they are a model's is not checked",
    "arithmetic and model": (
        "the certificate is about this model, and follows from the validation losses in its file; whether those were "
        "measured on data is not checked"
    ),
    "arithmetic, model and data": (
        "the certificate is about this model, and its validation losses are reproduced on these data"
    ),
}


def verify(
    certificate: Path,
    losses: Path | None = None,
    column: str | None = None,
    model: Path | None = None,
    data: Path | None = None,
    max_bytes: MaxBytes = None,
    json: bool = False,
) -> None:
    """Recompute a certificate, and name the first thing that does not match.

    Alone: from its own figures. With --losses: from these. With --model: from the model's losses, weights, hypotheses
    and settings. With --model and --data: from the losses of the model's hypotheses on the data, measured anew.

    Parameters
    ----------
    certificate
        Certificate that `fit` or `certify` wrote.
    losses
        Validation losses of the hypotheses.
    model
        The model that the certificate is about.
    data
        With --model: the table that the model was trained on.
    """
    if losses is not None and model is not None:
        raise usage_error("give --losses or --model, not both")
    if data is not None and model is None:
        raise usage_error("--data needs --model: the losses of its hypotheses are measured on the data")
    options, stated = TableOptions(max_bytes=max_bytes), _read_certificate(certificate)
    level = "arithmetic"
    if losses is not None and not stated.follows_from_losses:
        raise usage_error(
            f"weights by the objective {stated.objective!r} do not follow from --losses: give --model, and its --data"
        )
    if losses is not None:
        stated.verify(io.read_losses(losses, column, **options.limit()))
        level = "arithmetic and losses"
    elif model is not None and data is None:
        level = options.load(model)[0].verify_certificate(stated)
    elif model is not None and data is not None:
        classifier, schema = options.load_with_schema(model)
        table = options.read_training_table(data, schema)
        groups = None if stated.groups is None else _take_groups(table, stated.groups.name)
        with show_progress(f"measuring the losses on {len(table.X)} rows again"):
            level = classifier.verify_certificate(stated, table.X, table.y, groups=groups)
    values = {"verified": True, "level": level, "proves": _LEVELS[level]}
    print_result(json, values, f"Verified: {level}. This shows that {_LEVELS[level]}.", stated.summary())


def _take_groups(table: io.Table, name: str) -> Any:
    """Return the column by whose groups a certificate bounds errors."""
    if not name:
        raise usage_error("the certificate bounds errors by groups that have no column: verify it in Python, with them")
    return table.stored_column(name)


def _read_certificate(path: Path) -> pacbayes.Certificate:
    if path.is_dir():
        raise usage_error(f"{str(path)!r} is a folder, not a certificate")
    if not path.exists():
        raise usage_error(f"there is no file {str(path)!r}")
    try:
        return pacbayes.Certificate.from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise usage_error(f"{str(path)!r} is not a certificate: not UTF-8 text") from None
