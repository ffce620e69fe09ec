from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from report_pages import EVIL, EVIL_TOO, Page, drawings
from torch import nn

from report_runs import BLIND, FAITHFUL, FOLLOWING, Observed, faithful_run, stored
from veracity.audit import Audit
from veracity.report import render
from veracity.report.figures.ranking import ranking_data
from veracity.report.figures.tables import overview_data
from veracity.report.page import leaders
from veracity.report.reading import read
from veracity.results import Result
from veracity.scores.gef import FastGEF
from veracity.scores.sensitivity import MaxSensitivity


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    return render(faithful_run(tmp_path_factory.mktemp("faithful")))


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def headings(html: str, level: int = 2) -> list[str]:
    return re.findall(rf"<h{level}>(.*?)</h{level}>", html)


def section_of(html: str, title: str) -> str:
    return next(part for part in html.split("<section ") if f"<h2>{title}</h2>" in part)


def test_the_page_is_sound(html: str, page: Page) -> None:
    assert page.unbalanced == []
    assert {ElementTree.fromstring(text).tag for text in drawings(html)} == {"svg"}
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for name, value in page.attributes if name == "href" and value.startswith("#")} <= set(ids)
    assert "https://" not in html
    assert not [tag for tag, _ in page.tags if tag in {"script", "img"}]
    written = [page.text, *(value for _, value in page.attributes)]
    assert not [text for text in written if re.search(r"\b([Nn][Aa][Nn]|inf|None)\b", text)]


def test_many_scores_are_summed_up_at_the_top(html: str, page: Page) -> None:
    assert headings(html)[:3] == ["In short", "What the scores assume", "Where the paths end"]
    assert headings(html)[3:6] == ["Fast-GEF", "GEF", "Fast-GEF (public variant)"]
    top = page.text[: page.text.index("In short")]
    assert (
        top.count(" is ahead of every other explainer: ") == 2
    )  # the two scores of paths; the public variant has a null of its own and stands below
    assert re.search(r"Of 8 scores, gradient is ahead of every other explainer in [5-8]\.", top)
    assert "fails on a tenth of the samples or more for pixel flipping (15 of 20 samples) and insertion (15 of 20 samples)" in top
    overview = next(table for table in page.tables if table[0][:3] == ["Score", "Assumption fails", "Chance"])
    assert len(overview) == 1 + len(FAITHFUL)
    assert len(overview[0]) == 3 + len(FOLLOWING) + len(BLIND)
    assert overview[1][-1] == "no response"


def test_assumptions_stand_beside_their_scores(html: str, page: Page) -> None:
    told = (
        "pixel_flipping assumes that the output of the model moves further from its original value the more of the input "
        "is masked; on 15 of 20 samples it "
        "does not: there, compare explainers with each other and with random ones, not with the best possible value."
    )
    assert page.text.count(told) == 2
    assert told in section_of(html, "Pixel flipping")
    assert "relative_input_stability assumes a stable model; on all 20 samples it is." in section_of(html, "Relative input stability")
    assert " assumes " not in section_of(html, "GEF")


def test_paths_curves_and_calibrations_are_drawn_where_they_belong(html: str) -> None:
    for title in ("Fast-GEF", "GEF", "Fast-GEF (public variant)"):
        part = section_of(html, title)
        assert "Model against explanation, level by level" in part
        assert part.count('class="contour"') == 2 * 3 * len(FOLLOWING)
        assert "the intervals allow for other samples and for other draws" in part
    for title in ("Pixel flipping", "Insertion", "MPRT"):
        assert "Step by step" in section_of(html, title)
        assert "level by level" not in section_of(html, title)
    assert "Step by step" not in section_of(html, "Sparseness")
    assert "those of <span" in section_of(html, "Where the paths end")


def test_a_known_null_is_told_and_drawn(html: str) -> None:
    part = section_of(html, "Fast-GEF (public variant)")
    assert "scores 0.500, not 0" in part
    assert 'class="null known"' in part
    assert 'class="null known"' not in section_of(html, "Fast-GEF")
    assert "cannot be told from chance" not in section_of(html, "Sparseness")


def test_self_agreement_stands_beside_no_score_of_another_scale(html: str, tmp_path: Path) -> None:
    assert "Self-agreement" not in html
    assert "Random control" in section_of(html, "Fast-GEF")
    assert "Random control" in section_of(html, "Max sensitivity")
    assert "Random control" not in section_of(render(absolute_run(tmp_path)), "Max sensitivity")


def absolute_run(folder: Path) -> Result:
    """With sensitivities in the maps' own units."""
    return faithful_run(folder, ["fast_gef", "max_sensitivity"], own={"max_sensitivity": MaxSensitivity(relative=False)})


