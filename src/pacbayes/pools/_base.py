"""The protocol of a hypothesis space: a pool of settings, and the hypotheses that it trains."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from pacbayes._compat import take_rows
from pacbayes._losses import ZERO_ONE, Loss
from pacbayes._settings import Constraint, validate_settings
from pacbayes._validation import Array
from pacbayes.exceptions import HypothesisError
from pacbayes.pools._device import DeviceRows, free_bytes, is_on_device
from pacbayes.pools._trees import RowBlock
from pacbayes.rows import CodeBook, learn_code_book
from pacbayes.sampling import LEARNER, ChosenSubsamples, SamplingPlan, Subsamples, default_sampling, stream
from pacbayes.votes import tally

Codes = NDArray[np.intp]

# How hypotheses vote.
VoteBy = Literal["labels", "probabilities"]

# What rounding may do to a probability on another machine, or in a block of other rows; and to one that a learner
# computes in single precision.
ROUNDED_SHARE, ROUNDED_SINGLE = 2.0**-40, 2.0**-13

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


@dataclass(frozen=True, eq=False)
class Sample:
    """Labelled rows that hypotheses are trained and validated on."""

    X: Any  # features: an array, sparse matrix or data frame with n rows
    codes: Codes  # (n,): labels as positions in `classes`; or the target itself, where it is a number
    classes: NDArray[Any]  # all class labels, sorted; none where the target is a number
    code_book: CodeBook | None = None  # what columns of a table the features are, if they come from one
    weights: Array | None = None  # (n,): how much rows count in training, and nowhere else; None for all alike

    def __len__(self) -> int:
        return self.codes.size

    def take(self, rows: NDArray[Any]) -> Sample:
        """Return some of the rows, by their numbers."""
        weights = None if self.weights is None else self.weights[rows]
        taken = Sample(take_rows(self.X, rows), self.codes[rows], self.classes, self.code_book, weights)
        copy = _DEVICE_COPIES.get(self)
        if copy is not None:
            _DEVICE_COPIES[taken] = copy.take(rows)
        return taken

    def weights_of(self, rows: NDArray[Any]) -> dict[str, Any]:
        """Return the weights of some rows as an argument of learners, if there are weights."""
        return {} if self.weights is None else {"sample_weight": self.weights[rows]}

    def gather(self, rows: NDArray[np.intp]) -> Sample:
        """Return some of the rows in memory, wherever they are."""
        return self.take(rows)

    def keep_on_device(self, X: Any) -> Sample:
        """Return this sample. If X is on a device and the sample is a copy of it, it need not be copied back."""
        if is_on_device(X):
            rows = DeviceRows.of(X)
            if rows.values.dtype == self.X.dtype and rows.values.shape == self.X.shape:
                _DEVICE_COPIES[self] = rows
        return self

    @property
    def is_numeric(self) -> bool:
        """Whether the target is a number, rather than a class."""
        return self.classes.size == 0

    @property
    def n_columns(self) -> int:
        """Number of features, or of columns of the table that they come from."""
        return int(self.X.shape[1]) if self.code_book is None else len(self.code_book.names)

    @property
    def on_device(self) -> DeviceRows | None:
        """The rows in the memory of a CUDA device, None if they are too many; copied once in the life of the sample."""
        if self not in _DEVICE_COPIES:
            has_room = self.X.nbytes < free_bytes() // 3  # and as much for work on the rows
            _DEVICE_COPIES[self] = DeviceRows.of(self.X) if has_room else None
        return _DEVICE_COPIES[self]

    def __sizeof__(self) -> int:
        """Return the bytes of the rows: Dask, behind joblib, sends what is large to a worker once."""
        X = self.X.data if issparse(self.X) else self.X
        return sum(part.nbytes if isinstance(part, np.ndarray) else sys.getsizeof(part) for part in (X, self.codes))


# What is known of the copies of samples on a device, as long as the samples live: they themselves do not change.
_DEVICE_COPIES: WeakKeyDictionary[Sample, DeviceRows | None] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class ValidationBlock:
    """A block of rows on which hypotheses are validated, each without its training points."""

    sample: Sample  # all rows
    subsamples: Subsamples
    hypotheses: range  # which of the subsamples train the hypotheses
    rows: NDArray[np.intp]  # row numbers of the block, rising
    loss: Loss

    @property
    def codes(self) -> Codes:
        """Classes of the rows."""
        return self.sample.codes[self.rows]

    def locate(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the positions in the block of each hypothesis's training points, and how many they are."""
        return self.subsamples.locate(self.hypotheses, self.rows)

    def training_positions(self) -> list[NDArray[np.int32]]:
        """Return the positions in the block of the training points of each hypothesis."""
        positions, counts = self.locate()
        return np.split(positions, np.cumsum(counts)[:-1])

    def take(self, chosen: Codes) -> ValidationBlock:
        """Return the same block for some of the hypotheses."""
        own = ChosenSubsamples(self.subsamples, chosen + self.hypotheses.start)
        return replace(self, subsamples=own, hypotheses=range(chosen.size))


