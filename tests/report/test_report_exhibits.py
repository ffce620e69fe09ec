from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from report_pages import EVIL, Page

from report_runs import kind_pairs
from veracity.report.figures.gallery import draw_gallery, formulas_of, gallery_data, gallery_notes, group_names
from veracity.report.figures.images import Layout, draw_bars, draw_points, largest, layout_of, reach, signed_png
from veracity.results import WorstPair


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def drawn(
    x: torch.Tensor, e: torch.Tensor, frame: str = "input", *, found: torch.Tensor | None = None, **settings: object
) -> tuple[str, list[str]]:
    pair = WorstPair("m", "a", 0, 0, [1.0], 0.5, x, x, e, e, e if found is None else found)
    data = gallery_data([pair], {"m": ["a"]}, score="symmetry", frames={"a": frame}, **settings)
    html = str(draw_gallery(data.exhibits))
    assert Page(html).unbalanced == []
    return html, gallery_notes(data)


@pytest.mark.parametrize(
    ("shape", "groups", "layout"),
    [
        ((1, 8, 8), (), Layout.PICTURE),
        ((187,), (), Layout.SERIES),
        ((12, 187), ("cyclic_shift",), Layout.SERIES),
        ((64, 3), (), Layout.POINTS),
        ((5, 3), ("so3",), Layout.POINTS),
        ((5, 3), (), Layout.SERIES),
        ((64, 3), ("node_permutations",), Layout.ROWS),
        ((30, 14), ("node_permutations",), Layout.ROWS),
        ((6, 9), ("product", "permutations"), Layout.ROWS),
        ((6, 9), (), Layout.SERIES),
        ((40, 14), (), Layout.ROWS),
        ((200, 1000), (), Layout.SERIES),
        ((2, 3, 4, 5), (), Layout.OTHER),
        ((0, 7), (), Layout.OTHER),
        ((), (), Layout.OTHER),
    ],
)
def test_shapes_and_groups_say_how_to_draw(shape: tuple[int, ...], groups: tuple[str, ...], layout: Layout) -> None:
    assert layout_of(np.zeros(shape), frozenset(groups)) is layout


def test_groups_are_found_at_any_depth() -> None:
    spec = {"name": "product", "first": {"name": "so3"}, "rest": [{"name": "permutations", "axis": -2}, None]}
    assert group_names(spec) == {"product", "so3", "permutations"}
    assert group_names("d4") == {"d4"}
    assert group_names(None) == frozenset()


def test_what_is_expected_depends_on_the_score_and_the_kind() -> None:
    assert [formulas_of("symmetry", frame).expected for frame in ("input", "concepts")] == ["g e(x)", "e(x)"]
    assert formulas_of("invariance", "input").expected == "e(x)"
    assert (formulas_of("max_sensitivity", "input").moved, formulas_of("max_sensitivity", "input").found) == ("x'", "e(x')")


def test_each_kind_shows_its_worst() -> None:
    pairs = kind_pairs(["m"])
    frames = {"gradient_shap": "input", "simplex-equiv": "training set", "cav-equiv": "concepts"}
    order = {"m": ["cav-equiv", "gradient_shap", "simplex-equiv"]}
    data = gallery_data(pairs, order, score="symmetry", frames=frames, concepts={("m", "cav-equiv"): ["top", "shoe"]})
    assert [item.explainer for item in data.exhibits] == ["gradient_shap", "simplex-equiv", "cav-equiv"]
    html = str(draw_gallery(data.exhibits))
    assert re.findall(r'<article class="exhibit (\w+)"', html) == ["tiles", "apart", "apart"]
    assert html.count('class="series bars"') == 2
    assert html.count('class="grey"') == 6
    (table,) = Page(html).tables
    assert [[cell.strip() for cell in line] for line in table[1:]] == [["top", "1.00", "0.00"], ["shoe", "0.00", "0.00"]]
    assert re.findall(r'<tr class="changed"><th scope="row">(\w+)', html) == ["top"]
    assert gallery_notes(data) == ["Of more than 160 numbers, the 160 with the largest magnitude are drawn."]


def test_bars_grow_from_zero_on_a_common_scale() -> None:
    html = str(draw_bars(np.array([2.0, -1.0, 0.0, np.nan]), 2.0, "<b>"))
    tree = ElementTree.fromstring(html)
    paths = {item.get("class"): item.get("d") for item in tree.iter("path")}
    assert paths == {"thread": "M0 22H1000", "positive": "M125.0 22v-20.0", "negative": "M375.0 22v10.0"}
    only = {item.get("class"): item.get("d") for item in ElementTree.fromstring(str(draw_bars(np.array([1.0]), 2.0, ""))).iter("path")}
    assert only == {"thread": "M0 42H1000", "positive": "M500.0 42v-20.0"}
    assert largest((np.array([1.0, 5.0, 2.0]), np.array([0.0, 0.0, -9.0])), limit=2).tolist() == [1, 2]


