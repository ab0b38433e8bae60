import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.svm import SVC

from pacbayes.bounds import pac_bayes_kl
from pacbayes.paper import comparison, f_lambda, quasiconvexity, runtime, validation, weighting
from pacbayes.paper.aggregation import Aggregation, grid, paper_classifier
from pacbayes.paper.baseline import cross_validated_svm
from pacbayes.paper.findings import Results, findings, tables
from pacbayes.paper.runner import EXPERIMENTS, PAPER_DATASETS, PaperError, Plan, Store, Task, run
from pacbayes.paper.splits import Sample, load_sample, split
from pacbayes.paper.tables import (
    BASELINE_LOSS,
    DELTA,
    HALF_MASS,
    LARGEST_GUARANTEED_M,
    SIZES,
    TITLES,
    VALIDATION_SIZES,
    subsample_size,
)
from pacbayes.posterior import gibbs_posterior, lambda_bound
from pacbayes.quasiconvexity import THEOREM_VAR_CONDITIONS, check_quasiconvexity

SAMPLE = load_sample("breast-cancer-sklearn")
SPLIT = split(SAMPLE, 0)


# ---------------------------------------------------------------------------------------------------
# Splits
# ---------------------------------------------------------------------------------------------------


def test_tables_cover_the_same_datasets():
    assert set(BASELINE_LOSS) == set(LARGEST_GUARANTEED_M) == set(HALF_MASS) == set(PAPER_DATASETS)
    assert set(SIZES) == set(VALIDATION_SIZES) == set(TITLES)


def test_parts_of_a_split_are_disjoint_and_of_the_papers_sizes():
    rows = np.arange(600.0)
    sample = Sample("breast-cancer", np.column_stack([rows, rows]), np.arange(600) % 2)
    sizes = VALIDATION_SIZES["breast-cancer"]
    sample = Sample("breast-cancer", np.tile(np.arange(683.0)[:, None], 3), np.arange(683) % 2)
    parts = split(sample, 3, with_validation=True)
    assert [len(part) for part in (parts.X, parts.X_test, parts.X_validation)] == [
        sizes.train,
        sizes.test,
        sizes.validation,
    ]
    everything = np.concatenate([parts.X[:, 0], parts.X_test[:, 0], parts.X_validation[:, 0]])
    assert np.unique(everything).size == everything.size
    np.testing.assert_array_equal(parts.y, parts.X[:, 0] % 2)
    again = split(sample, 3, with_validation=True)
    np.testing.assert_array_equal(again.X, parts.X)
    assert not np.array_equal(split(sample, 4, with_validation=True).X, parts.X)


def test_samples_are_scaled():
    for name in ("waveform-generated", "breast-cancer-sklearn"):
        sample = load_sample(name)
        np.testing.assert_allclose(sample.X.min(axis=0), -1)
        np.testing.assert_allclose(sample.X.max(axis=0), 1)
        assert set(sample.y) == {0, 1}
        assert sample.y.size >= max(sum(vars(sizes[name]).values()) for sizes in (SIZES, VALIDATION_SIZES))


# ---------------------------------------------------------------------------------------------------
# Experiments
# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool():
    return Aggregation(SPLIT, 60, 31, n_jobs=None)


@pytest.mark.parametrize("m", [1, 25, 60])
def test_the_first_hypotheses_of_a_pool_are_a_pool(pool, m):
    """What is read off a large pool is what the estimator gives when it trains m hypotheses."""
    model = paper_classifier(m, 31, SPLIT.seed, None).fit(SPLIT.X, SPLIT.y)
    weighted = pool.weighted(m)
    np.testing.assert_array_equal(model.losses_, pool.losses[:m])
    np.testing.assert_allclose(weighted.posterior.rho, model.posterior_, atol=1e-4)
    assert weighted.vote == pytest.approx(1 - model.score(SPLIT.X_test, SPLIT.y_test))
    assert weighted.bound == pytest.approx(model.certificate_.gibbs_bound, rel=1e-6)


