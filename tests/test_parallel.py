"""Functions that are called in the background, and votes that are certified so."""

import threading
import time

import numpy as np
import pytest
from sklearn.datasets import make_moons

from pacbayes import PACBayesClassifier
from pacbayes._parallel import run_in_background
from pacbayes.fitting import _fit
from pacbayes.pools import RBFSVMPool


def fit(n_jobs=2, **settings):
    X, y = make_moons(300, noise=0.2, random_state=0)
    return PACBayesClassifier(RBFSVMPool(), n_hypotheses=20, n_jobs=n_jobs, random_state=0, **settings).fit(X, y)


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_results_come_in_any_order_and_errors_when_they_are_asked_for(threads):
    started = []
    with run_in_background(threads) as call:
        numbers = [call(started.append, k) or k for k in range(5)]
        if threads:
            failing = call(int, "x")
            with pytest.raises(ValueError, match="invalid literal"):
                failing.result()
        else:
            with pytest.raises(ValueError, match="invalid literal"):
                call(int, "x")
        assert call(sum, [1, 2]).result() == 3
    assert len(numbers) == 5
    assert sorted(started) == list(range(5))
    assert threads == 2 or started == list(range(5))


def test_an_error_of_the_caller_waits_for_what_has_begun_and_gives_up_the_rest():
    begun, release, done = threading.Event(), threading.Event(), []

    def work(k):
        begun.set()
        release.wait(60)
        done.append(k)

    futures = []

    def release_when_the_rest_is_given_up():
        while not futures[-1].cancelled():
            time.sleep(0.001)
        release.set()

    def start_and_fail():
        with run_in_background(1) as call:
            futures.extend(call(work, k) for k in range(3))
            begun.wait(60)
            threading.Thread(target=release_when_the_rest_is_given_up, daemon=True).start()
            raise KeyError

    with pytest.raises(KeyError):
        start_and_fail()
    assert done == [0]
    assert [future.cancelled() for future in futures] == [False, True, True]


def test_each_thread_is_prepared():
    prepared = []
    with run_in_background(1, prepare=lambda: prepared.append(threading.get_ident())) as call:
        worker = call(threading.get_ident).result()
    assert prepared == [worker]
    assert worker != threading.get_ident()


def test_votes_are_certified_while_others_are_trained(monkeypatch):
    threads = []
    certify = _fit.certify

    def note(*args, **kwargs):
        threads.append(threading.current_thread())
        return certify(*args, **kwargs)

    monkeypatch.setattr(_fit, "certify", note)
    before = threading.active_count()
    several, one, shown = fit(holdout=[0.3, 0.4]), fit(1, holdout=[0.3, 0.4]), fit(holdout=[0.3, 0.4], verbose=1)
    assert threading.active_count() == before
    assert threading.main_thread() not in threads[:2]
    assert threads[2:] == [threading.main_thread()] * 4
    for other in (one, shown):
        assert other.certificate_ == several.certificate_
        assert [vote.certificate for vote in other.votes_] == [vote.certificate for vote in several.votes_]
        np.testing.assert_array_equal(other.posterior_, several.posterior_)


@pytest.mark.parametrize("name", ["certify", "digest_vote"])
def test_an_error_in_a_certificate_is_that_of_the_fit(monkeypatch, name):
    def fail(*args, **kwargs):
        raise ArithmeticError("in a thread")

    monkeypatch.setattr(_fit, name, fail)
    before = threading.active_count()
    with pytest.raises(ArithmeticError, match="in a thread"):
        fit(holdout=[0.3, 0.4])
    assert threading.active_count() == before
