"""What the commands ask of a fitted model that it does not offer by public names yet: all of it is here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from pacbayes.classifier import PACBayesClassifier
    from pacbayes.rows import RowSummary


def add_assumption(model: PACBayesClassifier, code: str) -> None:
    """State an assumption in the certificates of all votes of a model: `model.add_assumption(code)`."""
    certificates = [vote.certificate for vote in model.votes_]
    stated = [one.revise(assumption_codes=(*one.assumption_codes, code)) for one in certificates]
    votes = [replace(vote, certificate=one) for vote, one in zip(model.votes_, stated, strict=True)]
    model._adopt(votes, model._winner)


@dataclass(frozen=True)
class ValidatedRows:
    """Rows of a table that a model has validated once, for whatever is then asked about them."""

    model: PACBayesClassifier
    X: pd.DataFrame
    points: Any  # as the hypotheses take them

    @classmethod
    def of(cls, model: PACBayesClassifier, X: pd.DataFrame) -> ValidatedRows:
        """Validate rows."""
        return cls(model, X, model._validate_points(X))

    def predict(self) -> tuple[Any, Any]:
        """Return labels, and the share of the vote of each class."""
        codes, _ = self.model._predict_codes(self.points)
        return self.model.classes_[codes], self.model._share_votes(self.points)

    def unknown_columns(self) -> list[str]:
        """Return the columns of categories of which the model knows no value."""
        book = self.model._code_book
        return [] if book is None else book.find_strange_columns(self.X)

    def summarize(self, first: int) -> RowSummary:
        """Summarise the rows, the first of which is row number `first`, for `count_seen`."""
        from pacbayes.rows import RowSummary

        return RowSummary.of(self.points, first, self.model._training_rows.shift)


def count_seen(model: PACBayesClassifier, summaries: list[RowSummary]) -> int:
    """Count rows that a model was trained on, from summaries of all parts."""
    from pacbayes.rows import RowSummary

    return model._training_rows.count_in_summary(RowSummary.join(summaries))
