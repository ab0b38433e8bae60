"""The paper's claims, checked against the results, and its numbers beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pacbayes._validation import Array
from pacbayes.paper.records import Record, Results, dataset_title, mean_sd
from pacbayes.paper.tables import BASELINE_LOSS, HALF_MASS, LARGEST_GUARANTEED_M
from pacbayes.report import PageTable

__all__ = ["PaperFinding", "check_claims", "make_tables"]

# Losses that differ by no more are equal for the purposes of the paper, which gives two digits.
_CLOSE = 0.01


@dataclass(frozen=True)
class PaperFinding:
    """A claim of the paper and what the results say about it."""

    claim: str
    holds: bool | None  # None if it was not measured
    sentence: str  # the measurements


# Checks a claim on the datasets that have its experiments: whether it holds, and the measurements in a sentence.
_Check = Callable[[Results, list[str]], tuple[bool, str]]

# Claims, the experiments that each is about, and how it is checked.
_CLAIMS: list[tuple[str, tuple[str, ...], _Check]] = []


def _claim(claim: str, *experiments: str) -> Callable[[_Check], _Check]:
    """Add a claim of the paper to those that are checked, with the function that checks it."""

    def add(check: _Check) -> _Check:
        _CLAIMS.append((claim, experiments, check))
        return check

    return add


def check_claims(records: Iterable[Record]) -> list[PaperFinding]:
    """Check each of the paper's claims against the results; one about experiments without records was not measured."""
    results = Results(records)
    findings = []
    for claim, experiments, check in _CLAIMS:
        names = results.datasets(*experiments)
        not_measured = f"Not measured: this run has no results of {' and '.join(experiments)}."
        findings.append(PaperFinding(claim, *(check(results, names) if names else (None, not_measured))))
    return findings


@_claim("The weighted vote of weak SVMs is as accurate as the cross-validated SVM.", "comparison", "baseline")
def _check_accuracy(results: Results, names: list[str]) -> tuple[bool, str]:
    vote = results.by_dataset("comparison", names, "vote")
    base = results.by_dataset("baseline", names, "loss")
    close = [name for name in names if _is_close(vote[name], base[name])]
    far = {name: vote[name].mean() - base[name].mean() for name in names if name not in close}
    exceptions = ", ".join(f"{dataset_title(name)} (+{gap:.3f})" for name, gap in far.items())
    return (
        len(close) > len(names) / 2,
        f"Within 0.01 or one standard deviation on {len(close)} of {len(names)} datasets"
        + (f"; not on {exceptions}" if exceptions else "")
        + f". Mean test loss {_mean_of_means(vote):.4f} against {_mean_of_means(base):.4f}.",
    )


@_claim("The bound is above the loss that it bounds, and far from vacuous.", "comparison")
def _check_bound(results: Results, names: list[str]) -> tuple[bool, str]:
    bound = results.by_dataset("comparison", names, "bound")
    gaps = {name: bound[name] - results.values("comparison", name, "randomised") for name in names}
    runs = sum(values.size for values in gaps.values())
    above = sum(int(np.sum(values >= 0)) for values in gaps.values())
    largest = max(names, key=lambda name: bound[name].mean())
    return (
        bool(above == runs and bound[largest].max() < 0.5),
        f"Above the randomised classifier's test loss in {above} of {runs} runs; the largest is "
        f"{bound[largest].mean():.3f} on {dataset_title(largest)}. On average it is {_mean_of_means(gaps):.3f} above "
        "the test loss.",
    )


@_claim("Weighting by the bound is better than uniform weights.", "weighting")
def _check_weighting(results: Results, names: list[str]) -> tuple[bool, str]:
    gains = results.by_dataset("weighting", names, lambda result: result["uniform"][-1] - result["vote"][-1])
    worse = [name for name in names if gains[name].mean() <= 0]
    better = len(names) - len(worse)
    return (
        better > len(names) / 2,
        f"At the largest m the weighted vote is better on {better} of {len(names)} datasets, by "
        f"{_mean_of_means(gains):.3f} on average" + (f"; not on {_list_titles(worse)}." if worse else "."),
    )


