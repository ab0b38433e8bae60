"""What pools of RBF kernels have in common: settings dealt to hypotheses, which are trained by scaler in the engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pacbayes import sampling
from pacbayes._settings import SAMPLING, Choice, Constraint, Number, Several, is_several
from pacbayes._validation import Array
from pacbayes.pools._base import Codes, Hypotheses, Numbers, Pool, Sample
from pacbayes.pools._groups import HypothesisGroups
from pacbayes.pools._kernel_models import KernelModels, compared
from pacbayes.pools._layout import check_magnitude, is_wide, scaled
from pacbayes.sampling import ChosenSubsamples, Subsamples

POSITIVE = Constraint("one or several positive, finite numbers", Several(Number(0, np.inf)).allows)

Scaling = Literal["minmax", "standard"]

Combination = tuple[float, float, Scaling | None]  # multiple of the kernel width, penalty and scaler


class KernelPool(Pool):
    """Hypotheses that are sums of RBF kernels, with a width and a penalty drawn from lists, and a scaler."""

    shares_rows = True
    takes_code_books = True

    gamma_grid: Sequence[float]
    scaler: Scaling | Sequence[Scaling | None] | None
    assignment: Literal["dealt", "drawn"]
    working_memory: float

    # The setting that is a penalty, or several to draw from.
    _PENALTY: ClassVar[str]
    _MODELS: ClassVar[type[KernelModels]]

    _CONSTRAINTS: ClassVar[dict[str, Constraint]] = {
        "scaler": Several(Choice(None, "minmax", "standard")),
        "gamma_grid": POSITIVE,
        "assignment": Choice("dealt", "drawn"),
        "on_error": Choice("raise", "drop"),
        "working_memory": Number(0, np.inf),
        **SAMPLING,
    }

    def _lists(self) -> list[list[Any]]:
        """Return what kernel widths, penalties and scalers are drawn from."""
        numbers = (self.gamma_grid, getattr(self, self._PENALTY))
        return [*(np.atleast_1d(np.asarray(one, dtype=float)).tolist() for one in numbers), self._scalers()]

    def _scalers(self) -> list[Any]:
        return list(self.scaler) if is_several(self.scaler) else [self.scaler]  # type: ignore[arg-type]

    def validation_kwargs(self, X: Any) -> dict[str, Any]:
        return {"accept_sparse": "csr", "accept_large_sparse": False, "dtype": [np.float64, np.float32]}

    def check_points(self, X: Any) -> None:
        check_magnitude(X)

    def prepare(self, sample: Sample, entropy: int) -> tuple[Sample, dict[Scaling | None, Any]]:
        return sample, dict.fromkeys(self._scalers())

    def kinds(self, subsamples: Subsamples, hypotheses: Numbers, entropy: int) -> NDArray[np.intp]:
        """Return the combination of each hypothesis, chosen without looking at the sample."""
        chosen = np.asarray(hypotheses, dtype=np.intp)
        everyone = range(int(chosen[0]), int(chosen[-1]) + 1)
        sizes = [len(options) for options in self._lists()]
        if self.assignment == "drawn":
            drawn = sampling.draw_positions(entropy, everyone, sampling.LEARNER, sizes)
            return np.asarray(np.ravel_multi_index(tuple(drawn[chosen - everyone.start].T), sizes))
        count = int(np.prod(sizes))
        size, turn = (part[chosen - everyone.start] for part in subsamples.rank_within_size(everyone))
        # A pack of all combinations for each size, shuffled anew when it is used up.
        packs, position = np.unique(size.astype(np.int64) << 32 | turn // count, return_inverse=True)
        dealt = sampling.permutations(entropy, packs, sampling.DEAL, count)
        return np.asarray(dealt[position, turn % count])

    def train(
        self, sample: Sample, subsamples: Subsamples, hypotheses: Numbers, entropy: int, shared: Any
    ) -> Hypotheses:
        return self._start(sample, subsamples, hypotheses, entropy, shared)()

    def _start(
        self, sample: Sample, subsamples: Subsamples, hypotheses: Numbers, entropy: int, shared: Any
    ) -> Callable[[], Hypotheses]:
        """Let a device begin to train hypotheses, those of the same scaler together; return what does the rest."""
        assigned, scalers = self.kinds(subsamples, hypotheses, entropy), self._scalers()
        combinations, numbers = list(product(*self._lists())), np.asarray(hypotheses, dtype=np.intp)
        kind = assigned % len(scalers)
        started = {}
        for k in np.unique(kind):
            own = np.flatnonzero(kind == k)
            group, chosen = ChosenSubsamples(subsamples, numbers[own]), [combinations[i] for i in assigned[own]]
            start = partial(self._start_group, sample, group, chosen, shared[scalers[k]], entropy)
            # Only a device works meanwhile. Elsewhere groups would only hold the copies of their points side by side.
            started[str(scalers[k])] = (start, start() if self._trains_on_device(sample, group.sizes) else None)

        def finish() -> Hypotheses:
            groups: dict[str, Hypotheses] = {name: (begun or start())() for name, (start, begun) in started.items()}
            if len(scalers) == 1:
                return next(iter(groups.values()))
            return HypothesisGroups.of(groups, [str(scalers[k]) for k in kind])

        return finish

    def _trains_on_device(self, sample: Sample, sizes: Codes) -> bool:
        """Return whether a device trains hypotheses on subsamples of these sizes."""
        return False

    @abstractmethod
    def _start_group(
        self, sample: Sample, subsamples: ChosenSubsamples, chosen: list[Combination], shared: Any, entropy: int
    ) -> Callable[[], Hypotheses]:
        """Gather the points of hypotheses with the same scaler, and let a device begin; return what trains them."""

    def _collect(
        self,
        result: dict[str, NDArray[Any]],
        sample: Sample,
        penalty: Array,
        scaler: Scaling | None,
        used: NDArray[Any] | None = None,
        **own: Any,
    ) -> Any:
        """Return hypotheses in the arrays that the engine has trained on rows that are `used` of the sample."""
        book, scale = sample.code_book, None
        shape = (penalty.size, sample.X.shape[1] if book is None else book.first_text)
        if is_wide(sample.X) and scaler is not None:
            scale = csr_array((result["scale"], result["scale_indices"], result["scale_indptr"]), shape=shape)
        elif scaler is not None or book is not None:
            scale = result["scale"].reshape(shape)
        return self._MODELS(
            classes=sample.classes,
            n_support=result["counts"],
            support=result["support"] if used is None else used[result["support"]],
            dual_coef=result["coefficients"],
            intercept=result["intercepts"],
            gamma=result["gamma"],
            scale=scale,
            failed=result["converged"] == 0,
            working_memory=int(self.working_memory * 2**20),
            rows=np.empty(0, dtype=np.int32),
            fill=None if book is None else result["fill"].reshape(penalty.size, book.n_numbers),
            code_book=book,
            **{self._PENALTY: penalty},
            **own,
        )


def gather_points(
    sample: Sample, subsamples: ChosenSubsamples, scale: Array | None, *, copy: bool = False
) -> tuple[Any, NDArray[Any], NDArray[np.int32], NDArray[Any] | None]:
    """Return points and targets, the rows of these that subsamples consist of, and their numbers in the sample.

    Points are those of the subsamples only, which may be few, since converting takes time; or the sample's as they are,
    if there is nothing to convert and no copy is wanted: then there are no numbers.
    """
    X, rows = sample.X, subsamples.concatenated(range(len(subsamples)))
    as_it_is = scale is None and isinstance(X, np.ndarray) and X.flags.c_contiguous and X.dtype.kind == "f"
    if as_it_is and not copy and compared(X, sample.code_book) is X:
        return X, sample.codes, rows, None
    used, positions = np.unique(rows, return_inverse=True)
    return scaled(compared(X[used], sample.code_book), scale), sample.codes[used], positions.astype(np.int32), used
