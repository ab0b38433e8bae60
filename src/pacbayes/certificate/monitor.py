"""A certificate that is watched as labels arrive, and an alarm if the error has risen above what was proved."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacbayes._formatting import (
    format_confidence,
    format_count,
    format_lower,
    format_names,
    format_percent,
    format_percent_upper,
    format_upper,
)
from pacbayes._json_fields import Length, dump_checked, load_checked, raising, read_object
from pacbayes._validation import count_missing, scalar, unit_interval
from pacbayes.bounds import anytime_lower, anytime_upper
from pacbayes.bounds.sequences import log_gains, refutes, stake_anew
from pacbayes.certificate import METHODS, Certificate, label_names, validate_delta
from pacbayes.certificate._statements import Count, Level, Unit, Whole
from pacbayes.exceptions import MonitorError

__all__ = ["Batch", "Monitor"]

_FIELD, _FORMAT = "pacbayes_monitor", 1
# Longer than the state of a million batches: what is larger is not read.
_MAX_CHARACTERS = 200_000_000
_MOST_BATCHES = 1_000_000
_LONGEST_NAME = 200

# Whole numbers that are kept as floats, and booleans, are the same labels as integers.
_WHOLE = re.compile(r"(-?\d+)\.0")
_BOOLEANS = {"False": "0", "True": "1"}


@dataclass(frozen=True)
class Batch:
    """Labels that arrived together.

    Attributes
    ----------
    name : str or None
        Name by which it is recognised if it comes again.
    n, errors : int
        Number of points, and how many of their predictions were wrong.
    """

    name: Annotated[str, Length(1, _LONGEST_NAME)] | None
    n: Count
    errors: Whole


@dataclass(frozen=True)
class _State:
    """What a file holds. All else follows from it, and is computed anew."""

    certificate: Mapping[str, Any]
    tolerance: Unit
    delta: Level
    batches: Annotated[tuple[Batch, ...], Length(0, _MOST_BATCHES)]


class Monitor:
    r"""Watch the error of a certified classifier as labels arrive, and raise an alarm if it has risen.

    As long as each point errs, given what came before, with a probability of at most the true error at certification
    plus `tolerance`, an alarm is ever raised with probability at most `delta`: however many points come, in whatever
    batches, and however often one looks. Nothing is asymptotic, and points need not be independent.

    Half of delta goes to the certificate: `reference` is its bound at delta / 2. The other half goes to the stream:
    bets that points err more often than `threshold` allows are fair at best as long as they do not, and by Ville's
    inequality their capital ever reaches 2 / delta with probability at most delta / 2. Half of the capital is staked on
    the first batch, the rest bit by bit on later ones, so that a rise after a long good time is found soon.

    Parameters
    ----------
    certificate : Certificate
        Certificate of the zero-one loss, as `PACBayesClassifier.certificate_` or from `PACBayesClassifier.certify`. One
        that rests on held-out points is computed anew at delta / 2. Any other is taken as it is, and must be strict and
        fail with probability at most delta / 2.
    tolerance : float, default=0.0
        By how much the error may rise without an alarm.
    delta : float, optional
        Probability of a false alarm, ever; by default the certificate's.

    Attributes
    ----------
    certificate, tolerance, delta
        As given.
    reference : float
        Upper bound on the error at certification, which holds with probability 1 - delta / 2.
    threshold : float
        The reference plus the tolerance, rounded up.
    n, errors : int
        Number of points so far, and of errors among them.
    alarm_at : int or None
        Number of points after which the alarm was raised; None if it was not.

    Notes
    -----
    The result depends on the number of points and errors in each batch, not on the order of points in it. An alarm
    stays: what was proved once is not taken back. To begin again, make a new monitor.

    Points must come as they are: a batch must not be left out, or moved, for what its labels are, and a point that is
    counted twice is no evidence the second time.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import Monitor, PACBayesClassifier
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = PACBayesClassifier(n_hypotheses=40, random_state=0).fit(X, y)
    >>> monitor = Monitor(model.certificate_, tolerance=0.02)
    >>> X_new, y_new = make_moons(500, noise=0.1, random_state=1)
    >>> monitor.update(y_new, model.predict(X_new)).alarm
    False
    >>> X_new, y_new = make_moons(500, noise=0.4, random_state=2)
    >>> monitor.update(y_new, model.predict(X_new)).alarm
    True
    """

    def __init__(self, certificate: Certificate, tolerance: float = 0.0, delta: float | None = None) -> None:
        if not isinstance(certificate, Certificate):
            raise TypeError(f"certificate must be a Certificate, got {type(certificate).__name__}")
        certificate.check()
        self.certificate = certificate
        self.tolerance = scalar("tolerance", unit_interval("tolerance", tolerance))
        self.delta = validate_delta(certificate.delta if delta is None else delta, 4)
        self.reference = _reference(certificate, self.delta / 2)
        self.threshold = float(np.nextafter(self.reference + self.tolerance, 2))
        if self.threshold >= 1:
            stated = f"the certificate's bound of {format_upper(self.reference)} and a tolerance of {self.tolerance:g}"
            raise ValueError(f"{stated} allow any error: there is nothing to watch")
        self._batches: list[Batch] = []
        self.n = self.errors = 0
        self.alarm_at: int | None = None
        self._log_capital: Any = -np.inf

    def update(
        self,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        batch: str | None = None,
        unknown: Literal["refuse", "error"] = "refuse",
    ) -> Monitor:
        """Count the errors of predictions whose labels have arrived, and return this monitor.

        Nothing is counted if anything is wrong with the arguments.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        y_pred : array-like of shape (n,)
            What `predict` said about the same points, in the same order.
        batch : str, optional
            A name for the batch, such as a date. One that was counted before is refused, so that a job that is started
            twice counts once.
        unknown : {"refuse", "error"}, default="refuse"
            What to do about labels that the certificate does not know: refuse the batch, or count them as errors, as
            `PACBayesClassifier.certify` does.
        """
        if unknown not in ("refuse", "error"):
            raise ValueError(f"unknown must be 'refuse' or 'error', got {unknown!r}")
        if batch is not None and not (isinstance(batch, str) and 0 < len(batch) <= _LONGEST_NAME):
            raise ValueError(f"batch must be text of 1 to {_LONGEST_NAME} characters, got {batch!r}")
        if self.has_counted(batch):
            raise ValueError(f"the batch {batch!r} was counted before: nothing is counted twice")
        known = {_plain(label) for label in self.certificate.labels}
        # Labels such as "1" and "1.0" may be different classes, if both are text.
        plain = len(known) == len(self.certificate.labels)
        known = known if plain else set(self.certificate.labels)
        true, predicted = (_name_labels(name, y, plain) for name, y in (("y_true", y_true), ("y_pred", y_pred)))
        if true.size != predicted.size:
            raise ValueError(f"y_true and y_pred must be of one length, got {true.size} and {predicted.size}")
        if true.size == 0:
            raise ValueError("y_true must hold at least one label, got none")
        for name, labels in (("y_pred", predicted), ("y_true", true)):
            strange = [label for label in np.unique(labels).tolist() if label not in known]
            if known and strange and (name == "y_pred" or unknown == "refuse"):
                raise ValueError(
                    f"{name} must hold labels of the certificate, {format_names(self.certificate.labels)}, got "
                    f"{format_names(strange)}"
                )
        self._count((Batch(batch, true.size, int(np.count_nonzero(true != predicted))),))
        return self

    def has_counted(self, batch: str | None) -> bool:
        """Return whether a batch of this name was counted; no batch has the name None."""
        return batch is not None and any(batch == counted.name for counted in self._batches)

    def _count(self, batches: tuple[Batch, ...]) -> None:
        """Count batches, and see after each whether the bets have won enough."""
        errors, n = np.array([(one.errors, one.n) for one in batches], dtype=np.float64).reshape(-1, 2).T
        for i, gains in enumerate(log_gains(errors, n, self.threshold)):
            self._batches.append(batches[i])
            self._log_capital = stake_anew(self._log_capital, len(self._batches), gains)
            self.n, self.errors = self.n + batches[i].n, self.errors + batches[i].errors
            if self.alarm_at is None and refutes(self._log_capital, self.delta / 2):
                self.alarm_at = self.n

    @property
    def batches(self) -> tuple[Batch, ...]:
        """What was counted, in order."""
        return tuple(self._batches)

    @property
    def alarm(self) -> bool:
        """Whether it is proved that the error has risen above the threshold, at some time."""
        return self.alarm_at is not None

    @property
    def interval(self) -> tuple[float, float]:
        """Limits of the mean error of all points so far: they hold at all times at once with probability 1 - delta / 2.

        An alarm is raised if the lower one is above the threshold, and often before: it can see the last batches alone.
        """
        if self.n == 0:
            return 0.0, 1.0
        level = self.delta / 4
        return anytime_lower(self.errors, self.n, level), anytime_upper(self.errors, self.n, level)

    # -- in words, and in files ----------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"Monitor(n={self.n}, errors={self.errors}, threshold={self.threshold:.4g}, alarm={self.alarm})"

    def __str__(self) -> str:
        allowed = f", with a tolerance of {self.tolerance:g}" if self.tolerance else ""
        lines = [f"Watched: a certified error of at most {format_percent_upper(self.reference)}{allowed}"]
        if self.n:
            low, high = self.interval
            batches = "1 batch" if len(self._batches) == 1 else f"{len(self._batches)} batches"
            lines += [
                f"Counted: {format_count(self.errors, 'error')} in {format_count(self.n, 'point')} "
                f"({format_percent(self.errors / self.n)}), in {batches}",
                f"Their mean error lies between {format_lower(low)} and {format_upper(high)}, at all times at once "
                f"with probability {format_confidence(self.delta / 2)}",
            ]
        if self.alarm:
            above = f"the error has risen above {format_lower(self.threshold)}"
            lines.append(f"ALARM, after {format_count(self.alarm_at or 0, 'point')}: {above}")
        else:
            lines.append("No alarm")
        lines.append(f"The probability that a false alarm is ever raised is at most {self.delta:g}")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return the state as JSON text, from which `from_json` goes on. It holds the certificate, and no labels."""
        state = {
            "certificate": json.loads(self.certificate.to_json()),
            "tolerance": self.tolerance,
            "delta": self.delta,
            "batches": [asdict(one) for one in self._batches],
        }
        return dump_checked(_FIELD, _FORMAT, state)

    @classmethod
    def from_json(cls, text: str, certificate: Certificate | None = None) -> Monitor:
        """Go on from a state that `to_json` returned, about the given certificate if there is one.

        Alarm and interval are computed anew from the counts. MonitorError is raised if the text is no state, was
        changed, or watches another certificate. The checksum finds accidental edits: it is no signature.
        """
        with raising(MonitorError):
            values = load_checked(text, "state of a monitor", _FIELD, _FORMAT, longest=_MAX_CHARACTERS)
            state: _State = read_object(_State, values)
        try:
            monitor = cls(Certificate.from_json(json.dumps(state.certificate)), state.tolerance, state.delta)
        except ValueError as error:
            raise MonitorError(f"not a state of a monitor: {error}") from error
        if certificate is not None and monitor.certificate.to_json() != certificate.to_json():
            raise MonitorError("the state belongs to another certificate: a new one needs a new state")
        names = [one.name for one in state.batches if one.name is not None]
        if len(set(names)) < len(names) or any(one.errors > one.n for one in state.batches):
            raise MonitorError("not a state of a monitor: a batch is there twice, or has more errors than points")
        monitor._count(state.batches)
        return monitor