def test_losses_of_the_aggregate(pool):
    weighted = pool.weighted(60)
    losses = [np.mean(pool.model._pool_.predict(h, SPLIT.X_test) != SPLIT.y_test) for h in pool.model.hypotheses_]
    assert weighted.randomised == pytest.approx(weighted.posterior.rho @ losses)
    assert weighted.best == losses[np.argmin(pool.losses)]
    uniform = paper_classifier(60, 31, SPLIT.seed, None).set_params(voting="uniform").fit(SPLIT.X, SPLIT.y)
    assert weighted.uniform == pytest.approx(1 - uniform.score(SPLIT.X_test, SPLIT.y_test))
    expected = pac_bayes_kl(weighted.posterior.loss, weighted.posterior.kl_div, SPLIT.y.size - 31, DELTA)
    assert weighted.bound == expected


def test_grids():
    assert grid(1, 2000, 20)[0] == 1
    assert grid(1, 2000, 20)[-1] == 2000
    assert len(grid(1, 2000, 20)) == 20
    assert grid(2, 12, 20) == list(range(2, 13))


def test_the_baseline_refits_its_best_choice():
    search = cross_validated_svm(SPLIT.X, SPLIT.y)
    assert len(search.cv_results_["params"]) == 35
    alone = SVC(**search.best_params_).fit(SPLIT.X, SPLIT.y)
    np.testing.assert_array_equal(search.predict(SPLIT.X_test), alone.predict(SPLIT.X_test))


def test_series_over_m_agree_between_experiments():
    timed, weighed, last = runtime.run(SPLIT, None, 4), weighting.run(SPLIT, None, 4), comparison.run(SPLIT, None)
    assert timed["m"] == weighed["m"] == grid(1, 340, 4)
    assert timed["r"] == weighed["r"] == last["r"] == subsample_size(340, 30)
    np.testing.assert_allclose(timed["vote"], weighed["vote"])
    np.testing.assert_allclose(timed["bound"], weighed["bound"], rtol=1e-6)
    assert last["vote"] == weighed["vote"][-1]
    assert last["bound"] == weighed["bound"][-1]
    assert last["vote_bound"] == 2 * last["bound"]
    assert all(seconds > 0 for seconds in timed["seconds"])


def test_half_mass_counts_the_heaviest():
    assert comparison.half_mass(np.array([0.5, 0.5])) == 1
    assert comparison.half_mass(np.full(10, 0.1)) == 5
    assert comparison.half_mass(np.array([0.49, 0.02, 0.49])) == 2


def test_largest_guaranteed_m_is_where_the_conditions_end():
    result = quasiconvexity.run(SPLIT, None)
    pool = Aggregation(SPLIT, 340, 31, None)

    def by_var(m):
        details = check_quasiconvexity(pool.losses[:m], pool.n_validation, delta=DELTA).details
        return any(details[name].holds for name in THEOREM_VAR_CONDITIONS)

    assert result["floor"] <= result["theorem_var"] <= result["stronger"] <= result["largest"] == 340
    assert all(by_var(m) for m in range(10, result["theorem_var"] + 1, 10))
    beyond = result["theorem_var"] // 10 * 10 + 10
    assert beyond > 340 or not by_var(beyond)
    assert by_var(result["floor"])
    # The largest that is always guaranteed: one more is not, by the count alone.
    details = check_quasiconvexity(np.linspace(0, 1, result["floor"] + 1), pool.n_validation, delta=DELTA).details
    assert not details["trivial"].holds


def test_the_shape_of_f():
    result = f_lambda.run(SPLIT, None)
    pool = Aggregation(SPLIT, 340, 31, None)
    np.testing.assert_allclose(
        result["F"], lambda_bound(pool.losses, np.array(result["lam"]), pool.n_validation, DELTA)
    )
    values = np.array(result["F"])
    assert result["quasiconvex"] == bool(np.all(np.diff(np.sign(np.diff(values))) >= 0))
    assert result["F_global"] <= result["F_alternating"] <= values.min() + 1e-9
    assert result["guaranteed"]


