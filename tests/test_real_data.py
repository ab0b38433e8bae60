"""The paper's datasets, where a folder with them is given: PACBAYES_CSV=FOLDER, one NAME.csv.gz each, label last."""

import importlib
import os
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest

from pacbayes.paper.aggregation import paper_classifier

FOLDER = os.environ.get("PACBAYES_CSV")
pytestmark = pytest.mark.skipif(not FOLDER, reason="PACBAYES_CSV does not name a folder with the paper's datasets")


@pytest.fixture(scope="module")
def benchmark():
    """The module `certificates` of the benchmarks, which imports its neighbours."""
    folder = str(Path(__file__).parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    yield importlib.import_module("certificates")
    sys.path.remove(folder)


@pytest.mark.parametrize(("name", "vote", "bound"), [("ionosphere", 0.078, 0.175), ("breast-cancer", 0.027, 0.085)])
def test_the_papers_setting(benchmark, name, vote, bound):
    """m = n, r = d + 1, widths from the whole sample: to the noise of three splits."""
    problem = benchmark.load(name, Path(FOLDER))
    losses, bounds = [], []
    for seed in range(3):
        train, test = problem.split(seed)
        model = paper_classifier(problem.n, problem.X.shape[1] + 1, seed, None).fit(problem.X[train], problem.y[train])
        losses.append(np.mean(model.predict(problem.X[test]) != problem.y[test]))
        bounds.append(model.certificate_.gibbs_bound)
    assert np.mean(losses) == pytest.approx(vote, abs=0.025)
    assert np.mean(bounds) == pytest.approx(bound, abs=0.02)


@pytest.mark.parametrize("name", ["ionosphere", "haberman", "breast-cancer"])
def test_the_default_keeps_up_with_a_test_set(benchmark, name):
    problem = benchmark.load(name, Path(FOLDER))
    with joblib.parallel_config("threading"):  # other processes do not know the benchmark
        rival, default = (
            np.array([list(vars(method(problem, *problem.split(seed), seed)).values()) for seed in range(4)]).mean(
                axis=0
            )
            for method in (benchmark.rival_half, benchmark.pac_bayes())
        )
    # Columns are the bound and the test loss.
    assert default[0] <= rival[0] + 0.02
    assert default[1] <= rival[1] + 0.02
