"""The formulas once more, in mpmath: slow, naive, and with digits to spare."""

import mpmath as mp


def kl(p, q):
    p, q = mp.mpf(p), mp.mpf(q)
    total = mp.mpf(0)
    if p > 0:
        total += p * mp.log(p / q) if q > 0 else mp.inf
    if p < 1:
        total += (1 - p) * mp.log((1 - p) / (1 - q)) if q < 1 else mp.inf
    return total


def kl_inverse_upper(p, c):
    """Bisection, to the working precision."""
    low, high = mp.mpf(p), mp.mpf(1)
    for _ in range(int(mp.mp.prec) + 10):
        middle = (low + high) / 2
        if kl(p, middle) > c:
            high = middle
        else:
            low = middle
    return high


def confidence_term(n, delta):
    return mp.log(2 * mp.sqrt(mp.mpf(n)) / mp.mpf(delta))


def kl_to_prior(rho, prior):
    """KL(rho || prior) for rho normalised exactly."""
    total = mp.fsum(map(mp.mpf, rho))
    return mp.fsum(
        mp.mpf(r) / total * mp.log(mp.mpf(r) / total / mp.mpf(p)) for r, p in zip(rho, prior, strict=True) if r > 0
    )


def expected_loss(rho, losses):
    total = mp.fsum(map(mp.mpf, rho))
    return mp.fsum(mp.mpf(r) * mp.mpf(x) for r, x in zip(rho, losses, strict=True)) / total


def normalised(log_prior):
    """Probabilities, to the working precision, from log-probabilities of any size."""
    top = max(mp.mpf(float(x)) for x in log_prior)
    weights = [mp.exp(mp.mpf(float(x)) - top) for x in log_prior]
    return [w / mp.fsum(weights) for w in weights]


def gibbs_moments(losses, t, log_prior):
    """Mean and variance of the losses under the Gibbs posterior at inverse temperature t, and its KL to the prior."""
    t, losses = mp.mpf(float(t)), [mp.mpf(float(x)) for x in losses]
    least = min(x for x, p in zip(losses, log_prior, strict=True) if p > -mp.inf)
    top = max(mp.mpf(float(p)) for p in log_prior)
    norm = top + mp.log(mp.fsum(mp.exp(mp.mpf(float(p)) - top) for p in log_prior))
    exponents = [mp.mpf(float(p)) - norm - t * (x - least) for x, p in zip(losses, log_prior, strict=True)]
    top = max(exponents)
    weights = [mp.exp(e - top) for e in exponents]
    z = mp.fsum(weights)
    excess = mp.fsum(w * (x - least) for x, w in zip(losses, weights, strict=True)) / z
    var = mp.fsum(w * (x - least - excess) ** 2 for x, w in zip(losses, weights, strict=True)) / z
    return least + excess, var, -top - mp.log(z) - t * excess


def lambda_bound(losses, lam, n, delta, prior):
    """F(lambda), from its definition."""
    lam = mp.mpf(lam)
    z = mp.fsum(mp.mpf(p) * mp.exp(-n * lam * mp.mpf(x)) for x, p in zip(losses, prior, strict=True))
    return (-mp.log(z) + confidence_term(n, delta)) / (n * lam * (1 - lam / 2))
