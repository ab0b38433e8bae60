"""From rows and a target to votes with their certificates: training, racing, weighing and testing.

`fit_votes` is a function of its arguments, and `FittedVotes` a value: estimators turn their settings into the one and
show the parts of the other.
"""

from pacbayes.fitting._evaluation import evaluate_on_rows, importance_score, predict_rows
from pacbayes.fitting._fit import fit_votes
from pacbayes.fitting._groups import Groups
from pacbayes.fitting._rows import MemoryRows, SampleRows, open_source_rows
from pacbayes.fitting._verification import verify_certificate
from pacbayes.fitting._votes import FitSettings, FittedVotes, Vote
from pacbayes.fitting._weighting import Weighting
from pacbayes.fitting._workers import Workers

__all__ = [
    "FitSettings",
    "FittedVotes",
    "Groups",
    "MemoryRows",
    "SampleRows",
    "Vote",
    "Weighting",
    "Workers",
    "evaluate_on_rows",
    "fit_votes",
    "importance_score",
    "open_source_rows",
    "predict_rows",
    "verify_certificate",
]
