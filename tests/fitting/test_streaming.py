"""Fits to rows that are read in blocks: the bits of a fit to an array."""

import os
import pickle

import numpy as np
import pyarrow as pa
import pytest
import zarr
from joblib import parallel_config
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from stored_rows import NAMES, N, X, Y, assert_same, make, table, write
from sweeps import sweep

from pacbayes.exceptions import CertificateError, SourceError
from pacbayes.fitting import _rows, _work
from pacbayes.io import load_model, save_model
from pacbayes.pools import EstimatorPool, RBFSVMPool
from pacbayes.rows import ArraySource, open_source

TREES = EstimatorPool(DecisionTreeClassifier(max_depth=4))


@pytest.mark.parametrize("kind", ["one group", "many groups", "files", "memmap", "zarr", "source"])
def test_every_source_gives_the_bits_of_an_array(kind, in_memory, tmp_path, parquet, mapped):
    if kind == "memmap":
        model = make().fit(np.load(mapped, mmap_mode="r"), Y)
    elif kind == "zarr":
        rows = zarr.create_array(str(tmp_path / "X"), shape=X.shape, chunks=(500, 2), dtype=X.dtype)
        labels = zarr.create_array(str(tmp_path / "y"), shape=Y.shape, chunks=(500,), dtype=Y.dtype)
        rows[:], labels[:] = X, Y
        model = make().fit(rows, labels)
    elif kind == "source":
        model = make().fit(ArraySource(X, Y))
    elif kind == "files":
        for k in range(3):
            write(tmp_path / f"{k}.parquet", table(X[k::3], Y[k::3]))
        model = make().fit(tmp_path, "label")
        order = np.concatenate([np.arange(k, N, 3) for k in range(3)])
        assert_same(model, make().fit(X[order], Y[order]))
        return
    else:
        model = make().fit(parquet if kind == "many groups" else write(tmp_path / "t.parquet"), "label")
    assert_same(model, in_memory)
    np.testing.assert_array_equal(model.predict(open_source(parquet, columns=NAMES)), in_memory.predict(X))


@pytest.mark.parametrize(
    "settings",
    sweep(
        [
            {"holdout": None},
            {"holdout": 0.3, "voting": "gibbs"},
            {"voting": "best"},
            {"voting": "uniform"},
            {"racing": False},
            {"racing": "training"},
            {"holdout": 0.4, "loss": [[0, 1], [3, 0]]},
            {"estimator": RBFSVMPool(gamma_source="reserved", reserved_size=200)},
            {"estimator": RBFSVMPool(scaler=None)},
            {"estimator": TREES},
            {"estimator": TREES, "holdout": None, "loss": "brier"},
            {"estimator": TREES, "racing": False, "holdout": 0.5},
        ],
        quick=[1, 2, 5, 6, 9],
    ),
    ids=str,
)
def test_every_setting_gives_the_bits_of_an_array(settings, parquet):
    model, reference = make(**settings).fit(parquet, "label"), make(**settings).fit(X, Y)
    assert_same(model, reference)
    np.testing.assert_array_equal(model.predict(parquet), reference.predict(X))
    assert model.verify_certificate(model.certificate_, parquet, "label") == "arithmetic, model and data"


@pytest.mark.parametrize("parameters", [{"n_jobs": 2}, {"rows": 37}, {"n_jobs": 2, "rows": 300}])
def test_nothing_depends_on_workers_or_batches(parameters, parquet, in_memory, set_block_rows):
    set_block_rows(parameters.get("rows", 65536))
    assert_same(make(n_jobs=parameters.get("n_jobs")).fit(parquet, "label"), in_memory)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_processes_read_their_own_rows(backend, parquet):
    settings = {"estimator": TREES, "holdout": 0.5}
    with parallel_config(backend, n_jobs=2):
        model = make(**settings).fit(parquet, "label")
    assert_same(model, make(**settings).fit(X, Y))


def test_most_rows_are_read_rather_than_kept(parquet, monkeypatch):
    """Without this, the tests above would compare arrays with arrays."""
    model = make(holdout=None).fit(parquet, "label")
    blocks = []
    count = _work.sum_losses
    monkeypatch.setattr("pacbayes.fitting._training.sum_losses", lambda *a: (blocks.append(a[1]), count(*a))[1])
    assert_same(make(holdout=None).fit(parquet, "label"), model)
    assert sum(block.n_rows for block in blocks if isinstance(block, _rows.SourceBlock)) > N / 2
    assert 0 < sum(block.n_rows for block in blocks if isinstance(block, _rows.MemoryBlock)) < 400


