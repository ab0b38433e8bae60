"""
Why not a test set?
===================

A test set is a certificate, too: hold out half of the sample, tune a classifier on the other half, and take the exact
(Clopper-Pearson) bound on its error. Here it competes with `PACBayesClassifier`, on data whose true error is known.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pacbayes import PACBayesClassifier
from pacbayes._formatting import format_upper
from pacbayes.bounds import clopper_pearson
from pacbayes.datasets import waveform
from pacbayes.pools import RBFSVMPool

n = 400
new_points = waveform(3000, random_state=1)  # many new points, to know the true error

sample = waveform(n, random_state=2)
model = PACBayesClassifier(random_state=0).fit(sample.X, sample.y)
print(model.certificate_)
print(f"\ntrue error: {1 - model.score(new_points.X, new_points.y):.4f}")

# %%
# The first line is about what `predict` does, and it, too, is the bound of a test set: some rows were held out for this
# purpose alone. Two things are different. Many models, trained on subsamples of the other rows, vote, which needs no
# cross-validation and predicts better than a single one. And several such votes compete, each with held-out rows of its
# own and a share of delta, so that less depends on the luck of one split.


def test_set(sample, seed):
    """Tune an SVM on one half, and bound its error by the other: bound and true error."""
    half = np.random.default_rng(seed).permutation(n) < n // 2
    grid = {"svc__C": [1, 10, 100], "svc__gamma": [0.001, 0.01, 0.1, 1]}
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid).fit(sample.X[half], sample.y[half])
    errors = np.count_nonzero(search.predict(sample.X[~half]) != sample.y[~half])
    return clopper_pearson(errors, np.count_nonzero(~half), delta=0.05), 1 - search.score(new_points.X, new_points.y)


def certified(**settings):
    """Return the method that fits `PACBayesClassifier` with these settings: bound and true error."""

    def method(sample, seed):
        model = PACBayesClassifier(random_state=seed, **settings).fit(sample.X, sample.y)
        return model.certificate_.bound, 1 - model.score(new_points.X, new_points.y)

    return method


methods = {
    "PACBayesClassifier()": certified(),
    "test set: tuned SVM on one half": test_set,
    "voting='best'": certified(voting="best"),
    "holdout=None, voting='gibbs'": certified(holdout=None, voting="gibbs"),
    "holdout=None (the paper)": certified(estimator=RBFSVMPool(), holdout=None),
}
samples = [waveform(n, random_state=10 + seed) for seed in range(5)]
results = {
    name: np.mean([method(sample, seed) for seed, sample in enumerate(samples)], axis=0)
    for name, method in methods.items()
}

# %%
# Averages of five samples. Left ends are true errors, right ends what is proved: short lines are tight certificates,
# and lines further to the left belong to better classifiers.

_, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
bounds, errors = np.transpose(list(results.values()))
rows = np.arange(len(results))
ax.hlines(rows, errors, bounds, color="0.7", linewidth=3, zorder=1)
ax.scatter(errors, rows, color="black", label="true error")
ax.scatter(bounds, rows, color="tab:blue", marker="|", s=250, linewidth=3, label="certified at most")
for row, bound in zip(rows, bounds, strict=True):
    ax.annotate(format_upper(bound, digits=3), (bound, row), xytext=(8, 0), textcoords="offset points", va="center")
ax.set(yticks=rows, yticklabels=list(results), xlabel="error", xlim=(0, 1.15 * bounds.max()))
ax.invert_yaxis()
ax.legend(loc="upper right")

# %%
# The vote on all rows holds none out, and predicts well. But what PAC-Bayesian theory proves about it without further
# data is twice the bound on its average member: use it if accuracy matters most, and certify it with a later sample,
# `model.certify(X, y)`. The default gives up a little accuracy for a bound that can be used.
#
# A test set is simple, exact and hard to beat: if a classifier already exists and you have points that it never saw,
# use them. What a test set cannot do is choose. As soon as two classifiers are compared on it, its bound is gone,
# unless they were declared beforehand and share delta, as the competing votes and the candidates of a
# `CertifiedGridSearch` do.
