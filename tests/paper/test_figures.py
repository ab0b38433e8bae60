"""Figures from complete and from awkward records."""

import re
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from paper.synthetic import EXPERIMENTS, PAPER, make_records
from sweeps import sweep

from pacbayes.paper.figures import FIGURES, draw_figure, draw_panels, save_figures

matplotlib = pytest.importorskip("matplotlib")

TWO = ("ionosphere", "haberman")


def result_of(records, experiment):
    return next(record["result"] for record in records if record["experiment"] == experiment)


def axes_of(figure):
    return [axes for axes in figure.get_axes() if axes.get_xlabel()]


def drawn(figure):
    """The figure, laid out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure).draw()
    return figure


def text_of(figure):
    drawn(figure)
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_visible()]


def colours_of(axes):
    return {matplotlib.colors.to_hex(line.get_color()) for line in axes.lines}


@pytest.mark.parametrize("name", sweep(FIGURES, quick=[0, len(FIGURES) - 1]))
def test_every_dataset_has_its_panel_the_legend_is_there_once_and_nothing_is_cut_off(name):
    figure = draw_figure(name, make_records((*PAPER, "breast-cancer-sklearn"), splits=2, values=5))
    texts = text_of(figure)
    for title in ("Mushrooms", "AvsB", "Breast cancer"):
        assert texts.count(title) == 1
    assert len(axes_of(figure)) == (1 if FIGURES[name].shared else len(PAPER) + 1)
    for entry in FIGURES[name].legend:
        assert texts.count(entry.label) == 1
    assert len(figure.legends) == bool(FIGURES[name].legend)
    check_nothing_is_cut_off(figure)


def check_nothing_is_cut_off(figure):
    # Ticks beyond the limits of an axis are not drawn, but have labels.
    axes = [axis for panel in figure.get_axes() for axis in (panel.xaxis, panel.yaxis)]
    hidden = [
        label
        for axis in axes
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    ]
    whole = figure.bbox
    for text in figure.findobj(matplotlib.text.Text):
        if text.get_visible() and text.get_text().strip() and text not in hidden:
            box = text.get_window_extent()
            assert whole.x0 - 1 <= box.x0 <= box.x1 <= whole.x1 + 1, text
            assert whole.y0 - 1 <= box.y0 <= box.y1 <= whole.y1 + 1, text


AWKWARD = {
    "other names": make_records(("breast-cancer-sklearn", "a & <b> $\\frac$"), splits=2, values=3),
    "one split, no baseline": make_records(TWO, splits=1, values=5, experiments=EXPERIMENTS[1:]),
    "one value of m": make_records(("adult",), splits=2, values=1),
}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("case", sweep(AWKWARD, quick=[0]))
def test_awkward_records(name, case):
    records = AWKWARD[case]
    drawn(draw_figure(name, records))
    for panel in draw_panels(name, records):
        ElementTree.fromstring(panel.svg)
        assert "nan" not in panel.description


@pytest.mark.parametrize("name", FIGURES)
def test_no_records(name):
    others = [record for record in make_records(TWO, splits=1) if record["experiment"] != FIGURES[name].experiment]
    assert draw_panels(name, others) == []
    with pytest.raises(
        ValueError, match=f"{name} shows the experiment '{FIGURES[name].experiment}', of which there are no"
    ):
        draw_figure(name, others)


def test_same_records_give_the_same_bytes_and_ids_are_of_one_picture():
    records = make_records(TWO, splits=2, values=5)
    first = [panel.svg for name in FIGURES for panel in draw_panels(name, records)]
    # Another draw, of records in another order, after settings have changed.
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": "other", "lines.linewidth": 7}):
        again = [panel.svg for name in FIGURES for panel in draw_panels(name, records[::-1])]
    assert first == again
    ids = [re.findall(r'\sid="([^"]+)"', svg) for svg in first]
    everything = [name for own in ids for name in own]
    assert len(everything) == len(set(everything))
    for svg, own in zip(first, ids, strict=True):
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) <= set(own)
        assert "<style" not in svg
        assert "<script" not in svg
        assert "http" not in svg.replace("http://www.w3.org/", "")


def test_settings_of_the_user_are_left_as_they_were():
    def open_figures():
        return sys.modules["matplotlib.pyplot"].get_fignums() if "matplotlib.pyplot" in sys.modules else []

    before, figures = dict(matplotlib.rcParams), open_figures()
    draw_figure("heatmap_kernel", make_records(("skin",), splits=1))
    assert dict(matplotlib.rcParams) == before
    assert open_figures() == figures


def test_heatmap_shows_the_mean_difference_from_the_baseline_of_the_same_split():
    records = []
    for split, (baseline, loss) in enumerate([(0.10, 0.20), (0.30, 0.32), (0.0, 0.9)]):
        result = {"m": [1, 50, 100], "r": [2, 3], "loss": [[loss, baseline, baseline], [loss, baseline - 0.02, 1.0]]}
        records.append({"experiment": "accuracy", "dataset": "skin", "split": split, "seconds": 1.0, "result": result})
        if split < 2:  # the last split has no baseline, and is left out
            result = {"loss": baseline, "C": 1.0, "gamma": 1.0, "seconds": 1.0}
            records.append(
                {"experiment": "baseline", "dataset": "skin", "split": split, "seconds": 1.0, "result": result}
            )
    (axes,) = axes_of(draw_figure("heatmap_kernel", records))
    (image,) = axes.get_images()
    colours = {entry.colour: entry.label for entry in FIGURES["heatmap_kernel"].legend}
    shown = image.cmap(image.norm(image.get_array()))
    cells = {place: colours[matplotlib.colors.to_hex(shown[place])] for place in np.ndindex(2, 3)}
    assert image.origin == "lower"
    assert axes.get_xlim() == (-0.5, 2.5)
    assert axes.get_ylim() == (-0.5, 1.5)
    assert cells == {
        (0, 0): "+0.03 to +0.10",  # (0.10 + 0.02) / 2
        (0, 1): "within 0.01",
        (0, 2): "within 0.01",
        (1, 0): "+0.03 to +0.10",
        (1, 1): "-0.03 to -0.01",
        (1, 2): "above +0.10",
    }
    (panel,) = draw_panels("heatmap_kernel", records)
    assert panel.description == (
        "Skin: loss of the cross-validated SVM 0.200. The vote comes within 0.01 of it or below for 3 of 6 pairs of m "
        "and r. Difference for the largest m and r: +0.800."
    )


def test_runtime_shows_means_and_the_papers_colours():
    records = make_records(("ionosphere",), splits=3, values=8)
    figure = draw_figure("runtime_kernel", records)
    loss_axes, time_axes = figure.get_axes()
    assert colours_of(loss_axes) == {"#d55e00", "#000000", "#0072b2"}
    assert colours_of(time_axes) == {"#d55e00", "#000000"}
    assert time_axes.get_yscale() == "log"
    results = [record["result"] for record in records if record["experiment"] == "runtime"]
    shown = {matplotlib.colors.to_hex(line.get_color()): line for line in loss_axes.lines}
    for name, colour in (("vote", "#000000"), ("bound", "#0072b2")):
        assert np.allclose(shown[colour].get_ydata(), np.mean([result[name] for result in results], axis=0))
    baseline = np.mean([record["result"]["loss"] for record in records if record["experiment"] == "baseline"])
    assert np.allclose(shown["#d55e00"].get_ydata(), baseline)
    assert len(loss_axes.collections) == 3  # a band each


def test_one_split_has_no_bands_and_a_missing_baseline_is_said():
    records = make_records(("ionosphere",), splits=1, values=8, experiments=("runtime", "weighting", "comparison"))
    for name in ("runtime_kernel", "appprediction", "mjv_vs_rnd"):
        figure = draw_figure(name, records)
        assert not [band for axes in figure.get_axes() for band in axes.collections]
        assert any("1 split, no baseline" in text for text in text_of(figure))
    assert "The baseline has not been run" in draw_panels("runtime_kernel", records)[0].description


def test_f_lambda_marks_both_minima():
    records = make_records(("adult",), splits=1)
    result = result_of(records, "f_lambda")
    (axes,) = draw_figure("f_lambda_convex", records).get_axes()
    marks = {line.get_marker(): (line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines[1:]}
    assert marks == {
        "o": (result["lam_global"], result["F_global"]),
        "x": (result["lam_alternating"], result["F_alternating"]),
    }


def test_save_figures(tmp_path):
    records = make_records(TWO, splits=2, values=3, experiments=("validation", "f_lambda"))
    paths = save_figures(records, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == [
        f"{name}.{suffix}" for name in ("f_lambda_convex", "direct_vs_validate") for suffix in ("pdf", "png")
    ]
    assert sorted((tmp_path / "new" / "folder").iterdir()) == sorted(paths)
    first = [path.read_bytes() for path in paths]
    assert [content[:4] for content in first] == [b"%PDF", b"\x89PNG"] * 2
    assert [path.read_bytes() for path in save_figures(records, tmp_path / "new" / "folder")] == first


def test_times_that_the_clock_did_not_see():
    """Zero seconds have no logarithm: the axis begins at a microsecond, and what is above it is shown."""
    records = make_records(("skin",), splits=1, values=5)
    seconds = result_of(records, "runtime")["seconds"]
    seconds[0] = 0.0
    _, time_axes = drawn(draw_figure("runtime_kernel", records)).get_axes()
    low, high = time_axes.get_ylim()
    assert low == pytest.approx(5e-7)
    assert high > max(seconds)
    np.testing.assert_array_equal(time_axes.lines[0].get_ydata(), seconds)
