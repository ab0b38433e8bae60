import numpy as np
import pytest
import stored_rows
from stored_rows import X, make, write

from pacbayes import rows as sources
from pacbayes.fitting import _rows


@pytest.fixture(autouse=True)
def _blocks_of_few_rows(monkeypatch):
    """Read several blocks of several batches, and most rows of the rounds from the source."""
    monkeypatch.setattr(_rows, "_EARLY_BYTES", 200 * X.shape[1] * X.itemsize)
    monkeypatch.setattr(sources._base, "_LEAST_ROWS", 256)
    monkeypatch.setattr(sources, "_MAPPED_BYTES", 0)


@pytest.fixture(scope="session")
def in_memory():
    return make().fit(stored_rows.X, stored_rows.Y)


@pytest.fixture(scope="session")
def parquet(tmp_path_factory):
    return write(tmp_path_factory.mktemp("parquet") / "rows.parquet", row_group_size=60)


@pytest.fixture(scope="session")
def mapped(tmp_path_factory):
    path = tmp_path_factory.mktemp("mapped") / "rows.npy"
    np.save(path, X)
    return path
