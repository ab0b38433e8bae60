"""
A classifier with a certificate
===============================

Train, read what is proved, and compare it with a test set that the theorem does not need.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from pacbayes import PACBayesClassifier
from pacbayes.display import CertificateDisplay

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)

model = PACBayesClassifier(random_state=0).fit(X_train, y_train)
print(model.certificate_)

# %%
# The certificate as a picture. The last bar is the Clopper-Pearson bound on the test set: the bound that one has for
# a single classifier and points that were kept aside.

CertificateDisplay.from_estimator(model, X_test, y_test)
