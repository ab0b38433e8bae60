"""``pacbayes fit``: a table in, a model and its certificate out."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbayes._wording import percent_up
from pacbayes.cli._mistakes import mistake, mistakes_told
from pacbayes.cli._options import (
    JSON,
    Delta,
    Format,
    Missing,
    Objective,
    ObjectiveOption,
    Scaler,
    Separator,
)
from pacbayes.cli._show import certificate_values, print_json, show_certificate

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from pacbayes import PACBayesClassifier

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
    estimator: Annotated[Estimator, typer.Option(help="What is trained on each subsample.")] = Estimator.SVM,
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
    jobs: Annotated[int, typer.Option(help="Workers; -1 takes all cores. The result does not depend on it.")] = -1,
    progress: Annotated[bool | None, typer.Option(help="Show progress.", show_default="on a terminal")] = None,
    json: JSON = False,
) -> None:
    """Train on a table, and prove how well the result will do.

    Columns of numbers without gaps train the compiled RBF-SVMs. Text, true and false are categories; missing numbers
    become medians; then each hypothesis learns categories, medians and scales from its own subsample, as part of its
    base learner, so that the certificate is strict. Categories that are new in prediction are fine.
    """
    from pacbayes import model_file, table_file
    from pacbayes._writing import check_writable, write_whole

    proof = certificate or output.with_suffix(".certificate.json")
    with mistakes_told():
        _check_outputs(data, output, proof)
        check_writable(output)
        check_writable(proof)
        table = table_file.read(data, format=format, separator=separator, missing=missing or ())
        target = _checked_target(data, table, target, table_file.format_of(data, format) == "libsvm", text or [])
        y = table_file.labels(table[target])
        _check_classes(target, y)
        X = table_file.features(table.drop(columns=target), text or ())
        gaps = {str(name): int(count) for name, count in X.isna().sum().items() if count}
        if not json:
            _tell_table(X, y, target, gaps)
        model = _model(
            X,
            str(estimator),
            scaler=None if scaler == Scaler.NONE else str(scaler),
            n_hypotheses="auto" if n_hypotheses is None else n_hypotheses,
            subsample_size=parsed_sizes(subsample_size),
            delta=delta,
            objective=str(objective),
            random_state=seed,
            n_jobs=jobs,
            verbose=int(sys.stderr.isatty() and not json if progress is None else progress),
        )
        rows, held_out = split(len(y), test_size, seed)
        train(model, X.iloc[rows], y[rows])
        assumptions = [*model.certificate_.assumptions, _KNOWN_COLUMNS]
        model.certificate_ = replace(model.certificate_, assumptions=assumptions)
        tested = None if test_size is None else held_out_result(model, X.iloc[held_out], y[held_out], delta)
        saved = model_file.dumps(
            model,
            target=target,
            columns=[[name, "number" if X[name].dtype.kind == "f" else "text"] for name in X.columns],
            complete=model.estimator is None,
            source=data.name,
            sha256=fingerprint(data),
            class_counts={str(label): int((y[rows] == label).sum()) for label in model.classes_},
        )
        write_whole({output: saved, proof: model.certificate_.to_json().encode()})
    if json:
        values: dict[str, Any] = {
            "model": str(output),
            "certificate_file": str(proof),
            "certificate": certificate_values(model.certificate_),
            "rows": len(rows),
            "columns": X.shape[1],
            "classes": model.classes_.tolist(),
            "missing": gaps,
        }
        print_json(values | ({} if tested is None else {"test": tested}))
        return
    show_certificate(model.certificate_)
    if tested is not None:
        _tell_test(tested)
    print(f"model        {output}\ncertificate  {proof}")


def _check_outputs(data: Path, output: Path, proof: Path) -> None:
    places = [path.resolve() for path in (data, output, proof)]
    if len(set(places)) < 3:
        raise mistake("the table, the model and the certificate must be three different files")


def _checked_target(data: Path, table: pd.DataFrame, target: str | None, is_libsvm: bool, text: list[str]) -> str:
    from pacbayes.table_file import LIBSVM_LABEL

    names = [str(name) for name in table.columns]
    if target is None and is_libsvm:
        target = LIBSVM_LABEL
    if target is None:
        raise mistake(f"which column holds the classes? Give --target, one of {listed(names)}")
    for name in (target, *text):
        if name not in names:
            hint = "; is there another separator (--separator)?" if len(names) == 1 else ""
            raise mistake(f"{str(data)!r} has no column {name!r}; it has {listed(names)}{hint}")
    if target in text:
        raise mistake(f"{target!r} is the target: --text is for the other columns")
    if len(names) == 1:
        raise mistake(f"{str(data)!r} has no column besides the target {target!r}")
    return target


def listed(names: list[str], most: int = 12) -> str:
    """Names for a message, not too many."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _check_classes(target: str, y: NDArray[Any]) -> None:
    import numpy as np

    classes = np.unique(y)
    if classes.size == 1:
        raise mistake(
            f"the target {target!r} holds one value only, {classes.tolist()[0]!r}: a classifier needs two classes"
        )
    if classes.size == y.size > 2:
        raise mistake(f"the target {target!r} is different in each of the {y.size} rows: it is no class")


