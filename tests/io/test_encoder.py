import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from pacbayes.io import ColumnEncoder

rng = np.random.default_rng(0)
N = 80
TABLE = pd.DataFrame(
    {
        "a": rng.normal(size=N),
        "b": 5 + 100 * rng.normal(size=N),
        "c": rng.choice(["x", "y", "z"], N),
        "d": rng.choice(["True", "False"], N),
    }
)
TABLE.loc[::7, "a"] = np.nan
TABLE.loc[::5, "c"] = np.nan


@pytest.mark.parametrize("as_category", [False, True])
@pytest.mark.parametrize("kind", [None, "standard", "minmax"])
def test_it_does_what_scikit_learn_does(kind, as_category):
    scalers = {None: "passthrough", "standard": StandardScaler(), "minmax": MinMaxScaler((-1, 1))}
    theirs = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), scalers[kind]), ["a", "b"]),
            ("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["c", "d"]),
        ]
    )
    table = TABLE.astype({"c": "category", "d": "category"}) if as_category else TABLE
    train, rest = table.iloc[:20], table.iloc[20:]
    expected = theirs.fit(TABLE.iloc[:20]).transform(TABLE.iloc[20:])
    np.testing.assert_allclose(ColumnEncoder(["a", "b"], ["c", "d"], kind).fit(train).transform(rest), expected)


def test_it_learns_from_the_rows_it_is_fitted_on_alone():
    # The categories and values of other rows must not shape it: the certificate rests on that.
    other = TABLE.assign(a=TABLE["a"].where(TABLE.index < 20, 1e6), c=TABLE["c"].where(TABLE.index < 20, "new"))
    probes = TABLE.iloc[:10]
    encoded = []
    for table in (TABLE, other):
        whole = table.astype({"c": "category", "d": "category"})
        encoder = ColumnEncoder(["a", "b"], ["c", "d"], "standard").fit(whole.iloc[:20])
        encoded.append(encoder.transform(probes))
    np.testing.assert_array_equal(*encoded)


def test_what_was_not_seen_is_zero():
    encoder = ColumnEncoder([], ["c"]).fit(pd.DataFrame({"c": ["x", "y"]}))
    assert encoder.transform(pd.DataFrame({"c": ["x", "new", None]})).tolist() == [[1, 0], [0, 0], [0, 0]]


def test_columns_that_say_nothing():
    table = pd.DataFrame({"gone": [np.nan, np.nan], "same": [3.0, 3.0]})
    for kind in ("standard", "minmax"):
        assert np.isfinite(ColumnEncoder(["gone", "same"], [], kind).fit_transform(table)).all()


def test_its_state_holds_one_string_for_each_column():
    encoder = ColumnEncoder([], ["c"]).fit(pd.DataFrame({"c": ["x", "y" * 10**6]}))
    assert encoder.__getstate__()["categories_"] == [json.dumps(["x", "y" * 10**6])]
    again = pickle.loads(pickle.dumps(encoder))
    assert again.categories_ == encoder.categories_
    assert clone(encoder).__getstate__().keys() == ColumnEncoder().__getstate__().keys()