def test_labels_of_text_and_many_classes(tmp_path):
    names = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    path = write(tmp_path / "t.parquet", table(y=names), row_group_size=500)
    model, reference = make().fit(path, "label"), make().fit(X, names.astype(object))  # as in a data frame
    assert_same(model, reference)
    assert model.predict(path).tolist() == reference.predict(X).tolist()


def test_features_go_by_their_names(parquet, tmp_path):
    model = make().fit(parquet, "label")
    assert model.feature_names_in_.tolist() == NAMES
    shuffled = write(tmp_path / "t.parquet", table().select([*NAMES[::-1], "label"]).append_column("id", pa.array(Y)))
    np.testing.assert_array_equal(model.predict(shuffled), model.predict(parquet))
    np.testing.assert_array_equal(model.predict(table().to_pandas()[NAMES]), model.predict(parquet))
    with pytest.raises(SourceError, match="has no column 'x0'"):
        model.predict(write(tmp_path / "u.parquet", table().drop_columns(["x0"])))
    in_memory = make().fit(X, Y)
    with pytest.raises(ValueError, match="X must have 4 features, as in training, got 5"):
        in_memory.predict(parquet)
    assert not hasattr(make().fit(ArraySource(X, Y)), "feature_names_in_")


def test_predictions_come_in_blocks(parquet, in_memory):
    batches = list(in_memory.predict_batches(open_source(parquet, columns=NAMES)))
    assert len(batches) > 5
    np.testing.assert_array_equal(np.concatenate(batches), in_memory.predict(X))
    shares = np.concatenate(list(in_memory.predict_batches(ArraySource(X), method="predict_proba")))
    np.testing.assert_array_equal(shares, in_memory.predict_proba(X))
    np.testing.assert_array_equal(in_memory.predict_proba(ArraySource(X)), in_memory.predict_proba(X))
    np.testing.assert_array_equal(in_memory.predict_hypotheses(ArraySource(X)), in_memory.predict_hypotheses(X))
    with pytest.raises(ValueError, match="method must be 'predict', 'predict_proba' or 'predict_shares', got 'vote'"):
        next(in_memory.predict_batches(X, method="vote"))


def test_randomised_predictions_are_those_of_an_array(parquet):
    settings = {"voting": "gibbs", "holdout": None}
    model, reference = make(**settings).fit(parquet, "label"), make(**settings).fit(X, Y)
    np.testing.assert_array_equal(model.predict(parquet), reference.predict(X))


def test_rows_that_single_precision_cannot_tell_apart(tmp_path):
    close = 1e5 + 1e-3 * X.astype(np.float64)
    model, reference = make().fit(write(tmp_path / "a.parquet", table(close)), "label"), make().fit(close, Y)
    assert_same(model, reference)
    path = write(tmp_path / "b.parquet", table(close[1:], Y[1:]))
    with pytest.raises(ValueError, match="2999 of 2999 rows are rows of the training sample"):
        model.certify(path, "label")


def test_new_rows_certify(tmp_path, parquet, in_memory):
    rng = np.random.default_rng(5)
    new = rng.normal(size=(2000, 4)).astype(np.float32)
    labels = (new[:, 0] * new[:, 1] + new[:, 2] > 0).astype(int)
    labels[:3] = 7  # unknown: errors
    path = write(tmp_path / "new.parquet", table(new, labels), row_group_size=300)
    model = make().fit(parquet, "label")
    assert model.certify(path, "label") == in_memory.certify(new, labels)
    assert model.certify(path) == in_memory.certify(new)
    assert model.count_errors(path, "label") == in_memory.count_errors(new, labels)
    for path, y in ((parquet, "label"), (write(tmp_path / "half.parquet", table().slice(1000, 900)), None)):
        with pytest.raises(ValueError, match="rows are rows of the training sample"):
            model.certify(path, y)


@pytest.mark.parametrize(
    "settings", [{"holdout": None}, {"holdout": 0.5}, {"estimator": TREES, "holdout": 0.5}], ids=str
)
def test_sums_of_losses_do_not_depend_on_blocks(settings, parquet, monkeypatch, set_block_rows):
    """As with 2^53 rows: the sum of these losses would have more bits than a number has."""
    monkeypatch.setattr("pacbayes._losses._QUANTUM", 2.0**-52)
    costs = [[0, 1 / 3], [1, 1 / 7]]
    model = make(loss=costs, **settings).fit(parquet, "label")
    set_block_rows(37)
    assert_same(model, make(loss=costs, **settings).fit(X, Y))
    assert model.verify_certificate(model.certificate_, parquet, "label") == "arithmetic, model and data"


