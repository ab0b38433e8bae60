"""Check that the fitted arrays of a loaded model fit together, for every type that a model file may hold.

Compiled code follows counts and indices without looking: a support vector machine that claims more support vectors than
it has reads beyond its arrays. So a type is trusted only if there is a rule for it in the table `RULES`: which arrays
its objects have, of which kinds and shapes, which estimators they consist of, and what else compiled code relies on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

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
from pacbayes._fingerprint import default_parameters, machine_parameters
from pacbayes._losses import resolve_loss
from pacbayes.bounds.prior import normalise_log_prior
from pacbayes.classifier import PACBayesClassifier
from pacbayes.exceptions import ModelFileError
from pacbayes.fitting import Ensemble
from pacbayes.io._archive import TREE
from pacbayes.io.encoder import ColumnEncoder
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
from pacbayes.rows import TrainingRows
from pacbayes.sampling import Split

Lengths = dict[str, int]

# Metrics without parameters that compiled code would have to trust.
_METRICS = ("minkowski", "euclidean", "manhattan", "chebyshev", "cityblock", "l1", "l2", "sqeuclidean", "cosine")

# Private attributes of estimators that are not fitted.
_CONFIGURATION = ("_sklearn", "_metadata_request")

# Kinds of arrays, by how the kind and size of their elements may begin. No number is NaN; all are finite, except in
# "float" and "label"; and "rows" lie one after the other.
_FLOATS = ("f2", "f4", "f8")
_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("b",),
    "int": ("i",),
    "int32": ("i4",),
    "uint64": ("u8",),
    "float": _FLOATS,
    "finite": _FLOATS,
    "rows": _FLOATS,
    "double rows": ("f8",),
    "label": ("b", "i", "u", "U", "O", *_FLOATS),
}


class Rule(NamedTuple):
    """What must be true of an object of a type.

    `given` are lengths that a fitted object states: "k" its classes, "d" its features. `arrays` are its fitted arrays:
    the kind, or None if that ends in "?", and the names of the lengths. A name is one number.
    """

    given: str = ""
    arrays: Mapping[str, str] = {}
    then: Callable[[Any, Lengths], Any] | None = None  # checks what kinds and shapes do not tell
    members: Callable[[Any], Iterable[Any]] | None = None  # its estimators, whose types must be in the table too


def check_objects(root: Any, trusted: Collection[str]) -> None:
    """Raise ModelFileError if an object that can be reached from `root`, of a type not in `trusted`, is not consistent.

    What is computed from other attributes is removed, and settings of the machine that made the file are set to None.
    """
    parts = list(reachable(root))
    # First what others rely on.
    for part in parts:
        if type_name(type(part)) == TREE:
            _check_nodes(part)
        elif isinstance(part, np.random.RandomState):
            _check_random_state(part)
        elif issparse(part):
            require(part.format == "csr", "a sparse matrix is not stored by rows")
            part.check_format(full_check=True)
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            _clean_attributes(part, trusted)
    for part in parts:
        if type(part) in RULES and type_name(type(part)) not in trusted:
            _check_object(part, RULES[type(part)], trusted)


def type_name(kind: type) -> str:
    """Return the name of a type as model files spell it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def require(condition: Any, message: str) -> None:
    """Raise ModelFileError with a message unless a condition holds."""
    if not condition:
        raise ModelFileError(message)


def reachable(root: Any) -> Iterator[Any]:
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


@cache
def _defined(kind: type, name: str) -> Any:
    """Return what a class says about an attribute."""
    return inspect.getattr_static(kind, name, None)


def _clean_attributes(part: Any, trusted: Collection[str]) -> None:
    """Leave those attributes that an object may take from a file, and give it the parameters that it lacks."""
    kind: Any = type(part)
    attributes = vars(part)
    parameters = default_parameters(kind) if hasattr(part, "get_params") else {}
    is_known = kind in RULES and type_name(kind) not in trusted
    known = {field.name for field in fields(part)} if is_dataclass(part) else None
    for name in list(attributes):
        defined = _defined(kind, name)
        if isinstance(defined, cached_property):
            del attributes[name]
        elif is_known and name not in parameters:
            # It would take the place of a method, or of a constant.
            may_have = defined is None if known is None else name in known
            require(may_have, f"a {kind.__name__} cannot have an attribute {name!r} of its own")
    if hasattr(part, "get_params"):
        # A newer version of its package may have added a parameter. And a file must not start threads, connect to a
        # cluster, or write to a folder.
        attributes.update({name: value for name, value in parameters.items() if name not in attributes})
        attributes.update({name: None for name in machine_parameters(kind) if name in attributes})
        part.get_params(deep=False)  # all of its parameters are there


