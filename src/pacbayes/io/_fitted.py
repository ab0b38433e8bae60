"""Check that the fitted arrays of a loaded model fit together, for every type that a model file may hold.

Compiled code follows counts and indices without looking: a support vector machine that claims more support vectors than
it has reads beyond its arrays. So a type is trusted only if there is a check for it here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import discriminant_analysis, ensemble, linear_model, model_selection, naive_bayes, neighbors, svm, tree
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    LabelBinarizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from pacbayes import sampling
from pacbayes.classifier import PACBayesClassifier
from pacbayes.ensemble import Ensemble, Split
from pacbayes.exceptions import ModelFileError
from pacbayes.io.encoder import ColumnEncoder
from pacbayes.losses import resolve_loss
from pacbayes.pools import (
    CodeBook,
    Constant,
    EstimatorPool,
    Hypotheses,
    HypothesisGroups,
    HypothesisList,
    PrefitPool,
    RBFSVMPool,
    RBFSVMs,
    Untrained,
    as_pool,
)
from pacbayes.recognition import TrainingRows

Check = Callable[[Any], None]

# Metrics without parameters that compiled code would have to trust.
_METRICS = ("minkowski", "euclidean", "manhattan", "chebyshev", "cityblock", "l1", "l2", "sqeuclidean", "cosine")

# Private attributes of estimators that are not fitted.
_CONFIGURATION = ("_sklearn", "_metadata_request")


def check_objects(root: Any, trusted: Collection[str]) -> None:
    """Raise ModelFileError if an object that can be reached from `root` is not consistent.

    Parameters
    ----------
    root : object
        A loaded model.
    trusted : collection of str
        Names of types that the caller trusts, which are not checked.
    """
    for part in _reachable(root):
        kind = type(part)
        if isinstance(part, np.random.RandomState):
            _check_random_state(part)
        elif type_name(kind) not in trusted and kind in CHECKS:
            _check_methods(part)
            if hasattr(part, "get_params"):
                part.get_params(deep=False)  # all of its settings are there
            if _is_fitted(part):
                CHECKS[kind](part)


def type_name(kind: type) -> str:
    """Return the name of a type as model files spell it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def require(condition: Any, message: str) -> None:
    """Raise ModelFileError with a message unless a condition holds."""
    if not condition:
        raise ModelFileError(message)