def test_more_concepts_than_can_be_named_are_bars() -> None:
    html, _ = drawn(normal(1, 8, 8), normal(30), "concepts")
    assert html.count('class="series bars"') == 2
    html, _ = drawn(normal(1, 8, 8), torch.ones(2), "concepts")
    assert "concept 2" in html


def test_names_of_concepts_are_escaped() -> None:
    html, _ = drawn(normal(1, 8, 8), torch.ones(1), "concepts", concepts={("m", "a"): [EVIL]})
    assert "<script" not in html
    assert EVIL in Page(html).text


def test_graphs_are_sheets_without_their_empty_rows() -> None:
    x = torch.zeros(30, 4)
    x[[2, 7, 11]] = 1.0
    e = x * normal(30, 4)
    html, notes = drawn(x, e, groups=frozenset({"node_permutations"}))
    assert html.count('class="grey sheet"') == 2
    kept = e[[2, 7, 11]].double().numpy()
    assert html.count(signed_png(kept, reach(kept, kept, kept))) == 3
    assert notes == ["Matrices are drawn row by row without their empty rows, one row per node, point or token."]


def test_tokens_are_summed_over_the_vocabulary() -> None:
    x = torch.eye(200)[:12]
    html, notes = drawn(x, x * 2, groups=frozenset({"permutations"}))
    assert "input of shape 12 \N{MULTIPLICATION SIGN} 200" in html
    assert html.count('class="series bars"') == 3
    assert "Of matrices with more than 128 columns, each row's sum is drawn." in notes


def test_clouds_are_coloured_by_their_points() -> None:
    x = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    e = torch.tensor([[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [0.0, 0.0, 0.0], [1.0, -1.0, 0.0]])
    html, notes = drawn(x, e, groups=frozenset({"so3"}))
    assert html.count('class="series cloud"') == 3
    assert [html.count(f'class="{css}"') for css in ("positive", "negative", "thread")] == [3, 3, 3]
    assert "Points are coloured by the sum over their coordinates." in notes
    svg = ElementTree.fromstring(str(draw_points(np.eye(3), np.zeros(3), 0.0, 1.0, "")))
    assert (svg[0].get("d") or "").count("M") == 3


def test_concepts_of_clouds_and_examples_of_series_show_their_inputs() -> None:
    html, _ = drawn(normal(40, 3), torch.ones(2), "concepts")
    assert html.count('class="series cloud"') == 2
    html, _ = drawn(normal(2, 50), normal(20), "training set")
    assert html.count('class="thread"') == 2 * 2 + 2


STRANGE = [
    (normal(2, 3, 4, 5), normal(2, 3, 4, 5), "input"),
    (normal(1, 8, 8), torch.tensor(3.0), "input"),
    (normal(1, 8, 8), torch.tensor(3.0), "training set"),
    (normal(1, 8, 8), torch.zeros(0), "training set"),
    (normal(1, 8, 8), torch.zeros(0), "concepts"),
    (normal(1, 8, 8), torch.full((1,), torch.nan), "concepts"),
    (normal(1, 8, 8), torch.full((7,), torch.nan), "training set"),
    (normal(1, 8, 8), normal(4, 5), "concepts"),
    (normal(1, 8, 8), torch.ones(3, dtype=torch.bool), "concepts"),
    (torch.zeros(0, 7), torch.zeros(0, 7), "input"),
    (torch.zeros(0), torch.zeros(0), "input"),
    (torch.zeros(40, 6), torch.zeros(40, 6), "input"),
    (torch.full((40, 3), torch.nan), torch.full((40, 3), torch.nan), "input"),
    (normal(40, 3), normal(40), "input"),
    (normal(40, 3), normal(7), "input"),
    (normal(40, 6), normal(40), "input"),
    (normal(40, 6), normal(3, 3), "input"),
    (torch.tensor(1.0), torch.tensor(1.0), "input"),
]


@pytest.mark.parametrize(("x", "e", "frame"), STRANGE, ids=[f"{tuple(x.shape)} {tuple(e.shape)} {frame}" for x, e, frame in STRANGE])
@pytest.mark.parametrize("groups", [frozenset[str](), frozenset({"permutations"})])
@pytest.mark.filterwarnings("error")
def test_no_shape_is_too_strange(x: torch.Tensor, e: torch.Tensor, frame: str, groups: frozenset[str]) -> None:
    html, _ = drawn(x, e, frame, groups=groups)
    assert "nan" not in re.sub(r'src="[^"]*"', "", html)
