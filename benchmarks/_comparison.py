"""Comparisons with a rival on groups of problems: results kept in files of JSON lines, and tables of them.

`certificates.py` and `regression.py` compare; `rivals.py` and `regression_rivals.py` record the rivals.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _results import make_parser, show
from numpy.typing import NDArray
from problems import Problem

KEY = ("group", "problem", "split", "n")
MODEL_KEY = ("label", "settings", *KEY)

Key = tuple[Any, ...]
Result = dict[str, Any]
Results = dict[Key, Result]
Groups = dict[str, list[str]]
Values = list[NDArray[np.float64]]  # of each dataset, over its splits


def read_results(path: Path, key: tuple[str, ...] = KEY) -> Results:
    """Results in a file of JSON lines, by their key."""
    lines = path.read_text().splitlines() if path.exists() else []
    results = map(json.loads, lines)
    return {tuple(result[name] for name in key): result for result in results}


def keep_result(path: Path, about: dict[str, Any], measure: Callable[[], Result]) -> None:
    """Append what is measured of something to a file of JSON lines, and print it, unless it is there."""
    if tuple(about.values()) in read_results(path, tuple(about)):
        return
    result = measure()
    with open(path, "a") as file:
        file.write(json.dumps(about | result) + "\n")
    shown = [f"{name} {value:.4g}" for name, value in result.items() if isinstance(value, (int, float))]
    print(*about.values(), result.get("choice", ""), ", ".join(shown), flush=True)


def add_jobs(parser: argparse.ArgumentParser, groups: Groups) -> argparse.ArgumentParser:
    """Add the options that choose problems of groups."""
    parser.add_argument("--groups", nargs="+", choices=list(groups), default=list(groups))
    parser.add_argument("--splits", type=int, default=3, help="of each dataset; the paper's have two more")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these datasets of the groups alone")
    return parser


def list_jobs(groups: Groups, arguments: argparse.Namespace) -> list[tuple[str, str, int]]:
    """Group, problem and split: split by split, two more of the paper's; large tables last."""
    jobs = [(group, name) for group in arguments.groups for name in groups[group]]
    jobs = [job for job in jobs if job[1] in (arguments.only or [job[1]])]
    small, large = ([job for job in jobs if (job[0] == "large") == is_large] for is_large in (False, True))
    splits = arguments.splits
    return [
        *((*job, split) for split in range(splits) for job in small),
        *((*job, split) for split in range(splits, splits + 2) for job in small if job[0] == "paper"),
        *((*job, split) for split in range(splits) for job in large),
    ]


def open_jobs(
    groups: Groups, arguments: argparse.Namespace, load: Callable[..., Problem]
) -> Iterator[tuple[dict[str, Any], Problem]]:
    """Yield the key of each job, and its problem; `load` takes a name, and a folder if the script does."""
    folder = [arguments.folder] if "folder" in arguments else []
    for group, name, split in list_jobs(groups, arguments):
        problem = load(name, *folder)
        yield dict(zip(KEY, (group, name, split, problem.n), strict=True)), problem


def record_rival(
    parser: argparse.ArgumentParser,
    groups: Groups,
    load: Callable[..., Problem],
    rival: Callable[[Problem, int], Result],
) -> None:
    """Let a rival do what is not in its file of results yet."""
    parser.add_argument("results", metavar="RIVAL.jsonl", type=Path)
    arguments = add_jobs(parser, groups).parse_args()
    warnings.simplefilter("ignore")
    for about, problem in open_jobs(groups, arguments, load):
        keep_result(arguments.results, about, lambda about=about, problem=problem: rival(problem, about["split"]))


