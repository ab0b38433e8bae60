"""``pacbayes fit``: train on a table, and save a model and its certificate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import pacbayes
from pacbayes import io
from pacbayes._formatting import format_count, format_counts, format_names, join_names
from pacbayes.cli._command import usage_error
from pacbayes.cli._console import print_certificate, print_error, print_json, print_lines, test_values
from pacbayes.cli._imports import import_functions_first, without_list_of_estimators
from pacbayes.cli._tables import (
    FitObjective,
    TableOptions,
    check_exists,
    check_output,
    split_as_trained,
    test_model,
    train,
)

if TYPE_CHECKING:
    from pacbayes.pools import Pool

    Tables = io.Table | io.StreamedTable

Estimator = StrEnum("Estimator", ["auto", "svm", "tree", "logistic"])
ClassWeight = StrEnum("ClassWeight", ["balanced"])
Scaler = StrEnum("Scaler", ["auto", "standard", "minmax", "none"])
Task = StrEnum("Task", ["auto", "classification", "regression"])
NumberLoss = StrEnum("NumberLoss", ["absolute_error", "squared_error"])

# Fraction of the rows that --time holds out.
_LAST_ROWS = 0.2

# With fewer rows, a class may have one row by chance.
_FEWEST_ROWS = 20

# Columns that are warned of by a line each.
_MOST_WARNINGS = 12


def fit(
    data: Path,
    target: str | None = None,
    task: Task = Task.auto,
    output: Path = Path("model.skops"),
    certificate: Path | None = None,
    estimator: Estimator = Estimator.auto,
    families: str | None = None,
    scaler: Scaler = Scaler.auto,
    class_weight: ClassWeight | None = None,
    cost: list[str] | None = None,
    n_hypotheses: int | None = None,
    subsample_size: str = "auto",
    delta: float = 0.05,
    objective: FitObjective = FitObjective.auto,
    holdout: str = "auto",
    seed: Annotated[int, typer.Option(min=0)] = 0,
    test_size: float | None = None,
    time: str | None = None,
    text: list[str] | None = None,
    drop: list[str] | None = None,
    keep: list[str] | None = None,
    groups: str | None = None,
    max_error: float | None = None,
    skip_missing_target: bool = False,
    many_classes: bool = False,
    loss: NumberLoss | None = None,
    y_range: tuple[float, float] | None = None,
    *,
    options: TableOptions,
    jobs: int = -1,
    progress: bool | None = None,
    json: bool = False,
) -> None:
    """Train on a table, and prove how well the result will do.

    Models of several families are trained, and weighted in one vote; nothing has to be chosen. Text, true and false are
    categories, and a missing one is a category of its own. Missing numbers become means of each hypothesis's own
    subsample, from which scales come as well, so that the certificate is strict; boosted trees and forests take them as
    missing. Categories that are new in prediction are fine. Dates become days since 1970, and places in the year, the
    week and the day. Columns from which nothing can be learned are left out: those that are empty or constant, number
    the rows, or hold text that is different in every row.

    Parameters
    ----------
    data
        Table: CSV, Parquet, LIBSVM text or an Excel workbook, also compressed; - for standard input.
    target
        Column of the classes, or of the numbers to predict. LIBSVM text needs none.
    task
        Whether the target is a class or a number to predict; auto takes a number with many different values, or with
        decimals, for one to predict.
    output
        File for the model.
    certificate
        File for the certificate. [default: MODEL.certificate.json]
    estimator
        What to train on subsamples: the --families (auto), or one base learner alone. With tree and logistic, missing
        numbers become medians of each subsample.
    families
        Families of models that share the vote, with commas; ridge is for numbers, svm for classes. [default:
        svm,boosting,forest,linear; for numbers ridge in place of svm]
    scaler
        Scaling of numbers for the SVMs, by each subsample's own range; auto tries all.
    class_weight
        Let all classes weigh the same in training (balanced): fewer rows of rare ones are missed, for more errors
        altogether, which the certificate is about. [default: none]
    cost
        Cost of an error, such as fraud:fine=5: predicting fine where the truth is fraud costs 5, and other errors 1.
        May be repeated. The vote predicts what costs least by its shares, and the certificate is about the mean cost.
        [default: all errors cost the same]
    n_hypotheses
        Number of hypotheses, divided among the families. [default: each family's own, 45 SVMs for each subsample size]
    subsample_size
        Points that train a hypothesis: a number, a fraction, several with commas, auto or paper.
    objective
        What the weights make small: a bound, the paper's (lambda), PAC-Bayes-kl, the dual or the direct one; or, of
        votes that held-out rows test, the mean loss in units of the smallest one (relative) or the error of the vote
        itself on rows outside of subsamples (stacking).
    holdout
        Rows reserved for the certificate: a share or number, several with commas for as many competing votes, auto, or
        none for the paper's bounds on all rows.
    seed
        Seed. Choose it beforehand: the best of several seeds has no certificate.
    test_size
        Fraction of the rows to hold out, for a test. [default: none]
    time
        Column of dates or numbers: the last rows by it are held out, 20% unless --test-size says otherwise, and the
        certificate is not strict, since later rows need not be like earlier ones. [default: none]
    text
        A column of numbers that are names, to be taken as text. May be repeated.
    drop
        A column to leave out. May be repeated.
    keep
        A column to keep although nothing seems to be learned from it. May be repeated.
    groups
        A column of groups, such as regions: held-out rows bound the error of each, all at once. It stays a feature
        unless --drop leaves it out.
    max_error
        An error among answered rows, declared now and tested at full delta: predict --max-error answers more rows with
        the same one. [default: none]
    skip_missing_target
        Leave out rows whose target is missing, and say how many.
    many_classes
        Take the target for classes although most rows have one of their own.
    loss
        Of predicted numbers: the error whose mean is bounded, and made small. [default: absolute_error]
    y_range
        Of predicted numbers: a range that all of them are known to be in, two numbers, declared without a look at the
        table. [default: none]
    jobs
        Workers; -1 takes all cores. The result does not depend on it.
    progress
        Show progress. [default: a bar on a terminal; elsewhere a line now and then]
    """
    check_exists(data)
    prices = [_parse_cost(words) for words in cost or ()]
    certificate = certificate or output.with_suffix(".certificate.json")
    different = "the table, the model and the certificate must be three different files"
    check_output(output, [data, certificate], different)
    check_output(certificate, [data], different)
    import_functions_first()
    # In parts, if it is larger than the memory that is allowed.
    dropped = [name for name in drop or () if name != groups]
    roles: dict[str, Any] = {"text": text or (), "drop": dropped, "skip_missing_target": skip_missing_target}
    roles["task"] = "classification" if many_classes and task == Task.auto else str(task)
    table = io.open_table(data, target, **roles, **options.arguments())
    if table.schema.target is None:
        raise usage_error(f"which column is to be predicted? Give --target, one of {format_names(table.X.columns)}")
    of_classes = {"class-weight": class_weight, "cost": cost, "many-classes": many_classes, "max-error": max_error}
    of_classes[f"estimator {estimator}"] = estimator in (Estimator.svm, Estimator.logistic)
    of_classes[f"scaler {scaler}"] = scaler != Scaler.auto and estimator != Estimator.tree
    _refuse_options_of_other_tasks(table.schema, of_classes, {"loss": loss, "y-range": y_range})
    names = _parse_families(families, estimator, scaler, numeric=table.schema.task == "regression")
    if not many_classes:
        _refuse_many_classes(table)
    by_group = None
    if groups is not None:
        by_group = _take_groups(table, groups)
        table = table.without({groups}) if groups in (drop or ()) else table
    table, findings = _leave_out(table, keep or ())
    if not json:
        _print_table(table, findings, drop or (), estimator)
    _print_warnings(table, findings, io.find_time_order(table) if time is None else [])
    if time is not None and test_size is None:
        test_size = _LAST_ROWS
    rows, held_out = (table, None) if test_size is None else table.split(test_size, seed, time)
    pool, schema = _choose_pool(rows, estimator, names, scaler, class_weight)
    settings: dict[str, Any] = {
        "n_hypotheses": "auto" if n_hypotheses is None else n_hypotheses,
        "subsample_size": _parse_sizes("--subsample-size", subsample_size, ("auto", "paper")),
        "holdout": None if holdout == "none" else _parse_sizes("--holdout", holdout, ("auto",)),
        "delta": delta,
        "objective": str(objective),
        "random_state": seed,
        "n_jobs": jobs,
        "verbose": {None: int(not json), True: 2, False: 0}[progress],
    }
    model: pacbayes.PACBayesClassifier | pacbayes.PACBayesRegressor
    if schema.task == "regression":
        settings["loss"] = str(loss or NumberLoss.absolute_error)
        model = pacbayes.PACBayesRegressor(pool, y_range=y_range, **settings)
    else:
        costs = _make_costs(prices, rows.schema) if prices else "zero_one"
        model = pacbayes.PACBayesClassifier(pool, loss=costs, **settings)
    if by_group is not None and rows.schema.source is not None:
        by_group = by_group.iloc[split_as_trained(table, rows.schema.source)[0]]
    train(model, rows, by_group, max_error)
    model.add_assumption("file-columns-known")
    if schema.source is not None and schema.source.skipped:
        model.add_assumption("targets-known")
    if time is not None:
        model.add_assumption("rows-in-time")
    if held_out is not None:
        schema = test_model(model, schema, held_out, delta)
    with without_list_of_estimators():
        content = io.dumps_model(model, schema)
        io.try_loading(content)
    io.write_atomic({output: content, certificate: model.certificate_.to_json().encode()})
    if json:
        files = {"model": str(output), "certificate_file": str(certificate), "certificate": model.certificate_}
        left_out = {finding.column: finding.message for finding in findings if finding.leave_out}
        print_json(files | _describe_rows(rows, schema) | {"left_out": left_out, "missing": table.missing})
        return
    print_certificate(model.certificate_, schema.test or schema.number_test, time)
    print_lines(f"model        {output}", f"certificate  {certificate}")


def _take_groups(table: Tables, name: str) -> Any:
    """Return the column of groups."""
    if name == table.schema.target:
        raise usage_error(
            f"--groups must be another column than the target {name!r}: errors by class are bounded anyway"
        )
    if name not in table.X.columns:
        raise usage_error(f"--groups: there is no column {name!r}, only {format_names(table.X.columns)}")
    return table.column(name)


def _describe_rows(rows: Tables, schema: io.Schema) -> dict[str, Any]:
    """Return what a model was trained on, and how it did on rows that were held out, as JSON holds it."""
    values: dict[str, Any] = {"rows": len(rows.X), "columns": rows.X.shape[1], "task": schema.task}
    if schema.task == "classification":
        values["classes"] = list(schema.classes)
    values["kinds"] = {column.name: column.kind for column in schema.columns}
    test, source = schema.test or schema.number_test, schema.source
    if test is not None:
        in_time = source is not None and source.time is not None  # and then they prove nothing about later ones
        proved = ("bound", "delta") if in_time else ()
        values["test"] = {name: value for name, value in test_values(test).items() if name not in proved}
    return values


def _refuse_options_of_other_tasks(
    schema: io.Schema, of_classes: Mapping[str, object], of_numbers: Mapping[str, object]
) -> None:
    """Refuse options that say something about classes where numbers are predicted, and the other way round."""
    what, other, options = "classes", "regression", of_numbers
    if schema.task == "regression":
        what, other, options = "numbers", "classification", of_classes
    for name in (name for name, value in options.items() if value):
        raise usage_error(
            f"--{name} is not for {what}, which {schema.target!r} is taken for: leave it out, or give --task {other}"
        )


def _parse_sizes(option: str, words: str, names: tuple[str, ...]) -> Any:
    """Return an option that is a name, a size or several, as the classifier takes it."""
    if words in names:
        return words
    try:
        sizes = [int(word) if word.strip().isdigit() else float(word) for word in words.split(",")]
    except ValueError:
        raise usage_error(f"{option} must be numbers or {' or '.join(names)}, got {words!r}") from None
    return sizes if len(sizes) > 1 else sizes[0]


def _parse_cost(words: str) -> tuple[str, float]:
    """Return the classes of an error, with a colon between them, and its cost."""
    classes, _, number = words.rpartition("=")
    try:
        cost = float(number)
    except ValueError:
        cost = -1.0
    if ":" not in classes or not 0 <= cost < float("inf"):
        raise usage_error(f"--cost must be TRUTH:PREDICTED=COST, such as fraud:fine=5, got {words!r}")
    return classes, cost


def _make_costs(prices: Sequence[tuple[str, float]], schema: io.Schema) -> list[list[float]]:
    """Return the costs of all errors by true and predicted class, 1 where none is given."""
    names = [str(name) for name in schema.classes]
    costs = [[float(i != j) for j in range(len(names))] for i in range(len(names))]
    errors = {f"{truth}:{other}": (i, j) for i, truth in enumerate(names) for j, other in enumerate(names) if i != j}
    for error, cost in prices:
        if error not in errors:
            raise usage_error(f"--cost must name two different classes, of {format_names(names)}, got {error!r}")
        i, j = errors[error]
        costs[i][j] = cost
    if not any(map(any, costs)):
        raise usage_error("--cost must leave some error that costs something")
    return costs


def _parse_families(words: str | None, estimator: Estimator, scaler: Scaler, *, numeric: bool) -> list[str]:
    """Return the names of the families to train, of those whose models files can hold."""
    from pacbayes.pools import DEFAULT_FAMILIES, DEFAULT_NUMERIC_FAMILIES, FAMILIES, NUMERIC_FAMILIES

    usual, families = (DEFAULT_NUMERIC_FAMILIES, NUMERIC_FAMILIES) if numeric else (DEFAULT_FAMILIES, FAMILIES)

    if words is None:
        return list(usual)
    if estimator != Estimator.auto:
        raise usage_error(f"--families are what --estimator auto trains: leave out --estimator {estimator}, or these")
    names = [word.strip() for word in words.split(",")]
    of_numbers = " for numbers" if numeric else ""
    known = f"--families must be some of {', '.join(usual)}{of_numbers}, with commas, got {words!r}"
    kind = "PACBayesRegressor" if numeric else "PACBayesClassifier"
    for name in names:
        if name in families and name not in usual:
            raise usage_error(f"{known}: model files hold no {name} models, which {kind} trains in Python")
        if name not in families:
            raise usage_error(known)
        if names.count(name) > 1:
            raise usage_error(f"--families must be different, got {name!r} twice")
    if scaler != Scaler.auto and "svm" not in names:
        raise usage_error(f"--scaler {scaler} is for the SVMs: add svm to --families, or leave out --scaler")
    return names


def _choose_pool(
    table: Tables, estimator: Estimator, families: Sequence[str], scaler: Scaler, class_weight: ClassWeight | None
) -> tuple[Pool, io.Schema]:
    """Return the families, the compiled SVMs, or another base learner that handles text and gaps itself."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    from pacbayes.pools import EstimatorPool, RBFSVMPool, make_union

    schema = table.schema
    if estimator in (Estimator.tree, Estimator.logistic) and not hasattr(table.X, "iloc"):
        raise usage_error(
            f"--estimator {estimator} needs all rows in memory, and they take more than --max-bytes: auto and svm "
            "would do"
        )
    scaling: Any = None if scaler == Scaler.none else str(scaler)
    if schema.task == "regression" and estimator == Estimator.auto:
        return make_union(families, numeric=True), schema
    if estimator in (Estimator.auto, Estimator.svm):
        weights: Any = None if class_weight is None else str(class_weight)
        alone = estimator == Estimator.svm
        pool: Pool = RBFSVMPool(class_weight=weights) if alone else make_union(families, class_weight=weights)
        if scaler != Scaler.auto:
            pool.set_params(**{"scaler" if alone else "svm__scaler": scaling})
        return pool, schema
    kinds = {"classification": DecisionTreeClassifier, "regression": DecisionTreeRegressor}
    learner = kinds[schema.task]() if estimator == Estimator.tree else LogisticRegression(max_iter=1000)
    if class_weight is not None:
        learner.set_params(class_weight=str(class_weight))
    scaling = "standard" if scaler == Scaler.auto else scaling
    encoder = io.ColumnEncoder(schema.names_of("number", "date"), schema.names_of("text"), scaling)
    return EstimatorPool(make_pipeline(encoder, learner)), replace(schema, complete=False)


def _refuse_many_classes(table: Tables) -> None:
    """Refuse a target of which most rows have a value of their own: there is nothing to learn from one row."""
    schema, n_rows = table.schema, len(table.X)
    is_class = schema.task == "classification"
    if is_class and n_rows >= _FEWEST_ROWS and 2 * len(schema.classes) > n_rows:
        amount = "" if isinstance(schema.classes[0], str) else "predict numbers (--task regression), "
        raise usage_error(
            f"the target {schema.target!r} holds {len(schema.classes)} different values in {n_rows} rows, an id or an "
            f"amount rather than a class: name another column, {amount}or give --many-classes"
        )


def _leave_out(table: Tables, keep: Collection[str]) -> tuple[Tables, list[io.Finding]]:
    """Leave out columns from which nothing can be learned, and return all that was found about the others as well."""
    unknown = [name for name in keep if name not in table.X.columns]
    if unknown:
        raise usage_error(f"--keep: there is no column {format_names(unknown)}, only {format_names(table.X.columns)}")
    findings = [
        replace(finding, leave_out=finding.leave_out and finding.column not in keep)
        for finding in io.inspect_table(table)
    ]
    names = {finding.column for finding in findings if finding.leave_out}
    return (table.without(names) if names else table), findings


def _print_table(table: Tables, findings: Sequence[io.Finding], dropped: Sequence[str], estimator: Estimator) -> None:
    """Say what each column was taken for."""
    schema = table.schema
    numbers, dates, texts = (schema.names_of(kind) for kind in ("number", "date", "text"))
    counted = f"{format_count(len(numbers), 'column')} of numbers" + (f", {len(dates)} of dates" if dates else "")
    print_lines(
        f"{len(table.X)} rows; {counted} and {len(texts)} of text, as read from the file; "
        + (
            f"numbers in {schema.target!r}, which are predicted (--task classification would take them for classes)"
            if schema.task == "regression"
            else f"{len(schema.classes)} classes in {schema.target!r}"
        )
    )
    is_coded = estimator in (Estimator.auto, Estimator.svm)
    places = ", and places in year, week and day" if is_coded else ""
    fill = f"the {'mean' if is_coded else 'median'} of each subsample"
    in_trees = " (trees take them as missing)" if estimator == Estimator.auto else ""
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
            f"missing values in {format_counts(table.missing)}",
            f"missing numbers become {fill}{in_trees}, missing text is a category of its own",
        )


