"""Models in files that run nothing when they are loaded.

A model is saved with skops: numbers, and the names of types. Loading makes objects of types that are trusted and
refuses all others by name, before any object is made. Trusted are the types below, and those that skops trusts: plain
containers, NumPy arrays and scikit-learn's estimators.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from numpy.typing import NDArray

from pacbayes import _memory
from pacbayes._writing import write_whole
from pacbayes.certificate import Certificate
from pacbayes.classifier import PACBayesClassifier

__all__ = ["ModelFileError", "dumps", "load", "save"]

_FORMAT = 1

# What a `PACBayesClassifier` consists of.
_TRUSTED = (
    "pacbayes.certificate.Certificate",
    "pacbayes.classifier.PACBayesClassifier",
    "pacbayes.columns.ColumnEncoder",
    "pacbayes.pools._base.Constant",
    "pacbayes.pools._estimator.EstimatorPool",
    "pacbayes.pools._estimator.PrefitPool",
    "pacbayes.pools._rbf_svm.RBFSVMPool",
    "pacbayes.pools._rbf_svm.SVMs",
    "pacbayes.sampling.FoldSubsamples",
    "pacbayes.sampling.GivenSubsamples",
    "pacbayes.sampling.NoSubsamples",
    "pacbayes.sampling.RandomSubsamples",
    # Splitters that need no labels, which `subsamples` may be.
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.RepeatedKFold",
    "sklearn.model_selection._split.ShuffleSplit",
    # Runs nothing either, but follows its node numbers without looking: `_check_tree` looks.
    "sklearn.tree._tree.Tree",
)


class ModelFileError(ValueError):
    """A file that is not a model, or holds types that are not trusted."""


def save(model: PACBayesClassifier, path: str | os.PathLike[str], **metadata: Any) -> None:
    """Save a fitted classifier.

    Parameters
    ----------
    model : PACBayesClassifier
        The classifier.
    path : path-like
        The file, by convention ``*.skops``. It appears when it is complete, and replaces one that exists.
    **metadata
        What `load` is to hand back with the model, as JSON can hold it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import PACBayesClassifier, model_file
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = PACBayesClassifier(random_state=0).fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     model_file.save(model, f"{folder}/moons.skops", columns=["x", "y"])
    ...     again, metadata = model_file.load(f"{folder}/moons.skops")
    >>> bool((again.predict(X) == model.predict(X)).all()), metadata["columns"]
    (True, ['x', 'y'])
    """
    write_whole({Path(path): dumps(model, **metadata)})


def dumps(model: PACBayesClassifier, **metadata: Any) -> bytes:
    """Return what `save` would write."""
    import skops.io

    _check_model(model)
    content = {"pacbayes_model": _FORMAT, "metadata": json.dumps(metadata), "model": model}
    data: bytes = skops.io.dumps(content, compression=ZIP_DEFLATED)
    return data


def load(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> tuple[PACBayesClassifier, dict[str, Any]]:
    """Load a classifier. Nothing in the file is run, and types that are not trusted are refused by name.

    Parameters
    ----------
    path : path-like
        The file.
    trusted : sequence of str, optional
        Names of further types to trust, such as that of a base learner that is not scikit-learn's. Trust only what you
        know: making an object may run any code that its type has.

    Returns
    -------
    model : PACBayesClassifier
        The classifier.
    metadata : dict
        What it was saved with.
    """
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    data = _contents(Path(path))
    allowed = [*_TRUSTED, *trusted]
    try:
        content = skops.io.loads(data, trusted=allowed)
    except UntrustedTypesFoundException as error:
        names = sorted(set(skops.io.get_untrusted_types(data=data)) - set(allowed))
        raise ModelFileError(
            f"{str(path)!r} holds types that are not trusted, and was not loaded: {', '.join(names)}"
        ) from error
    except Exception as error:
        # What comes out of a file that somebody else made may fail in any way.
        raise ModelFileError(_not_a_model(path, f"{type(error).__name__}: {error}")) from error
    if not isinstance(content, dict) or content.get("pacbayes_model") != _FORMAT:
        raise ModelFileError(_not_a_model(path, "there is something else in it"))
    try:
        _check_model(content["model"])
        return content["model"], dict(json.loads(content["metadata"]))
    except Exception as error:
        raise ModelFileError(_not_a_model(path, error)) from error


def _not_a_model(path: str | os.PathLike[str], why: object) -> str:
    return f"{str(path)!r} is not a model that pacbayes saved ({why})"


def _contents(path: Path) -> bytes:
    """The bytes of the file, if it is a zip archive with what skops writes, of a size that fits the memory."""
    if not path.exists():
        raise ModelFileError(f"there is no file {str(path)!r}")
    if path.is_dir():
        raise ModelFileError(f"{str(path)!r} is a folder, not a model")
    try:
        data = path.read_bytes()
        with ZipFile(io.BytesIO(data)) as archive:
            archive.getinfo("schema.json")
            unpacked = sum(member.file_size for member in archive.infolist())
    except OSError as error:
        raise ModelFileError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except Exception as error:
        # What is no zip archive, or a damaged one, may fail in any way.
        raise ModelFileError(_not_a_model(path, "it is no skops file, or not a complete one")) from error
    available = _memory.available()
    if available is not None and unpacked > available:
        raise ModelFileError(
            f"{str(path)!r} unpacks to {_memory.readable(unpacked)}, and {_memory.readable(available)} are available"
        )
    return data


def _check_model(model: Any) -> None:
    """Raise ValueError if this is not a fitted classifier whose parts fit together."""
    if not isinstance(model, PACBayesClassifier):
        raise ValueError(f"it holds a {type(model).__name__}, not a PACBayesClassifier")
    if not isinstance(getattr(model, "certificate_", None), Certificate):
        raise ValueError("the classifier is not fitted")
    m = {len(part) for part in (model.hypotheses_, model.losses_, model.posterior_, model.n_validation_)}
    if m != {model.certificate_.n_hypotheses}:
        raise ValueError(f"the parts of the classifier do not fit together: {sorted(m)} hypotheses")
    for tree, n_features in _trees(model):
        _check_tree(tree, n_features)


def _trees(model: Any) -> Iterator[tuple[Any, int]]:
    """All decision trees that can be reached from an object, each with the number of features it will be given."""
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, (str, bytes, int, float, type(None))):
            continue
        seen.add(id(thing))
        if isinstance(thing, dict):
            waiting.extend(thing.values())
        elif isinstance(thing, (list, tuple, set)) or (isinstance(thing, np.ndarray) and thing.dtype == object):
            waiting.extend(thing)
        elif hasattr(thing, "__dict__"):
            if "tree_" in vars(thing):
                yield thing.tree_, int(thing.n_features_in_)
            waiting.extend(vars(thing).values())


def _check_tree(tree: Any, n_features: int) -> None:
    """Raise ValueError if following the tree could leave its nodes or the features, or never end."""
    right_sizes = tree.node_count <= tree.capacity and tree.n_features == n_features
    if not (right_sizes and _leads_down(tree.children_left, tree.children_right, tree.feature, n_features)):
        raise ValueError("a decision tree has nodes that lead nowhere")


def _leads_down(left: NDArray[Any], right: NDArray[Any], feature: NDArray[Any], n_features: int) -> bool:
    inner = np.flatnonzero(left != -1)
    children = np.stack((left[inner], right[inner]))
    forward = (children > inner) & (children < left.size)
    return bool(forward.all() and np.all((feature[inner] >= 0) & (feature[inner] < n_features)) and left.size > 0)
