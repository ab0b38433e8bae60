"""What is to be predicted: how the target is encoded, and by which losses predictions are judged."""

from pacbayes.tasks._losses import ZERO_ONE, Loss, describe_loss, is_of_probabilities, largest_cost, resolve_loss

__all__ = ["ZERO_ONE", "Loss", "describe_loss", "is_of_probabilities", "largest_cost", "resolve_loss"]
