"""The RBF-SVM pool as a plain loop over scikit-learn: the oracle of the engine."""

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from pacbayes.pools import EstimatorPool, jaakkola_gamma
from pacbayes.pools._rbf_svm import GAMMA_GRID
from pacbayes.sampling import LEARNER, draw_positions

SCALERS = {"minmax": MinMaxScaler((-1, 1)), "standard": StandardScaler(), None: FunctionTransformer()}


class SVCLoopPool(EstimatorPool):
    def __init__(self, classes, entropy, C, scaler=None, reference=None):
        super().__init__(classes, SVC(), entropy)
        self.C = np.asarray(C)
        self.scaler = scaler
        self.reference = reference

    def _learner(self, h, X_h, y_h):
        X_s, y_s = (X_h, y_h) if self.reference is None else self.reference
        scaler = clone(SCALERS[self.scaler]).fit(X_s)
        width, softness = draw_positions(self.entropy, range(h, h + 1), LEARNER, [5, self.C.size])[0]
        gamma = jaakkola_gamma(scaler.transform(X_s), y_s) * GAMMA_GRID[width]
        svc = SVC(gamma=gamma, C=self.C[softness], tol=1e-6).fit(scaler.transform(X_h), y_h)
        return make_pipeline(scaler, svc)
