"""The paper's datasets, where a folder with them is given: PACBAYES_CSV=FOLDER, one NAME.csv.gz each, label last."""

import importlib.util
import os
from pathlib import Path

import pytest

FOLDER = os.environ.get("PACBAYES_CSV")
pytestmark = pytest.mark.skipif(not FOLDER, reason="PACBAYES_CSV does not name a folder with the paper's datasets")


@pytest.fixture(scope="module")
def run():
    path = Path(__file__).parents[1] / "benchmarks" / "defaults.py"
    spec = importlib.util.spec_from_file_location("defaults", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run


@pytest.mark.parametrize(("name", "vote", "bound"), [("ionosphere", 0.078, 0.175), ("breast-cancer", 0.027, 0.085)])
def test_the_papers_setting(run, name, vote, bound):
    """m = n, r = d + 1, widths from the whole sample: to the noise of three splits."""
    result = run(name, Path(FOLDER), 3, paper=True)
    assert result["vote"] == pytest.approx(vote, abs=0.025)
    assert result["kl bound"] == pytest.approx(bound, abs=0.02)
    assert result["holds"] == 1


@pytest.mark.parametrize("name", ["ionosphere", "haberman", "breast-cancer"])
def test_defaults_keep_up_with_the_cross_validated_svm(run, name):
    result = run(name, Path(FOLDER), 5, paper=False)
    assert result["vote"] <= result["svm"] + 0.015
    assert result["holds"] == 1
