"""The loader on small files of every format and, where the published files are there, on those."""

import dataclasses
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pooch
import pytest
import requests
from sweeps import sweep

from pacbayes import datasets
from pacbayes.datasets import NAMES, load, waveform
from pacbayes.exceptions import DatasetError

CSV = os.environ.get("PACBAYES_CSV")
ORIGINAL = Path(CSV, "..", "original") if CSV else None
with_originals = pytest.mark.skipif(
    ORIGINAL is None or not ORIGINAL.is_dir(), reason="PACBAYES_CSV has no folder with the published files beside it"
)

# Number of features and class counts, of the labels that the paper uses.
PUBLISHED = {
    "mushrooms": (112, {1: 3916, 2: 4208}),
    "skin": (3, {1: 50859, 2: 194198}),
    "waveform": (40, {1: 1653, 2: 1655}),
    "adult": (122, {-1: 2412, 1: 773}),
    "ionosphere": (34, {"g": 225, "b": 126}),
    "avsb": (16, {"A": 789, "B": 766}),
    "haberman": (3, {1: 225, 2: 81}),
    "breast-cancer": (10, {2: 444, 4: 239}),
}


@pytest.fixture(autouse=True)
def no_folder_from_outside(monkeypatch):
    monkeypatch.delenv("PACBAYES_DATA_DIR", raising=False)


def letters(*rows):
    return "".join(f"{label},{','.join(str(v) for v in range(first, first + 16))}\n" for label, first in rows).encode()


SMALL = {
    "mushrooms": (b"1 6:1 8:1 112:1 \n2 1:1 \n", [{5: 1, 7: 1, 111: 1}, {0: 1}], [1, 2]),
    "skin": (b"74\t85\t123\t1\r\n255\t0\t7\t2\r\n", [{0: 74, 1: 85, 2: 123}, {0: 255, 2: 7}], [1, 2]),
    "waveform": (
        "".join(f"{','.join(['-0.25'] * 39)},{v},{c}\n" for v, c in [(1.5, 2), (7.0, 0), (2.5, 1)]).encode(),
        [dict.fromkeys(range(39), -0.25) | {39: v} for v in (1.5, 2.5)],
        [2, 1],
    ),
    "adult": (b"-1 3:1 122:1 \n+1 1:1 \n", [{2: 1, 121: 1}, {0: 1}], [-1, 1]),
    "ionosphere": (
        f"{','.join(['0.99539'] * 34)},g\n{','.join(['-1'] * 34)},b\n".encode(),
        [dict.fromkeys(range(34), 0.99539), dict.fromkeys(range(34), -1)],
        ["g", "b"],
    ),
    "avsb": (
        letters(("T", 0), ("B", 3), ("A", 0)),
        [{j: 3 + j for j in range(16)}, {j: j for j in range(16)}],
        ["B", "A"],
    ),
    "haberman": (b"30,64,1,1\n34,59,0,2\n", [{0: 30, 1: 64, 2: 1}, {0: 34, 1: 59}], [1, 2]),
    "breast-cancer": (
        b"2.000000  1:1000025.000000 2:5.000000 10:1.000000\n4.000000  1:897471.000000 2:4.000000\n",
        [{0: 1000025, 1: 5, 9: 1}, {0: 897471, 1: 4}],
        [2, 4],
    ),
}


def publish(monkeypatch, name, contents, **changes):
    """Let the loader know these contents as the published file."""
    entry = dataclasses.replace(datasets._PUBLISHED[name], sha256=hashlib.sha256(contents).hexdigest(), **changes)
    monkeypatch.setitem(datasets._PUBLISHED, name, entry)
    return entry


