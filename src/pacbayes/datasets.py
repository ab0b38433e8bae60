r"""The paper's eight datasets, by name, and Breiman's waveform generator.

`load` reads the files that UCI and LIBSVM publish: from a folder if one is given (`data_dir`, or the environment
variable `PACBAYES_DATA_DIR`), otherwise from a cache, to which each file is downloaded once. A file is accepted only if
its sha256 is that of the published one. Values and labels are as published, rows are in the order of the file, and
nothing is scaled.

`waveform` draws new points from the distribution of the Waveform data.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes._extras import require
from pacbayes._validation import Array, scalar, whole_number
from pacbayes.exceptions import DatasetError

__all__ = ["NAMES", "Dataset", "load", "waveform"]

_FOLDER_VARIABLE = "PACBAYES_DATA_DIR"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A labelled sample with its source and citation.

    Attributes
    ----------
    X : ndarray of shape (n, d), float64
        Features, as published.
    y : ndarray of shape (n,)
        Labels, as published: strings where these are letters (Ionosphere, AvsB), int64 otherwise.
    feature_names : list of str
        Names of the d features.
    name : str
        Name for `load`.
    title : str
        Name in the paper.
    citation : str
        Citation of the data.
    source : str
        URL of the published data.
    """

    X: Array = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    feature_names: list[str] = field(repr=False)
    name: str
    title: str
    citation: str = field(repr=False)
    source: str


