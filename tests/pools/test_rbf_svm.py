import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from pacbayes.pools import RBFSVMPool, jaakkola_gamma
from pacbayes.pools._rbf_svm import GAMMA_GRID
from pacbayes.sampling import RandomSubsamples

X, Y = make_moons(200, noise=0.2, random_state=0)
CLASSES = np.array([0, 1])
SUBSAMPLES = RandomSubsamples(200, [15], 40, entropy=0)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_jaakkola_against_all_distances(n_classes):
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(60, 3)), rng.integers(0, n_classes, 60)
    distances = pairwise_distances(points)
    nearest = [distances[i][labels != labels[i]].min() for i in range(60)]
    assert jaakkola_gamma(points, labels) == pytest.approx(1 / (2 * np.median(nearest) ** 2), rel=1e-12)


@pytest.mark.parametrize(
    ("points", "labels", "expected"),
    [
        ([[0.0], [0.0], [2.0]], [0, 1, 1], 1 / 8),  # coinciding points of two classes are left out
        ([[0.0], [0.0]], [0, 1], 0.5),  # nothing else is left
        ([[0.0], [1e-140]], [0, 1], 1e100),
        ([[0.0], [1e60]], [0, 1], 1e-100),
    ],
)
def test_jaakkola_stays_positive_and_finite(points, labels, expected):
    assert jaakkola_gamma(np.array(points), np.array(labels)) == pytest.approx(expected, rel=1e-12)


def test_a_hypothesis_is_the_svc_that_the_paper_describes():
    pool = RBFSVMPool(CLASSES, entropy=0, C=[10.0])
    for h, svm in enumerate(pool.fit(X, Y, SUBSAMPLES, range(40))):
        rows = SUBSAMPLES[h]
        seed = jaakkola_gamma(X[rows], Y[rows])
        factor = svm.gamma / seed
        assert np.isclose(GAMMA_GRID, factor).any()
        expected = SVC(C=10.0, gamma=svm.gamma).fit(X[rows], Y[rows])
        np.testing.assert_array_equal(svm.predict(X), expected.predict(X))


def test_soft_margins_are_drawn_from_the_list():
    pool = RBFSVMPool(CLASSES, entropy=0, C=[1.0, 10.0])
    assert {svm.C for svm in pool.fit(X, Y, SUBSAMPLES, range(40))} == {1.0, 10.0}


def test_every_width_of_the_grid_is_drawn():
    pool = RBFSVMPool(CLASSES, entropy=0, C=[1.0], reference=(X, Y))
    widths = {svm.gamma for svm in pool.fit(X, Y, SUBSAMPLES, range(40))}
    np.testing.assert_allclose(sorted(widths), jaakkola_gamma(X, Y) * GAMMA_GRID)


def test_scaling_comes_from_the_same_points_as_the_width():
    pool = RBFSVMPool(CLASSES, entropy=0, C=[1.0], scaler="minmax")
    for h, pipeline in enumerate(pool.fit(X, Y, SUBSAMPLES, range(5))):
        expected = MinMaxScaler((-1, 1)).fit(X[SUBSAMPLES[h]])
        np.testing.assert_array_equal(pipeline[0].transform(X), expected.transform(X))
    shared = RBFSVMPool(CLASSES, entropy=0, C=[1.0], scaler="standard", reference=(X[:50], Y[:50]))
    for pipeline in shared.fit(X, Y, SUBSAMPLES, range(5)):
        np.testing.assert_allclose(pipeline[0].mean_, X[:50].mean(axis=0))


def test_reference_points_of_one_class_still_give_a_width():
    pool = RBFSVMPool(CLASSES, entropy=0, C=[1.0], reference=(X[Y == 0], Y[Y == 0]))
    assert all(0 < svm.gamma < np.inf for svm in pool.fit(X, Y, SUBSAMPLES, range(5)))
