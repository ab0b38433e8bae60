"""Ordinary files as people have them, each given to the program: what it prints, and its exit code.

Some are given to a process of its own as well, by ``pytest -m slow``.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from small_session import ENVIRONMENT, QUICK
from typer.testing import CliRunner

from pacbayes._formatting import format_count
from pacbayes.cli import app

FIT = ("--target", "kind", *QUICK)

# What predict says about the rows of fit.
SEEN = "pacbayes: 120 of 120 rows are rows that the model was trained on: the certificate is about new rows\n"


in_any_process = pytest.mark.parametrize(
    "program", ["in this process", pytest.param("in its own", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture
def program(request, tmp_path, monkeypatch):
    """Run the program in a folder of its own; return what it prints, if it ends as expected."""
    monkeypatch.chdir(tmp_path)

    def program(*arguments, stdin=None, code=0):
        arguments = [str(argument) for argument in arguments]
        if getattr(request, "param", "") == "in its own":
            command = [sys.executable, "-m", "pacbayes", *arguments]
            done = subprocess.run(command, input=stdin, capture_output=True, env=ENVIRONMENT, check=False)
            ended, said, warned = done.returncode, done.stdout.decode(), done.stderr.decode()
        else:
            result = CliRunner().invoke(app, arguments, input=stdin)
            ended, said, warned = result.exit_code, result.stdout, result.stderr
        assert ended == code, warned
        assert "Traceback" not in warned
        return said, warned

    return program


def rows(n=120, seed=0):
    """Two classes that can nearly be told apart."""
    rng = np.random.default_rng(seed)
    size, weight = rng.normal(size=(2, n)).round(3)
    return pd.DataFrame(
        {"size": size, "weight": weight, "kind": np.where(size + 0.3 * rng.normal(size=n) > 0, "wet", "dry")}
    )


def read_output(text):
    return list(csv.DictReader(io.StringIO(text)))


# ---------------------------------------------------------------------------------------------------
# How files are written
# ---------------------------------------------------------------------------------------------------


def test_an_index_column_without_a_name(program, tmp_path):
    rows().to_csv(tmp_path / "data.csv")
    said, warned = program("fit", "data.csv", *FIT)
    assert "120 rows; 2 columns of numbers and 0 of text" in said
    assert "  numbers   'size', 'weight'\n" in said
    assert "  left out  'Unnamed: 0' (numbers the rows)\n" in said
    assert warned == ""
    predicted, warned = program("predict", "model.skops", "data.csv")
    assert len(read_output(predicted)) == 120
    assert warned == f"pacbayes: columns that the model does not use: 'Unnamed: 0'\n{SEEN}"


def test_separators_at_the_ends_of_lines(program, tmp_path):
    (tmp_path / "data.csv").write_text(rows().to_csv(index=False).replace("\n", ",\n"))
    said, _ = program("fit", "data.csv", *FIT)
    assert "  left out  'Unnamed: 3' (is empty)\n" in said


def archive(data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("data.csv", data)
        members.writestr("__MACOSX/._data.csv", b"what macOS adds")
    return buffer.getvalue()


COMPRESSIONS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
    "zip": archive,
}


def test_compressed_files(program, tmp_path):
    content = rows().to_csv(index=False).encode()
    (tmp_path / "data.csv").write_bytes(content)
    program("fit", "data.csv", *FIT)
    plain = (tmp_path / "model.certificate.json").read_text()
    for extension, compress in COMPRESSIONS.items():
        (tmp_path / f"data.csv.{extension}").write_bytes(compress(content))
        program("fit", f"data.csv.{extension}", *FIT)
        assert (tmp_path / "model.certificate.json").read_text() == plain
    # By what is in it, whatever its name.
    (tmp_path / "data.zip").write_bytes(archive(content))
    assert len(read_output(program("predict", "model.skops", "data.zip")[0])) == 120
    program("verify", "model.certificate.json", "--model", "model.skops", "--data", "data.csv.gz")


@in_any_process
def test_semicolons_and_decimal_commas(program, tmp_path):
    data = rows()
    data.to_csv(tmp_path / "points.csv", index=False)
    data.to_csv(tmp_path / "commas.csv", index=False, sep=";", decimal=",")
    program("fit", "points.csv", *FIT)
    plain = (tmp_path / "model.certificate.json").read_text()
    said, warned = program("fit", "commas.csv", *FIT)
    assert "120 rows; 2 columns of numbers and 0 of text" in said
    assert warned == "pacbayes: warning: commas are read as decimal marks: give --decimal . if they are not\n"
    assert (tmp_path / "model.certificate.json").read_text() == plain
    program("verify", "model.certificate.json", "--model", "model.skops", "--data", "commas.csv")
    predicted = program("predict", "model.skops", "commas.csv")
    assert predicted == program("predict", "model.skops", "points.csv", "--decimal", ".")
    # Otherwise the mark of training counts, and what contradicts it is refused.
    cell = f"column 'size', row 1: is '{data['size'][0]}' a number with a decimal comma, as in training"
    assert cell in program("predict", "model.skops", "points.csv", code=2)[1]
    program("fit", "points.csv", *FIT)
    _, warned = program("predict", "model.skops", "commas.csv", code=2)
    cell = str(data["size"][0]).replace(".", ",")
    assert f"column 'size', row 1: '{cell}' is not a number with a decimal point (decimal=, --decimal)" in warned
    assert predicted == program("predict", "model.skops", "commas.csv", "--decimal", ",")
    # Asked otherwise, they are text.
    said, warned = program("fit", "commas.csv", "--decimal", ".", *FIT)
    assert "0 columns of numbers and" in said or "left out" in said
    assert "'size'" in warned + said
    # A point beside them is a contradiction.
    lines = (tmp_path / "commas.csv").read_text().splitlines()
    (tmp_path / "both.csv").write_text("\n".join([lines[0], "1.5;2,5;wet", *lines[2:]]))
    _, warned = program("fit", "both.csv", *FIT, code=2)
    assert warned == (
        "pacbayes: 'both.csv': column 'size', row 1: '1.5' is not a number with a decimal comma (decimal=, --decimal), "
        "and most of the column are; correct it, or declare it as missing (missing=, --missing), or the column as text "
        "(text=, --text), or leave it out (drop=, --drop)\n"
    )


def test_quoted_decimal_commas_on_demand(program, tmp_path):
    data = rows()
    data.to_csv(tmp_path / "data.csv", index=False, decimal=",", quoting=csv.QUOTE_ALL)
    said, _ = program("fit", "data.csv", "--decimal", ",", *FIT)
    assert "120 rows; 2 columns of numbers and 0 of text" in said


def test_warnings_of_many_columns(program, tmp_path):
    order = np.random.default_rng(0)
    ids = {f"key {j}": 3 * order.permutation(120) for j in range(40)}
    rows().assign(**ids).to_csv(tmp_path / "data.csv", index=False)
    _, warned = program("fit", "data.csv", *FIT)
    *lines, last = warned.splitlines()
    assert lines == [
        f"pacbayes: warning: 'key {j}' may be an id: it holds another whole number in every row (--drop would leave it "
        "out)"
        for j in range(12)
    ]
    assert last.startswith("pacbayes: warning: 28 more columns may not be what they seem: 'key 12', 'key 13', ")
    assert last.endswith(" and 16 more (pacbayes.io.inspect_table says why)")


@pytest.mark.parametrize(("separator", "options"), [("\t", ()), ("|", ()), (":", ("--separator", ":"))])
def test_other_separators(program, tmp_path, separator, options):
    rows().to_csv(tmp_path / "data.csv", index=False, sep=separator)
    assert "  numbers   'size', 'weight'\n" in program("fit", "data.csv", *options, *FIT)[0]


def test_latin_1(program, tmp_path):
    text = rows().assign(kind=lambda data: data["kind"].map({"wet": "naß", "dry": "trocken"})).to_csv(index=False)
    text = text.replace("size", "größe")
    (tmp_path / "data.csv").write_bytes(text.encode("latin-1"))
    said, warned = program("fit", "data.csv", *FIT)
    assert "  numbers   'größe', 'weight'\n" in said
    assert warned == (
        "pacbayes: warning: the file is not UTF-8, and was read as Windows-1252 (Latin-1): give --encoding if it is "
        "not\n"
    )
    assert {row["prediction"] for row in read_output(program("predict", "model.skops", "data.csv")[0])} == {
        "naß",
        "trocken",
    }
    (tmp_path / "utf16.csv").write_bytes(text.encode("utf-16"))
    assert "  numbers   'größe', 'weight'\n" in program("fit", "utf16.csv", *FIT)[0]
    (tmp_path / "koi8.csv").write_bytes(text.replace("größe", "вес").replace("ß", "з").encode("koi8-r"))
    assert "  numbers   'вес', 'weight'\n" in program("fit", "koi8.csv", "--encoding", "koi8-r", *FIT)[0]


@in_any_process
def test_standard_input(program, tmp_path):
    content = rows().to_csv(index=False).encode()
    said, _ = program("fit", "-", *FIT, stdin=content)
    assert "120 rows; 2 columns of numbers" in said
    predicted, warned = program("predict", "model.skops", "-", stdin=gzip.compress(content))
    assert (len(read_output(predicted)), warned) == (120, SEEN)
    parquet = io.BytesIO()
    rows().to_parquet(parquet)
    assert program("predict", "model.skops", "-", stdin=parquet.getvalue())[0] == predicted
    assert "the majority vote errs on at most" in program("certify", "-", "--n", 50, stdin=b"0.1\n0.2\n")[0]
    assert program("fit", "-", *FIT, stdin=b"", code=2)[1] == "pacbayes: standard input: nothing came in\n"
    _, warned = program("fit", "-", *FIT, stdin=b"x,kind\n1,a\n2\n", code=2)
    assert warned == "pacbayes: standard input: line 3: 1 cells, and the first row has 2\n"


def test_dates(program, tmp_path):
    data = rows()
    data["day"] = pd.date_range("2024-01-01", periods=120, freq="36h")
    data["zoned"] = data["day"].dt.tz_localize("Europe/Oslo")
    data["date"] = data["day"].dt.date
    data.to_parquet(tmp_path / "data.parquet")
    said, _ = program("fit", "data.parquet", *FIT)
    assert "2 columns of numbers, 3 of dates and 0 of text" in said
    assert "  dates     'day', 'zoned', 'date', as days since 1970, and places in year, week and day\n" in said
    # The same as text, in the form that has one meaning.
    data.to_csv(tmp_path / "data.csv", index=False)
    predicted = program("predict", "model.skops", "data.parquet")[0]
    assert program("predict", "model.skops", "data.csv")[0] == predicted
    assert program("predict", "model.skops", "-", stdin=data.assign(day=None).to_csv(index=False).encode())[0]
    said, _ = program("fit", "data.csv", *FIT, "--estimator", "tree", "--n-hypotheses", 5)
    assert "  dates     'day', 'zoned', 'date', as days since 1970\n" in said
    assert program("predict", "model.skops", "data.parquet")[0] == program("predict", "model.skops", "data.csv")[0]
    data["day"] = data["day"].dt.strftime("%d.%m.%Y")
    data.to_csv(tmp_path / "german.csv", index=False)
    _, warned = program("predict", "model.skops", "german.csv", code=2)
    assert "column 'day', row 1: '01.01.2024' is not a date such as 2024-01-31" in warned


# ---------------------------------------------------------------------------------------------------
# What is in them
# ---------------------------------------------------------------------------------------------------


def test_predicted_values_that_are_written_in_another_way(program, tmp_path):
    data = rows()
    data["big"] = data["size"] > 0
    data.to_csv(tmp_path / "data.csv", index=False)
    program("fit", "data.csv", *FIT)
    data.assign(size=0.5, big=data["big"].astype(int)).to_csv(tmp_path / "new.csv", index=False)
    _, warned = program("predict", "model.skops", "new.csv")
    assert "the model knows no value of 'big': are they written as in the table it was trained on?" in warned
    data.assign(size=0.5).to_csv(tmp_path / "new.csv", index=False)
    assert program("predict", "model.skops", "new.csv")[1] == ""


def test_labels_with_blanks_and_in_other_case(program, tmp_path):
    data = rows()
    data["kind"] = data["kind"].map({"wet": "Yes", "dry": "No"})
    data.loc[:9, "kind"] = data.loc[:9, "kind"] + " "
    data.to_parquet(tmp_path / "data.parquet")
    data.to_csv(tmp_path / "data.csv", index=False)
    for name in ("data.csv", "data.parquet"):
        said, warned = program("fit", name, *FIT)
        assert "2 classes in 'kind'" in said
        assert warned == ""
    data.loc[:9, "kind"] = data.loc[:9, "kind"].str.strip().str.lower()
    data.to_csv(tmp_path / "data.csv", index=False)
    said, warned = program("fit", "data.csv", *FIT)
    assert "4 classes in 'kind'" in said
    assert "warning: the target 'kind' has labels that differ only in blanks or case: 'No', 'no'\n" in warned
    assert "warning: the target 'kind' has labels that differ only in blanks or case: 'Yes', 'yes'\n" in warned


def test_ids(program, tmp_path):
    # Sorted by class, as iris with its `Id` is: the number of the row tells the class.
    data = rows().sort_values("kind")
    data.insert(0, "Id", np.arange(1, 121))
    data["customer"] = np.random.default_rng(0).permutation(10**6)[:120]
    data["name"] = [f"customer {i}" for i in range(120)]
    data["note"] = [
        f"{i} came by {way} in the {part}"
        for i, way, part in zip(
            range(120), np.resize(["train", "car"], 120), np.resize(["morning", "evening", "night"], 120), strict=True
        )
    ]
    data.to_csv(tmp_path / "data.csv", index=False)
    said, warned = program("fit", "data.csv", *FIT)
    assert "  numbers   'size', 'weight', 'customer'\n" in said
    assert "  text      'note'" in said  # different in every row, too, but its words are not
    assert (
        "  left out  'Id' (numbers the rows), 'name' (is text that is different in every row, as names and ids are)\n"
    ) in said
    assert warned == (
        "pacbayes: warning: 'customer' may be an id: it holds another whole number in every row "
        "(--drop would leave it out)\n"
    )
    said, warned = program("fit", "data.csv", "--drop", "customer", "--keep", "Id", *FIT)
    assert "  numbers   'Id', 'size', 'weight'\n" in said
    assert "  left out  'customer' (asked for), 'name' (" in said
    assert warned == "pacbayes: warning: 'Id' numbers the rows (--drop would leave it out)\n"


def test_columns_that_say_nothing_or_too_much(program, tmp_path):
    data = rows().assign(empty=None, unit="cm", version=2, comment=[f"text {i % 80}" for i in range(120)])
    data["answer"] = data["kind"].map({"wet": 1, "dry": 0})
    data["price"] = [f"{i % 9},50 €" for i in range(120)]
    data["day"] = [f"{1 + i % 28}/{1 + i % 12}/2024" for i in range(120)]
    data.to_csv(tmp_path / "data.csv", index=False)
    said, warned = program("fit", "data.csv", *FIT)
    assert "left out  'empty' (is empty), 'unit' (holds one value only, 'cm'), 'version' (is 2 throughout)\n" in said
    assert warned.splitlines() == [
        "pacbayes: warning: 'comment' has 80 different values in 120 rows: hardly any can be learned from "
        "(--drop would leave it out)",
        "pacbayes: warning: 'answer' determines the class in every row: is it a copy of the target, or known only "
        "afterwards? (--drop would leave it out)",
        "pacbayes: warning: 'price' is read as text, and '0,50 €' looks like a number: write digits and a point only "
        "(--drop would leave it out)",
        "pacbayes: warning: 'day' is read as text, and '1/1/2024' looks like a date: write dates as 2024-01-31 "
        "(--drop would leave it out)",
    ]
    values = json.loads(program("fit", "data.csv", "--json", *FIT)[0])
    assert values["left_out"] == {
        "empty": "is empty",
        "unit": "holds one value only, 'cm'",
        "version": "is 2 throughout",
    }
    assert values["kinds"]["comment"] == "text"


@in_any_process
def test_nothing_is_left_to_learn_from(program, tmp_path):
    pd.DataFrame({"Id": range(40), "kind": ["a", "b"] * 20}).to_csv(tmp_path / "data.csv", index=False)
    _, warned = program("fit", "data.csv", *FIT, code=2)
    assert warned == "pacbayes: no column is left to learn from without 'Id'\n"
    assert "there is no column 'x'" in program("fit", "data.csv", "--drop", "x", *FIT, code=2)[1]
    assert "there is no column 'x'" in program("fit", "data.csv", "--keep", "x", *FIT, code=2)[1]
    assert "'kind' is the target" in program("fit", "data.csv", "--drop", "kind", *FIT, code=2)[1]


def test_a_number_to_predict(program, tmp_path):
    rng = np.random.default_rng(0)
    data = rows(400).assign(kind=np.r_[np.arange(119), rng.integers(0, 119, 400 - 119)])
    data.to_csv(tmp_path / "data.csv", index=False)
    said, warned = program("fit", "data.csv", "--task", "classification", *FIT)
    assert "119 classes in 'kind'" in said
    assert warned == (
        "pacbayes: warning: the target 'kind' holds 119 different whole numbers, from 0 to 118, which are taken for "
        "classes: to predict a number instead, task='regression' (--task regression)\n"
    )


# ---------------------------------------------------------------------------------------------------
# Predictions and tests
# ---------------------------------------------------------------------------------------------------


def test_predictions_beside_columns_of_the_table(program, tmp_path):
    data = rows()
    data.to_csv(tmp_path / "data.csv", index=False)
    program("fit", "data.csv", *FIT)
    new = rows(10, seed=1).drop(columns="kind")
    new.insert(0, "customer", [f"=c{i}" for i in range(10)])
    new["remark"] = ["fine", None] * 5
    new.to_csv(tmp_path / "new.csv", index=False)

    plain, warned = program("predict", "model.skops", "new.csv")
    assert warned == "pacbayes: columns that the model does not use: 'customer', 'remark'\n"
    assert plain.splitlines()[0] == "prediction,share_dry,share_wet"
    for row in read_output(plain):
        assert all(len(row[name]) <= len("0.1234") for name in ("share_dry", "share_wet"))
        assert float(row["share_dry"]) + float(row["share_wet"]) == pytest.approx(1, abs=1e-3)

    named, warned = program("predict", "model.skops", "new.csv", "--id", "customer")
    assert [row["customer"] for row in read_output(named)] == new["customer"].tolist()
    assert [row["prediction"] for row in read_output(named)] == [row["prediction"] for row in read_output(plain)]
    assert "a spreadsheet would take '=c0', '=c1'" in warned
    escaped, _ = program("predict", "model.skops", "new.csv", "--id", "customer", "--escape-formulas")
    assert read_output(escaped)[0]["customer"] == "'=c0"

    everything, warned = program("predict", "model.skops", "new.csv", "--all-columns")
    assert everything.splitlines()[0] == "customer,size,weight,remark,prediction,share_dry,share_wet"
    assert "does not use" not in warned
    values = json.loads(program("predict", "model.skops", "new.csv", "--id", "remark", "--json")[0])
    assert values["columns"] == {"remark": ["fine", None] * 5}
    _, warned = program("predict", "model.skops", "new.csv", "--id", "phone", code=2)
    assert warned.startswith("pacbayes: --id: there is no column 'phone', only 'customer', 'size'")
    new.assign(prediction=1).to_csv(tmp_path / "new.csv", index=False)
    _, warned = program("predict", "model.skops", "new.csv", "--all-columns", code=2)
    assert "the table has a column 'prediction' as the predictions have" in warned


def test_one_of_a_kind(program, tmp_path):
    data = rows()[["size", "kind"]].assign(city=["Oslo", None] * 60)
    data.to_csv(tmp_path / "data.csv", index=False)
    said, _ = program("fit", "data.csv", *FIT)
    assert "120 rows; 1 column of numbers and 1 of text" in said
    assert "  text      'city' (1 value)\n" in said
    data[:1].to_csv(tmp_path / "new.csv", index=False)
    assert program("predict", "model.skops", "new.csv", "-o", "out.csv")[0] == "1 prediction  out.csv\n"


def test_rows_that_were_held_out(program, tmp_path, no_pictures):
    data = rows(200)
    data.insert(0, "Id", [f"r{i}" for i in range(200)])
    data.to_csv(tmp_path / "data.csv", index=False)
    said, _ = program("fit", "data.csv", "--test-size", 0.25, *FIT)
    line = next(line for line in said.splitlines() if line.startswith("held-out test: "))
    # The rows, as they are in the file.
    predicted = read_output(program("predict", "model.skops", "data.csv", "--held-out", "--all-columns")[0])
    errors = sum(row["prediction"] != row["kind"] for row in predicted)
    assert len(predicted) == 50
    assert {row["Id"] for row in predicted} < set(data["Id"])
    assert f"{format_count(errors, 'error')} in 50 rows" in line
    # The test, counted again, and in the report.
    values = json.loads(program("certify", "--model", "model.skops", "data.csv", "--held-out", "--json")[0])
    assert (values["rows"], values["errors"]) == (50, errors)
    program("report", "model.skops")
    assert f"{format_count(errors, 'error')} in 50 rows" in (tmp_path / "report.html").read_text()
    _, warned = program("certify", "--model", "model.skops", "data.csv", code=2)
    assert "rows that it has not seen are needed (--held-out takes those)" in warned
    rows(200, seed=1).assign(Id="x").to_csv(tmp_path / "other.csv", index=False)
    _, warned = program("predict", "model.skops", "other.csv", "--held-out", code=2)
    assert "'other.csv' is not the file that the model was made from: --held-out needs 'data.csv'" in warned
    program("fit", "data.csv", *FIT)
    _, warned = program("predict", "model.skops", "data.csv", "--held-out", code=2)
    assert "the model was trained on all rows" in warned


def test_texts_that_training_has_not_seen_are_nothing_strange(program, tmp_path):
    colors = np.resize(["red", "green", "dark red", "light green"], 200)
    data = rows(200).assign(note=[f"a {color} one, seen on {k}" for k, color in enumerate(colors)])
    data["kind"] = ["wet" if "red" in color else "dry" for color in colors]
    data[:120].to_csv(tmp_path / "data.csv", index=False)
    data[120:].to_csv(tmp_path / "new.csv", index=False)
    program("fit", "data.csv", *FIT)
    said, warned = program("predict", "model.skops", "new.csv", "-o", "out.csv")
    assert "knows no value" not in warned
    assert "80 predictions" in said
