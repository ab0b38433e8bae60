"""The dual bound once more, in mpmath: slow, naive, and with digits to spare."""

from functools import cache

import mp_oracle
import mpmath as mp
from test_xi import by_ramanujans_sum


@cache
def log_xi(n):
    if n <= 10**7:
        return mp.log(by_ramanujans_sum(int(n), bits=200))
    # Ramanujan's formula, which is off by less than 1e-20 here.
    x = mp.mpf(n)
    half = mp.sqrt(mp.pi * x / 2) * mp.exp(1 / (12 * x) - 1 / (360 * x**3))
    return mp.log(mp.mpf(2) / 3 + half - mp.mpf(4) / (135 * (x + mp.mpf(2) / 21)))


class Kl:
    """D(L) = n kl(p || L) - ln xi(n)."""

    def __init__(self, p, n):
        self.p, self.n = mp.mpf(p), mp.mpf(n)

    def value(self, loss):
        return self.n * mp_oracle.kl(self.p, loss) - log_xi(self.n)

    def slope(self, loss):
        return self.n * (loss - self.p) / (loss * (1 - loss))


class Mixture:
    """D(L) = ln sum_k q_k exp(-n ln(1 - a_k L) - n c_k p), with 1 - a_k = exp(-c_k); q is 0.02 where a is 0."""

    def __init__(self, p, n, a):
        self.p, self.n, self.a = mp.mpf(p), mp.mpf(n), [mp.mpf(x) for x in a]
        share = mp.mpf(0.02)
        q = [share if x == 0 else (1 - share) / (len(a) - 1) for x in self.a]
        # What does not depend on the loss is computed once: a search asks for the terms of a hundred losses.
        self._factors = [weight * (1 - x) ** (self.n * self.p) for weight, x in zip(q, self.a, strict=True)]

    def _terms(self, loss):
        exponent = -int(self.n)
        return [factor * (1 - a * loss) ** exponent for factor, a in zip(self._factors, self.a, strict=True)]

    def value(self, loss):
        return mp.log(mp.fsum(self._terms(loss)))

    def slope(self, loss):
        terms = self._terms(loss)
        slopes = [self.n * a / (1 - a * loss) for a in self.a]
        return mp.fsum(t * s for t, s in zip(terms, slopes, strict=True)) / mp.fsum(terms)


def maximizer(d, beta):
    """Where the convex D has the slope beta on [0, 1], by bisection to 30 digits: good enough at a maximum."""
    low, high = mp.mpf(0), mp.mpf(1)
    for _ in range(100):
        middle = (low + high) / 2
        if d.slope(middle) > beta:
            high = middle
        else:
            low = middle
    return low if low > 0 else high


def conjugate(d, beta):
    """max over L of beta L - D(L)."""
    beta = mp.mpf(beta)
    # Bisection comes close to the ends only: they are tried as well.
    at = [maximizer(d, beta), *(end for end in (mp.mpf(0), mp.mpf(1)) if mp.isfinite(d.value(end)))]
    return max(beta * loss - d.value(loss) for loss in at)


def dual_bound(ds, mu, delta, prior):
    """F(mu), from its definition."""
    mu = mp.mpf(mu)
    total = mp.fsum(mp.mpf(p) * mp.exp(-conjugate(d, 1 / mu)) for d, p in zip(ds, prior, strict=True))
    return mu * (-mp.log(mp.mpf(delta)) - mp.log(total))


def bound_of(rho, ds, mu, delta, prior):
    """The right-hand side for a posterior, normalised exactly, at one mu."""
    mu, total = mp.mpf(mu), mp.fsum(map(mp.mpf, rho))
    mean = mp.fsum(mp.mpf(r) * conjugate(d, 1 / mu) for r, d in zip(rho, ds, strict=True) if r > 0) / total
    return mu * (mean + mp_oracle.kl_to_prior(rho, prior) - mp.log(mp.mpf(delta)))


def smallest_bound_of(rho, ds, delta, prior):
    """The right-hand side at its best mu, which is convex in mu: bisection on the sign of its derivative."""
    total = mp.fsum(map(mp.mpf, rho))
    low, high = mp.mpf(-40), mp.mpf(80)  # ln(beta)
    for _ in range(55):
        middle = (low + high) / 2
        beta = mp.exp(middle)
        mean = mp.fsum(mp.mpf(r) * maximizer(d, beta) for r, d in zip(rho, ds, strict=True) if r > 0) / total
        if mean < bound_of(rho, ds, 1 / beta, delta, prior):
            low = middle
        else:
            high = middle
    return bound_of(rho, ds, mp.exp(-low), delta, prior)
