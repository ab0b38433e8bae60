"""Random edits of certificates: none that lowers a bound or raises its strictness may verify, and none may crash.

python tests/adversary/fuzz_certificates.py 100000
"""

import copy
import json
import sys
from collections import Counter

import numpy as np
from sklearn.datasets import make_moons
from sklearn.tree import DecisionTreeClassifier

from pacbayes import Certificate, CertificateError, PACBayesClassifier, certify
from pacbayes._json_fields import checksum
from pacbayes.pools import RBFSVMPool

WORDS = ["zero_one", "brier", "majority", "gibbs", "best", "uniform", "lambda", "kl", "dual", "direct", "", "\x1b[2K"]
WORDS += ["majority vote", "best hypothesis", "test-set", "clopper-pearson", "heavy-voter", "subset-sum"]
ODD = [None, True, False, 0, 1, -1, 10**400, 1e-320, 5e-324, [], {}, [[]] * 3, "no", "Infinity", -0.0, 2**63, 1e308]


def reseal(values):
    """JSON text of edited values with a checksum that fits: what a careful forger would write."""
    content = {name: value for name, value in values.items() if name != "checksum"}
    try:
        return json.dumps({**content, "checksum": checksum(content)})
    except ValueError:
        return json.dumps({**content, "checksum": "0" * 64})


def targets():
    """Certificates, and how each is verified beyond its own figures."""
    X, y = make_moons(120, noise=0.2, random_state=0)
    settings = {"n_hypotheses": 6, "subsample_size": [8, 30], "random_state": 0}
    parameters = {**settings, "holdout": None}
    models = [
        PACBayesClassifier(RBFSVMPool(), **settings),
        PACBayesClassifier(RBFSVMPool(), loss=[[0, 1], [0.3, 0]], **settings),
        PACBayesClassifier(RBFSVMPool(), voting="gibbs", **parameters),
        PACBayesClassifier(RBFSVMPool(), **parameters),
        PACBayesClassifier(RBFSVMPool(gamma_source="sample"), **parameters),
        PACBayesClassifier(DecisionTreeClassifier(max_depth=2), loss="brier", **parameters),
        PACBayesClassifier(RBFSVMPool(), voting="best", **parameters),
    ]
    for model in models:
        model.fit(X, y)
        yield model.certificate_, lambda certificate: None
        yield model.certificate_, model.verify_certificate
    # Enough points that some hypotheses are dropped.
    many, labels = make_moons(3000, noise=0.1, random_state=0)
    race = {"n_hypotheses": 12, "subsample_size": [2, 12, 60], "holdout": None, "random_state": 0}
    for changes in ({}, {"voting": "gibbs"}):
        raced = PACBayesClassifier(RBFSVMPool(), **race, **changes).fit(many, labels)
        assert raced.certificate_.n_dropped
        yield raced.certificate_, lambda certificate: None
        yield raced.certificate_, raced.verify_certificate
    grouped = PACBayesClassifier(RBFSVMPool(), **settings).fit(X, y, groups=X[:, 0] > 0.5)
    yield grouped.certificate_, lambda certificate: None
    yield grouped.certificate_, grouped.verify_certificate
    new, new_labels = make_moons(200, noise=0.2, random_state=1)
    yield models[0].certify(new), lambda certificate: None
    shift = {"weights": np.ones(200), "max_weight": 2.0}
    for estimated in (False, True):
        shifted = models[0].certify(new, new_labels, weights_estimated=estimated, **shift)
        yield shifted, lambda certificate: None
    losses = np.array([0.1, 0.2, 0.4])
    yield certify(losses, 300, n_max=400)[0], lambda certificate: certificate.verify(losses)


def paths(value, path=()):
    """Places of all values in a tree of lists and dicts."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def mutate(values, rng):
    """Edit one place: a number a little or much, a word, a type, or take it away."""
    places = [path for path in paths(values) if path and path != ("pacbayes_certificate",)]
    path = places[rng.integers(len(places))]
    parent = values
    for key in path[:-1]:
        parent = parent[key]
    key, old = path[-1], parent[path[-1]]
    kind = rng.integers(6)
    is_number = isinstance(old, (int, float)) and not isinstance(old, bool) and abs(old) < 1e300
    if kind == 0 and is_number:
        parent[key] = old * float(rng.choice([0.0, 0.5, 0.9, 1 - 1e-9, 1 - 2**-52, 1.1, 2.0, 1e6]))
    elif kind == 1 and is_number:
        parent[key] = type(old)(old + int(rng.integers(-3, 4)))
    elif kind == 2 and isinstance(old, bool):
        parent[key] = not old
    elif kind == 3:
        parent[key] = WORDS[rng.integers(len(WORDS))]
    elif kind == 4:
        parent[key] = copy.deepcopy(ODD[rng.integers(len(ODD))])
    else:
        del parent[key]


def check(original, forged):
    """Raise AssertionError if a certificate that verified says more than the original."""
    assert forged.bound >= original.bound
    assert forged.strict <= original.strict
    before = {statement.predictor: statement.bound for statement in original.statements}
    for statement in forged.statements:
        assert statement.bound >= before[statement.predictor]
    if forged.confusion is not None and forged.confusion.is_certified:
        assert np.all(np.array(forged.confusion.bounds) >= np.array(original.confusion.bounds))
    # Without the model nobody can tell how many points are in groups that overlap.
    if forged.groups is not None and forged.groups.overlapping == original.groups.overlapping:
        assert np.all(np.array(forged.groups.bounds) >= np.array(original.groups.bounds))
    assert (forged.shift is None) == (original.shift is None) or not forged.is_tested


def fuzz(count, seed):
    """Edit certificates at random, and count what became of them."""
    rng = np.random.default_rng(seed)
    chosen = [(certificate, json.loads(certificate.to_json()), verify) for certificate, verify in targets()]
    counts = Counter()
    for _ in range(count):
        original, values, verify = chosen[rng.integers(len(chosen))]
        values = copy.deepcopy(values)
        for _ in range(rng.integers(1, 4)):
            mutate(values, rng)
        try:
            forged = Certificate.from_json(reseal(values) if rng.random() < 0.9 else json.dumps(values))
            verify(forged)
        except CertificateError:
            counts["refused"] += 1
            continue
        check(original, forged)
        counts["verified, and says no more"] += 1
    return counts


if __name__ == "__main__":
    print(dict(fuzz(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, seed=1)))