class Changing(ArraySource):
    """Rows that are others from some reading of their first block on: no file system says so."""

    def __init__(self, X, y, later, after):
        super().__init__(X, y)
        self.later, self.after, self.readings = later, after, 0

    def batches(self, start, stop, size):
        self.readings += start == 0
        rows = self.X if self.readings <= self.after else self.later
        for first in range(start, stop, size):
            yield first, rows[first : min(first + size, stop)]


@pytest.mark.parametrize("holdout", [None, 0.5])
@pytest.mark.parametrize("last", [False, True])
def test_rows_that_change_between_readings_are_noticed(holdout, last, in_memory):
    """The first reading decides what the rows are: those that validate or test later are compared with it."""
    undisturbed = Changing(X, Y, X, 0)
    make(holdout=holdout).fit(undisturbed)
    assert undisturbed.readings > 2
    later = X.copy()
    later[0, 0] = np.nextafter(later[0, 0], np.float32(9))
    model = make(holdout=holdout)
    with pytest.raises(SourceError, match="rows 0 to 255 of X are not what they were when they were first read"):
        model.fit(Changing(X, Y, later, undisturbed.readings - 1 if last else 1))
    assert not hasattr(model, "certificate_")


@pytest.mark.parametrize("labelled", [True, False])
def test_rows_that_become_those_of_training_certify_nothing(labelled, in_memory):
    new = np.random.default_rng(8).normal(size=X.shape).astype(np.float32)
    source = Changing(new, Y if labelled else None, X, 1)
    with pytest.raises(SourceError, match="rows 0 to 255 of X are not what they were"):
        in_memory.certify(source)


def test_verification_notices_other_data(tmp_path, parquet):
    model = make().fit(parquet, "label")
    wrong = np.where(np.arange(N) < 300, 1 - Y, Y)
    with pytest.raises(CertificateError, match="is stated as"):
        model.verify_certificate(model.certificate_, write(tmp_path / "t.parquet", table(y=wrong)), "label")
    with pytest.raises(CertificateError, match="y holds a label, in row 0, which the classifier does not know"):
        model.verify_certificate(model.certificate_, write(tmp_path / "t.parquet", table(y=Y + 1)), "label")


def test_models_are_saved_cloned_and_sent(parquet, tmp_path, in_memory):
    model = make(checkpoint=str(tmp_path / "parts")).fit(parquet, "label")
    save_model(model, tmp_path / "model.skops")
    again, _ = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(parquet), in_memory.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(parquet), in_memory.predict(X))
    assert clone(model).get_params()["checkpoint"] == str(tmp_path / "parts")


def test_hypotheses_need_their_rows_in_memory():
    rows = _rows.GatheredRows(np.array([2, 5]), np.zeros((2, 3)), 9)
    assert rows.shape == (9, 3)
    assert rows[np.array([5])].shape == (1, 3)
    with pytest.raises(SourceError, match="not in memory"):
        rows[np.array([2, 3])]


# ---------------------------------------------------------------------------------------------------
# What is refused
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"got a missing value \(NaN or null\) in column 'x2', row 1234"),
        (np.inf, "got an infinite value in column 'x2', row 1234"),
    ],
)
def test_rows_must_be_finite(tmp_path, value, message):
    wrong = X.copy()
    wrong[1234, 2] = value
    path = write(tmp_path / "t.parquet", table(wrong), row_group_size=500)
    model = make(estimator=LogisticRegression())
    with pytest.raises(SourceError, match=message):
        model.fit(path, "label")
    assert not hasattr(model, "n_features_in_")


def test_trees_take_missing_values(tmp_path):
    gaps = X.copy()
    gaps[::7, 1] = np.nan
    settings = {"estimator": DecisionTreeClassifier(max_depth=3)}
    assert_same(
        make(**settings).fit(write(tmp_path / "t.parquet", table(gaps)), "label"), make(**settings).fit(gaps, Y)
    )


