"""Fits that were stopped go on where they were, and with nothing else."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import ShuffleSplit
from sklearn.tree import DecisionTreeClassifier
from stored_rows import X, Y, assert_same, make, write
from sweeps import sweep

from pacbayes import CertifiedGridSearch
from pacbayes._atomic import open_atomic
from pacbayes.exceptions import SourceError
from pacbayes.fitting import _checkpoint, _rows, _work
from pacbayes.fitting._checkpoint import Checkpoint
from pacbayes.pools import RBFSVMPool, _estimator


class StopError(Exception):
    pass


def stop_after(monkeypatch, count, name="sum_losses", module="_training"):
    """Let a kind of task fail once it was done some times."""
    done = []
    original = getattr(_rows if name == "scan_block" else _work, name)

    def task(*arguments, **keywords):
        if len(done) == count:
            raise StopError
        done.append(None)
        return original(*arguments, **keywords)

    monkeypatch.setattr(f"pacbayes.fitting.{module}.{name}", task)
    return done


TASKS = {
    "scan_block": ("_rows", "scan-"),
    "train_part": ("_training", "-train-"),
    "sum_losses": ("_training", "-validate-"),
    "sum_test_losses": ("_evaluation", "-test-"),
}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("rows", sweep(["file", "array"], quick=[0]))
def test_a_fit_goes_on_where_it_stopped(name, rows, tmp_path, parquet, in_memory, monkeypatch):
    data = (parquet, "label") if rows == "file" else (X, Y)
    module, kind = TASKS[name]
    with monkeypatch.context() as patch:
        stop_after(patch, 3, name, module)
        with pytest.raises(StopError):
            make(checkpoint=tmp_path / "parts").fit(*data)
    before = set(os.listdir(tmp_path / "parts"))
    with monkeypatch.context() as patch:
        done = stop_after(patch, -1, name, module)
        model = make(checkpoint=tmp_path / "parts").fit(*data)
    assert_same(model, in_memory)
    after = set(os.listdir(tmp_path / "parts"))
    # What was kept is not done again.
    assert before < after
    assert len(done) == sum(kind in one for one in after) - sum(kind in one for one in before)
    assert sum(kind in one for one in before) == 3
    with monkeypatch.context() as patch:
        stop_after(patch, 0, name, module)
        assert_same(make(checkpoint=tmp_path / "parts").fit(*data), in_memory)


def test_learners_that_are_python_objects_are_trained_again(tmp_path, parquet, monkeypatch):
    settings = {"estimator": DecisionTreeClassifier(max_depth=4), "checkpoint": tmp_path / "parts"}
    reference = make(estimator=DecisionTreeClassifier(max_depth=4)).fit(X, Y)
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(StopError):
            make(**settings).fit(parquet, "label")
    assert_same(make(**settings).fit(parquet, "label"), reference)
    assert not any("-train-" in name for name in os.listdir(tmp_path / "parts"))


def train_stumps(patch):
    """Let trees be trained otherwise, as another version of scikit-learn might."""
    original = _estimator.fit_tree
    patch.setattr(_estimator, "fit_tree", lambda tree, *data: original(tree.set_params(max_depth=1), *data))


@pytest.mark.parametrize("settings", [{}, {"holdout": None}, {"racing": False, "voting": "gibbs"}])
def test_hypotheses_that_come_out_otherwise_are_validated_and_tested_again(settings, tmp_path, monkeypatch):
    settings = {"estimator": DecisionTreeClassifier(max_depth=6), **settings}
    first = make(checkpoint=tmp_path / "parts", **settings).fit(X, Y)
    with monkeypatch.context() as patch:
        train_stumps(patch)
        expected = make(**settings).fit(X, Y)
        again = make(checkpoint=tmp_path / "parts", **settings).fit(X, Y)
        assert_same(again, expected)
        again.verify_certificate(again.certificate_, X, Y)
    assert first.certificate_ != expected.certificate_
    # Results of the first hypotheses are still theirs.
    assert_same(make(checkpoint=tmp_path / "parts", **settings).fit(X, Y), first)


def test_results_of_other_versions_are_not_used(tmp_path, monkeypatch):
    settings = {"estimator": DecisionTreeClassifier(max_depth=4), "checkpoint": tmp_path / "parts"}
    first = make(**settings).fit(X, Y)

    def count_validated():
        with monkeypatch.context() as patch:
            done = stop_after(patch, -1)
            assert_same(make(**settings).fit(X, Y), first)
        return len(done)

    assert count_validated() == 0
    monkeypatch.setattr(sklearn, "__version__", "99.0")
    assert count_validated() > 0
    assert count_validated() == 0


def test_subsamples_of_a_splitter_without_seed_are_drawn_from_that_of_the_fit(tmp_path):
    settings = {"subsamples": ShuffleSplit(20, train_size=60), "n_hypotheses": "auto", "subsample_size": "auto"}
    first = make(checkpoint=tmp_path / "parts", **settings).fit(X, Y)
    again = make(checkpoint=tmp_path / "parts", **settings).fit(X, Y)
    assert_same(again, first)
    again.verify_certificate(again.certificate_, X, Y)
    assert settings["subsamples"].random_state is None


def test_a_fit_without_seed_goes_on_with_its_own(tmp_path, parquet):
    first = make(random_state=None, checkpoint=tmp_path / "a").fit(parquet, "label")
    assert_same(make(random_state=None, checkpoint=tmp_path / "a").fit(parquet, "label"), first)
    other = make(random_state=None, checkpoint=tmp_path / "b").fit(parquet, "label")
    assert other.fitted_votes_.entropy != first.fitted_votes_.entropy


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"random_state": 4}, "random_state"),
        ({"n_hypotheses": 31}, "n_hypotheses"),
        ({"estimator": RBFSVMPool(C=1.0), "delta": 0.1}, "estimator, delta"),
        ({"holdout": None}, "holdout"),
    ],
)
def test_a_checkpoint_belongs_to_its_settings(settings, names, tmp_path, parquet):
    make(checkpoint=tmp_path / "parts").fit(parquet, "label")
    with pytest.raises(SourceError, match=f"belongs to another fit, {names} differ: give another folder"):
        make(checkpoint=tmp_path / "parts", **settings).fit(parquet, "label")


def test_a_checkpoint_belongs_to_its_data(tmp_path):
    make(checkpoint=tmp_path / "parts").fit(X, Y)
    for data, names in (((X + 1, Y), "X"), ((X, 1 - Y), "y"), ((X + 1, 1 - Y), "X, y")):
        with pytest.raises(SourceError, match=f"belongs to another fit, {names} differ"):
            make(checkpoint=tmp_path / "parts").fit(*data)


def test_workers_and_blocks_may_change(tmp_path, parquet, in_memory, monkeypatch, set_block_rows):
    with monkeypatch.context() as patch:
        stop_after(patch, 9)
        with pytest.raises(StopError):
            make(checkpoint=tmp_path / "parts").fit(parquet, "label")
    set_block_rows(77)
    model = make(checkpoint=tmp_path / "parts", n_jobs=2).fit(parquet, "label")
    assert_same(model, in_memory)


def test_damaged_parts_are_computed_again(tmp_path, parquet, in_memory):
    make(checkpoint=tmp_path / "parts").fit(parquet, "label")
    for k, path in enumerate(sorted((tmp_path / "parts").glob("*.npz"))):
        content = path.read_bytes()
        path.write_bytes([b"", content[: len(content) // 2], content][k % 3])
    assert_same(make(checkpoint=tmp_path / "parts").fit(parquet, "label"), in_memory)


def cut(arrays):
    return {key: value[:-1] if value.ndim else value for key, value in arrays.items()}


def spoil(arrays):
    return {key: np.full_like(value, np.nan) if value.dtype.kind == "f" else value for key, value in arrays.items()}


def forget(arrays):
    return {key: value for key, value in arrays.items() if key not in ("totals", "total", "sums", "dual_coef")}


def convert(arrays):
    return {key: value.astype(np.float32) if value.dtype.kind in "fi" else value for key, value in arrays.items()}


@pytest.mark.parametrize("change", sweep([cut, spoil, forget, convert], quick=[0, 1]))
def test_parts_with_other_arrays_are_computed_again(change, tmp_path, in_memory):
    make(checkpoint=tmp_path / "parts").fit(X, Y)
    for path in (tmp_path / "parts").glob("*.npz"):
        with np.load(path) as stored:
            np.savez(path, **change(dict(stored)))
    assert_same(make(checkpoint=tmp_path / "parts").fit(X, Y), in_memory)


def test_parts_of_another_fit_are_not_used(tmp_path, in_memory):
    make(checkpoint=tmp_path / "parts").fit(X, Y)
    make(checkpoint=tmp_path / "others").fit(X, 1 - Y)
    for path in (tmp_path / "others").glob("*.npz"):
        shutil.copy(path, tmp_path / "parts")
    assert_same(make(checkpoint=tmp_path / "parts").fit(X, Y), in_memory)


def begin_late(patch, meanwhile):
    """Let a fit find no checkpoint, and begin its own after another fit has done all its work."""
    original, models = _checkpoint.Checkpoint.begin, []

    def begin(*arguments, **keywords):
        patch.undo()
        models.append(meanwhile())
        return original(*arguments, **keywords)

    patch.setattr(_checkpoint.Checkpoint, "begin", begin)
    return models


def test_of_two_fits_that_begin_at_once_one_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        models = begin_late(patch, lambda: make(random_state=4, checkpoint=tmp_path / "parts").fit(X, Y))
        with pytest.raises(SourceError, match="belongs to another fit, random_state differ"):
            make(checkpoint=tmp_path / "parts").fit(X, Y)
    assert_same(models[0], make(random_state=4).fit(X, Y))


@pytest.mark.parametrize("seed", [None, 3])
def test_two_fits_of_the_same_that_begin_at_once_are_one(seed, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        models = begin_late(patch, lambda: make(random_state=seed, checkpoint=tmp_path / "parts").fit(X, Y))
        model = make(random_state=seed, checkpoint=tmp_path / "parts").fit(X, Y)
    assert_same(model, models[0])


def test_a_manifest_is_created_on_a_file_system_without_links(tmp_path, monkeypatch):
    def link(*paths):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    checkpoints = [Checkpoint(tmp_path / "a", {"X": name}, None, {}) for name in ("1", "1", "2")]
    assert [one.begin(seed) for one, seed in zip(checkpoints[:2], (5, 6), strict=True)] == [5, 5]
    with pytest.raises(SourceError, match="belongs to another fit, X differ"):
        checkpoints[2].begin(7)
    assert os.listdir(tmp_path / "a") == ["checkpoint.json"]


def test_a_complete_folder_may_be_read_only(tmp_path, monkeypatch, in_memory):
    make(checkpoint=tmp_path / "parts").fit(X, Y)

    def write(contents):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(_checkpoint, "write_atomic", write)
    (tmp_path / "parts").chmod(0o555)
    try:
        assert_same(make(checkpoint=tmp_path / "parts").fit(X, Y), in_memory)
        next((tmp_path / "parts").glob("*-test-*.npz")).write_bytes(b"")
        with pytest.raises(SourceError, match=r"cannot write the checkpoint '.*npz': Read-only file system"):
            make(checkpoint=tmp_path / "parts").fit(X, Y)
    finally:
        (tmp_path / "parts").chmod(0o755)


@pytest.mark.skipif(os.name != "posix", reason="open files cannot be removed elsewhere")
def test_what_a_killed_run_leaves_is_removed(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for name in (".checkpoint.json.4711.partial", ".scan.npz.1f0c.partial"):
        (folder / name).write_bytes(b"half")
    with open_atomic(folder / "vote.npz"):  # another one writes
        in_use = [path.name for path in folder.glob(".vote*")]
        make(checkpoint=folder).fit(X, Y)
        assert [path.name for path in folder.glob(".*")] == in_use


def test_folders_that_are_no_checkpoints(tmp_path, parquet):
    (tmp_path / "file").touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "checkpoint.json").write_text("{")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "checkpoint.json").write_text(json.dumps({"format": 0, "fingerprints": {}, "seed": 3}))
    for name, message in (
        ("file", "checkpoint must be a folder"),
        ("mine", "checkpoint must be a new folder or one of a fit"),
        ("damaged", "is damaged: give another folder"),
        ("old", "the version of the library differ"),
        ("file/below", "cannot make the checkpoint folder"),
    ):
        with pytest.raises(SourceError, match=message):
            make(checkpoint=tmp_path / name).fit(parquet, "label")
    assert os.listdir(tmp_path / "mine") == ["thesis.tex"]


def test_candidates_of_a_search_have_folders_of_their_own(tmp_path):
    grid = {"estimator__C": [1.0, 10.0]}
    found = [
        CertifiedGridSearch(make(estimator=RBFSVMPool(), checkpoint=folder), grid).fit(X, Y)
        for folder in (tmp_path, tmp_path, None)
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["candidate0", "candidate1"]
    assert found[0].certificate_ == found[1].certificate_ == found[2].certificate_


def test_functions_cannot_be_compared(tmp_path, parquet):
    with pytest.raises(ValueError, match="checkpoint must be None with this loss: cannot compare the function"):
        make(checkpoint=tmp_path / "parts", loss=lambda true, predicted: true != predicted).fit(parquet, "label")


def test_a_full_disk_ends_the_fit_with_one_line_and_no_half_file(tmp_path, parquet, in_memory):
    """No file may grow beyond a limit of the system: what a disk without space does to a file."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        with pytest.raises(SourceError, match=r"cannot write the checkpoint '.*npz': File too large"):
            make(checkpoint=tmp_path / "parts").fit(parquet, "label")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for path in (tmp_path / "parts").glob("*.npz"):
        np.load(path).close()
    assert not list((tmp_path / "parts").glob(".*"))
    assert_same(make(checkpoint=tmp_path / "parts").fit(parquet, "label"), in_memory)


