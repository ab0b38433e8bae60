"""Models in files that run nothing when they are loaded.

A model is saved with skops: numbers, and the names of types. `_archive` examines the file before an object is made, and
`_fitted` checks that the arrays of the objects fit together before the model is returned.
"""

from __future__ import annotations

import contextlib
import os
import stat
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED

import numpy as np

import pacbayes
from pacbayes._atomic import write_atomic
from pacbayes.certificate import Certificate
from pacbayes.exceptions import ModelFileError
from pacbayes.fitting import FitSettings, FittedVotes, Vote
from pacbayes.io import _format5
from pacbayes.io._archive import build, can_build, examine, require, type_name
from pacbayes.io._fitted import check_objects, reachable, rules_of
from pacbayes.io._limits import Budget, explain_unreadable, format_bytes
from pacbayes.io.schema import Schema
from pacbayes.pools import HypothesisGroups, RBFRidges, RBFSVMPool, RBFSVMs, ScoreModels, Untrained
from pacbayes.rows import CodeBook
from pacbayes.tasks import Task

# Format 6 repeats the code book with every group of hypotheses.
_FORMAT, _OLDER = 7, (5, 6)

# Memory for each feature of the rows that a model is tried on: two numbers.
_PER_FEATURE = 16

# Default limit on the memory that loading a model may take.
MAX_MODEL_BYTES = 2**31