def _print_warnings(table: Tables, findings: Sequence[io.Finding], ordered_by: Sequence[str]) -> None:
    """Warn of guesses about the file, of columns that may not be what they seem, and of rows in the order of dates."""
    source, target = table.schema.source, table.schema.target
    warnings = []
    if source is not None and source.skipped:
        rows = format_count(source.skipped, "row")
        warnings.append(f"{rows} of {source.skipped + source.n_rows} left out: the target {target!r} is missing there")
    if source is not None and source.encoding == "cp1252":
        warnings.append("the file is not UTF-8, and was read as Windows-1252 (Latin-1): give --encoding if it is not")
    if source is not None and source.decimal == ",":
        warnings.append("commas are read as decimal marks: give --decimal . if they are not")
    warnings += [f"the target {one.column!r} {one.message}" for one in findings if one.column == target]
    doubtful = [one for one in findings if one.column != target and not one.leave_out]
    warnings += [f"{one.column!r} {one.message} (--drop would leave it out)" for one in doubtful[:_MOST_WARNINGS]]
    others = list(dict.fromkeys(one.column for one in doubtful[_MOST_WARNINGS:]))
    if others:
        warnings.append(
            f"{format_count(len(others), 'more column')} may not be what they seem: {format_names(others)} "
            "(pacbayes.io.inspect_table says why)"
        )
    if ordered_by:
        warnings.append(
            f"the rows are in the order of {format_names(ordered_by)}: rows that follow each other in time are seldom "
            "independent, and the certificate says nothing about later ones if they differ; --time "
            f"{ordered_by[0]!r} holds out the last rows, to see how they are predicted"
        )
    for warning in warnings:
        print_error(f"warning: {warning}")
