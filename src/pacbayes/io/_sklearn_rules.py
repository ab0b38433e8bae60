"""The rules for scikit-learn's types that a model file may hold: see `pacbayes.io._fitted`."""

from __future__ import annotations

from types import NoneType
from typing import Any

import numpy as np
from sklearn import ensemble, linear_model, model_selection, naive_bayes, neighbors, svm, tree
from sklearn import preprocessing as pre
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from pacbayes._compat import list_column_types
from pacbayes.io._archive import TREE, require, type_name
from pacbayes.io._fitted import Lengths, Rule, check_attributes, is_of_kind

# Metrics without parameters that compiled code would have to trust.
_METRICS = {"minkowski", "euclidean", "manhattan", "chebyshev", "cityblock", "l1", "l2", "sqeuclidean", "cosine"}


def _check_svc(svc: Any, n: Lengths) -> None:
    require(svc._n_support.sum(dtype=np.int64) == n["s"], "support vectors are missing")
    gives_probabilities = svc.probability is True or getattr(svc, "_effective_probability", False)
    require(n["sigmoids"] == (n["pairs"] if gives_probabilities else 0), "_probA has another size")


def _check_tree(owner: Any, n: Lengths) -> None:
    nodes = owner.tree_
    require(type_name(type(nodes)) == TREE, "a decision tree has no nodes")
    # Those of numbers count one class.
    fits = (nodes.max_n_classes, nodes.n_features) == (n.get("k", 1), n["d"])
    require(fits, "a decision tree has other classes or features")


def _check_members(owner: Any, n: Lengths) -> None:
    """Check that an ensemble has as many members as it says, and that these have its classes and features."""
    members, k, d = owner.estimators_, n.get("k"), n["d"]
    least = 1 if isinstance(owner, ensemble.AdaBoostClassifier) else n["n_estimators"]  # boosting may end early
    complete = isinstance(members, list) and least <= len(members) <= n["n_estimators"]
    require(complete, f"a {type(owner).__name__} does not have {n['n_estimators']} members")
    if isinstance(owner, ensemble.AdaBoostClassifier):
        require(n["weights"] >= len(members), "there are too few weights")
    elif isinstance(owner, (ensemble.BaggingClassifier, ensemble.BaggingRegressor)):
        for member, features in zip(members, owner.estimators_features_, strict=True):
            columns = np.asarray(features)
            require(columns.dtype.kind == "i" and ((columns >= 0) & (columns < d)).all(), "features are out of range")
            if k is not None:
                check_attributes(member, {"classes_": "int >=0 <k: known"}, {"k": k})
    else:
        kind = _NUMBER_TREE if k is None else _TREE
        same = (
            RULES[type(one)] is kind and (one.n_features_in_, getattr(one, "n_classes_", None)) == (d, k)
            for one in members
        )
        require(all(same), "the trees of a forest do not fit together")


def _check_neighbors(model: Any, n: Lengths) -> None:
    # The tree of other methods is of a type that the caller trusts, or would not be here.
    require(model._fit_method == "brute" or model._tree is not None, "nearest neighbours have no tree")
    given = {name for name, value in model.effective_metric_params_.items() if value is not None}
    require(not model.metric_params and given <= {"p"}, "the metric has parameters")


def _check_linear(model: Any, n: Lengths) -> None:
    # The ridge classifier of two classes has a vector, and an intercept that is not fitted is a number.
    is_vector = n["k"] == 2 and np.ndim(model.coef_) == 1
    intercept = "finite: outputs" if isinstance(model.intercept_, np.ndarray) else "number"
    table = {"coef_": "finite: d" if is_vector else "finite: outputs d", "intercept_": intercept}
    check_attributes(model, table, n)


def _check_one_hot(encoder: Any, n: Lengths) -> None:
    """Check that no category is encoded in a column that there is not, and that every one of them can be found."""
    merges = encoder.drop_idx_ is not None or getattr(encoder, "_drop_idx_after_grouping", None) is not None
    require(not (merges or getattr(encoder, "_infrequent_enabled", False)), "a one-hot encoder merges categories")
    require(len(encoder.categories_) == n["d"], "a one-hot encoder has other features")
    require(np.dtype(encoder.dtype).kind in "biuf", "a one-hot encoder does not encode by numbers")
    for names in encoder.categories_:
        require(is_of_kind(names, "label") and names.ndim == 1 and names.size, "categories are missing")
        if names.dtype.kind not in "UO":
            # By bisection; NaN is the last, if it is one. Text is found by a table, in any order.
            numbers = names[:-1] if names[-1] != names[-1] else names
            require((numbers[:-1] < numbers[1:]).all(), "the categories of a one-hot encoder are not sorted")
    sizes = [(int, names.size) for names in encoder.categories_]
    stated = [(type(size), size) for size in encoder._n_features_outs]
    require(stated == sizes, "a one-hot encoder has other categories")


def _check_pipeline(pipeline: Any, n: Lengths) -> None:
    named = all(isinstance(step, tuple) and len(step) == 2 and isinstance(step[0], str) for step in pipeline.steps)
    require(isinstance(pipeline.steps, list) and pipeline.steps and named, "a pipeline has no steps")


