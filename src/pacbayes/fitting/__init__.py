"""From rows and a target to votes with their certificates: training, racing, weighing and testing."""

from pacbayes.fitting._blocks import SourceSample
from pacbayes.fitting._ensemble import Ensemble, VotePlan, count_labels, out_of_bag_rows, tabulate_classes
from pacbayes.fitting._parallel import beside, chunks, count_threads, count_workers, rows_per_block, run_tasks
from pacbayes.fitting._racing import DropRule
from pacbayes.fitting._stream import Stream, open_stream
from pacbayes.fitting._training import Trained, Trainer
from pacbayes.fitting._verification import expect, expect_classes, verify_losses, verify_splits, verify_test
from pacbayes.fitting._voting import VotingBlocks, predict_codes, tally_votes
from pacbayes.fitting._workers import Workers

__all__ = [
    "DropRule",
    "Ensemble",
    "SourceSample",
    "Stream",
    "Trained",
    "Trainer",
    "VotePlan",
    "VotingBlocks",
    "Workers",
    "beside",
    "chunks",
    "count_labels",
    "count_threads",
    "count_workers",
    "expect",
    "expect_classes",
    "open_stream",
    "out_of_bag_rows",
    "predict_codes",
    "rows_per_block",
    "run_tasks",
    "tabulate_classes",
    "tally_votes",
    "verify_losses",
    "verify_splits",
    "verify_test",
]
