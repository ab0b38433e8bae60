"""Trained ensembles of trees, boosted ones and forests, kept as plain arrays: what they need to predict, and no more.

A tree is the sequence of its nodes, left before right, in which -1 stands for a leaf: that says which children a node
has, and a damaged file cannot lead anywhere else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.pools import _scores, _tree_training
from pacbayes.pools._base import Codes
from pacbayes.pools._layout import contiguous, count_outputs
from pacbayes.pools._score_models import ModelArrays, Parts, ScoreModels
from pacbayes.pools._table_encoding import TableEncoding, Targets, compiled_targets

# Share of the points whose errors are squared by a loss of numbers; larger ones are absolute.
_SQUARED_SHARE = {"squared": 1.0, "huber": 0.7}

# Larger numbers are taken for this one by forests: scikit-learn adds them up in single precision.
_LARGEST_SINGLE = 1e30


@dataclass(frozen=True, eq=False)
class TreeArrays(ModelArrays):
    """Ensembles of trees, in arrays that hold the parts of one after another."""

    # Whether scores are log-odds, to which every tree adds in one output, or sums of probabilities. Numbers are sums of
    # leaves in both.
    kind: Literal["boosting", "forest"]
    learning_rate: Annotated[Array, Parts("models", "double nan")]  # what leaves were multiplied by; NaN for forests
    n_features: Annotated[NDArray[Any], Parts("models", "int >0")]
    n_set_features: Annotated[NDArray[Any], Parts("models", "int >=0")]  # of these, the first, which are split by sets
    baseline: Annotated[Array, Parts("outputs", "double rows")]  # what the outputs of each ensemble begin with
    tree_sizes: Annotated[NDArray[Any], Parts("trees", "int >0")]  # number of nodes of each tree
    feature: Annotated[NDArray[Any], Parts("nodes", "int >=-1")]  # that each node splits by, -1 for a leaf
    threshold: Annotated[NDArray[Any], Parts("splits", "float")]  # the largest number that goes to the left
    missing_left: Annotated[NDArray[np.bool_], Parts("splits", "bool rows")]  # whether a missing number does
    # For each split by a category, the bits of those that go to the left.
    sets: Annotated[NDArray[np.uint64], Parts("sets", "uint64 rows", (4,))]
    leaf: Annotated[NDArray[Any], Parts("leaves", "int >=0")]  # which of the values of its ensemble each leaf has
    values: Annotated[Array, Parts("values", "double rows")]  # of one output if trees are boosted, or of all
    # How rows of a table become features, as in `TableEncoding`.
    columns: Annotated[NDArray[Any], Parts("inputs", "int >=0")]
    table_sizes: Annotated[NDArray[Any], Parts("inputs", "int >=-1")]
    tables: Annotated[Array, Parts("entries", "double nan rows")]

    _BEGINNING = "baseline"
    _ADDED = ("values",)

    @classmethod
    def of(
        cls,
        kind: Literal["boosting", "forest"],
        class_codes: Any,
        n_features: int,
        encoding: TableEncoding | None,
        *,
        failed: bool = False,
        learning_rate: float = np.nan,
        **trees: Any,
    ) -> TreeArrays:
        """Return one ensemble; a constant if no trees are given."""
        kept = {
            "kind": kind,
            "baseline": np.zeros(int(count_outputs(len(class_codes)))),
            "threshold": np.empty(0, dtype=np.float64 if kind == "boosting" else np.float32),
            **trees,
        }
        if encoding is not None:
            kept |= {"columns": encoding.columns, "table_sizes": encoding.table_sizes, "tables": encoding.tables}
        n_sets = 0 if encoding is None else encoding.n_sets
        entries = {"learning_rate": float(learning_rate), "n_features": n_features, "n_set_features": n_sets}
        return cls.of_one(class_codes, failed=failed, kept=kept, **entries)

    @classmethod
    def train_boosting(
        cls, X: Array, targets: Targets, class_codes: Codes, encoding: TableEncoding | None, settings: Any, seed: int
    ) -> TreeArrays:
        """Train boosted trees on classes numbered from 0, or on numbers if there are none, by settings of the pool."""
        baseline = _log_odds(targets) if len(class_codes) else np.array([targets.mean()])
        trees = _tree_training.boost(
            X,
            0 if encoding is None else encoding.n_sets,
            compiled_targets(targets),
            baseline,
            learning_rate=float(settings["learning_rate"]),
            n_rounds=int(settings["max_iter"]),
            max_leaves=int(settings["max_leaf_nodes"]),
            min_leaf=int(settings["min_samples_leaf"]),
            n_candidates=max(1, math.ceil(settings["max_features"] * X.shape[1])),
            l2=float(settings["l2_regularization"]),
            seed=seed,
            squared_share=_SQUARED_SHARE[settings["loss"]],
            max_samples=float(settings["max_samples"]),
            random_strength=float(settings["random_strength"]),
            is_symmetric=settings["kind"] == "symmetric",
        )
        parts, rate = _from_compiled(trees, np.float64), settings["learning_rate"]
        with np.errstate(over="ignore"):
            if not np.isfinite(np.abs(parts["values"]).sum()):
                raise ValueError(f"learning_rate must be smaller, got {rate!r}: sums of leaves overflow")
        return cls.of("boosting", class_codes, X.shape[1], encoding, learning_rate=rate, baseline=baseline, **parts)

    @classmethod
    def train_extra(
        cls,
        X: NDArray[Any],
        targets: Targets,
        class_codes: Codes,
        encoding: TableEncoding | None,
        settings: Any,
        seed: int,
    ) -> TreeArrays:
        """Train extremely randomised trees on a subsample, whose classes are numbered from 0; or of numbers."""
        share, d = settings["max_features"], X.shape[1]
        trees = _tree_training.randomise(
            X,
            compiled_targets(targets),
            n_classes=len(class_codes),
            n_trees=int(settings["n_estimators"]),
            min_leaf=int(settings["min_samples_leaf"]),
            max_leaves=len(X) if settings["max_leaf_nodes"] is None else int(settings["max_leaf_nodes"]),
            n_candidates=max(1, math.isqrt(d) if share == "sqrt" else int(share * d)),
            seed=seed,
        )
        return cls.of("forest", class_codes, d, encoding, **_from_compiled(trees, np.float32))._averaged()

    @classmethod
    def of_forest(cls, model: Any, class_codes: Any, encoding: TableEncoding | None = None) -> TreeArrays:
        """Return what a trained forest of scikit-learn predicts by, a classifier, or a regressor without classes."""
        trees = [member.tree_ for member in model.estimators_]
        tree_sizes = np.array([tree.node_count for tree in trees])
        left, right, feature, threshold, missing_left = (
            np.concatenate([getattr(tree, name) for tree in trees])
            for name in ("children_left", "children_right", "feature", "threshold", "missing_go_to_left")
        )
        begins = np.repeat(np.cumsum(tree_sizes) - tree_sizes, tree_sizes)
        is_split = left != -1
        order = left_first(left + begins, right + begins, is_split, tree_sizes)
        is_split = is_split[order]
        probabilities = np.concatenate([tree.value[:, 0] for tree in trees])[order][~is_split]
        # Of two classes, by how much the second is more probable than not.
        values, leaf = distinct_leaves(probabilities[:, 1:] - 0.5 if probabilities.shape[1] == 2 else probabilities)
        return cls.of(
            "forest",
            class_codes,
            model.n_features_in_,
            encoding,
            tree_sizes=tree_sizes,
            feature=np.where(is_split, feature[order], -1),
            threshold=_round_down(threshold[order][is_split]),
            missing_left=missing_left[order][is_split] != 0,
            leaf=leaf,
            values=values,
        )._averaged()

    def _averaged(self) -> TreeArrays:
        """Return a forest, in which the leaves of numbers are divided by the number of trees: their sum is the mean."""
        return self if self.class_codes.size else replace(self, values=self.values / self.tree_sizes.size)

    def compiled(self, j: int) -> Any:
        """Return an ensemble as compiled code reads it, checked; made once as long as these arrays live."""
        known = _COMPILED.setdefault(self, {})
        if j not in known:
            known[j] = _scores.Trees(
                n_features=int(self.n_features[j]),
                n_set_features=int(self.n_set_features[j]),
                n_outputs=int(self.size("outputs")[j]),
                one_output_each=self.kind == "boosting",
                tree_sizes=self.part("tree_sizes", j).astype(np.int64),
                feature=self.part("feature", j).astype(np.int32),
                threshold=self.part("threshold", j).astype(np.float64),
                missing_left=self.part("missing_left", j),
                sets=self.part("sets", j),
                leaf=self.part("leaf", j).astype(np.int32),
                values=self.part("values", j),
            )
        return known[j]

    def encoding(self, j: int) -> TableEncoding:
        """Return how rows of a table become features of an ensemble."""
        return TableEncoding(
            self.part("columns", j), self.part("table_sizes", j), self.part("tables", j), int(self.n_set_features[j])
        )

    def convert(self, X: Any) -> NDArray[Any]:
        return super().convert(X) if self.kind == "boosting" or self.columns.size else to_single(X)

    def scores(self, j: int, X: NDArray[Any]) -> Array:
        if self.columns.size:
            X = self.encoding(j).encode(X, np.float64 if self.kind == "boosting" else np.float32)
        scores = np.empty((X.shape[0], int(self.size("outputs")[j])))
        scores[:] = self.part("baseline", j)
        self.compiled(j).add_scores(X, scores)
        return scores

    def to_probabilities(self, j: int, scores: Array) -> Array:
        if self.kind == "boosting":
            return super().to_probabilities(j, scores)
        mean = scores / int(self.size("trees")[j])
        return mean + 0.5 if mean.shape[1] == 1 else mean

    def describe(self, j: int) -> str:
        n_trees = int(self.size("trees")[j])
        if self.kind == "forest":
            return f"forest: {n_trees} trees of {self.size('leaves')[j] / n_trees:.0f} leaves on average"
        rounds, largest = n_trees // int(self.size("outputs")[j]), int(self.part("tree_sizes", j).max()) // 2 + 1
        leaves = "1 leaf" if largest == 1 else f"up to {largest} leaves"
        return f"boosted trees: {rounds} rounds of {leaves}, rate {self.learning_rate[j]:g}"


class TreeEnsembles(ScoreModels):
    """Trained ensembles of trees, read as a sequence of `ScoreModel` and stored as a few arrays."""

    models: TreeArrays


def _log_odds(codes: Targets) -> Array:
    """Return the scores that stand for the shares of the classes."""
    share = np.bincount(codes) / codes.size
    return np.asarray(np.log(share[1:] / share[0]) if share.size == 2 else np.log(share) - np.log(share).mean())


def _from_compiled(trees: dict[str, NDArray[Any]], threshold_type: Any) -> dict[str, Any]:
    """Return trees that compiled code has grown as arrays of their types."""
    return {
        **trees,
        "threshold": trees["threshold"].astype(threshold_type),
        "missing_left": trees["missing_left"] != 0,
        "sets": trees["sets"].reshape(-1, 4),
    }


def to_single(X: Any) -> NDArray[np.float32]:
    """Return points as forests read them: in single precision, with larger numbers taken for the largest."""
    X = contiguous(X)
    single: NDArray[np.float32] = np.clip(X, -_LARGEST_SINGLE, _LARGEST_SINGLE).astype(np.float32, copy=False)
    return single


def _round_down(thresholds: Array) -> NDArray[np.float32]:
    """Return thresholds in single precision: no number of single precision is on another side of them."""
    with np.errstate(over="ignore"):
        single = thresholds.astype(np.float32)
    return np.where(single > thresholds, np.nextafter(single, np.float32(-np.inf)), single)


def distinct_leaves(leaves: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the different values of leaves, in the order in which they appear, and which of them each leaf has."""
    _, first, number = np.unique(leaves, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.arange(order.size)
    return np.ascontiguousarray(leaves[first[order]]).ravel(), place[number.ravel()]


def left_first(
    left: NDArray[Any], right: NDArray[Any], is_split: NDArray[np.bool_], tree_sizes: Sequence[int] | NDArray[Any]
) -> NDArray[np.intp]:
    """Return the nodes of trees in the order in which they are met when left children come before right ones."""
    everyone = np.arange(left.size)
    # They are in this order already if every left child follows its node, and every right child what is below the left
    # one: there, leaves are one more than splits.
    leaves_ahead = np.concatenate(([0], np.cumsum(np.where(is_split, -1, 1))))
    children = left[is_split], right[is_split]
    follows = np.array_equal(children[0], everyone[is_split] + 1)
    if follows and (leaves_ahead[children[1]] - leaves_ahead[children[0]] == 1).all():
        return everyone
    order = []
    for root in np.cumsum(tree_sizes) - tree_sizes:
        waiting = [int(root)]
        while waiting:
            node = waiting.pop()
            order.append(node)
            if is_split[node]:
                waiting += [int(right[node]), int(left[node])]
    return np.array(order, dtype=np.intp)


# Ensembles as compiled code reads them, as long as their arrays live, which do not change.
_COMPILED: WeakKeyDictionary[TreeArrays, dict[int, Any]] = WeakKeyDictionary()
