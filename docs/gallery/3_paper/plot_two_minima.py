"""
Two local minima
================

The paper's artificial example where alternating minimisation may stop at the wrong minimum: one perfect hypothesis
among 2.7 million mediocre ones (Section "Strong Quasiconvexity of the PAC-Bayes-lambda Bound"). The global method
finds the right one and proves it.
"""

import numpy as np

from pacbayes.display import BoundDisplay
from pacbayes.posterior import minimize_lambda_bound

n, delta, difference = 200, 0.25, 0.1
m = round(np.exp(0.74 * n * difference)) + 1
losses = np.full(m, difference)
losses[0] = 0.0

alternating = minimize_lambda_bound(losses, n, delta=delta, lam0=0.5)
best = minimize_lambda_bound(losses, n, delta=delta, method="global")
print(f"alternating from 0.5: lambda {alternating.lam:.4f}, bound {alternating.fun:.6f}")
print(f"global:               lambda {best.lam:.4f}, bound {best.fun:.6f}, no bound is below {best.lower:.6f}")

BoundDisplay.from_losses(losses, n, delta=delta, lam_range=(0.3, 1.0))
