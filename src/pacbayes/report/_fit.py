"""The page of a fit: the certificate, what it rests on, and how to verify it."""

from __future__ import annotations

import reprlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pacbayes._fingerprint import default_parameters
from pacbayes._formatting import format_nearest
from pacbayes._losses import is_of_probabilities
from pacbayes._versions import collect_versions
from pacbayes.certificate import Certificate, Row, Section
from pacbayes.display.checks import check_fitted, state_test
from pacbayes.report import _plots
from pacbayes.report._html import PageTable, capitalize, render_page
from pacbayes.report._importance import JudgedRows, choose_judged_rows, tabulate_importances

# Names of features and classes that are shown; of more, their number.
_MOST_NAMES = 40

# Letters of a setting, or of the description of a hypothesis.
_LONGEST = 160

_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 6
_SHORT.maxstring = _SHORT.maxother = _LONGEST


def fit_page(
    model: Any,
    *,
    title: str | None = None,
    data: Mapping[str, Any] | None = None,
    class_counts: Mapping[Any, int] | None = None,
    settings: Mapping[str, Any] | None = None,
    X: Any = None,
    y: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    test: tuple[int, int] | None = None,
    heaviest: int = 10,
    model_path: str = "model.skops",
    certificate_path: str = "model.certificate.json",
) -> str:
    """Render the page of a fit: what is proved, errors by class, which features matter, plots, and how to verify it.

    Parameters
    ----------
    model : PACBayesClassifier or PACBayesRegressor
        Fitted model.
    title : str, optional
        Title of the page.
    data, settings : mapping, optional
        Further facts about the data (a file, its checksum, the target) and settings of the fit, by name. The settings
        of the model are always shown.
    class_counts : mapping, optional
        Number of training points of each class, by its label; by default those that the certificate knows.
    X, y : array-like, optional
        The training sample, in the same order: adds which features matter, measured on the rows that were held out,
        and predicted against true numbers.
    X_test, y_test : array-like, optional
        Independent points and targets that were not used in training: adds the test error and its bound, and which
        features matter where no rows were held out. Rows of the training sample are refused.
    test : tuple of int, optional
        Number of errors and of points of a test that was made before: `X_test` is not predicted again then.
    heaviest : int, default=10
        Number of hypotheses to show, by falling weight.
    model_path, certificate_path : str
        Names of the files in the commands for verification.

    Returns
    -------
    str
        HTML without scripts and without references to other files. Everything in it that comes from users is escaped.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from pacbayes import PACBayesClassifier
    >>> from pacbayes.report import fit_page
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = PACBayesClassifier(n_hypotheses=8, random_state=0).fit(X, y)
    >>> page = fit_page(model, title="Moons", data={"noise": 0.1})
    >>> model.certificate_.summary() in page
    True
    """
    model = check_fitted(model)
    if heaviest < 1:
        raise ValueError(f"heaviest must be at least 1, got {heaviest!r}")
    if (X is None) != (y is None):
        raise ValueError(f"X and y must be given together, got no {'X' if X is None else 'y'}")
    certificate = model.certificate_
    tested = state_test(model, X_test, y_test, test)
    # What was changed after the fit is no setting of it.
    fitted, pool = model.fitted_votes_.settings, model.fitted_votes_.pool
    values = vars(fitted) | model.fitted_votes_.task.parameters()
    chosen = {name: values[name] for name in model.get_params(deep=False)}
    changed, defaults = _split_settings(
        [("", type(model), chosen), ("estimator__", type(pool), pool.get_params(deep=False))]
    )
    judged = choose_judged_rows(model, X, y, X_test, y_test)
    numeric, tables = model.fitted_votes_.task.numeric, _collect_tables(model, judged)
    return render_page(
        "fit.html.jinja",
        title=title or f"A {'regressor' if numeric else 'classifier'} with a certificate",
        certificate=certificate,
        of_probabilities=is_of_probabilities(certificate.loss),
        answers=certificate.answers(tested),
        links=[(name, name.capitalize()) for name, _, _ in tables],
        tables=tables,
        columns=None if judged is None else tabulate_importances(model, judged),
        bounds=_tabulate_rows(certificate.rows(tested)),
        certificate_plot=_plots.certificate_plot(model, tested),
        plots=_plots.posterior_plots(model),
        voters=_tabulate_voters(model, heaviest),
        data=_list_data_facts(model, class_counts) | dict(data or {}),
        settings=dict(settings or {}) | changed,
        defaults=defaults,
        versions=collect_versions(),
        command=shlex.join(["pacbayes", "verify", certificate_path, "--model", model_path]),
        model_path=model_path,
        certificate_path=certificate_path,
    )