def save_model(model: Any, path: str | os.PathLike[str], schema: Schema | None = None) -> None:
    """Save a fitted classifier or regressor.

    Parameters
    ----------
    model : PACBayesClassifier or PACBayesRegressor
        The model.
    path : path-like
        The file, by convention ``*.skops``. It appears when it is complete, and replaces one that exists.
    schema : Schema, optional
        What the model must know about tables. ``pacbayes predict`` needs it.

    Notes
    -----
    Of votes that lost, certificates, losses and weights are kept; their hypotheses are, too, if others may be added to
    them (``racing=False``).

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import make_moons
    >>> import pacbayes
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = pacbayes.PACBayesClassifier(n_hypotheses=8, random_state=0).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     pacbayes.io.save_model(model, f"{folder}/moons.skops")
    ...     again, schema = pacbayes.io.load_model(f"{folder}/moons.skops")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    write_atomic({Path(path): dumps_model(model, schema)})


def dumps_model(model: Any, schema: Schema | None = None) -> bytes:
    """Return what `save_model` would write: the content of a model file, from the same arguments."""
    import skops.io

    fitted: Any = getattr(model, "fitted_votes_", None)
    require(isinstance(fitted, FittedVotes), f"{type(model).__name__} is not fitted, or has no certificate")
    _check_members(fitted)
    if schema is not None and (fitted.code_book is not None or fitted.ranges is not None):
        schema = replace(schema, complete=False)  # gaps are filled, whether or not training had some
    kept: Any = _with_code_book(_without_losers(fitted), None)
    # Certificates are kept as JSON, whose types and ranges are checked when they are read.
    content = {
        "pacbayes_model": _FORMAT,
        "certificates": [vote.certificate.to_json() for vote in fitted.votes],
        "schema": None if schema is None else schema.to_json(),
        "code_book": None if fitted.code_book is None else fitted.code_book.to_json(),
        "fitted": kept.with_certificates([None] * len(fitted.votes)),
    }
    data: bytes = skops.io.dumps(content, compression=ZIP_DEFLATED)
    return data


def _without_losers(fitted: FittedVotes) -> FittedVotes:
    """Return the votes without the hypotheses of those that lost, unless hypotheses may be added to them."""
    if not fitted.settings.racing:
        return fitted
    votes = [
        vote
        if k == fitted.winner
        else replace(vote, hypotheses=Untrained(len(vote.hypotheses), vote.hypotheses.classes))
        for k, vote in enumerate(fitted.votes)
    ]
    return replace(fitted, votes=tuple(votes))


def _with_code_book(fitted: FittedVotes, code_book: CodeBook | None) -> FittedVotes:
    """Return the votes with another code book, which all hypotheses that read tables by one have in common."""

    def convert(hypotheses: Any) -> Any:
        if isinstance(hypotheses, HypothesisGroups):
            groups = {name: convert(group) for name, group in hypotheses.groups.items()}
            return HypothesisGroups(groups, hypotheses.kind)
        has_one = isinstance(hypotheses, (RBFRidges, RBFSVMs, ScoreModels))
        return replace(hypotheses, code_book=code_book) if has_one else hypotheses

    votes = tuple(replace(vote, hypotheses=convert(vote.hypotheses)) for vote in fitted.votes)
    return replace(fitted, votes=votes, code_book=code_book)


def try_loading(data: bytes) -> None:
    """Raise ModelFileError if what `dumps_model` returned cannot be loaded; warn if it takes more memory than usual."""
    budget = Budget(2**62, ModelFileError)
    try:
        _construct(data, (), budget)
    except Exception as error:
        raise ModelFileError(f"the model could not be loaded if it was saved: {error}") from error
    if budget.needed > MAX_MODEL_BYTES:
        warnings.warn(
            f"loading this model takes {format_bytes(budget.needed)} of memory, and the limit is "
            f"{format_bytes(MAX_MODEL_BYTES)} by default: load it with max_bytes={budget.needed} "
            f"(--max-bytes {budget.needed})",
            stacklevel=2,
        )


def load_model(
    path: str | os.PathLike[str], *, trusted: Sequence[str] = (), max_bytes: int = MAX_MODEL_BYTES
) -> tuple[Any, Schema | None]:
    """Load a classifier or regressor. Nothing in the file is run, and types that are not trusted are refused by name.

    Parameters
    ----------
    path : path-like
        The file.
    trusted : sequence of str, optional
        Names of further types to trust, such as that of a base learner that is not scikit-learn's. Trust only what you
        know: making an object may run any code that its type has, and the arrays of these types are not checked.
    max_bytes : int, default=2**31
        Limit on the memory that loading may take.

    Returns
    -------
    model : PACBayesClassifier or PACBayesRegressor
        The model.
    schema : Schema or None
        What it was saved with.

    Raises
    ------
    ModelFileError
        If the file is not a model, exceeds the limit, holds types that are not trusted, or arrays that do not fit
        together. The message names the file.

    Notes
    -----
    Trusted are scikit-learn's support vector machines, linear models, naive Bayes, decision trees, forests, bagging and
    boosting of those, nearest neighbours by brute force, the usual scalers and encoders, and pipelines of all of these;
    of regressors linear models, decision trees, forests and bagging. Other types, such as nearest neighbours that keep
    a tree, have to be named in `trusted`.

    Parameters that say where to work, `n_jobs` and `checkpoint`, are not taken from a file: they are None. Nor is
    `verbose`, which is 0.

    Prediction takes memory of its own, which grows with the number of rows and classes. For untrusted files, limit
    the memory of the process as well, for example by ``ulimit -v 4000000`` in the shell.
    """
    try:
        return _construct(_read(Path(path), max_bytes), tuple(trusted), Budget(max_bytes, ModelFileError))
    except Exception as error:
        # What comes out of a file that somebody else made may fail in any way.
        reason = str(error) if isinstance(error, ModelFileError) else f"{type(error).__name__}: {error}"
        raise ModelFileError(f"{str(path)!r} is not a model that can be loaded: {reason}") from error


def _read(path: Path, max_bytes: int) -> bytes:
    with explain_unreadable(ModelFileError), path.open("rb") as file:
        status = os.fstat(file.fileno())
        require(stat.S_ISREG(status.st_mode), "this is no regular file")
        Budget(max_bytes, ModelFileError).check(status.st_size)
        data = file.read()
    is_json = data[:1] == b"{"
    require(not is_json, "it is JSON, as a certificate is: give the model that was saved with it, by default *.skops")
    return data


def _types_of(package: str) -> list[type]:
    """Return the types whose objects a file may hold: scikit-learn's, or all others."""
    return [*rules_of(package), *_format5.TYPES]


