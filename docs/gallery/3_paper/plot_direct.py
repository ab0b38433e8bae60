"""
One equation instead of a search
================================

The smallest direct bound is where an increasing function meets :math:`1 / \\delta`, and the posterior that attains it
follows. It is compared with the posterior of the paper's bound.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacbayes.bounds import direct_bound
from pacbayes.bounds.comparators import KlComparator
from pacbayes.posterior import minimize_direct_bound, minimize_kl_bound, minimize_lambda_bound

# %%
# Two hundred hypotheses, validated on 500 points each. The function is the left side of the equation: the prior mean of
# what speaks against a loss of t, for each hypothesis that looks better than t.

rng = np.random.default_rng(0)
m, n, delta = 200, 500, 0.05
losses = np.sort(rng.binomial(n, rng.uniform(0.08, 0.3, m)) / n)
direct = minimize_direct_bound(losses, n, delta=delta, comparator="kl")
best = minimize_lambda_bound(losses, n, delta=delta, method="global")

comparators = KlComparator(losses, np.full(m, float(n)))
t = np.linspace(losses.min(), direct.fun * 1.15, 200)
left = [np.mean(np.exp(comparators.at(np.arange(m), np.maximum(value, losses)).value)) for value in t]

figure, (equation, weights) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
equation.semilogy(t, left, label="left side")
equation.axhline(1 / delta, color="0.5", linestyle="--", label=r"$1 / \delta$")
equation.plot(direct.fun, 1 / delta, "o", color="C3", label=f"root: the bound {direct.fun:.4f}")
equation.set(xlabel="t", ylabel=r"$\sum_h \pi_h e^{D_h(t)}$", title="One root")
equation.legend()
weights.plot(losses, direct.rho, ".", label="direct bound")
weights.plot(losses, best.rho, "x", label="PAC-Bayes-lambda")
weights.set(xlabel="validation loss", ylabel="weight", xlim=(None, 0.16), title="Posteriors")
weights.legend()

# %%
# The bounds on the randomised classifier. The last is the direct bound of the weights that minimise PAC-Bayes-lambda.

for name, bound in (
    ("PAC-Bayes-lambda", best.fun),
    ("PAC-Bayes-kl", minimize_kl_bound(losses, n, delta=delta).fun),
    ("direct, kl", direct.fun),
    ("direct, mixture", minimize_direct_bound(losses, n, delta=delta).fun),
    ("direct, mixture, of the other weights", direct_bound(best.rho, losses, n, delta=delta)),
):
    print(f"{bound:.4f}  {name}")
