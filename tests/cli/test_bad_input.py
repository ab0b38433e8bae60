"""Each mistake: one clear line, exit code 2, no traceback and no half-written output (the fixture `refuses` looks)."""

import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_session import QUICK

GOOD = "x,y,kind\n" + "\n".join(f"{i},{i % 7},{'ab'[i % 2]}" for i in range(40)) + "\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "'data.csv': the file is empty"),
        ("\n\n", "'data.csv': nothing but empty lines"),
        ("x,y,kind\n", "'data.csv': there is a header and there are no rows"),
        ("x,x,kind\n1,2,a\n", "'data.csv': more than one column is named 'x'"),
        ("x,y,kind\n1,2,a\n3,b\n", "'data.csv': line 3: 2 cells, and the first row has 3"),
        ("x,y,kind\n1,2,a\n3,4,b,5\n", "'data.csv': line 3: 4 cells, and the first row has 3"),
        ('x,y,kind\n1,"2,a\n3,4,b\n', "'data.csv': line 3: 2 cells, and the first row has 3"),
        ('x,y,kind\n1,2,a\n3,4,"b\n', "'data.csv': the last cell opens a quote that is never closed"),
        ('x,y,kind\n1,2,a\n3,4,"b\nc', "'data.csv': the last cell opens a quote that is never closed"),
        ('x,y,kind\n"1\n",2,a\n\n3,b\n', "'data.csv': line 5: 2 cells, and the first row has 3"),
        (GOOD + "many,1,a\n", "'data.csv': column 'x', row 41: 'many' is not a number, and most of the column are"),
        (GOOD + "inf,1,a\n", "column 'x', row 41: infinite values cannot be used"),
        (GOOD + "3,1,\n", "the target 'kind' is missing in 1 of 41 rows, first in row 41: remove these rows"),
        ("x,y,kind\n1,2,a\n3,4,a\n", "the target 'kind' holds one value only, 'a': a classifier needs two classes"),
        ("x,y,kind\n1,2,7\n3,4,7\n", "the target 'kind' holds one value only, 7"),
        ("x,y,kind\n1,2,0.5\n3,4,1\n", "the target 'kind' must hold classes, and row 1 holds 0.5"),
        ("x,y,kind\n1,2,1\n3,4,2\n5,6,3\n", "the target 'kind' is different in each of the 3 rows: it is no class"),
        ("x,y,class\n1,2,a\n", "'data.csv': there is no column 'kind', only 'x', 'y', 'class'"),
        ("x:y:kind\n1:2:a\n", "is there another separator (separator=, --separator)?"),
        ("kind\na\nb\n", "'data.csv': there is no column besides the target 'kind'"),
        ("x,y,kind\n1,2,a\n3,4\0,b\n", "'data.csv': line 3: a zero byte, so this is not a text file"),
    ],
)
def test_tables(refuses, content, message):
    Path("data.csv").write_text(content)
    assert message in refuses("fit", "data.csv", "--target", "kind", *QUICK)


def test_text_in_another_encoding(refuses):
    # 0x81 is no letter in Windows-1252 either.
    Path("data.csv").write_bytes(GOOD.encode() + b"1,2,\x81\n")
    message = refuses("fit", "data.csv", "--target", "kind")
    assert message == "'data.csv': line 42: not UTF-8 text (byte 0x81); give its encoding (encoding=, --encoding)"
    assert "there is no encoding 'klingon'" in refuses("fit", "data.csv", "--target", "kind", "--encoding", "klingon")


def test_a_mark_at_the_beginning_is_no_mistake(invoke):
    Path("data.csv").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0


def test_files_that_are_not_there(refuses):
    Path("folder.csv").mkdir()
    assert refuses("fit", "none.csv", "--target", "kind") == "'none.csv': there is no such file"
    assert refuses("fit", "folder.csv", "--target", "kind") == "'folder.csv': this is a folder, not a file"
    Path("data.dat").write_text("?")
    assert "give the format, csv, parquet, libsvm or xlsx" in refuses("fit", "data.dat", "--target", "kind")