class Constant:
    """The hypothesis of a subsample that holds one target only, or of a learner that failed."""

    def __init__(self, label: Any, failed: bool = False) -> None:
        self.label = label  # what it predicts, everywhere
        self.failed = failed  # its loss then counts as 1 at every point

    def __repr__(self) -> str:
        return f"Constant({self.label!r}{', failed=True' if self.failed else ''})"

    def __str__(self) -> str:
        return "could not be trained: its loss counts as 1" if self.failed else f"constant: always {self.label}"

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label for every row."""
        return np.full(X.shape[0], self.label)


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel(ABC):
    """A trained model, one of several that are stored together: an element of their `Hypotheses`."""

    # (k,): those that its subsample holds; a model of one class is a constant. Of a model of numbers, the only one that
    # a constant predicts, and none otherwise.
    classes: NDArray[Any]
    failed: bool  # whether training failed; its loss then counts as 1 at every point
    _alone: Any  # hypotheses that are this one

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        is_constant = self.failed or self.classes.size == 1
        return str(Constant(self.classes[0], self.failed)) if is_constant else self._describe()

    @abstractmethod
    def _describe(self) -> str:
        """Return in a few words what it is, if it is no constant."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels, or numbers, of n points in an array-like of shape (n, d)."""
        votes = self._alone.votes(self._points(X))[0]
        return np.asarray(votes if self._alone.is_numeric else self._alone.classes[votes])

    def _points(self, X: Any) -> Any:
        return X if issparse(X) or self._alone.code_book is not None else np.asarray(X)


