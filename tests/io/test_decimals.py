"""One decimal mark for all numbers of a file: that of the table of training, unless another is given."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacbayes.exceptions import TableError
from pacbayes.io import Schema, Table, _csv, read_batches, read_table

TRAINING = "a;b;kind\n" + "1,5;2.300;x\n2;1.100,5;y\n" * 10


@pytest.fixture
def schema(tmp_path):
    return Schema.from_json(read(tmp_path, TRAINING, "kind").schema.to_json())


def read(folder, content, target=None, **options):
    (folder / "data.csv").write_text(content)
    return read_table(folder / "data.csv", target, **options)


def batches(folder, text, schema, **options):
    (folder / "data.csv").write_text(text)
    return pd.concat([table.X for table in read_batches([folder / "data.csv"], schema, **options)])


@pytest.fixture(params=["whole", "in batches"])
def features(request, tmp_path, monkeypatch):
    """Return the features of a file, read by a schema."""
    monkeypatch.setattr(_csv, "_BLOCK_SIZE", 20)
    in_parts = request.param == "in batches"

    def features(text, schema, **options):
        if in_parts:
            return batches(tmp_path, text, schema, **options)
        return read(tmp_path, text, schema=schema, **options).X

    return features


@pytest.mark.parametrize("decimal", [None, ","])
def test_cells_without_a_comma_are_read_as_in_training(features, schema, decimal):
    new = "a;b\n" + "3;2.300\n" * 5 + "1,5;1.100\n" * 5
    X = features(new, schema, decimal=decimal)
    assert X["b"].tolist() == [2300] * 5 + [1100] * 5
    assert X["a"].tolist() == [3] * 5 + [1.5] * 5


def test_a_column_without_commas_in_a_file_with_some(tmp_path):
    table = read(tmp_path, "a;b;kind\n" + "1,5;2.300;x\n2,5;1.100.000;y\n" * 5, "kind")
    assert table.X["b"].tolist() == [2300, 1100000] * 5
    assert table.schema.source.decimal == ","
    # A given mark is that of every column.
    table = read(tmp_path, "a;b;kind\n" + "1;2.300;x\n2;1.100;y\n" * 5, "kind", decimal=",")
    assert table.X["b"].tolist() == [2300, 1100] * 5


@pytest.mark.parametrize("cell", ["2.35", "0.300", "1.5e3", "23.00", ".5", "1234.567", "1.234.5"])
def test_a_decimal_point_beside_decimal_commas(features, schema, tmp_path, cell):
    message = rf"column 'b', row 1: '{cell}' is not a number with a decimal comma \(decimal=, --decimal\)"
    with pytest.raises(TableError, match=message):
        features(f"a;b\n1,5;{cell}\n2;2.300\n", schema)
    if cell != "1.234.5":  # no number with a point, either
        with pytest.raises(TableError, match=message):
            read(tmp_path, "a;b;kind\n" + f"1,5;{cell};x\n2;{cell};y\n" * 5, "kind")
    # Columns that are declared as text, or left out, do not count.
    text = "a;b;kind\n" + f"1,5;{cell};x\n2;{cell};y\n" * 5
    assert read(tmp_path, text, "kind", text=["b"]).X["b"].tolist() == [cell] * 10
    assert read(tmp_path, text, "kind", drop=["b"]).schema.names == ["a"]


def test_a_decimal_comma_where_training_had_points(features, tmp_path):
    schema = read(tmp_path, "a;b;kind\n" + "1.5;2.300;x\n2;1.100;y\n" * 5, "kind").schema
    assert features("a;b\n" + "2;2.300\n" * 9, schema)["b"].tolist() == [2.3] * 9
    with pytest.raises(TableError, match="'1,5' is not a number with a decimal point"):
        features("a;b\n" + "2;2.300\n" * 9 + "1,5;2.300\n", schema)
    assert features("a;b\n1,5;2.300\n", schema, decimal=",")["b"].tolist() == [2300]


def test_cells_that_commas_separate_where_training_had_decimal_commas(features, schema):
    assert features("a,b\n1,2\n", schema).to_numpy().tolist() == [[1, 2]]
    with pytest.raises(TableError, match=r"column 'b', row 1: is '2.300' a number with a decimal comma, as"):
        features("a,b\n1,2.300\n", schema)
    assert features("a,b\n1,2.300\n", schema, decimal=".")["b"].tolist() == [2.3]
    assert features('a,b\n"1,5",2.300\n', schema, decimal=",").to_numpy().tolist() == [[1.5, 2300]]


def test_text_in_parquet_files_and_data_frames(schema, tmp_path):
    frame = pd.DataFrame({"a": ["1,5", "2"], "b": ["2.300", "1.100"]})
    frame.to_parquet(tmp_path / "new.parquet")
    for X in (
        schema.apply(frame),
        read_table(tmp_path / "new.parquet", schema=schema).X,
        *(table.X for table in read_batches([tmp_path / "new.parquet"], schema)),
    ):
        np.testing.assert_array_equal(X, [[1.5, 2300], [2, 1100]])
    # Numbers that are stored as such are what they are.
    assert schema.apply(pd.DataFrame({"a": [1.5], "b": [2.3]})).to_numpy().tolist() == [[1.5, 2.3]]
    # The table that was read says the same about a next one.
    read_schema = read_table(tmp_path / "new.parquet", schema=schema).schema
    assert read_table(tmp_path / "new.parquet", schema=read_schema).X["b"].tolist() == [2300, 1100]


def test_a_model_of_data_without_a_mark(features, tmp_path):
    # A point, whatever other cells hold.
    schema = Table.from_frame(pd.DataFrame({"a": [1.5, 2], "b": [3, 4], "kind": ["x", "y"]}), "kind").schema
    assert features("a;b\n1;2.300\n", schema)["b"].tolist() == [2.3]
    with pytest.raises(TableError, match="column 'a', row 1: '1,5' is not a number with a decimal point"):
        features("a;b\n1,5;2.300\n", schema)


def test_labels_follow_the_mark_of_training(tmp_path):
    numbers = read(tmp_path, "a;kind\n" + "1,5;1.000\n2;2.000\n" * 5, "kind").schema
    assert numbers.classes == (1000, 2000)
    assert read(tmp_path, "a;kind\n1;1.000\n", "kind", schema=numbers).y.tolist() == [1000]
    # Labels that are text stay as they are, however many of them look like numbers.
    words = read(tmp_path, "a;kind\n" + "1,5;1,5\n2;none\n" * 5, "kind").schema
    assert read(tmp_path, "a;kind\n1;1,5\n", "kind", schema=words).y.tolist() == ["1,5"]


def test_columns_that_are_carried_are_as_they_are_stored(schema, tmp_path):
    text = "a;b;id\n1,5;2.300;1.234,0\n"
    assert read(tmp_path, text, schema=schema, allow_extra=True, carry=True).carried.iloc[0].tolist() == [
        "1,5",
        "2.300",
        "1.234,0",
    ]
    (table,) = read_batches([Path(tmp_path / "data.csv")], schema)
    assert table.carried.iloc[0].tolist() == ["1,5", "2.300", "1.234,0"]
