"""Hypothesis spaces of boosted trees, forests and logistic regressions, for numbers and for tables with text and gaps.

Each hypothesis is trained by one thread on its subsample, which also determines how its categories are encoded, and is
kept as plain arrays; threads go over hypotheses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from threadpoolctl import ThreadpoolController

from pacbayes import sampling
from pacbayes._settings import SAMPLING, Choice, Constraint, Number, Rule, Several, Whole, validate_settings
from pacbayes._validation import Array
from pacbayes.exceptions import HypothesisError
from pacbayes.pools._base import Codes, Hypotheses, Numbers, Pool, Sample
from pacbayes.pools._layout import check_magnitude, contiguous
from pacbayes.pools._linear_models import LinearArrays, LinearModels
from pacbayes.pools._score_models import ScoreModels
from pacbayes.pools._table_encoding import TableEncoding
from pacbayes.pools._tree_ensembles import TreeArrays, TreeEnsembles, to_single
from pacbayes.rows import CodeBook, learn_code_book
from pacbayes.sampling import Subsamples

# Categories of a column up to which boosted trees split it by sets of them: beyond, target statistics do better.
_MOST_IN_SETS = 30

# Categories of a column that have a coefficient each.
_MOST_COLUMNS = 50

_SEEDS = 2**31

# Share of the rows that a hypothesis is trained on. The vote is tested on others: few are enough to weight it.
_SHARE_TRAINED = 0.9

_SHARE = Rule("in (0, 1]", lambda value: Number(0, np.inf).allows(value) and value <= 1)
_NOT_NEGATIVE = Rule("a number, at least 0", lambda value: Number(-1, np.inf).allows(value) and value >= 0)


@cache
def _threads() -> ThreadpoolController:
    """What sets the number of threads of the libraries that are loaded: of OpenMP, for the calling thread only."""
    return ThreadpoolController()


class LearnerPool(Pool):
    """What pools have in common whose hypotheses take settings in turn, and are trained models kept as plain arrays."""

    shares_rows = True
    takes_code_books = True

    _N_HYPOTHESES: ClassVar[int]  # by default
    _CONSTRAINTS: ClassVar[dict[str, Constraint]]
    _VARIED: ClassVar[tuple[str, ...]]  # settings that may be several, which hypotheses take in turn

    # -- what only the pool knows --------------------------------------------------------------------

    def check_settings(self) -> None:
        validate_settings(self, {**SAMPLING, "on_error": Choice("raise", "drop"), **self._CONSTRAINTS})

    def _choices(self) -> list[list[Any]]:
        """Return the values of each setting that hypotheses take in turn."""
        values = [getattr(self, name) for name in self._VARIED]
        return [
            list(value) if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) else [value]
            for value in values
        ]

    def assumptions(self) -> list[str]:
        return ["learned-from-subsample"]

    def validation_kwargs(self, X: Any) -> dict[str, Any]:
        return {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}

    def make_code_book(self, X: Any) -> CodeBook | None:
        return learn_code_book(X)

    def check_points(self, X: Any) -> None:
        check_magnitude(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.allow_nan = False, True
        return tags

    # -- training ------------------------------------------------------------------------------------

    def default_sampling(self, n: int, d: int) -> tuple[list[int], int]:
        """Return sizes of subsamples, which hypotheses take in turn, and how many hypotheses there are."""
        return [max(1, int(_SHARE_TRAINED * n))], self._N_HYPOTHESES

    def kinds(self, subsamples: Subsamples, hypotheses: Numbers, entropy: int) -> NDArray[np.intp]:
        """Return which settings each hypothesis has, chosen without looking at the sample."""
        lengths = [len(values) for values in self._choices()]
        turns = np.asarray(hypotheses, dtype=np.intp)[:, np.newaxis] % lengths
        return np.asarray(np.ravel_multi_index(tuple(turns.T), lengths))

    def train(
        self, sample: Sample, subsamples: Subsamples, hypotheses: Numbers, entropy: int, shared: Any
    ) -> Hypotheses:
        choices, models = dict(zip(self._VARIED, self._choices(), strict=True)), []
        for h in map(int, hypotheses):
            settings = {name: values[h % len(values)] for name, values in choices.items()}
            seed = int(sampling.stream(entropy, h, sampling.LEARNER).integers(_SEEDS))
            models.append(self._train_model(sample, subsamples[h], settings, seed, h))
        together = models[0].concatenate(models)
        return self._collect(sample.classes, together, np.arange(len(together)), sample.code_book)

    def _train_model(self, sample: Sample, rows: Codes, settings: dict[str, Any], seed: int, h: int) -> Any:
        """Return the model of one subsample: a constant if it holds one class."""
        class_codes, codes = np.unique(sample.codes[rows].astype(np.intp), return_inverse=True)  # bytes, of a source
        n_features = sample.X.shape[1]
        if class_codes.size == 1:
            return self._constant(class_codes, n_features, failed=False)
        try:
            X = contiguous(sample.X[rows])
            return self._fit(X, codes, class_codes, sample.code_book, settings, seed)
        except Exception as error:
            if self.on_error == "drop":
                return self._constant(np.zeros(1, dtype=np.intp), n_features, failed=True)
            raise HypothesisError(
                f"hypothesis {h} could not be trained on its {rows.size} points: {type(error).__name__}: {error}. "
                "on_error='drop' would count its loss as 1."
            ) from error

    @abstractmethod
    def _fit(
        self,
        X: NDArray[Any],
        codes: Codes,
        class_codes: Codes,
        book: CodeBook | None,
        settings: dict[str, Any],
        seed: int,
    ) -> Any:
        """Return a trained model of points of several classes, numbered from 0: of all classes, the `class_codes`."""

    @abstractmethod
    def _constant(self, class_codes: Codes, n_features: int, *, failed: bool) -> Any:
        """Return the model that always answers one class."""

    @abstractmethod
    def _collect(self, *parts: Any) -> ScoreModels:
        """Return hypotheses."""


class TreePool(LearnerPool):
    """What pools of ensembles of trees have in common."""

    _KIND: ClassVar[Literal["boosting", "forest"]]

    def _constant(self, class_codes: Codes, n_features: int, *, failed: bool) -> TreeArrays:
        return TreeArrays.of(self._KIND, class_codes, n_features, None, failed=failed)

    def _collect(self, *parts: Any) -> TreeEnsembles:
        return TreeEnsembles(*parts)


class BoostingPool(TreePool):
    """Boosted trees: HistGradientBoostingClassifier, on large subsamples, with settings that hypotheses take in turn.

    Every setting is a value, or several that hypotheses take in turn.

    Parameters
    ----------
    learning_rate : float or sequence of float, default=0.1
        What leaves are multiplied by.
    max_iter : int or sequence of int, default=120
        Number of rounds, each of one tree, or one for each of several classes.
    max_leaf_nodes : int or sequence of int, default=15
        Leaves of a tree, at most.
    min_samples_leaf : int or sequence of int, default=1
        Points in a leaf, at least.
    max_features : float or sequence of float, default=(1.0, 0.5)
        Share of the features that a split is chosen from, drawn anew for each.
    l2_regularization : float or sequence of float, default=10.0
        Penalty on the values of leaves.
    n_hypotheses : int or "auto", default="auto"
        Number of hypotheses; a function of the number of rows by default.
    subsample_size : int, float, "auto" or sequence of int and float, default="auto"
        Numbers or shares of rows to train on; a function of the number of rows by default.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose training fails: raise, or count its loss as 1.

    Notes
    -----
    Missing numbers go to the side of a split that is better for training. Columns of up to 30 categories in a
    subsample are split by sets of these, others are encoded by target statistics within the subsample. A gap in a
    column of categories is a category of its own; one that the subsample does not hold is missing.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.pools import BoostingPool
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> pool = BoostingPool(learning_rate=0.1, max_iter=20, max_leaf_nodes=7)
    >>> model = PACBayesClassifier(pool, n_hypotheses=4, subsample_size=0.8, random_state=0).fit(X, y)
    >>> print(model.hypotheses_[0])
    boosted trees: 20 rounds of up to 7 leaves, rate 0.1
    """

    _KIND = "boosting"
    _N_HYPOTHESES = 3
    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {
        "learning_rate": Several(Number(0, np.inf)),
        "max_iter": Several(Whole(1)),
        "max_leaf_nodes": Several(Whole(2)),
        "min_samples_leaf": Several(Whole(1)),
        "max_features": Several(_SHARE),
        "l2_regularization": Several(_NOT_NEGATIVE),
    }
    _VARIED = tuple(_CONSTRAINTS)

    def __init__(
        self,
        *,
        learning_rate: float | Sequence[float] = 0.1,
        max_iter: int | Sequence[int] = 120,
        max_leaf_nodes: int | Sequence[int] = 15,
        min_samples_leaf: int | Sequence[int] = 1,
        max_features: float | Sequence[float] = (1.0, 0.5),
        l2_regularization: float | Sequence[float] = 10.0,
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
        on_error: Literal["raise", "drop"] = "raise",
    ) -> None:
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.l2_regularization = l2_regularization
        self.n_hypotheses = n_hypotheses
        self.subsample_size = subsample_size
        self.on_error = on_error

    def _fit(
        self,
        X: NDArray[Any],
        codes: Codes,
        class_codes: Codes,
        book: CodeBook | None,
        settings: dict[str, Any],
        seed: int,
    ) -> TreeArrays:
        encoding, sets = None, None
        if book is not None:
            rng = np.random.default_rng(seed)
            encoding, X = TableEncoding.learn(X, codes, book, _MOST_IN_SETS, rng)
            sets = np.arange(X.shape[1]) < encoding.n_sets
        # No split is by a column that is missing everywhere, and scikit-learn fails to bin it.
        X = np.where(np.isnan(X).all(axis=0), 0.0, X)
        learner = HistGradientBoostingClassifier(
            **settings, early_stopping=False, categorical_features=sets, random_state=seed
        )
        with _threads().limit(limits=1, user_api="openmp"):
            learner.fit(X, codes)
        return TreeArrays.of_boosting(learner, class_codes, encoding)


class ForestPool(TreePool):
    """Forests, of extremely randomised trees or Breiman's, on large subsamples.

    Every setting is a value, or several that hypotheses take in turn.

    Parameters
    ----------
    kind : {"extra", "random"} or sequence of these, default="extra"
        ExtraTreesClassifier, whose thresholds are drawn at random, or RandomForestClassifier.
    n_estimators : int or sequence of int, default=100
        Number of trees.
    max_features : float, "sqrt" or sequence of these, default=("sqrt", 0.5)
        Share of the features that a split is chosen from, or the root of their number.
    min_samples_leaf : int or sequence of int, default=(1, 3)
        Points in a leaf, at least.
    n_hypotheses : int or "auto", default="auto"
        Number of hypotheses; a function of the number of rows by default.
    subsample_size : int, float, "auto" or sequence of int and float, default="auto"
        Numbers or shares of rows to train on; a function of the number of rows by default.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose training fails: raise, or count its loss as 1.

    Notes
    -----
    Missing numbers go to the side of a split that is better for training. Columns of categories are encoded by target
    statistics within the subsample; one that the subsample does not hold has those of the whole subsample.

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

    _KIND = "forest"
    _N_HYPOTHESES = 2
    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {
        "kind": Several(Choice("extra", "random")),
        "n_estimators": Several(Whole(1)),
        "max_features": Several(
            Rule(
                "'sqrt', or in (0, 1]",
                lambda value: value == "sqrt" if isinstance(value, str) else _SHARE.allows(value),
            )
        ),
        "min_samples_leaf": Several(Whole(1)),
    }
    _VARIED = tuple(_CONSTRAINTS)

    def __init__(
        self,
        *,
        kind: Any = "extra",
        n_estimators: int | Sequence[int] = 100,
        max_features: Any = ("sqrt", 0.5),
        min_samples_leaf: int | Sequence[int] = (1, 3),
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
        on_error: Literal["raise", "drop"] = "raise",
    ) -> None:
        self.kind = kind
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.n_hypotheses = n_hypotheses
        self.subsample_size = subsample_size
        self.on_error = on_error

    def _fit(
        self,
        X: NDArray[Any],
        codes: Codes,
        class_codes: Codes,
        book: CodeBook | None,
        settings: dict[str, Any],
        seed: int,
    ) -> TreeArrays:
        encoding = None
        if book is not None:
            encoding, X = TableEncoding.learn(X, codes, book, 0, np.random.default_rng(seed))
        forest = {"extra": ExtraTreesClassifier, "random": RandomForestClassifier}[settings.pop("kind")]
        learner = forest(**settings, n_jobs=1, random_state=seed).fit(to_single(X), codes)
        return TreeArrays.of_forest(learner, class_codes, encoding)


