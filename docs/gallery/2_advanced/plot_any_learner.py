"""
Any base learner
================

Decision trees with depths drawn at random instead of tuned, and the shape of the bound that weighted them.
"""

from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier

from pacbayes import PACBayesClassifier
from pacbayes.display import BoundDisplay
from pacbayes.pools import EstimatorPool

X, y = load_digits(return_X_y=True)
model = PACBayesClassifier(
    EstimatorPool(DecisionTreeClassifier(), param_distributions={"max_depth": [4, 8, 16]}),
    n_hypotheses=60,
    subsample_size=[400, 800],
    random_state=0,
).fit(X, y)
print(model.certificate_)

BoundDisplay.from_estimator(model)
