"""Hypotheses that give every class a score, or predict a number: many in a few arrays, which files keep as they are.

A label is that of the largest score, which is a sum in one order: it is the same on every machine. So is a number,
which is the only score itself. Probabilities need exponentials, which machines round differently: a vote by them is in
doubt by as much.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from pacbayes._losses import Loss
from pacbayes._validation import Array
from pacbayes.pools import _scores
from pacbayes.pools._base import Codes, Hypotheses, TrainedModel, ValidationBlock, VoteBy
from pacbayes.pools._layout import contiguous, count_outputs, segments, starts
from pacbayes.rows import CodeBook, is_table

_INTEGERS = (np.int8, np.int16, np.int32, np.int64)

# Types of arrays without entries by their kind, if they are no float64.
_DTYPES = {"bool": np.bool_, "int": np.int64, "uint64": np.uint64}

_Arrays = TypeVar("_Arrays", bound="ModelArrays")
_Models = TypeVar("_Models", bound="ScoreModels")


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the smallest type that holds them: what is equal has the same type."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    smallest = next(kind for kind in _INTEGERS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(smallest, copy=False)


class Parts(NamedTuple):
    """What an array of `ModelArrays` holds: the parts of one model after another, as many as each has of a sort."""

    sort: str
    kind: str  # of its entries, and what they may be, as model files are checked (`pacbayes.io`)
    shape: tuple[int, ...] = ()  # of a part

    def empty(self) -> NDArray[Any]:
        """Return an array of no parts."""
        return np.empty((0, *self.shape), dtype=_DTYPES.get(self.kind.split()[0]))


@dataclass(frozen=True, eq=False)
class ModelArrays(ABC):
    """Models, in arrays that hold the parts of one after another. Of the sort "models", each has one part."""

    sizes: NDArray[np.int64]  # (m, sorts): how many parts each model has, of each other sort
    # Which of them stand in for a learner that failed: their loss is 1.
    failed: Annotated[NDArray[np.bool_], Parts("models", "bool")]
    # The classes that each knows, as positions in all of them, rising. A model of one class is a constant. Models of
    # numbers know none, and a constant has an output and no other parts.
    class_codes: Annotated[NDArray[Any], Parts("classes", "int >=0")]

    _BEGINNING: ClassVar[str]  # the array of what outputs begin with
    _ADDED: ClassVar[tuple[str, ...]]  # those of what is added to them

    @classmethod
    def of_one(cls: type[_Arrays], class_codes: Any, *, failed: bool, kept: dict[str, Any], **entries: Any) -> _Arrays:
        """Return one model, with arrays by name, which are empty where they are not given, and entries of its own."""
        arrays = {name: parts.empty() for name, parts in _declared(cls).items()}
        arrays |= {name: np.array([entry]) for name, entry in {"failed": failed, **entries}.items()}
        arrays |= {"class_codes": np.asarray(class_codes), **kept}
        counts = {parts.sort: arrays[name].shape[0] for name, parts in _declared(cls).items()}
        sizes = np.array([[counts[sort] for sort in _sorts(cls)]], dtype=np.int64)
        return cls(sizes=sizes, **arrays).narrowed()

    @classmethod
    def attributes(cls) -> dict[str, Any]:
        """Return kinds and shapes of the arrays, by which a model file is checked (`pacbayes.io`)."""
        axes = {name: [parts.sort, *map(str, parts.shape)] for name, parts in _declared(cls).items()}
        kinds = {name: f"{parts.kind}: {' '.join(axes[name])}" for name, parts in _declared(cls).items()}
        return {"sizes": "int64 >=0: models sorts", **kinds}

    def __len__(self) -> int:
        return self.failed.size

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(getattr(value, "nbytes", 0) for value in vars(self).values())

    def size(self, sort: str) -> NDArray[np.int64]:
        """Return how many parts of a sort each model has."""
        if sort == "models":
            return np.ones(len(self), dtype=np.int64)
        return np.asarray(self.sizes[:, _sorts(type(self)).index(sort)])

    def part(self, name: str, j: int) -> NDArray[Any]:
        """Return the parts of one model in an array."""
        counts = self.size(_declared(type(self))[name].sort)
        begin = int(counts[:j].sum())
        return np.asarray(getattr(self, name)[begin : begin + int(counts[j])])

    def take(self: _Arrays, chosen: Codes) -> _Arrays:
        """Return some of the models, in the order given."""
        taken: dict[str, Any] = {"sizes": self.sizes[chosen]}
        for name, parts in _declared(type(self)).items():
            counts = self.size(parts.sort)
            taken[name] = getattr(self, name)[segments(starts(counts)[:-1][chosen], counts[chosen])]
        return replace(self, **taken).narrowed()

    def concatenate(self: _Arrays, parts: Sequence[_Arrays]) -> _Arrays:
        """Return the models of several of these as one."""
        names = ("sizes", *_declared(type(self)))
        joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return replace(self, **joined).narrowed()

    def narrowed(self: _Arrays) -> _Arrays:
        """Return the same models with whole numbers in the smallest types."""
        whole = {name: getattr(self, name) for name in _declared(type(self))}
        return replace(self, **{name: narrow(value) for name, value in whole.items() if value.dtype.kind == "i"})

    def arrays(self) -> dict[str, Any]:
        """Return all attributes by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def check(self, n_classes: int, n_columns: int) -> None:
        """Raise ValueError if arrays, as a file may hold, do not fit together, or rows of so many columns."""
        shape = (len(self), len(_sorts(type(self))))
        if self.sizes.shape != shape or (self.sizes < 0).any():
            raise ValueError(f"sizes must be counts of shape {shape}")
        for name, parts in _declared(type(self)).items():
            length, sizes = getattr(self, name).shape[0], self.size(parts.sort)
            if (sizes > length).any() or length != sizes.sum():  # of larger ones, the sum may overflow
                raise ValueError(f"{name} must hold the parts of {len(self)} models")
        known = self.size("classes")
        if ((known == 0) != (n_classes == 0)).any() or not np.array_equal(self.size("outputs"), count_outputs(known)):
            raise ValueError("models must have an output for each class, or one for two, or for numbers")
        rises = np.diff(self.class_codes.astype(np.int64), prepend=-1) > 0
        rises[starts(known)[:-1][known > 0]] = True
        if not rises.all() or (self.class_codes < 0).any() or (self.class_codes >= n_classes).any():
            raise ValueError("class_codes must be positions in all classes, rising")
        row = self.convert(np.zeros((1, n_columns)))
        for j in range(len(self)):
            if not self.is_constant(j):
                self.scores(j, row)  # all that compiled code follows is checked there

    def is_constant(self, j: int) -> bool:
        """Return whether a model predicts the same everywhere."""
        known = int(self.size("classes")[j])
        return known == 1 or (known == 0 and int(self.sizes[j].sum()) == 1)

    def constant(self, j: int) -> float:
        """Return the number that a constant predicts."""
        return float(self.part(self._BEGINNING, j)[0])

    def rescaled(self: _Arrays, center: float, scale: float) -> _Arrays:
        """Return models of numbers whose predictions are multiplied by a scale and moved by a center."""
        with np.errstate(over="ignore"):
            changed = {name: getattr(self, name) * scale for name in self._ADDED}
            changed[self._BEGINNING] = getattr(self, self._BEGINNING) * scale + center
            if not np.isfinite([np.abs(values).sum() for values in changed.values()]).all():
                raise ValueError(f"targets must be smaller, of a deviation of {scale:g}: predictions overflow")
        return replace(self, **changed)

    def convert(self, X: Any) -> NDArray[Any]:
        """Return rows as all these models read them."""
        return contiguous(X)

    @abstractmethod
    def scores(self, j: int, X: NDArray[Any]) -> Array:
        """Return the scores of one model that is no constant at converted rows, a column for each output."""

    def to_probabilities(self, j: int, scores: Array) -> Array:
        """Return the probabilities that scores stand for, and may take their place: those of log-odds."""
        _scores.probabilities(scores)
        return scores

    @abstractmethod
    def describe(self, j: int) -> str:
        """Return in a few words what a model is."""


