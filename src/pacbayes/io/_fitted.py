"""Check that the attributes of a loaded model fit together, for every type that a model file may hold.

Compiled code follows counts and indices without looking: a support vector machine that claims more support vectors than
it has reads beyond its arrays. So a type is trusted only if there is a rule for it in a table: of which kind and shape
the attributes of its objects are, which estimators they consist of, and what else compiled code relies on. Here are the
rules of this library's types; those of scikit-learn's are in `_sklearn_rules`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pacbayes import pools, sampling
from pacbayes._fingerprint import default_parameters, machine_parameters
from pacbayes.bounds.prior import normalise_log_prior
from pacbayes.exceptions import ModelFileError
from pacbayes.fitting import FitSettings, FittedVotes, Vote
from pacbayes.io._archive import TREE, require, type_name
from pacbayes.io.encoder import ColumnEncoder
from pacbayes.rows import ColumnRanges, TrainingRows
from pacbayes.tasks import TASKS, Regression, Task

Lengths = dict[str, int]


# Private attributes of estimators that are not fitted.
_CONFIGURATION = ("_sklearn", "_metadata_request")

# Attributes that list (name, estimator, ...).
_STEPS = {"families", "steps", "transformers", "transformers_"}

# Kinds of arrays, by how the kind and size of their elements may begin. Numbers are finite but in "float" and "label".
_FLOATS = ("f2", "f4", "f8")
_ARRAYS: dict[str, tuple[str, ...]] = {
    "bool": ("b",),
    "int": ("i",),
    "int32": ("i4",),
    "int64": ("i8",),
    "uint64": ("u8",),
    "float": _FLOATS,
    "finite": _FLOATS,
    "double": ("f8",),
    "label": ("b", "i", "u", "U", "O", *_FLOATS),
}
# Kinds of single numbers: a count is not negative, and fits the integers of compiled code.
_NUMBERS: dict[str, Any] = {"count": (int, np.integer), "whole": (int, np.integer), "number": (int, float, np.number)}

_COMPARISON = re.compile(r"([<>=]=?)(-?\w+)")
_OPERATORS = {"<": np.less, "<=": np.less_equal, "==": np.equal, ">": np.greater, ">=": np.greater_equal}


class Rule(NamedTuple):
    """What must be true of an object of a type.

    `attributes` says what attributes must be, by their names: a type, a set of values, or text such as
    "int32 >=0 <k: s d". That is the kind; conditions on every number, which may name a length; and, for an array, the
    lengths of its axes, where a name is one number. A count is a length by its own name. A kind that ends in "?" may be
    None. "rising" arrays are sorted without repetition, "rows" lie one after the other; "sparse" ones may be sparse,
    and "nan" ones may hold NaN.

    `members` are the names of attributes that hold estimators, whose types must be in the table, too.

    `lengths` are those that a fitted object states: "k" of its classes, "d" of its features.
    """

    attributes: Mapping[str, Any] = {}
    then: Callable[[Any, Lengths], Any] | None = None  # checks what kinds and shapes do not tell
    members: str = ""
    lengths: str = ""
    least_classes: int = 2


def rules_of(package: str) -> Mapping[type, Rule]:
    """Return the rules for the types of scikit-learn, which take long to import, or for all others."""
    if package != "sklearn":
        return RULES
    from pacbayes.io import _sklearn_rules

    return _sklearn_rules.RULES


def _find_rule(kind: type) -> Rule | None:
    return rules_of(kind.__module__.partition(".")[0]).get(kind)


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
            state: Any = part.get_state(legacy=False)["state"]
            # Drawing reads the word at this position, wherever that is.
            require(0 <= state["pos"] <= len(state["key"]), "a random state is out of range")
        elif issparse(part):
            require(part.format == "csr", "a sparse matrix is not stored by rows")
            part.check_format(full_check=True)
        elif _has_attributes(part):
            _clean_attributes(part, trusted)
    for part in parts:
        rule = _find_rule(type(part))
        if rule is not None and type_name(type(part)) not in trusted:
            _check_object(part, rule, trusted)


def reachable(root: Any) -> Iterator[Any]:
    """Yield all objects that can be reached from one, each once."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, (str, bytes, int, float, NoneType)):
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple, set)) or (isinstance(part, np.ndarray) and part.dtype == object):
            waiting.extend(part)
        elif _has_attributes(part):
            waiting.extend(vars(part).values())


def _has_attributes(part: Any) -> bool:
    return hasattr(part, "__dict__") and not isinstance(part, type)


