"""The page of a fit: what was proved, from what, and how to check it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pacbayes._versions import collect_versions
from pacbayes._wording import rounded_up, what_is_proved
from pacbayes.display._drawing import fitted
from pacbayes.report._certificate import bounds_table, figures_of
from pacbayes.report._html import Table, render_page

if TYPE_CHECKING:
    from pacbayes.classifier import PACBayesClassifier

# Names of features and classes that are shown; of more, their number.
_MOST_NAMES = 40

Facts = dict[str, str | list[str]]


def fit_page(
    model: PACBayesClassifier,
    *,
    title: str | None = None,
    data: Mapping[str, Any] | None = None,
    class_counts: Mapping[Any, int] | None = None,
    settings: Mapping[str, Any] | None = None,
    X_test: Any = None,
    y_test: Any = None,
    heaviest: int = 10,
    model_path: str = "model.skops",
    certificate_path: str = "model.certificate.json",
) -> str:
    """Page of a fit: what was proved, what was assumed, plots, voters, data, settings, and how to verify it.

    Parameters
    ----------
    model : PACBayesClassifier
        Fitted classifier.
    title : str, optional
        Title of the page.
    data : mapping, optional
        What else is known about the data, by name: a file, its checksum, the target.
    class_counts : mapping, optional
        Number of training points of each class, by its label. A model does not know them.
    settings : mapping, optional
        What else the fit depends on, by name. The settings of the model are shown in any case.
    X_test, y_test : array-like, optional
        Independent points and labels that were not used in training: adds the test error and what it proves.
    heaviest : int, default=10
        Number of voters to show.
    model_path, certificate_path : str
        Files that the lines for verification name.

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
    >>> "the majority vote errs on at most" in page
    True
    """
    from pacbayes.report._describing import parameters
    from pacbayes.report._plots import certificate_plot, posterior_plots

    model = fitted(model)
    if heaviest < 1:
        raise ValueError(f"heaviest must be at least 1, got {heaviest!r}")
    certificate = model.certificate_
    plot, display = certificate_plot(model, X_test, y_test)
    bounds = bounds_table(certificate)
    if y_test is not None:
        for bar in display.bars[-2:]:
            what, who = bar.label.split("\n")
            bounds.rows.append([f"{what[0].upper()}{what[1:]}", rounded_up(bar.value), who])
    changed, left = parameters(model)
    return render_page(
        "fit.html.jinja",
        title=title or "A classifier with a certificate",
        certificate=certificate,
        vacuous=certificate.gibbs_bound >= 1,
        guessing=_guessing(model),
        sentence=what_is_proved(certificate),
        tiles=_tiles(model),
        bounds=bounds,
        figures=figures_of(certificate),
        certificate_plot=plot,
        plots=posterior_plots(model),
        voters=_voters(model, heaviest),
        data=_data_facts(model, class_counts) | {name: _words(value) for name, value in (data or {}).items()},
        settings={
            **{name: _words(value) for name, value in (settings or {}).items()},
            **changed,
        },
        defaults=left,
        versions=collect_versions(),
        json=certificate.to_json(),
        command=f"pacbayes verify {shlex.quote(certificate_path)} --model {shlex.quote(model_path)}",
        lines=_verification(model, model_path, certificate_path),
    )


def _words(value: Any) -> str | list[str]:
    """A fact as text, or as words to be told apart."""
    if isinstance(value, (list, tuple)):
        return [str(word) for word in value]
    return str(value)


def _tiles(model: PACBayesClassifier) -> list[tuple[str, str, str]]:
    """The two numbers, whom they are about, and where they come from. Two names, two numbers, always."""
    certificate = model.certificate_
    nothing = "nothing is proved"
    loss = "error" if certificate.loss == "zero_one" else f"{certificate.loss} loss"
    randomised = ("Randomised classifier", f"{rounded_up(certificate.gibbs_bound)}", f"{loss} at most; PAC-Bayes-kl")
    vote = ("Majority vote", f"{rounded_up(certificate.vote_bound)}", "error at most; twice as much")
    if certificate.voting == "best":
        vote = ("Majority vote", vote[1], "error at most; one hypothesis has all the weight")
    if certificate.gibbs_bound >= 1:
        randomised = (*randomised[:2], nothing)
    if certificate.loss != "zero_one":
        vote = ("Majority vote", "-", f"the bound does not apply to {certificate.loss}")
    elif certificate.vote_bound >= 1:
        vote = (*vote[:2], nothing)
    measured = ("Validation loss", rounded_up(certificate.empirical_loss), "measured, of the randomised classifier")
    return [vote, randomised, measured]


def _guessing(model: PACBayesClassifier) -> str | None:
    """Error of guessing one of the classes at random, if the bound is no better; None if it is."""
    certificate, chance = model.certificate_, 1 - 1 / model.classes_.size
    comparable = certificate.loss == "zero_one" and chance <= certificate.gibbs_bound < 1
    return f"{chance:.1%}" if comparable else None


def _voters(model: PACBayesClassifier, heaviest: int) -> Table:
    """The hypotheses with the largest weights."""
    from pacbayes.report._describing import describe

    rho = model.posterior_
    order = np.argsort(-rho, kind="stable")[: min(heaviest, np.count_nonzero(rho))]
    drawn = _drawn(model.param_distributions)
    sizes = model.subsamples_.sizes
    rows = []
    for rank, h in enumerate(order):
        rows.append(
            [
                f"{rank + 1}",
                _weight(rho[h]),
                _weight(rho[order[: rank + 1]].sum()),
                rounded_up(model.losses_[h]),
                f"{sizes[h]}" if sizes[h] else "-",
                f"{h}",
                describe(model.hypotheses_[h], model.classes_, drawn),
            ]
        )
    header = ["Rank", "Weight", "Together", "Validation loss", "Subsample size", "Hypothesis", "What it is"]
    note = f"{np.count_nonzero(rho)} of {rho.size} hypotheses have weight."
    if not sizes.any():
        note += " They were trained elsewhere: all points here validate."
    return Table("voters", "Heaviest voters", header, rows, note)


def _drawn(param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> list[str]:
    """Names of the parameters that were drawn at random."""
    if not param_distributions:
        return []
    spaces = [param_distributions] if isinstance(param_distributions, Mapping) else param_distributions
    return list(dict.fromkeys(name for space in spaces for name in space))


def _weight(mass: float) -> str:
    return f"{mass:.4f}" if mass >= 1e-4 else f"{mass:.1e}"


def _data_facts(model: PACBayesClassifier, class_counts: Mapping[Any, int] | None) -> Facts:
    """Shape of the data, as far as the model knows it."""
    points = f"{model.subsamples_.n}"
    if model.estimator is None and model.gamma_source == "reserved":
        points += f", besides the reserved ones (reserved_size={model.reserved_size})"
    counts = {str(label): count for label, count in (class_counts or {}).items()}
    classes = [
        f"{label} ({counts[str(label)]})" if str(label) in counts else f"{label}" for label in model.classes_.tolist()
    ]
    facts: Facts = {
        "Points": points,
        "Features": f"{model.n_features_in_}",
        f"Classes ({len(classes)})": _some(classes),
    }
    if hasattr(model, "feature_names_in_"):
        facts["Names of the features"] = _some(model.feature_names_in_)
    return facts


def _some(names: Iterable[Any]) -> list[str]:
    """Names, but not too many."""
    words = [str(name) for name in names]
    more = len(words) - _MOST_NAMES
    return words if more <= 0 else [*words[:_MOST_NAMES], f"and {more} more"]


def _verification(model: PACBayesClassifier, model_path: str, certificate_path: str) -> str:
    """Lines of Python that recompute the certificate."""
    losses = "model.losses_" if model.prior is None else "model.losses_, model.prior"
    return f"""from pathlib import Path

from pacbayes import Certificate, model_file

model, _ = model_file.load({model_path!r})
certificate = Certificate.from_json(Path({certificate_path!r}).read_text(encoding="utf-8"))
certificate.verify({losses})  # raises CertificateError if it does not follow"""