def _read_libsvm(data: bytes, n_features: int) -> tuple[Array, NDArray[Any]]:
    """Read LIBSVM's format: a label, then ``index:value`` for the non-zero features, counted from one."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(io.BytesIO(data), n_features=n_features, zero_based=False)
    return X.toarray(), y.astype(np.int64)


def _read_table(
    data: bytes, n_features: int, *, delimiter: str = ",", label_column: int = -1, label_type: type = np.int64
) -> tuple[Array, NDArray[Any]]:
    """Read text with n_features values and a label on each line."""
    table = np.loadtxt(data.decode().splitlines(), delimiter=delimiter, dtype=str, comments=None, ndmin=2)
    X = np.delete(table, label_column, axis=1).astype(np.float64)
    # By way of a list: an array of strings would keep the width of the widest value in the table.
    return X.reshape(-1, n_features), np.array(table[:, label_column].tolist()).astype(label_type)


@dataclass(frozen=True)
class _Published:
    """A published file and the function that reads it.

    The file at `url` may be compressed; `sha256` is the hash of the uncompressed contents. `classes` are the labels
    that the paper uses.
    """

    title: str
    url: str
    sha256: str
    citation: str
    feature_names: tuple[str, ...]
    classes: tuple[int, ...] | tuple[str, ...] = (1, 2)
    read: Callable[[bytes, int], tuple[Array, NDArray[Any]]] = _read_table

    @property
    def file(self) -> str:
        """Name of the uncompressed file."""
        return self.url.rpartition("/")[2].removesuffix(".Z")

    def dataset(self, name: str, X: Array, y: NDArray[Any]) -> Dataset:
        """Return rows of this dataset, with what is known about it."""
        return Dataset(X, y, list(self.feature_names[: X.shape[1]]), name, self.title, self.citation, self.url)


def _numbered(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{i}" for i in range(1, count + 1))


def _uci(creators: str, year: int, title: str, doi: str) -> str:
    return f"{creators} ({year}). {title} [Dataset]. UCI Machine Learning Repository. https://doi.org/10.24432/{doi}"


_UCI_FILES = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_LIBSVM_FILES = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_LIBSVM_CITATION = (
    "LIBSVM's copy: Chang, C.-C. and Lin, C.-J. (2011). LIBSVM: A library for support vector machines. "
    "ACM Transactions on Intelligent Systems and Technology, 2(3), 27:1-27:27"
)

_PUBLISHED = {
    "mushrooms": _Published(
        "Mushrooms",
        f"{_LIBSVM_FILES}/mushrooms",
        "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538",
        "Mushroom (1981) [Dataset]. UCI Machine Learning Repository. https://doi.org/10.24432/C5959T. "
        + _LIBSVM_CITATION,
        _numbered("f", 112),
        read=_read_libsvm,
    ),
    "skin": _Published(
        "Skin",
        f"{_UCI_FILES}/00229/Skin_NonSkin.txt",
        "e30c0a845385dcc95a45c45ed263465674a49638e98ef740afd520769c7714a4",
        _uci("Bhatt, R. and Dhall, A.", 2009, "Skin Segmentation", "C5T30C"),
        ("B", "G", "R"),
        read=partial(_read_table, delimiter="\t"),
    ),
    "waveform": _Published(
        "Waveform",
        f"{_UCI_FILES}/waveform/waveform-+noise.data.Z",
        "b95842ef008156c06fbdebd9b6b1c45b058dfd6592d41f21c73b8c164b9579c6",
        _uci("Breiman, L. and Stone, C.", 1984, "Waveform Database Generator (Version 2)", "C56014"),
        _numbered("x", 40),
        classes=(1, 2),  # the 2000 + 600 + 708 points of the paper's table
    ),
    "adult": _Published(
        "Adult",
        f"{_LIBSVM_FILES}/a3a",
        "2d513572f103d25e84bebe4b9f2f52ee9445764b5a393caff7db9c482cfc1ee4",
        f"{_uci('Becker, B. and Kohavi, R.', 1996, 'Adult', 'C5XW20')}. {_LIBSVM_CITATION}",
        # The 123rd feature of the family a1a, ..., a9a never occurs in a3a.
        _numbered("f", 122),
        classes=(-1, 1),
        read=_read_libsvm,
    ),
    "ionosphere": _Published(
        "Ionosphere",
        f"{_UCI_FILES}/ionosphere/ionosphere.data",
        "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
        _uci("Sigillito, V., Wing, S., Hutton, L. and Baker, K.", 1989, "Ionosphere", "C5W01B"),
        _numbered("a", 34),
        classes=("b", "g"),
        read=partial(_read_table, label_type=np.str_),
    ),
    "avsb": _Published(
        "AvsB",
        f"{_UCI_FILES}/letter-recognition/letter-recognition.data",
        "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
        _uci("Slate, D.", 1991, "Letter Recognition", "C5ZP40"),
        (
            *("x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar"),
            *("y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
        ),
        classes=("A", "B"),
        read=partial(_read_table, label_column=0, label_type=np.str_),
    ),
    "haberman": _Published(
        "Haberman",
        f"{_UCI_FILES}/haberman/haberman.data",
        "b4b7a32586a5668f9f4d6dc8be9d1bc8cd4822523affb1f6b5bfc350681ef3e2",
        _uci("Haberman, S.", 1976, "Haberman's Survival", "C5XK51"),
        ("age", "year", "nodes"),
    ),
    "breast-cancer": _Published(
        "Breast cancer",
        f"{_LIBSVM_FILES}/breast-cancer",
        "445505b580a88e9e19b533b4f126d3dda1883bc7551e46907041ca263aa3c5d9",
        f"{_uci('Wolberg, W.', 1990, 'Breast Cancer Wisconsin (Original)', 'C5HP4Z')}. {_LIBSVM_CITATION}",
        # With the sample's id, which LIBSVM's file keeps, d is 10 as in the paper.
        (
            *("id", "clump-thickness", "cell-size-uniformity", "cell-shape-uniformity", "marginal-adhesion"),
            *("single-epithelial-cell-size", "bare-nuclei", "bland-chromatin", "normal-nucleoli", "mitoses"),
        ),
        classes=(2, 4),
        read=_read_libsvm,
    ),
}

NAMES = tuple(_PUBLISHED)
"""Names of the eight datasets, in the order of the paper's table."""


