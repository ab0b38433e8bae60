"""How shares of a vote become probabilities, learned from rows that the voters were not trained on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pacbayes._validation import Array
from pacbayes.certificate import Calibration

# Exponents and shares of the uniform distribution to choose from. They are few enough that rounding in the shares,
# which depends on blocks and machines, does not change the choice.
_POWERS = 2.0 ** (np.arange(-8, 13) / 4)
_MIXINGS = np.geomspace(1e-4, 0.5, 16)

# Rows below which shares are left as they are.
_LEAST_ROWS = 20

# How many rows the penalties count like, which keep exponents near 1 and the uniform distribution away from 0 and 1.
_PENALTY_POWER, _PENALTY_MIXING = 1.0, 0.3


def calibrate(tallies: Array, codes: NDArray[np.intp]) -> Calibration | None:
    """Return the calibration with the smallest log-loss on rows, given weights that voters gave to each class there.

    On each row, only those voted that were not trained on it: the more weight they have, the more their shares are like
    those of all voters, and the more the row counts. None if there are too few rows.
    """
    mass = tallies.sum(axis=1)
    voted = mass > 0
    tallies, codes, mass = tallies[voted], codes[voted], mass[voted]
    # As many rows of equal weight would say as much [Kish 1965].
    n_effective = mass.sum() ** 2 / max(float((mass**2).sum()), np.finfo(np.float64).tiny)
    if n_effective < _LEAST_ROWS:
        return None
    weights, shares, n_classes = mass / mass.sum(), tallies / mass[:, np.newaxis], tallies.shape[1]
    own, best, chosen = shares[np.arange(codes.size), codes], np.inf, None
    penalties = _PENALTY_MIXING * (np.log(_MIXINGS) + np.log1p(-_MIXINGS)) / n_effective
    for power in _POWERS:
        of_class = own**power / (shares**power).sum(axis=1)
        mixed = np.multiply.outer(1 - _MIXINGS, of_class) + _MIXINGS[:, np.newaxis] / n_classes
        losses = -np.log(mixed) @ weights - penalties + _PENALTY_POWER * np.log(power) ** 2 / n_effective
        k = int(np.argmin(losses))
        if losses[k] < best:
            best, chosen = losses[k], Calibration(float(power), float(_MIXINGS[k]), int(codes.size))
    return chosen
