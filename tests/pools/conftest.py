"""What tests of several pools use."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def table():
    """A table with text and gaps, and two classes that follow from it."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    city = rng.choice(["Oslo", "Rome", "Lima", None], 300)
    age = np.where(rng.random(300) < 0.1, np.nan, rng.uniform(18, 80, 300))
    y = np.where((city == "Rome") | (np.nan_to_num(age) > 60), "yes", "no")
    return pd.DataFrame({"city": city, "age": age}), y