def compress(data):
    """A .Z file: each byte is a code of 9 bits, and the table is cleared before codes would need 10 bits."""
    packed = b"\x1f\x9d\x90"
    for start in range(0, len(data), 200):
        codes = [*data[start : start + 200], 256]
        codes += [0] * (-len(codes) % 8)  # a clear code ends a group of eight
        packed += sum(code << 9 * i for i, code in enumerate(codes)).to_bytes(9 * len(codes) // 8, "little")
    return packed


# Small files of every format.


@pytest.mark.parametrize("name", NAMES)
def test_formats(name, tmp_path, monkeypatch):
    contents, rows, labels = SMALL[name]
    entry = publish(monkeypatch, name, contents)
    (tmp_path / entry.file).write_bytes(contents)
    data = load(name, data_dir=tmp_path)

    expected = np.zeros((len(rows), PUBLISHED[name][0]))
    for i, row in enumerate(rows):
        expected[i, list(row)] = list(row.values())
    np.testing.assert_array_equal(data.X, expected)
    assert data.X.dtype == np.float64
    assert data.y.tolist() == labels
    assert data.y.dtype == (np.dtype("<U1") if isinstance(labels[0], str) else np.int64)
    assert len(data.feature_names) == len(set(data.feature_names)) == data.X.shape[1]
    assert (data.name, data.title, data.citation, data.source) == (name, entry.title, entry.citation, entry.url)


def test_names_and_titles_are_the_papers():
    assert tuple(PUBLISHED) == NAMES
    titles = ["Mushrooms", "Skin", "Waveform", "Adult", "Ionosphere", "AvsB", "Haberman", "Breast cancer"]
    assert [datasets._PUBLISHED[name].title for name in NAMES] == titles


def test_a_dataset_is_shown_without_its_rows():
    shown = repr(waveform(5, random_state=0))
    assert "waveform" in shown
    assert "array" not in shown


def test_classes_choose_rows(tmp_path, monkeypatch):
    contents = SMALL["waveform"][0]
    entry = publish(monkeypatch, "waveform", contents)
    (tmp_path / entry.file).write_bytes(contents)
    assert load("waveform", data_dir=tmp_path, classes=(0, 1, 2)).y.tolist() == [2, 0, 1]
    assert load("waveform", data_dir=tmp_path, classes=[0]).y.tolist() == [0]
    contents = SMALL["avsb"][0]
    entry = publish(monkeypatch, "avsb", contents)
    (tmp_path / entry.file).write_bytes(contents)
    assert load("avsb", data_dir=tmp_path, classes=("T", "A")).y.tolist() == ["T", "A"]
    with pytest.raises(ValueError, match=r"classes must be .* among 'A', 'B', 'T', got \('A', 'C'\)"):
        load("avsb", data_dir=tmp_path, classes=("A", "C"))
    with pytest.raises(ValueError, match=r"classes must be .* got 'AB'"):
        load("avsb", data_dir=tmp_path, classes="AB")


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"name must be one of mushrooms, skin, .*, breast-cancer, got 'iris'"):
        load("iris")


# Where files come from.


def test_the_folder_comes_from_the_argument_then_from_the_environment(tmp_path, monkeypatch):
    contents = SMALL["haberman"][0]
    publish(monkeypatch, "haberman", contents)
    (tmp_path / "full").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "full" / "haberman.data").write_bytes(contents)
    monkeypatch.setattr(pooch, "retrieve", lambda *args, **kwargs: pytest.fail("looked at the cache"))

    monkeypatch.setenv("PACBAYES_DATA_DIR", str(tmp_path / "full"))
    assert load("haberman").y.tolist() == [1, 2]
    with pytest.raises(DatasetError, match=r"empty, the folder given as data_dir"):
        load("haberman", data_dir=tmp_path / "empty")
    monkeypatch.setenv("PACBAYES_DATA_DIR", str(tmp_path / "empty"))
    assert load("haberman", data_dir=str(tmp_path / "full")).y.tolist() == [1, 2]
    with pytest.raises(DatasetError, match=r"haberman\.data is not in .*empty, the folder given as PACBAYES_DATA_DIR"):
        load("haberman")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named_with_its_url(name, tmp_path):
    with pytest.raises(DatasetError) as raised:
        load(name, data_dir=tmp_path / "nowhere")
    entry = datasets._PUBLISHED[name]
    for part in (entry.file, entry.url, str(tmp_path / "nowhere")):
        assert part in str(raised.value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", [lambda c: c[:-3], lambda c: c.replace(b"1", b"2", 1), lambda c: b""])
def test_a_damaged_file_is_refused_by_name(name, damage, tmp_path, monkeypatch):
    contents = SMALL[name][0]
    entry = publish(monkeypatch, name, contents)
    damaged = damage(contents)
    path = tmp_path / entry.file
    path.write_bytes(damaged)
    with pytest.raises(DatasetError) as raised:
        load(name, data_dir=tmp_path)
    for part in (str(path), entry.sha256, hashlib.sha256(damaged).hexdigest(), entry.url):
        assert part in str(raised.value)
    assert path.read_bytes() == damaged


def test_without_pooch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"haberman\.data .* pip install .pacbayes\[datasets\].*PACBAYES_DATA_DIR"):
        load("haberman")


