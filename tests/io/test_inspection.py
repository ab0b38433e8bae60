import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacbayes.exceptions import TableError
from pacbayes.io import ColumnEncoder, Table, inspect_table, read_table

N = 60
rng = np.random.default_rng(0)
KIND = rng.choice(["a", "b"], N)


def found(column, name="x", kind=KIND):
    """What is found about a column beside one that is unremarkable."""
    frame = pd.DataFrame({name: column, "size": rng.normal(size=len(kind)), "kind": kind})
    return [(finding.message, finding.leave_out) for finding in inspect_table(Table.from_frame(frame, "kind"))]


def test_nothing_remarkable():
    assert found(rng.normal(size=N)) == []
    assert found(rng.integers(0, 9, N)) == []
    assert found(rng.choice(["u", "v", "w"], N)) == []
    assert found(np.arange(N) * 1.5) == []
    assert found(pd.date_range("2024-01-01", periods=N)) == []
    # A gap beside one value is a value of its own.
    assert found([None, "u"] * (N // 2)) == []


def test_rows_that_are_numbered_in_any_order_from_any_number():
    for numbers in (np.arange(N), 1 + np.arange(N), 500 + rng.permutation(N), -np.arange(N)):
        assert found(numbers) == [("numbers the rows", True)]
    gap = np.where(np.arange(N) < 3, np.arange(N), np.arange(N) + 1)
    assert found(gap) == [("may be an id: it holds another whole number in every row", False)]
    for name in ("id", "Id", "ID", "customer_id", "customerId", "index", "row no"):
        assert found(gap, name) == [("looks like an id: it holds another whole number in every row", False)]
    for name in ("paid", "humid", "piano"):
        assert found(gap, name)[0][0].startswith("may be")


def test_few_rows_differ_by_chance():
    frame = pd.DataFrame({"x": range(10), "name": list("abcdefghij"), "kind": ["u", "v"] * 5})
    assert inspect_table(Table.from_frame(frame, "kind")) == []


def test_a_column_without_a_name_is_an_index_only_if_it_tells_rows_apart():
    assert found([f"r{i}" for i in range(N)], "Unnamed: 0") == [("names the rows", True)]
    assert found(rng.choice([1.5, 2.5], N), "Unnamed: 0") == []


def test_copies_of_the_target():
    message = "determines the class in every row: is it a copy of the target, or known only afterwards?"
    assert found(np.where(KIND == "a", 1.0, 2.0)) == [(message, False)]
    assert found(np.where(KIND == "a", "yes", "no")) == [(message, False)]
    nearly = np.where(KIND == "a", "yes", "no")
    nearly[0] = {"yes": "no", "no": "yes"}[nearly[0]]
    assert found(nearly) == []


def test_targets():
    numbers = np.tile(np.arange(21), 3)
    assert "holds 21 different whole numbers, from 0 to 20" in found(rng.normal(size=63), kind=numbers)[0][0]
    assert found(rng.normal(size=63), kind=numbers % 20) == []
    assert found(rng.normal(size=63), kind=[f"c{i}" for i in numbers]) == []
    labels = np.tile(["New York", "new  york", "Rome"], 20)
    assert found(rng.normal(size=60), kind=labels) == [
        ("has labels that differ only in blanks or case: 'New York', 'new  york'", False)
    ]


def test_a_table_without_a_target():
    frame = pd.DataFrame({"Id": range(N), "x": rng.normal(size=N)})
    table = Table.from_frame(frame)
    assert [finding.column for finding in inspect_table(table)] == ["Id"]
    assert table.without({"Id"}).schema.names == ["x"]
    with pytest.raises(TableError, match="no column is left to learn from without 'Id', 'x'"):
        table.without(["Id", "x"])


def test_a_table_becomes_complete_without_its_gaps():
    table = Table.from_frame(pd.DataFrame({"x": [1.0, None, 2.0], "y": [1.0, 2.0, 3.0]}))
    assert not table.schema.complete
    assert table.without(["x"]).schema.complete


NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False).map(lambda value: float(f"{value:.6g}"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from(["Oslo", "Ærø", "a b"])), min_size=2, max_size=20),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from([".", ","]),
    st.sampled_from(["utf-8", "utf-16", "latin-1"]),
    st.sampled_from([None, "gzip", "bz2", "xz", "zip"]),
)
def test_what_pandas_writes_is_what_is_read(tmp_path_factory, rows, separator, decimal, encoding, compression):
    frame = pd.DataFrame(rows, columns=["x", "y", "city"]).assign(kind=[i % 2 for i in range(len(rows))])
    path = tmp_path_factory.mktemp("tables") / "data.csv"
    # pandas writes no byte order mark into compressed UTF-16.
    encoding = "utf-8" if compression and encoding == "utf-16" else encoding
    settings = {"sep": separator, "decimal": decimal, "encoding": encoding, "compression": compression}
    frame.to_csv(path, index=False, **settings)
    # Quoted decimal commas between commas may be thousands: that has to be said.
    options = {"decimal": decimal} if separator == "," else {}
    table = read_table(path, "kind", **options)
    expected = pd.read_csv(path, **settings)
    np.testing.assert_allclose(table.X[["x", "y"]], expected[["x", "y"]], rtol=1e-15)
    assert table.X["city"].tolist() == frame["city"].tolist()
    assert table.y.tolist() == frame["kind"].tolist()


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,5", "2", "-3,25"], [1.5, 2, -3.25]),
        (["1.234,5", "2", "1.000"], [1234.5, 2, 1000]),
        (["1,5e3", ",5", "+7,"], [1500, 0.5, 7]),
        (["1,5", "NA", ""], [1.5, np.nan, np.nan]),
        (["1.5", "2", "1.000"], [1.5, 2, 1]),
    ],
)
def test_decimal_commas(tmp_path, cells, numbers):
    lines = [f"{cell};{kind}" for cell, kind in zip(cells, "aba", strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["x;kind", *lines]))
    np.testing.assert_array_equal(read_table(tmp_path / "data.csv", "kind").X["x"], numbers)