def _check_object(part: Any, rule: Rule, trusted: Collection[str]) -> None:
    if (rule.given or rule.arrays) and hasattr(part, "get_params") and not _is_fitted(part):
        return
    lengths: Lengths = {}
    for name in rule.given.split():
        lengths |= _MEASURES[name](part)
    for name, spec in rule.arrays.items():
        _array(part, name, spec, lengths)
    for member in () if rule.members is None else rule.members(part):
        known = type(member) in RULES or type_name(type(member)) in trusted
        require(known, f"a {type(part).__name__} cannot consist of a {type(member).__name__}")
    if rule.then is not None:
        rule.then(part, lengths)


def _is_fitted(part: Any) -> bool:
    """Return whether an estimator is more than settings: it has attributes that only `fit` gives."""
    return any(
        name.endswith("_") or (name.startswith("_") and not name.startswith(_CONFIGURATION)) for name in vars(part)
    )


# ---------------------------------------------------------------------------------------------------
# Arrays
# ---------------------------------------------------------------------------------------------------


def _is_of_kind(value: Any, kind: str) -> bool:
    dtype = value.dtype if type(value) is np.ndarray else np.dtype("V1")
    return bool(dtype.isnative) and f"{dtype.kind}{dtype.itemsize}".startswith(_KINDS[kind])


def _array(owner: Any, name: str, spec: str, lengths: Lengths) -> Any:
    """Return an attribute, if it is an array of a kind and shape. Lengths that are not known yet are added."""
    kind, _, axes = spec.partition(":")
    value, what = getattr(owner, name), f"{name} of a {type(owner).__name__}"
    if value is None and kind.endswith("?"):
        return None
    kind = kind.rstrip("?")
    require(not issparse(value), f"{what} is sparse: it was trained on sparse data")
    require(_is_of_kind(value, kind), f"{what} is no array of its kind")
    names = axes.split()
    expected = tuple(lengths.setdefault(axis, length) for axis, length in zip(names, value.shape, strict=False))
    require(value.ndim == len(names) and value.shape == expected, f"{what} has shape {value.shape}, not {expected}")
    if value.dtype.kind == "f":
        require(not np.isnan(value).any(), f"{what} holds NaN")
        require(kind in ("float", "label") or np.isfinite(value).all(), f"{what} is not finite")
    require(not kind.endswith("rows") or value.flags.c_contiguous, f"{what} is not laid out in rows")
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