@_claim("F(lambda) is quasiconvex in practice, and alternating minimisation finds its global minimum.", "f_lambda")
def _check_quasiconvexity(results: Results, names: list[str]) -> tuple[bool, str]:
    runs = [result for name in names for result in results.by_split("f_lambda", name).values()]
    quasiconvex, convex, guaranteed = (
        sum(bool(run[key]) for run in runs) for key in ("quasiconvex", "convex", "guaranteed")
    )
    found = sum(run["F_alternating"] <= run["F_global"] * (1 + 1e-6) for run in runs)
    return (
        quasiconvex == found == len(runs),
        f"Quasiconvex in {quasiconvex} of {len(runs)} runs at m = n, convex on the grid in {convex}, proved "
        f"quasiconvex in {guaranteed}. Alternating minimisation reached the global minimum in {found}.",
    )


@_claim("Choosing lambda by the bound is as good as choosing it on a validation set.", "validation")
def _check_validation(results: Results, names: list[str]) -> tuple[bool, str]:
    direct = results.by_dataset("validation", names, "direct")
    validate = results.by_dataset("validation", names, "validate")
    close = sum(_is_close(direct[name], validate[name]) for name in names)
    return (
        close > len(names) / 2,
        f"Within 0.01 or one standard deviation on {close} of {len(names)} datasets. Mean test loss "
        f"{_mean_of_means(direct):.4f} by the bound, {_mean_of_means(validate):.4f} by validation, which has "
        "additional data.",
    )


@_claim("Training takes a fraction of the time of cross-validation.", "runtime", "baseline")
def _check_training_time(results: Results, names: list[str]) -> tuple[bool, str]:
    baseline = results.by_dataset("baseline", names, "seconds")
    ours = results.by_dataset("runtime", names, lambda result: result["seconds"][-1])
    ratios = {name: baseline[name].mean() / ours[name].mean() for name in names}
    slowest, fastest = min(names, key=ratios.__getitem__), max(names, key=ratios.__getitem__)
    return (
        bool(ratios[slowest] > 1),
        f"At m = n, {ratios[slowest]:.1f} times ({dataset_title(slowest)}) to {ratios[fastest]:.0f} times "
        f"({dataset_title(fastest)}) faster than cross-validating and training the strong SVM, on the same cores.",
    )


@_claim("Relatively small m is enough to match the baseline.", "runtime", "baseline")
def _check_pool_size(results: Results, names: list[str]) -> tuple[bool, str]:
    others = []
    for name in names:
        m = np.array(results.shared("runtime", name, "m"))
        vote = results.values("runtime", name, "vote").mean(axis=0)
        enough = m[vote <= results.values("baseline", name, "loss").mean() + _CLOSE]
        if not enough.size or enough[0] > m[-1] / 2:
            others.append(name)
    small = len(names) - len(others)
    return (
        small > len(names) / 2,
        f"With r = d + 1, m of at most n / 2 comes within 0.01 of the baseline on {small} of {len(names)} datasets"
        + (f" (not on {_list_titles(others)})." if others else "."),
    )


@_claim("The paper's theorem guarantees quasiconvexity for pools of a few dozen hypotheses.", "quasiconvexity")
def _check_guarantees(results: Results, names: list[str]) -> tuple[bool, str]:
    means = [values.mean() for values in results.by_dataset("quasiconvexity", names, "theorem_var").values()]
    reach = results.by_dataset("quasiconvexity", names, lambda result: result["stronger"] >= result["largest"])
    complete = [name for name in names if reach[name].all()]
    return (
        bool(min(means) >= 20),
        f"Up to m = {min(means):.0f} to {max(means):.0f} on average by the theorem on few mediocre hypotheses. The "
        f"library's check for all lambda guarantees every m up to n on {len(complete)} of {len(names)} datasets in "
        f"every repetition ({_list_titles(complete)}).",
    )


def _is_close(losses: Array, baseline: Array) -> bool:
    """Check that a mean loss exceeds another by at most 0.01 or the larger of the standard deviations."""
    (mean, sd), (baseline_mean, baseline_sd) = mean_sd(losses), mean_sd(baseline)
    return bool(mean - baseline_mean <= max(_CLOSE, float(sd), float(baseline_sd)))


def _mean_of_means(values: Mapping[str, Array]) -> float:
    """Compute the mean over datasets of the means over splits."""
    return float(np.mean([of_splits.mean() for of_splits in values.values()]))


def _list_titles(datasets: Sequence[str]) -> str:
    return ", ".join(dataset_title(name) for name in datasets) if datasets else "none"


