"""``pacbayes verify``: recompute a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes._wording import what_is_proved
from pacbayes.cli._mistakes import mistake, mistakes_told
from pacbayes.cli._options import JSON, Column
from pacbayes.cli._show import print_json

if TYPE_CHECKING:
    from pacbayes.certificate import Certificate


def verify(
    certificate: Annotated[Path, typer.Argument(help="Certificate that `fit` or `certify` wrote.", show_default=False)],
    losses: Annotated[Path | None, typer.Option(help="Validation losses of the hypotheses.")] = None,
    column: Column = None,
    model: Annotated[Path | None, typer.Option(help="The model that the certificate is about.")] = None,
    json: JSON = False,
) -> None:
    """Recompute a certificate from losses or from a model, and name the first figure that does not match.

    Without either, the bounds are recomputed from the certificate's own figures only.
    """
    from pacbayes import Certificate
    from pacbayes.table_file import read_losses

    with mistakes_told():
        if losses is not None and model is not None:
            raise mistake("give --losses or --model, not both")
        stated = Certificate.from_json(_text(certificate))
        checked = "its own figures"
        if losses is not None:
            stated.verify(read_losses(losses, column))
            checked = f"the losses in {str(losses)!r}"
        elif model is not None:
            _verify_with_model(stated, model)
            checked = f"the model {str(model)!r}"
    if json:
        print_json({"verified": True, "against": checked})
    else:
        print(f"The certificate follows from {checked}. {what_is_proved(stated)}")


def _text(path: Path) -> str:
    if path.is_dir():
        raise mistake(f"{str(path)!r} is a folder, not a certificate")
    if not path.exists():
        raise mistake(f"there is no file {str(path)!r}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise mistake(f"{str(path)!r} is not a certificate: not UTF-8 text") from None


def _verify_with_model(stated: Certificate, path: Path) -> None:
    from pacbayes import model_file

    model, _ = model_file.load(path)
    # Losses say nothing about what was assumed and how many points there were, so these are the model's.
    facts = {
        "n_validation": int(model.n_validation_.min()),
        "n_validation_max": int(model.n_validation_.max()),
        "strict": model.certificate_.strict,
        "assumptions": model.certificate_.assumptions,
    }
    for name, value in facts.items():
        if getattr(stated, name) != value:
            raise mistake(f"{name} is stated as {getattr(stated, name)!r} but comes out as {value!r}")
    stated.verify(model.losses_, model.prior)