@cache
def _declared(kind: type[ModelArrays]) -> dict[str, Parts]:
    """Return what the arrays of a class hold, by name."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}


@cache
def _sorts(kind: type[ModelArrays]) -> list[str]:
    """Return the sorts of parts that models of a class may have different numbers of."""
    return [sort for sort in dict.fromkeys(parts.sort for parts in _declared(kind).values()) if sort != "models"]


class NumberModel(TrainedModel):
    """A trained model that predicts a number. An element of `ScoreModels`."""

    def _describe(self) -> str:
        return str(self._alone.models.describe(int(self._alone.chosen[0])))


class ScoreModel(NumberModel):
    """A trained model that gives every class a score. An element of `ScoreModels`."""

    @property
    def classes_(self) -> NDArray[Any]:
        """All class labels, sorted: those of the columns of `predict_proba`."""
        return np.asarray(self._alone.classes)

    def predict_proba(self, X: Any) -> Array:
        """Predict probabilities of all classes, those of `classes_`, of n points in an array-like of shape (n, d)."""
        return np.asarray(self._alone.probabilities_of(0, self._alone.convert(self._points(X))))


@dataclass(frozen=True, eq=False, repr=False)
class ScoreModels(Hypotheses):
    """Trained models that give every class a score, or predict a number: a sequence, stored as a few arrays."""

    classes: NDArray[Any]
    models: Any  # `ModelArrays`
    chosen: Codes  # which of the models the hypotheses are, in their order
    code_book: CodeBook | None = None  # what columns of a table the features are
    vote_by: VoteBy = "probabilities"

    predict_by_row = True

    def __len__(self) -> int:
        return self.chosen.size

    def __sizeof__(self) -> int:
        return super().__sizeof__() + int(self.models.__sizeof__())

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self.compact()))

    def compact(self: _Models) -> _Models:
        """Return the same hypotheses without models that are none of them."""
        everyone = np.arange(len(self.models))
        if np.array_equal(self.chosen, everyone):
            return self
        return replace(self, models=self.models.take(self.chosen), chosen=np.arange(len(self)))

    def get_one(self, h: int) -> NumberModel:
        alone = self.take(np.array([h]))
        j = int(self.chosen[h])
        failed = bool(self.models.failed[j])
        if self.is_numeric:
            constant = [self.models.constant(j)] if self.models.is_constant(j) else []
            return NumberModel(np.array(constant, dtype=np.float64), failed, alone)
        return ScoreModel(self.classes[self.models.part("class_codes", j)], failed, alone)

    def take(self: _Models, chosen: Codes) -> _Models:
        return replace(self, chosen=self.chosen[chosen])

    @classmethod
    def concatenate(cls, parts: Sequence[Any]) -> Any:
        models = [part.compact().models for part in parts]
        together = models[0].concatenate(models)
        return replace(parts[0], models=together, chosen=np.arange(len(together)))

    def keep_training_points(self, sample: Any) -> ScoreModels:
        return self.compact()

    def assumptions(self) -> list[str]:
        return [] if self.code_book is None else ["table-columns-known"]

    def fingerprint(self) -> Any:
        about = [type(self).__name__, self.classes, self.code_book, self.vote_by == "probabilities"]
        return [*about, self.compact().models.arrays()]

    def convert(self, X: Any) -> Any:
        """Return rows, of a table or of its features, as the models read them."""
        if self.code_book is not None and is_table(X):
            X = self.code_book.encode(X)
        return self.models.convert(X)

    def _votes_of(self, h: int, X: Any) -> NDArray[Any]:
        """Return the class codes, or numbers, that hypothesis h predicts at converted rows."""
        j = int(self.chosen[h])
        if self.is_numeric:
            if self.models.is_constant(j):
                return np.full(X.shape[0], self.models.constant(j))
            return np.asarray(self.models.scores(j, X)[:, 0])
        known: Codes = self.models.part("class_codes", j).astype(np.intp)
        if known.size == 1:
            return np.full(X.shape[0], known[0])
        scores = self.models.scores(j, X)
        # Of equal scores, the first.
        best = (scores[:, 0] > 0).astype(np.intp) if known.size == 2 else np.argmax(scores, axis=1)
        return np.asarray(known[best])

    def probabilities_of(self, h: int, X: Any) -> Array:
        """Return the probabilities of all classes by hypothesis h at converted rows."""
        j = int(self.chosen[h])
        known = self.models.part("class_codes", j).astype(np.intp)
        result = np.zeros((X.shape[0], self.classes.size))
        if known.size == 1:
            result[:, known] = 1.0
            return result
        given = self.models.to_probabilities(j, self.models.scores(j, X))
        result[:, known] = np.column_stack((1 - given, given)) if known.size == 2 else given
        return result

    def votes_and_uncertain(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        X = self.convert(X)
        votes = np.empty((len(self), X.shape[0]), dtype=np.float64 if self.is_numeric else np.intp)
        for h in range(len(self)):
            votes[h] = self._votes_of(h, X)
        return votes, np.zeros(votes.shape, dtype=bool)

    def iter_probabilities(self, X: Any) -> Iterator[Array]:
        X = self.convert(X)
        return (self.probabilities_of(h, X) for h in range(len(self)))

    def responses(self, X: Any, loss: Loss) -> NDArray[Any]:
        if not loss.on_probabilities:
            return self.votes(X)
        return np.stack(list(self.iter_probabilities(X)))

    def start_loss_totals(self, block: ValidationBlock) -> Callable[[], Array]:
        rows, codes, loss, n = block.rows, block.codes, block.loss, len(block.sample)
        totals = np.zeros(len(self))
        respond = self.probabilities_of if loss.on_probabilities else self._votes_of
        for h, inside in enumerate(block.training_positions()):
            if self.models.failed[self.chosen[h]]:
                totals[h] = rows.size - inside.size
            elif inside.size < rows.size:
                outside = np.delete(np.arange(rows.size), inside)
                response = respond(h, self.models.convert(block.sample.X[rows[outside]]))
                totals[h] = loss.total(codes[outside], response, n)
        return lambda: totals