def load(
    name: str, *, data_dir: str | os.PathLike[str] | None = None, classes: Sequence[int | str] | None = None
) -> Dataset:
    """Load one of the paper's datasets.

    ============= ============= ======= === =================
    name          paper's name        n   d labels
    ============= ============= ======= === =================
    mushrooms     Mushrooms        8124 112 1, 2
    skin          Skin           245057   3 1, 2
    waveform      Waveform         3308  40 1, 2 of 0, 1, 2
    adult         Adult            3185 122 -1, 1
    ionosphere    Ionosphere        351  34 b, g
    avsb          AvsB             1555  16 A, B of A, ..., Z
    haberman      Haberman          306   3 1, 2
    breast-cancer Breast cancer     683  10 2, 4
    ============= ============= ======= === =================

    The first feature of breast-cancer is the sample's id, up to 13 million, which is one of the paper's ten: without
    scaling it dominates all distances. Rows of skin are sorted by label, and most occur more than once.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    data_dir : path, optional
        Folder with the published files under their own names; by default the environment variable
        ``PACBAYES_DATA_DIR``. Without a folder, the file is downloaded once to the user's cache, which needs
        ``pip install pacbayes[datasets]``.
    classes : sequence of labels, optional
        Labels of the rows to keep; by default those that the paper uses. ``classes=(0, 1, 2)`` gives all of waveform.

    Returns
    -------
    Dataset
        Rows in the order of the file.

    Raises
    ------
    DatasetError
        If the file is missing, cannot be downloaded, or is not the published one.

    Examples
    --------
    >>> data = load("haberman")  # doctest: +SKIP
    >>> data.X.shape, data.feature_names  # doctest: +SKIP
    ((306, 3), ['age', 'year', 'nodes'])
    """
    if name not in _PUBLISHED:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    published = _PUBLISHED[name]
    X, y = published.read(_contents(published, data_dir), len(published.feature_names))
    keep = np.isin(y, _check_classes(published.classes if classes is None else classes, np.unique(y).tolist()))
    return published.dataset(name, X[keep], y[keep])


def _check_classes(classes: Sequence[int | str], known: list[Any]) -> list[Any]:
    """Return `classes` as a list, or raise if they are not distinct labels among the known ones."""
    # A string is a sequence of its letters, but was probably meant as one label.
    chosen = list(classes) if np.iterable(classes) and not isinstance(classes, str) else []
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(known):
        raise ValueError(
            f"classes must be a sequence of distinct labels among {', '.join(map(repr, known))}, got {classes!r}"
        )
    return chosen


def _contents(published: _Published, data_dir: str | os.PathLike[str] | None) -> bytes:
    """Return the verified contents of a published file: from `data_dir`, the environment's folder or the cache."""
    origin = "data_dir" if data_dir is not None else _FOLDER_VARIABLE
    given = data_dir if data_dir is not None else os.environ.get(_FOLDER_VARIABLE) or None
    if given is None:
        return _from_cache(published)
    folder = Path(given).expanduser()
    for path in (folder / published.file, folder / published.url.rpartition("/")[2]):
        if path.is_file():
            return _verified(published, path.read_bytes(), str(path))
    raise DatasetError(
        f"{published.file} is not in {folder}, the folder given as {origin}: "
        f"put the file there, as published at {published.url}"
    )


def _from_cache(published: _Published) -> bytes:
    by_hand = (
        f"Or get {published.file} from {published.url} by other means, put it in a folder and name the folder as "
        f"data_dir or in the environment variable {_FOLDER_VARIABLE}"
    )
    pooch = require("pooch", "datasets", f"{published.file} must be downloaded, which needs", f". {by_hand}")

    def download(url: str, output_file: str, pooch_instance: Any) -> None:
        # The download is uncompressed and verified under a temporary name, which pooch removes after an error: the
        # cache never holds a file that is not the published one.
        # Not streamed: the files are small, and pooch does not close the socket of a stream that fails.
        pooch.HTTPDownloader(stream=False)(url, output_file, pooch_instance)
        output = Path(output_file)
        output.write_bytes(_verified(published, output.read_bytes(), url))

    cache = pooch.os_cache("pacbayes")
    try:
        path = pooch.retrieve(published.url, published.sha256, fname=published.file, path=cache, downloader=download)
        return _verified(published, Path(path).read_bytes(), path)
    except OSError as error:
        # All errors of requests are OSErrors, and so is a cache that cannot be written.
        raise DatasetError(
            f"{published.file} could not be downloaded from {published.url} to {cache}: {error}. "
            f"Try again with a network. {by_hand}"
        ) from error


