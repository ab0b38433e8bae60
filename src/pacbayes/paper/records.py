"""Results of the paper's experiments, by experiment, dataset and split.

A record is one finished unit of work: a mapping with the keys "experiment", "dataset", "split", "seconds" and "result".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbayes._validation import Array
from pacbayes.paper.tables import TITLES

__all__ = ["Record", "Results", "dataset_title", "mean_sd"]

Record = Mapping[str, Any]
Result = Mapping[str, Any]


class Results:
    """Results by experiment, dataset and split, from the records of finished units of work in any order."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._results: dict[tuple[str, str], dict[int, Result]] = {}
        for record in records:
            by_split = self._results.setdefault((record["experiment"], record["dataset"]), {})
            by_split[int(record["split"])] = record["result"]

    def datasets(self, *experiments: str) -> list[str]:
        """Return the datasets with all these experiments, or with any: the paper's first, then others by name."""
        found = {dataset for _, dataset in self._results}
        found = {name for name in found if all((experiment, name) in self._results for experiment in experiments)}
        return [name for name in TITLES if name in found] + sorted(found - set(TITLES))

    def by_split(self, experiment: str, dataset: str) -> dict[int, Result]:
        """Return the results of an experiment on a dataset by split, in the order of the splits."""
        return dict(sorted(self._results.get((experiment, dataset), {}).items()))

    def values(self, experiment: str, dataset: str, value: str | Callable[[Result], Any]) -> Array:
        """Return an entry of every split's result, or a function of it; splits are the first axis."""
        get: Callable[[Result], Any] = value if callable(value) else lambda result: result[value]
        return np.array([get(result) for result in self.by_split(experiment, dataset).values()], dtype=np.float64)

    def by_dataset(
        self, experiment: str, datasets: Iterable[str], value: str | Callable[[Result], Any]
    ) -> dict[str, Array]:
        """Return `values` for each of several datasets."""
        return {name: self.values(experiment, name, value) for name in datasets}

    def shared(self, experiment: str, dataset: str, name: str) -> Any:
        """Return an entry that all splits must have in common, such as the values of m."""
        results = self.by_split(experiment, dataset)
        entries = [result[name] for result in results.values()]
        if any(entry != entries[0] for entry in entries):
            raise ValueError(f"splits {list(results)} of {dataset} were run with different values of {name}")
        return entries[0]


def dataset_title(name: str) -> str:
    """Return the paper's name of a dataset, or the name itself if the paper has none.

    >>> dataset_title("avsb"), dataset_title("zoo")
    ('AvsB', 'zoo')
    """
    return TITLES.get(name, name)


def mean_sd(values: ArrayLike) -> tuple[Array, Array]:
    """Compute mean and standard deviation over splits, the first axis; the deviation of one split is 0.

    >>> mean, sd = mean_sd([[0.0, 1.0], [2.0, 1.0]])
    >>> mean.tolist(), sd.round(3).tolist()
    ([1.0, 1.0], [1.414, 0.0])
    """
    array = np.asarray(values, dtype=np.float64)
    sd = array.std(axis=0, ddof=1) if len(array) > 1 else np.zeros(array.shape[1:])
    return array.mean(axis=0), sd
