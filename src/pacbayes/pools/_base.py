"""The protocol of a hypothesis space: a pool of settings, and the hypotheses that it trains."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from pacbayes._compat import take_rows
from pacbayes._losses import Loss
from pacbayes._validation import Array
from pacbayes.exceptions import HypothesisError
from pacbayes.pools._device import DeviceRows, fits, is_on_device
from pacbayes.pools._trees import RowBlock
from pacbayes.rows import CodeBook
from pacbayes.sampling import LEARNER, SamplingPlan, Subsamples, stream

Codes = NDArray[np.intp]

# Numbers of hypotheses or rows.
Numbers = Sequence[int] | NDArray[np.intp]


def protect(X: Any) -> Any:
    """Return rows that a learner cannot overwrite: an array that is read-only, or a copy of what has no such state."""
    if isinstance(X, np.ndarray):
        X = X.view()
        X.flags.writeable = False
        return X
    copy = getattr(X, "clone", None) or getattr(X, "copy", None)
    return X if copy is None else copy()


@dataclass(frozen=True)
class Sample:
    """Labelled rows that hypotheses are trained and validated on.

    Attributes
    ----------
    X : array, sparse matrix or data frame with n rows
        Features.
    codes : ndarray of shape (n,)
        Labels as positions in `classes`.
    classes : ndarray
        All class labels, sorted.
    code_book : CodeBook or None
        What columns of a table the features are, if they come from one.
    """

    X: Any
    codes: Codes
    classes: NDArray[Any]
    code_book: CodeBook | None = None

    def __len__(self) -> int:
        return self.codes.size

    def take(self, rows: NDArray[Any]) -> Sample:
        """Return some of the rows, by their numbers."""
        taken = Sample(take_rows(self.X, rows), self.codes[rows], self.classes, self.code_book)
        if self.__dict__.get("on_device") is not None:
            taken.__dict__["on_device"] = self.on_device.take(rows)
        return taken

    def gather(self, rows: NDArray[np.intp]) -> Sample:
        """Return some of the rows in memory, wherever they are."""
        return self.take(rows)

    def keep_on_device(self, X: Any) -> Sample:
        """Return this sample, with an array on a device that it is a copy of: it need not be copied back."""
        if is_on_device(X):
            rows = DeviceRows.of(X)
            if rows.values.dtype == self.X.dtype and rows.values.shape == self.X.shape:
                self.__dict__["on_device"] = rows
        return self

    @property
    def n_columns(self) -> int:
        """Number of features, or of columns of the table that they come from."""
        return int(self.X.shape[1]) if self.code_book is None else len(self.code_book.names)

    @cached_property
    def on_device(self) -> Any:
        """The rows in the memory of a CUDA device, None if they are too many; kept as long as the sample is."""
        return DeviceRows.of(self.X) if fits(self.X) else None

    def __sizeof__(self) -> int:
        """Return the bytes of the rows: Dask, behind joblib, sends what is large to a worker once."""
        X = self.X.data if issparse(self.X) else self.X
        return sum(part.nbytes if isinstance(part, np.ndarray) else sys.getsizeof(part) for part in (X, self.codes))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "on_device"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class Constant:
    """The hypothesis of a subsample that holds one class only, or of a learner that failed.

    Parameters
    ----------
    label : object
        What it predicts, everywhere.
    failed : bool, default=False
        Whether it stands in for a learner that failed: its loss then counts as 1 at every point.
    """

    def __init__(self, label: Any, failed: bool = False) -> None:
        self.label = label
        self.failed = failed

    def __repr__(self) -> str:
        return f"Constant({self.label!r}{', failed=True' if self.failed else ''})"

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label for every row."""
        return np.full(X.shape[0], self.label)


