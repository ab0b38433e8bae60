"""What the minimisers of bounds return."""

from __future__ import annotations

from dataclasses import dataclass, field

from pacbayes._validation import Array

# What rounding may take from `lower` beyond the tolerance that was asked for, relative to the bound.
_GAP_SLACK = 1e-12


@dataclass(frozen=True, kw_only=True)
class MinimizerResult:
    """What every minimiser returns; `PosteriorResult` says what the fields are."""

    rho: Array = field(repr=False)
    fun: float
    loss: float
    kl_div: float
    lower: float | None
    nit: int
    nfev: int
    status: int
    message: str
    history: Array = field(repr=False)
    lam: float | None = None

    @property
    def success(self) -> bool:
        """Whether `status` is 0."""
        return self.status == 0

    @property
    def converged(self) -> bool:
        """Alias of `success`."""
        return self.success


def is_proved(fun: float, lower: float, rtol: float) -> bool:
    """Whether `lower` is as close to `fun` as asked."""
    return fun - lower <= (rtol + _GAP_SLACK) * fun
