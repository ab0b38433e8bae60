"""``pacbayes paper``: the paper's experiments, from one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

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

    A run that was interrupted goes on where it stopped when the same command is given again.
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
    """Iterate over the finished units, with a bar that shows the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from pacbayes.paper.runner import EXPERIMENTS
    from pacbayes.paper.tables import TITLES

    done = store.done()
    waiting = [task for task in plan.tasks() if task not in done]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("loading data", total=sum(task.cost for task in waiting) or 1.0)
        if not waiting:
            progress.update(bar, description="nothing left to do", completed=1.0)
        following = [*waiting[1:], None]
        for position, task in enumerate(finished):
            progress.advance(bar, task.cost)
            after = following[position]
            if after is not None:
                what = f"{EXPERIMENTS[after.experiment].title}, {TITLES[after.dataset]}"
                progress.update(bar, description=what[:60])
