"""The direct bound once more, in mpmath: the constraint set is maximised by itself, without the dual problem."""

import dual_oracle
import mpmath as mp
import numpy as np

from pacbayes.bounds.comparators import KAPPA, CatoniMixture


def log_tail(k, n, loss):
    """ln P(X <= k) and ln P(X = k): the tail in terms of its last summand, added up."""
    k, n, loss = mp.mpf(k), mp.mpf(n), mp.mpf(loss)
    log_pmf = mp.log(mp.binomial(n, k)) if n < 10**4 else mp.loggamma(n + 1) - mp.loggamma(k + 1)
    log_pmf -= 0 if n < 10**4 else mp.loggamma(n - k + 1)
    log_pmf += k * mp.log(loss) + (n - k) * mp.log(1 - loss)
    term = total = mp.mpf(1)
    for j in range(int(k)):
        term *= (k - j) * (1 - loss) / ((n - k + 1 + j) * loss)
        total += term
        if term < total * mp.mpf(10) ** (-mp.mp.dps - 3) and (k - j) * (1 - loss) < (n - k + 1 + j) * loss / 2:
            break
    return log_pmf + mp.log(total), log_pmf


class PValue:
    """D(L) = ln kappa - (1 - kappa) ln P(Bin(n, L) <= k)."""

    least = mp.mpf(0)

    def __init__(self, p, n):
        self.k, self.n = round(p * n), n

    def value(self, loss):
        kappa = mp.mpf(KAPPA)
        if self.k == self.n or loss == 0:
            return mp.log(kappa)
        return mp.log(kappa) - (1 - kappa) * log_tail(self.k, self.n, loss)[0]

    def slope(self, loss):
        if self.k == self.n:
            return mp.mpf(0)
        tail, pmf = log_tail(self.k, self.n, loss)
        return (1 - mp.mpf(KAPPA)) * mp.exp(pmf - tail) * (self.n - self.k) / (1 - loss)


class Kl(dual_oracle.Kl):
    @property
    def least(self):
        return self.p


class Mixture(dual_oracle.Mixture):
    least = mp.mpf(0)


def comparators(losses, n, delta, name):
    """Comparators of hypotheses, by the name that the library has for them."""
    losses, n = np.asarray(losses, dtype=float), np.broadcast_to(np.asarray(n, dtype=float), np.shape(losses))
    cases = list(zip(losses.tolist(), map(int, n.tolist()), strict=True))
    if name != "mixture":
        return [{"kl": Kl, "p-value": PValue}[name](*case) for case in cases]
    mixture = CatoniMixture(losses, n, delta)
    grids = [a[q > -np.inf].tolist() for a, q in zip(mixture._a, mixture._log_q, strict=True)]
    return [Mixture(*case, grid) for case, grid in zip(cases, grids, strict=True)]


def constraint(ds, prior, losses):
    """The left-hand side: sum of pi exp(D(L))."""
    return mp.fsum(mp.mpf(p) * mp.exp(d.value(mp.mpf(x))) for d, p, x in zip(ds, prior, losses, strict=True) if p > 0)


def smallest_bound(ds, delta, prior, near):
    """The root t, by bisection in an interval around `near` that is proved to contain it."""

    def is_feasible(t):
        return constraint(ds, prior, [max(t, d.least) for d in ds]) * mp.mpf(delta) <= 1

    low, high = mp.mpf(near) * (1 - mp.mpf("1e-9")), min(mp.mpf(near) * (1 + mp.mpf("1e-9")), 1 - mp.mpf(2) ** -100)
    if near == 1 and is_feasible(high):
        return mp.mpf(1)
    assert is_feasible(low)
    assert not is_feasible(high)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if is_feasible(middle) else (low, middle)
    return low


def where_parallel(d, level):
    """The loss at which D + ln D' is the level, or the end that is nearest to it."""

    def at(u):  # from all real u to all losses, with digits to spare next to both ends
        return d.least + (1 - d.least) / (1 + mp.exp(-u))

    def excess(u):
        slope = d.slope(at(u))
        return d.value(at(u)) + mp.log(slope) - level if slope > 0 else mp.mpf(-1e6)

    return at(root(excess, mp.mpf(-100), mp.mpf(50)))


def largest_loss(rho, ds, delta, prior):
    """A value of rho . L in the constraint set that is its maximum to some 14 digits, and never above.

    Roots of monotone functions say where the gradients are parallel; from there, all losses are lowered in proportion
    until the constraint is met, exactly. What is lost is of second order.
    """
    total = mp.fsum(map(mp.mpf, rho))
    weights = [mp.mpf(r) / total for r in rho]

    def point(log_nu):
        return [
            where_parallel(d, mp.log(r) - mp.log(mp.mpf(p)) - log_nu) if r > 0 and d.least < 1 else d.least
            for r, d, p in zip(weights, ds, prior, strict=True)
        ]

    def left(log_nu):
        return -mp.log(constraint(ds, prior, point(log_nu))) - mp.log(mp.mpf(delta))

    with mp.workdps(30):
        log_delta = mp.log(mp.mpf(delta))
        found = point(root(left, log_delta - 80, log_delta + 100))

    def is_feasible(share):
        return constraint(ds, prior, scaled(share)) * mp.mpf(delta) <= 1

    def scaled(share):
        return [d.least + share * (x - d.least) for d, x in zip(ds, found, strict=True)]

    least, most = (mp.mpf(1), mp.mpf(1)) if is_feasible(1) else (mp.mpf(0), mp.mpf(1))
    for _ in range(60 if least < most else 0):
        middle = (least + most) / 2
        least, most = (middle, most) if is_feasible(middle) else (least, middle)
    return mp.fsum(r * x for r, x in zip(weights, scaled(least), strict=True))


def root(function, low, high):
    """Where an increasing function is zero, to ten digits, or the end of the interval that is nearest to it."""
    if function(low) >= 0:
        return low
    if function(high) <= 0:
        return high
    for _ in range(12):  # bracketing methods that go faster begin slowly where exponentials are far from lines
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return mp.findroot(function, (low, high), solver="anderson", tol=mp.mpf(10) ** -20, maxsteps=60, verify=False)
