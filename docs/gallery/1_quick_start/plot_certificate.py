"""
A classifier with a certificate
===============================

Train, read what is proved, and compare it with further points that the classifier has never seen.
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
# The certificate as a picture. What `predict` does is certified by rows of the sample that were held out, and the last
# bar is what the further points prove: the bound of `model.certify(X_test, y_test)`. The randomised classifier and the
# best hypothesis are alternatives, whose bounds rest on the validation points.

CertificateDisplay.from_estimator(model, X_test, y_test)
