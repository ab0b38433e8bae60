import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pacbayes.exceptions import TableError
from pacbayes.io import Column, HeldOutTest, Provenance, Schema, Table, split_rows

SOURCE = Provenance("data.csv", "ab" * 32, 5, "csv", ";", ",", "cp1252", ("?",), 0.4, 3)
TEST = HeldOutTest(2, 1, 0.05)
SCHEMA = Schema((Column("size", "number"), Column("city", "text")), "kind", ("a", "b"), (2, 3), False, SOURCE, TEST)


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        Schema(()),
        replace(SCHEMA, classes=(-1, 1), source=None),
        replace(SCHEMA, source=Provenance("x", None, 1)),
    ],
)
def test_json_round_trip(schema):
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": None}, "columns must be a list"),
        ({"columns": [{"name": "x"}]}, r"columns\[0\] must be an object with the fields 'name', 'kind'"),
        ({"columns": [{"name": "x", "kind": "list"}]}, "kind must be one of 'number', 'text', 'date', got 'list'"),
        ({"columns": [{"name": "x", "kind": "text"}] * 2}, "names a column twice"),
        ({"target": 3}, "target must be text or null, got 3"),
        ({"classes": ["a", 1]}, "classes must be a list of text or of integers"),
        ({"classes": [10**400, 1]}, "classes must be a list"),
        ({"classes": ["a", "a"]}, "each class once"),
        ({"class_counts": [1]}, "one count for each of its classes"),
        ({"class_counts": [1, -1]}, r"class_counts\[1\] must be a whole number in \[0, "),
        ({"complete": "no"}, "complete must be true or false, got 'no'"),
        ({"source": []}, "source must be an object with the fields"),
        ({"more": 1}, "must be an object with the fields"),
    ],
)
def test_fields_that_are_wrong(changes, message):
    values = json.loads(SCHEMA.to_json()) | changes
    with pytest.raises(TableError, match=message):
        Schema.from_json(json.dumps(values))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", None),
        ("sha256", 5),
        ("n_rows", -1),
        ("n_rows", True),
        ("format", "ods"),
        ("separator", 1),
        ("decimal", ";"),
        ("encoding", 8),
        ("missing", "?"),
        ("test_size", 1.0),
        ("test_size", 1),
        ("seed", -1),
        ("seed", 0.5),
    ],
)
def test_sources_that_are_wrong(name, value):
    values = json.loads(SCHEMA.to_json())
    values["source"][name] = value
    with pytest.raises(TableError, match=f"the schema is not valid: source.{name} must be"):
        Schema.from_json(json.dumps(values))


@pytest.mark.parametrize("text", ["", "[" * 100_000, "[]", "null", "NaN"])
def test_what_is_no_schema(text):
    with pytest.raises(TableError, match="schema"):
        Schema.from_json(text)


def test_columns_as_trained():
    frame = pd.DataFrame({"city": ["Oslo", None], "kind": ["a", None], "size": ["1,5", "2"]})
    X = SCHEMA.apply(frame)
    assert X.columns.tolist() == ["size", "city"]
    assert X["size"].tolist() == [1.5, 2.0]
    assert X["city"].cat.categories.tolist() == ["Oslo"]
    # What was converted already stays as it is.
    pd.testing.assert_frame_equal(SCHEMA.apply(X), X)


def test_numbers_where_text_was():
    X = SCHEMA.apply(pd.DataFrame({"size": [1, 2], "city": [10, 20]}))
    assert X["city"].tolist() == ["10", "20"]


def test_columns_that_do_not_fit():
    with pytest.raises(TableError, match="the table lacks 'size' and has 'x', which the model does not know"):
        SCHEMA.apply(pd.DataFrame({"city": ["Oslo"], "x": [1]}))
    extra = pd.DataFrame({"city": ["Oslo"], "x": [1], "size": [2.0]})
    assert SCHEMA.apply(extra, allow_extra=True).shape == (1, 2)
    complete = replace(SCHEMA, complete=True)
    with pytest.raises(TableError, match=r"missing values in 'size' \(1\), and the model was trained on data without"):
        complete.apply(pd.DataFrame({"size": [None, 1.0], "city": ["Oslo", "Rome"]}))


def test_labels_as_trained():
    frame = pd.DataFrame({"kind": ["1", "2"], "other": ["2", "1"]})
    assert SCHEMA.labels(frame).tolist() == ["1", "2"]
    assert SCHEMA.labels(frame, "other").tolist() == ["2", "1"]
    assert replace(SCHEMA, classes=(1, 2)).labels(frame).tolist() == [1, 2]
    with pytest.raises(TableError, match="there is no column 'class' with the classes"):
        SCHEMA.labels(frame, "class")


def test_held_out_rows_come_back_from_the_seed():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=50), "y": rng.choice(["a", "b"], 50)})
    train, test = Table.from_frame(frame, "y", source=Provenance("x", None, 50)).split(0.3, seed=7)
    again, held_out = Schema.from_json(train.schema.to_json()).source.split()
    np.testing.assert_array_equal(frame["x"].iloc[again], train.X["x"])
    np.testing.assert_array_equal(frame["x"].iloc[held_out], test.X["x"])
    assert train.schema.class_counts == tuple(np.unique(train.y, return_counts=True)[1])
    everything, nothing = Provenance("x", None, 50).split()
    assert (everything.size, nothing.size) == (50, 0)


@pytest.mark.parametrize("test_size", [0.0, 1.0, -0.5, 0.01, 0.99, float("nan")])
def test_sizes_that_leave_no_rows(test_size):
    with pytest.raises(TableError, match="test_size must be a fraction"):
        split_rows(10, test_size, 0)


def test_a_table_without_target_cannot_be_split():
    with pytest.raises(TableError, match="without a target"):
        Table.from_frame(pd.DataFrame({"x": range(10)})).split(0.5, 0)


def test_a_class_that_is_held_out_altogether():
    frame = pd.DataFrame({"x": np.arange(20), "y": ["a", "b"] * 9 + ["rare", "a"]})
    for seed in range(30):
        train, test = Table.from_frame(frame, "y").split(0.3, seed)
        assert train.schema.classes == tuple(np.unique(train.y))
        if "rare" in test.y:
            break
    assert train.schema.classes == ("a", "b")


def test_names_of_columns():
    table = Table.from_frame(pd.DataFrame({0: [1, 2], 1: ["a", "b"]}), "1")
    assert table.schema.names == ["0"]
    assert table.schema.apply(pd.DataFrame({0: [3]})).columns.tolist() == ["0"]
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])
    with pytest.raises(TableError, match="more than one column is named 'x'"):
        Table.from_frame(twice)
    with pytest.raises(TableError, match="more than one column is named 'x'"):
        SCHEMA.apply(twice)