class Comparison(NamedTuple):
    """What models are compared by. Figures are called so in the results that are given for each of them."""

    title: str
    groups: Groups
    load: Callable[..., Problem]
    settings: dict[str, Callable[[], dict[str, Any]]]  # of our estimator, by what the tables call them
    fit: Callable[[Problem, int, dict[str, Any]], Result]  # of a problem, a split and settings
    of_half: dict[str, str]  # figures of the rival on half of the rows
    of_all: dict[str, str]  # of its choice on all rows
    of_model: dict[str, str]
    columns: tuple[str, ...]
    cells: Callable[[dict[str, Values], dict[str, Values], dict[str, Values]], list[str]]  # of a method and the rivals
    by_dataset: dict[str, int]  # figures of the table by dataset, with their digits
    write: Callable[[NDArray[np.float64], int], str]  # of values over splits, with so many digits
    note: str

    def gather(self, keys: list[list[Key]], rival: Results, models: dict[str, Results]) -> dict[str, dict[str, Values]]:
        """Figures of all methods, the rival's two first, on these keys of each dataset."""

        def value(key: Key, results: Results, column: str) -> float:
            # Probabilities are compared where the rival's choice has them.
            is_lacking = column in ("log_loss", "brier") and column not in rival[key]
            return np.nan if is_lacking else float(results[key][column])

        methods = {"rival, on half": (rival, self.of_half), "rival's choice, on all rows": (rival, self.of_all)}
        methods |= {name: (results, self.of_model) for name, results in models.items()}
        return {
            name: {
                figure: [np.array([value(key, results, column) for key in some]) for some in keys]
                for figure, column in columns.items()
            }
            for name, (results, columns) in methods.items()
        }

    def run(self, description: str, *, folder: bool) -> None:
        """Fit what is not there yet, and show all tables."""
        parser = make_parser(description, folder=folder)
        parser.add_argument("rival", metavar="RIVAL.jsonl", type=Path)
        parser.add_argument("models", metavar="MODELS.jsonl", type=Path)
        parser.add_argument("--label", default="", help="version of the library that the results are kept under")
        parser.add_argument("--settings", nargs="+", choices=list(self.settings), default=list(self.settings))
        parser.add_argument("--report", action="store_true", help="compute nothing: tables of what is there")
        parser.add_argument("--each", action="store_true", help="tables by dataset too")
        arguments = add_jobs(parser, self.groups).parse_args()
        warnings.simplefilter("ignore")
        for about, problem in () if arguments.report else open_jobs(self.groups, arguments, self.load):
            for settings in arguments.settings:
                keep_result(
                    arguments.models,
                    {"label": arguments.label, "settings": settings, **about},
                    lambda settings=settings, about=about, problem=problem: self.fit(
                        problem, about["split"], self.settings[settings]()
                    ),
                )
        rival, found = read_results(arguments.rival), read_results(arguments.models, MODEL_KEY)
        models = {
            settings: {key[2:]: result for key, result in found.items() if key[:2] == (arguments.label, settings)}
            for settings in arguments.settings
        }
        # The splits of each dataset that all have.
        datasets: dict[tuple[str, str], list[Key]] = {}
        todo = set(list_jobs(self.groups, arguments))
        for key in sorted(set(rival).intersection(*models.values())):
            if key[:3] in todo:
                datasets.setdefault(key[:2], []).append(key)
        sections = {group: [keys for name, keys in datasets.items() if name[0] == group] for group in arguments.groups}
        if len(sections.keys() - {"large"}) > 1:
            together = "all but large" if "large" in self.groups else "all"
            sections[together] = [keys for name, keys in datasets.items() if name[0] != "large"]
        for section, keys in sections.items():
            if keys:
                self._show_section(section, keys, rival, self.gather(keys, rival, models), each=arguments.each)

    def _show_section(
        self, section: str, keys: list[list[Key]], rival: Results, methods: dict[str, dict[str, Values]], *, each: bool
    ) -> None:
        half, whole = list(methods.values())[:2]
        rows = ([name, *self.cells(method, half, whole)] for name, method in methods.items())
        title = f"{self.title}, {section}"
        counted = f"{len(keys)} datasets, {min(map(len, keys))} splits"
        show(title.lower(), f"{title}: {counted}", self.columns, rows, self.note)
        if each and section in self.groups:
            columns, *by_dataset = self._list_datasets(keys, rival, methods)
            show(f"{title.lower()}, by dataset", f"{title}, by dataset", columns, by_dataset)

    def _list_datasets(
        self, keys: list[list[Key]], rival: Results, methods: dict[str, dict[str, Values]]
    ) -> Iterable[list[str]]:
        """Return columns and rows of a table by dataset."""
        table = [["", "n", "splits", "rival's choices"]]
        for some in keys:
            choices = sorted({str(rival[key]["choice"]).split(" C=")[0] for key in some})
            table.append([some[0][1], str(some[0][3]), str(len(some)), ", ".join(choices)])
        for figure, digits in self.by_dataset.items():
            for name, method in methods.items():
                if figure in method:
                    cells = [f"{figure}: {name}", *(self.write(values, digits) for values in method[figure])]
                    table = [[*row, cell] for row, cell in zip(table, cells, strict=True)]
        return table
