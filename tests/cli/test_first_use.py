"""What a new user's tables come to, from the shell: models that open again, gaps, ids, dates and mistakes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from small_session import ENVIRONMENT, QUICK, table

from pacbayes import Certificate, Monitor, PACBayesClassifier
from pacbayes.io import StreamedTable, _csv, load_model, open_table
from pacbayes.pools import EstimatorPool

NO_MODEL = "'none.skops' is not a model that can be loaded: there is no such file"


def test_thousands_of_distinct_texts_make_a_small_model(invoke):
    rows = table(600)
    rows["name"] = [f"customer {k % 500} of the shop" for k in range(600)]
    rows.to_csv("data.csv", index=False)
    fitted = invoke("fit", "data.csv", "--target", "kind", *QUICK)
    assert fitted.exit_code == 0, fitted.output
    # With the texts in every group of hypotheses, it took ten times as much.
    result = invoke("predict", "model.skops", "data.csv", "-o", "out.csv", "--max-bytes", 10_000_000)
    assert result.exit_code == 0, result.output
    assert "600 predictions" in result.output


def test_a_limit_is_named_by_its_option(invoke, refuses, numeric):
    numeric.to_csv("data.csv", index=False)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    message = refuses("predict", "model.skops", "data.csv", "--max-bytes", 100_000)
    assert "it takes more than 97.7 KiB of memory, the limit that max_bytes (--max-bytes) sets" in message


@pytest.mark.parametrize("columns", [["size", "noise"], ["size", "noise", "city"]])
def test_gaps_that_training_had_none_of_are_filled_counted_and_said(invoke, columns):
    rows = table(150).rename(columns={"<b>noise</b>": "noise"})
    rows[[*columns, "kind"]].to_csv("data.csv", index=False)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    new = table(20, seed=1).rename(columns={"<b>noise</b>": "noise"})[columns]
    new.loc[[2, 5], "noise"], new.loc[7, "size"], new.loc[8, "size"] = np.nan, np.nan, 99.0
    new.to_csv("new.csv", index=False)
    result = invoke("predict", "model.skops", "new.csv", "-o", "out.csv")
    assert result.exit_code == 0, result.output
    message = "missing values in columns that had none in training, 'size' (1), 'noise' (2): they are filled"
    assert result.stderr.count(message) == 1
    assert "values smaller or larger than all of training in 'size' (1)" in result.stderr
    # In Python as well, and each row by itself.
    model, _ = load_model("model.skops")
    with pytest.warns(UserWarning, match="had none in training, 'size'"):
        together = model.predict(new)
    assert pd.read_csv("out.csv")["prediction"].tolist() == together.tolist()
    with pytest.warns(UserWarning, match=r"had none in training, 'noise' \(1\)"):
        assert model.predict(new.iloc[[5]]).tolist() == [together[5]]


def test_arrays_with_gaps_are_refused_as_scikit_learn_does():
    rows = table(150)[["size", "<b>noise</b>", "kind"]]
    model = PACBayesClassifier(n_hypotheses=10, random_state=0).fit(rows.iloc[:, :2].to_numpy(), rows["kind"])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict(np.array([[np.nan, 1.0]]))


def test_rows_without_a_target_are_left_out_if_asked_for(invoke, refuses, mixed):
    mixed.loc[[3, 10, 149], "kind"] = None
    mixed.to_csv("data.csv", index=False)
    message = refuses("fit", "data.csv", "--target", "kind", *QUICK)
    assert "'kind' is missing in 3 of 150 rows" in message
    assert "--skip-missing-target" in message
    arguments = ("fit", "data.csv", "--target", "kind", "--skip-missing-target", "--test-size", 0.2, *QUICK)
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert "3 rows of 150 left out: the target 'kind' is missing there" in result.stderr
    assert "147 rows; " in result.stdout
    certificate = Certificate.from_json(Path("model.certificate.json").read_text())
    assert "targets-known" in certificate.assumption_codes
    # The same rows are found again, to verify and to predict those that were held out.
    verified = invoke("verify", "model.certificate.json", "--model", "model.skops", "--data", "data.csv")
    assert "arithmetic, model and data" in verified.output, verified.output
    held_out = invoke("predict", "model.skops", "data.csv", "--held-out", "-o", "out.csv")
    assert "29 predictions" in held_out.output
    assert "were trained on" not in held_out.output


def test_rows_without_a_target_are_left_out_of_large_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(_csv, "_BLOCK_SIZE", 2**15)
    rows = table(9000)
    rows.loc[::100, "kind"] = None
    rows.to_csv(tmp_path / "data.csv", index=False)
    whole, streamed = (
        open_table(tmp_path / "data.csv", "kind", skip_missing_target=True, max_bytes=size) for size in (2**30, 400_000)
    )
    assert isinstance(streamed, StreamedTable)
    assert streamed.schema == whole.schema
    assert (streamed.schema.source.n_rows, streamed.schema.source.skipped) == (8910, 90)


def test_numbers_that_hardly_repeat_are_warned_of(invoke):
    rng = np.random.default_rng(0)
    rows = table(489)
    rows["Order Number"] = rng.permutation(np.append(10 * np.arange(454), 10 * rng.integers(454, size=35)))
    rows.to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "kind", *QUICK)
    assert "'Order Number' may be an id: it holds 454 whole numbers in 489 rows" in result.stderr


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_a_target_of_values_that_hardly_repeat_is_refused_unless_asked_for(invoke, refuses):
    rows = table(60)
    rows["price"] = [str(k % 40) + " EUR" for k in range(60)]
    rows.to_csv("data.csv", index=False)
    message = refuses("fit", "data.csv", "--target", "price", *QUICK)
    assert message.startswith("the target 'price' holds 40 different values in 60 rows, an id or an amount rather")
    assert message.endswith("or give --many-classes")
    assert invoke("fit", "data.csv", "--target", "price", "--many-classes", *QUICK).exit_code == 0


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_number_and_no_class_is_cut(invoke, monkeypatch, width):
    rng = np.random.default_rng(0)
    names = ["Iris setosa variety", "Iris versicolor longer", "Iris virginica", "another class", "e class", "f"]
    kinds = rng.choice(names, 300)
    pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300), "kind": kinds}).to_csv("data.csv", index=False)
    monkeypatch.setenv("COLUMNS", str(width))
    shown = invoke("fit", "data.csv", "--target", "kind", *QUICK).stdout
    assert "…" not in shown
    assert "100.00%" in shown
    table = shown[shown.index("By class, on ") : shown.index("How it is proved")]
    assert ("as Iris" in " ".join(table.split())) == (width == 200)  # the confusion matrix goes first
    words = ("setosa", "versicolor", "virginica", "another", "e class", "missed", "points")
    assert all(word in table for word in words)
    borders = [line for line in table.splitlines() if line.startswith(("┏", "└"))]
    assert all(line.endswith(("┓", "┘")) for line in borders)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "none.csv", "--target", "kind"), "'none.csv': there is no such file"),
        (("fit", "data.csv", "--target", "kind", "--delta", "5"), "delta must be in (0, 1), got 5.0"),
        (
            ("predict", "none.skops", "data.csv"),
            "'none.skops' is not a model that can be loaded: there is no such file",
        ),
        (("report", "none.skops"), "'none.skops' is not a model that can be loaded: there is no such file"),
        (("certify", "none.csv", "--n", "50"), "'none.csv': there is no such file"),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_is_imported(tmp_path, arguments, message):
    (tmp_path / "data.csv").write_text("x,kind\n1,a\n")
    code = "import sys; from pacbayes.cli import app; sys.argv[0] = 'pacbayes'\n"
    code += "try: app()\nfinally: print({'numpy', 'sklearn', 'pandas', 'scipy'} & set(sys.modules))"
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert (result.returncode, result.stderr) == (2, f"pacbayes: {message}\n")
    assert result.stdout == "set()\n"


def test_a_model_is_loaded_without_the_whole_of_scikit_learn(invoke, numeric):
    numeric.to_csv("data.csv", index=False)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    (numeric[:20].drop(columns="kind") * 1.01).to_csv("new.csv", index=False)
    # A default model needs what reads a table and predicts, and nothing else. One of scikit-learn's trees needs skops,
    # which would import all estimators.
    assert (
        invoke("fit", "data.csv", "--target", "kind", "--estimator", "tree", "-o", "tree.skops", *QUICK).exit_code == 0
    )
    needless = {
        "model.skops": r"(skops|matplotlib|jinja2|openpyxl|dask|pytest)(\..*)?|scipy\.(ndimage|stats\..*)|"
        r"sklearn\.(?!base|utils|exceptions|externals|frozen|callback|_)\w+",
        "tree.skops": r"sklearn\.gaussian_process|pytest|matplotlib|jinja2",
    }
    code = "import re, sys; from typer.testing import CliRunner; from pacbayes.cli import app\n"
    code += "def run(name): print(CliRunner().invoke(app, ['predict', name, 'new.csv', '-o', 'out.csv']).exit_code)\n"
    code += "def show(names): print([name for name in sys.modules if re.fullmatch(names, name)])\n"
    code += f"run('model.skops'); show({needless['model.skops']!r})\n"
    # A process that goes on imports what it likes afterwards, and skops knows all estimators.
    code += "import scipy.stats.mstats; from scipy.stats import *; print(norm.cdf(0))\n"
    code += f"run('tree.skops'); show({needless['tree.skops']!r}); run('tree.skops')\n"
    code += "import skops.io; from sklearn.cluster import KMeans\n"
    code += "print(skops.io.get_untrusted_types(data=skops.io.dumps(KMeans())))"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert result.stdout.split() == ["0", "[]", "0.5", "0", "[]", "0", "[]"], result.stdout + result.stderr


def test_costs_on_the_command_line(invoke, refuses, numeric, no_pictures):
    numeric.to_csv("data.csv", index=False)
    fitted = invoke("fit", "data.csv", "--target", "kind", "--cost", "wet:dry=8", *QUICK)
    assert fitted.exit_code == 0, fitted.output
    assert "of the largest cost, 8" in " ".join(fitted.output.split())
    model, _ = load_model("model.skops")
    assert model.loss == [[0, 1], [8, 0]]
    assert model.classes_.tolist() == ["dry", "wet"]
    # Missing a wet one costs eight times as much: fewer of them are missed.
    plain = invoke("fit", "data.csv", "--target", "kind", "-o", "plain.skops", *QUICK)
    assert plain.exit_code == 0
    missed = [load_model(name)[0].certificate_.confusion.counts[1][0] for name in ("model.skops", "plain.skops")]
    assert missed[0] <= missed[1]
    for command in (("predict", "model.skops", "data.csv", "-o", "out.csv"), ("report", "model.skops")):
        assert invoke(*command).exit_code == 0
    for cost in ("wet:dry", "wet=5", "wet:dry=-1", "wet:dry=much", "wet:dry=inf"):
        message = refuses("fit", "data.csv", "--target", "kind", "--cost", cost)
        assert message == f"--cost must be TRUTH:PREDICTED=COST, such as fraud:fine=5, got {cost!r}"
    for cost in ("wet:snow=5", "dry:dry=5"):
        message = refuses("fit", "data.csv", "--target", "kind", "--cost", cost)
        assert message == f"--cost must name two different classes, of 'dry', 'wet', got {cost[:-2]!r}"
    message = refuses("fit", "data.csv", "--target", "kind", "--cost", "wet:dry=0", "--cost", "dry:wet=0")
    assert message == "--cost must leave some error that costs something"


def test_mistakes_that_newcomers_make(invoke, refuses, numeric):
    numeric.to_csv("data.csv", index=False)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    message = refuses("predict", "model.certificate.json", "data.csv")
    assert message.endswith(
        "it is JSON, as a certificate is: give the model that was saved with it, by default *.skops"
    )
    Path("data.xlsx").write_bytes(b"PK\x03\x04 whatever")
    message = refuses("fit", "data.xlsx", "--target", "kind")
    assert message.startswith("'data.xlsx': not an Excel workbook (.xlsx) that can be read")
    message = refuses("predict", "model.skops", "data.csv", "-o", "out.xlsx")
    assert message == "predictions are written as CSV or Parquet, and spreadsheets open CSV: give -o out.csv"
    Path("two.csv").write_text("x,kind\n1,a\n2,b\n")
    result = invoke("fit", "two.csv", "--target", "kind")
    assert result.exit_code == 2
    assert "X must hold enough rows to train on, to validate and to test, got 2" in result.stderr


def test_a_workbook_from_fit_to_verification(invoke, mixed):
    """All that a CSV file of the same rows does, and the same model."""
    mixed = mixed.round(6)  # openpyxl writes 16 digits
    mixed.to_csv("data.csv", index=False)
    with pd.ExcelWriter("data.xlsx") as writer:
        mixed[::-1].to_excel(writer, sheet_name="older", index=False)
        mixed.to_excel(writer, sheet_name="rows", index=False)
    sheet = ("--sheet", "rows")
    for data, how in (("data.csv", ()), ("data.xlsx", sheet)):
        fitted = invoke("fit", data, "--target", "kind", "--test-size", 0.2, "-o", f"{data}.skops", *how, *QUICK)
        assert fitted.exit_code == 0, fitted.output
    model, schema = load_model("data.xlsx.skops")
    assert model.certificate_ == load_model("data.csv.skops")[0].certificate_
    assert schema.source.sheet == "rows"
    for arguments in (
        ("predict", "data.xlsx.skops", "data.xlsx", "-o", "workbook.csv", *sheet),
        ("predict", "data.xlsx.skops", "data.csv", "-o", "text.csv"),
        ("predict", "data.xlsx.skops", "data.xlsx", "-o", "held.csv", "--held-out"),
        ("verify", "data.xlsx.certificate.json", "--model", "data.xlsx.skops", "--data", "data.xlsx"),
    ):
        result = invoke(*arguments)
        assert result.exit_code == 0, result.output
    assert Path("workbook.csv").read_bytes() == Path("text.csv").read_bytes()


def test_mistakes_that_newcomers_make_in_python():
    rows = table(60)
    X, y = rows[["size", "<b>noise</b>"]].to_numpy(), rows["kind"].to_numpy()
    for text in (np.array([["a", "b"]] * 60), [["a", "b"]] * 60, np.array([["a", 1.0]] * 60, dtype=object)):
        with pytest.raises(ValueError, match="X must hold numbers, got text, 'a': give a data frame"):
            PACBayesClassifier().fit(text, y)
    for learner in (Ridge(), make_pipeline(Ridge()), EstimatorPool(Ridge())):
        with pytest.raises(ValueError, match="estimator must be a classifier, got the regressor"):
            PACBayesClassifier(learner).fit(X, y)


@pytest.fixture
def daily(invoke):  # which goes to a folder of its own
    """A daily table whose classes change at the end."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=400), "size": rng.normal(size=400)})
    rows["kind"] = np.where((rows["size"] > 0) == (np.arange(400) < 320), "wet", "dry")
    rows.to_csv("data.csv", index=False)
    return rows


