"""What the results say about the paper's claims, in plain sentences with their figures; and the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pacbayes.paper.tables import BASELINE_LOSS, HALF_MASS, LARGEST_GUARANTEED_M, TITLES
from pacbayes.report import Finding, Table

Record = dict[str, Any]

# Losses closer than this are the same for the purposes of the paper, which gives two digits.
_CLOSE = 0.01


class Results:
    """Results by experiment, dataset and split.

    Parameters
    ----------
    records : sequence of dict
        Lines of the store.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._results: dict[tuple[str, str], dict[int, Record]] = {}
        for record in records:
            of_splits = self._results.setdefault((record["experiment"], record["dataset"]), {})
            of_splits[record["split"]] = record["result"]

    def datasets(self, *experiments: str) -> list[str]:
        """Datasets that have results of all these experiments, in the paper's order."""
        return [name for name in TITLES if all((experiment, name) in self._results for experiment in experiments)]

    def values(self, experiment: str, dataset: str, value: Callable[[Record], float]) -> np.ndarray:
        """A figure of every split."""
        return np.array(
            [value(result) for _, result in sorted(self._results[experiment, dataset].items())], dtype=float
        )

    def by_dataset(
        self, experiment: str, datasets: Sequence[str], value: Callable[[Record], float]
    ) -> dict[str, np.ndarray]:
        """A figure of every split, for each of several datasets."""
        return {name: self.values(experiment, name, value) for name in datasets}


def mean_sd(values: np.ndarray, digits: int = 3) -> str:
    """Mean and standard deviation, as text.

    Examples
    --------
    >>> mean_sd(np.array([0.1, 0.2]), 2), mean_sd(np.array([0.1]), 2)
    ('0.15 ± 0.07', '0.10')
    """
    mean = f"{values.mean():.{digits}f}"
    return f"{mean} ± {values.std(ddof=1):.{digits}f}" if values.size > 1 else mean


def in_standard_deviations(ours: np.ndarray, paper: float) -> str:
    """Difference of our mean to the paper's number, in standard deviations over our repetitions.

    Examples
    --------
    >>> in_standard_deviations(np.array([1.0, 3.0]), 1.0), in_standard_deviations(np.array([2.0, 2.0]), 1.0)
    ('+0.7', 'no spread')
    """
    if ours.size < 2 or ours.std(ddof=1) == 0:
        return "equal" if ours.mean() == paper else "no spread"
    return f"{(ours.mean() - paper) / ours.std(ddof=1):+.1f}"


def _last(name: str) -> Callable[[Record], float]:
    """The value at the largest m."""
    return lambda result: float(result[name][-1])


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two series of losses differ by at most 0.01 or the larger of their standard deviations, in the mean."""
    spread = max(one.std(ddof=1), other.std(ddof=1)) if min(one.size, other.size) > 1 else 0.0
    return bool(one.mean() - other.mean() <= max(_CLOSE, spread))


def _mean_of_means(values: dict[str, np.ndarray]) -> float:
    """Mean over datasets of the means over splits."""
    return float(np.mean([of_splits.mean() for of_splits in values.values()]))


def _names(datasets: Sequence[str]) -> str:
    return ", ".join(TITLES[name] for name in datasets) if datasets else "none"


def findings(records: Sequence[Record]) -> list[Finding]:
    """The paper's claims, each with what was measured."""
    results = Results(records)
    return [
        _matches_the_baseline(results),
        _bound_holds_and_says_something(results),
        _beats_uniform_weights(results),
        _is_quasiconvex(results),
        _direct_is_as_good_as_validation(results),
        _is_faster(results),
        _small_pools_suffice(results),
        _guarantees_reach_as_far(results),
    ]


def _missing(claim: str, experiments: str) -> Finding:
    return Finding(claim, None, f"Not measured: this run has no results of {experiments}.")


def _matches_the_baseline(results: Results) -> Finding:
    claim = "The weighted vote of weak SVMs is as accurate as the cross-validated SVM."
    names = results.datasets("comparison", "baseline")
    if not names:
        return _missing(claim, "comparison and baseline")
    vote = results.by_dataset("comparison", names, lambda r: r["vote"])
    base = results.by_dataset("baseline", names, lambda r: r["loss"])
    close = [name for name in names if _close(vote[name], base[name])]
    far = {name: vote[name].mean() - base[name].mean() for name in names if name not in close}
    exceptions = ", ".join(f"{TITLES[name]} (+{gap:.3f})" for name, gap in far.items())
    means = _mean_of_means(vote), _mean_of_means(base)
    return Finding(
        claim,
        len(close) > len(names) / 2,
        f"Within 0.01 or one standard deviation on {len(close)} of {len(names)} datasets"
        + (f"; not on {exceptions}" if exceptions else "")
        + f". Mean test loss {means[0]:.4f} against {means[1]:.4f}.",
    )