# What a class says about an attribute.
_defined = cache(inspect.getattr_static)


def _clean_attributes(part: Any, trusted: Collection[str]) -> None:
    """Leave those attributes that an object may take from a file, and give it the parameters that it lacks."""
    kind: Any = type(part)
    attributes = vars(part)
    if kind is pools.HypothesisList:
        attributes.setdefault("vote_by", "labels")  # as all did before they could vote otherwise
    is_estimator = hasattr(part, "get_params")  # which learns more attributes than its parameters
    parameters = default_parameters(kind) if is_estimator else {}
    is_known = _find_rule(kind) is not None and type_name(kind) not in trusted
    known = {field.name for field in fields(part)} if is_dataclass(part) and not is_estimator else None
    for name in list(attributes):
        defined = _defined(kind, name, None)
        if isinstance(defined, cached_property):
            del attributes[name]
        elif is_known and name not in parameters:
            # It would take the place of a method, or of a constant.
            may_have = defined is None if known is None else name in known
            require(may_have, f"a {kind.__name__} cannot have an attribute {name!r} of its own")
    if is_estimator:
        # A newer version of its package may have added a parameter. And a file must not start threads, connect to a
        # cluster, or write to a folder.
        machine = {name: None for name in machine_parameters(kind) if name in {**parameters, **attributes}}
        attributes.update({**parameters, **attributes, **machine})
        part.get_params(deep=False)  # all of its parameters are there


def _check_object(part: Any, rule: Rule, trusted: Collection[str]) -> None:
    if (rule.lengths or rule.attributes) and hasattr(part, "get_params") and not _is_fitted(part):
        return
    lengths = _count_classes(part, rule.least_classes) if "k" in rule.lengths else {}
    if "d" in rule.lengths:
        check_attributes(part, {"n_features_in_": "count >0"}, lengths)
        lengths["d"] = lengths["n_features_in_"]
    check_attributes(part, rule.attributes, lengths)
    for member in _members(part, rule.members):
        known = _find_rule(type(member)) is not None or type_name(type(member)) in trusted
        require(known, f"a {type(part).__name__} cannot consist of a {type(member).__name__}")
    if rule.then is not None:
        rule.then(part, lengths)


def _is_fitted(part: Any) -> bool:
    """Return whether an estimator is more than settings: it has attributes that only `fit` gives."""
    return any(
        name.endswith("_") or (name.startswith("_") and not name.startswith(_CONFIGURATION)) for name in vars(part)
    )


def _members(owner: Any, names: str) -> Iterator[Any]:
    for name in names.split():
        found = getattr(owner, name, ())
        if name in _STEPS:
            found = [step[1] for step in found if not (step[1] is None or isinstance(step[1], str))]
        yield from found if isinstance(found, (list, tuple)) else [found]


def check_attributes(owner: Any, table: Mapping[str, Any], lengths: Lengths) -> None:
    """Check attributes against a table as in `Rule`. Lengths that are not known yet are added."""
    for names, spec in table.items():
        for name in names.split():
            value, what = getattr(owner, name), f"{name} of a {type(owner).__name__}"
            if isinstance(spec, set):
                is_allowed = any(type(value) is type(one) and value == one for one in spec)
                require(is_allowed, f"{what} cannot be {value!r:.80}")
            elif not isinstance(spec, str):
                require(isinstance(value, spec), f"{what} cannot be of type {type(value).__name__}")
            else:
                _check_numbers(value, what, spec, lengths)
                if spec.startswith("count"):
                    lengths[name] = int(value)


def _check_numbers(value: Any, what: str, spec: str, lengths: Lengths) -> None:
    """Check a number, or an array of a kind and shape."""
    words, is_array, axes = spec.partition(":")
    kind, *conditions = words.split()
    if value is None and kind.endswith("?"):
        return
    kind = kind.rstrip("?")
    if is_array:
        value = _check_array(value, what, kind, axes.split(), conditions, lengths)
    else:
        is_number = isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
        require(is_number and (kind == "whole" or np.isfinite(value)), f"{what} is no {kind}")
        require(kind != "count" or 0 <= value < 2**31, f"{what} is out of range: it is {value}")
    for condition in conditions:
        if found := _COMPARISON.fullmatch(condition):
            limit = lengths[found[2]] if found[2] in lengths else float(found[2])
            require(np.all(_OPERATORS[found[1]](value, limit)), f"{what} is out of range: it must be {condition}")