def test_lambda_by_validation():
    parts = split(SAMPLE, 0, with_validation=True)
    result = validation.run(parts, None)
    pool = Aggregation(parts, parts.y.size, 31, None)
    votes = pool.model.predict_hypotheses(parts.X_validation)
    losses = {}
    for lam in np.linspace(0.05, 1.9, 9):
        in_favour = gibbs_posterior(pool.losses, lam, pool.n_validation) @ votes
        losses[lam] = np.mean((in_favour > 0.5) != parts.y_validation)
    assert losses[result["lam_validate"]] == min(losses.values())


# ---------------------------------------------------------------------------------------------------
# The runner
# ---------------------------------------------------------------------------------------------------

TINY = Plan(("breast-cancer-sklearn",), ("weighting", "comparison"), splits=2, redrawn=1, values=3, quick=True)


def test_a_finished_run_does_nothing_again(tmp_path):
    store = Store(tmp_path, TINY.settings())
    assert list(run(TINY, store)) == TINY.tasks()
    before = store.path.read_bytes()
    again = Store(tmp_path, TINY.settings())
    assert again.records == store.records
    assert list(run(TINY, again)) == []
    assert store.path.read_bytes() == before


def test_a_line_that_was_cut_off_is_done_again(tmp_path):
    store = Store(tmp_path, TINY.settings())
    list(run(TINY, store))
    whole = store.path.read_bytes()
    store.path.write_bytes(whole[:-20])
    again = Store(tmp_path, TINY.settings())
    assert list(run(TINY, again)) == TINY.tasks()[-1:]
    results = [json.loads(line).get("result") for line in whole.splitlines()]
    assert [json.loads(line).get("result") for line in store.path.read_bytes().splitlines()] == results


def test_other_settings_do_not_mix(tmp_path):
    Store(tmp_path, TINY.settings())
    with pytest.raises(PaperError, match="holds results of other settings"):
        Store(tmp_path, Plan().settings())
    (tmp_path / "results.jsonl").write_text("what is this\n")
    with pytest.raises(PaperError, match="not a file of results"):
        Store(tmp_path, TINY.settings())


def test_unknown_names_are_refused():
    with pytest.raises(PaperError, match="no experiment 'heatmap' in this run: it must be one of baseline, accuracy"):
        Plan().restricted(("heatmap",), ())
    with pytest.raises(PaperError, match="no dataset 'iris'"):
        Plan().restricted((), ("iris",))
    plan = Plan().restricted(("runtime",), ("avsb", "skin"))
    assert plan.tasks() == [Task("runtime", name, number) for name in ("skin", "avsb") for number in range(5)]
    assert plan.settings() == Plan().settings()


def test_the_papers_repetitions():
    tasks = Plan().tasks()
    assert len([t for t in tasks if t.experiment == "quasiconvexity"]) == 8 * 10
    assert all(len([t for t in tasks if t.experiment == e]) == 8 * 5 for e in EXPERIMENTS if e != "quasiconvexity")
    assert all(task.cost > 0 for task in tasks)


def command(folder):
    return [
        sys.executable,
        "-m",
        "pacbayes",
        "paper",
        "--quick",
        "--only",
        "comparison",
        "--only",
        "weighting",
        "--output",
        folder,
    ]


