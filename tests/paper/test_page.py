"""The page of the reproduction: what it says, that it stands alone, and how it looks in a browser."""

import pytest
from paper.synthetic import EXPERIMENTS, PAPER, make_records
from report.browsing import opened
from report.outline import Outline, check_sound, check_stands_alone

from pacbayes.paper.figures import FIGURES
from pacbayes.paper.findings import PaperFinding
from pacbayes.paper.page import paper_page, write_results
from pacbayes.paper.runner import Plan, Store
from pacbayes.paper.tables import TITLES
from pacbayes.report import PageTable, write_page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

FINDINGS = [
    PaperFinding("The vote matches the cross-validated SVM", True, "Within 0.01 on 7 of 8 datasets."),
    PaperFinding("F(lambda) is convex", False, "In 38 of 40 splits."),
    PaperFinding("The bound is tight", None, "The experiment was not run."),
]
WIDE = PageTable(
    "losses",
    "Losses and times",
    ["Dataset", *(f"A column with a long name {i}" for i in range(12)), "Remark"],
    [[TITLES[name], *["0.0613 ± 0.0101"] * 12, "as in the paper"] for name in PAPER],
    "Mean over the splits.",
)
NARROW = PageTable("50-pcnt", "Half of the mass", ["Dataset", "Here"], [["Skin", "1"], ["Adult", "-"]], "")
EMPTY = PageTable("quasiconvexity", "Largest m", ["Dataset", "Paper", "Here"], [], "")


def make_page(records, **changes):
    arguments = {
        "settings": {"splits": "5", "data": "/a/path/" + "that-is-long-" * 20},
        "versions": {"pacbayes": "1.0", "Python": "3.12"},
        "findings": FINDINGS,
        "tables": [WIDE, NARROW, EMPTY],
        "quick": False,
    }
    return paper_page(records, **(arguments | changes))


@pytest.fixture(scope="module")
def full():
    return make_page(make_records(splits=2, values=6))


@pytest.fixture(scope="module")
def quick():
    records = make_records(
        ("waveform-generated", "breast-cancer-sklearn"), splits=2, values=5, experiments=EXPERIMENTS[2:]
    )
    return make_page(records, quick=True)


def test_page_has_everything(full):
    outline = Outline(full)
    assert "Of 3 claims of the paper, 1 holds (1 does not, 1 was not measured)." in outline.text
    assert "8 datasets and 2 random splits" in outline.text
    for finding, badge in zip(FINDINGS, ("✓ holds", "✗ does not hold", "? not measured"), strict=True):
        assert f"{badge} {finding.claim} {finding.sentence}" in outline.text
    for name, figure in FIGURES.items():
        assert figure.title in outline.text
        assert figure.caption in outline.text
        assert f"{figure.title} {figure.source} of the paper" in outline.text
        assert f'id="{name}"' in full
    assert len(outline.all("figure")) == len(FIGURES)
    assert "as in the paper" in outline.text
    assert "Nothing was measured for this table." in outline.text
    assert "pacbayes paper" in outline.text
    assert "<dt>Python</dt><dd>3.12</dd>" in full
    assert "Quick run" not in outline.text
    assert "What is missing" not in outline.text


def test_pictures_are_described(full):
    pictures = [attributes for attributes in Outline(full).all("div") if attributes.get("role") == "img"]
    assert len(pictures) == 8 * 5 + 1
    assert all(len(attributes["aria-label"]) > 40 for attributes in pictures)


def test_html_is_sound(full):
    check_sound(full)


def test_page_stands_alone(full):
    check_stands_alone(full)


def test_same_arguments_give_the_same_page(quick):
    records = make_records(
        ("waveform-generated", "breast-cancer-sklearn"), splits=2, values=5, experiments=EXPERIMENTS[2:]
    )
    assert make_page(records, quick=True) == quick


def test_numbers_are_aligned_at_the_right():
    outline = Outline(make_page([], tables=[WIDE, NARROW]))
    classes = [attributes.get("class") for attributes in outline.all("th") if attributes["scope"] == "col"]
    assert classes == [None, *["number"] * 12, None, None, "number"]


