"""Learners that know categories and gaps themselves, in a pool of coded tables, and families by name."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from pacbayes import PACBayesClassifier
from pacbayes.pools import FAMILIES, CategoricalPool, RBFSVMPool, UnionPool, make_union

pd = pytest.importorskip("pandas")


def pool(**settings):
    learner = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=20, min_samples_leaf=5)
    return CategoricalPool(learner, n_hypotheses=3, subsample_size=0.7, vote_by="probabilities", **settings)


def test_a_learner_gets_categories_and_gaps(table):
    X, y = table
    model = PACBayesClassifier(UnionPool([("svm", RBFSVMPool(n_hypotheses=6)), ("hist", pool())]), random_state=0)
    model.fit(X, y)
    hypothesis = model.hypotheses_[7]
    assert list(hypothesis.model.is_categorical_) == [False, True]
    assert_array_equal(hypothesis.model.feature_names_in_, ["x0", "c0"])
    assert model.score(X, y) > 0.95
    assert model.verify_certificate(model.certificate_, X, y) == "arithmetic, model and data"


def test_a_new_category_is_predicted(table):
    X, y = table
    model = PACBayesClassifier(pool(), random_state=0).fit(X, y)
    new = pd.DataFrame({"city": ["Paris", None], "age": [np.nan, 70.0]})
    assert set(model.predict(new)) <= {"yes", "no"}


def test_arrays_are_taken_as_they_are(table):
    X, y = table
    numbers = np.column_stack((np.nan_to_num(X["age"]), np.arange(300.0)))
    model = PACBayesClassifier(pool(), random_state=0).fit(numbers, y)
    assert not hasattr(model.hypotheses_[0], "code_book")


def test_families_by_name():
    assert [name for name, _ in make_union(["linear", "svm"]).families] == ["linear", "svm"]
    with pytest.raises(ValueError, match=r"families must be some of 'svm', 'boosting'.*got 'svn'"):
        make_union(["svn"])


@pytest.mark.parametrize("name", ["lightgbm", pytest.param("catboost", marks=pytest.mark.slow)])
def test_libraries_by_name(table, name):
    pytest.importorskip(name)
    X, y = table
    family = FAMILIES[name]().set_params(n_hypotheses=2)
    models = [PACBayesClassifier(UnionPool([(name, family)]), random_state=0).fit(X, y) for _ in range(2)]
    assert models[0].score(X, y) > 0.8
    assert_array_equal(models[0].predict_proba(X), models[1].predict_proba(X))
    # A vote, and a hypothesis, on the table as it is.
    assert_array_equal(models[0].fitted_votes_.best.predict(X), models[0].predict(X))
    assert models[0].hypotheses_[0].predict(X).shape == (len(X),)


def test_labels_in_a_column_are_taken_as_they_are():
    class InAColumn(DecisionTreeClassifier):
        """As CatBoost answers where there are more than two classes."""

        def predict(self, X):
            return super().predict(X)[:, np.newaxis]

    X, y = load_iris(return_X_y=True)
    models = [
        PACBayesClassifier(learner, n_hypotheses=4, subsample_size=0.5, random_state=0).fit(X, y)
        for learner in (DecisionTreeClassifier(), InAColumn())
    ]
    assert_array_equal(*(model.predict(X) for model in models))
    assert models[0].certificate_.bound == models[1].certificate_.bound


def test_a_library_that_is_not_there(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(ImportError, match="the family 'catboost' needs another package: pip install catboost"):
        make_union(["catboost"])
