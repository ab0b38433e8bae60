"""A Dask cluster instead of this machine: the same bits, whatever happens to the workers."""

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from joblib import parallel_config
from sklearn.tree import DecisionTreeClassifier
from stored_rows import NAMES, X, Y, assert_same, make, table, write

from pacbayes import PACBayesClassifier, PACBayesRegressor
from pacbayes.exceptions import ClusterError, HypothesisError, SourceError
from pacbayes.fitting import _cluster as cluster_module
from pacbayes.fitting._rows import SourceBlock
from pacbayes.pools import EstimatorPool, LinearPool, Pool, RBFRidgePool, RBFSVMPool, Sample, UnionPool
from pacbayes.rows import ArraySource

distributed = pytest.importorskip("distributed")


# Its processes take half a minute to begin and to end. Sockets and loops of a cluster are closed by threads of its own,
# after the test.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.skipif(os.name != "posix", reason="workers are killed by signals"),
]

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


@pytest.fixture(scope="module")
def cluster():
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(**settings) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.mark.parametrize("kind", ["files", "array", "dask array", "data frame"])
def test_every_source_gives_the_bits_of_an_array(kind, client, parquet, in_memory):
    if kind == "files":
        model = make().fit(parquet, "label")
    elif kind == "array":
        model = make().fit(ArraySource(X, Y))
    elif kind == "dask array":
        model = make().fit(da.from_array(X, chunks=(700, 3)), da.from_array(Y, chunks=900))
    else:
        frame = dd.from_pandas(table().to_pandas(), npartitions=5)
        model = make().fit(frame, "label")
        np.testing.assert_array_equal(model.predict(frame), in_memory.predict(X))
        assert model.feature_names_in_.tolist() == NAMES
    assert_same(model, in_memory)


def test_predicted_numbers_are_those_of_an_array(client):
    union = UnionPool(
        [("ridge", RBFRidgePool(n_hypotheses=6, subsample_size=80)), ("linear", LinearPool(n_hypotheses=2))]
    )
    numbers = X[:, 0] * X[:, 1] + X[:, 2]
    model = PACBayesRegressor(union, random_state=3).fit(ArraySource(X, numbers))
    alone = PACBayesRegressor(union, random_state=3).fit(X, numbers)
    assert model.certificate_.to_json() == alone.certificate_.to_json()
    np.testing.assert_array_equal(model.posterior_, alone.posterior_)
    np.testing.assert_array_equal(model.predict_interval(ArraySource(X)), alone.predict_interval(X))


@pytest.mark.parametrize(
    "settings",
    [
        {"voting": "gibbs", "holdout": 0.4},
        {"racing": "training", "holdout": None},
        {"estimator": EstimatorPool(DecisionTreeClassifier(max_depth=4)), "holdout": 0.5},
    ],
    ids=str,
)
def test_settings_on_a_cluster(settings, client, parquet):
    model, reference = make(**settings).fit(parquet, "label"), make(**settings).fit(X, Y)
    assert_same(model, reference)
    np.testing.assert_array_equal(model.predict(parquet), reference.predict(X))


def test_sizes_of_chunks_need_not_be_known(client, in_memory):
    rows = da.from_array(np.column_stack([X, Y]).astype(np.float32), chunks=(1000, 5))
    unknown = rows[rows[:, 4] >= 0]
    assert np.isnan(unknown.shape[0])
    assert_same(make().fit(unknown[:, :4], Y), in_memory)


def test_arrays_stay_here_unless_they_are_made_a_source(client, monkeypatch, in_memory):
    monkeypatch.setattr(cluster_module, "run_on_cluster", None)
    monkeypatch.setattr("pacbayes.fitting._workers.run_on_cluster", None)
    assert_same(make().fit(X, Y), in_memory)