def _verified(published: _Published, contents: bytes, origin: str) -> bytes:
    """Return the uncompressed contents that were read from `origin`, or raise if they are not the published file."""
    remedy = f"it was cut short or altered, or is another version. Get it again from {published.url}"
    if origin.endswith(".Z"):
        try:
            contents = _uncompress(contents)
        except ValueError as error:
            raise DatasetError(f"{origin} is not {published.file} in compressed form ({error}): {remedy}") from error
    found = hashlib.sha256(contents).hexdigest()
    if found != published.sha256:
        raise DatasetError(
            f"{origin} is not {published.file} as published, sha256 must be {published.sha256}, got {found}: {remedy}"
        )
    return contents


def _uncompress(data: bytes) -> bytes:
    """Decompress a file that was packed by the UNIX program compress."""
    uncompresspy = require("uncompresspy", "datasets", "files that end with .Z need")
    with uncompresspy.LZWFile(io.BytesIO(data), warn_truncation=False) as file:
        return bytes(file.read())


# Breiman et al. (1984): h_1 has its peak at t = 11, h_2 is h_1 moved by 4 to the right, h_3 by 4 to the left.
_H1, _H2, _H3 = np.maximum(6.0 - np.abs(np.arange(1, 22) - np.array([[11], [15], [7]])), 0)

# The two waves of each class, by the labels of the published file, which number the book's classes 1, 2, 3 backwards.
_WAVES = {0: (_H2, _H3), 1: (_H1, _H3), 2: (_H1, _H2)}


def waveform(n: int, *, random_state: Any = None, classes: Sequence[int] = (1, 2), noise: bool = True) -> Dataset:
    r"""Draw points from the distribution of the Waveform data, by Breiman's generator.

    Each class belongs to two of three triangular waves h on t = 1, ..., 21, and a point of it is a random mixture of
    the two, with noise:

    .. math:: x_t = u h_a(t) + (1 - u) h_b(t) + \epsilon_t,

    u uniform on [0, 1], :math:`\epsilon_t` standard normal. Labels are those of the published file: 0 for the waves
    with peaks at 7 and 15, 1 for 7 and 11, 2 for 11 and 15. The published values are rounded to two decimals, these
    are not.

    Parameters
    ----------
    n : int
        Number of points.
    random_state : int, Generator, RandomState or None, default=None
        Seed, or source of randomness.
    classes : sequence of int, default=(1, 2)
        Labels among 0, 1, 2 to draw from, with equal probability. The paper uses 1 and 2.
    noise : bool, default=True
        Whether to append 19 features that are standard normal in all classes, as the published data do.

    Returns
    -------
    Dataset
        With 40 features, or 21 without noise: for a seed, these are the same 21.

    References
    ----------
    L. Breiman, J. H. Friedman, R. A. Olshen and C. J. Stone, Classification and Regression Trees, Wadsworth, 1984,
    pages 49 to 55 and 169.

    Examples
    --------
    >>> data = waveform(1000, random_state=0)
    >>> data.X.shape, np.unique(data.y).tolist()
    ((1000, 40), [1, 2])
    >>> data.X[data.y == 2, 10:15].mean(axis=0).round()  # where two waves with peaks at 11 and 15 overlap
    array([4., 4., 4., 4., 4.])
    """
    n_points = int(scalar("n", whole_number("n", n)))
    chosen = np.array(_check_classes(classes, sorted(_WAVES)), dtype=np.int64)
    rng = _generator(random_state)

    y = rng.choice(chosen, size=n_points)
    u = rng.uniform(size=(n_points, 1))
    X = rng.standard_normal((n_points, _H1.size))
    for label in chosen:
        rows = y == label
        a, b = _WAVES[label]
        X[rows] += u[rows] * a + (1 - u[rows]) * b
    if noise:
        X = np.hstack([X, rng.standard_normal((n_points, 19))])

    return _PUBLISHED["waveform"].dataset("waveform", X, y)


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, a non-negative int, a Generator or a RandomState, got {random_state!r}"
        ) from error