def _reference(certificate: Certificate, level: float) -> float:
    """Return what a certificate proves with probability 1 - level about what `predict` does."""
    if not certificate.is_zero_one:
        raise ValueError(f"a monitor counts errors, and the certificate is about the loss {certificate.loss!r}")
    if certificate.is_tested and certificate.is_covered:
        tested = certificate.statements[0]
        return METHODS[tested.method].compute(level, **tested.figures)
    needed = "certify the classifier by labelled points, certify(X, y), and watch that"
    if not certificate.strict:
        raise ValueError(f"the theorem does not cover the certificate, which is not strict: {needed}")
    if certificate.delta > level:
        raise ValueError(
            f"the certificate may fail with probability {certificate.delta:g}, and half of delta is {level:g}: give "
            f"delta={2 * certificate.delta:g}, or {needed}"
        )
    return certificate.bound


def _name_labels(name: str, labels: ArrayLike, plain: bool) -> NDArray[np.str_]:
    """Return labels as certificates name them."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    missing = count_missing(labels if hasattr(labels, "isna") else array)
    if missing or np.ma.is_masked(labels):
        raise ValueError(f"{name} must hold no missing labels, got {missing or 'some'} of {array.size}")
    values, codes = (array, ...) if array.dtype.kind == "O" else np.unique(array, return_inverse=True)
    names = label_names(values)
    return np.array([_plain(one) for one in names] if plain else names, dtype=np.str_)[codes]


def _plain(label: str) -> str:
    """Return the name of a label that others with the same value have, too."""
    whole = _WHOLE.fullmatch(label)
    return _BOOLEANS.get(label, label) if whole is None else whole[1]