def parsed_sizes(words: str) -> Any:
    """The option ``--subsample-size`` as the classifier takes it."""
    if words in ("auto", "paper"):
        return words
    try:
        sizes = [int(word) if word.strip().isdigit() else float(word) for word in words.split(",")]
    except ValueError:
        raise mistake(f"--subsample-size must be numbers, auto or paper, got {words!r}") from None
    return sizes if len(sizes) > 1 else sizes[0]


def _model(X: pd.DataFrame, estimator: str, scaler: Any, **settings: Any) -> PACBayesClassifier:
    """The default SVMs where they can be had, otherwise a base learner that deals with text and gaps itself."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    from pacbayes import PACBayesClassifier
    from pacbayes.columns import ColumnEncoder

    numeric = [name for name in X.columns if X[name].dtype.kind == "f"]
    others = [name for name in X.columns if name not in set(numeric)]
    if estimator == "svm" and not others and not X.isna().to_numpy().any():
        return PACBayesClassifier(scaler=scaler, **settings)
    learners = {"svm": SVC(), "tree": DecisionTreeClassifier(), "logistic": LogisticRegression(max_iter=1000)}
    # Soft margins as those of the default SVMs; gamma="scale" is the subsample's own.
    drawn = {"svc__C": [10.0, 100.0, 1000.0]} if estimator == "svm" else None
    learner = make_pipeline(ColumnEncoder(numeric, others, scaler), learners[estimator])
    return PACBayesClassifier(learner, param_distributions=drawn, **settings)


def split(n: int, test_size: float | None, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on and rows to test on, drawn without looking at them."""
    import numpy as np

    if test_size is None:
        return np.arange(n), np.arange(0)
    held_out = round(test_size * n)
    if not (0 < test_size < 1 and 0 < held_out < n):
        raise mistake(f"--test-size must be a fraction in (0, 1) that leaves rows on both sides, got {test_size:g}")
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def train(model: PACBayesClassifier, X: pd.DataFrame, y: NDArray[Any]) -> None:
    """Fit, without warnings that do not matter here."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # A hypothesis that was not trained to the end is a hypothesis all the same, and is validated as it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    model.set_params(verbose=0)


def held_out_result(model: PACBayesClassifier, X: pd.DataFrame, y: NDArray[Any], delta: float) -> dict[str, Any]:
    """Errors of the vote on rows that it has not seen, and the exact bound that they prove."""
    from pacbayes.bounds import clopper_pearson

    errors = int((model.predict(X) != y).sum())
    bound = float(clopper_pearson(errors, y.size, delta))
    return {"rows": int(y.size), "errors": errors, "error": errors / y.size, "bound": bound, "delta": delta}


def fingerprint(path: Path) -> str:
    """The sha256 of a file, so that it can be recognised."""
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tell_table(X: pd.DataFrame, y: NDArray[Any], target: str, gaps: dict[str, int]) -> None:
    import numpy as np

    numeric = sum(X[name].dtype.kind == "f" for name in X.columns)
    print(
        f"{y.size} rows; {numeric} columns of numbers and {X.shape[1] - numeric} of text, as read from the file; "
        f"{np.unique(y).size} classes in {target!r}"
    )
    if gaps:
        counts = [f"{name!r} ({count})" for name, count in gaps.items()]
        more = f" and {len(counts) - 12} more columns" if len(counts) > 12 else ""
        print(f"missing values in {', '.join(counts[:12])}{more}")
        print("missing numbers become the median of each subsample, missing text is a category of its own")


def _tell_test(tested: dict[str, Any]) -> None:
    print(
        f"held-out test: {tested['errors']} errors in {tested['rows']} rows ({tested['error']:.2%}), which alone prove "
        f"an error of at most {percent_up(tested['bound'])} (Clopper-Pearson, delta {tested['delta']:g})"
    )
