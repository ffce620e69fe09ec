"""papers/COVERAGE.md has a full row for every table and figure, names real recipes, and is up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from veracity.core.registry import RECIPES
from veracity_papers.coverage import Paper, Row, page, papers

ROOT = Path(__file__).parents[2]
ROWS = [pytest.param(row, id=f"{paper.title}: {row.item}") for paper in papers() for row in paper.rows]
LAST = {
    "Symmetry": ("Table 15", "Figure 10"),
    "Faithfulness": ("Table 2", "Figure 10", "Table A.7", "Figure A.10"),
    "Robustness": ("Table 9", "Figure 9"),
    "Stability": ("Table 7", "Figure 10"),
    "Orbits": ("Figure 13",),
}
"""The last table and figure of each series of numbers in each paper."""


def numbers(paper: Paper) -> set[str]:
    """Every number a paper's rows name, with ranges and pairs written out: "Tables 5 and 6" is "Table 5" and "Table 6"."""
    found = set()
    for row in paper.rows:
        for kind, prefix, first, word, last in re.findall(r"(Table|Figure)s? (A\.)?(\d+)(?: (and|to) (?:A\.)?(\d+))?", row.item):
            steps = range(int(first), int(last) + 1) if word else [int(first)]
            found |= {f"{kind} {prefix}{number}" for number in steps}
    return found


@pytest.mark.parametrize("row", ROWS)
def test_no_row_is_empty(row: Row) -> None:
    assert not list(row.gaps())
    assert all(cell.strip() for cell in row.cells())


@pytest.mark.parametrize("row", ROWS)
def test_every_recipe_named_exists(row: Row) -> None:
    assert not [name for name in row.recipes if name not in RECIPES]


@pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper.title)
def test_no_number_is_left_out(paper: Paper) -> None:
    wanted = set()
    for last in LAST[paper.title]:
        stem, count = re.fullmatch(r"(\D+?)(\d+)", last).groups()
        wanted |= {f"{stem}{number}" for number in range(1, int(count) + 1)}
    assert numbers(paper) == wanted


def test_every_recipe_stands_in_the_page() -> None:
    assert not [name for name in RECIPES if f"`{name}`" not in page()]


def test_the_page_is_up_to_date() -> None:
    stored = (ROOT / "papers" / "COVERAGE.md").read_text(encoding="utf-8")
    assert stored == page(), "Run: python -m veracity_papers.coverage > papers/COVERAGE.md"