def _bound_holds_and_says_something(results: Results) -> Finding:
    claim = "The bound is above the loss that it bounds, and far from vacuous."
    names = results.datasets("comparison")
    if not names:
        return _missing(claim, "comparison")
    bound = results.by_dataset("comparison", names, lambda r: r["bound"])
    loss = results.by_dataset("comparison", names, lambda r: r["randomised"])
    runs = sum(values.size for values in bound.values())
    above = sum(int(np.sum(bound[name] >= loss[name])) for name in names)
    largest = max(names, key=lambda name: bound[name].mean())
    gap = np.mean([np.mean(bound[name] - loss[name]) for name in names])
    return Finding(
        claim,
        bool(above == runs and bound[largest].max() < 0.5),
        f"Above the randomised classifier's test loss in {above} of {runs} runs; the largest is "
        f"{bound[largest].mean():.3f} on {TITLES[largest]}. On average it is {gap:.3f} above the test loss.",
    )


def _beats_uniform_weights(results: Results) -> Finding:
    claim = "Weighting by the bound is better than uniform weights."
    names = results.datasets("weighting")
    if not names:
        return _missing(claim, "weighting")
    gains = {
        name: results.values("weighting", name, _last("uniform")) - results.values("weighting", name, _last("vote"))
        for name in names
    }
    better = [name for name in names if gains[name].mean() > 0]
    worse = [name for name in names if gains[name].mean() <= 0]
    return Finding(
        claim,
        len(better) > len(names) / 2,
        f"At the largest m the weighted vote is better on {len(better)} of {len(names)} datasets, by "
        f"{_mean_of_means(gains):.3f} on average" + (f"; not on {_names(worse)}." if worse else "."),
    )


def _is_quasiconvex(results: Results) -> Finding:
    claim = "F(lambda) is quasiconvex in practice, and alternating minimisation finds its global minimum."
    names = results.datasets("f_lambda")
    if not names:
        return _missing(claim, "f_lambda")

    def count(value: Callable[[Record], float]) -> int:
        return int(sum(results.values("f_lambda", name, value).sum() for name in names))

    runs = count(lambda r: 1)
    quasiconvex, convex = count(lambda r: r["quasiconvex"]), count(lambda r: r["convex"])
    guaranteed = count(lambda r: r["guaranteed"])
    found = count(lambda r: r["F_alternating"] <= r["F_global"] * (1 + 1e-6))
    return Finding(
        claim,
        quasiconvex == runs and found == runs,
        f"Quasiconvex in {quasiconvex} of {runs} runs at m = n, convex on the grid in {convex}, proved quasiconvex in "
        f"{guaranteed}. Alternating minimisation reached the global minimum in {found}.",
    )


def _direct_is_as_good_as_validation(results: Results) -> Finding:
    claim = "Choosing lambda by the bound is as good as choosing it on a validation set."
    names = results.datasets("validation")
    if not names:
        return _missing(claim, "validation")
    direct = results.by_dataset("validation", names, lambda r: r["direct"])
    validate = results.by_dataset("validation", names, lambda r: r["validate"])
    close = [name for name in names if _close(direct[name], validate[name])]
    means = _mean_of_means(direct), _mean_of_means(validate)
    return Finding(
        claim,
        len(close) > len(names) / 2,
        f"Within 0.01 or one standard deviation on {len(close)} of {len(names)} datasets. Mean test loss "
        f"{means[0]:.4f} by the bound, {means[1]:.4f} by validation, which has additional data.",
    )


def _is_faster(results: Results) -> Finding:
    claim = "Training takes a fraction of the time of cross-validation."
    names = results.datasets("runtime", "baseline")
    if not names:
        return _missing(claim, "runtime and baseline")
    ratios = {
        name: results.values("baseline", name, lambda r: r["seconds"]).mean()
        / results.values("runtime", name, _last("seconds")).mean()
        for name in names
    }
    slowest, fastest = min(ratios, key=lambda name: ratios[name]), max(ratios, key=lambda name: ratios[name])
    return Finding(
        claim,
        bool(min(ratios.values()) > 1),
        f"At m = n, {ratios[slowest]:.1f} times ({TITLES[slowest]}) to {ratios[fastest]:.0f} times ({TITLES[fastest]}) "
        "faster than cross-validating and training the strong SVM, on the same cores.",
    )


