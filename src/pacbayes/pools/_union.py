"""The hypothesis space of several families: pools of different kinds under one prior."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import _BaseComposition

from pacbayes._losses import Loss
from pacbayes._settings import Choice, Constraint, is_several
from pacbayes._validation import Array, as_real_array, prefix_errors
from pacbayes.pools._base import Pool, Sample
from pacbayes.sampling import Partition, SamplingPlan, Subsamples, UnionSubsamples, derive_entropy, divide_in_proportion

# Shares of the rows that are held out from competing votes, from so many rows on. A half proves most where hardly a
# point is misclassified; a quarter leaves more rows to learn from.
_HELD_OUT = ((400, (0.5, 0.25, 0.25)), (0, (1 / 3, 1 / 3, 1 / 3)))
# Where numbers are predicted, of many rows more to learn from make up for wider intervals, and of few a half is needed
# to prove any.
_HELD_OUT_NUMERIC = ((1000, (0.25, 0.25)), (400, (0.5, 0.25, 0.25)), (0, (0.5, 0.25)))

# As many as a certificate lists, and names that files of a checkpoint can have.
_MOST_FAMILIES, _LONGEST_NAME = 100, 50


def _of_families(combine: Callable[[Iterable[bool]], bool], name: str, description: str) -> Any:
    """Return a property of a union that all of its families have, or some."""
    return property(lambda self: combine(getattr(pool, name) for pool in self.pools), doc=description)


class UnionPool(_BaseComposition, Pool):  # type: ignore[misc]
    """Hypotheses of several pools in one vote: the posterior chooses among families, and nothing is cross-validated.

    The prior has a share for each family, which is divided among its hypotheses. Each family has its own number of
    hypotheses and sizes of subsamples: those of its pool.

    Parameters
    ----------
    families : list of (str, Pool)
        The families, at most 100, by name: up to 50 printable characters, without "__" and "/".
    weights : array-like of shape (n_families,), optional
        Shares of the prior, in proportion, chosen without looking at the data; equal by default.
    unusable : {"raise", "drop"}, default="raise"
        What to do with a family that cannot take the sample, such as one of arrays and a table with text: raise, or
        leave it out, with a word in the certificate. What it can take is seen before a label is.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.pools import EstimatorPool, RBFSVMPool, UnionPool
    >>> trees = EstimatorPool(DecisionTreeClassifier(), n_hypotheses=20, subsample_size=0.5)
    >>> pool = UnionPool([("svm", RBFSVMPool(n_hypotheses=30)), ("tree", trees)])
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> model = PACBayesClassifier(pool, random_state=0).fit(X, y)
    >>> model.subsamples_.families
    {'svm': range(0, 30), 'tree': range(30, 50)}
    """

    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {"unusable": Choice("raise", "drop")}

    def __init__(
        self,
        families: list[tuple[str, Pool]],
        *,
        weights: ArrayLike | None = None,
        unusable: Literal["raise", "drop"] = "raise",
    ) -> None:
        self.families = families
        self.weights = weights
        self.unusable = unusable

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; if `deep`, those of the families as well, as ``family__setting``."""
        params: dict[str, Any] = self._get_params("families", deep=deep)
        return params

    def set_params(self, **params: Any) -> UnionPool:
        """Change settings: those of the union, a whole family by its name, or ``family__setting``."""
        self._set_params("families", **params)
        return self

    def members(self) -> list[tuple[str, Pool]]:
        return list(self.families)

    @property
    def pools(self) -> list[Pool]:
        """The pools of the families."""
        return [pool for _, pool in self.families]

    shares_rows = _of_families(all, "shares_rows", "Whether all families are driven by threads.")
    takes_code_books = _of_families(any, "takes_code_books", "Whether some family takes tables with text.")
    is_strict = _of_families(all, "is_strict", "Whether all families are.")
    needs_all_rows = _of_families(any, "needs_all_rows", "Whether some family does.")

    @property
    def predicts(self) -> tuple[str, ...]:
        """What all families can predict; or some of them, if others are dropped."""
        needed = any if self.unusable == "drop" else all
        return tuple(what for what in ("classes", "numbers") if needed(what in pool.predicts for pool in self.pools))

    def check_settings(self) -> None:
        super().check_settings()
        if not (is_several(self.families) and len(self.families) and all(isinstance(f, tuple) for f in self.families)):
            raise ValueError(f"families must be a list of (name, pool), at least one, got {self.families!r}")
        if len(self.families) > _MOST_FAMILIES:
            raise ValueError(f"families must be at most {_MOST_FAMILIES}, got {len(self.families)}")
        names = [name for name, *_ in self.families]
        for name, *pool in self.families:
            is_name = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()
            if not is_name or "__" in name or "/" in name or name in self.get_params(False):
                raise ValueError(
                    f"a family must be named by up to {_LONGEST_NAME} printable characters, without '__' and '/', that "
                    f"are no parameter, got {name!r}"
                )
            if names.count(name) > 1:
                raise ValueError(f"families must have different names, got {name!r} twice")
            if len(pool) != 1 or not isinstance(pool[0], Pool) or isinstance(pool[0], UnionPool):
                raise ValueError(
                    f"family {name!r} must be a pool, such as RBFSVMPool() or EstimatorPool(...), and no union, got "
                    f"{pool[0] if len(pool) == 1 else pool!r}"
                )
            with prefix_errors(ValueError, f"family {name!r}"):
                pool[0].check_settings()
        self._shares()

    def _shares(self) -> Array:
        """Return the share of each family in the prior."""
        if self.weights is None:
            return np.full(len(self.families), 1 / len(self.families))
        expected = f"a positive number for each of {len(self.families)} families"
        weights = as_real_array("weights", self.weights, expected)
        if weights.shape != (len(self.families),) or not np.all((weights > 0) & (weights < np.inf)):
            raise ValueError(f"weights must be {expected}, got {self.weights!r}")
        weights = weights / weights.max()  # their sum may be more than a float
        return np.asarray(weights / weights.sum())

    def assumptions(self) -> list[str]:
        return list(dict.fromkeys(code for pool in self.pools for code in pool.assumptions()))

    def usable(self, sample: Sample, loss: Loss) -> Pool:
        found = {name: pool.find_obstacle(sample, loss) for name, pool in self.families}
        obstacles = {name: why for name, why in found.items() if why is not None}
        if obstacles and (self.unusable == "raise" or len(obstacles) == len(self.families)):
            name, why = next(iter(obstacles.items()))
            raise ValueError(f"family {name!r} cannot be trained on this sample: {why}")
        return self.restrict([name for name, _ in self.families if name not in obstacles])

    def restrict(self, names: Collection[str]) -> UnionPool:
        chosen = [k for k, (name, _) in enumerate(self.families) if name in names]
        weights = None if self.weights is None else np.asarray(self.weights)[chosen]
        return UnionPool([self.families[k] for k in chosen], weights=weights, unusable=self.unusable)

    def validation_kwargs(self, X: Any) -> dict[str, Any]:
        asked = [pool.validation_kwargs(X) for pool in self.pools]
        checked = [kwargs for kwargs in asked if not kwargs.get("skip_check_array")]
        if not checked:
            return asked[0]
        needed = any if self.unusable == "drop" else all
        dtypes = [kwargs.get("dtype") for kwargs in checked]
        finite = [kwargs.get("ensure_all_finite", True) for kwargs in checked]
        return {
            "accept_sparse": "csr" if needed(bool(kwargs.get("accept_sparse")) for kwargs in checked) else False,
            "accept_large_sparse": False,
            "ensure_all_finite": next((rule for rule in (True, "allow-nan") if rule in finite), False),
            "dtype": next((dtype for dtype in dtypes if isinstance(dtype, list)), dtypes[0]),
        }

    def check_tables(self) -> None:
        for pool in self.pools:
            pool.check_tables()

    def check_points(self, X: Any) -> None:
        for pool in self.pools:
            pool.check_points(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inputs, needed = [get_tags(pool).input_tags for pool in self.pools], any if self.unusable == "drop" else all
        tags.input_tags.sparse = needed(one.sparse for one in inputs)
        for name in ("allow_nan", "string", "categorical"):
            setattr(tags.input_tags, name, all(getattr(one, name) for one in inputs))
        tags.input_tags.positive_only = any(one.positive_only for one in inputs)
        return tags

    def prepare(self, sample: Sample, entropy: int) -> tuple[Sample, dict[str, Any]]:
        shared: dict[str, Any] = {}
        for name, pool in self.families:
            sample, shared[name] = pool.prepare(sample, derive_entropy(entropy, name))
        return sample, shared

    def uses_device(self, sample: Sample, subsamples: Subsamples) -> bool:
        parts = subsamples.by_family()
        return any(pool.uses_device(sample, parts[name]) for name, pool in self.families if name in parts)

    def default_holdout(self, n: int, *, numeric: bool = False) -> Any:
        table = _HELD_OUT_NUMERIC if numeric else _HELD_OUT
        return Partition(next(shares for least, shares in table if n >= least))

    def draw_subsamples(self, plan: SamplingPlan, n: int, d: int) -> UnionSubsamples:
        """Return the training sets of all families. A number of hypotheses is divided in proportion to their own."""

        def draw(name: str, pool: Pool, n_hypotheses: Any) -> Subsamples:
            entropy = derive_entropy(plan.entropy, "" if pool.shares_subsamples(n) else name)
            own = replace(plan, n_hypotheses=n_hypotheses, entropy=entropy, in_union=True)
            with prefix_errors(ValueError, f"family {name!r}"):
                return pool.draw_subsamples(own, n, d)

        parts = {name: draw(name, pool, "auto") for name, pool in self.families}
        if isinstance(plan.n_hypotheses, str) or plan.subsamples is not None:
            return UnionSubsamples(parts)
        numbers = divide_in_proportion(int(plan.n_hypotheses), [len(part) for part in parts.values()])
        families = zip(self.families, numbers, strict=True)
        return UnionSubsamples({name: draw(name, pool, m) for (name, pool), m in families})

    def weigh_prior(self, subsamples: Subsamples, weights: Array | None) -> Array:
        weights = np.ones(len(subsamples)) if weights is None else weights
        prior = np.empty(len(subsamples))
        for share, own in zip(self._shares(), subsamples.families.values(), strict=True):
            inside = weights[own.start : own.stop]
            prior[own.start : own.stop] = share * inside / inside.sum()
        return prior
