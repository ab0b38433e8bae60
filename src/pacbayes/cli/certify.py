"""``pacbayes certify``: a certificate from losses alone, or from a model and rows that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pacbayes
from pacbayes import io
from pacbayes._progress import show_progress
from pacbayes.cli._command import usage_error
from pacbayes.cli._console import print_certificate, print_json, print_lines, test_values
from pacbayes.cli._tables import Objective, TableOptions, check_exists, check_model_exists, check_output, is_source


def certify(
    data: Path,
    n: int | None = None,
    n_max: int | None = None,
    column: str | None = None,
    delta: float = 0.05,
    objective: Objective = Objective["lambda"],
    output: Path | None = None,
    model: Path | None = None,
    target: str | None = None,
    held_out: bool = False,
    groups: str | None = None,
    weights: str | None = None,
    max_weight: float | None = None,
    weights_estimated: bool = False,
    *,
    options: TableOptions,
    json: bool = False,
) -> None:
    """Certify hypotheses by their validation losses, or one model by rows that it has not seen.

    From losses: weights that minimise a PAC-Bayesian bound, and what is proved about the weighted vote. With --model:
    the exact binomial bound (Clopper-Pearson) on the error of the model's vote and on its errors by class, which takes
    the model as one classifier, fixed before the rows were seen; of predicted numbers, bounds on their mean error,
    intervals and the curve of errors. Rows that it was trained on are refused.

    Parameters
    ----------
    data
        Losses, one per line or a column of a CSV file; with --model, a table. - for standard input.
    n
        Points that each loss was measured on; the smallest number, if they differ.
    n_max
        The largest such number. [default: the same]
    output
        File for the certificate.
    model
        Test this model on the table instead.
    target
        With --model: column of the classes or numbers. [default: as in training]
    groups
        With --model: column of groups, the error of each of which is bounded as well, all at once.
    weights
        With --model: column of weights, for a certificate about another distribution than that of the rows: its density
        relative to theirs, or a multiple. A row is kept with probability weight / --max-weight.
    max_weight
        Largest weight that any row can have, known beforehand.
    weights_estimated
        The weights are estimates: the certificate is not strict then.
    """
    if model is not None:
        if (n, n_max, column) != (None, None, None):
            raise usage_error("--n, --n-max and --column belong to a file of losses, not to --model")
        check_model_exists(model)
    elif held_out or groups or weights or max_weight is not None or weights_estimated:
        raise usage_error("--held-out, --groups, --weights, --max-weight and --weights-estimated belong to --model")
    elif n is None:
        raise usage_error("--n is needed: the number of points that each loss was measured on")
    check_exists(data)
    if output is not None:
        check_output(
            output, [data, *([] if model is None else [model])], "the certificate must go to a file of its own"
        )
    if model is None:
        losses = io.read_losses(data, column, **options.limit())
        settings: dict[str, Any] = {"n": n, "n_max": n_max, "delta": delta, "objective": str(objective)}
        certificate, rho = pacbayes.certify(losses, **settings)
    else:
        fitted, schema = options.load_with_schema(model)
        carry = groups is not None or weights is not None
        table = options.read(data, schema, held_out, target or schema.target, carry=carry)
        if table.y is None:
            raise usage_error("the model does not say which column is its target: give --target")
        if not held_out and is_source(table, schema):
            raise usage_error(
                f"{str(data)!r} is the file that the model was trained on: rows that it has not seen are needed"
                + (" (--held-out takes those)" if schema.test or schema.number_test else "")
            )
        with show_progress(f"testing on {len(table.X)} rows"):
            by_column = {"groups": groups, "weights": weights}
            columns = {key: table.stored_column(name) for key, name in by_column.items() if name is not None}
            shift = {"max_weight": max_weight, "weights_estimated": weights_estimated}
            certificate = fitted.certify(table.X, table.y, delta=delta, **shift, **columns)
    if output is not None:
        io.write_atomic({output: certificate.to_json().encode()})
    if model is not None:
        _print_test(certificate, json)
    elif json:
        print_json({"certificate": certificate, "posterior": rho.tolist()})
    else:
        print_certificate(certificate)
    if output is not None and not json:
        print_lines(f"certificate  {output}")


def _print_test(certificate: pacbayes.Certificate, json: bool) -> None:
    from pacbayes.certificate.assumptions import SHIFT_ASSUMPTIONS, describe_assumption

    figures = certificate.statements[0].figures
    numeric = certificate.numbers is not None
    method, exact = ("Clopper-Pearson", ", exact") if "errors" in figures else ("Chernoff", "")
    if numeric:
        method = "betting"
    if json:
        who = certificate.predictor if numeric else "vote"
        values: dict[str, Any] = {"kind": f"held-out test bound ({method}) on the {who}"}
        if numeric:
            values |= {"rows": figures["n"], "bound": certificate.error_bound if certificate.bound < 1 else None}
        if "errors" in figures:
            values |= test_values(io.HeldOutTest(int(figures["n"]), int(figures["errors"]), certificate.delta))
        print_json({**values, "certificate": certificate})
        return
    print_certificate(certificate, in_full=False)
    alike = "" if certificate.shift else ", and so are the points to predict"
    of_tests = ("groups-declared", *SHIFT_ASSUMPTIONS)
    further = [code for code in certificate.assumption_codes if code.partition(":")[0] in of_tests]
    print_lines(
        f"This is the held-out test-set bound for a single {'regressor' if numeric else 'classifier'} "
        f"({method}{exact}).",
        "Assuming that:",
        f"  - the rows are independent and identically distributed{alike}",
        "  - the model was trained and chosen without them",
        *(f"  - {describe_assumption(code)}" for code in further),
    )
