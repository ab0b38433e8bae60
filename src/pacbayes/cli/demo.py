"""``pacbayes demo``: from data to a certificate, with nothing to prepare."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from pacbayes.cli._mistakes import mistakes_told
from pacbayes.cli._options import JSON
from pacbayes.cli._show import certificate_values, print_json, show_certificate


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what is made.")] = Path("pacbayes-demo"),
    json: JSON = False,
) -> None:
    """Train on scikit-learn's breast cancer data, and show what is proved."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    from pacbayes import PACBayesClassifier, model_file
    from pacbayes._writing import check_writable, write_whole
    from pacbayes.cli.fit import held_out_result, split, train
    from pacbayes.report import fit_page

    with mistakes_told():
        output.mkdir(parents=True, exist_ok=True)
        paths = {"model": output / "model.skops", "certificate": output / "model.certificate.json"}
        for path in paths.values():
            check_writable(path)
        data = load_breast_cancer(as_frame=True)
        X, y = data.data, data.target_names[data.target.to_numpy()].astype(object)
        rows, held_out = split(y.size, 0.3, seed=0)
        model = PACBayesClassifier(scaler="standard", random_state=0)
        train(model, X.iloc[rows], y[rows])
        tested = held_out_result(model, X.iloc[held_out], y[held_out], delta=0.05)
        columns = [[name, "number"] for name in X.columns]
        counts = {str(label): int(np.count_nonzero(y[rows] == label)) for label in model.classes_}
        saved = model_file.dumps(
            model, target="diagnosis", columns=columns, complete=True, source="breast cancer", class_counts=counts
        )
        write_whole({paths["model"]: saved, paths["certificate"]: model.certificate_.to_json().encode()})
        paths["report"] = output / "report.html"
        page = fit_page(
            model,
            title="Breast cancer: benign or malignant",
            data={"source": "scikit-learn's breast cancer data"},
            class_counts=counts,
            X_test=X.iloc[held_out],
            y_test=y[held_out],
            model_path=paths["model"].name,
            certificate_path=paths["certificate"].name,
        )
        paths["plot"] = output / "certificate.png"
        write_whole({paths["report"]: page.encode(), paths["plot"]: _picture(model, X.iloc[held_out], y[held_out])})
    files = {name: str(path) for name, path in paths.items()}
    if json:
        print_json({"certificate": certificate_values(model.certificate_), "test": tested, "files": files})
        return
    print(f"breast cancer data: {rows.size} rows to train on, {held_out.size} to test on, {X.shape[1]} columns")
    show_certificate(model.certificate_)
    print(f"error on the {tested['rows']} test rows: {tested['error']:.2%}")
    for name, place in files.items():
        print(f"{name:<11}  {place}")


def _picture(model: Any, X_test: Any, y_test: Any) -> bytes:
    """The certificate beside the test set, as PNG."""
    from matplotlib.figure import Figure

    from pacbayes.display import CertificateDisplay

    figure = Figure(figsize=(8, 4), layout="constrained")
    CertificateDisplay.from_estimator(model, X_test, y_test, ax=figure.add_subplot())
    png = BytesIO()
    figure.savefig(png, format="png", dpi=150)
    return png.getvalue()