def test_a_killed_run_goes_on_where_it_stopped(tmp_path):
    """SIGKILL half-way, then the same command: the same results as a run that was left alone, nothing done twice."""
    environment = {**os.environ, "COLUMNS": "80"}
    killed = subprocess.Popen(
        command(tmp_path / "killed"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    path = tmp_path / "killed" / "results.jsonl"
    deadline = time.monotonic() + 120
    while not (path.exists() and path.read_bytes().count(b"\n") >= 4) and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL) if os.name == "posix" else killed.kill()
    killed.communicate()
    finished = path.read_bytes()
    for folder in ("killed", "alone"):
        subprocess.run(command(tmp_path / folder), env=environment, check=True, capture_output=True)
    assert path.read_bytes().startswith(finished[: finished.rfind(b"\n") + 1])
    results = [
        [
            {key: value for key, value in json.loads(line).items() if key != "seconds"}
            for line in (tmp_path / folder / "results.jsonl").read_text().splitlines()
        ]
        for folder in ("killed", "alone")
    ]
    assert results[0] == results[1]
    assert (tmp_path / "killed" / "index.html").exists()


# ---------------------------------------------------------------------------------------------------
# Findings
# ---------------------------------------------------------------------------------------------------


def record(experiment, dataset, number, **result):
    return {"experiment": experiment, "dataset": dataset, "split": number, "seconds": 1.0, "result": result}


def synthetic(vote=0.1, base=0.1, bound=0.2, uniform=0.3, quasiconvex=True, direct=0.1, seconds=1.0, theorem_var=30):
    records = []
    for name in ("skin", "avsb"):
        for number in range(3):
            jitter = 0.001 * number
            records += [
                record("baseline", name, number, loss=base + jitter, C=1.0, gamma=1.0, seconds=10.0),
                record(
                    "runtime",
                    name,
                    number,
                    r=5,
                    m=[1, 10],
                    vote=[0.5, vote],
                    bound=[1.0, bound],
                    seconds=[0.1, seconds],
                ),
                record(
                    "weighting",
                    name,
                    number,
                    r=5,
                    m=[1, 10],
                    vote=[0.5, vote],
                    uniform=[0.5, uniform],
                    best=[1, 1],
                    bound=[1, 1],
                ),
                record(
                    "comparison", name, number, vote=vote + jitter, randomised=vote, best=vote, bound=bound, half_mass=2
                ),
                record("validation", name, number, direct=direct, validate=0.1),
                record("quasiconvexity", name, number, theorem_var=theorem_var, stronger=100, floor=20, largest=100),
                record(
                    "f_lambda",
                    name,
                    number,
                    quasiconvex=quasiconvex,
                    convex=False,
                    guaranteed=True,
                    F_alternating=0.2,
                    F_global=0.2,
                ),
            ]
    return records


def verdicts(**changes):
    return [finding.holds for finding in findings(synthetic(**changes))]


def test_findings_tell_claims_that_hold_from_claims_that_do_not():
    assert verdicts() == [True, True, True, True, True, True, False, True]
    assert all(type(holds) is bool for holds in verdicts())
    assert not verdicts(vote=0.2, bound=0.3)[0]
    assert not verdicts(bound=0.05)[1]
    assert not verdicts(bound=0.6)[1]
    assert not verdicts(uniform=0.05)[2]
    assert not verdicts(quasiconvex=False)[3]
    assert not verdicts(direct=0.2)[4]
    assert not verdicts(seconds=20.0)[5]
    assert not verdicts(theorem_var=10)[7]


def test_findings_without_results_say_so():
    for finding in findings([]):
        assert finding.holds is None
        assert "Not measured" in finding.sentence
    assert tables([]) == []


def test_tables_stand_beside_the_paper():
    made = {table.title: table for table in tables(synthetic())}
    baseline = made["Test loss of the cross-validated SVM"]
    assert baseline.header == ["Dataset", "Paper", "Here", "Difference in sd"]
    assert baseline.rows[0] == ["Skin", "0", "0.101 ± 0.001", "+101.0"]
    guaranteed = made["Largest m with quasiconvexity guaranteed by Theorem var"]
    assert guaranteed.rows[1] == ["AvsB", "160", "30 ± 0", "no spread", "100 ± 0"]


def test_results_by_split():
    results = Results([record("baseline", "skin", 1, loss=2.0), record("baseline", "skin", 0, loss=1.0)])
    assert results.values("baseline", "skin", lambda r: r["loss"]).tolist() == [1.0, 2.0]
    assert results.datasets("baseline") == ["skin"]
    assert results.datasets("baseline", "runtime") == []