# Downloads, from a server on this machine.


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setattr(pooch, "os_cache", lambda project: folder)
    return folder


@pytest.fixture
def server(monkeypatch):
    """A server of `contents[path]`, which counts the requests for each path in `asked`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.asked[self.path] += 1
            body = self.server.contents.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"") + self.server.missing_bytes))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args):
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.contents, running.asked, running.missing_bytes = {}, Counter(), 0
        running.url = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def files_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_file_is_downloaded_once(server, cache, monkeypatch):
    contents = SMALL["haberman"][0]
    publish(monkeypatch, "haberman", contents, url=f"{server.url}/haberman.data")
    server.contents["/haberman.data"] = contents
    for _ in range(2):
        assert load("haberman").X.tolist() == [[30, 64, 1], [34, 59, 0]]
    assert server.asked == {"/haberman.data": 1}
    assert files_in(cache) == ["haberman.data"]

    # A cached file that has come to harm is not used either.
    (cache / "haberman.data").write_bytes(contents[:-4])
    assert load("haberman").y.tolist() == [1, 2]
    assert server.asked == {"/haberman.data": 2}
    assert (cache / "haberman.data").read_bytes() == contents


def test_a_compressed_file_is_unpacked_into_the_cache(server, cache, monkeypatch):
    contents = SMALL["waveform"][0]
    publish(monkeypatch, "waveform", contents, url=f"{server.url}/waveform-+noise.data.Z")
    server.contents["/waveform-+noise.data.Z"] = compress(contents)
    for _ in range(2):
        assert load("waveform").y.tolist() == [2, 1]
    assert server.asked.total() == 1
    assert files_in(cache) == ["waveform-+noise.data"]
    assert (cache / "waveform-+noise.data").read_bytes() == contents


@pytest.mark.parametrize(("name", "file"), [("haberman", "haberman.data"), ("waveform", "waveform-+noise.data.Z")])
def test_a_bad_download_is_refused_and_not_kept(name, file, server, cache, monkeypatch):
    entry = publish(monkeypatch, name, SMALL[name][0], url=f"{server.url}/{file}")
    wrong = SMALL[name][0][:-4]
    server.contents[f"/{file}"] = compress(wrong) if file.endswith(".Z") else wrong
    with pytest.raises(DatasetError) as raised:
        load(name)
    for part in (entry.file, entry.url, entry.sha256, hashlib.sha256(wrong).hexdigest()):
        assert part in str(raised.value)
    assert files_in(cache) == []


def test_a_page_in_place_of_a_compressed_file_is_refused(server, cache, monkeypatch):
    publish(monkeypatch, "waveform", SMALL["waveform"][0], url=f"{server.url}/waveform-+noise.data.Z")
    server.contents["/waveform-+noise.data.Z"] = b"<html>Sorry, we have moved</html>"
    with pytest.raises(DatasetError, match=r"is not waveform-\+noise\.data in compressed form"):
        load("waveform")
    assert files_in(cache) == []


@pytest.mark.parametrize("fault", ["not there", "cut off", "no server"])
def test_what_cannot_be_downloaded_is_named_with_what_to_do(fault, server, cache, monkeypatch):
    contents = SMALL["haberman"][0]
    url = f"{server.url}/haberman.data"
    if fault == "cut off":
        server.contents["/haberman.data"] = contents
        server.missing_bytes = 10
    elif fault == "no server":
        url = "http://127.0.0.1:1/haberman.data"
    publish(monkeypatch, "haberman", contents, url=url)
    with pytest.raises(DatasetError, match=r"haberman\.data could not be downloaded from http") as raised:
        load("haberman")
    for part in (url, str(cache), "data_dir", "PACBAYES_DATA_DIR"):
        assert part in str(raised.value)
    assert files_in(cache) == []


@pytest.mark.parametrize(
    "error",
    [
        requests.exceptions.ConnectionError("Name or service not known"),
        requests.exceptions.ConnectTimeout("timed out"),
        requests.exceptions.ProxyError("Cannot connect to proxy"),
        requests.exceptions.SSLError("certificate verify failed"),
        requests.exceptions.HTTPError("503 Server Error"),
        PermissionError("cache cannot be written"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_without_a_network_it_says_what_to_put_where(error, cache, monkeypatch):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(pooch, "retrieve", fail)
    with pytest.raises(DatasetError) as raised:
        load("adult")
    for part in ("a3a", datasets._PUBLISHED["adult"].url, str(error), "data_dir", "PACBAYES_DATA_DIR"):
        assert part in str(raised.value)


# UNIX compress.


def test_compressed_files_are_those_of_unix():
    """The packed files of these tests are what gzip takes them for, and the loader agrees."""
    data = SMALL["waveform"][0] * 20
    if shutil.which("gzip"):
        unpacked = subprocess.run(["gzip", "-dc"], input=compress(data), capture_output=True, check=True).stdout
        assert unpacked == data
    assert datasets._uncompress(compress(data)) == data


def test_without_uncompresspy_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "uncompresspy", None)
    (tmp_path / "waveform-+noise.data.Z").write_bytes(compress(SMALL["waveform"][0]))
    with pytest.raises(ImportError, match=r"uncompresspy: python -m pip install .pacbayes\[datasets\]"):
        load("waveform", data_dir=tmp_path)


def test_a_compressed_file_in_a_folder_will_do(tmp_path, monkeypatch):
    contents = SMALL["waveform"][0]
    publish(monkeypatch, "waveform", contents)
    path = tmp_path / "waveform-+noise.data.Z"
    path.write_bytes(compress(contents))
    assert load("waveform", data_dir=tmp_path).y.tolist() == [2, 1]
    path.write_bytes(compress(contents)[:-30])
    with pytest.raises(DatasetError, match=r"waveform-\+noise\.data\.Z is not waveform-\+noise\.data as published"):
        load("waveform", data_dir=tmp_path)
    path.write_bytes(b"\x1f\x9d\x90" + b"\xff" * 20)
    with pytest.raises(DatasetError, match=r"\.Z is not waveform-\+noise\.data in compressed form"):
        load("waveform", data_dir=tmp_path)


# The published files.


def parsed_copy(name):
    with gzip.open(Path(CSV, f"{name}.csv.gz"), "rt") as file:
        header, *lines = file.read().splitlines()
    table = np.array([line.split(",") for line in lines])
    return header.split(","), table[:, :-1].astype(float), table[:, -1]


@with_originals
@pytest.mark.parametrize("name", sweep(NAMES, quick=[k for k, name in enumerate(NAMES) if name != "skin"]))
def test_published_files_agree_with_the_parsed_copies(name):
    header, X, y = parsed_copy(name)
    data = load(name, data_dir=ORIGINAL, classes=(0, 1, 2) if name == "waveform" else None)
    assert [*data.feature_names, "label"] == header
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y.astype(data.y.dtype))


@with_originals
@pytest.mark.parametrize("name", NAMES)
def test_published_files_have_the_papers_sizes(name, monkeypatch):
    monkeypatch.setenv("PACBAYES_DATA_DIR", str(ORIGINAL))
    data = load(name)
    n_features, counts = PUBLISHED[name]
    assert data.X.shape == (sum(counts.values()), n_features)
    assert data.X.dtype == np.float64
    assert Counter(data.y.tolist()) == counts


@with_originals
def test_all_of_waveform():
    counts = Counter(load("waveform", data_dir=ORIGINAL, classes=(0, 1, 2)).y.tolist())
    assert counts == {0: 1692, 1: 1653, 2: 1655}


@with_originals
def test_a_published_file_cut_short_is_refused(tmp_path):
    (tmp_path / "haberman.data").write_bytes((ORIGINAL / "haberman.data").read_bytes()[:-10])
    with pytest.raises(DatasetError, match=r"haberman\.data is not haberman\.data as published"):
        load("haberman", data_dir=tmp_path)


@with_originals
def test_published_waveform_survives_compression(tmp_path):
    (tmp_path / "waveform-+noise.data.Z").write_bytes(compress((ORIGINAL / "waveform-+noise.data").read_bytes()))
    assert load("waveform", data_dir=tmp_path).X.shape == (3308, 40)


# Breiman's generator.

PEAKS = {0: (7, 15), 1: (7, 11), 2: (11, 15)}


def closed_form(label):
    """Mean and covariance: of u h_a + (1 - u) h_b, with u of mean 1/2 and variance 1/12, and of the noise."""
    a, b = (
        np.array([max(6 - abs(t - peak), 0) for t in range(1, 22)] + [0] * 19, dtype=float) for peak in PEAKS[label]
    )
    return (a + b) / 2, np.eye(40) + np.outer(a - b, a - b) / 12


def assert_has_moments_of(X, label):
    """Within 5.5 standard errors, over 40 means and 820 covariances."""
    n = len(X)
    mean, covariance = closed_form(label)
    assert np.all(np.abs(X.mean(axis=0) - mean) < 5.5 * np.sqrt(np.diag(covariance) / n))
    centred = X - mean
    estimate = centred.T @ centred / n
    variance = (centred**2).T @ centred**2 / n - estimate**2
    assert np.all(np.abs(estimate - covariance) < 5.5 * np.sqrt(variance / n))


@pytest.mark.parametrize("label", [0, 1, 2])
def test_generator_has_the_moments_of_the_closed_form(label):
    data = waveform(20000, random_state=label, classes=[label])
    assert set(data.y.tolist()) == {label}
    assert_has_moments_of(data.X, label)


@with_originals
@pytest.mark.parametrize("label", [0, 1, 2])
def test_published_waveform_has_the_moments_of_the_closed_form(label):
    data = load("waveform", data_dir=ORIGINAL, classes=[label])
    assert_has_moments_of(data.X, label)


def test_generator_draws_classes_with_equal_probability():
    y = waveform(30000, random_state=0, classes=(0, 1, 2)).y
    assert y.dtype == np.int64
    counts = np.bincount(y)
    assert counts.size == 3
    assert np.all(np.abs(counts - 10000) < 5 * np.sqrt(30000 * 2 / 9))
    assert set(waveform(100, random_state=0).y.tolist()) == {1, 2}


def test_generator_is_a_function_of_its_seed():
    first, again, other = (waveform(50, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)
    np.testing.assert_array_equal(waveform(50, random_state=np.random.default_rng(3)).X, first.X)
    drawn = [waveform(50, random_state=np.random.RandomState(3)).X for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    assert not np.array_equal(waveform(50).X, waveform(50).X)


def test_generator_without_noise_gives_the_same_21_features():
    plain, noisy = waveform(50, random_state=0, noise=False), waveform(50, random_state=0)
    np.testing.assert_array_equal(plain.X, noisy.X[:, :21])
    np.testing.assert_array_equal(plain.y, noisy.y)
    assert plain.feature_names == noisy.feature_names[:21] == [f"x{t}" for t in range(1, 22)]
    assert len(noisy.feature_names) == noisy.X.shape[1] == 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be a whole number, at least 1, got 0"),
        ({"n": 2.5}, "n must be a whole number, at least 1, got 2.5"),
        ({"n": 10, "classes": (1, 3)}, r"classes must be .* among 0, 1, 2, got \(1, 3\)"),
        ({"n": 10, "classes": (1, 1)}, "classes must be a sequence of distinct labels"),
        ({"n": 10, "classes": ()}, "classes must be a sequence of distinct labels"),
        ({"n": 10, "classes": 1}, "classes must be a sequence of distinct labels .* got 1"),
        ({"n": 10, "random_state": -1}, "random_state must be None, .* got -1"),
        ({"n": 10, "random_state": "seed"}, "random_state must be None, .* got 'seed'"),
    ],
)
def test_generator_refuses_what_it_cannot_draw(arguments, message):
    with pytest.raises(ValueError, match=message):
        waveform(**arguments)
