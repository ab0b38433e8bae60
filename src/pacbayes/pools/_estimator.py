"""The hypothesis space of any scikit-learn classifier or regressor, and that of models trained elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from pacbayes._settings import SAMPLING, Choice, Constraint
from pacbayes.pools._base import Hypotheses, HypothesisList, Numbers, Pool, Sample, VoteBy
from pacbayes.pools._trees import fit_tree, is_tree, validate_parameters_once
from pacbayes.sampling import NoSubsamples, SamplingPlan, Subsamples, seed_nested


class EstimatorPool(Pool):
    """Clones of one classifier or regressor, each trained on its own subsample, with parameters drawn if asked.

    Parameters
    ----------
    estimator : scikit-learn classifier or regressor
        Cloned for every hypothesis. A pipeline is fine: what it learns, it learns from the subsample.
    param_distributions : mapping, optional
        Parameters to draw per hypothesis: names to lists or scipy distributions, as in `ParameterSampler`.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose training fails: raise, or count its loss as 1 so that the bound stays true.
    vote_by : {"labels", "probabilities"}, default="labels"
        Whether a hypothesis gives its weight in a vote to the class that it predicts, or divides it among the classes
        by its `predict_proba`. Validation losses, and votes without held-out rows, are about labels in any case.
    n_hypotheses, subsample_size : default="auto"
        As in `PACBayesClassifier`, for this pool alone: as one of several families, for example.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.pools import EstimatorPool
    >>> pool = EstimatorPool(DecisionTreeClassifier(), param_distributions={"max_depth": [1, 2, 4]})
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PACBayesClassifier(pool, n_hypotheses=20, random_state=0).fit(X, y)
    >>> sorted({tree.max_depth for tree in model.hypotheses_})
    [1, 2, 4]
    """

    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {
        "on_error": Choice("raise", "drop"),
        "vote_by": Choice("labels", "probabilities"),
        **SAMPLING,
    }

    def __init__(
        self,
        estimator: Any,
        *,
        param_distributions: Mapping[str, Any] | None = None,
        on_error: Literal["raise", "drop"] = "raise",
        vote_by: VoteBy = "labels",
        n_hypotheses: int | Literal["auto"] = "auto",
        subsample_size: Any = "auto",
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.on_error = on_error
        self.vote_by = vote_by
        self.n_hypotheses = n_hypotheses
        self.subsample_size = subsample_size

    @property
    def predicts(self) -> tuple[str, ...]:
        return _kinds_of([self.estimator])

    def check_settings(self) -> None:
        super().check_settings()
        # Some classifiers, such as stacks with the default final estimator, have `predict` once they are fitted.
        predicts = hasattr(self.estimator, "predict") or (
            isinstance(self.estimator, BaseEstimator) and len(self.predicts) == 1
        )
        if not (hasattr(self.estimator, "fit") and predicts):
            raise ValueError(
                f"estimator must be a classifier or regressor with fit and predict, got {self.estimator!r}"
            )
        parts = [clone(self.estimator), *clone(self.estimator).get_params(deep=True).values()]
        if any(isinstance(part, FrozenEstimator) for part in parts) or _is_fitted(parts[0]):
            raise ValueError(
                "estimator must not be trained already, nor any part of it: its training points would validate it. "
                "PrefitPool takes classifiers that were trained on other data"
            )
        if self.vote_by == "probabilities" and not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"vote_by must be 'labels' for {type(self.estimator).__name__}, which has no predict_proba, got "
                "'probabilities'"
            )
        known = self.estimator.get_params(deep=True)
        unknown = [name for name in self.param_distributions or () if name not in known]
        if unknown:
            raise ValueError(
                f"param_distributions must name parameters of {type(self.estimator).__name__}, got {unknown[0]!r}"
            )

    def train(
        self, sample: Sample, subsamples: Subsamples, hypotheses: Numbers, entropy: int, shared: Any
    ) -> Hypotheses:
        # Parameters that are drawn must be validated for each hypothesis, and a subclass may train anything.
        is_plain = not self.param_distributions and type(self).train_one is EstimatorPool.train_one
        with validate_parameters_once(self.estimator) if is_tree(self.estimator) and is_plain else nullcontext():
            return super().train(sample, subsamples, hypotheses, entropy, shared)

    @property
    def takes_weights(self) -> bool:  # type: ignore[override]
        return bool(has_fit_parameter(self.estimator, "sample_weight"))

    def describe_weights(self) -> str:
        return f"{type(self.estimator).__name__}.fit takes no sample_weight"

    def train_one(self, X: Any, y: NDArray[Any], rng: np.random.Generator, **how: Any) -> Any:
        learner = clone(self.estimator)
        # Drawn before any parameter is: every hypothesis's draws come from its own stream, in one order.
        seed = int(rng.integers(2**31))
        if self.param_distributions:
            from sklearn.model_selection import ParameterSampler

            drawn = next(iter(ParameterSampler(self.param_distributions, 1, random_state=seed)))
            learner.set_params(**{name: clone(value, safe=False) for name, value in drawn.items()})
        if is_tree(learner):
            learner.random_state = int(rng.integers(2**31))
            return fit_tree(learner, X, y, **how)
        names = sorted(learner.get_params(deep=True))
        random_states = [name for name in names if name.split("__")[-1] == "random_state"]
        learner.set_params(**{name: int(rng.integers(2**31)) for name in random_states})
        # Last, so that a learner without such parts draws what it always drew.
        seed_nested(learner, rng)
        return self._fit_learner(learner, X, y, **how)

    def _fit_learner(self, learner: Any, X: Any, y: NDArray[Any], **how: Any) -> Any:
        return learner.fit(X, y, **how)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if not hasattr(self.estimator, "__sklearn_tags__"):  # `check_settings` says what is no estimator
            return tags
        base_tags = get_tags(self.estimator).input_tags
        for name in ("sparse", "allow_nan", "string", "categorical", "positive_only"):
            setattr(tags.input_tags, name, getattr(base_tags, name))
        tags.input_tags.allow_nan |= _may_impute(self.estimator)
        return tags


def _kinds_of(estimators: Sequence[Any]) -> tuple[str, ...]:
    """Return what estimators predict, as in `Pool.predicts`: both, where they do not say it."""
    told = [estimator for estimator in estimators if isinstance(estimator, BaseEstimator)]
    classes, numbers = any(map(is_classifier, told)), any(map(is_regressor, told))
    return ("classes", "numbers") if classes == numbers else ("classes",) if classes else ("numbers",)


def _may_impute(estimator: Any) -> bool:
    """Whether the first step of a pipeline takes missing values, which scikit-learn's pipelines do not tell."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline):
        return isinstance(estimator, ColumnTransformer) or bool(get_tags(estimator).input_tags.allow_nan)
    first = next((step for _, step in estimator.steps if step not in (None, "passthrough")), None)
    return first is not None and _may_impute(first)


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    # Estimators that need no fitting always pass.
    return bool(get_tags(estimator).requires_fit) if hasattr(estimator, "__sklearn_tags__") else True


