r"""
A counter-example to Theorem global-min
=======================================

Theorem global-min promises a single minimum if a condition on the variance holds for all :math:`\lambda` from
:math:`\sqrt{\ln(2 \sqrt n / \delta) / n}` to 1. Its proof needs :math:`n \ge 4 \ln(2 \sqrt n / \delta)`. Here n is
smaller: the conditions hold on the whole interval, shaded in grey, and yet F has a local maximum below it, and two
minima. See the :doc:`findings about the paper </findings>` for the proof of the theorem with this assumption.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacbayes.bounds import confidence_term
from pacbayes.posterior import lambda_bound, minimize_lambda_bound
from pacbayes.quasiconvexity import check_quasiconvexity

losses, log_prior = [0.0839, 0.7607], [-114.68, np.log1p(-np.exp(-114.68))]
n, delta = 197, 2.5e-74

start = np.sqrt(confidence_term(n, delta) / n)
print(f"the theorem looks at lambda from {start:.4f} to 1")
print(f"it would need n >= {4 * confidence_term(n, delta):.0f}, and n is {n}")

local = minimize_lambda_bound(losses, n, delta=delta, prior=log_prior, lam0=0.5)
best = minimize_lambda_bound(losses, n, delta=delta, prior=log_prior, method="global")
print(f"alternating from 0.5: lambda {local.lam:.4f}, F {local.fun:.4f}")
print(f"global:               lambda {best.lam:.4f}, F {best.fun:.4f}")

# %%
# The library checks the conditions wherever F may have a stationary point, and does not claim quasiconvexity.

print(check_quasiconvexity(losses, n, delta=delta, prior=log_prior))

# %%
# F, with its local maximum between the two minima.

lam = np.linspace(0.65, 1, 3501)
values = lambda_bound(losses, lam, n, delta, log_prior)
between = (lam > local.lam) & (lam < best.lam)
top = np.flatnonzero(between)[np.argmax(values[between])]

figure, ax = plt.subplots(layout="constrained")
ax.axvspan(start, 1, color="0.9", label="interval of Theorem global-min")
ax.plot(lam, values, linewidth=2, label=r"$F(\lambda)$")
ax.plot(local.lam, local.fun, "o", label="alternating minimisation from 0.5")
ax.plot(best.lam, best.fun, "s", label="global minimum")
ax.plot(lam[top], values[top], "^", label=rf"local maximum at $\lambda$ = {lam[top]:.3f}")
ax.set(xlabel=r"trade-off $\lambda$", ylabel=r"$F(\lambda)$", xlim=(lam[0], 1), ylim=(3.08, 3.14))
ax.legend()
