"""Model files of format 5, which hold a classifier with all of its attributes instead of what its fit came to."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pacbayes.fitting import FitSettings, FittedVotes, Vote
from pacbayes.tasks import Classification


class PACBayesClassifier:
    """The attributes of a classifier."""


class Ensemble:
    """The attributes of a vote."""


TYPES: tuple[type, ...] = (PACBayesClassifier, Ensemble)


def read_classifier(model: Any) -> FittedVotes:
    """Return what the fit of a classifier came to."""
    found = vars(model)
    task = Classification(found["classes_"])
    settings = FitSettings(**{field.name: found[field.name] for field in fields(FitSettings) if field.name in found})
    return FittedVotes(
        votes=tuple(Vote(task=task, **vars(vote)) for vote in found["votes_"]),
        winner=found["_winner"],
        entropy=found["_entropy"],
        task=task,
        settings=settings,
        training_rows=found["_training_rows"],
        code_book=found["_code_book"],
        n_features=found["n_features_in_"],
        feature_names=found.get("feature_names_in_"),
    )