def test_rows_in_the_order_of_time_are_warned_of(invoke, daily):
    fit = ("fit", "data.csv", "--target", "kind", *QUICK)
    assert "the rows are in the order of 'day'" in invoke(*fit).stderr
    daily.sample(frac=1, random_state=0).to_csv("data.csv", index=False)
    assert "in the order of" not in invoke(*fit).stderr


def test_the_last_rows_are_held_out_and_the_certificate_says_what_it_means(invoke, refuses, daily):
    daily.sample(frac=1, random_state=0).to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "kind", "--time", "day", *QUICK)
    assert result.exit_code == 0, result.output
    shown = " ".join(result.stdout.split())
    assert "NOT STRICT: rows follow each other in time, and no bound covers those that come later" in shown
    assert "The theorem does not cover this fit. If it did: with probability at least 0.95" in shown
    assert "in 80 rows" in shown
    assert "the last ones by 'day': measured, and no bound on those that come after them" in shown
    certificate = Certificate.from_json(Path("model.certificate.json").read_text())
    assert not certificate.strict
    assert not any(row.covered for row in certificate.rows() if row.kind == "certified")
    # They are found again, and err where the others do not.
    assert invoke("predict", "model.skops", "data.csv", "--held-out", "--all-columns", "-o", "out.csv").exit_code == 0
    last = pd.read_csv("out.csv")
    assert last["day"].min() == "2020-11-16"
    assert (last["prediction"] != last["kind"]).mean() > 0.8 > 0.5 > certificate.bound
    # Nor is anything proved about those of its answers that it is sure of.
    for option, said in (("--max-error", "the error among the others would be at most 0.9"), ("--coverage", "")):
        told = invoke("predict", "model.skops", "data.csv", "--held-out", "-o", "out.csv", option, 0.9).stderr
        assert said in told
        assert "proved" not in told
        assert "NOT STRICT: rows follow each other in time" in told
    verified = invoke("verify", "model.certificate.json", "--model", "model.skops", "--data", "data.csv")
    assert "Verified: arithmetic, model and data" in verified.output, verified.output
    assert "NOT STRICT" in invoke("certify", "--model", "model.skops", "data.csv", "--held-out").output
    with pytest.raises(ValueError, match="not strict"):
        Monitor(certificate)
    assert "there is no column 'kind' of dates" in refuses("fit", "data.csv", "--target", "kind", "--time", "kind")


