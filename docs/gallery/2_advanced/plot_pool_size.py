"""
How many hypotheses?
====================

Bound and losses for the first m hypotheses of a pool, without held-out rows. Looking at this picture is free; choosing
m by it is not: the certificate of the chosen m would have to pay for the choice.
"""

from sklearn.model_selection import train_test_split

from pacbayes import PACBayesClassifier
from pacbayes.datasets import waveform
from pacbayes.display import PoolSizeDisplay
from pacbayes.pools import RBFSVMPool

data = waveform(3000, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(data.X, data.y, test_size=1000, random_state=0)

model = PACBayesClassifier(RBFSVMPool(), n_hypotheses=1000, subsample_size="paper", holdout=None, random_state=0)
model.fit(X_train, y_train)
PoolSizeDisplay.from_estimator(model, X_test, y_test)
