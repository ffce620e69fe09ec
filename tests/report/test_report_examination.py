"""The page of an examination: one file that parses, loads nothing, escapes names, and shows the truth beside the maps that miss it."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser

import pytest
import torch
from torch import Tensor

import veracity
from veracity.planted import Examination, Verdict, suite
from veracity.report.examination import draw_over, render_examination

VOID = {"meta", "link", "img", "br", "hr"}


class Tags(HTMLParser):
    """Open tags, which must close in order, and everything that a page could load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "action"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def constant(model: object, inputs: Tensor, targets: Tensor) -> Tensor:
    """The same everywhere: wrong about every task."""
    return torch.ones_like(inputs)


@cache
def found() -> Examination:
    """The first task of four modalities, and those at which the output is flat: an audit for each of all the others takes long."""
    asked = {"<script>mine&": constant, "gradient": "gradient"}
    few = {name: tuple(one for one in tasks if one is tasks[0] or one.name == "saturated") for name, tasks in suite.MODALITIES.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite, "MODALITIES", few)
        return veracity.examine(asked, modality=("tables", "series", "texts", "graphs"), samples=4)


@cache
def page() -> str:
    return render_examination(found())


def test_the_page_parses_and_loads_nothing() -> None:
    tags = Tags()
    tags.feed(page())
    tags.close()
    assert not tags.open
    assert all(link.startswith(("data:", "#")) for link in tags.loaded)
    assert "script" not in tags.tags
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", page())
    assert len(page()) < 200_000


def test_names_are_escaped() -> None:
    assert "<script>mine" not in page()
    assert "&lt;script&gt;mine&amp;" in page()


def test_every_failure_is_on_the_page_with_its_reason() -> None:
    failed = [one for one in found().findings if one.verdict is Verdict.FAILS]
    assert failed
    assert page().count("<li><strong>") == len(failed)
    assert "the output is flat at the sample" in page()
    assert page().count('<td class="fails">') == len(failed)


def test_each_task_with_a_mask_shows_its_input_its_truth_and_the_maps_that_miss_it() -> None:
    missed = {(one.modality, one.task) for one in found().findings if one.verdict is Verdict.FAILS and one.score != "self_agreement"}
    assert set(found().shown) == missed
    tiles = sum(2 + len(one.maps) for one in found().shown.values() if not one.words)
    assert page().count("<figcaption>") == tiles
    lines = sum(1 + len(one.maps) for one in found().shown.values() if one.words)
    assert page().count("<dt>") == lines
    assert "alpha" in page()


def test_the_maps_are_those_of_the_first_sample() -> None:
    shown = found().shown["tables", "saturated"]
    assert torch.equal(shown.maps["<script>mine&"], torch.ones(8))
    assert shown.truth.tolist() == [True, True] + [False] * 6
    assert float(shown.maps["gradient"].abs().max()) == 0.0


@pytest.mark.parametrize(
    ("shape", "modality"), [((1, 6, 6), "images"), ((3, 6, 6), "images"), ((6, 6), "images"), ((1, 9), "series"), ((8,), "tables")]
)
def test_empty_maps_are_drawn_too(shape: tuple[int, ...], modality: str) -> None:
    zeros = torch.zeros(shape).double().numpy()
    assert re.search(r'(alt|aria-label)="&lt;i&gt;"', draw_over(zeros, zeros, modality, "<i>"))
