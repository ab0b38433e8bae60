"""The RBF-SVM pool as a plain loop over scikit-learn: the oracle of the engine."""

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from pacbayes.pools import GAMMA_GRID, Constant, HypothesisList, Pool, jaakkola_gamma
from pacbayes.sampling import LEARNER, draw_positions

SCALERS = {"minmax": MinMaxScaler((-1, 1)), "standard": StandardScaler(), None: FunctionTransformer()}


class SVCLoopPool(Pool):
    def __init__(self, C, scaler=None, reference=None):
        self.C = C
        self.scaler = scaler
        self.reference = reference

    def train(self, sample, subsamples, hypotheses, entropy, shared):
        members = [self.train_number(h, sample, subsamples[h], entropy) for h in hypotheses]
        return HypothesisList(members, sample.classes)

    def train_number(self, h, sample, rows, entropy):
        X_h, y_h = sample.X[rows], sample.classes[sample.codes[rows]]
        if np.unique(y_h).size == 1:
            return Constant(y_h[0])
        X_s, y_s = (X_h, y_h) if self.reference is None else self.reference
        scaler = clone(SCALERS[self.scaler]).fit(X_s)
        width, softness = draw_positions(entropy, range(h, h + 1), LEARNER, [5, len(self.C)])[0]
        gamma = jaakkola_gamma(scaler.transform(X_s), y_s) * GAMMA_GRID[width]
        svc = SVC(gamma=gamma, C=self.C[softness], tol=1e-6).fit(scaler.transform(X_h), y_h)
        return make_pipeline(scaler, svc)
