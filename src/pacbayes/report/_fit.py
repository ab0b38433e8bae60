"""The page of a fit: the certificate, what it rests on, and how to verify it."""

from __future__ import annotations

import copy
import inspect
import reprlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbayes._formatting import format_nearest
from pacbayes._versions import collect_versions
from pacbayes.certificate import Certificate, Row
from pacbayes.display.checks import check_fitted, state_test
from pacbayes.pools import as_pool
from pacbayes.report._html import Table, render_page
from pacbayes.report._importance import tabulate_importances
from pacbayes.report._plots import certificate_plot, posterior_plots

if TYPE_CHECKING:
    from pacbayes.classifier import PACBayesClassifier

# Names of features and classes that are shown; of more, their number.
_MOST_NAMES = 40

# Letters of a setting, or of the description of a hypothesis.
_LONGEST = 160

_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 6
_SHORT.maxstring = _SHORT.maxother = _LONGEST

Facts = dict[str, str | list[str]]


def fit_page(
    model: PACBayesClassifier,
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
    model : PACBayesClassifier
        Fitted classifier.
    title : str, optional
        Title of the page.
    data : mapping, optional
        Further facts about the data, by name: a file, its checksum, the target.
    class_counts : mapping, optional
        Number of training points of each class, by its label; by default those that the certificate knows.
    settings : mapping, optional
        Further settings of the fit, by name. The settings of the model are always shown.
    X, y : array-like, optional
        The training sample, in the same order: adds which features matter, measured on the rows that were held out.
    X_test, y_test : array-like, optional
        Independent points and labels that were not used in training: adds the test error and its bound, and which
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
    >>> model = PACBayesClassifier(random_state=0).fit(X, y)
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
    fitted = copy.copy(model)
    fitted.__dict__.update(model._fitted_settings)  # what was changed after the fit is no setting of it
    changed, defaults = _split_settings({"": fitted, "estimator__": as_pool(fitted.estimator)})
    return render_page(
        "fit.html.jinja",
        title=title or "A classifier with a certificate",
        certificate=certificate,
        tiles=[(_capitalize(a.title), a.value, _capitalize(a.remark)) for a in certificate.answers(tested)],
        by_class=_tabulate_classes(certificate),
        columns=tabulate_importances(model, X, y, X_test, y_test),
        bounds=_tabulate_rows(certificate.rows(tested)),
        certificate_plot=certificate_plot(model, tested),
        plots=posterior_plots(model),
        voters=_tabulate_voters(model, heaviest),
        data=_list_data_facts(model, class_counts) | {name: _as_words(value) for name, value in (data or {}).items()},
        settings={name: _as_words(value) for name, value in (settings or {}).items()} | changed,
        defaults=defaults,
        versions=collect_versions(),
        json=certificate.to_json(),
        command=f"pacbayes verify {shlex.quote(certificate_path)} --model {shlex.quote(model_path)}",
        lines=_verification_code(model_path, certificate_path),
    )


def _as_words(value: Any) -> str | list[str]:
    """Return a fact as text, or as a list of words that the page sets apart."""
    if isinstance(value, (list, tuple)):
        return [str(word) for word in value]
    return str(value)


def _tabulate_classes(certificate: Certificate) -> tuple[Table, list[str]] | None:
    """Return misses and false alarms of each class with the confusion matrix, and notes about them."""
    table = certificate.class_table()
    if table is None:
        return None
    header = [_capitalize(name) for name in table.header]
    return Table("by-class", table.title, header, table.rows, ""), table.notes


def _capitalize(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _tabulate_rows(rows: Sequence[Row]) -> Table:
    kinds = {
        ("measured", True): ", measured",
        ("certified", True): ", certified",
        ("certified", False): ", not covered by the theorem",
    }
    cells = [
        [f"{_capitalize(row.label)}{kinds.get((row.kind, row.covered), '')}", row.shown, row.predictor] for row in rows
    ]
    note = "Bounds are rounded up, measured losses to the nearest."
    if any(row.kind == "comparison" for row in rows):
        note += " Bounds without a remark are there to compare with: the certificate does not state them."
    return Table("bounds", "Bounds", ["Loss or bound", "Value", "Whose loss"], cells, note)


def _tabulate_voters(model: PACBayesClassifier, heaviest: int) -> Table:
    """Tabulate the hypotheses with the largest weights."""
    rho, sizes = model.posterior_, model.subsamples_.sizes
    order = np.argsort(-rho, kind="stable")[: min(heaviest, np.count_nonzero(rho))]
    rows = [
        [
            f"{rank + 1}",
            _format_weight(rho[h]),
            _format_weight(rho[order[: rank + 1]].sum()),
            format_nearest(model.losses_[h]),
            f"{sizes[h]}" if sizes[h] else "-",
            f"{h}",
            _cut(model.hypotheses_.describe(int(h))),
        ]
        for rank, h in enumerate(order)
    ]
    header = ["Rank", "Weight", "Cumulative", "Validation loss", "Subsample size", "Hypothesis", "Description"]
    note = f"{np.count_nonzero(rho)} of {rho.size} hypotheses have weight."
    if not sizes.any():
        note += " They were trained on other data."
    return Table("voters", "Heaviest voters", header, rows, note)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _format_weight(mass: float) -> str:
    return f"{mass:.4f}" if mass >= 1e-4 else f"{mass:.1e}"


def _split_settings(estimators: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return settings that were changed, and those with their default values, of estimators by prefix of their names.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> changed, defaults = _split_settings({"tree__": DecisionTreeClassifier(max_depth=3)})
    >>> changed, defaults["tree__min_samples_leaf"]
    ({'tree__max_depth': '3'}, '1')
    """
    changed: dict[str, str] = {}
    defaults: dict[str, str] = {}
    for prefix, estimator in estimators.items():
        signature = inspect.signature(type(estimator).__init__).parameters
        for name, value in estimator.get_params(deep=False).items():
            # The texts are compared, not the values: an array does not compare to None.
            is_default = name in signature and _show(value) == _show(signature[name].default)
            (defaults if is_default else changed)[f"{prefix}{name}"] = _show(value)
    return changed, defaults


def _show(value: Any) -> str:
    """Return the repr of a setting on one line, shortened in the middle if it is long."""
    return " ".join(_SHORT.repr(value).split())


def _list_data_facts(model: PACBayesClassifier, class_counts: Mapping[Any, int] | None) -> Facts:
    """Return the shape of the data, as far as the model knows it."""
    known = dict(zip(model.certificate_.labels, model.certificate_.label_counts, strict=True))
    counts = {str(label): count for label, count in (class_counts or known).items()}
    classes = [
        f"{label} ({counts[str(label)]})" if str(label) in counts else f"{label}" for label in model.classes_.tolist()
    ]
    tested = model.certificate_.statements[0].figures["n"] if model.certificate_.is_tested else 0
    use = "train and validate" if model.subsamples_.sizes.any() else "validate"
    facts: Facts = {
        f"Points that {use}": f"{model.subsamples_.n}",
        **({"Points held out for the certificate": f"{tested}"} if tested else {}),
        "Features": f"{model.n_features_in_}",
        f"Classes ({len(classes)})": _cut_list(classes),
    }
    if hasattr(model, "feature_names_in_"):
        facts["Names of the features"] = _cut_list(model.feature_names_in_)
    return facts


def _cut_list(names: Iterable[Any]) -> list[str]:
    """Return the first names, and the number of the others."""
    words = [str(name) for name in names]
    more = len(words) - _MOST_NAMES
    return words if more <= 0 else [*words[:_MOST_NAMES], f"and {more} more"]


def _verification_code(model_path: str, certificate_path: str) -> str:
    """Return lines of Python that verify the certificate."""
    return f"""from pathlib import Path

from pacbayes import Certificate
from pacbayes.io import load_model

model, _ = load_model({model_path!r})
certificate = Certificate.from_json(Path({certificate_path!r}).read_text(encoding="utf-8"))
print(model.verify_certificate(certificate))  # raises CertificateError if it does not follow"""
