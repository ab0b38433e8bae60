"""Run the paper's experiments, store their results, and resume a run that was interrupted.

A unit of work is one experiment on one split of one dataset. Its result is one line of a JSON-lines file, appended by
one write when the unit is finished: a run that is killed loses the unit in progress and no other. A run in a folder
with results resumes where the last one stopped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pacbayes
from pacbayes._versions import collect_versions
from pacbayes.exceptions import PaperError
from pacbayes.paper import (
    accuracy,
    baseline,
    comparison,
    f_lambda,
    quasiconvexity,
    runtime,
    validation,
    weighting,
)
from pacbayes.paper.splits import load_sample, split
from pacbayes.paper.tables import DELTA, SIZES, TITLES, C

__all__ = ["EXPERIMENTS", "PAPER_DATASETS", "QUICK_DATASETS", "Experiment", "Plan", "Store", "Task", "run"]

PAPER_DATASETS = tuple(TITLES)[:8]
QUICK_DATASETS = tuple(TITLES)[8:]

Record = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper."""

    title: str  # its subject, for a progress bar
    run: Callable[..., dict[str, Any]]  # ``run(split, n_jobs)``, or ``run(split, n_jobs, values)`` with `uses_grid`
    cost: Callable[[int, int], float]  # approximate seconds of a unit with n points of d features
    uses_grid: bool = False  # whether `run` takes the number of grid values
    more_splits: bool = False  # whether the paper repeats it 10 times instead of 5
    with_validation: bool = False  # whether its splits have a validation set (table uci_val)


def _pool_cost(n: int, d: int) -> float:
    """Estimate the seconds that it takes to train a pool of n hypotheses on n points of d features."""
    return 0.02 + (n / 2000) ** 2 * (0.15 + 0.005 * d)


EXPERIMENTS = {
    "baseline": Experiment("cross-validated SVM", baseline.run, lambda n, d: 0.3 + (n / 2000) ** 2 * (4 + 0.08 * d)),
    "accuracy": Experiment(
        "loss of the vote over m and r", accuracy.run, lambda n, d: 12 * _pool_cost(n, d), uses_grid=True
    ),
    "runtime": Experiment(
        "loss, bound and time over m", runtime.run, lambda n, d: 11 * _pool_cost(n, d), uses_grid=True
    ),
    "weighting": Experiment("weighted and uniform vote over m", weighting.run, _pool_cost, uses_grid=True),
    "quasiconvexity": Experiment(
        "largest m with guaranteed quasiconvexity",
        quasiconvexity.run,
        lambda n, d: _pool_cost(n, d) + n / 2000,
        more_splits=True,
    ),
    "f_lambda": Experiment("shape of F(lambda)", f_lambda.run, _pool_cost),
    "validation": Experiment("lambda by the bound or by validation", validation.run, _pool_cost, with_validation=True),
    "comparison": Experiment("vote, randomised classifier, best hypothesis", comparison.run, _pool_cost),
}


