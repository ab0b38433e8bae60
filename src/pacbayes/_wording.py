"""Certificates in words and digits. What is written never says more than what is proved."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pacbayes.certificate import Certificate


def rounded_up(value: float, digits: int = 4) -> str:
    """A number with so many decimals, rounded up: a bound is never shown below its value.

    Examples
    --------
    >>> rounded_up(0.09381), rounded_up(0.25), rounded_up(1e-9)
    ('0.0939', '0.2500', '0.0001')
    """
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING)) if math.isfinite(value) else "∞"


def percent_up(value: float) -> str:
    """A share in per cent, rounded up.

    Examples
    --------
    >>> percent_up(0.09381)
    '9.39%'
    """
    # The decimal point moves after rounding: as a float, 100 times the value might fall below it.
    return f"{Decimal(rounded_up(value)).scaleb(2)}%"


def confidence(delta: float) -> str:
    """1 - delta, to the last digit, as far as that is readable.

    Examples
    --------
    >>> confidence(0.05), confidence(0.3), confidence(1e-30)
    ('0.95', '0.7', '1 - 1e-30')
    """
    digits = str(1 - Decimal(str(delta)))
    return digits if delta >= 1e-12 and len(digits) <= 14 else f"1 - {delta}"


def what_is_proved(certificate: Certificate) -> str:
    r"""What a certificate proves, in one plain sentence.

    Parameters
    ----------
    certificate : Certificate
        The certificate.

    Returns
    -------
    str
        The sentence, with the bounds on the vote and on the randomised classifier, and delta.

    Examples
    --------
    >>> from pacbayes import certify
    >>> certificate, _ = certify([0.10, 0.12, 0.15, 0.30, 0.45], n=500)
    >>> print(what_is_proved(certificate).replace(", the", ",\nthe").replace(", and", ",\nand"))
    With probability at least 0.95 over the draw of the sample (delta = 0.05),
    the majority vote errs on at most 32.76% of new points from the same distribution,
    and the randomised classifier on at most 16.38%.
    """
    bound, vote_bound = certificate.gibbs_bound, certificate.vote_bound
    if bound >= 1:
        return (
            f"Nothing is proved: the bound on the randomised classifier is {rounded_up(bound)} (delta = "
            f"{certificate.delta}), and so is that on the majority vote. More data would help, or a base learner that "
            "errs less."
        )
    start = (
        f"With probability at least {confidence(certificate.delta)} over the draw of the sample (delta = "
        f"{certificate.delta}),"
    )
    if not certificate.strict:
        start = f"The theorem does not cover this fit. If it did: {start[0].lower()}{start[1:]}"
    if certificate.loss != "zero_one":
        return (
            f"{start} the {certificate.loss} loss of the randomised classifier on new points from the same "
            f"distribution is at most {rounded_up(bound)}; about the majority vote nothing is proved, since its bound "
            "is for the zero-one loss only."
        )
    if certificate.voting == "best":
        return (
            f"{start} the hypothesis with the smallest validation loss, which has all the weight and so is the "
            f"majority vote and the randomised classifier alike, errs on at most {percent_up(bound)} of new points "
            "from the same distribution."
        )
    if vote_bound >= 1:
        return (
            f"{start} the randomised classifier errs on at most {percent_up(bound)} of new points from the same "
            "distribution; about the majority vote nothing is proved, since twice as much is 1 or more."
        )
    return (
        f"{start} the majority vote errs on at most {percent_up(vote_bound)} of new points from the same distribution, "
        f"and the randomised classifier on at most {percent_up(bound)}."
    )
