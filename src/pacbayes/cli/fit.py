"""``pacbayes fit``: train on a table, and save a model and its certificate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbayes._formatting import format_count, format_names, join_names
from pacbayes.cli._console import certificate_values, print_certificate, print_error, print_json, print_lines
from pacbayes.cli._errors import usage_error, user_errors
from pacbayes.cli._models import TableOptions, check_output, test_model, test_values, train
from pacbayes.cli._options import (
    JSON,
    Decimal,
    Delta,
    Encoding,
    Format,
    MaxBytes,
    Missing,
    Objective,
    ObjectiveOption,
    Scaler,
    Separator,
)

if TYPE_CHECKING:
    from pacbayes.certificate import Certificate
    from pacbayes.classifier import PACBayesClassifier
    from pacbayes.io import Finding, Schema, StreamedTable, Table
    from pacbayes.pools import Pool

# Columns that are warned of by a line each.
_MOST_WARNINGS = 12


class Estimator(StrEnum):
    """Base learners."""

    SVM = "svm"
    TREE = "tree"
    LOGISTIC = "logistic"


def fit(
    data: Annotated[
        Path,
        typer.Argument(
            help="Table: CSV, Parquet or LIBSVM text, also compressed; - for standard input.", show_default=False
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="Column of the classes. LIBSVM text needs none.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the model.")] = Path("model.skops"),
    certificate: Annotated[
        Path | None, typer.Option(help="File for the certificate.", show_default="MODEL.certificate.json")
    ] = None,
    estimator: Annotated[Estimator, typer.Option(help="Base learner to train on each subsample.")] = Estimator.SVM,
    scaler: Annotated[
        Scaler, typer.Option(help="Scaling of numbers, by each subsample's own range; auto tries all.")
    ] = Scaler.AUTO,
    n_hypotheses: Annotated[
        int | None, typer.Option(help="Number of hypotheses.", show_default="45 for each subsample size")
    ] = None,
    subsample_size: Annotated[
        str,
        typer.Option(help="Points that train a hypothesis: a number, a fraction, several with commas, auto or paper."),
    ] = "auto",
    delta: Delta = 0.05,
    objective: ObjectiveOption = Objective.AUTO,
    holdout: Annotated[
        str,
        typer.Option(
            help="Rows reserved for the certificate: a share or number, several with commas for as many competing "
            "votes, auto, or none for the paper's bounds on all rows."
        ),
    ] = "auto",
    seed: Annotated[
        int, typer.Option(help="Seed. Choose it beforehand: the best of several seeds has no certificate.", min=0)
    ] = 0,
    test_size: Annotated[
        float | None, typer.Option(help="Fraction of the rows to hold out, for a test.", show_default="none")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="A column of numbers that are names, to be taken as text. May be repeated.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out. May be repeated.")] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column to keep although nothing seems to be learned from it. May be repeated."),
    ] = None,
    missing: Missing = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    format: Format = None,
    max_bytes: MaxBytes = None,
    jobs: Annotated[int, typer.Option(help="Workers; -1 takes all cores. The result does not depend on it.")] = -1,
    progress: Annotated[
        bool | None,
        typer.Option(help="Show progress.", show_default="a bar on a terminal; elsewhere a line now and then"),
    ] = None,
    json: JSON = False,
) -> None:
    """Train on a table, and prove how well the result will do.

    Text, true and false are categories, and a missing one is a category of its own. Missing numbers become means of
    each hypothesis's own subsample (medians for trees and logistic regression), from which scales come as well, so that
    the certificate is strict. Categories that are new in prediction are fine. Dates become days since 1970 and, for the
    SVMs, places in the year, the week and the day. Columns from which nothing can be learned are left out: those that
    are empty or constant, number the rows, or hold text that is different in every row.
    """
    certificate = certificate or output.with_suffix(".certificate.json")
    with user_errors():
        from pacbayes import PACBayesClassifier
        from pacbayes.io import dumps_model, write_atomic

        different = "the table, the model and the certificate must be three different files"
        check_output(output, [data, certificate], different)
        check_output(certificate, [data], different)
        options = TableOptions(format, separator, decimal, encoding, missing, max_bytes)
        table = options.open(data, target, text=text or (), drop=drop or ())
        if table.schema.target is None:
            raise usage_error(f"which column holds the classes? Give --target, one of {format_names(table.X.columns)}")
        table, findings = _leave_out(table, keep or ())
        if not json:
            _print_table(table, findings, drop or (), estimator)
        _print_warnings(table, findings)
        rows, held_out = (table, None) if test_size is None else table.split(test_size, seed)
        pool, schema = _choose_pool(rows, str(estimator), scaler)
        model = PACBayesClassifier(
            pool,
            n_hypotheses="auto" if n_hypotheses is None else n_hypotheses,
            subsample_size=parse_sizes("--subsample-size", subsample_size, ("auto", "paper")),
            holdout=None if holdout == "none" else parse_sizes("--holdout", holdout, ("auto",)),
            delta=delta,
            objective=str(objective),  # type: ignore[arg-type]
            random_state=seed,
            n_jobs=jobs,
            verbose={None: int(not json), True: 2, False: 0}[progress],
        )
        train(model, rows)
        _assume_known_columns(model)
        if held_out is not None:
            schema = replace(schema, test=test_model(model, held_out, delta))
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
            "kinds": {column.name: column.kind for column in schema.columns},
            "left_out": {finding.column: finding.message for finding in findings if finding.leave_out},
            "missing": table.missing,
        }
        print_json(values | ({} if schema.test is None else {"test": test_values(schema.test)}))
        return
    print_certificate(model.certificate_, schema.test)
    print_lines(f"model        {output}", f"certificate  {certificate}")


def parse_sizes(option: str, words: str, names: tuple[str, ...]) -> Any:
    """Return an option that is a name, a size or several, as the classifier takes it."""
    if words in names:
        return words
    try:
        sizes = [int(word) if word.strip().isdigit() else float(word) for word in words.split(",")]
    except ValueError:
        raise usage_error(f"{option} must be numbers or {' or '.join(names)}, got {words!r}") from None
    return sizes if len(sizes) > 1 else sizes[0]


def _choose_pool(table: Table | StreamedTable, estimator: str, scaler: Scaler) -> tuple[Pool, Schema]:
    """Return the compiled SVMs, or another base learner that handles text and gaps itself."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeClassifier

    from pacbayes.io import ColumnEncoder
    from pacbayes.pools import EstimatorPool, RBFSVMPool

    numbers, texts = table.schema.names_of("number", "date"), table.schema.names_of("text")
    if estimator != "svm" and not hasattr(table.X, "iloc"):
        raise usage_error(
            f"--estimator {estimator} needs all rows in memory, and they take more than --max-bytes: svm would do"
        )
    if estimator == "svm":
        pool = RBFSVMPool(**({} if scaler == Scaler.AUTO else {"scaler": _scaling(scaler)}))
        # A model of numbers without gaps is the only one that cannot do with gaps.
        return pool, replace(table.schema, complete=table.schema.complete and not table.schema.names_of("text", "date"))
    learners = {"tree": DecisionTreeClassifier(), "logistic": LogisticRegression(max_iter=1000)}
    scaling: Any = "standard" if scaler == Scaler.AUTO else _scaling(scaler)
    learner = make_pipeline(ColumnEncoder(numbers, texts, scaling), learners[estimator])
    return EstimatorPool(learner), replace(table.schema, complete=False)