def _check_array(
    value: Any, what: str, kind: str, axes: Sequence[str], conditions: Collection[str], lengths: Lengths
) -> NDArray[Any]:
    """Return an array of a kind and shape, or the data of a sparse one."""
    shape = getattr(value, "shape", ())
    require("sparse" in conditions or not issparse(value), f"{what} is sparse: it was trained on sparse data")
    data, kind = (value.data, "finite") if issparse(value) else (value, kind)
    require(is_of_kind(data, kind), f"{what} is no array of kind {kind}")
    expected = tuple(lengths.setdefault(axis, length) for axis, length in zip(axes, shape, strict=False))
    require(len(shape) == len(axes) and shape == expected, f"{what} has shape {shape}, not {expected}")
    if data.dtype.kind == "f":
        require("nan" in conditions or not np.isnan(data).any(), f"{what} holds NaN")
        require(kind in ("float", "label") or not np.isinf(data).any(), f"{what} is not finite")
    require("rows" not in conditions or data.flags.c_contiguous, f"{what} is not laid out in rows")
    require("rising" not in conditions or (data[:-1] < data[1:]).all(), f"{what} is not sorted")
    return np.asarray(data)


def is_of_kind(value: Any, kind: str) -> bool:
    dtype = value.dtype if type(value) is np.ndarray else np.dtype("V1")
    return bool(dtype.isnative) and f"{dtype.kind}{dtype.itemsize}".startswith(_ARRAYS[kind])


