"""A small problem in every kind of source, and what must be equal of two fits."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pacbayes import PACBayesClassifier
from pacbayes.pools import RBFSVMPool

N, D = 3000, 4
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, D)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.4 * _rng.normal(size=N) > 0).astype(np.int64)
NAMES = [f"x{j}" for j in range(D)]
SETTINGS = {"n_hypotheses": 16, "subsample_size": [20, 60], "random_state": 3}


def make(**settings):
    return PACBayesClassifier(**{"estimator": RBFSVMPool(), **SETTINGS, **settings})


def table(X=X, y=Y):
    return pa.table({**{name: X[:, j] for j, name in enumerate(NAMES)}, "label": y})


def write(path, rows=None, **settings):
    pq.write_table(table() if rows is None else rows, path, **settings)
    return str(path)


def assert_same(first, second):
    """Assert that two fits are the same, to the bit."""
    for mine, other in zip(first.votes_, second.votes_, strict=True):
        np.testing.assert_array_equal(mine.losses, other.losses)
        np.testing.assert_array_equal(mine.seen, other.seen)
        np.testing.assert_array_equal(mine.posterior, other.posterior)
        assert mine.certificate == other.certificate
        assert mine.certificate.digests == other.certificate.digests  # of hypotheses and settings
    np.testing.assert_array_equal(first.classes_, second.classes_)
    rows, others = first.fitted_votes_.training_rows, second.fitted_votes_.training_rows
    assert (rows.exact is None) == (others.exact is None)
    for mine, other in [(rows, others)] if rows.exact is None else [(rows, others), (rows.exact, others.exact)]:
        np.testing.assert_array_equal(mine.hashes, other.hashes)
        assert mine.whole == other.whole