def _reachable(root: Any) -> Iterator[Any]:
    """Yield all objects that can be reached from one, each once."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, (str, bytes, int, float, type(None))):
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple, set)) or (isinstance(part, np.ndarray) and part.dtype == object):
            waiting.extend(part)
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            waiting.extend(vars(part).values())


def _check_methods(part: Any) -> None:
    """Refuse attributes that would take the place of a method."""
    for name in vars(part):
        require(not callable(getattr(type(part), name, None)), f"a {type(part).__name__} has no method {name!r}")


def _is_fitted(part: Any) -> bool:
    """Return whether an object is more than settings: it has attributes that only `fit` gives."""
    return not hasattr(part, "get_params") or any(
        name.endswith("_") or (name.startswith("_") and not name.startswith(_CONFIGURATION)) for name in vars(part)
    )


# ---------------------------------------------------------------------------------------------------
# Arrays
# ---------------------------------------------------------------------------------------------------


def _array(owner: Any, name: str, kinds: str, *shape: int) -> Any:
    """Return an attribute, if it is an array of a kind and shape, without NaN. -1 stands for any length."""
    value = getattr(owner, name)
    what = f"{name} of a {type(owner).__name__}"
    require(isinstance(value, np.ndarray) and value.dtype.kind in kinds, f"{what} is no array of its kind")
    expected = tuple(length if length >= 0 else actual for length, actual in zip(shape, value.shape, strict=False))
    require(value.shape == expected and value.ndim == len(shape), f"{what} has shape {value.shape}, not {expected}")
    require(value.dtype.kind != "f" or not np.isnan(value).any(), f"{what} holds NaN")
    return value


def _finite(owner: Any, name: str, *shape: int) -> Any:
    value = _array(owner, name, "f", *shape)
    require(np.isfinite(value).all(), f"{name} of a {type(owner).__name__} is not finite")
    return value


def _whole(owner: Any, name: str, low: int, high: int = 2**31 - 1) -> int:
    """Return an attribute, if it is a whole number in a range."""
    value = getattr(owner, name)
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    require(is_whole and low <= value <= high, f"{name} of a {type(owner).__name__} is out of range")
    return int(value)


def _number(owner: Any, name: str, low: float = -np.inf) -> float:
    """Return an attribute, if it is a finite number, at least `low`."""
    value = getattr(owner, name)
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    require(is_number and np.isfinite(value) and value >= low, f"{name} of a {type(owner).__name__} is out of range")
    return float(value)


def _classes(owner: Any, name: str = "classes_", *, least: int = 2) -> int:
    """Return the number of classes, if the labels are sorted and different."""
    labels = _array(owner, name, "biufUO", -1)
    if labels.dtype == object:
        require(len({type(label) for label in labels}) == 1, f"{name} of a {type(owner).__name__} mixes types")
    require(labels.size >= least, f"a {type(owner).__name__} has {labels.size} classes")
    require(all(labels[:-1] < labels[1:]), f"{name} of a {type(owner).__name__} is not sorted")
    return int(labels.size)


def _features(owner: Any) -> int:
    return _whole(owner, "n_features_in_", 1)


# ---------------------------------------------------------------------------------------------------
# The library's own
# ---------------------------------------------------------------------------------------------------


def _check_classifier(model: Any) -> None:
    _classes(model)
    _features(model)
    model._check_settings(as_pool(model.estimator))
    resolve_loss(model.loss, model.classes_)
    require(model._entropy >= 0, "the seed is negative")
    require(type(model._training_rows) is TrainingRows, "the rows of the sample are missing")
    book = model._code_book
    require(book is None or type(book) is CodeBook, "the code book is of no kind")
    require(book is None or len(book.names) == model.n_features_in_, "the code book has other columns")
    for vote in model.votes_:
        n_votes = vote.certificate.n_votes
        require(n_votes == len(model.votes_) * model.n_candidates, f"a certificate is about {n_votes} competing votes")
        require(np.array_equal(vote.hypotheses.classes, model.classes_), "hypotheses have other classes")
        groups = vote.hypotheses.groups.values() if isinstance(vote.hypotheses, HypothesisGroups) else [vote.hypotheses]
        for group in groups:
            if isinstance(group, RBFSVMs):
                require(group.code_book == book, "hypotheses have another code book")
                n_features = model.n_features_in_ if book is None else book.n_features
                require(group.points.shape[1] == n_features, "support vectors have other features")
            elif not isinstance(group, Untrained):
                require(book is None, f"a {type(group).__name__} has no code book")


def _check_ensemble(vote: Any) -> None:
    require(isinstance(vote.hypotheses, Hypotheses) and isinstance(vote.subsamples, sampling.Subsamples), "parts miss")
    require(type(vote.split) is Split, "a vote has no rows")
    m = len(vote.hypotheses)
    require(m >= 1, "a vote has no hypotheses")
    totals, rho = _finite(vote, "totals", m), _finite(vote, "posterior", m)
    seen, n_validation = _array(vote, "seen", "i", m), vote.subsamples.n_validation
    require(((seen >= 0) & (seen <= n_validation)).all(), "more points were seen than there are")
    require(((totals >= 0) & (totals <= seen)).all(), "losses are not in [0, 1]")
    require((rho >= 0).all() and abs(rho.sum() - 1) < 1e-6, "posterior is no distribution")
    require(not rho[seen < n_validation].any(), "a hypothesis that was dropped has weight")
    if isinstance(vote.hypotheses, HypothesisGroups):
        for k, group in enumerate(vote.hypotheses.groups.values()):
            seen_by_none = not isinstance(group, Untrained) or not seen[vote.hypotheses.kind == k].any()
            require(seen_by_none, "a hypothesis that was not trained has a loss")
    require(not isinstance(vote.hypotheses, Untrained), "no hypothesis was trained")
    if vote.split.rows is not None:
        require(vote.split.rows.size >= vote.subsamples.n, "a vote was made of fewer rows than its subsamples")


def _check_split(split: Any) -> None:
    require(isinstance(split.entropy, int) and split.entropy >= 0, "the seed is negative")
    require((split.rows is None) == (split.held_out is None), "rows are held out from nothing")
    if split.rows is not None:
        rows, held_out = _array(split, "rows", "i", -1), _array(split, "held_out", "i", -1)
        together = np.sort(np.concatenate((rows, held_out)))
        require(np.array_equal(together, np.arange(together.size)), "rows are held out and not held out")


def _check_training_rows(rows: Any) -> None:
    hashes = _array(rows, "hashes", "u", -1)
    require(hashes.dtype == np.uint64 and (hashes[:-1] < hashes[1:]).all(), "hashes are not sorted")
    shift = _whole(rows, "shift", 0, 63)
    require(hashes.size or shift, "there are no hashes")
    require(not hashes.size or int(hashes[-1]) < 2 ** (64 - shift), "hashes do not begin with zeros")
    require(0 <= _number(rows, "repeated") <= 1, "a share is out of range")
    require(isinstance(rows.whole, str), "the digest of the sample is no text")
    exact = rows.exact
    kind = type(exact) is TrainingRows and exact.exact is None and exact.shift == shift
    require(exact is None or kind, "the exact hashes are no hashes of the same rows")


def _check_groups(groups: Any) -> None:
    n_labels = _classes(groups, "classes")
    kind = _array(groups, "kind", "i", -1)
    require(isinstance(groups.groups, dict) and list(groups.groups) == sorted(groups.groups), "groups are not sorted")
    sizes = []
    for group in groups.groups.values():
        require(isinstance(group, Hypotheses) and not isinstance(group, HypothesisGroups), "a group is of no kind")
        require(group.classes.size == n_labels and np.array_equal(group.classes, groups.classes), "classes differ")
        sizes.append(len(group))
    require(((kind >= 0) & (kind < len(sizes))).all(), "kind is out of range")
    require(np.bincount(kind, minlength=len(sizes)).tolist() == sizes, "groups have other sizes")


def _check_svms(svms: Any) -> None:
    """Check the arrays of all SVMs in the engine's layout."""
    n_labels = _classes(svms, "classes")
    k = _array(svms, "n_classes", "i", -1).astype(np.int64)
    m = k.size
    require(((k >= 1) & (k <= n_labels)).all(), "n_classes is out of range")
    starts = np.concatenate(([0], np.cumsum(k)))
    codes = _array(svms, "class_codes", "i", int(starts[-1]))
    n_support = _array(svms, "n_support", "i", codes.size)
    require(((codes >= 0) & (codes < min(n_labels, 2**16))).all(), "class_codes is out of range")
    rises = np.ones(codes.size, dtype=bool)
    rises[1:] = codes[1:] > codes[:-1]
    rises[starts[:-1]] = True
    require(rises.all(), "class_codes is not sorted")
    require((n_support >= 0).all(), "n_support is negative")
    s = np.add.reduceat(n_support, starts[:-1], dtype=np.int64)
    support = _array(svms, "support", "i", int(s.sum()))
    _finite(svms, "dual_coef", int(((k - 1) * s).sum()))
    _finite(svms, "intercept", int((k * (k - 1) // 2).sum()))
    require((_finite(svms, "gamma", m) >= 0).all(), "gamma is negative")
    require((_finite(svms, "C", m) > 0).all(), "C is not positive")
    _array(svms, "failed", "b", m)
    _whole(svms, "working_memory", 0, 2**50)
    require(svms.engine in ("auto", "cpu", "cuda"), "engine is unknown")
    d = _check_points(svms, support)
    book = svms.code_book
    if book is not None:
        require(type(book) is CodeBook and book.n_features == d, "the code book has other features")
        require(svms.shared_scale is None, "the numbers of a table have a scale in common")
        require((_finite(svms, "scale", m, d) >= 0).all(), "scale is negative")
        _finite(svms, "fill", m, book.n_numbers)
    elif issparse(svms.scale):
        _check_csr(svms.scale, m, d)
    elif svms.scale is not None:
        _finite(svms, "scale", m, d)
    require(book is not None or svms.fill is None, "fill is of no table")
    if svms.shared_scale is not None:
        _finite(svms, "shared_scale", d)
    for name in ("n_classes", "class_codes", "n_support", "support", "rows"):
        require(getattr(svms, name).dtype == np.int32, f"{name} is not of type int32")


def _check_points(svms: Any, support: Any) -> int:
    """Check the stored support vectors, and return their number of features."""
    rows, points = _array(svms, "rows", "i", -1), svms.points
    require((rows[:-1] < rows[1:]).all() and (rows >= 0).all(), "rows is not sorted")
    require(np.isin(support, rows).all(), "support names rows that are not stored")
    if issparse(points):
        _check_csr(points, rows.size, points.shape[1])
        return int(points.shape[1])
    # Numbers of a table may be missing.
    n_numbers = svms.code_book.n_numbers if type(svms.code_book) is CodeBook else 0
    stored = svms.points
    require(isinstance(stored, np.ndarray) and stored.ndim == 2 and stored.shape[0] == rows.size, "points miss")
    missing = np.isnan(stored[:, :n_numbers])
    require(np.isfinite(stored[:, n_numbers:]).all(), "points is not finite")
    require((missing | np.isfinite(stored[:, :n_numbers])).all(), "points is not finite")
    require(stored.dtype == np.float64 and stored.flags.c_contiguous, "points is not laid out in rows")
    return int(stored.shape[1])


def _check_csr(matrix: Any, *shape: int) -> None:
    require(matrix.format == "csr" and matrix.shape == shape, f"a sparse matrix is not of shape {shape}")
    matrix.check_format(full_check=True)
    require(matrix.data.dtype.kind == "f" and np.isfinite(matrix.data).all(), "a sparse matrix is not finite")


def _check_code_book(book: Any) -> None:
    for name, kinds in (
        ("names", (str,)),
        ("dates", (bool,)),
        ("gaps", (bool,)),
        ("categories", (tuple, type(None))),
    ):
        entries = getattr(book, name)
        require(isinstance(entries, tuple) and len(entries) == len(book.names), f"{name} of a code book is no tuple")
        require(all(type(entry) in kinds for entry in entries), f"{name} of a code book is of another type")
    for labels, is_date in zip(book.categories, book.dates, strict=True):
        require(labels is None or not is_date, "a column of dates has categories")
        require(labels is None or all(type(label) is str for label in labels), "a category is no text")
        require(labels is None or len(set(labels)) == len(labels), "a category is there twice")


def _check_hypothesis_list(hypotheses: Any) -> None:
    _classes(hypotheses, "classes")
    require(isinstance(hypotheses.members, list), "the hypotheses are no list")
    for member in hypotheses.members:
        require(callable(getattr(member, "predict", None)), f"a {type(member).__name__} is no hypothesis")


def _check_untrained(hypotheses: Any) -> None:
    _classes(hypotheses, "classes")
    _whole(hypotheses, "size", 0)


def _check_subsamples(subsamples: Any) -> None:
    n = _whole(subsamples, "n", 1)
    sizes = _array(subsamples, "sizes", "i", -1)
    require(((sizes >= 0) & (sizes < n)).all(), "subsamples are larger than the sample")
    if isinstance(subsamples, sampling.RandomSubsamples):
        require((sizes >= 1).all() and subsamples.entropy >= 0, "subsamples are empty")


def _check_given_subsamples(subsamples: Any) -> None:
    _check_subsamples(subsamples)
    again = sampling.GivenSubsamples(subsamples.n, subsamples._index_sets)
    require(np.array_equal(again.sizes, subsamples.sizes), "subsamples do not have their sizes")
    same = (np.array_equal(a, b) for a, b in zip(again, subsamples, strict=True))
    require(all(same), "subsamples are not sorted")


def _check_encoder(encoder: Any) -> None:
    numeric, text = len(encoder.numeric), len(encoder.text)
    for name in ("fill_", "center_", "scale_"):
        _finite(encoder, name, numeric)
    require((encoder.scale_ > 0).all(), "scale_ is not positive")
    _array(encoder, "missing_", "b", text)
    require(len(encoder.categories_) == text, "categories_ has another number of columns")
    for names in encoder.categories_:
        require(isinstance(names, list) and all(isinstance(name, str) for name in names), "categories_ is no text")


def _check_random_state(random_state: np.random.RandomState) -> None:
    state: Any = random_state.get_state(legacy=False)
    # Drawing reads the word at this position, wherever that is.
    require(0 <= state["state"]["pos"] <= len(state["state"]["key"]), "a random state is out of range")


# ---------------------------------------------------------------------------------------------------
# scikit-learn's classifiers
# ---------------------------------------------------------------------------------------------------


def _check_svc(svc: Any) -> None:
    k, d = _classes(svc), _features(svc)
    require(svc._sparse is False, "a support vector machine was trained on sparse data")
    require(svc.kernel in ("linear", "poly", "rbf", "sigmoid"), "a support vector machine has an unknown kernel")
    n_support = _array(svc, "_n_support", "i", k)
    require((n_support >= 0).all(), "_n_support is negative")
    total, pairs = int(n_support.sum(dtype=np.int64)), k * (k - 1) // 2
    require((_array(svc, "support_", "i", total) >= 0).all(), "support_ is negative")
    require(_finite(svc, "support_vectors_", total, d).flags.c_contiguous, "support_vectors_ is not laid out in rows")
    for name in ("dual_coef_", "_dual_coef_"):
        require(_finite(svc, name, k - 1, total).flags.c_contiguous, f"{name} is not laid out in rows")
    for name in ("intercept_", "_intercept_"):
        _finite(svc, name, pairs)
    probabilities = pairs if svc.probability is True or getattr(svc, "_effective_probability", False) else 0
    for name in ("_probA", "_probB"):
        _finite(svc, name, probabilities)
    _whole(svc, "degree", 0)
    _number(svc, "coef0")
    _number(svc, "_gamma", 0)
    _number(svc, "cache_size", 0)


def _check_tree(owner: Any) -> None:
    """Check that following a decision tree cannot leave its nodes or the features, and ends."""
    k, d = _classes(owner, least=1), _features(owner)
    require(owner.n_outputs_ == 1 and owner.n_classes_ == k, "a decision tree has other classes")
    nodes = owner.tree_
    require(nodes.n_features == d and nodes.n_outputs == 1 and nodes.max_n_classes == k, "a tree has other features")
    require(1 <= nodes.node_count <= nodes.capacity, "a decision tree has no nodes")
    left, right, feature = nodes.children_left, nodes.children_right, nodes.feature
    inner = np.flatnonzero(left != -1)
    children = np.stack((left[inner], right[inner]))
    leads_on = ((children > inner) & (children < left.size)).all()
    known = ((feature[inner] >= 0) & (feature[inner] < d)).all()
    require(leads_on and known, "a decision tree has nodes that lead nowhere")
    require(np.isfinite(nodes.value).all() and not np.isnan(nodes.threshold).any(), "a decision tree is not finite")


def _check_forest(forest: Any) -> None:
    k, d = _classes(forest), _features(forest)
    require(forest.n_outputs_ == 1 and forest.n_classes_ == k, "a forest has other classes")
    trees = _members(forest)
    same = (member.n_features_in_ == d and member.n_classes_ == k for member in trees)
    require(all(same), "the trees of a forest do not fit together")


def _check_bagging(bagging: Any) -> None:
    k, d = _classes(bagging), _features(bagging)
    require(bagging.n_classes_ == k, "bagged classifiers have other classes")
    for member, features in zip(_members(bagging), bagging.estimators_features_, strict=True):
        columns = np.asarray(features)
        require(columns.dtype.kind == "i" and ((columns >= 0) & (columns < d)).all(), "features are out of range")
        codes = _array(member, "classes_", "i", -1)
        require(((codes >= 0) & (codes < k)).all(), "bagged classifiers have other classes")


def _check_boosting(boosting: Any) -> None:
    k = _classes(boosting)
    require(boosting.n_classes_ == k, "boosted classifiers have other classes")
    require(_finite(boosting, "estimator_weights_", -1).size >= len(_members(boosting)), "there are too few weights")


def _members(owner: Any) -> Any:
    members = owner.estimators_
    require(isinstance(members, list) and members, f"a {type(owner).__name__} has no members")
    return members


def _check_neighbors(model: Any) -> None:
    k, d = _classes(model), _features(model)
    # The tree of other methods is of a type that the caller trusts, or would not be here.
    require(model._fit_method == "brute" or model._tree is not None, "nearest neighbours have no tree")
    points = _finite(model, "_fit_X", -1, d)
    require(points.flags.c_contiguous and model.n_samples_fit_ == len(points), "_fit_X is not laid out in rows")
    codes = _array(model, "_y", "i", len(points))
    require(((codes >= 0) & (codes < k)).all() and model.outputs_2d_ is False, "_y is out of range")
    _whole(model, "n_neighbors", 1, len(points))
    require(model.weights in ("uniform", "distance", None), "weights are unknown")
    require(model.effective_metric_ in _METRICS, "the metric is unknown")
    require(set(model.effective_metric_params_) <= {"p"}, "the metric has parameters")


def _check_linear(model: Any) -> None:
    k, d = _classes(model), _features(model)
    rows = 1 if k == 2 else k
    # The ridge classifier of two classes has a vector.
    _finite(model, "coef_", *((d,) if k == 2 and np.ndim(model.coef_) == 1 else (rows, d)))
    if isinstance(model.intercept_, np.ndarray):
        _finite(model, "intercept_", rows)
    else:
        _number(model, "intercept_")


def _check_gaussian(model: Any) -> None:
    k, d = _classes(model), _features(model)
    for name in ("theta_", "var_"):
        _finite(model, name, k, d)
    require((model.var_ >= 0).all() and (_finite(model, "class_prior_", k) >= 0).all(), "a variance is negative")


def _check_naive_bayes(model: Any) -> None:
    k, d = _classes(model), _features(model)
    _array(model, "feature_log_prob_", "f", k, d)
    _array(model, "class_log_prior_", "f", k)


# ---------------------------------------------------------------------------------------------------
# scikit-learn's transformers
# ---------------------------------------------------------------------------------------------------


def _per_feature(*names: str) -> Check:
    """Return a check for attributes with a number for each feature, or None."""

    def check(transformer: Any) -> None:
        d = _features(transformer)
        for name in names:
            if getattr(transformer, name) is not None:
                _finite(transformer, name, d)

    return check


def _check_imputer(imputer: Any) -> None:
    _array(imputer, "statistics_", "biufUO", _features(imputer))
    require(imputer.indicator_ is None, "an imputer has an indicator")


def _check_pca(pca: Any) -> None:
    d, n = _features(pca), _whole(pca, "n_components_", 1)
    _finite(pca, "components_", n, d)
    _finite(pca, "mean_", d)
    _finite(pca, "explained_variance_", n)


def _check_one_hot(encoder: Any) -> None:
    """Check that no category is encoded in a column that there is not."""
    d = _features(encoder)
    plain = encoder.drop_idx_ is None and not getattr(encoder, "_infrequent_enabled", False)
    require(plain, "a one-hot encoder leaves out or merges categories")
    require(len(encoder.categories_) == d, "a one-hot encoder has other features")
    sizes = [names.size for names in encoder.categories_]
    require(list(encoder._n_features_outs) == sizes, "a one-hot encoder has other categories")


def _check_pipeline(pipeline: Any) -> None:
    named = all(isinstance(step, tuple) and len(step) == 2 and isinstance(step[0], str) for step in pipeline.steps)
    require(isinstance(pipeline.steps, list) and pipeline.steps and named, "a pipeline has no steps")


def _nothing(part: Any) -> None:
    """For types that hold other objects or settings only, and read no array by its position."""


CHECKS: dict[type, Check] = {
    PACBayesClassifier: _check_classifier,
    Ensemble: _check_ensemble,
    Split: _check_split,
    TrainingRows: _check_training_rows,
    HypothesisGroups: _check_groups,
    RBFSVMs: _check_svms,
    CodeBook: _check_code_book,
    HypothesisList: _check_hypothesis_list,
    Untrained: _check_untrained,
    Constant: _nothing,
    EstimatorPool: _nothing,
    PrefitPool: _nothing,
    RBFSVMPool: _nothing,
    ColumnEncoder: _check_encoder,
    sampling.FoldSubsamples: _check_given_subsamples,
    sampling.GivenSubsamples: _check_given_subsamples,
    sampling.NoSubsamples: _check_subsamples,
    sampling.RandomSubsamples: _check_subsamples,
    # Splitters that need no labels, which `subsamples` may be.
    model_selection.KFold: _nothing,
    model_selection.RepeatedKFold: _nothing,
    model_selection.ShuffleSplit: _nothing,
    svm.SVC: _check_svc,
    svm.NuSVC: _check_svc,
    svm.LinearSVC: _check_linear,
    linear_model.LogisticRegression: _check_linear,
    linear_model.RidgeClassifier: _check_linear,
    discriminant_analysis.LinearDiscriminantAnalysis: _check_linear,
    naive_bayes.GaussianNB: _check_gaussian,
    naive_bayes.BernoulliNB: _check_naive_bayes,
    naive_bayes.ComplementNB: _check_naive_bayes,
    naive_bayes.MultinomialNB: _check_naive_bayes,
    neighbors.KNeighborsClassifier: _check_neighbors,
    tree.DecisionTreeClassifier: _check_tree,
    tree.ExtraTreeClassifier: _check_tree,
    ensemble.RandomForestClassifier: _check_forest,
    ensemble.ExtraTreesClassifier: _check_forest,
    ensemble.BaggingClassifier: _check_bagging,
    ensemble.AdaBoostClassifier: _check_boosting,
    StandardScaler: _per_feature("mean_", "scale_", "var_"),
    MinMaxScaler: _per_feature("min_", "scale_"),
    MaxAbsScaler: _per_feature("scale_"),
    RobustScaler: _per_feature("center_", "scale_"),
    Normalizer: _nothing,
    SimpleImputer: _check_imputer,
    PCA: _check_pca,
    OneHotEncoder: _check_one_hot,
    ColumnTransformer: _nothing,
    FunctionTransformer: _nothing,
    LabelBinarizer: _nothing,
    Pipeline: _check_pipeline,
    FrozenEstimator: _nothing,
}

TRUSTED_TYPES = frozenset(type_name(kind) for kind in CHECKS)