def test_chunks_that_are_not_the_same_each_time_are_noticed(client):
    def shuffled(rows):
        return np.random.default_rng().permutation(rows)

    chunks = [da.from_delayed(dask.delayed(shuffled)(X[i : i + 500]), (500, 4), X.dtype) for i in range(0, len(X), 500)]
    with pytest.raises(SourceError, match=r"rows \d+ to \d+ of X are not what they were when they were first read"):
        make().fit(da.concatenate(chunks), Y)


def test_tasks_have_names(client, parquet):
    make().fit(parquet, "label")
    names = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
    for what in ("reading", "training", "validation", "testing"):
        assert any(name.startswith(f"pacbayes-{what}") for name in names), names


def test_what_is_sent_is_small(client, parquet, monkeypatch):
    """Blocks are read where the tasks run: what a task is sent does not grow with the width of the rows."""
    sent = []
    run = cluster_module.run_on_cluster

    def measure(client, function, common, tasks, name):
        sent.extend((name, len(pickle.dumps(task)), task[0]) for task in tasks)
        return run(client, function, common, tasks, name)

    monkeypatch.setattr("pacbayes.fitting._workers.run_on_cluster", measure)
    make(holdout=None).fit(parquet, "label")
    read = [(size, block) for name, size, block in sent if name == "validation" and isinstance(block, SourceBlock)]
    assert read
    for size, block in read:
        assert size < 6000 + 2 * block.codes.size + len(block.place) / 4


def test_an_array_is_sent_once(client, monkeypatch):
    """Readings, rounds and tests find the rows where they are. What else is sent grows with the labels alone."""
    tcp = pytest.importorskip("distributed.comm.tcp")
    sent, write = [], tcp.TCP.write

    async def count(comm, message, *given, **settings):
        n_bytes = await write(comm, message, *given, **settings)
        if comm.peer_address == client.scheduler.address:
            sent.append(n_bytes)
        return n_bytes

    rows = np.random.default_rng(0).normal(size=(6000, 400))
    labels = (rows[:, 0] > 0).astype(int)
    settings = {"n_hypotheses": 2, "subsample_size": 10, "holdout": 0.3}
    reference = make(**settings).fit(rows, labels)
    monkeypatch.setattr(tcp.TCP, "write", count)
    model = make(**settings).fit(ArraySource(rows, labels))
    assert rows.nbytes < sum(sent) < 1.3 * rows.nbytes
    assert_same(model, reference)
    sent.clear()
    assert sum(found.size for found in model.predict_batches(ArraySource(rows))) == 6000
    assert rows.nbytes < sum(sent) < 1.3 * rows.nbytes


def test_clients_are_no_part_of_a_model(client, parquet, tmp_path):
    model = make(checkpoint=tmp_path / "parts").fit(parquet, "label")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(parquet), model.predict(parquet))


def test_joblib_sends_rows_and_hypotheses_once(client, monkeypatch, in_memory, set_block_rows):
    set_block_rows(100)
    count = []
    state = Sample.__getstate__
    monkeypatch.setattr(Sample, "__getstate__", lambda self: (count.append(None), state(self))[1])
    with parallel_config("dask", n_jobs=2):
        model = make(racing=False, holdout=None).fit(X, Y)
    assert_same(model, make(racing=False, holdout=None).fit(X, Y))
    # Training and validation send the sample once each; there are at least 30 blocks.
    assert 1 <= len(count) <= 6


def test_a_fit_that_was_stopped_goes_on_on_a_cluster(client, parquet, tmp_path, in_memory, monkeypatch):
    run = cluster_module.run_on_cluster

    def stop(client, function, common, tasks, name):
        for k, result in enumerate(run(client, function, common, tasks, name)):
            if name == "validation" and k == 1:
                raise KeyboardInterrupt
            yield result

    with monkeypatch.context() as patch:
        patch.setattr("pacbayes.fitting._workers.run_on_cluster", stop)
        with pytest.raises(KeyboardInterrupt):
            make(checkpoint=tmp_path / "parts").fit(parquet, "label")
    assert any("-train-" in name for name in os.listdir(tmp_path / "parts"))
    assert_same(make(checkpoint=tmp_path / "parts").fit(parquet, "label"), in_memory)


