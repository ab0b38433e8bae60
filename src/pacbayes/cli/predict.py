"""``pacbayes predict``: labels and vote shares for new rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbayes.cli._mistakes import mistake, mistakes_told
from pacbayes.cli._options import JSON, Format, Missing, ModelPath, Separator
from pacbayes.cli._show import print_json
from pacbayes.cli.fit import listed

if TYPE_CHECKING:
    import pandas as pd


def predict(
    model: ModelPath,
    data: Annotated[
        Path, typer.Argument(help="Table with the columns that the model was trained on.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write.", show_default="standard output")
    ] = None,
    missing: Missing = None,
    separator: Separator = None,
    format: Format = None,
    json: JSON = False,
) -> None:
    """Predict the classes of new rows, with each class's share of the vote.

    Shares are posterior weights, not calibrated probabilities. A column of the target is ignored if there is one.
    """
    from pacbayes import model_file
    from pacbayes._writing import check_writable, write_whole

    with mistakes_told():
        if output is not None:
            if output.resolve() in (model.resolve(), data.resolve()):
                raise mistake("the predictions must go to a file of their own")
            check_writable(output)
        classifier, metadata = model_file.load(model)
        table = read_for_model(metadata, data, format, separator, missing)
        X = columns_of(metadata, table, data, allow_extra=False)
        labels = classifier.predict(X)
        shares = classifier.predict_proba(X)
        content = _csv(labels, shares, classifier.classes_)
        if output is not None:
            write_whole({output: content.encode()})
    if json:
        values: dict[str, Any] = {"rows": len(labels), "classes": classifier.classes_.tolist()}
        if output is None:
            print_json(values | {"predictions": labels.tolist(), "shares": shares.tolist()})
        else:
            print_json(values | {"output": str(output)})
    elif output is None:
        sys.stdout.write(content)
    else:
        print(f"{len(labels)} predictions  {output}")


def read_for_model(
    metadata: dict[str, Any], data: Path, format: Any, separator: str | None, missing: Any
) -> pd.DataFrame:
    """The table that a model is to be applied to."""
    from pacbayes import table_file

    if "columns" not in metadata or "target" not in metadata:
        raise mistake("the model does not say what its columns are: it was not saved by `pacbayes fit`")
    return table_file.read(
        data, format=format, separator=separator, missing=missing or (), n_features=len(metadata["columns"])
    )


def columns_of(metadata: dict[str, Any], table: pd.DataFrame, data: Path, *, allow_extra: bool) -> pd.DataFrame:
    """The columns of the model, as it was trained on them, or what is wrong with the table."""
    import pandas as pd

    from pacbayes.table_file import as_numbers, as_text

    wanted = {str(name): str(kind) for name, kind in metadata["columns"]}
    lacking = [name for name in wanted if name not in table.columns]
    extra = [str(name) for name in table.columns if name not in wanted and name != metadata["target"]]
    if lacking or (extra and not allow_extra):
        parts = [f"lacks {listed(lacking)}"] * bool(lacking)
        parts += [f"has {listed(extra)}, which the model does not know"] * bool(extra and not allow_extra)
        raise mistake(f"{str(data)!r} {' and '.join(parts)}")
    X = pd.DataFrame(
        {name: as_numbers(table[name]) if kind == "number" else as_text(table[name]) for name, kind in wanted.items()},
        index=table.index,
    )
    gaps = [f"{name!r} ({count})" for name, count in X.isna().sum().items() if count]
    if gaps and metadata.get("complete"):
        raise mistake(
            f"{str(data)!r} has missing values in {', '.join(gaps)}, and the model was trained on data without any: "
            "fill them, or train on rows that have some"
        )
    return X


def _csv(labels: Any, shares: Any, classes: Any) -> str:
    """A column of labels, and one with the share of each class. Shares are written so that they read back the same."""
    import pandas as pd

    columns = {"prediction": labels} | {f"share_{name}": shares[:, k] for k, name in enumerate(classes.tolist())}
    return pd.DataFrame(columns).to_csv(index=False, lineterminator="\n")