def test_sparse_rows_have_no_checkpoint(tmp_path):
    from scipy.sparse import csr_array

    with pytest.raises(ValueError, match="checkpoint must be None unless X is a dense array"):
        make(checkpoint=tmp_path / "parts").fit(csr_array(X), Y)


def test_results_are_kept_whole(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a", {"X": "1"}, 5, {})
    checkpoint.begin(5)
    checkpoint.save("one", {"totals": np.arange(3)})
    np.testing.assert_array_equal(Checkpoint(tmp_path / "a", {"X": "1"}, None, {}).load("one")["totals"], np.arange(3))
    assert checkpoint.load("two") is None
    assert Checkpoint(tmp_path / "a", {"X": "1"}, None, {}).seed == 5


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from stored_rows import make
model = make(n_hypotheses=60, n_jobs=2, checkpoint={parts!r}).fit({path!r}, "label")
print(model.certificate_.to_json())
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
def test_a_fit_that_is_killed_again_and_again_ends_as_if_it_was_not(tmp_path):
    path = write(tmp_path / "t.parquet", row_group_size=100)
    folder, parts = str(Path(__file__).parent), str(tmp_path / "parts")
    script = SCRIPT.format(folder=folder, parts=parts, path=path)
    rng = np.random.default_rng(0)
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
        # Not before it has begun, which takes as long as the imports.
        while process.poll() is None and not os.path.exists(f"{parts}/checkpoint.json"):
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == make(n_hypotheses=60).fit(X, Y).certificate_.to_json().strip()
    assert not list(Path(parts).glob(".*"))