class Hypotheses(Sequence[Any], ABC):
    """Trained hypotheses, read as a sequence. Each of them predicts labels on its own: ``hypotheses[h].predict(X)``.

    Nothing is written to shared state, and totals of losses add up over blocks of rows, so that any worker can
    compute any part.

    Attributes
    ----------
    classes : ndarray
        All class labels, sorted. Votes are given as positions in it.
    """

    classes: NDArray[Any]

    @property
    def predict_by_row(self) -> bool:
        """Whether a prediction is known to depend on its row only, so that the hypotheses need not be probed."""
        return False

    def __sizeof__(self) -> int:
        """Return the bytes of all arrays: Dask, behind joblib, sends what is large to a worker once."""
        return object.__sizeof__(self) + sum(getattr(value, "nbytes", 0) for value in self.__dict__.values())

    @abstractmethod
    def votes(self, X: Any) -> NDArray[Any]:
        """Return the class codes that the hypotheses predict, one row of the result per hypothesis."""

    def votes_and_doubts(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the votes, and which of them could differ on another engine, for rounding; none by default."""
        votes = self.votes(X)
        return votes, np.zeros(votes.shape, dtype=bool)

    def responses(self, X: Any, loss: Loss) -> NDArray[Any]:
        """Return what a loss is about, one row of the result per hypothesis: votes, or probabilities of all classes."""
        return self.votes(X)

    @abstractmethod
    def loss_totals(
        self, sample: Sample, subsamples: Subsamples, hypotheses: range, rows: Numbers, loss: Loss
    ) -> Array:
        """Return the total validation loss of each hypothesis over a block of rows, without its training points.

        A vote that could differ on another engine has the largest loss, 1: totals bound the losses on every engine.

        Parameters
        ----------
        sample : Sample
            All rows.
        subsamples : Subsamples
            Training sets of all hypotheses of the pool.
        hypotheses : range
            Which of them these are.
        rows : range or ndarray
            The block: row numbers, rising.
        loss : Loss
            The loss.
        """

    def start_loss_totals(
        self, sample: Sample, subsamples: Subsamples, hypotheses: range, rows: Numbers, loss: Loss
    ) -> Callable[[], Array]:
        """Begin to compute the losses, if a device does it; return what does the rest of `loss_totals`."""
        return partial(self.loss_totals, sample, subsamples, hypotheses, rows, loss)

    @abstractmethod
    def take(self, chosen: Codes) -> Hypotheses:
        """Return some of them, in the order given."""

    @classmethod
    @abstractmethod
    def concatenate(cls, parts: Sequence[Any]) -> Hypotheses:
        """Return the hypotheses of several ranges as one sequence."""

    def keep_training_points(self, sample: Sample) -> Hypotheses:
        """Return these hypotheses with all that they need of the training sample to predict without it."""
        return self

    def leave_device(self) -> None:
        """Let go of what is kept in the memory of a device to predict sooner."""

    def assumptions(self) -> list[str]:
        """Return what has to be true of the features for a certificate to hold, besides what the pool says."""
        return []

    @abstractmethod
    def describe(self, h: int) -> str:
        """Return in a few words what hypothesis h is, and what tells it apart from the others."""

    @abstractmethod
    def fingerprint(self) -> Any:
        """Return what determines the predictions, as a value for `pacbayes._fingerprint.digest`."""


class Pool(BaseEstimator, ABC):  # type: ignore[misc]
    """A hypothesis space: settings by which hypotheses are trained, each on its own subsample.

    A pool holds settings only, and follows scikit-learn's conventions for them (`get_params`, `clone`, nested
    parameters in a grid search). To make a pool of your own, derive from this class and write `train_one`.
    """

    # Whether hypotheses share work on a block of rows, so that many should be validated on it together. Such a pool
    # is driven by threads: it releases the interpreter's lock.
    shares_rows: ClassVar[bool] = False

    on_error: Literal["raise", "drop"] = "raise"

    # -- what only the pool knows --------------------------------------------------------------------

    def check_settings(self) -> None:
        """Raise ValueError naming a setting that no data could make right."""

    @property
    def is_strict(self) -> bool:
        """Whether nothing from outside its subsample, or from reserved points, shapes a hypothesis."""
        return True

    def assumptions(self) -> list[str]:
        """Return what has to be true of the pool for a certificate to hold: in words, or codes of the package."""
        return ["learner-from-elsewhere", "predicts-by-row"]

    @property
    def needs_all_rows(self) -> bool:
        """Whether all rows must be in memory at once, since something is computed from all of them."""
        return False

    def check_loss(self, loss: Loss) -> None:
        """Raise HypothesisError if these hypotheses cannot be validated by a loss, before any is trained."""

    def check_classes(self, classes: NDArray[Any]) -> None:
        """Raise ValueError if these hypotheses cannot predict the classes."""

    def validation_kwargs(self, X: Any) -> dict[str, Any]:
        """Return what `sklearn.utils.validation.validate_data` has to check in X."""
        if hasattr(X, "columns") or hasattr(X, "schema"):
            return {"skip_check_array": True}  # the base learner knows what a data frame may hold
        tags = get_tags(self).input_tags
        return {
            "accept_sparse": "csr",
            "accept_large_sparse": False,
            "ensure_all_finite": not tags.allow_nan,
            "dtype": None if tags.string or tags.categorical else "numeric",
        }

    def make_code_book(self, X: Any) -> CodeBook | None:
        """Return how columns of a data frame or source become features, None if the hypotheses take X as it is."""
        return None

    def check_points(self, X: Any) -> None:
        """Raise ValueError if these hypotheses cannot be trained on points, or predict them."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- training ------------------------------------------------------------------------------------

    def prepare(self, sample: Sample, entropy: int) -> tuple[Sample, Any]:
        """Compute what all hypotheses share.

        Parameters
        ----------
        sample : Sample
            All rows.
        entropy : int
            Seed of all streams.

        Returns
        -------
        sample : Sample
            The rows that train and validate hypotheses: all but those that are reserved for shared choices.
        shared : object
            What `train` is to be given.
        """
        return sample, None

    def computes_on_device(self, sample: Sample, subsamples: Subsamples) -> bool:
        """Return whether hypotheses are trained and validated on a device, which wants few and large parts of work."""
        return False

    def uses_device(self, sample: Sample, subsamples: Subsamples) -> bool:
        """Return whether a device does any of the work."""
        return self.computes_on_device(sample, subsamples)

    def draw_subsamples(self, plan: SamplingPlan, sample: Sample) -> Subsamples:
        """Return the training sets of the hypotheses."""
        return plan.draw(len(sample), sample.n_columns)

    def train(
        self, sample: Sample, subsamples: Subsamples, hypotheses: Numbers, entropy: int, shared: Any
    ) -> Hypotheses:
        """Train some hypotheses, each on its own subsample.

        Parameters
        ----------
        sample : Sample
            Rows that `prepare` left.
        subsamples : Subsamples
            Training sets of all hypotheses.
        hypotheses : sequence of int
            The hypotheses to train, rising.
        entropy : int
            Seed of all streams.
        shared : object
            What `prepare` computed.

        Returns
        -------
        Hypotheses
            As many as asked for.
        """
        trained = HypothesisList([self._train(sample, subsamples[h], h, entropy) for h in hypotheses], sample.classes)
        self.check_hypotheses(trained)
        return trained

    def start_training(self, *arguments: Any) -> Callable[[], Hypotheses]:
        """Begin to train some hypotheses, if a device does it; return what does the rest of `train`.

        Parameters
        ----------
        *arguments
            Those of `train`.
        """
        return partial(self.train, *arguments)

    def kinds(self, subsamples: Subsamples, hypotheses: Numbers, entropy: int) -> NDArray[np.intp] | None:
        """Return the kind of each hypothesis: its settings, as a number that is known before it is trained.

        Hypotheses of a kind that clearly lost on small subsamples need not be trained on larger ones. None if kinds are
        not known, so that all are trained.

        Parameters
        ----------
        subsamples : Subsamples
            Training sets of all hypotheses.
        hypotheses : sequence of int
            The hypotheses, rising.
        entropy : int
            Seed of all streams.
        """
        return None

    def check_hypotheses(self, hypotheses: Hypotheses) -> None:
        """Raise HypothesisError if several hypotheses are the same object, which was trained again and again."""
        if isinstance(hypotheses, HypothesisList):
            members = [id(member) for member in hypotheses.members if not isinstance(member, Constant)]
            if len(set(members)) < len(members):
                raise HypothesisError(
                    "several hypotheses are the same object, so that all but the last training of it are lost: "
                    f"{type(self).__name__} must train a new object for every hypothesis, such as a clone"
                )

    def train_one(self, X: Any, y: NDArray[Any], rng: np.random.Generator) -> Any:
        """Train one hypothesis on its subsample.

        Parameters
        ----------
        X : array, sparse matrix or data frame
            Rows of the subsample.
        y : ndarray
            Their labels, of at least two classes.
        rng : Generator
            The hypothesis's own random stream, to be used for all that is random in training.

        Returns
        -------
        object
            A hypothesis, with a method ``predict(X)`` that returns labels.
        """
        raise NotImplementedError(f"{type(self).__name__} must define train_one or train")

    def _train(self, sample: Sample, subsample: Codes, h: int, entropy: int) -> Any:
        labels = sample.classes[sample.codes[subsample]]
        if (labels == labels[0]).all():
            return Constant(labels[0])
        try:
            return self.train_one(take_rows(sample.X, subsample), labels, stream(entropy, h, LEARNER))
        except Exception as error:
            if self.on_error == "drop":
                return Constant(sample.classes[0], failed=True)
            raise HypothesisError(
                f"hypothesis {h} could not be trained on its {subsample.size} points (seed {entropy}): "
                f"{type(error).__name__}: {error}. on_error='drop' would count its loss as 1."
            ) from error