def make_tables(records: Iterable[Record]) -> list[PageTable]:
    """Tabulate the results for which there are records, beside the paper's numbers where it has them."""
    results, header = Results(records), ["Dataset", "Paper", "Here", "Difference in sd"]
    tables = [
        PageTable(
            "baseline",
            "Test loss of the cross-validated SVM",
            header,
            _compare_with_paper(results, "baseline", BASELINE_LOSS, 3, "loss"),
            "The paper's numbers are in the captions of its figures 1 and 4, rounded to two digits.",
        ),
        PageTable(
            "quasiconvexity",
            "Largest m with quasiconvexity guaranteed by the paper's theorem",
            [*header, "All conditions"],
            _compare_with_paper(results, "quasiconvexity", LARGEST_GUARANTEED_M, 0, "theorem_var", "stronger"),
            "Table 2 of the paper: the theorem on few mediocre hypotheses, with both refinements of its appendix. m in "
            "steps of 10; small pools, for which F is always quasiconvex, count as guaranteed. The last column is what "
            "the library's check of the conditions for all lambda guarantees, with m up to n.",
        ),
        PageTable(
            "comparison",
            "Hypotheses that hold half of the posterior mass",
            header,
            _compare_with_paper(results, "comparison", HALF_MASS, 1, "half_mass"),
            "Table 4 of the paper, at m = n.",
        ),
        PageTable(
            "losses",
            "Test losses and bound at m = n",
            [
                *("Dataset", "Cross-validated SVM", "Weighted vote", "Randomised", "Best hypothesis"),
                *("PAC-Bayes-kl bound", "Direct bound"),
            ],
            [_list_losses(results, name) for name in results.datasets("comparison")],
            "Mean and standard deviation over splits. Bounds are on the randomised classifier: the paper's, with the "
            "weights that minimise PAC-Bayes-lambda, and the smallest direct bound, which came after the paper and "
            "whose best weights are the root of one equation. Kernel widths come from the whole sample, as in the "
            "paper, so they are not strict.",
        ),
    ]
    return [table for table in tables if table.rows]


def format_mean_sd(values: Array, digits: int = 3) -> str:
    """Format mean and standard deviation.

    >>> format_mean_sd(np.array([0.1, 0.2]), 2), format_mean_sd(np.array([0.1]), 2)
    ('0.15 ± 0.07', '0.10')
    """
    mean, sd = mean_sd(values)
    return f"{mean:.{digits}f} ± {sd:.{digits}f}" if values.size > 1 else f"{mean:.{digits}f}"


def format_difference(ours: Array, paper: float) -> str:
    """Format the difference of our mean from the paper's number, in standard deviations over our splits.

    >>> format_difference(np.array([1.0, 3.0]), 1.0), format_difference(np.array([2.0, 2.0]), 1.0)
    ('+0.7', 'no spread')
    """
    mean, sd = mean_sd(ours)
    if sd == 0:
        return "equal" if mean == paper else "no spread"
    return f"{(mean - paper) / sd:+.1f}"


def _compare_with_paper(
    results: Results, experiment: str, reported: Mapping[str, float], digits: int, *keys: str
) -> list[list[str]]:
    """Return rows with an entry of the results beside the paper's number, and with further entries."""

    def row(name: str) -> list[str]:
        ours, *others = (results.values(experiment, name, key) for key in keys)
        known = name in reported
        return [
            dataset_title(name),
            f"{reported[name]:g}" if known else "not in the paper",
            format_mean_sd(ours, digits),
            format_difference(ours, reported[name]) if known else "",
            *(format_mean_sd(values, digits) for values in others),
        ]

    return [row(name) for name in results.datasets(experiment)]


def _list_losses(results: Results, name: str) -> list[str]:
    baseline = results.values("baseline", name, "loss")
    ours = [results.values("comparison", name, key) for key in ("vote", "randomised", "best", "bound")]
    # Runs of earlier versions have no direct bound.
    direct = results.values("comparison", name, lambda result: result.get("direct_bound", np.nan))
    return [
        dataset_title(name),
        format_mean_sd(baseline) if baseline.size else "not run",
        *(format_mean_sd(values) for values in ours),
        "not run" if np.isnan(direct).any() else format_mean_sd(direct),
    ]