def test_classes_that_weigh_the_same_miss_fewer_rows_of_a_rare_one(invoke):
    rng = np.random.default_rng(0)
    size, is_rare = rng.normal(size=1500), rng.random(1500) < 0.06
    rows = pd.DataFrame({"size": size + 1.2 * is_rare, "city": rng.choice(["Oslo", "Rome"], 1500)})
    rows.assign(kind=np.where(is_rare, "rare", "usual")).to_csv("data.csv", index=False)
    missed = []
    for options in ((), ("--class-weight", "balanced")):
        arguments = ("--families", "linear", "--n-hypotheses", 4, "--jobs", 1, *options)
        result = invoke("fit", "data.csv", "--target", "kind", *arguments)
        assert result.exit_code == 0, result.output
        certificate = Certificate.from_json(Path("model.certificate.json").read_text())
        missed.append(certificate.class_rates()[certificate.labels.index("rare")].misses.measured)
        assert certificate.strict
    assert missed[0] > 0.8 > 0.5 > missed[1]
    model, _ = load_model("model.skops")
    assert model.verify_certificate(certificate) == "arithmetic and model"
    # SVMs alone, and in the union.
    for families in (("--estimator", "svm"), ("--families", "svm,linear", "--scaler", "standard")):
        weighed = ("--class-weight", "balanced", "--n-hypotheses", 6, "--jobs", 1, *families)
        assert invoke("fit", "data.csv", "--target", "kind", *weighed).exit_code == 0
        pool = load_model("model.skops")[0].estimator
        assert {one.class_weight for _, one in pool.members()} == {"balanced"}