# ---------------------------------------------------------------------------------------------------
# Workers that go and come
# ---------------------------------------------------------------------------------------------------


class Killer(threading.Thread):
    """Kill a worker of a cluster now and then, by SIGKILL; its nanny starts another."""

    def __init__(self, client, pauses, signals=(KILL,)):
        super().__init__(daemon=True)
        self.client, self.pauses, self.signals = client, pauses, signals
        self.rng = np.random.default_rng(0)
        self.kills = 0

    def run(self):
        for pause in self.pauses:
            time.sleep(pause)
            try:
                pids = sorted(self.client.run(os.getpid, on_error="ignore").values())
                os.kill(int(self.rng.choice(pids)), self.signals[self.kills % len(self.signals)])
                self.kills += 1
            except (OSError, ValueError, TimeoutError):
                continue


def test_killed_workers_change_nothing(cluster, client, parquet):
    settings = {"n_hypotheses": 60, "subsample_size": [60, 300]}
    reference = make(**settings).fit(X, Y)
    with distributed.Client(cluster, set_as_default=False) as other:
        killer = Killer(other, [0.2, 1.0], (KILL, signal.SIGSEGV))
        killer.start()
        models = []
        while killer.is_alive() or len(models) < 2:
            models.append(make(**settings).fit(parquet, "label"))
            models.append(make(**settings).fit(ArraySource(X, Y)))  # rows that a worker held are sent again
        killer.join()
    assert killer.kills >= 1
    for model in models:
        assert_same(model, reference)
    client.wait_for_workers(2, timeout=60)


def test_workers_may_join_and_leave(cluster, client, parquet, in_memory):
    cluster.scale(3)
    change = threading.Timer(0.3, lambda: cluster.scale(2))
    change.start()
    try:
        assert_same(make().fit(parquet, "label"), in_memory)
    finally:
        change.join()


# ---------------------------------------------------------------------------------------------------
# A scheduler that is lost
# ---------------------------------------------------------------------------------------------------


def outcome(function, seconds=60):
    """Return what a call returns or raises; fail if it hangs."""
    found = []

    def call():
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, f"the call hangs for {seconds} s"
    return found[0]


def disturbed(monkeypatch, disturb):
    """Disturb the cluster once, after the first result of validation."""
    run, times = cluster_module.run_on_cluster, []

    def generator(client, function, common, tasks, name):
        for result in run(client, function, common, tasks, name):
            if name == "validation" and not times:
                times.append(time.monotonic())
                disturb()
            yield result

    monkeypatch.setattr("pacbayes.fitting._workers.run_on_cluster", generator)
    return times


def test_a_connection_that_breaks_ends_the_fit(cluster, parquet, tmp_path, in_memory, monkeypatch):
    with distributed.Client(cluster) as client:
        times = disturbed(monkeypatch, lambda: client.loop.add_callback(client.scheduler_comm.comm.abort))
        error = outcome(lambda: make(checkpoint=tmp_path / "parts").fit(parquet, "label"))
        assert times, repr(error)
        assert isinstance(error, ClusterError)
        assert re.fullmatch(r"lost the scheduler of the cluster at tcp://[0-9.:]+: try again when it is .*", str(error))
    assert any("-train-" in name for name in os.listdir(tmp_path / "parts"))
    assert_same(make(checkpoint=tmp_path / "parts").fit(parquet, "label"), in_memory)