def test_nobody_is_ranked_by_a_score_in_the_maps_own_units(tmp_path: Path) -> None:
    run = absolute_run(tmp_path)
    html = render(run)
    part = section_of(html, "Max sensitivity")
    assert "<h3>Ranking</h3>" not in part
    assert "Differences between explainers" not in part
    assert "In the run's order" in part
    told = "Max sensitivity has the units of the map, so it compares samples and models, not explainers."
    assert told in Page(html).text
    (table,) = overview_data(read(run).rows, ["max_sensitivity"], ["lenet"], ())
    assert not any(cell.best for row in table.rows for cell in row.cells)
    assert leaders([table]) == []
    assert [row.explainer for row in ranking_data(read(run).rows, "max_sensitivity", ["lenet"]).explainers] == list(FOLLOWING)
    assert "<h3>Ranking</h3>" in section_of(html, "Fast-GEF")


def test_what_does_not_respond_is_counted(page: Page) -> None:
    undefined = next(table for table in page.tables if "Undefined draws" in table[0])
    assert undefined[0][-2:] == ["Samples without response", "Draws without response"]
    assert ["lenet", "constant_map", "Fast-GEF", "20", "160", "0", "20", "160"] in undefined
    numbers = next(table for table in page.tables if table[0][:2] == ["Explainer", "Mean"])
    assert "No response" in numbers[0]


def test_works_that_the_scores_follow_are_named_once(html: str) -> None:
    foot = html[html.index("<footer>") :]
    assert "Crabbé" not in foot
    assert foot.count("Bach et al.") == 1
    assert foot.count("geometric alignment") == 1


def test_few_scores_keep_their_paragraphs_and_cards(tmp_path: Path) -> None:
    html = render(faithful_run(tmp_path, ["fast_gef", "pixel_flipping"], ["a", "b"], published=True))
    page = Page(html)
    assert page.unbalanced == []
    assert "By Fast-GEF on a , gradient is ahead of every other explainer" in page.text[: page.text.index("In short")]
    assert "do better than chance" in section_of(html, "Fast-GEF")
    assert "<h3>Spread over samples</h3>" in html
    assert "a: pixel_flipping assumes" in section_of(html, "Pixel flipping")
    assert "published, Table A.5" in section_of(html, "Fast-GEF")
    assert "published" not in section_of(html, "Pixel flipping")
    numbers = next(table for table in page.tables if table[0][:2] == ["Explainer", "Mean"])
    assert numbers[0][-3:] == ["Published", "Draws", "State"]
    assert [line[-3] for line in numbers if line[0] == "gradient"] == ["0.790", "0.790"]


def test_one_score_needs_no_overview(tmp_path: Path) -> None:
    html = render(faithful_run(tmp_path, ["fast_gef"]))
    assert 'class="overview"' not in html
    assert "do better than chance" in section_of(html, "In short")
    assert "Model invariance" not in html


def test_what_users_typed_is_escaped(tmp_path: Path) -> None:
    run = faithful_run(tmp_path, ["fast_gef", "pixel_flipping", "mprt", "sparseness"], [EVIL, "n"], names={EVIL_TOO: 0.9, "a": 0.2})
    html = render(run)
    page = Page(html)
    assert not [tag for tag, _ in page.tags if tag in {"script", "img"}]
    assert not [attributes for _, attributes in page.tags if "onerror" in attributes]
    assert page.unbalanced == []
    assert [ElementTree.fromstring(text) for text in drawings(html)]


def test_series_without_measurements_draw_nothing(tmp_path: Path) -> None:
    scores = {"fast_gef": FastGEF(), "mprt": FAITHFUL["mprt"]}
    lost = [Observed(model="net", explainer="a", score=label, values=np.zeros(3), failed="No memory.") for label in scores]
    html = render(stored(tmp_path, scores, lost))
    assert "level by level" not in html
    assert "Step by step" not in html


def test_a_real_run_has_a_report_and_a_table(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    scores = {"GEF!": FastGEF(sigma=0.5, draws=2, steps=3), "deletion": {"name": "deletion", "steps": 3}, "RIS": "relative_input_stability"}
    audit = Audit(models={"net": net}, inputs=torch.randn(6, 6), explainers=["gradient", "integrated_gradients"], scores=scores)
    result = audit.run(tmp_path / "run", progress=False)
    html = result.save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert Page(html).unbalanced == []
    assert "level by level" in section_of(html, "GEF!")
    assert "Step by step" in section_of(html, "Deletion")
    assert "RIS assumes a stable model" in html
    assert "deletion assumes that the output of the model moves further from its original value" in html
