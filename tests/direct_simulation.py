"""How often the direct bound is below the true loss of its best posterior, in worlds whose truth is known.

    python tests/direct_simulation.py [10000]

Half of the hypotheses are good and were measured on many points; the others are alike and were measured on few, so that
one of them looks better than it is. Errors are independent in every second data set, and otherwise shared by all. The
control is a comparator that satisfies all but convexity: a power of the p-value that is cut off where it is large. The
same equation and the same posterior with it are no bound.
"""

import sys

import numpy as np
from scipy.stats import binom

from pacbayes.posterior import minimize_direct_bound

COMPARATORS = ("kl", "mixture", "p-value")
TRUE = np.concatenate((np.full(10, 0.02), np.full(20, 0.3)))
N = np.concatenate((np.full(10, 400), np.full(20, 40)))
PRIOR = np.concatenate((np.full(10, 0.05), np.full(20, 0.025)))

# The control's power, and the p-value below which it does not grow.
_POWER = 20.0


def draw(rng, independent):
    """Validation losses of all hypotheses, which were measured on rows of their own, or on shared ones."""
    if independent:
        return rng.binomial(N, TRUE) / N
    hard = rng.uniform(size=N.max())
    return np.array([np.mean(hard[:n] < loss) for n, loss in zip(N, TRUE, strict=True)])


def broken_bound(losses, delta):
    """The root and the posterior of a comparator that is not convex."""
    errors = np.rint(losses * N)
    least = 1.02 * delta / 2 * (1 - 1 / _POWER)
    log_norm = np.log(least * _POWER / (_POWER - 1))

    def log_parts(t):
        log_p = np.maximum(binom.logcdf(errors, N, t), np.log(least))
        return np.log(PRIOR) - log_norm - _POWER * (log_p - np.log(least))

    low, high = 0.0, 1.0
    for _ in range(60):
        t = (low + high) / 2
        low, high = (low, t) if np.logaddexp.reduce(log_parts(t)) > -np.log(delta) else (t, high)
    log_p = binom.logcdf(errors, N, high)
    hazard = np.exp(binom.logpmf(errors, N, high) - log_p) * (N - errors) / (1 - high)
    rho = np.exp(log_parts(high)) * np.where(log_p > np.log(least), hazard, 0.0)
    return high, rho / rho.sum() if rho.sum() > 0 else PRIOR


def count_failures(comparator, delta, repetitions, seed=0):
    """Return in how many data sets the bound is below the true loss of its posterior; None is the control."""
    rng = np.random.default_rng(seed)
    failures = 0
    for i in range(repetitions):
        losses = draw(rng, independent=i % 2 == 0)
        if comparator is None:
            bound, rho = broken_bound(losses, delta)
        else:
            result = minimize_direct_bound(losses, N, delta=delta, prior=PRIOR, comparator=comparator)
            bound, rho = result.fun, result.rho
        failures += rho @ TRUE > bound
    return failures


def most_failures(delta, repetitions):
    """Return how many failures a valid bound exceeds with a probability of 1e-6 at most."""
    return int(binom.ppf(1 - 1e-6, repetitions, delta))


if __name__ == "__main__":
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for delta in (0.05, 0.3):
        for comparator in (*COMPARATORS, None):
            share = count_failures(comparator, delta, repetitions) / repetitions
            print(f"delta {delta}, {comparator or 'control, not convex'}: {share:.4f} of {repetitions}", flush=True)
