"""``pacbayes fit``: train on a table, and save a model and its certificate."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbayes.cli._console import certificate_values, print_certificate, print_json, print_lines
from pacbayes.cli._errors import usage_error, user_errors
from pacbayes.cli._models import TableOptions, test_model, train
from pacbayes.cli._options import (
    JSON,
    Delta,
    Format,
    MaxBytes,
    Missing,
    Objective,
    ObjectiveOption,
    Scaler,
    Separator,
)
from pacbayes.formatting import format_names, format_percent_upper

if TYPE_CHECKING:
    from pacbayes.io import Schema, Table
    from pacbayes.pools import Pool

# What a certificate of a table rests on besides what the classifier says itself.
_KNOWN_COLUMNS = (
    "which columns hold numbers, text or gaps, and which classes there are, was read from the file and is taken as "
    "known before the sample was drawn"
)


class Estimator(StrEnum):
    """Base learners."""

    SVM = "svm"
    TREE = "tree"
    LOGISTIC = "logistic"


def fit(
    data: Annotated[Path, typer.Argument(help="Table: CSV, Parquet or LIBSVM text.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(help="Column of the classes. LIBSVM text needs none.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the model.")] = Path("model.skops"),
    certificate: Annotated[
        Path | None, typer.Option(help="File for the certificate.", show_default="MODEL.certificate.json")
    ] = None,
    estimator: Annotated[Estimator, typer.Option(help="Base learner to train on each subsample.")] = Estimator.SVM,
    scaler: Annotated[
        Scaler, typer.Option(help="Scaling of numbers, by each subsample's own range.")
    ] = Scaler.STANDARD,
    n_hypotheses: Annotated[
        int | None, typer.Option(help="Number of hypotheses.", show_default="100 for each subsample size")
    ] = None,
    subsample_size: Annotated[
        str,
        typer.Option(help="Points that train a hypothesis: a number, a fraction, several with commas, auto or paper."),
    ] = "auto",
    delta: Delta = 0.05,
    objective: ObjectiveOption = Objective.LAMBDA,
    seed: Annotated[
        int, typer.Option(help="Seed. Choose it beforehand: the best of several seeds has no certificate.", min=0)
    ] = 0,
    test_size: Annotated[
        float | None, typer.Option(help="Fraction of the rows to hold out, for a test.", show_default="none")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="A column of numbers that are names, to be taken as text. May be repeated.")
    ] = None,
    missing: Missing = None,
    separator: Separator = None,
    format: Format = None,
    max_bytes: MaxBytes = None,
    jobs: Annotated[int, typer.Option(help="Workers; -1 takes all cores. The result does not depend on it.")] = -1,
    progress: Annotated[bool | None, typer.Option(help="Show progress.", show_default="on a terminal")] = None,
    json: JSON = False,
) -> None:
    """Train on a table, and prove how well the result will do.

    Columns of numbers without gaps train the compiled RBF-SVMs. Text, true and false are categories; missing numbers
    become medians; then each hypothesis learns categories, medians and scales from its own subsample, as part of its
    base learner, so that the certificate is strict. Categories that are new in prediction are fine.
    """
    from pacbayes import PACBayesClassifier
    from pacbayes.io import check_writable, dumps_model, write_atomic

    certificate = certificate or output.with_suffix(".certificate.json")
    with user_errors():
        _check_outputs(data, output, certificate)
        check_writable(output)
        check_writable(certificate)
        table = TableOptions(format, separator, missing, max_bytes).read(data, target, text=text or ())
        if table.y is None:
            raise usage_error(f"which column holds the classes? Give --target, one of {format_names(table.X.columns)}")
        if not json:
            _print_table(table)
        rows, held_out = (table, None) if test_size is None else table.split(test_size, seed)
        pool, schema = _choose_pool(rows, str(estimator), None if scaler == Scaler.NONE else str(scaler))
        model = PACBayesClassifier(
            pool,
            n_hypotheses="auto" if n_hypotheses is None else n_hypotheses,
            subsample_size=parse_sizes(subsample_size),
            delta=delta,
            objective=str(objective),  # type: ignore[arg-type]
            random_state=seed,
            n_jobs=jobs,
            verbose=int(sys.stderr.isatty() and not json if progress is None else progress),
        )
        train(model, rows)
        model.certificate_ = replace(model.certificate_, assumptions=(*model.certificate_.assumptions, _KNOWN_COLUMNS))
        tested = None if held_out is None else test_model(model, held_out, delta)
        saved = {output: dumps_model(model, schema), certificate: model.certificate_.to_json().encode()}
        write_atomic(saved)
    if json:
        values: dict[str, Any] = {
            "model": str(output),
            "certificate_file": str(certificate),
            "certificate": certificate_values(model.certificate_),
            "rows": len(rows.X),
            "columns": rows.X.shape[1],
            "classes": model.classes_.tolist(),
            "missing": table.missing,
        }
        print_json(values | ({} if tested is None else {"test": tested}))
        return
    print_certificate(model.certificate_)
    if tested is not None:
        _print_test(tested)
    print_lines(f"model        {output}", f"certificate  {certificate}")


def _check_outputs(*paths: Path) -> None:
    if len({path.resolve() for path in paths}) < len(paths):
        raise usage_error("the table, the model and the certificate must be three different files")


def parse_sizes(words: str) -> Any:
    """Return the option ``--subsample-size`` as the classifier takes it."""
    if words in ("auto", "paper"):
        return words
    try:
        sizes = [int(word) if word.strip().isdigit() else float(word) for word in words.split(",")]
    except ValueError:
        raise usage_error(f"--subsample-size must be numbers, auto or paper, got {words!r}") from None
    return sizes if len(sizes) > 1 else sizes[0]


def _choose_pool(table: Table, estimator: str, scaler: Any) -> tuple[Pool, Schema]:
    """Return the compiled SVMs where they can be had, otherwise a base learner that handles text and gaps itself."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    from pacbayes.io import ColumnEncoder
    from pacbayes.pools import EstimatorPool, RBFSVMPool

    numbers, texts = table.schema.names_of("number"), table.schema.names_of("text")
    if estimator == "svm" and not texts and table.schema.complete:
        return RBFSVMPool(scaler=scaler), table.schema
    learners = {"svm": SVC(), "tree": DecisionTreeClassifier(), "logistic": LogisticRegression(max_iter=1000)}
    # Soft margins as those of the compiled SVMs; gamma="scale" is the subsample's own.
    drawn = {"svc__C": [10.0, 100.0, 1000.0]} if estimator == "svm" else None
    learner = make_pipeline(ColumnEncoder(numbers, texts, scaler), learners[estimator])
    return EstimatorPool(learner, param_distributions=drawn), replace(table.schema, complete=False)


def _print_table(table: Table) -> None:
    from pacbayes.io.schema import format_missing

    numbers, texts = len(table.schema.names_of("number")), len(table.schema.names_of("text"))
    print_lines(
        f"{len(table.X)} rows; {numbers} columns of numbers and {texts} of text, as read from the file; "
        f"{len(table.schema.classes)} classes in {table.schema.target!r}"
    )
    if table.missing:
        print_lines(
            f"missing values in {format_missing(table.missing)}",
            "missing numbers become the median of each subsample, missing text is a category of its own",
        )


def _print_test(tested: dict[str, Any]) -> None:
    print_lines(
        f"held-out test: {tested['errors']} errors in {tested['rows']} rows ({tested['error']:.2%}), which alone prove "
        f"an error of at most {format_percent_upper(tested['bound'])} (Clopper-Pearson, delta {tested['delta']:g})"
    )
