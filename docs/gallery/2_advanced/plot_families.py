"""
Which family wins?
==================

SVMs, boosted trees, forests and logistic regressions share one vote, and the weights choose among them: boosted trees
nearly alone where the class depends on steps in two of many columns, together with SVMs where a smooth boundary in all
of them separates the classes.
Nothing is cross-validated, and the certificate is that of the vote.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacbayes import PACBayesClassifier

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(600, 8))
tables = {
    "two columns, by steps": np.where((X[:, 0] > -0.3) ^ (X[:, 1] > 0.1), "a", "b"),
    "all columns, by a sphere": np.where(np.linalg.norm(X, axis=1) > 1.6, "outside", "inside"),
}

models = {name: PACBayesClassifier(n_hypotheses=60, random_state=0).fit(X, y) for name, y in tables.items()}
for name, model in models.items():
    print(f"{name}: {model.certificate_.describe_weights()}")
    print(model.certificate_.summary())

# %%
# The weight of each family, in both tables.

_, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
left = np.zeros(len(models))
for family in model.subsamples_.families:
    weights = [
        next(one.weight for one in model.certificate_.families if one.name == family) for model in models.values()
    ]
    ax.barh(list(models), weights, left=left, label=family)
    left += weights
ax.set_xlabel("weight")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
