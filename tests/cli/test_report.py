import json
import sys

import pytest
from small_session import QUICK

from pacbayes.io import load_model

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def fitted(invoke, mixed, tmp_path):
    """A model of a table whose columns, classes and name hold HTML, fitted by the command line."""
    table = mixed.rename(columns={"open": EVIL})
    table["kind"] = table["kind"].map({"wet": EVIL, "dry": "dry"})
    table.to_csv(tmp_path / "<b>.csv", index=False)
    fit = invoke(
        "fit", "<b>.csv", "--target", "kind", "-o", "a model.skops", *QUICK, "--estimator", "tree", "--n-hypotheses", 5
    )
    assert fit.exit_code == 0, fit.output
    return load_model(tmp_path / "a model.skops")[0]


def test_report(invoke, fitted, tmp_path):
    result = invoke("report", "a model.skops", "-o", "page.html")
    assert result.exit_code == 0, result.output
    assert result.stdout == "report  page.html\n"
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert fitted.certificate_.summary() in page
    for assumption in fitted.certificate_.assumptions:
        assert assumption in page
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<title>&lt;b&gt;.csv</title>" in page
    assert "pacbayes verify &#39;a model.certificate.json&#39; --model &#39;a model.skops&#39;" in page


def test_options(invoke, fitted, no_pictures, tmp_path):
    result = invoke(
        "report", "a model.skops", "--title", "Mine", "--voters", 2, "--certificate", "proof.json", "--json"
    )
    assert json.loads(result.stdout) == {"report": "report.html", "model": "a model.skops"}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h1>Mine</h1>" in page
    assert "pacbayes verify proof.json --model" in page
    voters = page[page.index('<section id="voters"') :]
    assert voters[: voters.index("</section>")].count('<th scope="row"') == 2


def test_mistakes(refuses, fitted, monkeypatch):
    assert "'none.skops' is not a model that can be loaded: there is no such file" in refuses("report", "none.skops")
    assert "a file of its own" in refuses("report", "a model.skops", "-o", "a model.skops")
    assert "a file of its own" in refuses("report", "a model.skops", "-o", "a model.certificate.json")
    assert "there is no folder" in refuses("report", "a model.skops", "-o", "nowhere/page.html")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "this needs jinja2" in refuses("report", "a model.skops")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "this needs matplotlib" in refuses("report", "a model.skops")


def test_which_columns_matter(invoke, refuses, fitted, no_pictures, tmp_path):
    assert invoke("report", "a model.skops", "--data", "<b>.csv").exit_code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    columns = page[page.index('<section id="columns"') :]
    columns = columns[: columns.index("</section>")]
    # The names as they are in the file, and the one that decides first.
    assert columns.index(">size<") < columns.index(">&lt;b&gt;noise&lt;/b&gt;<")
    assert "held-out rows" in columns
    text = (tmp_path / "<b>.csv").read_text()
    (tmp_path / "short.csv").write_text(text[: text.rindex("\n", 0, -1) + 1])
    assert "it is a different table" in refuses("report", "a model.skops", "--data", "short.csv")
    lines = text.splitlines(keepends=True)
    (tmp_path / "sorted.csv").write_text("".join([lines[0], *sorted(lines[1:])]))
    assert "is not the file that the model was made from" in refuses("report", "a model.skops", "--data", "sorted.csv")
