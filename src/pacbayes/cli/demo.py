"""``pacbayes demo``: from data to a certificate, with nothing to prepare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pacbayes
from pacbayes import io
from pacbayes._formatting import format_percent
from pacbayes._progress import show_progress
from pacbayes.cli._console import print_certificate, print_json, print_lines
from pacbayes.cli._imports import import_functions_first, without_list_of_estimators
from pacbayes.cli._tables import describe_data, draw, test_model, train


def demo(output: Path = Path("pacbayes-demo"), json: bool = False) -> None:
    """Train on scikit-learn's breast cancer data, and show what is proved.

    Parameters
    ----------
    output
        Folder for the files.
    """
    import_functions_first()
    from pacbayes.display import CertificateDisplay
    from pacbayes.report import fit_page

    output.mkdir(parents=True, exist_ok=True)
    names = ("model.skops", "model.certificate.json", "report.html", "certificate.png")
    paths = [output / name for name in names]
    for path in paths:
        io.check_writable(path)
    rows, held_out = _load_data().split(0.3, seed=0)
    model = pacbayes.PACBayesClassifier(random_state=0, verbose=int(not json))
    train(model, rows)
    schema = test_model(model, rows.schema, held_out, delta=0.05)
    test = schema.test
    assert test is not None
    with show_progress("drawing the report"):
        page = fit_page(
            model,
            title="Breast cancer: benign or malignant",
            X=rows.X,
            y=rows.y,
            X_test=held_out.X,
            y_test=held_out.y,
            model_path=names[0],
            certificate_path=names[1],
            **describe_data(schema),
        )
        test_set = (held_out.X, held_out.y)
        plot = draw(lambda ax: CertificateDisplay.from_estimator(model, *test_set, ax=ax), "png", 150, figsize=(8, 4))
    with without_list_of_estimators():
        content = io.dumps_model(model, schema)
    contents = (content, model.certificate_.to_json().encode(), page.encode(), plot)
    io.write_atomic(dict(zip(paths, contents, strict=True)))
    files = dict(zip(("model", "certificate", "report", "plot"), map(str, paths), strict=True))
    if json:
        print_json({"certificate": model.certificate_, "test": test, "files": files})
        return
    print_lines(
        f"breast cancer data: {len(rows.X)} rows to train on, {len(held_out.X)} to test on, {rows.X.shape[1]} columns"
    )
    print_certificate(model.certificate_, test)
    print_lines(
        f"error on the {test.n_rows} test rows: {format_percent(test.error)}",
        *(f"{name:<11}  {place}" for name, place in files.items()),
    )


def _load_data() -> io.Table:
    from sklearn.datasets import load_breast_cancer

    data: Any = load_breast_cancer(as_frame=True)
    frame = data.data.assign(diagnosis=data.target_names[data.target.to_numpy()].astype(object))
    source = io.Provenance("scikit-learn's breast cancer data", None, len(frame))
    return io.Table.from_frame(frame, "diagnosis", source=source)
