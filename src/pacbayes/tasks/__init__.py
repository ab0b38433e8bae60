"""What is to be predicted: how a target is encoded, answers are aggregated and predictions judged."""

from pacbayes._losses import Loss
from pacbayes.tasks._calibration import calibrate
from pacbayes.tasks._classification import Classification
from pacbayes.tasks._regression import Regression, read_numbers
from pacbayes.tasks._task import Task, find_outside
from pacbayes.tasks._voting import tally_out_of_bag

# All tasks.
TASKS: tuple[type[Task], ...] = (Classification, Regression)

__all__ = [
    "TASKS",
    "Classification",
    "Loss",
    "Regression",
    "Task",
    "calibrate",
    "find_outside",
    "read_numbers",
    "tally_out_of_bag",
]
