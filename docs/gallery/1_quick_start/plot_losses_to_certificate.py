"""
From losses to a certificate
============================

The theory needs only losses: how often each of twelve classifiers erred on the same 400 points that it had not seen.
"""

import numpy as np

from pacbayes._formatting import format_percent_upper
from pacbayes.bounds import majority_vote, pac_bayes_kl
from pacbayes.display import BoundDisplay
from pacbayes.posterior import minimize_lambda_bound
from pacbayes.quasiconvexity import check_quasiconvexity

n = 400  # points that each classifier was validated on, none of which it was trained on
errors = np.array([31, 33, 34, 40, 41, 52, 60, 75, 80, 95, 120, 160])  # of twelve classifiers
losses = errors / n

result = minimize_lambda_bound(losses, n, delta=0.05)  # weights and lambda, by minimising the bound
bound = pac_bayes_kl(result.loss, result.kl_div, n, delta=0.05)  # tighter, for the same weights

print("weights:", result.rho.round(3))
print(f"lambda: {result.lam:.3f}, validation loss: {result.loss:.4f}, KL: {result.kl_div:.3f}")
print(f"with probability 95%, the randomised classifier errs on at most {format_percent_upper(bound)} of new points")
print(f"and the weighted majority vote on at most {format_percent_upper(majority_vote(bound))}")
print("global minimum guaranteed:", check_quasiconvexity(losses, n, delta=0.05).guaranteed)

# %%
# The bound as a function of lambda, its minimum, and what is proved about its shape.

BoundDisplay.from_losses(losses, n)