def test_too_large_numbers_are_refused(tmp_path):
    wrong = X.astype(np.float64)
    wrong[2000, 0] = 1e200
    with pytest.raises(ValueError, match="X must hold numbers up to 1e\\+150"):
        make().fit(write(tmp_path / "t.parquet", table(wrong)), "label")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(N, dtype=int), "at least two classes, got one class only: 0"),
        (X[:, 0], "Unknown label type: continuous"),
        (Y[:-1], "one label for each of the 3000 rows"),
        (None, "y must be given"),
    ],
)
def test_labels_are_checked(y, message):
    with pytest.raises(ValueError, match=message):
        make().fit(ArraySource(X, y))


def test_settings_that_need_all_rows_are_refused(parquet):
    with pytest.raises(ValueError, match="gamma_source must be 'subsample' or 'reserved'"):
        make(estimator=RBFSVMPool(gamma_source="sample")).fit(parquet, "label")
    with pytest.raises(ValueError, match="y must be the name of a column where X is a path, got ndarray"):
        make().fit(parquet, Y)
    with pytest.raises(SourceError, match="y must be the name of the column of labels, got None"):
        make().fit(parquet)
    with pytest.raises(ValueError, match="y must be left out where X is a source"):
        make().fit(ArraySource(X, Y), Y)


def _with(name, values):
    return table().set_column(table().column_names.index(name), name, pa.array(values))


WRONG = {
    "another type": (_with("x1", X[:, 1].astype(np.float64)), "column 'x1' holds double values"),
    "a column less": (table().drop_columns(["x2"]), "has no column 'x2'"),
    "a column more": (table().append_column("new", pa.array(Y)), "has columns that .* has not: 'new'"),
    "text": (_with("x1", ["a"] * N), "column 'x1' holds string values, and float in"),
    "no label": (_with("label", [None, *Y[1:].tolist()]), "'label' must .* got null in row 3000"),
    "infinity": (_with("x1", np.full(N, np.inf, np.float32)), "an infinite value in column 'x1', row 3000"),
}


@pytest.mark.parametrize("what", [*WRONG, "empty"])
def test_a_second_file_that_is_not_right_is_one_clear_line(tmp_path, what):
    write(tmp_path / "a.parquet")
    if what == "empty":
        (tmp_path / "b.parquet").touch()
        message = "b.parquet' is not a Parquet file: the file is empty"
    else:
        rows, message = WRONG[what]
        write(tmp_path / "b.parquet", rows)
    model = make(checkpoint=tmp_path / "parts")
    with pytest.raises(SourceError, match=message) as caught:
        model.fit(tmp_path / "*.parquet", "label")
    assert "\n" not in str(caught.value)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("change", ["deleted", "changed"])
def test_a_file_that_goes_or_changes_during_a_fit_ends_it(tmp_path, monkeypatch, change):
    path = tmp_path / "t.parquet"
    write(path, row_group_size=300)
    train = RBFSVMPool.train

    def meddle(self, *arguments):
        # Two threads come here.
        path.unlink(missing_ok=True) if change == "deleted" else os.utime(path, ns=(1, 1))
        return train(self, *arguments)

    monkeypatch.setattr(RBFSVMPool, "train", meddle)
    model = make(n_jobs=2)
    what = "disappeared" if change == "deleted" else "changed"
    with pytest.raises(SourceError, match=f"t.parquet' {what} while it was being read"):
        model.fit(path, "label")
    assert not hasattr(model, "certificate_")


def test_prefit_classifiers(parquet):
    trees = [DecisionTreeClassifier(max_depth=k, random_state=0).fit(X[:100], Y[:100]) for k in (1, 2, 5)]
    pools = [make(estimator=trees, holdout=None, n_hypotheses="auto", subsample_size="auto") for _ in range(2)]
    assert_same(pools[0].fit(parquet, "label"), pools[1].fit(X, Y))


def test_columns_of_a_source_must_be_those_of_training(parquet):
    model = make().fit(parquet, "label")
    with pytest.raises(ValueError, match="X must have the columns of training, in their order: 'x0', 'x1', 'x2', 'x3'"):
        model.predict(open_source(parquet, columns=NAMES[::-1]))


def test_models_of_tables_with_text_take_no_arrays(tmp_path):
    frame = table().to_pandas().drop(columns="label").assign(city=np.where(X[:, 0] > 0, "Rome", "Oslo"))
    model = make(n_hypotheses=10).fit(frame, Y)
    with pytest.raises(ValueError, match="X must be a table with the columns of the sample, which had text"):
        model.predict(open_source(np.zeros((5, 5))))
    with pytest.raises(ValueError, match="checkpoint must be None unless X is a dense array"):
        make(checkpoint=tmp_path / "parts").fit(frame, Y)
