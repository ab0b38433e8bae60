"""The runner: what is to be done, what is done already, and the rest of it.

A unit of work is one experiment on one split of one dataset. Its result is one line of a JSON-lines file, written in
one piece when the unit is finished, so a run that is killed loses the unit it was at and no other. A run in a folder
that has results goes on where the last one stopped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pacbayes
from pacbayes._versions import versions
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
from pacbayes.paper.splits import Sample, load_sample, split
from pacbayes.paper.tables import DELTA, SIZES, TITLES, C

__all__ = ["EXPERIMENTS", "PAPER_DATASETS", "PaperError", "Plan", "Store", "Task", "run", "versions"]

PAPER_DATASETS = tuple(TITLES)[:8]
QUICK_DATASETS = tuple(TITLES)[8:]

Record = dict[str, Any]


class PaperError(ValueError):
    """A reproduction that cannot be run as asked: why, and what would be right."""


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper.

    Attributes
    ----------
    title : str
        What it is about.
    run : callable
        ``run(split, n_jobs)``, or ``run(split, n_jobs, values)`` if it walks a grid.
    cost : callable
        Rough cost of a unit for n points of d features, to tell the time that is left.
    walks_grid : bool
        Whether it takes the number of grid values.
    redrawn : bool
        Whether the paper repeats it 10 times, not 5.
    with_validation : bool
        Whether its splits have a validation set (table uci_val).
    """

    title: str
    run: Callable[..., dict[str, Any]]
    cost: Callable[[int, int], float]
    walks_grid: bool = False
    redrawn: bool = False
    with_validation: bool = False


def _pool_cost(n: int, d: int) -> float:
    """Seconds that a pool of n hypotheses takes, more or less."""
    return 0.02 + (n / 2000) ** 2 * (0.15 + 0.005 * d)


EXPERIMENTS = {
    "baseline": Experiment("cross-validated SVM", baseline.run, lambda n, d: 0.3 + (n / 2000) ** 2 * (4 + 0.08 * d)),
    "accuracy": Experiment(
        "loss of the vote over m and r", accuracy.run, lambda n, d: 12 * _pool_cost(n, d), walks_grid=True
    ),
    "runtime": Experiment(
        "loss, bound and time over m", runtime.run, lambda n, d: 11 * _pool_cost(n, d), walks_grid=True
    ),
    "weighting": Experiment("weighted and uniform vote over m", weighting.run, _pool_cost, walks_grid=True),
    "quasiconvexity": Experiment(
        "largest m with guaranteed quasiconvexity",
        quasiconvexity.run,
        lambda n, d: _pool_cost(n, d) + n / 2000,
        redrawn=True,
    ),
    "f_lambda": Experiment("shape of F(lambda)", f_lambda.run, _pool_cost),
    "validation": Experiment("lambda by the bound or by validation", validation.run, _pool_cost, with_validation=True),
    "comparison": Experiment("vote, randomised classifier, best hypothesis", comparison.run, _pool_cost),
}


@dataclass(frozen=True)
class Plan:
    """What a reproduction consists of.

    Attributes
    ----------
    datasets : tuple of str
        Datasets, by name.
    experiments : tuple of str
        Experiments, by name.
    splits : int
        Repetitions where the paper has 5.
    redrawn : int
        Repetitions where the paper has 10.
    values : int
        Values of m, and of r, on a grid.
    quick : bool
        Whether this is the small run that needs no file.
    """

    datasets: tuple[str, ...] = PAPER_DATASETS
    experiments: tuple[str, ...] = tuple(EXPERIMENTS)
    splits: int = 5
    redrawn: int = 10
    values: int = 20
    quick: bool = False

    @classmethod
    def quick_run(cls) -> Plan:
        """Two datasets that need no file, three splits, coarse grids."""
        return cls(QUICK_DATASETS, splits=3, redrawn=5, values=10, quick=True)

    def restricted(self, experiments: tuple[str, ...], datasets: tuple[str, ...]) -> Plan:
        """The same plan for some experiments and datasets only; none means all."""
        for what, asked, known in (
            ("experiment", experiments, self.experiments),
            ("dataset", datasets, self.datasets),
        ):
            for name in asked:
                if name not in known:
                    raise PaperError(f"there is no {what} {name!r} in this run: it must be one of {', '.join(known)}")
        return Plan(
            tuple(name for name in self.datasets if name in datasets or not datasets),
            tuple(name for name in self.experiments if name in experiments or not experiments),
            self.splits,
            self.redrawn,
            self.values,
            self.quick,
        )

    def tasks(self) -> list[Task]:
        """All units of work, in order."""
        return [
            Task(experiment, dataset, number)
            for experiment in self.experiments
            for dataset in self.datasets
            for number in range(self.redrawn if EXPERIMENTS[experiment].redrawn else self.splits)
        ]

    def settings(self) -> dict[str, Any]:
        """What has to be the same for results to stand beside each other."""
        return {
            "splits": self.splits,
            "redrawn": self.redrawn,
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
        """Rough cost of this unit, to tell the time that is left."""
        features = {"mushrooms": 112, "adult": 122, "skin": 3, "haberman": 3}.get(self.dataset, 30)
        return EXPERIMENTS[self.experiment].cost(SIZES[self.dataset].train, features)


@dataclass
class Store:
    """Results in a folder, one line each.

    Parameters
    ----------
    folder : Path
        Where `results.jsonl` is, or will be.
    settings : dict
        Settings of the plan. A folder with results of other settings is refused.
    """

    folder: Path
    settings: dict[str, Any]
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "results.jsonl"
        if not self.path.exists():
            self._append({"settings": self.settings, "versions": versions()})
            return
        lines = self._whole_lines()
        if not lines or lines[0].get("settings") != self.settings:
            raise PaperError(
                f"{self.path} holds results of other settings or of another version: give another folder, "
                "or remove the file"
            )
        self.records = [line for line in lines[1:] if "experiment" in line]

    def _whole_lines(self) -> list[Record]:
        """All lines that were written to their end; what a killed run left of another is cut off."""
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
        """Keep the result of a finished unit."""
        record = {**asdict(task), "seconds": seconds, "result": result}
        self._append(record)
        self.records.append(record)

    def done(self) -> set[Task]:
        """Units that need not be done again."""
        return {Task(record["experiment"], record["dataset"], record["split"]) for record in self.records}


def run(plan: Plan, store: Store, *, data_dir: str | Path | None = None, n_jobs: int | None = None) -> Iterator[Task]:
    """Do what the plan asks for and the store does not have yet, and yield each unit when it is finished.

    Parameters
    ----------
    plan : Plan
        What to do.
    store : Store
        Where results are, and go to.
    data_dir : path, optional
        Folder with the original files of the datasets; by default they are downloaded once.
    n_jobs : int, optional
        Workers.

    Yields
    ------
    Task
        The unit that was finished.
    """
    done = store.done()
    samples: dict[str, Sample] = {}
    # All datasets are there before work begins: a missing file should not stop a run half-way.
    for dataset in plan.datasets:
        samples[dataset] = load_sample(dataset, data_dir)
    for task in plan.tasks():
        if task in done:
            continue
        experiment = EXPERIMENTS[task.experiment]
        part = split(samples[task.dataset], task.split, with_validation=experiment.with_validation)
        arguments = (plan.values,) if experiment.walks_grid else ()
        start = time.perf_counter()
        result = experiment.run(part, n_jobs, *arguments)
        store.add(task, time.perf_counter() - start, result)
        yield task