def test_options(refuses):
    Path("data.csv").write_text(GOOD)
    fit = ("fit", "data.csv", "--target", "kind")
    assert "which column holds the classes?" in refuses("fit", "data.csv")
    assert refuses(*fit, "--delta", 1.5) == "delta must be in (0, 1), got 1.5"
    assert "n_hypotheses must be a whole number" in refuses(*fit, "--n-hypotheses", 0)
    assert "--subsample-size must be numbers" in refuses(*fit, "--subsample-size", "few")
    assert "leave points to validate on" in refuses(*fit, "--subsample-size", 40)
    assert "test_size must be a fraction" in refuses(*fit, "--test-size", 1.5)
    assert "there is no column 'z'" in refuses(*fit, "--text", "z")
    assert "'kind' is the target" in refuses(*fit, "--text", "kind")
    assert "the separator must be a single character" in refuses(*fit, "--separator", "::")


def test_outputs(refuses):
    Path("data.csv").write_text(GOOD)
    Path("taken").mkdir()
    fit = ("fit", "data.csv", "--target", "kind")
    assert "three different files" in refuses(*fit, "-o", "data.csv")
    assert "three different files" in refuses(*fit, "-o", "m.skops", "--certificate", "./m.skops")
    assert "'taken' is a folder" in refuses(*fit, "-o", "taken")
    assert "there is no folder 'nowhere'" in refuses(*fit, "-o", "nowhere/m.skops")
    assert "there is no folder 'nowhere'" in refuses(*fit, "--certificate", "nowhere/c.json")
    for options in (("-o", "-"), ("--certificate", "-")):
        assert refuses(*fit, *options) == "- is not a file: only predictions can be written to standard output"


def test_inputs_by_another_name_are_not_overwritten(invoke, refuses):
    Path("data.csv").write_text(GOOD)
    Path("losses.csv").write_text("0.1\n0.2\n")
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    for name in ("data.csv", "losses.csv", "model.skops"):
        os.link(name, f"linked {name}")
    assert "three different files" in refuses("fit", "data.csv", "--target", "kind", "-o", "linked data.csv")
    fit = ("fit", "data.csv", "--target", "kind", "-o", "model.skops", "--certificate")
    assert "three different files" in refuses(*fit, "linked model.skops")
    own = "a file of its own"
    for losses in ("losses.csv", "linked losses.csv"):
        assert own in refuses("certify", "losses.csv", "--n", 50, "-o", losses)
    for data in ("data.csv", "linked data.csv"):
        assert own in refuses("report", "model.skops", "--data", "data.csv", "-o", data)
        assert own in refuses("certify", "data.csv", "--model", "model.skops", "-o", data)
        assert "a file of their own" in refuses("predict", "model.skops", "data.csv", "-o", data)


