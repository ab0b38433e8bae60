"""Attempts to get wrong losses out of the arithmetic under a certificate. Each of them succeeded once."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_moons

from pacbayes import Certificate, CertificateError, PACBayesClassifier
from pacbayes.pools import RBFSVMPool, _engine
from pacbayes.posterior import minimize_lambda_bound

X, Y = make_moons(300, noise=0.15, random_state=0)


@pytest.mark.parametrize("columns", [1, 12])
def test_columns_far_from_zero_do_not_let_other_rows_in(columns):
    """Distances of sparse rows near 1e8 cancelled, by an arithmetic that the density of the whole sample chose."""
    rng = np.random.default_rng(0)
    points = np.zeros((80, 600))
    points[:, :columns] = 1e8 + rng.normal(size=(80, columns))
    points[rng.random((80, 600)) < 0.01] += 1.0
    labels = rng.integers(0, 2, 80)

    def fit(rows):
        model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=4, subsample_size=20, holdout=None, random_state=0)
        return model.fit(sparse.csr_array(rows), labels)

    model, queries = fit(points), sparse.csr_array(points)
    for h in range(4):
        changed = points.copy()
        outside = np.setdiff1d(np.arange(80), model.subsamples_[h])
        changed[outside] = rng.normal(size=(outside.size, 600))
        other = fit(changed)
        np.testing.assert_array_equal(model.hypotheses_[h].predict(queries), other.hypotheses_[h].predict(queries))
        assert model.hypotheses_[h].gamma == other.hypotheses_[h].gamma


@pytest.mark.parametrize("settings", [{"n_hypotheses": 4, "subsample_size": 3}, {"n_hypotheses": 1}])
def test_sparse_rows_without_any_support_vector(settings):
    labels = np.zeros(40)
    labels[3] = 1
    for seed in range(12):
        model = PACBayesClassifier(RBFSVMPool(), random_state=seed, **settings).fit(
            sparse.csr_array(sparse.eye(40, 400)), labels
        )
        assert set(model.predict(sparse.csr_array((5, 400)))) <= {0, 1}


def test_sparse_rows_with_a_rare_class():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        points = sparse.random(200, 600, density=0.01, rng=rng, format="csr")
        labels = (rng.random(200) < 0.03).astype(int)
        labels[0] = 1
        model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=60, subsample_size=10, random_state=seed).fit(
            points, labels
        )
        assert model.predict(points[:20]).shape == (20,)


def complex_loss(true, predicted):
    return (true != predicted) * (0.01 + 0.9j)


@pytest.mark.parametrize(
    "loss",
    [complex_loss, np.array([[0, 1 + 1j], [1, 0]]), [[0, 1j], [1, 0]], [["a", "b"], ["c", "d"]]],
    ids=["function", "complex matrix", "complex list", "text"],
)
def test_losses_that_are_no_real_numbers_are_refused(loss):
    with pytest.raises(ValueError, match="loss"):
        PACBayesClassifier(RBFSVMPool(), loss=loss, n_hypotheses=5, random_state=0).fit(X, Y)


def module_level_loss(true, predicted):
    return 1.0 * (true != predicted)


def test_hypotheses_are_not_added_with_a_module_level_function():
    """Redefined under the same name it would be accepted, and its losses mixed with those of the old one."""
    model = PACBayesClassifier(
        RBFSVMPool(), racing=False, loss=module_level_loss, n_hypotheses=6, subsample_size=6
    ).fit(X, Y)
    with pytest.raises(ValueError, match="hypotheses cannot be added with this loss"):
        model.add_hypotheses(X, Y, 12)


def test_alternating_minimisation_of_many_losses_ends():
    """A prior at which the two minima of F meet: each step is tiny, and there are 20,000 distinct losses."""
    log_mass, k = 49.9181616184, 10_000
    losses = np.repeat([0.02, 0.3], k) + np.tile(np.linspace(-1e-12, 1e-12, k), 2)
    prior = np.repeat([-log_mass, np.log1p(-np.exp(-log_mass))], k) - np.log(k)
    result = minimize_lambda_bound(losses, 200, prior=prior)
    assert result.nit < 10_000
    assert result.converged or "iterations" in result.message or "evaluations" in result.message


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"pacbayes_certificate": 2, "a": ' + "[" * 100_000 + "]" * 100_000 + "}", '{"a": 1e999}']
)
def test_json_that_is_deep_or_infinite_is_refused(text):
    with pytest.raises(CertificateError, match="not a certificate"):
        Certificate.from_json(text)


@pytest.mark.parametrize("gamma", [-1.0, -1e300, np.nan, np.inf])
def test_the_engine_refuses_kernel_widths_that_are_none(gamma):
    def integers(*values):
        return np.array(values, dtype=np.int32)

    with pytest.raises(ValueError, match="gamma"):
        _engine.Ensemble(
            integers(2),
            integers(0, 1),
            integers(1, 1),
            integers(0, 1),
            np.array([1.0, -1.0]),
            np.array([0.0]),
            np.array([gamma]),
            None,
        )
    with pytest.raises(ValueError, match="gamma"):
        _engine.kernel(np.full(_engine.tile_rows, 1000.0), gamma, np.empty(_engine.tile_rows))


def test_the_engine_refuses_subsamples_that_are_not_sorted():
    """It counted 54 mistakes instead of 78."""
    rng = np.random.default_rng(0)
    points, codes = rng.normal(size=(200, 2)), (rng.random(200) < 0.5).astype(np.int32)
    rows, sizes = np.sort(rng.permutation(200)[:40]).astype(np.int32), np.array([40], dtype=np.int64)
    trained = _engine.train(points, codes, rows, sizes, np.nan, np.array([1.0]), np.array([10.0]), None, 1e-3, 10**6)
    used, support = np.unique(trained["support"], return_inverse=True)
    names = ("n_classes", "classes", "counts", "support", "coefficients", "intercepts", "gamma")
    arrays = [support.astype(np.int32) if name == "support" else trained[name] for name in names]
    ensemble = _engine.Ensemble(*arrays, None)
    mistakes = np.empty(1, dtype=np.int64)
    with pytest.raises(ValueError, match="sorted"):
        _engine.count_mistakes(points, codes, 0, points[used], ensemble, rows[::-1].copy(), sizes, 2**24, mistakes)