def _scaling(scaler: Scaler) -> Any:
    return None if scaler == Scaler.NONE else str(scaler)


def _assume_known_columns(model: PACBayesClassifier) -> None:
    """State in the certificates of all votes of a model that the columns are taken as known."""

    def state(certificate: Certificate) -> Certificate:
        return certificate.revise(assumption_codes=(*certificate.assumption_codes, "file-columns-known"))

    votes = [replace(vote, certificate=state(vote.certificate)) for vote in model.votes_]
    model._adopt(votes, model._winner)


def _leave_out(table: Table | StreamedTable, keep: Collection[str]) -> tuple[Table | StreamedTable, list[Finding]]:
    """Leave out columns from which nothing can be learned, and return all that was found about the others as well."""
    from pacbayes.io import inspect_table

    unknown = [name for name in keep if name not in table.X.columns]
    if unknown:
        raise usage_error(f"--keep: there is no column {format_names(unknown)}, only {format_names(table.X.columns)}")
    findings = [
        replace(finding, leave_out=finding.leave_out and finding.column not in keep) for finding in inspect_table(table)
    ]
    names = {finding.column for finding in findings if finding.leave_out}
    return (table.without(names) if names else table), findings


def _print_table(
    table: Table | StreamedTable, findings: Sequence[Finding], dropped: Sequence[str], estimator: Estimator
) -> None:
    """Say what each column was taken for."""
    from pacbayes.io.schema import format_missing

    schema = table.schema
    numbers, dates, texts = (schema.names_of(kind) for kind in ("number", "date", "text"))
    counted = f"{format_count(len(numbers), 'column')} of numbers" + (f", {len(dates)} of dates" if dates else "")
    print_lines(
        f"{len(table.X)} rows; {counted} and {len(texts)} of text, as read from the file; "
        f"{len(schema.classes)} classes in {schema.target!r}"
    )
    fill, places = ("mean", ", and places in year, week and day") if estimator == Estimator.SVM else ("median", "")
    kinds = [f"{name!r} ({format_count(table.column(name).nunique(), 'value')})" for name in texts]
    lines = {
        "numbers": format_names(numbers),
        "dates": f"{format_names(dates)}, as days since 1970{places}" if dates else "",
        "text": join_names(kinds),
        "left out": join_names(
            [*(f"{name!r} (asked for)" for name in dropped)]
            + [f"{finding.column!r} ({finding.message})" for finding in findings if finding.leave_out]
        ),
    }
    print_lines(*(f"  {kind:<9} {names}" for kind, names in lines.items() if names))
    if table.missing:
        print_lines(
            f"missing values in {format_missing(table.missing)}",
            f"missing numbers become the {fill} of each subsample, missing text is a category of its own",
        )


def _print_warnings(table: Table | StreamedTable, findings: Sequence[Finding]) -> None:
    """Warn of guesses about the file, and of columns that may not be what they seem."""
    source = table.schema.source
    if source is not None and source.encoding == "cp1252":
        print_error(
            "warning: the file is not UTF-8, and was read as Windows-1252 (Latin-1): give --encoding if it is not"
        )
    if source is not None and source.decimal == ",":
        print_error("warning: commas are taken for decimal marks: give --decimal . if they are not")
    for finding in findings:
        if finding.column == table.schema.target:
            print_error(f"warning: the target {finding.column!r} {finding.message}")
    doubtful = [one for one in findings if one.column != table.schema.target and not one.leave_out]
    for finding in doubtful[:_MOST_WARNINGS]:
        print_error(f"warning: {finding.column!r} {finding.message} (--drop would leave it out)")
    others = list(dict.fromkeys(finding.column for finding in doubtful[_MOST_WARNINGS:]))
    if others:
        print_error(
            f"warning: {format_count(len(others), 'more column')} may not be what they seem: {format_names(others)} "
            "(pacbayes.io.inspect_table says why)"
        )