def _construct(data: bytes, trusted: tuple[str, ...], budget: Budget) -> tuple[Any, Schema | None]:
    """Examine the content of a file, make its objects, and check them."""
    archive = examine(data, _types_of, trusted, budget)
    own = {type_name(kind): kind for kind in _types_of("pacbayes")}
    if can_build(archive, own):
        content = build(archive, own)
    else:
        import skops.io

        content = skops.io.loads(archive.pack(), trusted=archive.names)
    version = content.get("pacbayes_model") if isinstance(content, dict) else None
    require(type(version) is int, "there is something else in it")
    readable = version in (*_OLDER, _FORMAT)
    require(readable, f"it has format {version}, and this version reads {_OLDER[0]} to {_FORMAT}: fit again")
    found = _format5.read_classifier(content["model"]) if version == _OLDER[0] else content["fitted"]
    fitted = _restore_certificates(found, content["certificates"])
    if version == _FORMAT and content["code_book"] is not None:
        fitted = _with_code_book(fitted, CodeBook.from_json(content["code_book"]))
    budget.check(_PER_FEATURE * int(fitted.n_features))  # which is any number, whatever the size of the file
    check_objects(fitted, trusted)
    # A file must not start threads, write to a folder, or to the terminal.
    settings = replace(fitted.settings, n_jobs=None, checkpoint=None, verbose=0)
    model = getattr(pacbayes, fitted.task.estimator).from_fitted_votes(replace(fitted, settings=settings))
    schema = None if content["schema"] is None else Schema.from_json(content["schema"])
    # What types that the caller trusts make of a row that was made up is up to them.
    with contextlib.suppress(ValueError) if trusted else contextlib.nullcontext():
        _check_prediction(model, schema)
    return model, schema


def _restore_certificates(fitted: Any, certificates: Any) -> FittedVotes:
    """Put the certificates back into the votes, and the task that they have in common."""
    require(type(fitted) is FittedVotes, f"it holds a {type(fitted).__name__}, not the votes of a model")
    votes, winner = fitted.votes, fitted.winner
    whole = isinstance(votes, tuple) and isinstance(certificates, list) and len(votes) == len(certificates)
    require(whole and all(type(vote) is Vote for vote in votes), "its votes are incomplete")
    require(type(winner) is int and 0 <= winner < len(votes), "the winner is none of the votes")
    proofs = map(Certificate.from_json, certificates)
    together = zip(votes, proofs, strict=True)
    parts = [replace(vote, task=fitted.task, certificate=proof) for vote, proof in together]
    settings = fitted.settings
    if isinstance(settings, FitSettings) and settings.estimator is None:  # the default before there were families
        settings = replace(settings, estimator=RBFSVMPool())
    restored: FittedVotes = replace(fitted, votes=tuple(parts), settings=settings)
    require(isinstance(restored.task, Task), "its task is none")
    ranks = [restored.task.rank(vote.certificate) for vote in restored.votes]
    require(ranks[winner] == min(ranks), "the winner is not the vote with the smallest bound")
    _check_members(restored)
    return restored


def _check_members(fitted: FittedVotes) -> None:
    """Raise ModelFileError if a certificate is not about as many hypotheses as its vote has."""
    for vote in fitted.votes:
        m = {len(part) for part in (vote.hypotheses, vote.totals, vote.seen, vote.posterior, vote.subsamples)}
        fits = m == {vote.certificate.n_hypotheses}
        require(fits, f"the parts of the model do not fit together: {sorted(m)} members")


def _check_prediction(model: Any, schema: Schema | None) -> None:
    """Predict a row with every hypothesis, so that what is left to go wrong goes wrong here.

    A row of a table without a schema cannot be made up.
    """
    row: Any = np.zeros((1, model.n_features_in_))
    if schema is not None:
        require(len(schema.columns) == model.n_features_in_, "the schema has another number of columns")
        known = tuple(model.fitted_votes_.task.classes.tolist())
        require(schema.classes in ((), known), "the schema has other classes")
        same = (schema.task == "regression") == model.fitted_votes_.task.numeric
        require(same, f"the schema is of {schema.task}, and the model predicts something else")
        import pandas as pd

        fills: dict[str, Any] = {"number": 0.0, "text": "", "date": "1970-01-01"}
        row = schema.apply(pd.DataFrame({column.name: [fills[column.kind]] for column in schema.columns}))
    elif hasattr(model, "feature_names_in_"):
        return
    # Encoders that refuse categories which they do not know would refuse this row.
    encoders = [part for part in reachable(model.fitted_votes_) if getattr(part, "handle_unknown", None) == "error"]
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        for encoder in encoders:
            encoder.handle_unknown = "ignore"
            stack.callback(setattr, encoder, "handle_unknown", "error")
        trained = model.hypotheses_.take(np.flatnonzero(model.n_validation_ > 0))
        for points in model.open_rows(row).batches():
            trained.votes(points)
