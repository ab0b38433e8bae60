"""Certificates: what was proved about a classifier, with what was assumed, in words, in files, and verified."""

from pacbayes.certificate._assumptions import FIT_ASSUMPTIONS
from pacbayes.certificate._certificate import Certificate, Objective, Voting, certify, validate_settings
from pacbayes.certificate._statements import METHODS, Method, Statement
from pacbayes.certificate._words import Row

__all__ = [
    "FIT_ASSUMPTIONS",
    "METHODS",
    "Certificate",
    "Method",
    "Objective",
    "Row",
    "Statement",
    "Voting",
    "certify",
    "validate_settings",
]
