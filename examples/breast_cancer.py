from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from pacbayes import PACBayesClassifier

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)

model = PACBayesClassifier(random_state=0).fit(X_train, y_train)

print(model.certificate_)
print(f"error on {len(y_test)} test points: {1 - model.score(X_test, y_test):.4f}")