class PrefitPool(Pool):
    """Classifiers or regressors trained elsewhere, on other points than those they are validated on.

    Parameters
    ----------
    estimators : sequence of fitted classifiers or regressors
        The hypotheses, in the order in which they are weighted. Cloning the pool keeps them trained.
        In a `PACBayesClassifier` copies of them vote: whoever trains the originals again changes nothing.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.pools import PrefitPool
    >>> X, y = make_moons(600, noise=0.2, random_state=0)
    >>> trees = [DecisionTreeClassifier(max_depth=depth).fit(X[:300], y[:300]) for depth in (1, 3, 9)]
    >>> model = PACBayesClassifier(PrefitPool(trees), holdout=None).fit(X[300:], y[300:])
    >>> model.n_validation_.tolist()
    [300, 300, 300]
    """

    def __init__(self, estimators: Sequence[Any]) -> None:
        self.estimators = estimators

    def __sklearn_clone__(self) -> PrefitPool:
        return PrefitPool(self.estimators)

    @property
    def predicts(self) -> tuple[str, ...]:
        return _kinds_of(self.estimators)

    def check_settings(self) -> None:
        if len(self.estimators) == 0:
            raise ValueError("estimators must hold at least one fitted classifier, got none")

    def check_classes(self, classes: NDArray[Any]) -> None:
        super().check_classes(classes)
        for h, estimator in enumerate(self.estimators if classes.size else ()):
            unknown = np.setdiff1d(getattr(estimator, "classes_", []), classes)
            if unknown.size:
                raise ValueError(
                    f"prefit estimator {h} predicts {str(unknown[0])!r}, a label that the validation set does not "
                    "have: add the points that do, or pass `losses` of your own to `certify`"
                )

    def check_hypotheses(self, hypotheses: Any) -> None:
        """Accept any: what was trained elsewhere may be given twice."""

    def assumptions(self) -> list[str]:
        return ["predicts-by-row"]  # `NoSubsamples` states what has to be true of their training

    def draw_subsamples(self, plan: SamplingPlan, n: int, d: int) -> Subsamples:
        plan.refuse_sizes("the classifiers are already trained")
        if plan.subsamples is not None:
            raise ValueError("subsamples must be None where the classifiers are already trained")
        return NoSubsamples(n, len(self.estimators))

    def train(
        self, sample: Sample, subsamples: Subsamples, hypotheses: Numbers, entropy: int, shared: Any
    ) -> HypothesisList:
        return HypothesisList([self.estimators[h] for h in hypotheses], sample.classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name in ("sparse", "allow_nan", "string", "categorical"):
            setattr(tags.input_tags, name, all(getattr(get_tags(e).input_tags, name) for e in self.estimators))
        return tags
