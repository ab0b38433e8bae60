import inspect
import json
from decimal import Decimal

import pytest

from pacbayes import bounds
from pacbayes.cli._console import format_significant
from pacbayes.cli.bound import _DEFAULTS, ENTRIES

ARGUMENTS = {
    "loss": 0.1,
    "kl_div": 2.0,
    "n": 1000.0,
    "n_max": 1200.0,
    "lam": 0.4,
    "delta": 0.02,
    "p": 0.1,
    "q": 0.2,
    "c": 0.05,
    "variance": 0.001,
    "c1": 1.2,
    "c2": 1.1,
    "errors": 100.0,
    "prior_mass": 0.5,
    "u": 0.5,
    "gibbs_bound": 0.08,
}


def test_the_table_has_every_bound_of_numbers():
    of_posteriors = {name for name in bounds.__all__ if "rho" in inspect.signature(getattr(bounds, name)).parameters}
    assert set(ENTRIES) == set(bounds.__all__) - of_posteriors
    for name, entry in ENTRIES.items():
        parameters = inspect.signature(getattr(bounds, name)).parameters
        assert entry.arguments.split() == list(parameters), name
        defaults = {p.name: p.default for p in parameters.values() if p.default is not p.empty}
        assert defaults == {argument: _DEFAULTS[argument] for argument in parameters if argument in _DEFAULTS}


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_numbers_are_those_of_the_library(invoke, name):
    given = {argument: ARGUMENTS[argument] for argument in ENTRIES[name].arguments.split()}
    options = [word for argument, value in given.items() for word in (f"--{argument.replace('_', '-')}", value)]
    exact = getattr(bounds, name)(**given)
    values = json.loads(invoke("bound", name.replace("_", "-"), *options, "--json").stdout)
    assert values["value"] == exact
    assert values["arguments"] == given
    shown, meaning = invoke("bound", name.replace("_", "-"), *options).stdout.splitlines()
    assert shown in meaning
    assert float(shown) == pytest.approx(exact, rel=1e-9)
    if ENTRIES[name].upwards is True:
        assert Decimal(shown) >= Decimal(exact)
    if ENTRIES[name].upwards is False:
        assert Decimal(shown) <= Decimal(exact)


def test_the_real_program(run):
    result = run("bound", "pac-bayes-kl", "--loss", 0.1, "--kl-div", 2, "--n", "1e3")
    assert result.returncode == 0
    assert result.stdout.splitlines()[1].startswith("With probability 0.95, the expected loss of the randomised")


def test_bounds_that_prove_nothing(invoke):
    assert "Nothing is proved" in invoke("bound", "majority-vote", "--gibbs-bound", 0.7).stdout
    values = json.loads(invoke("bound", "kl", "--p", 0.5, "--q", 1, "--json").stdout)
    assert values["value"] == "Infinity"


def test_mistakes(refuses):
    assert refuses("bound", "kl", "--p", 2, "--q", 0.5) == "p must be in [0, 1], got 2.0"
    assert "'--q'" in refuses("bound", "kl", "--p", 0.5)
    assert "Invalid value for '--p'" in refuses("bound", "kl", "--p", "half", "--q", 0.5)
    assert "'nothing'" in refuses("bound", "nothing")


def test_rounding():
    assert format_significant(1 / 3, upwards=True) == "0.3333333334"
    assert format_significant(1 / 3, upwards=False) == "0.3333333333"
    assert format_significant(2 / 3, upwards=None) == "0.6666666667"
