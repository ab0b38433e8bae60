"""A certificate as HTML: its bounds, its figures, and what a notebook shows of it."""

from __future__ import annotations

from html import escape

from pacbayes._wording import rounded_up, what_is_proved
from pacbayes.bounds import pac_bayes_lambda, pac_bayes_sqrt
from pacbayes.certificate import Certificate, delta_for_smallest
from pacbayes.report._html import Table, render_page

_RANDOMISED, _VOTE = "randomised classifier", "majority vote"


def certificate_html(certificate: Certificate) -> str:
    """A certificate as an HTML fragment, for notebooks.

    Parameters
    ----------
    certificate : Certificate
        The certificate.

    Returns
    -------
    str
        An element that brings its own style; the plain text of the certificate, where jinja2 is not installed.
    """
    try:
        return render_page(
            "certificate.html.jinja",
            certificate=certificate,
            sentence=what_is_proved(certificate),
            bounds=bounds_table(certificate),
            figures=figures_of(certificate),
        )
    except ModuleNotFoundError:
        return f"<pre>{escape(str(certificate))}</pre>"


def bounds_table(certificate: Certificate) -> Table:
    """Table of the validation loss and of all bounds that follow from it, rounded up."""
    delta_min = delta_for_smallest(certificate.delta, certificate.n_validation, certificate.n_validation_max)
    figures = (certificate.empirical_loss, certificate.kl_div, certificate.n_validation)
    rows = [
        ["Validation loss, measured", rounded_up(certificate.empirical_loss), _RANDOMISED],
        ["PAC-Bayes-kl, as certified", _value(certificate.gibbs_bound), _RANDOMISED],
    ]
    # The kl bound's posterior may be sharper than any lambda of the theorem.
    if certificate.lam is not None and 0 < certificate.lam < 2:
        bound = float(pac_bayes_lambda(*figures, certificate.lam, delta_min))
        rows.append([f"PAC-Bayes-lambda, lambda = {certificate.lam:.4g}", _value(bound), _RANDOMISED])
    rows.append(["Square-root relaxation", _value(float(pac_bayes_sqrt(*figures, delta_min))), _RANDOMISED])
    note = "All numbers are rounded up. The square-root relaxation is PAC-Bayes-lambda at its best lambda."
    if certificate.loss != "zero_one":
        rows.append(["No bound for this loss", "-", _VOTE])
        note += (
            f" The bound on the majority vote is for the zero-one loss only, and does not apply to {certificate.loss}."
        )
    else:
        what = "PAC-Bayes-kl" if certificate.voting == "best" else "Twice PAC-Bayes-kl"
        rows.append([f"{what}, as certified", _value(certificate.vote_bound), _VOTE])
    tested = f"Chernoff, if tested on {certificate.n_validation} points"
    rows.append([tested, _value(certificate.held_out_bound()), "one classifier with this loss"])
    note += " Chernoff's bound is there to compare: what as many points of a test set would have proved."
    return Table("bounds", "Bounds", ["Bound", "At most", "On the loss of"], rows, note)


def figures_of(certificate: Certificate) -> dict[str, str]:
    """What the bounds are made of, by name."""
    sizes = f"{certificate.n_validation}"
    if certificate.n_validation_max > certificate.n_validation:
        sizes += f" to {certificate.n_validation_max}"
    figures = {
        "Hypotheses m": f"{certificate.n_hypotheses}",
        "Validation points of each": sizes,
        "Validation loss": rounded_up(certificate.empirical_loss),
        "KL(posterior || prior)": rounded_up(certificate.kl_div),
        "Delta": f"{certificate.delta}",
        "Posterior": _posterior(certificate),
    }
    if certificate.lam is not None:
        figures["Lambda"] = f"{certificate.lam:.4g}"
    if certificate.quasiconvex is not None:
        figures["F(lambda)"] = f"strongly quasiconvex, by the condition {certificate.quasiconvex!r}"
    return figures


def _value(bound: float) -> str:
    return f"{rounded_up(bound)}, nothing is proved" if bound >= 1 else rounded_up(bound)


def _posterior(certificate: Certificate) -> str:
    if certificate.voting == "best":
        return "all weight on the hypothesis with the smallest validation loss"
    if certificate.voting == "uniform":
        return "the prior itself"
    if certificate.global_minimum:
        return f"global minimum of the {certificate.objective} bound, proved"
    assert certificate.minimum_lower_bound is not None
    lower = f"{certificate.minimum_lower_bound:.6f}"
    return f"minimises the {certificate.objective} bound, whose minimum is at least {lower}"
