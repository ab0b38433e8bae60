"""Certificates: what was proved about a classifier, with what was assumed, in words, in files, and verified."""

from pacbayes.certificate._certificate import Certificate, FamilyWeight, Shift
from pacbayes.certificate._classes import (
    MOST_CLASSES,
    MOST_LABELS,
    ClassRates,
    Confusion,
    label_names,
    tabulate_predictions,
)
from pacbayes.certificate._derivation import certify, validate_delta
from pacbayes.certificate._groups import MOST_GROUPS, GroupCounts, GroupErrors, GroupRate
from pacbayes.certificate._numbers import ErrorShare, IntervalCounts, IntervalCoverage, NumberErrors, NumberTest
from pacbayes.certificate._objectives import OBJECTIVES, VOTINGS, Objective, Voting, resolve_objective
from pacbayes.certificate._points import (
    choose_voters,
    with_confusion,
    with_numbers,
    with_shares,
    with_test,
    with_unlabelled,
)
from pacbayes.certificate._probabilities import (
    Calibration,
    Probabilities,
    ProbabilityCounts,
    ReliabilityBin,
    tabulate_probabilities,
)
from pacbayes.certificate._rates import Rate
from pacbayes.certificate._statements import MAJORITY, MEAN, METHODS, Event, Statement
from pacbayes.certificate._thresholds import (
    Abstention,
    Coverage,
    DeclaredError,
    SetCounts,
    ThresholdCounts,
    plan_thresholds,
    tabulate_thresholds,
)
from pacbayes.certificate._words import Answer, ClassTable, RateTable, Row, Section, name_class, name_family
from pacbayes.certificate.assumptions import FIT_ASSUMPTIONS, describe_assumption

__all__ = [
    "FIT_ASSUMPTIONS",
    "MAJORITY",
    "MEAN",
    "METHODS",
    "MOST_CLASSES",
    "MOST_GROUPS",
    "MOST_LABELS",
    "OBJECTIVES",
    "VOTINGS",
    "Abstention",
    "Answer",
    "Calibration",
    "Certificate",
    "ClassRates",
    "ClassTable",
    "Confusion",
    "Coverage",
    "DeclaredError",
    "ErrorShare",
    "Event",
    "FamilyWeight",
    "GroupCounts",
    "GroupErrors",
    "GroupRate",
    "IntervalCounts",
    "IntervalCoverage",
    "NumberErrors",
    "NumberTest",
    "Objective",
    "Probabilities",
    "ProbabilityCounts",
    "Rate",
    "RateTable",
    "ReliabilityBin",
    "Row",
    "Section",
    "SetCounts",
    "Shift",
    "Statement",
    "ThresholdCounts",
    "Voting",
    "certify",
    "choose_voters",
    "describe_assumption",
    "label_names",
    "name_class",
    "name_family",
    "plan_thresholds",
    "resolve_objective",
    "tabulate_predictions",
    "tabulate_probabilities",
    "tabulate_thresholds",
    "validate_delta",
    "with_confusion",
    "with_numbers",
    "with_shares",
    "with_test",
    "with_unlabelled",
]