class LinearPool(LearnerPool):
    """Logistic regressions of standardised features, on large subsamples, with penalties that hypotheses take in turn.

    Parameters
    ----------
    C : float or sequence of float, default=(0.01, 0.1, 1.0, 10.0)
        Inverse strength of the penalty on squared coefficients, as in LogisticRegression, or several that hypotheses
        take in turn.
    n_hypotheses : int or "auto", default="auto"
        Number of hypotheses; a function of the number of rows by default.
    subsample_size : int, float, "auto" or sequence of int and float, default="auto"
        Numbers or shares of rows to train on; a function of the number of rows by default.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose training fails: raise, or count its loss as 1.

    Notes
    -----
    Missing numbers are worth the mean of the known ones in the subsample, and tables have an indicator of them.
    Columns of up to 50 categories in a subsample have a coefficient for each of these, and 0 for others; those of
    more are encoded by target statistics within the subsample.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.pools import LinearPool
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PACBayesClassifier(LinearPool(C=1.0), n_hypotheses=4, subsample_size=0.8, random_state=0).fit(X, y)
    >>> print(model.hypotheses_[0])
    logistic regression of 4 features, C = 1
    """

    _N_HYPOTHESES = 4
    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {"C": Several(Number(0, np.inf))}
    _VARIED = tuple(_CONSTRAINTS)

    def __init__(
        self,
        *,
        C: float | Sequence[float] = (0.01, 0.1, 1.0, 10.0),
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
        on_error: Literal["raise", "drop"] = "raise",
    ) -> None:
        self.C = C
        self.n_hypotheses = n_hypotheses
        self.subsample_size = subsample_size
        self.on_error = on_error

    def _fit(
        self,
        X: NDArray[Any],
        codes: Codes,
        class_codes: Codes,
        book: CodeBook | None,
        settings: dict[str, Any],
        seed: int,
    ) -> LinearArrays:
        points: Array = X.astype(np.float64, copy=False)
        rng = np.random.default_rng(seed)
        return LinearArrays.train(points, codes, class_codes, book, float(settings["C"]), _MOST_COLUMNS, rng)

    def _constant(self, class_codes: Codes, n_features: int, *, failed: bool) -> LinearArrays:
        return LinearArrays.of(class_codes, failed=failed)

    def _collect(self, *parts: Any) -> LinearModels:
        return LinearModels(*parts)