def test_quick_run_says_so_and_names_what_is_missing(quick):
    text = Outline(quick).text
    assert "Quick run: not the paper's data sizes." in text
    assert "pacbayes paper --quick" in text
    assert "baseline (the cross-validated SVM that everything is compared with): not run." in text
    assert "accuracy (figures 1 and 4): not run." in text
    assert "Not measured: there are no records of the experiment accuracy" in text
    # The quick run is not expected to be on the paper's datasets.
    assert "Mushrooms: nothing" not in text


def test_full_run_names_missing_datasets():
    records = make_records(("skin", "adult"), splits=1, values=3)
    records = [r for r in records if (r["experiment"], r["dataset"]) != ("runtime", "adult")]
    text = Outline(make_page(records)).text
    assert "Mushrooms: nothing was run on this dataset." in text
    assert "Skin: nothing" not in text
    assert "runtime (figures 2 and 5): not run on Adult." in text
    assert "accuracy (" not in text


def test_nothing_at_all():
    text = Outline(make_page([], findings=[], tables=[], settings={}, versions={})).text
    assert "No claims were checked. The results come from 0 datasets" in text
    assert "There are no tables." in text
    assert text.count("Not measured: there are no records") == len(FIGURES)


def test_all_claims_hold():
    text = Outline(make_page([], findings=[FINDINGS[0]])).text
    assert "Of 1 claim of the paper, 1 holds. The results" in text


def test_the_command_can_be_given():
    outline = Outline(make_page([], settings={"command": "pacbayes paper --splits 2", "splits": "2"}))
    assert outline.text.count("pacbayes paper --splits 2") == 1
    assert "pacbayes paper --quick" not in outline.text


def test_everything_is_escaped():
    evil = "<script>alert(1)</script>"
    page = make_page(
        make_records((evil,), splits=2, values=3),
        settings={evil: evil, "command": evil},
        versions={evil: evil},
        findings=[PaperFinding(evil, True, '"><img src=x onerror=alert(1)>')],
        tables=[PageTable(evil, evil, [evil, evil], [[evil, evil]], evil)],
    )
    outline = Outline(page)
    assert not outline.all("script")
    assert not outline.all("img")
    # 5 figures with a title, one with a label; 6 in the table; 2 + 2 facts, the command, the claim.
    assert outline.text.count(evil) >= 6 + 6 + 4 + 1 + 1
    assert len([a for a in outline.all("div") if a.get("role") == "img" and evil in a["aria-label"]]) == len(FIGURES)


def test_results_of_a_run_as_files(tmp_path):
    """Only what the plan names is shown, of all that is stored."""
    plan = Plan(("skin",), ("comparison", "baseline"), quick=True)
    store = Store(tmp_path, plan.settings())
    store.records = make_records(("skin", "adult"), splits=2, values=3)
    page = write_results(plan, store)
    assert page == tmp_path / "index.html"
    text = Outline(page.read_text(encoding="utf-8")).text
    assert "1 dataset and 2 random splits of the data into training and test set, in 4 units of work" in text
    assert "|S| and |T| of waveform-generated600 and 500" in text
    assert "Above the randomised classifier's test loss in 2 of 2 runs" in text
    names = ["mjv_vs_rnd.pdf", "mjv_vs_rnd.png"]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == names


def test_write_page(tmp_path):
    path = write_page(tmp_path / "paper.html", "<p>± and λ</p>")
    assert path.read_text(encoding="utf-8") == "<p>± and λ</p>"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("kind", "width", "scheme"),
    [("full", 1280, "light"), ("full", 390, "dark"), ("quick", 1280, "dark"), ("quick", 390, "light")],
)
def test_page_in_a_browser(browser, request, tmp_path, kind, width, scheme):
    path = write_page(tmp_path / "paper.html", request.getfixturevalue(kind))
    with opened(browser, path, width, scheme) as page:
        assert page.get_by_role("heading", level=1).is_visible()
        headings = page.get_by_role("heading", level=2).all_inner_texts()
        expected = ["The paper's claims", "Tables", "Figures", "How to reproduce this page"]
        assert [heading for heading in headings if heading != "What is missing"] == expected
        assert page.get_by_text("Quick run: not the paper's data sizes").is_visible() == (kind == "quick")
        assert page.locator("figure").count() == (6 if kind == "full" else 5)
        # The wide table scrolls in its own box.
        assert page.locator(".scroll").first.evaluate("element => element.scrollWidth > element.clientWidth")