def test_a_place_that_cannot_be_written(refuses, monkeypatch):
    Path("data.csv").write_text(GOOD)

    def denied(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pacbayes._atomic._open_partial", denied)
    message = refuses("fit", "data.csv", "--target", "kind")
    assert message == "cannot write 'model.skops': Permission denied"


def test_a_disk_that_fills_up_leaves_nothing_behind(refuses, monkeypatch):
    Path("data.csv").write_text(GOOD)
    Path("model.skops").write_text("an older model")
    original, synced = os.fsync, []

    def full(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):  # and no folder
            synced.append(descriptor)
        if len(synced) == 2:  # the model fits on it, the certificate does not
            raise OSError(28, "No space left on device")
        return original(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in refuses("fit", "data.csv", "--target", "kind", *QUICK)
    assert Path("model.skops").read_text() == "an older model"


def test_files_larger_than_the_limit(invoke, refuses):
    Path("data.csv").write_text(GOOD)
    assert invoke("fit", "data.csv", "--target", "kind", *QUICK).exit_code == 0
    pd.read_csv("data.csv").to_parquet("data.parquet")
    Path("data.svm").write_text("1 1:2 1000000:3\n-1 2:1\n")
    for name, size in (("data.csv", 100), ("data.parquet", 100), ("data.svm", 1000)):
        message = refuses("fit", name, "--target", "kind", "--max-bytes", size)
        assert message.startswith(f"'{name}': it takes more than {size} bytes of memory")
    message = refuses("predict", "model.skops", "data.csv", "--max-bytes", 10_000)
    assert "it takes more than 9.77 KiB of memory, the limit that max_bytes (--max-bytes) sets" in message


def test_a_csv_file_by_another_name(invoke):
    Path("data.zip").write_text(GOOD)
    assert invoke("fit", "data.zip", "--format", "csv", "--target", "kind", *QUICK).exit_code == 0


def test_libsvm_text(refuses):
    for content, line in (
        ("1 1:2\nx 1:2\n", 2),
        ("1 99999999999999999999:1\n", 1),
        ("1 0:2\n", 1),
        ("1 2:1 1:2\n", 1),
        ("1 1:a\n", 1),
        ("1 1\n", 1),
    ):
        Path("data.svm").write_text(content)
        assert f"'data.svm': line {line}: not LIBSVM text" in refuses("fit", "data.svm")
    Path("data.svm").write_text("# nothing\n")
    assert "nothing but empty lines" in refuses("fit", "data.svm")
    Path("data.svm").write_text("1\n-1\n")
    assert "there are no features" in refuses("fit", "data.svm")


def test_parquet(refuses):
    Path("data.parquet").write_bytes(b"PAR1 this is none")
    assert "'data.parquet': not a Parquet file" in refuses("fit", "data.parquet", "--target", "kind")
    pd.DataFrame({"x": [[1]] * 10, "kind": ["a", "b"] * 5}).to_parquet("data.parquet")
    assert "column 'x' holds list<" in refuses("fit", "data.parquet", "--target", "kind")


def test_model_files(refuses):
    Path("data.csv").write_text(GOOD)
    Path("text.skops").write_text("not a model")
    Path("folder.skops").mkdir()
    assert "'text.skops' is not a model that can be loaded" in refuses("predict", "text.skops", "data.csv")
    assert "'none.skops' is not a model that can be loaded: there is no such file" in refuses(
        "predict", "none.skops", "data.csv"
    )
    assert "this is a folder" in refuses("predict", "folder.skops", "data.csv")


def test_mistakes_with_the_real_program(run, tmp_path):
    (tmp_path / "data.csv").write_text("x,y,kind\n1,2,a\n3,b\n")
    result = run("fit", "data.csv", "--target", "kind")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "pacbayes: 'data.csv': line 3: 2 cells, and the first row has 3\n"
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_names_that_hold_html_stay_text(invoke):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"<script>alert(1)</script>": rng.normal(size=40), "[red]kind": ["<i>a</i>", "[b]b"] * 20})
    data.to_csv("data.csv", index=False)
    result = invoke("fit", "data.csv", "--target", "[red]kind", *QUICK)
    assert "2 classes in '[red]kind'" in result.stdout
    assert "share_<i>a</i>" in invoke("predict", "model.skops", "data.csv").stdout


def test_parquet_as_it_comes(invoke):
    # Categories, whole numbers with gaps and truth values with gaps are all that they seem.
    data = pd.DataFrame(
        {
            "name": pd.Categorical(["u", "v"] * 20),
            "code": pd.Categorical([1, 2] * 20),
            "count": pd.array([1, None] * 20, dtype="Int64"),
            "open": pd.Series([True, None] * 20, dtype=object),
            "kind": [True, False] * 20,
        }
    )
    data.to_parquet("data.parquet")
    result = invoke("fit", "data.parquet", "--target", "kind", *QUICK)
    assert result.exit_code == 0, result.output
    assert "2 columns of numbers and 2 of text" in result.stdout
    assert "share_False,share_True" in invoke("predict", "model.skops", "data.parquet").stdout


def test_libsvm_rows_with_more_than_the_model_knows(invoke, refuses):
    Path("data.svm").write_text("1 qid:3 1:2 # a remark\n\n-1 1:1\n" * 20)
    Path("new.svm").write_text("1 1:2 7:1\n")
    assert invoke("fit", "data.svm", *QUICK).exit_code == 0
    assert "there is a feature 7, and the model knows 1" in refuses("predict", "model.skops", "new.svm")
