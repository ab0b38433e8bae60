"""``pacbayes paper``: the paper's experiments, from one command."""

from __future__ import annotations

from pathlib import Path

import typer

from pacbayes._progress import show_progress
from pacbayes.cli._console import print_error, print_lines


def paper(
    only: list[str] | None = None,
    datasets: list[str] | None = None,
    quick: bool = False,
    data_dir: Path | None = None,
    output: Path | None = None,
    jobs: int = -1,
) -> None:
    """Reproduce the paper's experiments, and compare the results with its own numbers.

    A run that was interrupted goes on where it stopped when the same command is given again. To download the data, it
    needs what `python -m pip install "pacbayes[paper]"` installs; with --quick or --data-dir it does not.

    Parameters
    ----------
    only
        Run this experiment only. May be given several times.
    datasets
        Use this dataset only. May be given several times.
    quick
        A small run on data that need no file, in two minutes.
    data_dir
        Folder with the original data files; downloaded once if not given.
    output
        Folder for results, figures and the page. [default: paper or paper-quick]
    jobs
        Workers; -1 takes all cores.
    """
    from pacbayes.paper.page import write_results
    from pacbayes.paper.runner import Plan, Store, run

    folder = output or Path("paper-quick" if quick else "paper")
    whole = Plan.quick_run() if quick else Plan()
    plan = whole.restrict(tuple(only or ()), tuple(datasets or ()))
    store = Store(folder, whole.settings())
    waiting = store.waiting(plan)
    if not waiting:
        print_error("nothing left to do")
    names = [task.title[:60] for task in waiting]
    try:
        with show_progress("loading data", sum(task.cost for task in waiting) or 1.0) as bar:
            finished = run(plan, store, data_dir=data_dir, n_jobs=jobs)
            for task, following in zip(finished, [*names[1:], "drawing figures"], strict=False):
                bar.advance(task.cost, following)
    except KeyboardInterrupt:
        print_error(f"stopped: what is finished is in {folder}, and the same command resumes from there")
        raise typer.Exit(130) from None
    page = write_results(plan, store)
    print_lines(f"results   {store.path}", f"figures   {folder / 'figures'}", f"page      {page}")