def _count_classes(owner: Any, least: int) -> Lengths:
    """Return the number k of classes, 0 for numbers, if labels are sorted and different, and what follows from it."""
    name = "classes" if isinstance(owner, pools.Hypotheses) else "classes_"
    check_attributes(owner, {name: "label: k"}, {})
    labels, what = getattr(owner, name), f"{name} of a {type(owner).__name__}"
    if isinstance(owner, pools.Hypotheses) and owner.is_numeric:
        require(labels.dtype == np.float64, f"{what} is of another type")
        return {"k": 0}
    k = int(labels.size)
    require(k >= least, f"{what} holds {k} classes")
    require(labels.dtype != object or len({type(label) for label in labels}) == 1, f"{what} mixes types")
    require(all(labels[:-1] < labels[1:]), f"{what} is not sorted")
    return {"k": k, "k-1": k - 1, "pairs": k * (k - 1) // 2, "outputs": 1 if k == 2 else k}


# -- The library's own: what kinds and shapes do not tell --------------------------------------------


def _check_fitted_votes(fitted: Any, n: Lengths) -> None:
    book, task = fitted.code_book, fitted.task
    fitted.pool.check_settings()
    task.resolve_loss(fitted.settings.loss)
    require(book is None or len(book.names) == n["n_features"], "the code book has other columns")
    named = fitted.feature_names is None or all(type(name) is str for name in fitted.feature_names)
    require(named, "names of features are no text")
    n_features, n_compared = (n["n_features"],) * 2 if book is None else (book.n_features, book.first_text)
    require(not isinstance(fitted.best.hypotheses, pools.Untrained), "no hypothesis was trained")
    for vote in fitted.votes:
        n_votes, hypotheses = vote.certificate.n_votes, vote.hypotheses
        require(n_votes == fitted.n_votes, f"a certificate is about {n_votes} competing votes")
        require(np.array_equal(hypotheses.classes, task.classes), "hypotheses have other classes")
        stated, declared = (
            [code for code in codes if code.startswith("range-declared:")]
            for codes in (vote.certificate.assumption_codes, task.assumptions())
        )
        require(stated == declared, "a certificate is about another range of the target")
        names = [name for name, _ in fitted.pool.members()]
        require(list(vote.subsamples.families) == names, "a vote has other families than its pool")
        for group in hypotheses.groups.values() if isinstance(hypotheses, pools.HypothesisGroups) else [hypotheses]:
            if isinstance(group, (pools.RBFSVMs, pools.RBFRidges)):
                require(group.code_book == book, "hypotheses have another code book")
                require(group.points.shape[1] == n_compared, "support vectors have other features")
            elif isinstance(group, pools.ScoreModels):
                require(group.code_book == book, "hypotheses have another code book")
                _check_models(group, n_features)
            else:
                unneeded = book is None or isinstance(group, pools.Untrained)
                require(unneeded, f"a {type(group).__name__} has no code book")
    held = fitted.ranges
    fits = held is None or (len(held.names) == n["n_features"] and (held.places < n_features).all())
    require(fits, "ranges are of other columns")


def _check_vote(vote: Any, n: Lengths) -> None:
    hypotheses, rho, seen, n_validation = vote.hypotheses, vote.posterior, vote.seen, vote.subsamples.n_validation
    require(len(hypotheses) == n["m"] >= 1, "a vote has no hypotheses")
    require((seen <= n_validation).all(), "more points were seen than there are")
    require((vote.totals <= seen).all(), "losses are not in [0, 1]")
    require(abs(rho.sum() - 1) < 1e-6, "posterior is no distribution")
    if vote.prior is not None:
        normalise_log_prior(vote.prior, n["m"])  # refuses what is no distribution
    require(not rho[seen < n_validation].any(), "a hypothesis that was dropped has weight")
    if isinstance(hypotheses, pools.HypothesisGroups):
        untrained = np.array([isinstance(group, pools.Untrained) for group in hypotheses.groups.values()])
        require(not seen[untrained[hypotheses.kind]].any(), "a hypothesis that was not trained has a loss")
    enough = vote.split.rows is None or vote.split.rows.size >= vote.subsamples.n
    require(enough, "a vote was made of fewer rows than its subsamples")


def _check_split(split: Any, n: Lengths) -> None:
    require((split.rows is None) == (split.held_out is None), "rows are held out from nothing")
    if split.rows is not None:
        together = np.sort(np.concatenate((split.rows, split.held_out)))
        require(np.array_equal(together, np.arange(together.size)), "rows are held out and not held out")


def _check_training_rows(rows: Any, n: Lengths) -> None:
    hashes, shift, exact = rows.hashes, rows.shift, rows.exact
    require(hashes.size or shift, "there are no hashes")
    require(not hashes.size or int(hashes[-1]) < 2 ** (64 - shift), "hashes do not begin with zeros")
    of_the_same = exact is None or (exact.exact is None and exact.shift == shift)
    require(of_the_same, "the exact hashes are no hashes of the same rows")


def _check_groups(groups: Any, n: Lengths) -> None:
    members = list(groups.groups.values())
    require(list(groups.groups) == sorted(groups.groups), "groups are not sorted")
    for group in members:
        is_plain = isinstance(group, pools.Hypotheses) and not isinstance(group, pools.HypothesisGroups)
        require(is_plain, f"a group of hypotheses cannot be a {type(group).__name__}")
        require(np.array_equal(group.classes, groups.classes), "classes differ")
    require((groups.kind < len(members)).all(), "kind is out of range")
    sizes = np.bincount(groups.kind, minlength=len(members)).tolist()
    require(sizes == [len(group) for group in members], "groups have other sizes")


def _check_svms(svms: Any, n: Lengths) -> None:
    """Check the arrays of all SVMs in the engine's layout."""
    k = svms.n_classes.astype(np.int64)
    starts = np.cumsum(k) - k
    require(n["known"] == k.sum(), "class_codes has another size")
    rises = np.diff(svms.class_codes, prepend=-1) > 0
    rises[starts] = True
    require(rises.all(), "class_codes is not sorted")
    s = np.add.reduceat(svms.n_support, starts, dtype=np.int64)
    sizes = (s.sum(), ((k - 1) * s).sum(), (k * (k - 1) // 2).sum())
    require((n["s"], n["coefficients"], n["machines"]) == sizes, "arrays have other sizes")
    _check_support_vectors(svms, n)


def _check_ridges(ridges: Any, n: Lengths) -> None:
    """Check the arrays of all kernel ridge regressions."""
    require(n["k"] == 0, "regressions have classes")
    require(n["s"] == ridges.n_support.sum(dtype=np.int64), "arrays have other sizes")
    owner = np.repeat(np.arange(n["m"]), ridges.n_support)
    largest = np.abs(ridges.intercept) + np.bincount(owner, np.abs(ridges.dual_coef), n["m"])
    require(np.isfinite(largest).all(), "predictions of regressions may overflow")
    _check_support_vectors(ridges, n)


def _check_support_vectors(models: Any, n: Lengths) -> None:
    """Check the points of models that are sums of kernels, and how features are scaled."""
    book = models.code_book
    require(np.isin(models.support, models.rows).all(), "support names rows that are not stored")
    if book is None:
        scaling = {"scale": "double? sparse rows: m d", "shared_scale": "finite?: d", "fill": {None}}
        check_attributes(models, {"points": "double sparse rows: n d", **scaling}, n)
        return
    n |= {"d": book.first_text, "numbers": book.n_numbers}
    scaling = {"scale": "double >=0 rows: m d", "shared_scale": {None}, "fill": "double rows: m numbers"}
    check_attributes(models, {"points": "double nan rows: n d", **scaling}, n)
    # Numbers of a table may be missing.
    require(not np.isnan(models.points[:, book.n_numbers :]).any(), "points holds NaN")


def _check_models(group: Any, n_columns: int) -> None:
    """Check the arrays of models that give every class a score, of rows of so many columns."""
    require((group.chosen < len(group.models)).all(), "chosen is out of range")
    try:
        group.models.check(group.classes.size, n_columns)
    except (ValueError, TypeError) as error:  # of arrays of other types
        raise ModelFileError(f"the models of {type(group).__name__} do not fit together: {error}") from error


def _check_code_book(book: Any, n: Lengths) -> None:
    for name, kinds in (("names", {str}), ("dates", {bool}), ("gaps", {bool}), ("categories", {tuple, NoneType})):
        entries = getattr(book, name)
        require(isinstance(entries, tuple) and len(entries) == len(book.names), f"{name} of a code book is no tuple")
        require({type(entry) for entry in entries} <= kinds, f"{name} of a code book is of another type")
    texts = book.texts or (False,) * len(book.names)
    require(isinstance(texts, tuple) and len(texts) == len(book.names), "texts of a code book is no tuple")
    for labels, is_text in zip(book.categories, texts, strict=True):
        require(type(is_text) is bool and (labels is not None or not is_text), "a text has no categories")
    for labels, is_date in zip(book.categories, book.dates, strict=True):
        if labels is not None:
            require(not is_date, "a column of dates has categories")
            require(all(type(label) is str for label in labels), "a category is no text")
            require(len(set(labels)) == len(labels), "a category is there twice")


def _check_hypothesis_list(hypotheses: Any, n: Lengths) -> None:
    numeric = hypotheses.is_numeric
    require(not numeric or hypotheses.vote_by == "labels", "numbers are predicted by probabilities")
    for member in hypotheses.members:
        require(callable(getattr(member, "predict", None)), f"a {type(member).__name__} is no hypothesis")
        if type(member) is not pools.Constant:
            continue
        label, known = member.label, hypotheses.classes.tolist()
        is_predicted = type(label) is float and np.isfinite(label) if numeric else label in known
        require(is_predicted, f"a constant hypothesis predicts {'no number' if numeric else 'none of the classes'}")


def _check_given_subsamples(subsamples: Any, n: Lengths) -> None:
    again = sampling.GivenSubsamples(subsamples.n, list(subsamples))  # refuses what are no sets of rows
    require(np.array_equal(again.sizes, subsamples.sizes), "subsamples do not have their sizes")
    same = (np.array_equal(a, b) for a, b in zip(again, subsamples, strict=True))
    require(all(same), "subsamples are not sorted")


def _check_union_subsamples(subsamples: Any, n: Lengths) -> None:
    parts = subsamples.parts
    require(isinstance(parts, dict) and parts and all(type(name) is str for name in parts), "families have no names")
    for part in parts.values():
        plain = isinstance(part, sampling.Subsamples) and not isinstance(part, sampling.UnionSubsamples)
        require(plain and part.n == n["n"], "subsamples of families are of other samples")
    same = np.array_equal(np.concatenate([part.sizes for part in parts.values()]), subsamples.sizes)
    require(same, "subsamples of families have other sizes")


def _check_encoder(encoder: Any, n: Lengths) -> None:
    sizes = [len(encoder.numeric), len(encoder.text), len(encoder.categories_)]
    require(sizes == [n["numbers"], n["texts"], n["texts"]], "a ColumnEncoder has another number of columns")
    for names in encoder.categories_:
        require(isinstance(names, list) and all(isinstance(name, str) for name in names), "categories_ is no text")


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


# -- The table ---------------------------------------------------------------------------------------

_SIZES = {"n": "count >0", "sizes": "int >=0 <n: m"}
_PLAIN = Rule()  # it holds other objects or settings only, and reads no array by its position

_KERNEL_SUMS = {
    "support": "int32: s",
    "gamma": "double >=0 rows: m",
    "failed": "bool: m",
    "rows": "int32 >=0 rising: n",
    "working_memory": "whole >=0 <=1e15",
    "code_book": pools.CodeBook | None,
}
_MODELS = {"chosen": "int >=0: m", "vote_by": {"labels", "probabilities"}, "code_book": pools.CodeBook | None}

RULES: dict[type, Rule] = {
    FittedVotes: Rule(
        {
            "task": Task,
            "settings": FitSettings,
            "entropy": "whole >=0",
            "training_rows": TrainingRows,
            "code_book": pools.CodeBook | None,
            "n_features": "count >0",
            "feature_names": "label?: n_features",
            "row_digest": str,
            "target_digest": str,
            "ranges": ColumnRanges | None,
        },
        _check_fitted_votes,
    ),
    FitSettings: Rule({"n_candidates": "count >0"}),
    **{task: Rule(task.attributes) for task in TASKS},
    Regression: Rule(
        Regression.attributes,
        lambda _, n: require(n["limits"] in (0, 2), f"a range of the target has {n['limits']} ends"),
    ),
    Vote: Rule(
        {
            "task": Task,
            "hypotheses": pools.Hypotheses,
            "subsamples": sampling.Subsamples,
            "split": sampling.Split,
            "totals posterior": "finite >=0: m",
            "seen": "int >=0: m",
        },
        _check_vote,
    ),
    sampling.Split: Rule({"rows": "int?: n", "held_out": "int?: tested", "entropy": "whole >=0"}, _check_split),
    TrainingRows: Rule(
        {
            "hashes": "uint64 rising: n",
            "shift": "count <64",
            "repeated": "number >=0 <=1",
            "whole": str,
            "exact": TrainingRows | None,
        },
        _check_training_rows,
    ),
    ColumnRanges: Rule(
        {"names": tuple, "places": "int >=0: d", "low high median": "double nan: d", "gaps": "bool: d"},
        lambda ranges, n: require(len(ranges.names) == n["d"], "ranges are of other columns"),
    ),
    pools.HypothesisGroups: Rule({"kind": "int >=0: m", "groups": dict}, _check_groups, lengths="k"),
    pools.RBFSVMs: Rule(
        {
            **_KERNEL_SUMS,
            "n_classes": "int32 >0 <=k: m",
            "class_codes": "int32 >=0 <k <65536: known",
            "n_support": "int32 >=0: known",
            "dual_coef": "double rows: coefficients",
            "intercept": "double rows: machines",
            "C": "finite >0: m",
            "engine": {"auto", "cpu", "cuda"},
        },
        _check_svms,
        lengths="k",
    ),
    pools.RBFRidges: Rule(
        {
            **_KERNEL_SUMS,
            "n_support": "int32 >=0: m",
            "dual_coef": "double rows: s",
            "intercept": "double rows: m",
            "ridge": "double >0: m",
        },
        _check_ridges,
        lengths="k",
    ),
    pools.TreeEnsembles: Rule({"models": pools.TreeArrays, **_MODELS}, lengths="k"),
    pools.TreeArrays: Rule({"kind": {"boosting", "forest"}, **pools.TreeArrays.attributes()}),
    pools.LinearModels: Rule({"models": pools.LinearArrays, **_MODELS}, lengths="k"),
    pools.LinearArrays: Rule(pools.LinearArrays.attributes()),
    pools.CodeBook: Rule({}, _check_code_book),
    pools.HypothesisList: Rule(
        {"vote_by": {"labels", "probabilities"}}, _check_hypothesis_list, "members", lengths="k"
    ),
    pools.Untrained: Rule({"size": "count"}, lengths="k"),
    pools.EstimatorPool: Rule(members="estimator"),
    pools.PrefitPool: Rule(members="estimators"),
    pools.UnionPool: Rule(members="families"),
    ColumnEncoder: Rule(
        {"fill_ center_": "finite: numbers", "scale_": "finite >0: numbers", "missing_": "bool: texts"}, _check_encoder
    ),
    sampling.FoldSubsamples: Rule(_SIZES, _check_given_subsamples),
    sampling.GivenSubsamples: Rule(_SIZES, _check_given_subsamples),
    sampling.NoSubsamples: Rule(_SIZES),
    sampling.UnionSubsamples: Rule(_SIZES, _check_union_subsamples),
    sampling.RandomSubsamples: Rule({"n n_sizes": "count >0", "sizes": "int >0 <n: m", "entropy": "whole >=0"}),
    sampling.Partition: _PLAIN,
    **dict.fromkeys((pools.Constant, pools.RBFRidgePool, pools.RBFSVMPool), _PLAIN),
    **dict.fromkeys((pools.BoostingPool, pools.ForestPool, pools.LinearPool), _PLAIN),
}
