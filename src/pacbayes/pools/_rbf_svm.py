"""The hypothesis space of the paper: small RBF-kernel SVMs, thousands of them at once.

Training is LIBSVM's, on kernel matrices that fit the cache. The compiled part is in `engine/`; threads drive it, since
it releases the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from pacbayes._validation import Array
from pacbayes.exceptions import HypothesisError
from pacbayes.losses import Loss
from pacbayes.pools import _engine
from pacbayes.pools._base import Codes, Pool, Sample
from pacbayes.pools._kernel_width import GAMMA_GRID, Scaling, feature_scale, jaakkola_gamma
from pacbayes.pools._layout import LARGEST_VALUE, is_wide, to_engine
from pacbayes.pools._svm_models import RBFSVMs, scaled
from pacbayes.sampling import LEARNER, Subsamples, draw_positions, resolve_size, split_reserved
from pacbayes.settings import Choice, Constraint, Number, validate_settings

# LIBSVM's stopping rule, as in SVC.
_TOLERANCE = 1e-3
_MAX_ITERATIONS = 100_000_000

_RESERVED_SHARE = 0.1


@dataclass(frozen=True)
class _Shared:
    """What all hypotheses have in common.

    Attributes
    ----------
    seed : float
        Seed of the kernel width; NaN if each hypothesis computes its own, from its subsample.
    scale : ndarray of shape (d,) or None
        Factors of the features; None if there is no scaling, or each hypothesis has its own.
    """

    seed: float = float("nan")
    scale: Array | None = None


class RBFSVMPool(Pool):
    """RBF-SVMs with a kernel width drawn from a grid around Jaakkola's seed, and a soft margin drawn from a list.

    Parameters
    ----------
    C : float or sequence of float, default=(10.0, 100.0, 1000.0)
        Soft-margin parameter, or several to draw from at random. All of these separate a small subsample, which is all
        the paper asks for; on larger subsamples they begin to differ.
    scaler : {"minmax", "standard"} or None, default=None
        Scaling of the features.
    gamma_source : {"subsample", "reserved", "sample"}, default="subsample"
        Where hypotheses take the seed of their kernel width and their scaling from: each from its own subsample;
        from reserved points, used for nothing else; or, as in the paper, from the whole sample, validation points
        included, for which the theorem is not proved and the certificate not strict.
    reserved_size : int or float, optional
        Number or fraction of points to reserve, for ``gamma_source="reserved"`` only; a tenth by default.
    engine : {"auto", "cpu"}, default="auto"
        Where to compute.
    on_error : {"raise", "drop"}, default="raise"
        What to do with a hypothesis whose optimisation does not end: raise, or count its loss as 1.
    working_memory : float, default=256
        MiB that each worker may take for the votes of a block of rows, in training and in prediction. The kernel
        matrix of a subsample of r points, 12 r^2 bytes, comes on top.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.pools import RBFSVMPool
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> pool = RBFSVMPool(C=100.0, scaler="standard")
    >>> model = PACBayesClassifier(pool, n_hypotheses=50, random_state=0).fit(X, y)
    >>> model.hypotheses_[0].C, model.hypotheses_[0].predict(X).shape
    (100.0, (500,))
    """

    shares_rows = True

    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {
        "scaler": Choice(None, "minmax", "standard"),
        "gamma_source": Choice("subsample", "reserved", "sample"),
        "engine": Choice("auto", "cpu"),
        "on_error": Choice("raise", "drop"),
        "working_memory": Number(0, np.inf),
    }

    def __init__(
        self,
        *,
        C: float | Sequence[float] = (10.0, 100.0, 1000.0),
        scaler: Scaling | None = None,
        gamma_source: Literal["subsample", "reserved", "sample"] = "subsample",
        reserved_size: int | float | None = None,
        engine: Literal["auto", "cpu"] = "auto",
        on_error: Literal["raise", "drop"] = "raise",
        working_memory: float = 256.0,
    ) -> None:
        self.C = C
        self.scaler = scaler
        self.gamma_source = gamma_source
        self.reserved_size = reserved_size
        self.engine = engine
        self.on_error = on_error
        self.working_memory = working_memory

    # -- what only the pool knows --------------------------------------------------------------------

    def check_settings(self) -> None:
        validate_settings(self, self._CONSTRAINTS)
        if self.reserved_size is not None and self.gamma_source != "reserved":
            raise ValueError(
                f"reserved_size must be None unless gamma_source is 'reserved', got {self.reserved_size!r} with "
                f"gamma_source={self.gamma_source!r}"
            )
        self._soft_margins()

    def _soft_margins(self) -> Array:
        """Return the values of C to draw from."""
        try:
            margins = np.atleast_1d(np.asarray(self.C, dtype=np.float64))
        except (TypeError, ValueError):
            margins = np.empty(0)
        if not (margins.ndim == 1 and margins.size and np.all((margins > 0) & (margins < np.inf))):
            raise ValueError(f"C must be one or several positive, finite numbers, got {self.C!r}")
        return margins

    @property
    def is_strict(self) -> bool:
        return self.gamma_source != "sample"

    def assumptions(self) -> list[str]:
        what = "kernel widths" if self.scaler is None else "kernel widths and scaling"
        return [
            {
                "subsample": f"{what} came from each subsample alone (by construction)",
                "reserved": f"{what} came from reserved points, used in no validation set (by construction)",
                "sample": f"{what} came from the whole sample, validation points included, as in the paper: "
                "the theorem does not cover this",
            }[self.gamma_source]
        ]

    def check_loss(self, loss: Loss) -> None:
        if loss.on_probabilities:
            raise HypothesisError(
                f"loss {loss.name!r} needs a base learner with predict_proba, and SVMs have none: give an `estimator`"
            )

    def check_classes(self, classes: NDArray[Any]) -> None:
        if len(classes) > 2**16:
            raise ValueError(f"RBFSVMPool takes at most {2**16} classes, got {len(classes)}: give an `estimator`")

    def validation_kwargs(self, X: Any) -> dict[str, Any]:
        return {"accept_sparse": "csr", "accept_large_sparse": False, "dtype": [np.float64, np.float32]}

    def check_points(self, X: Any) -> None:
        values = X.data if issparse(X) else X
        if values.size and max(-float(values.min()), float(values.max())) > LARGEST_VALUE:
            raise ValueError(
                f"X must hold numbers up to {LARGEST_VALUE:g}, since squared distances overflow: scale the features"
            )

    # -- training ------------------------------------------------------------------------------------

    def prepare(self, sample: Sample, entropy: int) -> tuple[Sample, _Shared]:
        if self.gamma_source == "sample":
            return sample, self._shared_by(sample)
        if self.gamma_source == "reserved":
            share = _RESERVED_SHARE if self.reserved_size is None else self.reserved_size
            reserved, rest = split_reserved(len(sample), resolve_size("reserved_size", share, len(sample)), entropy)
            return sample.take(rest), self._shared_by(sample.take(reserved))
        return sample, _Shared()

    def _shared_by(self, reference: Sample) -> _Shared:
        """Compute the seed and the scaling of all hypotheses from some points."""
        scale = None if self.scaler is None else feature_scale(reference.X, self.scaler)
        # Points of one class have no neighbour of another: any width will do, in the unit of the features.
        if (reference.codes == reference.codes[0]).all():
            return _Shared(1 / reference.X.shape[1], scale)
        return _Shared(jaakkola_gamma(scaled(reference.X, scale), reference.codes), scale)

    def train(
        self, sample: Sample, subsamples: Subsamples, hypotheses: range, entropy: int, shared: _Shared
    ) -> RBFSVMs:
        margins = self._soft_margins()
        drawn = draw_positions(entropy, hypotheses, LEARNER, [GAMMA_GRID.size, margins.size])
        multipliers, C = GAMMA_GRID[drawn[:, 0]], margins[drawn[:, 1]]
        sizes = subsamples.sizes[hypotheses.start : hypotheses.stop]
        rows = subsamples.concatenated(hypotheses)
        trained = self._train_rows(sample, rows, sizes, multipliers, C, shared)
        if self.on_error == "raise" and trained.failed.any():
            h = int(np.argmax(trained.failed))
            raise HypothesisError(
                f"hypothesis {hypotheses[h]} (seed {entropy}) did not reach the tolerance in {_MAX_ITERATIONS} "
                f"steps on its {sizes[h]} points, with C = {trained.C[h]:g} and gamma = {trained.gamma[h]:g}: a "
                "smaller C would help, or on_error='drop', which counts its loss as 1"
            )
        return trained

    def _train_rows(
        self,
        sample: Sample,
        rows: NDArray[np.int32],
        sizes: Codes,
        multipliers: Array,
        C: Array,
        shared: _Shared,
    ) -> RBFSVMs:
        X, codes, wide = sample.X, sample.codes, is_wide(sample.X)
        if shared.scale is None and isinstance(X, np.ndarray) and X.flags.c_contiguous and X.dtype.kind == "f":
            used = None  # as it is
        else:
            # The points of these subsamples only: they may be few, and converting takes time.
            used, positions = np.unique(rows, return_inverse=True)
            X, codes, rows = scaled(X[used], shared.scale), codes[used], positions.astype(np.int32)
        own_scaler = self.scaler if shared.scale is None else None
        result = _engine.train(
            to_engine(X, sparse=wide),
            codes.astype(np.int32),
            rows,
            sizes.astype(np.int64),
            shared.seed,
            multipliers,
            C,
            own_scaler,
            _TOLERANCE,
            _MAX_ITERATIONS,
        )
        if used is not None:
            result["support"] = used[result["support"]]
        scale: Any = None
        if own_scaler is not None:
            shape = (sizes.size, X.shape[1])
            factors = result["scale"]
            parts = (factors, result["scale_indices"], result["scale_indptr"])
            scale = csr_array(parts, shape=shape) if wide else factors.reshape(shape)
        return self._trained(result, sample, C, scale, shared)

    def _trained(
        self, result: dict[str, NDArray[Any]], sample: Sample, C: Array, scale: Any, shared: _Shared
    ) -> RBFSVMs:
        return RBFSVMs(
            classes=sample.classes,
            n_classes=result["n_classes"],
            class_codes=result["classes"],
            n_support=result["counts"],
            support=result["support"],
            dual_coef=result["coefficients"],
            intercept=result["intercepts"],
            gamma=result["gamma"],
            C=C,
            scale=scale,
            failed=result["converged"] == 0,
            shared_scale=shared.scale,
            working_memory=int(self.working_memory * 2**20),
            rows=np.empty(0, dtype=np.int32),
        )
