"""``pacbayes paper``: the paper's experiments, from one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pacbayes._progress import show_progress
from pacbayes.cli._console import print_error, print_lines
from pacbayes.cli._errors import user_errors


def paper(
    only: Annotated[
        list[str] | None, typer.Option(help="Run this experiment only. May be given several times.")
    ] = None,
    datasets: Annotated[
        list[str] | None, typer.Option(help="Use this dataset only. May be given several times.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small run on data that need no file, in two minutes.")
    ] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the original data files; downloaded once if not given.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for results, figures and the page.", show_default="paper or paper-quick")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Workers; -1 takes all cores.")] = -1,
) -> None:
    """Reproduce the paper's experiments, and set the results beside its own numbers.

    A run that was interrupted goes on where it stopped when the same command is given again. To download the data, it
    needs what `python -m pip install "pacbayes[paper]"` installs; with --quick or --data-dir it does not.
    """
    folder = output or Path("paper-quick" if quick else "paper")
    with user_errors(extra="paper"):
        from pacbayes.paper.page import write_results
        from pacbayes.paper.runner import Plan, Store, run

        whole = Plan.quick_run() if quick else Plan()
        plan = whole.restrict(tuple(only or ()), tuple(datasets or ()))
        store = Store(folder, whole.settings())
        try:
            _show_progress(plan, store, run(plan, store, data_dir=data_dir, n_jobs=jobs))
        except KeyboardInterrupt:
            print_error(f"stopped: what is finished is in {folder}, and the same command goes on from there")
            raise typer.Exit(130) from None
        page = write_results(plan, store)
    print_lines(f"results   {store.path}", f"figures   {folder / 'figures'}", f"page      {page}")


def _show_progress(plan: Any, store: Any, finished: Any) -> None:
    """Iterate over the finished units, and show what is worked on and how much is done."""
    from pacbayes.paper.runner import EXPERIMENTS
    from pacbayes.paper.tables import TITLES

    done = store.done()
    waiting = [task for task in plan.tasks() if task not in done]
    if not waiting:
        print_error("nothing left to do")
    names = [f"{EXPERIMENTS[task.experiment].title}, {TITLES[task.dataset]}"[:60] for task in waiting]
    with show_progress("loading data", sum(task.cost for task in waiting) or 1.0) as bar:
        for task, following in zip(finished, [*names[1:], "drawing figures"], strict=False):
            bar.advance(task.cost, following)