def test_a_fit_waits_for_workers_and_says_so(parquet, in_memory, monkeypatch):
    said = []

    def warn(message, category, stacklevel):
        said.append((message, category))
        cluster.scale(1)

    monkeypatch.setattr(cluster_module, "_SILENCE", 0.5, raising=False)
    monkeypatch.setattr(cluster_module, "warnings", SimpleNamespace(warn=warn), raising=False)
    # A worker that is a thread joins at once.
    settings = {"n_workers": 0, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(**settings, processes=False, protocol="tcp://") as cluster,
        distributed.Client(cluster),
    ):
        model = outcome(lambda: make().fit(parquet, "label"))
    assert_same(model, in_memory)
    message, category = said[0]
    assert re.fullmatch(r"the cluster at tcp://[0-9.:]+ has no workers: waiting for some to join", message)
    assert category is RuntimeWarning


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_scheduler_that_is_gone_ends_the_fit(how, parquet, tmp_path, in_memory, monkeypatch):
    file = str(tmp_path / "scheduler.json")
    start = [sys.executable, "-m", "distributed.cli.dask_"]
    commands = [
        [*start[:2], start[2] + "scheduler", "--scheduler-file", file, "--port", "0", "--no-dashboard"],
        [*start[:2], start[2] + "worker", "--scheduler-file", file, "--nthreads", "1", "--no-nanny", "--no-dashboard"],
    ]
    processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]

    def disturb():
        monkeypatch.setattr(cluster_module, "_SILENCE", 1.0, raising=False)
        monkeypatch.setattr(cluster_module, "_ANSWER", 3.0, raising=False)
        processes[0].send_signal(signal.SIGSTOP if how == "stopped" else KILL)

    try:
        client = distributed.Client(scheduler_file=file)
        client.wait_for_workers(1, timeout=60)
        times = disturbed(monkeypatch, disturb)
        error = outcome(lambda: make(checkpoint=tmp_path / "parts").fit(parquet, "label"))
        assert times, repr(error)
        assert isinstance(error, ClusterError), repr(error)
        assert "lost the scheduler of the cluster at tcp://" in str(error)
    finally:
        for process in processes:
            process.send_signal(KILL)
            process.wait()
    client.close(timeout=1)
    assert_same(make(checkpoint=tmp_path / "parts").fit(parquet, "label"), in_memory)


# ---------------------------------------------------------------------------------------------------
# One clear line
# ---------------------------------------------------------------------------------------------------


class Failing(Pool):
    def train_one(self, X, y, rng):
        raise ZeroDivisionError("no")


class Murderous(RBFSVMPool):
    def train(self, *arguments):
        os.kill(os.getpid(), KILL)


def test_a_task_that_raises_ends_the_fit(client, parquet):
    model = make(estimator=Failing())
    with pytest.raises(HypothesisError, match=r"could not be trained on its 20 points .*ZeroDivisionError: no"):
        model.fit(parquet, "label")
    assert not hasattr(model, "certificate_")


def test_a_task_that_kills_its_workers_ends_the_fit(client, parquet, monkeypatch):
    monkeypatch.setattr(cluster_module, "_MOST_LOSSES", 0)
    client.run_on_scheduler(_allow_no_failure)
    try:
        with pytest.raises(ClusterError, match=r"a task \(training\) lost its worker 1 times: do the workers have"):
            make(estimator=Murderous(), n_hypotheses=1).fit(parquet, "label")
    finally:
        client.run_on_scheduler(_allow_no_failure, failures=dask.config.get("distributed.scheduler.allowed-failures"))
        client.wait_for_workers(2, timeout=60)


def _allow_no_failure(failures=0, dask_scheduler=None):
    dask_scheduler.allowed_failures = failures


