"""Compare objects that were made in two ways."""

import numpy as np


def assert_same(one, other):
    """Assert that two objects are of the same types, and have the same parts and the same bits."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape, one.flags.c_contiguous) == (other.dtype, other.shape, other.flags.c_contiguous)
        assert one.dtype == object or one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        assert_same(list(one.items()), list(other.items()))
    elif isinstance(one, (list, tuple)) or (isinstance(one, np.ndarray) and one.dtype == object):
        assert len(one) == len(other)
        for parts in zip(one, other, strict=True):
            assert_same(*parts)
    elif hasattr(one, "__dict__") and not isinstance(one, type):
        assert_same(vars(one), vars(other))
    elif not isinstance(one, np.ndarray):
        assert one == other or (one != one and other != other)