# Share of the rows of a block that a hypothesis may have been trained on and predict all the same.
_FEW_TRAINING_ROWS = 0.1


class HypothesisList(Hypotheses):
    """Hypotheses that are Python objects, each with a method `predict` that returns labels.

    Parameters
    ----------
    members : list
        The hypotheses.
    classes : ndarray
        All class labels, sorted.
    """

    def __init__(self, members: list[Any], classes: NDArray[Any]) -> None:
        self.members = members
        self.classes = classes

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, h: Any) -> Any:
        return HypothesisList(self.members[h], self.classes) if isinstance(h, slice) else self.members[h]

    def take(self, chosen: Codes) -> HypothesisList:
        return HypothesisList([self.members[h] for h in chosen], self.classes)

    @classmethod
    def concatenate(cls, parts: Sequence[HypothesisList]) -> HypothesisList:
        return cls([member for part in parts for member in part], parts[0].classes)

    def votes(self, X: Any) -> Codes:
        block = RowBlock(X)

        def vote(hypothesis: Any) -> Codes:
            codes = block.predict_by_tree(hypothesis, self.classes)
            return self._codes(hypothesis, X) if codes is None else codes

        return np.stack([vote(hypothesis) for hypothesis in self.members])

    def responses(self, X: Any, loss: Loss) -> NDArray[Any]:
        if not loss.on_probabilities:
            return self.votes(X)
        return np.stack([self._probabilities(hypothesis, X) for hypothesis in self.members])

    def _ask(self, method: Callable[[Any], Any], X: Any) -> Any:
        """Call a method with rows that it cannot overwrite: they are the caller's, or those of the next hypothesis."""
        try:
            return method(protect(X))
        except ValueError as error:
            # Some learners write to the rows they are given, or take no others than they could write to.
            if not (isinstance(X, np.ndarray) and "read-only" in str(error)):
                raise
            return method(X.copy())

    def _codes(self, hypothesis: Any, X: Any) -> Codes:
        """Return the class codes that a hypothesis predicts, or raise HypothesisError if a label is unknown."""
        labels = np.asarray(self._ask(hypothesis.predict, X))
        if labels.shape != (X.shape[0],):
            raise HypothesisError(
                f"{type(hypothesis).__name__}.predict must return one label per row, {X.shape[0]} of them, got shape "
                f"{labels.shape}"
            )
        codes = np.minimum(np.searchsorted(self.classes, labels), self.classes.size - 1)
        unknown = self.classes[codes] != labels
        if unknown.any():
            raise HypothesisError(
                f"{type(hypothesis).__name__} predicts {labels[unknown].tolist()[0]!r}, which is none of the classes"
            )
        return np.asarray(codes, dtype=np.intp)

    def _probabilities(self, hypothesis: Any, X: Any) -> Array:
        """Return the probabilities of all classes that a hypothesis gives."""
        probabilities = np.zeros((X.shape[0], self.classes.size))
        if isinstance(hypothesis, Constant):
            probabilities[:, np.searchsorted(self.classes, hypothesis.label)] = 1.0
        elif not hasattr(hypothesis, "predict_proba"):
            raise HypothesisError(
                f"a loss of probabilities needs a base learner with predict_proba, {type(hypothesis).__name__} has none"
            )
        else:
            known = np.asarray(hypothesis.classes_)
            given = np.asarray(self._ask(hypothesis.predict_proba, X), dtype=np.float64)
            sums_to_one = given.shape == (X.shape[0], known.size) and np.all(np.abs(given.sum(axis=1) - 1) <= 1e-6)
            if not sums_to_one or (given < 0).any() or np.unique(known).size < known.size:
                raise HypothesisError(
                    f"{type(hypothesis).__name__}.predict_proba must return probabilities of its {known.size} classes "
                    f"that sum to one for every row, got shape {given.shape}"
                )
            probabilities[:, np.searchsorted(self.classes, known)] = given
        return probabilities

    def loss_totals(
        self, sample: Sample, subsamples: Subsamples, hypotheses: range, rows: Numbers, loss: Loss
    ) -> Array:
        totals = np.zeros(len(hypotheses))
        respond = self._probabilities if loss.on_probabilities else self._codes
        rows = np.asarray(rows)
        codes, block = sample.codes[rows], RowBlock(sample.X, rows)
        positions, counts = subsamples.locate(hypotheses, rows)
        inside = np.split(positions, np.cumsum(counts)[:-1])
        for i, hypothesis in enumerate(self.members):
            if inside[i].size == rows.size:
                continue
            if isinstance(hypothesis, Constant) and hypothesis.failed:
                totals[i] = rows.size - inside[i].size
                continue
            response: Any = None if loss.on_probabilities else block.predict_by_tree(hypothesis, self.classes)
            if response is None and inside[i].size <= _FEW_TRAINING_ROWS * rows.size:
                # To predict a few rows for nothing takes less time than to copy all others.
                response = respond(hypothesis, block.points)
            if response is not None:
                totals[i] = loss.total_outside(codes, response, inside[i], len(sample))
            else:
                outside = np.delete(np.arange(rows.size), inside[i])
                response = respond(hypothesis, take_rows(sample.X, rows[outside]))
                totals[i] = loss.total(codes[outside], response, len(sample))
        return totals

    def describe(self, h: int) -> str:
        hypothesis = self.members[h]
        if isinstance(hypothesis, Constant):
            if hypothesis.failed:
                return "could not be trained: its loss counts as 1"
            return f"constant: always {hypothesis.label}"
        return " ".join(repr(hypothesis).split())

    def fingerprint(self) -> Any:
        return ["hypotheses", self.classes, self.members]