def _classes(owner: Any, name: str = "classes_", *, least: int = 2) -> Lengths:
    """Return the number k of classes, if the labels are sorted and different, and numbers that follow from it."""
    labels = _array(owner, name, "label: k", {})
    k = int(labels.size)
    if labels.dtype == object:
        require(len({type(label) for label in labels}) == 1, f"{name} of a {type(owner).__name__} mixes types")
    require(k >= least, f"a {type(owner).__name__} has {k} classes")
    require(all(labels[:-1] < labels[1:]), f"{name} of a {type(owner).__name__} is not sorted")
    return {"k": k, "k-1": k - 1, "pairs": k * (k - 1) // 2, "outputs": 1 if k == 2 else k}


_MEASURES: dict[str, Callable[[Any], Lengths]] = {
    "k": _classes,
    "k>0": lambda owner: _classes(owner, least=1),
    "labels": lambda owner: _classes(owner, "classes"),
    "d": lambda owner: {"d": _whole(owner, "n_features_in_", 1)},
}


# ---------------------------------------------------------------------------------------------------
# The library's own
# ---------------------------------------------------------------------------------------------------


def _check_classifier(model: Any, lengths: Lengths) -> None:
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


def _check_ensemble(vote: Any, lengths: Lengths) -> None:
    require(isinstance(vote.hypotheses, Hypotheses) and isinstance(vote.subsamples, sampling.Subsamples), "parts miss")
    require(type(vote.split) is Split, "a vote has no rows")
    require(len(vote.hypotheses) == lengths["m"] >= 1, "a vote has no hypotheses")
    totals, rho, seen, n_validation = vote.totals, vote.posterior, vote.seen, vote.subsamples.n_validation
    require(((seen >= 0) & (seen <= n_validation)).all(), "more points were seen than there are")
    require(((totals >= 0) & (totals <= seen)).all(), "losses are not in [0, 1]")
    require((rho >= 0).all() and abs(rho.sum() - 1) < 1e-6, "posterior is no distribution")
    if vote.prior is not None:
        normalise_log_prior(vote.prior, lengths["m"])  # refuses what is no distribution
    require(not rho[seen < n_validation].any(), "a hypothesis that was dropped has weight")
    if isinstance(vote.hypotheses, HypothesisGroups):
        for k, group in enumerate(vote.hypotheses.groups.values()):
            seen_by_none = not isinstance(group, Untrained) or not seen[vote.hypotheses.kind == k].any()
            require(seen_by_none, "a hypothesis that was not trained has a loss")
    require(not isinstance(vote.hypotheses, Untrained), "no hypothesis was trained")
    if vote.split.rows is not None:
        require(vote.split.rows.size >= vote.subsamples.n, "a vote was made of fewer rows than its subsamples")


def _check_split(split: Any, lengths: Lengths) -> None:
    require(isinstance(split.entropy, int) and split.entropy >= 0, "the seed is negative")
    require((split.rows is None) == (split.held_out is None), "rows are held out from nothing")
    if split.rows is not None:
        together = np.sort(np.concatenate((split.rows, split.held_out)))
        require(np.array_equal(together, np.arange(together.size)), "rows are held out and not held out")


def _check_training_rows(rows: Any, lengths: Lengths) -> None:
    hashes, shift = rows.hashes, _whole(rows, "shift", 0, 63)
    require((hashes[:-1] < hashes[1:]).all(), "hashes are not sorted")
    require(hashes.size or shift, "there are no hashes")
    require(not hashes.size or int(hashes[-1]) < 2 ** (64 - shift), "hashes do not begin with zeros")
    require(0 <= _number(rows, "repeated") <= 1, "a share is out of range")
    require(isinstance(rows.whole, str), "the digest of the sample is no text")
    exact = rows.exact
    kind = type(exact) is TrainingRows and exact.exact is None and exact.shift == shift
    require(exact is None or kind, "the exact hashes are no hashes of the same rows")


def _check_groups(groups: Any, lengths: Lengths) -> None:
    require(isinstance(groups.groups, dict) and list(groups.groups) == sorted(groups.groups), "groups are not sorted")
    sizes = []
    for group in groups.groups.values():
        require(isinstance(group, Hypotheses) and not isinstance(group, HypothesisGroups), "a group is of no kind")
        require(np.array_equal(group.classes, groups.classes), "classes differ")
        sizes.append(len(group))
    kind = groups.kind
    require(((kind >= 0) & (kind < len(sizes))).all(), "kind is out of range")
    require(np.bincount(kind, minlength=len(sizes)).tolist() == sizes, "groups have other sizes")


def _check_svms(svms: Any, lengths: Lengths) -> None:
    """Check the arrays of all SVMs in the engine's layout."""
    k, codes, n_support, m = svms.n_classes.astype(np.int64), svms.class_codes, svms.n_support, lengths["m"]
    require(((k >= 1) & (k <= lengths["k"])).all(), "n_classes is out of range")
    starts = np.concatenate(([0], np.cumsum(k)))
    require(codes.size == starts[-1], "class_codes has another size")
    require(((codes >= 0) & (codes < min(lengths["k"], 2**16))).all(), "class_codes is out of range")
    rises = np.ones(codes.size, dtype=bool)
    rises[1:] = codes[1:] > codes[:-1]
    rises[starts[:-1]] = True
    require(rises.all(), "class_codes is not sorted")
    require((n_support >= 0).all(), "n_support is negative")
    s = np.add.reduceat(n_support, starts[:-1], dtype=np.int64)
    sizes = {"support": s, "dual_coef": (k - 1) * s, "intercept": k * (k - 1) // 2}
    require(all(getattr(svms, name).size == size.sum() for name, size in sizes.items()), "arrays have other sizes")
    require((svms.gamma >= 0).all() and (svms.C > 0).all(), "gamma is negative, or C not positive")
    _whole(svms, "working_memory", 0, 2**50)
    require(svms.engine in ("auto", "cpu", "cuda"), "engine is unknown")
    d = _check_points(svms)
    book = svms.code_book
    if book is not None:
        require(type(book) is CodeBook and book.n_features == d, "the code book has other features")
        require(svms.shared_scale is None, "the numbers of a table have a scale in common")
        require((_array(svms, "scale", "double rows: m d", {"m": m, "d": d}) >= 0).all(), "scale is negative")
        _array(svms, "fill", "double rows: m numbers", {"m": m, "numbers": book.n_numbers})
    elif issparse(svms.scale):
        _check_sparse(svms.scale, m, d)
    else:
        _array(svms, "scale", "double rows?: m d", {"m": m, "d": d})
    require(book is not None or svms.fill is None, "fill is of no table")
    _array(svms, "shared_scale", "finite?: d", {"d": d})


def _check_points(svms: Any) -> int:
    """Check the stored support vectors, and return their number of features."""
    rows, stored = svms.rows, svms.points
    require((rows[:-1] < rows[1:]).all() and (rows >= 0).all(), "rows is not sorted")
    require(np.isin(svms.support, rows).all(), "support names rows that are not stored")
    if issparse(stored):
        _check_sparse(stored, rows.size, stored.shape[1])
        return int(stored.shape[1])
    # Numbers of a table may be missing.
    n_numbers = svms.code_book.n_numbers if type(svms.code_book) is CodeBook else 0
    require(isinstance(stored, np.ndarray) and stored.ndim == 2 and stored.shape[0] == rows.size, "points miss")
    missing = np.isnan(stored[:, :n_numbers])
    require(np.isfinite(stored[:, n_numbers:]).all(), "points is not finite")
    require((missing | np.isfinite(stored[:, :n_numbers])).all(), "points is not finite")
    require(stored.dtype == np.float64 and stored.flags.c_contiguous, "points is not laid out in rows")
    return int(stored.shape[1])


def _check_sparse(matrix: Any, *shape: int) -> None:
    require(matrix.shape == shape, f"a sparse matrix is not of shape {shape}")
    require(matrix.data.dtype.kind == "f" and np.isfinite(matrix.data).all(), "a sparse matrix is not finite")


def _check_code_book(book: Any, lengths: Lengths) -> None:
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


def _check_hypothesis_list(hypotheses: Any, lengths: Lengths) -> None:
    for member in hypotheses.members:
        require(callable(getattr(member, "predict", None)), f"a {type(member).__name__} is no hypothesis")
        is_class = type(member) is not Constant or member.label in hypotheses.classes.tolist()
        require(is_class, "a constant hypothesis predicts none of the classes")


def _check_subsamples(subsamples: Any, lengths: Lengths) -> None:
    n, sizes = _whole(subsamples, "n", 1), subsamples.sizes
    require(((sizes >= 0) & (sizes < n)).all(), "subsamples are larger than the sample")
    if isinstance(subsamples, sampling.RandomSubsamples):
        require((sizes >= 1).all() and subsamples.entropy >= 0, "subsamples are empty")
        _whole(subsamples, "n_sizes", 1)


def _check_given_subsamples(subsamples: Any, lengths: Lengths) -> None:
    _check_subsamples(subsamples, lengths)
    again = sampling.GivenSubsamples(subsamples.n, subsamples._index_sets)
    require(np.array_equal(again.sizes, subsamples.sizes), "subsamples do not have their sizes")
    same = (np.array_equal(a, b) for a, b in zip(again, subsamples, strict=True))
    require(all(same), "subsamples are not sorted")


def _check_encoder(encoder: Any, lengths: Lengths) -> None:
    known = (len(encoder.numeric), len(encoder.text)) == (lengths["numbers"], lengths["texts"])
    require(known and len(encoder.categories_) == lengths["texts"], "a ColumnEncoder has another number of columns")
    require((encoder.scale_ > 0).all(), "scale_ is not positive")
    for names in encoder.categories_:
        require(isinstance(names, list) and all(isinstance(name, str) for name in names), "categories_ is no text")


def _check_random_state(random_state: np.random.RandomState) -> None:
    state: Any = random_state.get_state(legacy=False)
    # Drawing reads the word at this position, wherever that is.
    require(0 <= state["state"]["pos"] <= len(state["state"]["key"]), "a random state is out of range")


# ---------------------------------------------------------------------------------------------------
# scikit-learn's
# ---------------------------------------------------------------------------------------------------


def _check_svc(svc: Any, lengths: Lengths) -> None:
    require(svc._sparse is False, "a support vector machine expects sparse data")
    require(svc.kernel in ("linear", "poly", "rbf", "sigmoid"), "a support vector machine has an unknown kernel")
    require((svc._n_support >= 0).all() and svc._n_support.sum(dtype=np.int64) == lengths["s"], "support vectors miss")
    require((svc.support_ >= 0).all(), "support_ is negative")
    gives_probabilities = svc.probability is True or getattr(svc, "_effective_probability", False)
    require(lengths["sigmoids"] == (lengths["pairs"] if gives_probabilities else 0), "_probA has another size")
    _whole(svc, "degree", 0)
    _number(svc, "coef0")
    _number(svc, "_gamma", 0)
    _number(svc, "cache_size", 0)


def _check_nodes(nodes: Any) -> None:
    """Check that following a decision tree cannot leave its nodes or its features, and ends."""
    require(1 <= nodes.node_count <= nodes.capacity, "a decision tree has no nodes")
    require(nodes.n_outputs == 1 and nodes.max_n_classes >= 1, "a decision tree has no classes")
    left, right, feature = nodes.children_left, nodes.children_right, nodes.feature
    inner = np.flatnonzero(left != -1)
    children = np.stack((left[inner], right[inner]))
    leads_on = ((children > inner) & (children < left.size)).all()
    known = ((feature[inner] >= 0) & (feature[inner] < nodes.n_features)).all()
    require(leads_on and known, "a decision tree has nodes that lead nowhere")
    require(np.isfinite(nodes.value).all() and not np.isnan(nodes.threshold).any(), "a decision tree is not finite")


def _check_tree(owner: Any, lengths: Lengths) -> None:
    nodes, k, d = owner.tree_, lengths["k"], lengths["d"]
    require(type_name(type(nodes)) == TREE, "a decision tree has no nodes")
    require(owner.n_outputs_ == 1 and owner.n_classes_ == k, "a decision tree has other classes")
    require(nodes.n_features == d and nodes.max_n_classes == k, "a decision tree has other features")


def _check_forest(forest: Any, lengths: Lengths) -> None:
    k, d = lengths["k"], lengths["d"]
    require(forest.n_outputs_ == 1 and forest.n_classes_ == k, "a forest has other classes")
    same = (
        RULES[type(member)].then is _check_tree and member.n_features_in_ == d and member.n_classes_ == k
        for member in forest.estimators_
    )
    require(all(same), "the trees of a forest do not fit together")


def _check_bagging(bagging: Any, lengths: Lengths) -> None:
    k, d = lengths["k"], lengths["d"]
    require(bagging.n_classes_ == k, "bagged classifiers have other classes")
    for member, features in zip(bagging.estimators_, bagging.estimators_features_, strict=True):
        columns = np.asarray(features)
        require(columns.dtype.kind == "i" and ((columns >= 0) & (columns < d)).all(), "features are out of range")
        codes = _array(member, "classes_", "int: k", {})
        require(((codes >= 0) & (codes < k)).all(), "bagged classifiers have other classes")


def _check_boosting(boosting: Any, lengths: Lengths) -> None:
    require(boosting.n_classes_ == lengths["k"], "boosted classifiers have other classes")
    require(lengths["weights"] >= len(boosting.estimators_), "there are too few weights")


def _members(owner: Any) -> Any:
    """Return the members of an ensemble, if there are as many as it says."""
    members, n = owner.estimators_, _whole(owner, "n_estimators", 1)
    least = 1 if isinstance(owner, ensemble.AdaBoostClassifier) else n  # boosting may end early
    complete = isinstance(members, list) and least <= len(members) <= n
    require(complete, f"a {type(owner).__name__} does not have {n} members")
    return members


def _check_neighbors(model: Any, lengths: Lengths) -> None:
    # The tree of other methods is of a type that the caller trusts, or would not be here.
    require(model._fit_method == "brute" or model._tree is not None, "nearest neighbours have no tree")
    n, codes = lengths["n"], model._y
    require(model.n_samples_fit_ == n, "n_samples_fit_ is not the number of points")
    require(((codes >= 0) & (codes < lengths["k"])).all() and model.outputs_2d_ is False, "_y is out of range")
    _whole(model, "n_neighbors", 1, n)
    require(model.weights in ("uniform", "distance", None), "weights are unknown")
    require({model.metric, model.effective_metric_} <= set(_METRICS), "the metric is unknown")
    given = {name for name, value in model.effective_metric_params_.items() if value is not None}
    require(not model.metric_params and given <= {"p"}, "the metric has parameters")


def _check_linear(model: Any, lengths: Lengths) -> None:
    # The ridge classifier of two classes has a vector.
    is_vector = lengths["k"] == 2 and np.ndim(model.coef_) == 1
    _array(model, "coef_", "finite: d" if is_vector else "finite: outputs d", lengths)
    if isinstance(model.intercept_, np.ndarray):
        _array(model, "intercept_", "finite: outputs", lengths)
    else:
        _number(model, "intercept_")


def _check_one_hot(encoder: Any, lengths: Lengths) -> None:
    """Check that no category is encoded in a column that there is not."""
    whole = encoder.drop_idx_ is None and getattr(encoder, "_drop_idx_after_grouping", None) is None
    require(whole and not getattr(encoder, "_infrequent_enabled", False), "a one-hot encoder merges categories")
    require(len(encoder.categories_) == lengths["d"], "a one-hot encoder has other features")
    require(np.dtype(encoder.dtype).kind in "biuf", "a one-hot encoder does not encode by numbers")
    sizes = [_check_categories(names) for names in encoder.categories_]
    known = all(type(size) is int for size in encoder._n_features_outs)
    require(known and encoder._n_features_outs == sizes, "a one-hot encoder has other categories")


def _check_categories(names: Any) -> int:
    """Return the number of categories, if every one of them can be found."""
    require(_is_of_kind(names, "label") and names.ndim == 1 and names.size, "categories miss")
    if names.dtype.kind not in "UO":
        # By bisection; NaN is the last, if it is one. Text is found by a table, in any order.
        numbers = names[:-1] if names[-1] != names[-1] else names
        require((numbers[:-1] < numbers[1:]).all(), "the categories of a one-hot encoder are not sorted")
    return int(names.size)


def _check_pipeline(pipeline: Any, lengths: Lengths) -> None:
    named = all(isinstance(step, tuple) and len(step) == 2 and isinstance(step[0], str) for step in pipeline.steps)
    require(isinstance(pipeline.steps, list) and pipeline.steps and named, "a pipeline has no steps")


def _steps(*attributes: str) -> Callable[[Any], Iterable[Any]]:
    """Return what gives the estimators in lists of (name, estimator, ...)."""

    def members(owner: Any) -> list[Any]:
        steps = [step for name in attributes for step in getattr(owner, name, ())]
        return [step[1] for step in steps if not (step[1] is None or isinstance(step[1], str))]

    return members


_SVC = Rule(
    "k d",
    {
        "_n_support": "int32: k",
        "support_": "int32: s",
        "support_vectors_": "double rows: s d",
        "dual_coef_": "double rows: k-1 s",
        "_dual_coef_": "double rows: k-1 s",
        "intercept_": "double rows: pairs",
        "_intercept_": "double rows: pairs",
        "_probA": "double rows: sigmoids",
        "_probB": "double rows: sigmoids",
    },
    _check_svc,
)
_LINEAR = Rule("k d", then=_check_linear)
_NAIVE_BAYES = Rule("k d", {"feature_log_prob_": "float: k d", "class_log_prior_": "float: k"})
_TREE = Rule("k>0 d", then=_check_tree)
_FOREST = Rule("k d", {}, _check_forest, _members)
_PLAIN = Rule()  # it holds other objects or settings only, and reads no array by its position

RULES: dict[type, Rule] = {
    PACBayesClassifier: Rule("k d", then=_check_classifier),
    Ensemble: Rule(
        "",
        {"totals": "finite: m", "posterior": "finite: m", "seen": "int: m"},
        _check_ensemble,
    ),
    Split: Rule("", {"rows": "int?: n", "held_out": "int?: tested"}, _check_split),
    TrainingRows: Rule("", {"hashes": "uint64: n"}, _check_training_rows),
    HypothesisGroups: Rule("labels", {"kind": "int: m"}, _check_groups),
    RBFSVMs: Rule(
        "labels",
        {
            "n_classes": "int32: m",
            "class_codes": "int32: known",
            "n_support": "int32: known",
            "support": "int32: s",
            "dual_coef": "double rows: coefficients",
            "intercept": "double rows: machines",
            "gamma": "double rows: m",
            "C": "finite: m",
            "failed": "bool: m",
            "rows": "int32: n",
        },
        _check_svms,
    ),
    CodeBook: Rule("", {}, _check_code_book),
    HypothesisList: Rule("labels", {}, _check_hypothesis_list, members=lambda hypotheses: list(hypotheses.members)),
    Untrained: Rule("labels", {}, lambda hypotheses, _: _whole(hypotheses, "size", 0)),
    Constant: _PLAIN,
    EstimatorPool: Rule(members=lambda pool: [pool.estimator]),
    PrefitPool: Rule(members=lambda pool: list(pool.estimators)),
    RBFSVMPool: _PLAIN,
    ColumnEncoder: Rule(
        "",
        {
            "fill_": "finite: numbers",
            "center_": "finite: numbers",
            "scale_": "finite: numbers",
            "missing_": "bool: texts",
        },
        _check_encoder,
    ),
    sampling.FoldSubsamples: Rule("", {"sizes": "int: m"}, _check_given_subsamples),
    sampling.GivenSubsamples: Rule("", {"sizes": "int: m"}, _check_given_subsamples),
    sampling.NoSubsamples: Rule("", {"sizes": "int: m"}, _check_subsamples),
    sampling.RandomSubsamples: Rule("", {"sizes": "int: m"}, _check_subsamples),
    # Splitters that need no labels, which `subsamples` may be.
    model_selection.KFold: _PLAIN,
    model_selection.RepeatedKFold: _PLAIN,
    model_selection.ShuffleSplit: _PLAIN,
    svm.SVC: _SVC,
    svm.NuSVC: _SVC,
    svm.LinearSVC: _LINEAR,
    linear_model.LogisticRegression: _LINEAR,
    linear_model.RidgeClassifier: _LINEAR._replace(members=lambda model: [model._label_binarizer]),
    discriminant_analysis.LinearDiscriminantAnalysis: _LINEAR,
    naive_bayes.GaussianNB: Rule(
        "k d",
        {"theta_": "finite: k d", "var_": "finite: k d", "class_prior_": "finite: k"},
        lambda model, _: require((model.var_ >= 0).all() and (model.class_prior_ >= 0).all(), "a variance is negative"),
    ),
    naive_bayes.BernoulliNB: _NAIVE_BAYES,
    naive_bayes.ComplementNB: _NAIVE_BAYES,
    naive_bayes.MultinomialNB: _NAIVE_BAYES,
    neighbors.KNeighborsClassifier: Rule("k d", {"_fit_X": "rows: n d", "_y": "int: n"}, _check_neighbors),
    tree.DecisionTreeClassifier: _TREE,
    tree.ExtraTreeClassifier: _TREE,
    ensemble.RandomForestClassifier: _FOREST,
    ensemble.ExtraTreesClassifier: _FOREST,
    ensemble.BaggingClassifier: Rule("k d", {}, _check_bagging, _members),
    ensemble.AdaBoostClassifier: Rule("k d", {"estimator_weights_": "finite: weights"}, _check_boosting, _members),
    StandardScaler: Rule("d", {"mean_": "finite?: d", "scale_": "finite?: d", "var_": "finite?: d"}),
    MinMaxScaler: Rule("d", {"min_": "finite: d", "scale_": "finite: d"}),
    MaxAbsScaler: Rule("d", {"scale_": "finite: d"}),
    RobustScaler: Rule("d", {"center_": "finite?: d", "scale_": "finite?: d"}),
    Normalizer: _PLAIN,
    SimpleImputer: Rule(
        "d", {"statistics_": "label: d"}, lambda one, _: require(one.indicator_ is None, "an imputer has an indicator")
    ),
    PCA: Rule("d", {"components_": "finite: n d", "mean_": "finite: d", "explained_variance_": "finite: n"}),
    OneHotEncoder: Rule("d", {}, _check_one_hot),
    ColumnTransformer: Rule(members=_steps("transformers", "transformers_")),
    FunctionTransformer: Rule(then=lambda one, _: require(not isinstance(one.func, type), "a function is a type")),
    LabelBinarizer: Rule(
        "k", {}, lambda one, _: require(one.y_type_ in ("binary", "multiclass"), "labels are no classes")
    ),
    Pipeline: Rule(then=_check_pipeline, members=_steps("steps")),
    FrozenEstimator: Rule(members=lambda frozen: [frozen.estimator]),
}

TRUSTED_TYPES = frozenset(type_name(kind) for kind in RULES)