def test_a_file_that_only_this_machine_had(client, tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write(path, row_group_size=300)
    labels = RBFSVMPool.kinds

    def remove(self, *arguments):
        path.unlink(missing_ok=True)
        return labels(self, *arguments)

    monkeypatch.setattr(RBFSVMPool, "kinds", remove)
    with pytest.raises(SourceError, match=r"t\.parquet' disappeared while it was being read"):
        make(racing="training").fit(path, "label")


def test_a_dask_array_needs_a_client(in_memory):
    rows = da.from_array(X, chunks=1000)
    with pytest.raises(ClusterError, match="a dask collection needs a Dask client, and there is none: make one first"):
        make().fit(rows, Y)
    with pytest.raises(ClusterError, match="a dask collection needs a Dask client"):
        in_memory.predict(rows)


@pytest.mark.parametrize(
    ("preload", "message"),
    [
        ("import sys; sys.modules['pacbayes'] = None", "the workers of the cluster have no pacbayes: install"),
        ("import pacbayes; pacbayes.__version__ = '0.0.1'", "of the cluster has pacbayes 0.0.1, and .* is needed"),
    ],
)
def test_a_cluster_without_the_package(preload, message, parquet):
    settings = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(**settings, preload=preload) as cluster,
        distributed.Client(cluster),
        pytest.raises(ClusterError, match=message),
    ):
        make().fit(parquet, "label")


def test_versions_are_asked_for_once(client, parquet, monkeypatch):
    asked = []
    for name in ("run_on_scheduler", "run"):
        ask = getattr(client, name)
        monkeypatch.setattr(
            client, name, lambda *given, ask=ask, name=name, **more: (asked.append(name), ask(*given, **more))[1]
        )
    model = make().fit(parquet, "label")
    assert asked == ["run_on_scheduler", "run"]
    model.predict(parquet)
    model.predict(da.from_array(X, chunks=(1000, 4)))
    assert asked == ["run_on_scheduler", "run"]


def test_a_worker_of_another_version_that_joins_later(client, parquet, monkeypatch):
    make().fit(parquet, "label")
    monkeypatch.setattr("pacbayes.__version__", "0.0.1")
    with pytest.raises(ClusterError, match=r"a worker of the cluster has pacbayes .*, and 0\.0\.1 is needed"):
        make().fit(parquet, "label")


@pytest.mark.parametrize("kind", ["data frame", "categories", "files"])
def test_text_and_gaps(client, kind, tmp_path):
    frame = table().to_pandas().assign(city=np.where(X[:, 1] > 1, "Rome", "Oslo"), late=None, vip=X[:, 2] > 0)
    frame.loc[::7, ["city", "x0"]] = None
    frame.loc[2900:, "late"] = "x"  # of which only the last partition knows what it is
    features = frame.drop(columns="label")
    reference = make().fit(features, Y)
    if kind == "files":
        frame.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
        rows = str(tmp_path / "rows.parquet")
    else:
        rows = dd.from_pandas(frame.astype({"city": "category"} if kind == "categories" else {}), npartitions=5)
    model = make().fit(rows, "label")
    assert_same(model, reference)
    np.testing.assert_array_equal(model.predict(rows), reference.predict(features))
    assert model.verify_certificate(model.certificate_, rows, "label") == "arithmetic, model and data"


def test_data_frames_that_are_not_right(client):
    frame = table().to_pandas()
    with pytest.raises(SourceError, match=r"column 'city' holds .* values, and these hypotheses take numbers"):
        make(estimator=DecisionTreeClassifier()).fit(dd.from_pandas(frame.assign(city="Rome"), npartitions=2), "label")
    with pytest.raises(SourceError, match="X has no column 'y'"):
        make().fit(dd.from_pandas(frame, npartitions=2), "y")
    with pytest.raises(SourceError, match="'label' must hold a label in every row, got null"):
        make().fit(dd.from_pandas(frame.assign(label=frame.label.where(frame.index != 5)), npartitions=2), "label")


def test_tokens_tell_fits_with_the_same_settings_apart():
    """Dask names a task by its arguments: by the same token, one model would get the predictions of another."""
    settings = {"estimator": EstimatorPool(DecisionTreeClassifier(max_depth=1)), "n_hypotheses": 5, "random_state": 0}
    one, other = (PACBayesClassifier(**settings).fit(X[:200], y) for y in (Y[:200], Y[:200][::-1].copy()))
    assert dask.base.tokenize(one) != dask.base.tokenize(other)