class Hypotheses(Sequence[Any], ABC):
    """Trained hypotheses, read as a sequence. Each of them predicts on its own: ``hypotheses[h].predict(X)``.

    Nothing is written to shared state, and totals of losses add up over blocks of rows, so that any worker can
    compute any part.
    """

    # All class labels, sorted. Votes are given as positions in it. Where it is empty, hypotheses predict numbers, and
    # these are their votes.
    classes: NDArray[Any]
    # How they vote: "probabilities" where some of them divide their weight among the classes by their probabilities,
    # instead of giving it to the class that they predict.
    vote_by: VoteBy = "labels"
    # Whether a prediction is known to depend on its row only, so that the hypotheses need not be probed.
    predict_by_row: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether they predict numbers, rather than classes."""
        return self.classes.size == 0

    def __sizeof__(self) -> int:
        """Return the bytes of all arrays: Dask, behind joblib, sends what is large to a worker once."""
        return object.__sizeof__(self) + sum(getattr(value, "nbytes", 0) for value in vars(self).values())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)}>"

    def __getitem__(self, h: Any) -> Any:
        if isinstance(h, slice):
            return self.take(np.arange(len(self))[h])
        return self.get_one(range(len(self))[h])

    @abstractmethod
    def get_one(self, h: int) -> Any:
        """Return hypothesis h, counted from 0."""

    @abstractmethod
    def votes_and_uncertain(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return `votes`, and which of them are uncertain: rounding could change them on another engine."""

    def votes(self, X: Any) -> NDArray[Any]:
        """Return the class codes, or numbers, that the hypotheses predict, one row of the result per hypothesis."""
        return self.votes_and_uncertain(X)[0]

    def responses(self, X: Any, loss: Loss) -> NDArray[Any]:
        """Return what a loss is about, one row of the result per hypothesis: votes, or probabilities of all classes."""
        return self.votes(X)

    def iter_probabilities(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield the probabilities of all classes that each gives to points, in its precision, if they vote by these."""
        raise NotImplementedError(f"{type(self).__name__} votes by labels")

    def by_labels(self) -> Hypotheses:
        """Return the same hypotheses, each of which gives all its weight to the class that it predicts."""
        voters: Any = self
        return self if self.vote_by == "labels" else replace(voters, vote_by="labels")

    def add_votes(self, X: Any, weights: Array, tallies: Array, uncertain_weight: Array | None = None) -> None:
        """Add the weight that they give to each class at each point to `tallies`, of shape (n, n_classes).

        Adds to `uncertain_weight`, of shape (n,), what could go to another class on another engine.
        """
        if self.vote_by == "probabilities":
            for weight, probabilities in zip(weights, self.iter_probabilities(X), strict=True):
                tallies += np.multiply(weight, probabilities, dtype=np.float64)
                if uncertain_weight is not None:
                    is_single = probabilities.dtype == np.float32
                    uncertain_weight += weight * (ROUNDED_SINGLE if is_single else ROUNDED_SHARE)
            return
        votes, uncertain = self.votes_and_uncertain(X)
        tallies[:] = tally(votes, weights, self.classes.size, tallies)
        if uncertain_weight is not None:
            uncertain_weight += weights @ uncertain

    @abstractmethod
    def start_loss_totals(self, block: ValidationBlock) -> Callable[[], Array]:
        """Compute the losses of a block, or let a device begin with them; return what gives `loss_totals`."""

    def loss_totals(
        self, sample: Sample, subsamples: Subsamples, hypotheses: range, rows: Numbers, loss: Loss
    ) -> Array:
        """Return the total validation loss of each hypothesis over a block of rows, without its training points.

        These are the range `hypotheses` of those that `subsamples` train; `rows` are row numbers of `sample`,
        rising. An uncertain vote has the largest loss, 1: totals bound the losses on every engine.
        """
        return self.start_loss_totals(ValidationBlock(sample, subsamples, hypotheses, np.asarray(rows), loss))()

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

    def describe(self, h: int) -> str:
        """Return in a few words what hypothesis h is, and what tells it apart from the others."""
        return " ".join(str(self[h]).split())

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

    # Whether hypotheses take rows of a table that a `CodeBook` has encoded.
    takes_code_books: ClassVar[bool] = False
    # Whether rows may count differently in training.
    takes_weights: ClassVar[bool] = False

    # What settings may be.
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {}

    on_error: Literal["raise", "drop"] = "raise"
    n_hypotheses: int | Literal["auto"] = "auto"
    subsample_size: Any = "auto"
    vote_by: VoteBy = "labels"

    # -- what only the pool knows --------------------------------------------------------------------

    @property
    def predicts(self) -> tuple[str, ...]:
        """What hypotheses can predict: "classes", "numbers" or both."""
        return ("classes",)

    def check_settings(self) -> None:
        """Raise ValueError naming a setting that no data could make right."""
        validate_settings(self, self._CONSTRAINTS)

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
        """Raise ValueError if these hypotheses cannot predict the classes, or numbers where there are none."""
        wanted = "classes" if classes.size else "numbers"
        if wanted not in self.predicts:
            raise ValueError(f"{type(self).__name__} predicts {' and '.join(self.predicts)}, not {wanted}")

    def find_obstacle(self, sample: Sample, loss: Loss) -> str | None:
        """Return in words why these hypotheses cannot be trained on a sample, or judged by a loss; None if they can."""
        if issparse(sample.X) and not get_tags(self).input_tags.sparse:
            return "it takes no sparse matrices"
        if sample.code_book is not None and not self.takes_code_books:
            return "it takes no tables with text, dates or gaps"
        try:
            self.usable(sample, loss)
        except (ValueError, HypothesisError) as error:
            return str(error)
        return None

    def describe_weights(self) -> str:
        """Return in words that no weights are taken."""
        return f"{type(self).__name__} takes no weights of rows; BoostingPool, ForestPool, LinearPool and RBFSVMPool do"

    def usable(self, sample: Sample, loss: Loss) -> Pool:
        """Return the pool to train on a sample: this one, or raise ValueError or HypothesisError if it cannot."""
        self.check_classes(sample.classes)
        self.check_loss(loss)
        if sample.weights is not None and not self.takes_weights:
            raise ValueError(f"sample_weight must be None: {self.describe_weights()}")
        return self

    def restrict(self, names: Collection[str]) -> Pool:
        """Return the pool of some of its families."""
        return self

    def members(self) -> list[tuple[str, Pool]]:
        """Return the families that the hypotheses are of, by name; itself without a name if it is of one family."""
        return [("", self)]

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
        book = learn_code_book(X) if self.takes_code_books else None
        if book is not None:
            self.check_tables()
        return book

    def check_tables(self) -> None:
        """Raise ValueError if tables with text, booleans, dates or gaps cannot be taken by these settings."""

    def check_points(self, X: Any) -> None:
        """Raise ValueError if these hypotheses cannot be trained on points, or predict them."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- training ------------------------------------------------------------------------------------

    def prepare(self, sample: Sample, entropy: int) -> tuple[Sample, Any]:
        """Return the rows that train and validate hypotheses, and what `train` is to be given as `shared`.

        Rows that are reserved for choices that all hypotheses share are left out.
        """
        return sample, None

    def computes_on_device(self, sample: Sample, subsamples: Subsamples) -> bool:
        """Return whether hypotheses are trained and validated on a device, which wants few and large parts of work."""
        return False

    def uses_device(self, sample: Sample, subsamples: Subsamples) -> bool:
        """Return whether a device does any of the work."""
        return self.computes_on_device(sample, subsamples)

    def default_sampling(self, n: int, d: int, *, tested: bool = True) -> tuple[list[int], int]:
        """Return the subsample sizes that hypotheses take in turn, and their number, for n rows of d columns.

        This is what "auto" stands for. Functions of n and d alone are chosen without looking at the data. Unless the
        vote is going to be `tested` on held-out rows, its bounds rest on the rows outside the subsamples.
        """
        return default_sampling(n, d)

    def sampling_in_union(self, n: int, d: int, *, tested: bool = True) -> tuple[list[int], int]:
        """Return what "auto" stands for where hypotheses are those of one of several families."""
        return self.default_sampling(n, d, tested=tested)

    def shares_subsamples(self, n: int) -> bool:
        """Return whether hypotheses have the subsamples of other families, where these do as well, in a vote of n rows.

        Losses of different families on the same validation points differ by less than those on different ones do.
        """
        return False

    def default_holdout(self, n: int, *, numeric: bool = False) -> Any:
        """Return what to hold out of n rows where that is "auto": a share for each vote, or a splitter."""
        return (0.5, 0.35)  # measured in benchmarks/RESULTS.md

    def draw_subsamples(self, plan: SamplingPlan, n: int, d: int) -> Subsamples:
        """Return the training sets of the hypotheses, of n rows of d columns. A plan comes before the pool's own."""
        default = self.sampling_in_union if plan.in_union else self.default_sampling
        return plan.fill(self.n_hypotheses, self.subsample_size).draw(n, d, default)

    def weigh_prior(self, subsamples: Subsamples, weights: Array | None) -> Array | None:
        """Return the prior of all hypotheses that is proportional to weights, or None if it is uniform."""
        return None if weights is None else weights / weights.sum()

    def train(
        self, sample: Sample, subsamples: Subsamples, hypotheses: Numbers, entropy: int, shared: Any
    ) -> Hypotheses:
        """Train some hypotheses, rising numbers, each on its own of all `subsamples` of the rows that `prepare` left.

        `entropy` is the seed of all streams, and `shared` what `prepare` computed.
        """
        members = [self._train(sample, subsamples[h], h, entropy) for h in hypotheses]
        trained = HypothesisList(members, sample.classes, self.vote_by)
        self.check_hypotheses(trained)
        return trained

    def start_training(self, *arguments: Any) -> Callable[[], Hypotheses]:
        """Let a device begin to train some hypotheses, given the arguments of `train`; return what does the rest."""
        return partial(self.train, *arguments)

    def kinds(self, subsamples: Subsamples, hypotheses: Numbers, entropy: int) -> NDArray[np.intp] | None:
        """Return the kind of some hypotheses, rising: their settings, as numbers that are known before training.

        Hypotheses of a kind that clearly lost on small subsamples need not be trained on larger ones. None if kinds are
        not known, so that all are trained.
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
            Their labels, of at least two classes; or numbers, not all equal.
        rng : Generator
            The hypothesis's own random stream, to be used for all that is random in training.

        Returns
        -------
        object
            A hypothesis, with a method ``predict(X)`` that returns labels, or numbers.
        """
        raise NotImplementedError(f"{type(self).__name__} must define train_one or train")

    def _train(self, sample: Sample, subsample: Codes, h: int, entropy: int) -> Any:
        """Train one hypothesis: a constant if its subsample holds one class, or number."""
        if sample.weights is not None and sample.weights[subsample].any():
            subsample = subsample[sample.weights[subsample] > 0]
        codes = sample.codes[subsample]
        if (codes == codes[0]).all():
            return self._constant(sample, codes[0].item())
        try:
            return self._train_on(sample, subsample, h, stream(entropy, h, LEARNER))
        except Exception as error:
            if self.on_error == "drop":
                return self._constant(sample, codes[0].item() if sample.is_numeric else 0, failed=True)
            raise HypothesisError(
                f"hypothesis {h} could not be trained on its {subsample.size} points (seed {entropy}): "
                f"{type(error).__name__}: {error}. on_error='drop' would count its loss as 1."
            ) from error

    def _constant(self, sample: Sample, code: Any, *, failed: bool = False) -> Any:
        """Return the hypothesis that always predicts one class, by its code, or number."""
        return Constant(float(code) if sample.is_numeric else sample.classes[int(code)], failed)

    def _train_on(self, sample: Sample, subsample: Codes, h: int, rng: np.random.Generator) -> Any:
        """Train hypothesis h on rows of several classes, or different numbers."""
        codes = sample.codes[subsample]
        y = codes if sample.is_numeric else sample.classes[codes]
        return self.train_one(take_rows(sample.X, subsample), y, rng, **sample.weights_of(subsample))


# Share of the rows of a block that a hypothesis may have been trained on and predict all the same.
_FEW_TRAINING_ROWS = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class HypothesisList(Hypotheses):
    """Hypotheses that are Python objects, each with a method `predict` that returns labels, or numbers."""

    members: list[Any]
    classes: NDArray[Any]
    vote_by: VoteBy = "labels"

    def __len__(self) -> int:
        return len(self.members)

    def get_one(self, h: int) -> Any:
        return self.members[h]

    def take(self, chosen: Codes) -> HypothesisList:
        return replace(self, members=[self.members[h] for h in chosen])

    @classmethod
    def concatenate(cls, parts: Sequence[HypothesisList]) -> HypothesisList:
        return cls([member for part in parts for member in part], parts[0].classes, parts[0].vote_by)

    def iter_probabilities(self, X: Any) -> Iterator[NDArray[Any]]:
        return (predict_probabilities(hypothesis, X, self.classes) for hypothesis in self.members)

    def votes_and_uncertain(self, X: Any) -> tuple[Codes, NDArray[np.bool_]]:
        votes = self.responses(X, ZERO_ONE)  # a loss of labels
        return votes, np.zeros(votes.shape, dtype=bool)

    def responses(self, X: Any, loss: Loss) -> NDArray[Any]:
        block = RowBlock(X)
        return np.stack([self._respond(hypothesis, block, loss) for hypothesis in self.members])

    def _respond(self, hypothesis: Any, block: RowBlock, loss: Loss) -> NDArray[Any]:
        """Return what a loss is about, of one hypothesis: its votes, or probabilities of all classes."""
        if self.is_numeric:
            return predict_numbers(hypothesis, block.points)
        if loss.on_probabilities:
            return predict_probabilities(hypothesis, block.points, self.classes).astype(np.float64, copy=False)
        codes = block.predict_by_tree(hypothesis, self.classes)
        return predict_codes(hypothesis, block.points, self.classes) if codes is None else codes

    def start_loss_totals(self, block: ValidationBlock) -> Callable[[], Array]:
        sample, rows, loss, codes = block.sample, block.rows, block.loss, block.codes
        totals, whole = np.zeros(len(self)), RowBlock(sample.X, rows)
        for i, (hypothesis, inside) in enumerate(zip(self.members, block.training_positions(), strict=True)):
            if inside.size == rows.size:
                continue
            if isinstance(hypothesis, Constant) and hypothesis.failed:
                totals[i] = rows.size - inside.size
                continue
            is_read = not (loss.on_probabilities or self.is_numeric) and whole.is_read_by(hypothesis)
            if is_read or inside.size <= _FEW_TRAINING_ROWS * rows.size:
                # To predict a few rows for nothing takes less time than to copy all others.
                totals[i] = loss.total_outside(codes, self._respond(hypothesis, whole, loss), inside, len(sample))
            else:
                outside = np.delete(np.arange(rows.size), inside)
                response = self._respond(hypothesis, RowBlock(sample.X, rows[outside]), loss)
                totals[i] = loss.total(codes[outside], response, len(sample))
        return lambda: totals

    def fingerprint(self) -> Any:
        return ["hypotheses", self.classes, self.members, *([] if self.vote_by == "labels" else [self.vote_by])]


def _ask(method: Callable[[Any], Any], X: Any) -> Any:
    """Call a method with rows that it cannot overwrite: they are the caller's, or those of the next hypothesis."""
    try:
        return method(protect(X))
    except ValueError as error:
        # Some learners write to the rows they are given, or take no others than they could write to.
        if not (isinstance(X, np.ndarray) and "read-only" in str(error)):
            raise
        return method(X.copy())


def _predict_each(hypothesis: Any, X: Any, what: Literal["label", "number"]) -> NDArray[Any]:
    """Return what a hypothesis predicts, or raise HypothesisError if it is not one label, or number, per row."""
    given, n = np.asarray(_ask(hypothesis.predict, X)), X.shape[0]
    if given.shape == (n, 1):  # CatBoost's, of more than two classes, and those of learners for several targets
        given = given[:, 0]
    if given.shape != (n,) or (what == "number" and given.dtype.kind not in "biuf"):
        raise HypothesisError(
            f"{type(hypothesis).__name__}.predict must return one {what} per row, {n} of them, got shape {given.shape} "
            f"of {given.dtype}"
        )
    return given


def predict_codes(hypothesis: Any, X: Any, classes: NDArray[Any]) -> Codes:
    """Return the class codes that a hypothesis predicts, or raise HypothesisError if a label is unknown."""
    return _encode(_predict_each(hypothesis, X, "label"), classes, type(hypothesis).__name__)


def predict_numbers(hypothesis: Any, X: Any) -> Array:
    """Return the numbers that a hypothesis predicts, or raise HypothesisError if they are none, or not finite."""
    numbers = _predict_each(hypothesis, X, "number").astype(np.float64)
    if not np.isfinite(numbers).all():
        name, wrong = type(hypothesis).__name__, numbers[~np.isfinite(numbers)][0]
        raise HypothesisError(f"{name}.predict must return finite numbers, got {wrong}")
    return numbers


def _encode(labels: NDArray[Any], classes: NDArray[Any], name: str) -> Codes:
    """Return the positions of labels in all classes, or raise HypothesisError if one is unknown."""
    codes = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
    unknown = classes[codes] != labels
    if unknown.any():
        raise HypothesisError(f"{name} predicts {labels[unknown].tolist()[0]!r}, which is none of the classes")
    return np.asarray(codes, dtype=np.intp)


def predict_probabilities(hypothesis: Any, X: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return a hypothesis's probabilities of all classes, in its precision, or raise HypothesisError if it has none."""
    probabilities, name = np.zeros((X.shape[0], classes.size)), type(hypothesis).__name__
    if isinstance(hypothesis, Constant):
        probabilities[:, np.searchsorted(classes, hypothesis.label)] = 1.0
        return probabilities
    if not hasattr(hypothesis, "predict_proba"):
        raise HypothesisError(f"a loss of probabilities needs a base learner with predict_proba, {name} has none")
    known = np.asarray(hypothesis.classes_)
    answered = np.asarray(_ask(hypothesis.predict_proba, X))
    given = answered.astype(np.float64)
    sums_to_one = given.shape == (X.shape[0], known.size) and np.all(np.abs(given.sum(axis=1) - 1) <= 1e-6)
    if not sums_to_one or (given < 0).any() or np.unique(known).size < known.size:
        raise HypothesisError(
            f"{name}.predict_proba must return probabilities of its {known.size} classes that sum to one for every "
            f"row, got shape {given.shape}"
        )
    probabilities[:, _encode(known, classes, name)] = given
    return probabilities.astype(np.float32) if answered.dtype in (np.float32, np.float16) else probabilities
