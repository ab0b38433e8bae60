"""Certificates: what was proved about a classifier, with what was assumed, in words, in files, and verified."""

from pacbayes.certificate._assumptions import FIT_ASSUMPTIONS
from pacbayes.certificate._certificate import Certificate
from pacbayes.certificate._certify import certify, choose_voters, with_test, with_unlabelled
from pacbayes.certificate._derivation import Objective, Voting, validate_settings
from pacbayes.certificate._statements import METHODS, Event, Method, Statement
from pacbayes.certificate._words import Row

__all__ = [
    "FIT_ASSUMPTIONS",
    "METHODS",
    "Certificate",
    "Event",
    "Method",
    "Objective",
    "Row",
    "Statement",
    "Voting",
    "certify",
    "choose_voters",
    "validate_settings",
    "with_test",
    "with_unlabelled",
]