_SVC = Rule(
    {
        "kernel": {"linear", "poly", "rbf", "sigmoid"},
        "degree": "count",
        "coef0": "number",
        "_gamma cache_size": "number >=0",
        "_n_support": "int32 >=0: k",
        "support_": "int32 >=0: s",
        "support_vectors_": "double rows: s d",
        "dual_coef_ _dual_coef_": "double rows: k-1 s",
        "intercept_ _intercept_": "double rows: pairs",
        "_probA _probB": "double rows: sigmoids",
        "_sparse": {False},
    },
    _check_svc,
    lengths="k d",
)
_LINEAR = Rule(then=_check_linear, lengths="k d")
_NAIVE_BAYES = Rule({"feature_log_prob_": "float: k d", "class_log_prior_": "float: k"}, lengths="k d")
_TREE = Rule({"n_outputs_": "count ==1", "n_classes_": "count ==k"}, _check_tree, least_classes=1, lengths="k d")
_MANY = {"n_estimators": "count >0", "n_classes_": "count ==k"}
_FOREST = Rule({**_MANY, "n_outputs_": "count ==1"}, _check_members, "estimators_", lengths="k d")
_NUMBER_TREE = Rule({"n_outputs_": "count ==1"}, _check_tree, lengths="d")
_NUMBER_FOREST = Rule(
    {"n_estimators": "count >0", "n_outputs_": "count ==1"}, _check_members, "estimators_", lengths="d"
)
_NUMBER_LINEAR = Rule({"coef_": "finite: d", "intercept_": "number"}, lengths="d")
_PLAIN = Rule()

RULES: dict[type, Rule] = {
    # Splitters that need no labels, which `subsamples` and `holdout` may be.
    **dict.fromkeys((model_selection.KFold, model_selection.RepeatedKFold, model_selection.ShuffleSplit), _PLAIN),
    pre.Normalizer: _PLAIN,
    **dict.fromkeys((svm.SVC, svm.NuSVC), _SVC),
    **dict.fromkeys((svm.LinearSVC, linear_model.LogisticRegression, LinearDiscriminantAnalysis), _LINEAR),
    linear_model.RidgeClassifier: _LINEAR._replace(members="_label_binarizer"),
    naive_bayes.GaussianNB: Rule(
        {"theta_": "finite: k d", "var_": "finite >=0: k d", "class_prior_": "finite >=0: k"}, lengths="k d"
    ),
    **dict.fromkeys((naive_bayes.BernoulliNB, naive_bayes.ComplementNB, naive_bayes.MultinomialNB), _NAIVE_BAYES),
    neighbors.KNeighborsClassifier: Rule(
        {
            "n_samples_fit_": "count",
            "n_neighbors": "count >0 <=n_samples_fit_",
            "_fit_X": "finite rows: n_samples_fit_ d",
            "_y": "int >=0 <k: n_samples_fit_",
            "outputs_2d_": {False},
            "weights": {"uniform", "distance", None},
            "metric effective_metric_": _METRICS,
        },
        _check_neighbors,
        lengths="k d",
    ),
    **dict.fromkeys((tree.DecisionTreeClassifier, tree.ExtraTreeClassifier), _TREE),
    **dict.fromkeys((ensemble.RandomForestClassifier, ensemble.ExtraTreesClassifier), _FOREST),
    ensemble.BaggingClassifier: Rule(_MANY, _check_members, "estimators_", lengths="k d"),
    ensemble.AdaBoostClassifier: Rule(
        {**_MANY, "estimator_weights_": "finite: weights"}, _check_members, "estimators_", lengths="k d"
    ),
    **dict.fromkeys((tree.DecisionTreeRegressor, tree.ExtraTreeRegressor), _NUMBER_TREE),
    **dict.fromkeys((ensemble.RandomForestRegressor, ensemble.ExtraTreesRegressor), _NUMBER_FOREST),
    ensemble.BaggingRegressor: Rule({"n_estimators": "count >0"}, _check_members, "estimators_", lengths="d"),
    **dict.fromkeys(
        (
            linear_model.LinearRegression,
            linear_model.Ridge,
            linear_model.Lasso,
            linear_model.ElasticNet,
            linear_model.HuberRegressor,
        ),
        _NUMBER_LINEAR,
    ),
    pre.StandardScaler: Rule({"mean_ scale_ var_": "finite?: d"}, lengths="d"),
    pre.MinMaxScaler: Rule({"min_ scale_": "finite: d"}, lengths="d"),
    pre.MaxAbsScaler: Rule({"scale_": "finite: d"}, lengths="d"),
    pre.RobustScaler: Rule({"center_ scale_": "finite?: d"}, lengths="d"),
    SimpleImputer: Rule({"statistics_": "label: d", "indicator_": NoneType}, lengths="d"),
    PCA: Rule({"components_": "finite: n d", "mean_": "finite: d", "explained_variance_": "finite: n"}, lengths="d"),
    pre.OneHotEncoder: Rule({}, _check_one_hot, lengths="d"),
    ColumnTransformer: Rule(members="transformers transformers_"),
    **dict.fromkeys(list_column_types(), Rule({"data": list})),
    pre.FunctionTransformer: Rule(then=lambda one, _: require(not isinstance(one.func, type), "a function is a type")),
    pre.LabelBinarizer: Rule({"y_type_": {"binary", "multiclass"}}, lengths="k"),
    Pipeline: Rule(then=_check_pipeline, members="steps"),
    FrozenEstimator: Rule(members="estimator"),
}
