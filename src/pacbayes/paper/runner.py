"""Run the paper's experiments, store their results, and resume a run that was interrupted.

A unit of work is one experiment on one split of one dataset. Its result is one line of a JSON-lines file, appended by
one write when the unit is finished: a run that is killed loses the unit in progress and no other. A run in a folder
with results resumes where the last one stopped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pacbayes
from pacbayes._versions import collect_versions
from pacbayes.exceptions import PaperError
from pacbayes.paper.experiments import EXPERIMENTS
from pacbayes.paper.records import Record
from pacbayes.paper.splits import load_sample, split
from pacbayes.paper.tables import DELTA, PAPER_DATASETS, QUICK_DATASETS, SIZES, TITLES, C

__all__ = ["Plan", "Store", "Task", "run"]


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
        chosen: dict[str, Any] = {}
        for what, asked in (("experiment", experiments), ("dataset", datasets)):
            known = getattr(self, f"{what}s")
            for name in asked:
                if name not in known:
                    raise PaperError(f"there is no {what} {name!r} in this run: it must be one of {', '.join(known)}")
            chosen[f"{what}s"] = tuple(name for name in known if name in asked or not asked)
        return replace(self, **chosen)

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
            **{name: getattr(self, name) for name in ("splits", "more_splits", "values", "quick")},
            "C": C,
            "delta": DELTA,
            "sizes": {name: SIZES[name]._asdict() for name in (QUICK_DATASETS if self.quick else PAPER_DATASETS)},
            "pacbayes": pacbayes.__version__,
        }


@dataclass(frozen=True)
class Task:
    """One experiment on one split of one dataset."""

    experiment: str
    dataset: str
    split: int

    @property
    def title(self) -> str:
        """What is worked on, for a progress bar."""
        return f"{EXPERIMENTS[self.experiment].title}, {TITLES[self.dataset]}"

    @property
    def cost(self) -> float:
        """Approximate cost of this unit in seconds, to estimate the remaining time."""
        features = {"mushrooms": 112, "adult": 122, "skin": 3, "haberman": 3}.get(self.dataset, 30)
        of_a_pool = 0.02 + (SIZES[self.dataset].train / 2000) ** 2 * (0.15 + 0.005 * features)
        return EXPERIMENTS[self.experiment].cost * of_a_pool


@dataclass
class Store:
    """Results in a folder, one line of `results.jsonl` each; a folder with other settings raises `PaperError`."""

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
        with self.path.open("ab", buffering=0) as file:
            file.write(f"{json.dumps(record)}\n".encode())
            os.fsync(file.fileno())

    def add(self, task: Task, seconds: float, result: dict[str, Any]) -> None:
        """Store the result of a finished unit."""
        record = {**asdict(task), "seconds": seconds, "result": result}
        self._append(record)
        self.records.append(record)

    def waiting(self, plan: Plan) -> list[Task]:
        """Return the units of a plan that are not finished yet, in order."""
        done = {Task(record["experiment"], record["dataset"], record["split"]) for record in self.records}
        return [task for task in plan.tasks() if task not in done]


def run(plan: Plan, store: Store, *, data_dir: str | Path | None = None, n_jobs: int | None = None) -> Iterator[Task]:
    """Run the units of a plan that the store does not have yet, and yield each when it is finished."""
    # All datasets are loaded before work begins: a missing file should not stop a run half-way.
    samples = {dataset: load_sample(dataset, data_dir) for dataset in plan.datasets}
    for task in store.waiting(plan):
        experiment = EXPERIMENTS[task.experiment]
        part = split(samples[task.dataset], task.split, with_validation=experiment.with_validation)
        start = time.perf_counter()
        result = experiment.run(part, n_jobs, plan.values)
        store.add(task, time.perf_counter() - start, result)
        yield task