def _small_pools_suffice(results: Results) -> Finding:
    claim = "Relatively small m is enough to match the baseline."
    names = results.datasets("runtime", "baseline")
    if not names:
        return _missing(claim, "runtime and baseline")
    shares = {}
    for name in names:
        base = results.values("baseline", name, lambda r: r["loss"]).mean()
        ms = results.values("runtime", name, lambda r: r["m"])[0]
        votes = np.mean(results.values("runtime", name, lambda r: r["vote"]), axis=0)
        enough = np.flatnonzero(votes <= base + _CLOSE)
        if enough.size:
            shares[name] = ms[enough[0]] / ms[-1]
    half = [name for name in shares if shares[name] <= 0.5]
    return Finding(
        claim,
        len(half) > len(names) / 2,
        f"With r = d + 1, m of at most n / 2 comes within 0.01 of the baseline on {len(half)} of {len(names)} datasets"
        + (f" (not on {_names([name for name in names if name not in half])})." if len(half) < len(names) else "."),
    )


def _guarantees_reach_as_far(results: Results) -> Finding:
    claim = "Theorem var guarantees quasiconvexity for pools of some dozens of hypotheses."
    names = results.datasets("quasiconvexity")
    if not names:
        return _missing(claim, "quasiconvexity")
    ours = results.by_dataset("quasiconvexity", names, lambda r: r["theorem_var"])
    stronger = results.by_dataset("quasiconvexity", names, lambda r: r["stronger"])
    complete = [
        name
        for name in names
        if np.all(stronger[name] >= results.values("quasiconvexity", name, lambda r: r["largest"]))
    ]
    return Finding(
        claim,
        all(bool(values.mean() >= 20) for values in ours.values()),
        f"Up to m = {min(v.mean() for v in ours.values()):.0f} to {max(v.mean() for v in ours.values()):.0f} on "
        f"average by Theorem var. The library's check for all lambda guarantees every m up to n on {len(complete)} of "
        f"{len(names)} datasets in every repetition ({_names(complete)}).",
    )


def tables(records: Sequence[Record]) -> list[Table]:
    """The paper's numbers beside ours."""
    results = Results(records)
    made = [
        _against_the_paper(
            results,
            "baseline",
            "Test loss of the cross-validated SVM",
            lambda r: r["loss"],
            BASELINE_LOSS,
            3,
            "The paper's numbers are the captions of figures heatmap_kernel and appheatmap, rounded to two digits.",
        ),
        _against_the_paper(
            results,
            "quasiconvexity",
            "Largest m with quasiconvexity guaranteed by Theorem var",
            lambda r: r["theorem_var"],
            LARGEST_GUARANTEED_M,
            0,
            "m in steps of 10, tuned intervals and refined b; no less than K(0,0) + 1, below which F is always "
            "quasiconvex. The last column is what the library's check of Theorem global-min for all lambda guarantees, "
            "with m up to n.",
            extra=("All conditions", lambda r: r["stronger"]),
        ),
        _against_the_paper(
            results,
            "comparison",
            "Hypotheses that hold half of the posterior mass",
            lambda r: r["half_mass"],
            HALF_MASS,
            1,
            "At m = n.",
        ),
        _losses_at_the_largest_m(results),
    ]
    return [table for table in made if table.rows]


def _against_the_paper(
    results: Results,
    experiment: str,
    title: str,
    value: Callable[[Record], float],
    reported: dict[str, Any],
    digits: int,
    note: str,
    extra: tuple[str, Callable[[Record], float]] | None = None,
) -> Table:
    rows = []
    for name in results.datasets(experiment):
        ours = results.values(experiment, name, value)
        known = name in reported
        row = [
            TITLES[name],
            f"{reported[name]:g}" if known else "not in the paper",
            mean_sd(ours, digits),
            in_standard_deviations(ours, reported[name]) if known else "",
        ]
        rows.append(row + ([mean_sd(results.values(experiment, name, extra[1]), digits)] if extra else []))
    header = ["Dataset", "Paper", "Here", "Difference in sd", *([extra[0]] if extra else [])]
    return Table(experiment, title, header, rows, note)


def _losses_at_the_largest_m(results: Results) -> Table:
    rows = []
    for name in results.datasets("comparison"):
        of_pool = [
            mean_sd(results.values("comparison", name, lambda r, key=key: r[key]))  # type: ignore[misc]
            for key in ("vote", "randomised", "best", "bound")
        ]
        base = name in results.datasets("baseline")
        rows.append(
            [
                TITLES[name],
                mean_sd(results.values("baseline", name, lambda r: r["loss"])) if base else "not run",
                *of_pool,
            ]
        )
    return Table(
        "losses",
        "Test losses and bound at m = n",
        ["Dataset", "Cross-validated SVM", "Weighted vote", "Randomised", "Best hypothesis", "PAC-Bayes-kl bound"],
        rows,
        "Mean and standard deviation over splits (figure mjv-vs-rnd). The bound is on the randomised classifier; "
        "kernel widths come from the whole sample, as in the paper, so it is not strict.",
    )