def _collect_tables(model: Any, judged: JudgedRows | None) -> list[tuple[str, Section, list[_plots.Plot]]]:
    """Return names, tables and plots of what is proved besides the bounds, as far as it is."""
    certificate: Certificate = model.certificate_
    sections: dict[str, tuple[Section | None, Iterable[_plots.Plot]]] = {
        "classes": (certificate.class_table(), ()),
        "groups": (certificate.group_table(), ()),
        "abstention": (certificate.abstention_table(), _plots.abstention_plots(certificate)),
        "sets": (certificate.set_table(), ()),
        "probabilities": (certificate.probability_table(), _plots.reliability_plots(certificate)),
        "intervals": (certificate.interval_table(), _plots.interval_plots(model, judged)),
        "errors": (certificate.error_table(), _plots.error_plots(certificate)),
    }
    return [(name, table, list(plots)) for name, (table, plots) in sections.items() if table is not None]


def _tabulate_rows(rows: Sequence[Row]) -> PageTable:
    cells = [
        [capitalize(row.label) + ("" if row.kind == "comparison" else f", {row.remark}"), row.shown, row.predictor]
        for row in rows
    ]
    note = "Bounds are rounded up, measured losses to the nearest."
    if any(row.kind == "comparison" for row in rows):
        note += " Bounds without a remark are for comparison: the certificate does not state them."
    return PageTable("bounds", "Bounds", ["Loss or bound", "Value", "Whose loss"], cells, note)


def _tabulate_voters(model: Any, heaviest: int) -> PageTable:
    """Tabulate the hypotheses with the largest weights."""
    rho, sizes = model.posterior_, model.subsamples_.sizes
    families = model.subsamples_.families if model.certificate_.families else {}
    order = np.argsort(-rho, kind="stable")[: min(heaviest, np.count_nonzero(rho))]
    rows = [
        [
            f"{rank}",
            _format_weight(rho[h]),
            _format_weight(rho[order[:rank]].sum()),
            format_nearest(model.losses_[h]),
            f"{sizes[h]}" if sizes[h] else "-",
            f"{h}",
            *(_cut(name) for name, own in families.items() if h in own),
            _cut(model.hypotheses_.describe(int(h))),
        ]
        for rank, h in enumerate(order, 1)
    ]
    header = ["Rank", "Weight", "Cumulative", "Validation loss", "Subsample size", "Hypothesis"]
    header += [*(["Family"] if families else []), "Description"]
    note = f"{np.count_nonzero(rho)} of {rho.size} hypotheses have weight."
    if not sizes.any():
        note += " They were trained on other data."
    return PageTable("voters", "Heaviest voters", header, rows, note)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _format_weight(mass: float) -> str:
    return f"{mass:.4f}" if mass >= 1e-4 else f"{mass:.1e}"


def _split_settings(estimators: Iterable[tuple[str, type, Mapping[str, Any]]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return settings that were changed and those with their defaults, from prefixes, types and settings."""
    changed: dict[str, str] = {}
    defaults: dict[str, str] = {}
    for prefix, kind, settings in estimators:
        known = default_parameters(kind)
        for name, value in settings.items():
            # The texts are compared, not the values: an array does not compare to None.
            is_default = name in known and _show(value) == _show(known[name])
            (defaults if is_default else changed)[f"{prefix}{name}"] = _show(value)
    return changed, defaults


def _show(value: Any) -> str:
    """Return the repr of a setting on one line, shortened in the middle if it is long."""
    return " ".join(_SHORT.repr(value).split())


def _list_data_facts(model: Any, class_counts: Mapping[Any, int] | None) -> dict[str, Any]:
    """Return the shape of the data, as far as the model knows it."""
    certificate = model.certificate_
    known = dict(zip(certificate.labels, certificate.label_counts, strict=True))
    counts = {str(label): f" ({count})" for label, count in (class_counts or known).items()}
    classes = [f"{label}{counts.get(str(label), '')}" for label in model.fitted_votes_.task.classes.tolist()]
    use = "train and validate" if model.subsamples_.sizes.any() else "validate"
    facts: dict[str, Any] = {f"Points that {use}": model.subsamples_.n}
    if certificate.is_tested:
        facts["Points held out for the certificate"] = certificate.statements[0].figures["n"]
    facts["Features"] = model.n_features_in_
    if classes:
        facts[f"Classes ({len(classes)})"] = _cut_list(classes)
    if hasattr(model, "feature_names_in_"):
        facts["Names of the features"] = _cut_list(model.feature_names_in_)
    return facts


def _cut_list(names: Sequence[Any]) -> list[Any]:
    """Return the first names, and the number of the others."""
    more = len(names) - _MOST_NAMES
    return [*names[:_MOST_NAMES], *([f"and {more} more"] if more > 0 else [])]
