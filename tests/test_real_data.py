"""The paper's datasets, where a folder with them is given: PACBAYES_CSV=FOLDER, one NAME.csv.gz each, label last."""

import importlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from pacbayes import PACBayesClassifier
from pacbayes.bounds import clopper_pearson
from pacbayes.paper.aggregation import paper_classifier
from pacbayes.paper.experiments import cross_validated_svm

FOLDER = os.environ.get("PACBAYES_CSV")
pytestmark = pytest.mark.skipif(not FOLDER, reason="PACBAYES_CSV does not name a folder with the paper's datasets")


@pytest.fixture(scope="module")
def problems():
    """The datasets of the benchmarks."""
    folder = str(Path(__file__).parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    yield importlib.import_module("problems")
    sys.path.remove(folder)


@pytest.mark.parametrize(("name", "vote", "bound"), [("ionosphere", 0.078, 0.175), ("breast-cancer", 0.027, 0.085)])
def test_the_papers_setting(problems, name, vote, bound):
    """m = n, r = d + 1, widths from the whole sample: to the noise of three splits."""
    problem = problems.load(name, Path(FOLDER))
    losses, bounds = [], []
    for seed in range(3):
        train, test = problem.split(seed)
        model = paper_classifier(problem.n, problem.X.shape[1] + 1, seed, None).fit(problem.X[train], problem.y[train])
        losses.append(np.mean(model.predict(problem.X[test]) != problem.y[test]))
        bounds.append(model.certificate_.gibbs_bound)
    assert np.mean(losses) == pytest.approx(vote, abs=0.025)
    assert np.mean(bounds) == pytest.approx(bound, abs=0.02)


@pytest.mark.parametrize(
    "name", ["ionosphere", *(pytest.param(name, marks=pytest.mark.slow) for name in ("haberman", "breast-cancer"))]
)
def test_the_default_keeps_up_with_a_test_set(problems, name):
    """The rival: a cross-validated SVM on one half of the rows, tested on the other."""
    problem, outcomes = problems.load(name, Path(FOLDER)), []
    for seed in range(4):
        (X, y), (X_test, y_test) = (problem.rows(rows) for rows in problem.split(seed))
        half = y.size // 2
        svm = cross_validated_svm(X[:half], y[:half])
        errors = int(np.sum(svm.predict(X[half:]) != y[half:]))
        model = PACBayesClassifier(random_state=seed).fit(X, y)
        bounds = clopper_pearson(errors, y.size - half, 0.05), model.certificate_.bound
        outcomes.append([*bounds, *(np.mean(one.predict(X_test) != y_test) for one in (svm, model))])
    rival_bound, bound, rival_loss, loss = np.mean(outcomes, axis=0)
    assert bound <= rival_bound + 0.02
    assert loss <= rival_loss + 0.02
