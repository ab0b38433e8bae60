"""
Who votes
=========

The posterior puts its mass on the hypotheses with the smallest validation losses, and spreads it as far as that pays:
over several families of models, in their colours.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from pacbayes import PACBayesClassifier
from pacbayes.display import PosteriorDisplay

X, y = make_moons(600, noise=0.25, random_state=0)
model = PACBayesClassifier(random_state=0).fit(X, y)

_, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
PosteriorDisplay.from_estimator(model, kind="mass", ax=axes[0])
PosteriorDisplay.from_estimator(model, kind="cumulative", ax=axes[1])
print(model.certificate_.describe_weights())