def test_decimal_marks_that_cannot_be(tmp_path):
    (tmp_path / "data.csv").write_text("x;kind\n1;a\n2;b\n")
    with pytest.raises(TableError, match="the decimal mark must be a point or a comma, got ';'"):
        read_table(tmp_path / "data.csv", "kind", decimal=";")


@pytest.mark.parametrize(
    "dates",
    [
        pd.date_range("1960-03-01", periods=N, freq="17h"),
        pd.date_range("2024-01-01", periods=N, tz="Asia/Tokyo"),
        pd.date_range("0001-01-01", periods=N, freq="100D", unit="s"),
    ],
)
def test_dates_are_in_universal_time(tmp_path, dates):
    frame = pd.DataFrame({"day": dates, "kind": KIND})
    table = Table.from_frame(frame, "kind")
    expected = [moment.timestamp() / 86_400 for moment in dates]
    np.testing.assert_allclose(ColumnEncoder(["day"]).fit_transform(table.X)[:, 0], expected, rtol=1e-12)
    assert table.schema.names_of("date") == ["day"]
    frame.to_parquet(tmp_path / "data.parquet")
    np.testing.assert_array_equal(read_table(tmp_path / "data.parquet", schema=table.schema).X, table.X)


def test_text_is_a_date_only_if_it_exists_and_is_complete():
    def kind(*cells):
        return Table.from_frame(pd.DataFrame({"x": cells})).schema.columns[0].kind

    assert kind("2024-02-29", "2024-03-01T12:30Z") == "date"
    assert kind("2024-02-30", "2024-03-01") == "text"
    assert kind("2024-02-29", "tomorrow") == "text"
    assert kind("20240229", "20240301") == "number"
    assert kind("29.02.2024", "01.03.2024") == "text"