@dataclass(frozen=True)
class Plan:
    """The experiments, datasets and repetitions of a reproduction; by default the paper's."""

    datasets: tuple[str, ...] = PAPER_DATASETS
    experiments: tuple[str, ...] = tuple(EXPERIMENTS)
    splits: int = 5  # of each dataset
    more_splits: int = 10  # for the table of quasiconvexity
    values: int = 20  # number of values of m, and of r, on a grid
    quick: bool = False  # whether this is the quick run, which needs no file

    @classmethod
    def quick_run(cls) -> Plan:
        """Make the plan of the quick run: two datasets that need no file, three splits, coarse grids."""
        return cls(QUICK_DATASETS, splits=3, more_splits=5, values=10, quick=True)

    def restrict(self, experiments: tuple[str, ...], datasets: tuple[str, ...]) -> Plan:
        """Return the same plan for these experiments and datasets only; an empty tuple means all."""
        for what, asked, known in (
            ("experiment", experiments, self.experiments),
            ("dataset", datasets, self.datasets),
        ):
            for name in asked:
                if name not in known:
                    raise PaperError(f"there is no {what} {name!r} in this run: it must be one of {', '.join(known)}")
        return replace(
            self,
            datasets=tuple(name for name in self.datasets if name in datasets or not datasets),
            experiments=tuple(name for name in self.experiments if name in experiments or not experiments),
        )

    def tasks(self) -> list[Task]:
        """Return all units of work, in order."""
        return [
            Task(experiment, dataset, number)
            for experiment in self.experiments
            for dataset in self.datasets
            for number in range(self.more_splits if EXPERIMENTS[experiment].more_splits else self.splits)
        ]

    def settings(self) -> dict[str, Any]:
        """Return the settings that results must share to be comparable, for JSON."""
        return {
            "splits": self.splits,
            "more_splits": self.more_splits,
            "values": self.values,
            "quick": self.quick,
            "C": C,
            "delta": DELTA,
            "sizes": {name: asdict(SIZES[name]) for name in (QUICK_DATASETS if self.quick else PAPER_DATASETS)},
            "pacbayes": pacbayes.__version__,
        }


@dataclass(frozen=True)
class Task:
    """One experiment on one split of one dataset."""

    experiment: str
    dataset: str
    split: int

    @property
    def cost(self) -> float:
        """Approximate cost of this unit in seconds, to estimate the remaining time."""
        features = {"mushrooms": 112, "adult": 122, "skin": 3, "haberman": 3}.get(self.dataset, 30)
        return EXPERIMENTS[self.experiment].cost(SIZES[self.dataset].train, features)


@dataclass
class Store:
    """Results in a folder, one line of `results.jsonl` each.

    A folder with results of other settings raises `PaperError`.
    """

    folder: Path
    settings: dict[str, Any]
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "results.jsonl"
        if not self.path.exists():
            self._append({"settings": self.settings, "versions": collect_versions()})
            return
        lines = self._read_lines()
        if not lines or lines[0].get("settings") != self.settings:
            raise PaperError(
                f"{self.path} holds results of other settings or of another version: give another folder, "
                "or remove the file"
            )
        self.records = [line for line in lines[1:] if "experiment" in line]

    def _read_lines(self) -> list[Record]:
        """Read all complete lines, and truncate the file after them: a killed run may leave part of a line."""
        raw = self.path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if len(whole) < len(raw):
            os.truncate(self.path, len(whole))
        try:
            return [json.loads(line) for line in whole.splitlines()]
        except json.JSONDecodeError as error:
            raise PaperError(f"{self.path} is not a file of results: {error}. Give another folder.") from error

    def _append(self, record: Record) -> None:
        line = (json.dumps(record) + "\n").encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def add(self, task: Task, seconds: float, result: dict[str, Any]) -> None:
        """Store the result of a finished unit."""
        record = {**asdict(task), "seconds": seconds, "result": result}
        self._append(record)
        self.records.append(record)

    def done(self) -> set[Task]:
        """Return the finished units."""
        return {Task(record["experiment"], record["dataset"], record["split"]) for record in self.records}


def run(plan: Plan, store: Store, *, data_dir: str | Path | None = None, n_jobs: int | None = None) -> Iterator[Task]:
    """Run the units of a plan that the store does not have yet, and yield each when it is finished.

    `data_dir` holds the original files of the datasets; by default they are downloaded once.
    """
    done = store.done()
    # All datasets are loaded before work begins: a missing file should not stop a run half-way.
    samples = {dataset: load_sample(dataset, data_dir) for dataset in plan.datasets}
    for task in plan.tasks():
        if task in done:
            continue
        experiment = EXPERIMENTS[task.experiment]
        part = split(samples[task.dataset], task.split, with_validation=experiment.with_validation)
        arguments = (plan.values,) if experiment.uses_grid else ()
        start = time.perf_counter()
        result = experiment.run(part, n_jobs, *arguments)
        store.add(task, time.perf_counter() - start, result)
        yield task
