"""Hypothesis spaces of boosted trees, forests and linear models, on arrays and on tables with text and gaps.

They predict classes, or numbers. Each hypothesis is trained by one thread on its subsample, which also determines how
its categories are encoded and its targets standardised, and is kept as plain arrays; threads go over hypotheses.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbayes._settings import (
    SAMPLING,
    Choice,
    Constraint,
    Number,
    Several,
    Whole,
    is_auto,
    is_flag,
    is_several,
    validate_settings,
)
from pacbayes._validation import Array
from pacbayes.pools._base import Codes, Hypotheses, Numbers, Pool, Sample, VoteBy
from pacbayes.pools._layout import check_magnitude, contiguous
from pacbayes.pools._linear_models import LinearArrays, LinearEncoding, LinearModels
from pacbayes.pools._score_models import ScoreModels
from pacbayes.pools._table_encoding import TableEncoding, Targets
from pacbayes.pools._tree_ensembles import TreeArrays, TreeEnsembles, to_single
from pacbayes.rows import CodeBook
from pacbayes.sampling import Subsamples

# Categories of a column that boosted trees split by sets of them.
_MOST_IN_SETS = 30

# Share of the rows that hypotheses are trained on, and how many are left outside at most, or which share of many rows:
# more would train fewer, and put all weight on one family where several vote better. By fewer, families can hardly be
# told apart. Where the vote is not tested, its bounds rest on the rows outside.
_SHARE_TRAINED, _MOST_OUTSIDE, _SHARE_OUTSIDE, _SHARE_UNTESTED = 0.9, 350, 0.05, 0.5
# From how many rows on the settings are those of large samples.
_MANY_ROWS = 5000

# What settings may be.
_POSITIVE = Number(0, np.inf)
_SHARE = Constraint("in (0, 1]", lambda value: _POSITIVE.allows(value) and value <= 1)
_NOT_NEGATIVE = Constraint("a number, at least 0", lambda value: Number(-1, np.inf).allows(value) and value >= 0)
_ROOT_OR_SHARE = Constraint(
    "'sqrt', or in (0, 1]", lambda value: value == "sqrt" if isinstance(value, str) else _SHARE.allows(value)
)
_LEAVES_OR_NONE = Constraint(
    "None, or a whole number, at least 2", lambda value: value is None or Whole(2).allows(value)
)


class Setting(NamedTuple):
    """What hypotheses take in turn: a function of the number of rows alone by default, measured on many datasets."""

    each: Constraint
    few: Any  # what "auto" stands for, one value or several, for few rows
    many: Any

    @property
    def constraint(self) -> Constraint:
        """What the user may give: one value, several or "auto"."""
        given = Several(self.each)
        return Constraint(f"'auto', or {given}", lambda value: is_auto(value) or given.allows(value))

    def choose(self, value: Any, n: int) -> Any:
        """Return the values that hypotheses take in turn, in a vote of n rows."""
        if is_auto(value):
            value = self.many if n >= _MANY_ROWS else self.few
        return value if is_several(value) else [value]


class Subsample(NamedTuple):
    """Points that a model is trained on."""

    X: NDArray[Any]
    targets: Targets  # their classes, numbered from 0; or numbers, of mean 0 and variance 1
    class_codes: Codes  # which of all classes these are; none of numbers
    book: CodeBook | None
    weights: NDArray[np.float64] | None = None


class LearnerPool(Pool):
    """What pools have in common whose hypotheses take settings in turn, and are models kept as plain arrays."""

    shares_rows = True
    takes_code_books = True
    takes_weights = True

    class_weight: Literal["balanced"] | None

    _MODELS: ClassVar[type[ScoreModels]]  # what its hypotheses are
    _SETTINGS: ClassVar[dict[str, Setting]]
    _N_HYPOTHESES: ClassVar[tuple[int, int]] = (2, 2)  # for few rows and for many

    # -- what only the pool knows --------------------------------------------------------------------

    @property
    def predicts(self) -> tuple[str, ...]:
        return ("classes", "numbers")

    def check_classes(self, classes: NDArray[Any]) -> None:
        super().check_classes(classes)
        if classes.size == 0 and self.class_weight is not None:
            raise ValueError(f"class_weight must be None where numbers are predicted, got {self.class_weight!r}")

    def check_settings(self) -> None:
        constraints = {name: setting.constraint for name, setting in self._SETTINGS.items()}
        fixed = {"on_error": Choice("raise", "drop"), "class_weight": Choice(None, "balanced")}
        validate_settings(self, {**SAMPLING, **fixed, **constraints})

    def _lists(self, n: int) -> dict[str, Any]:
        """Return the values of each setting that hypotheses take in turn, in a vote of n rows."""
        return {name: setting.choose(getattr(self, name), n) for name, setting in self._SETTINGS.items()}

    def assumptions(self) -> list[str]:
        return ["learned-from-subsample"]

    def validation_kwargs(self, X: Any) -> dict[str, Any]:
        return {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}

    def check_points(self, X: Any) -> None:
        check_magnitude(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.allow_nan = False, True
        return tags

    # -- training ------------------------------------------------------------------------------------

    def default_sampling(self, n: int, d: int, *, tested: bool = True) -> tuple[list[int], int]:
        """Return sizes of subsamples, which hypotheses take in turn, and how many hypotheses there are."""
        most_outside = max(_MOST_OUTSIDE, int(_SHARE_OUTSIDE * n))
        size = max(int(_SHARE_TRAINED * n), n - most_outside) if tested else int(_SHARE_UNTESTED * n)
        return [max(1, size)], self._N_HYPOTHESES[n >= _MANY_ROWS]

    def shares_subsamples(self, n: int) -> bool:
        return is_auto(self.subsample_size) and n >= _MANY_ROWS

    def kinds(self, subsamples: Subsamples, hypotheses: Numbers, entropy: int) -> NDArray[np.intp]:
        """Return which settings each hypothesis has, chosen without looking at the sample."""
        lengths = [len(values) for values in self._lists(subsamples.n).values()]
        return np.asarray(np.asarray(hypotheses, dtype=np.intp) % np.lcm.reduce(lengths))

    def train(
        self, sample: Sample, subsamples: Subsamples, hypotheses: Numbers, entropy: int, shared: Any
    ) -> Hypotheses:
        models = [self._train(sample, subsamples[h], h, entropy) for h in map(int, hypotheses)]
        together = models[0].concatenate(models)
        vote_by: VoteBy = "labels" if sample.is_numeric else "probabilities"
        return self._MODELS(sample.classes, together, np.arange(len(together)), sample.code_book, vote_by)

    def _train_on(self, sample: Sample, subsample: Codes, h: int, rng: np.random.Generator) -> Any:
        X, codes, book = contiguous(sample.X[subsample]), sample.codes[subsample], sample.code_book
        weights = None if sample.weights is None else sample.weights[subsample]
        settings = {name: values[h % len(values)] for name, values in self._lists(len(sample)).items()}
        if sample.is_numeric:
            center, scale, targets = _standardise(codes.astype(np.float64))
            model = self._fit(Subsample(X, targets, np.empty(0, dtype=np.intp), book, weights), settings, rng)
            return model.rescaled(center, scale)
        # Codes of a source are bytes.
        class_codes, own = np.unique(codes.astype(np.intp), return_inverse=True)
        return self._fit(Subsample(X, own, class_codes, book, weights), settings, rng)

    def _constant(self, sample: Sample, code: Any, *, failed: bool = False) -> Any:
        model = self._make_constant(np.empty(0) if sample.is_numeric else np.array([code]), sample.X.shape[1], failed)
        return model.rescaled(float(code), 1.0) if sample.is_numeric else model

    def _rows_to_train_on(self, own: Subsample, rng: np.random.Generator) -> Codes | slice:
        """Return the points of a subsample to train on, after they are encoded: some repeated, if they weigh more.

        What a repeated point is encoded by would hold its own label otherwise.
        """
        codes: Any = own.targets if own.class_codes.size else np.zeros(own.targets.size, dtype=np.intp)
        weights = own.weights
        if weights is not None and weights.min() < weights.max():
            if self.class_weight is not None:
                weights = weights / np.bincount(codes, weights)[codes]
            return repeat_by_weight(weights, codes, rng)
        if self.class_weight is None:
            return slice(None)
        counts = np.bincount(codes)
        parts = [np.arange(codes.size)]
        for code, count in enumerate(counts):
            points = np.flatnonzero(codes == code)
            times, rest = divmod(int(counts.max() - count), int(count))
            parts += [np.tile(points, times), np.sort(rng.choice(points, rest, replace=False))]
        return np.concatenate(parts)

    @abstractmethod
    def _fit(self, own: Subsample, settings: dict[str, Any], rng: np.random.Generator) -> Any:
        """Return a model of points of several classes, or different numbers."""

    @abstractmethod
    def _make_constant(self, class_codes: NDArray[Any], d: int, failed: bool) -> Any:
        """Return the model that always predicts one class, or the number 0 if there is none, of rows of d columns."""


def _standardise(targets: Array) -> tuple[float, float, Array]:
    """Return the mean and the deviation of numbers that are not all equal, and the numbers without them."""
    largest = np.abs(targets).max()
    shares = targets / largest  # squares of the numbers themselves may overflow
    mean = shares.mean()
    deviation = np.sqrt(((shares - mean) ** 2).mean())
    return float(mean * largest), float(deviation * largest), (shares - mean) / deviation


def repeat_by_weight(weights: NDArray[np.float64], codes: Codes, rng: np.random.Generator) -> Codes:
    """Return numbers of points, each repeated in proportion to its weight, rounded up or down at random.

    Whole weights are how often points come, if that makes no more than four times as many points; others make twice as
    many. Each class has a point at least.
    """
    n, total = weights.size, float(weights.sum())
    if total <= 4 * n and (weights == np.floor(weights)).all():
        return np.repeat(np.arange(n), weights.astype(np.intp))
    # Systematic sampling: the number of points is fixed, and each comes as often as it should but for less than one.
    ends = np.floor(np.cumsum(weights) / total * 2 * n + rng.random())
    counts = np.diff(ends, prepend=0.0).astype(np.intp)
    for code in np.flatnonzero(np.bincount(codes, counts) == 0):
        own = np.flatnonzero(codes == code)
        counts[own[np.argmax(weights[own])]] = 1
    return np.repeat(np.arange(n), counts)


class BoostingPool(LearnerPool):
    """Boosted trees on large subsamples, of two kinds: symmetric ones, or those of HistGradientBoostingClassifier.

    Every setting is a value, or several that hypotheses take in turn: the first one the first value of each, and so on.
    "auto" stands for what was found best on many datasets, for fewer than 5000 rows and for more.

    Parameters
    ----------
    kind : {"symmetric", "leafwise"}, "auto" or sequence of these, default="auto"
        Symmetric trees, those of CatBoost, divide all leaves of a level by the same split, chosen by what all of them
        gain: they find interactions of features that no split of one leaf shows. Leafwise ones, those of
        HistGradientBoostingClassifier and HistGradientBoostingRegressor, divide the leaf that gains most. Symmetric by
        default, leafwise for many rows.
    learning_rate : float, "auto" or sequence of float, default="auto"
        What leaves are multiplied by: 0.15 by default, 0.1 for many rows.
    max_iter : int, "auto" or sequence of int, default="auto"
        Number of rounds, each of one tree, or one for each of several classes: 80 by default, 200 for many rows.
    max_leaf_nodes : int, "auto" or sequence of int, default="auto"
        Leaves of a tree, at most, and twice as many as on the level before in symmetric trees: 64 by default, 31 for
        many rows.
    min_samples_leaf : int, "auto" or sequence of int, default="auto"
        Points in a leaf, at least: 3 by default, 5 for many rows.
    max_features : float, "auto" or sequence of float, default="auto"
        Share of the features that a split is chosen from, drawn anew for each: all by default.
    max_samples : float, "auto" or sequence of float, default="auto"
        Share of the points that the trees of a round are grown on, drawn anew for each. Values of leaves are those of
        all points. 0.8 by default, 1 for many rows.
    random_strength : float, "auto" or sequence of float, default="auto"
        How random gains are by which the feature of a split is chosen, as in CatBoost: in units of what they would be
        by chance. 1 by default, 0 for many rows.
    l2_regularization : float, "auto" or sequence of float, default="auto"
        Penalty on the values of leaves: 3 by default, 10 for many rows.
    loss : {"squared", "huber"}, "auto" or sequence of these, default="auto"
        What trees reduce where numbers are predicted: squared errors by default; or Huber's loss, in which the 30% of
        the points with the largest errors have absolute ones. Of classes, it is the logistic loss.
    n_hypotheses : int or "auto", default="auto"
        Number of hypotheses; a function of the number of rows by default.
    subsample_size : int, float, "auto" or sequence of int and float, default="auto"
        Numbers or shares of rows to train on; a function of the number of rows by default.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose training fails: raise, or count its loss as 1.
    class_weight : {"balanced"} or None, default=None
        With "balanced", every class of a subsample weighs the same in training: points of rarer ones are repeated.
        Fewer of these are then missed, for more errors altogether, which certificates are about as before.

    Notes
    -----
    Leafwise trees of all points, without random gains, are the same as those of scikit-learn where no two splits are as
    good, and bins hold single values; small subsamples take a fraction of the time. Numbers that are predicted are
    standardised by the subsample, so that no setting depends on their unit; what "auto" stands for was found on
    classes, and `make_union(numeric=True)` has settings that were found on numbers. Missing numbers go to the side of a
    split that is better for training, and where most points go if none was missing there. Columns of up to 30
    categories in a subsample are split by sets of these, others are encoded by target statistics within the subsample.
    A gap in a column of categories is a category of its own; one that the subsample does not hold is missing. Columns
    of many different texts add scores of linear models of their words.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.pools import BoostingPool
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> pool = BoostingPool(learning_rate=0.1, max_iter=20, max_leaf_nodes=4)
    >>> model = PACBayesClassifier(pool, n_hypotheses=4, subsample_size=0.8, random_state=0).fit(X, y)
    >>> print(model.hypotheses_[0])
    boosted trees: 20 rounds of up to 4 leaves, rate 0.1
    """

    _MODELS = TreeEnsembles
    _SETTINGS: ClassVar[dict[str, Setting]] = {
        "kind": Setting(Choice("symmetric", "leafwise"), "symmetric", "leafwise"),
        "learning_rate": Setting(_POSITIVE, 0.15, 0.1),
        "max_iter": Setting(Whole(1), 80, 200),
        "max_leaf_nodes": Setting(Whole(2), 64, 31),
        "min_samples_leaf": Setting(Whole(1), 3, 5),
        "max_features": Setting(_SHARE, 1.0, 1.0),
        "max_samples": Setting(_SHARE, 0.8, 1.0),
        "random_strength": Setting(_NOT_NEGATIVE, 1.0, 0.0),
        "l2_regularization": Setting(_NOT_NEGATIVE, 3.0, 10.0),
        "loss": Setting(Choice("squared", "huber"), "squared", "squared"),
    }

    def __init__(
        self,
        *,
        kind: Any = "auto",
        learning_rate: Any = "auto",
        max_iter: Any = "auto",
        max_leaf_nodes: Any = "auto",
        min_samples_leaf: Any = "auto",
        max_features: Any = "auto",
        max_samples: Any = "auto",
        random_strength: Any = "auto",
        l2_regularization: Any = "auto",
        loss: Any = "auto",
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
        on_error: Literal["raise", "drop"] = "raise",
        class_weight: Literal["balanced"] | None = None,
    ) -> None:
        self.kind = kind
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.max_samples = max_samples
        self.random_strength = random_strength
        self.l2_regularization = l2_regularization
        self.loss = loss
        self.n_hypotheses = n_hypotheses
        self.subsample_size = subsample_size
        self.on_error = on_error
        self.class_weight = class_weight

    def _fit(self, own: Subsample, settings: dict[str, Any], rng: np.random.Generator) -> TreeArrays:
        encoding, points = None, own.X.astype(np.float64, copy=False)
        if own.book is not None:
            encoding, points = TableEncoding.learn(points, own.targets, own.book, _MOST_IN_SETS, rng)
        seed = int(rng.integers(2**63))
        rows = self._rows_to_train_on(own, rng)
        return TreeArrays.train_boosting(points[rows], own.targets[rows], own.class_codes, encoding, settings, seed)

    def _make_constant(self, class_codes: NDArray[Any], d: int, failed: bool) -> TreeArrays:
        return TreeArrays.of("boosting", class_codes, d, None, failed=failed)


class ForestPool(LearnerPool):
    """Forests, of extremely randomised trees or Breiman's, on large subsamples.

    Every setting is a value, or several that hypotheses take in turn: the first one the first value of each, and so on.
    "auto" stands for what was found best on many datasets, for fewer than 5000 rows and for more.

    Parameters
    ----------
    kind : {"extra", "random"} or sequence of these, default="extra"
        Extremely randomised trees, those of ExtraTreesClassifier and ExtraTreesRegressor, whose thresholds are drawn at
        random; or those of RandomForestClassifier and RandomForestRegressor.
    n_estimators : int, "auto" or sequence of int, default="auto"
        Number of trees: 60 by default, 100 for many rows.
    max_features : float, "sqrt", "auto" or sequence of float and "sqrt", default="auto"
        Share of the features that a split is chosen from, or the root of their number: "sqrt" and 0.5 in turn by
        default, 0.5 for many rows.
    min_samples_leaf : int, "auto" or sequence of int, default="auto"
        Points in a leaf, at least: 1 and 3 in turn by default, 1 for many rows.
    max_leaf_nodes : int, None, "auto" or sequence of int and None, default="auto"
        Leaves of a tree, at most; None for any number, the default, 2000 for many rows.
    n_hypotheses, subsample_size, on_error, class_weight
        As in `BoostingPool`.

    Notes
    -----
    Missing numbers go to the side of a split that is better for training. Columns of categories are encoded by target
    statistics within the subsample; one that the subsample does not hold has those of the whole subsample. Columns of
    many different texts add scores of linear models of their words.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.pools import ForestPool
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> pool = ForestPool(n_estimators=20, max_features=1.0, min_samples_leaf=3)
    >>> model = PACBayesClassifier(pool, n_hypotheses=4, subsample_size=0.8, random_state=0).fit(X, y)
    >>> model.hypotheses_[0].predict_proba(X).shape
    (500, 2)
    """

    _MODELS = TreeEnsembles
    _SETTINGS: ClassVar[dict[str, Setting]] = {
        "kind": Setting(Choice("extra", "random"), "extra", "extra"),
        "n_estimators": Setting(Whole(1), 60, 100),
        "max_features": Setting(_ROOT_OR_SHARE, ("sqrt", 0.5), 0.5),
        "min_samples_leaf": Setting(Whole(1), (1, 3), 1),
        "max_leaf_nodes": Setting(_LEAVES_OR_NONE, None, 2000),
    }
    _N_HYPOTHESES = (2, 1)

    def __init__(
        self,
        *,
        kind: Any = "extra",
        n_estimators: Any = "auto",
        max_features: Any = "auto",
        min_samples_leaf: Any = "auto",
        max_leaf_nodes: Any = "auto",
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
        on_error: Literal["raise", "drop"] = "raise",
        class_weight: Literal["balanced"] | None = None,
    ) -> None:
        self.kind = kind
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.max_leaf_nodes = max_leaf_nodes
        self.n_hypotheses = n_hypotheses
        self.subsample_size = subsample_size
        self.on_error = on_error
        self.class_weight = class_weight

    def _fit(self, own: Subsample, settings: dict[str, Any], rng: np.random.Generator) -> TreeArrays:
        encoding, X = None, own.X
        if own.book is not None:
            encoding, X = TableEncoding.learn(X, own.targets, own.book, 0, rng)
        points, seed = to_single(X), int(rng.integers(2**31))
        rows = self._rows_to_train_on(own, rng)
        points, targets = points[rows], own.targets[rows]
        if settings.pop("kind") == "extra":
            return TreeArrays.train_extra(points, targets, own.class_codes, encoding, settings, seed)
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        learner = RandomForestClassifier if own.class_codes.size else RandomForestRegressor
        trained = learner(**settings, n_jobs=1, random_state=seed).fit(points, targets)
        return TreeArrays.of_forest(trained, own.class_codes, encoding)

    def _make_constant(self, class_codes: NDArray[Any], d: int, failed: bool) -> TreeArrays:
        return TreeArrays.of("forest", class_codes, d, None, failed=failed)


class LinearPool(LearnerPool):
    """Logistic or ridge regressions on large subsamples, of standardised numbers or of cubic splines of them.

    They are logistic regressions where classes are predicted, and ridge regressions where numbers are.

    Every setting is a value, or several that hypotheses take in turn: the first one the first value of each, and so on.
    "auto" stands for what was found best on many datasets, for fewer than 5000 rows and for more.

    Parameters
    ----------
    C : float, "auto" or sequence of float, default="auto"
        Inverse strength of the penalty on squared coefficients, as in LogisticRegression; of numbers, 1 / alpha of
        Ridge. By default 0.01, 0.1, 1, 10, 1 and 1 in turn, 0.1 and 1 for many rows.
    splines : bool, "auto" or sequence of bool, default="auto"
        Whether a score is a sum of smooth functions of the numbers, rather than of multiples of them: cubic splines
        with five knots, constant outside the range of the subsample. Not of more than 100 columns. By default, the
        last two of six, or the second of two for many rows.
    n_hypotheses, subsample_size, on_error, class_weight
        As in `BoostingPool`.

    Notes
    -----
    Missing numbers are worth the mean of the known ones in the subsample, and tables have an indicator of them.
    Columns of up to 50 categories in a subsample have a coefficient for each of these, and one for all of less than
    five points and for unknown ones; those of more are encoded by target statistics within the subsample. Columns of
    many different texts have a coefficient for each of their words and sequences of three letters, too.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.pools import LinearPool
    >>> X, y = load_iris(return_X_y=True)
    >>> pool = LinearPool(C=1.0, splines=False)
    >>> model = PACBayesClassifier(pool, n_hypotheses=4, subsample_size=0.8, random_state=0).fit(X, y)
    >>> print(model.hypotheses_[0])
    logistic regression of 4 features, C = 1
    """

    _MODELS = LinearModels
    _SETTINGS: ClassVar[dict[str, Setting]] = {
        "C": Setting(_POSITIVE, (0.01, 0.1, 1.0, 10.0, 1.0, 1.0), (0.1, 1.0)),
        "splines": Setting(Constraint("True or False", is_flag), (False,) * 4 + (True,) * 2, (False, True)),
    }
    _N_HYPOTHESES = (6, 2)

    def __init__(
        self,
        *,
        C: Any = "auto",
        splines: Any = "auto",
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
        on_error: Literal["raise", "drop"] = "raise",
        class_weight: Literal["balanced"] | None = None,
    ) -> None:
        self.C = C
        self.splines = splines
        self.n_hypotheses = n_hypotheses
        self.subsample_size = subsample_size
        self.on_error = on_error
        self.class_weight = class_weight

    def _fit(self, own: Subsample, settings: dict[str, Any], rng: np.random.Generator) -> LinearArrays:
        points = own.X.astype(np.float64, copy=False)
        encoding = LinearEncoding.learn(points, own.targets, own.book, splines=bool(settings["splines"]), rng=rng)
        rows = self._rows_to_train_on(own, rng)
        return LinearArrays.train(encoding.take(rows), own.targets[rows], own.class_codes, float(settings["C"]))

    def _make_constant(self, class_codes: NDArray[Any], d: int, failed: bool) -> LinearArrays:
        return LinearArrays.of(class_codes, failed=failed)
