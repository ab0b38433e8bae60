"""Options that several commands have in common."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


def show_help_without_command(context: typer.Context) -> None:
    """End the program with the help of a group of commands, if none of them was named."""
    if context.invoked_subcommand is None:
        # Depending on whether rich is there, the help is printed or returned.
        print(context.get_help())
        raise typer.Exit(2)


class Objective(StrEnum):
    """The bound that the posterior minimises."""

    AUTO = "auto"
    LAMBDA = "lambda"
    KL = "kl"
    DUAL = "dual"


class Scaler(StrEnum):
    """Scaling of numeric columns."""

    AUTO = "auto"
    STANDARD = "standard"
    MINMAX = "minmax"
    NONE = "none"


class TableFormat(StrEnum):
    """File formats of tables."""

    CSV = "csv"
    PARQUET = "parquet"
    LIBSVM = "libsvm"


JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
Delta = Annotated[float, typer.Option(help="Probability with which the bound may fail, in (0, 1).")]
ObjectiveOption = Annotated[
    Objective, typer.Option(help="The bound to minimise: the paper's (lambda), PAC-Bayes-kl, or the dual bound.")
]
Format = Annotated[
    TableFormat | None,
    typer.Option(help="Format of the table.", show_default="by extension: .csv .tsv .txt .parquet .pq .libsvm .svm"),
]
Separator = Annotated[
    str | None,
    typer.Option(
        help="Character between the cells of a CSV file.", show_default="comma, semicolon, tab or |, by the first rows"
    ),
]
Decimal = Annotated[
    str | None, typer.Option(help="Decimal mark of a CSV file, . or ,", show_default="by what the columns hold")
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a CSV file.", show_default="UTF-8, otherwise Windows-1252")
]
HeldOut = Annotated[
    bool,
    typer.Option(
        "--held-out",
        help="Take those rows only that `fit --test-size` held out of this table, which is the one of fit.",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="A word that stands for a missing value, besides the empty cell, NA, NaN, null. May be repeated."
    ),
]
MaxBytes = Annotated[
    int | None,
    typer.Option(
        help="Refuse files that take more memory than this.",
        show_default="2 GiB for a model, 8 GiB for a table",
        min=1,
    ),
]
Column = Annotated[str | None, typer.Option(help="Column of the losses, if the file has several.")]
ModelPath = Annotated[Path, typer.Argument(help="Model that `fit` saved.", show_default=False)]
