"""What the tests of the commands share: a small table, quick options, and where the package is."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

import pacbayes

QUICK = ("--estimator", "svm", "--n-hypotheses", "10", "--jobs", "1")

# The package that the tests use, wherever the program is started.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(pacbayes.__file__).parents[1])}


def table(n, seed=0):
    """Rows of numbers, text, true and false, with two classes that can nearly be told apart."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    city = rng.choice(["Oslo", "Rome", "<script>alert(1)</script>"], n)
    kind = np.where(size + 1.5 * (city == "Oslo") + 0.2 * rng.normal(size=n) > 0.5, "wet", "dry")
    return pd.DataFrame(
        {"size": size, "<b>noise</b>": rng.normal(size=n), "city": city, "open": rng.random(n) < 0.5, "kind": kind}
    )
