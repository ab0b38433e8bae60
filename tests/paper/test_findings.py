"""Claims that hold, claims that do not, and the tables."""

import pytest

from pacbayes.paper.findings import check_claims, make_tables
from pacbayes.paper.records import Results


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
    return [finding.holds for finding in check_claims(synthetic(**changes))]


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
    for finding in check_claims([]):
        assert finding.holds is None
        assert "Not measured" in finding.sentence
    assert make_tables([]) == []


def test_tables_stand_beside_the_paper():
    made = {table.title: table for table in make_tables(synthetic())}
    baseline = made["Test loss of the cross-validated SVM"]
    assert baseline.header == ["Dataset", "Paper", "Here", "Difference in sd"]
    assert baseline.rows[0] == ["Skin", "0", "0.101 ± 0.001", "+101.0"]
    guaranteed = made["Largest m with quasiconvexity guaranteed by the paper's theorem"]
    assert guaranteed.rows[1] == ["AvsB", "160", "30 ± 0", "no spread", "100 ± 0"]


def test_results_by_split():
    results = Results([record("baseline", "skin", 1, loss=2.0), record("baseline", "skin", 0, loss=1.0)])
    assert results.values("baseline", "skin", lambda r: r["loss"]).tolist() == [1.0, 2.0]
    assert results.datasets("baseline") == ["skin"]
    assert results.datasets("baseline", "runtime") == []
    assert results.values("runtime", "skin", "loss").size == 0


def test_datasets_in_the_papers_order():
    results = Results(record("baseline", name, 0) for name in ("zoo", "breast-cancer", "mushrooms"))
    assert results.datasets() == results.datasets("baseline") == ["mushrooms", "breast-cancer", "zoo"]
    assert results.datasets("runtime") == []


def test_splits_must_share_the_values_of_m():
    results = Results([record("runtime", "skin", 0, m=[1, 5]), record("runtime", "skin", 1, m=[1, 6])])
    with pytest.raises(ValueError, match=r"splits \[0, 1\] of skin were run with different values of m"):
        results.shared("runtime", "skin", "m")
