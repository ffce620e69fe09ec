"""The documentation names what there is, and nothing that is not: links, Python, scores and explainers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import veracity
import veracity.explain
import veracity.scores
from veracity.core.registry import EXPLAINERS, SCORES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "papers" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES}


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", TEXT[page], flags=re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", TEXT[page]):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(there), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_python_parses_and_names_public_things(page: Path) -> None:
    for block in blocks(page):
        tree = ast.parse(block)
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "veracity"}
        from_us = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "veracity"]
        for name in used | {alias.name for node in from_us for alias in node.names}:
            assert hasattr(veracity, name), f"{page.name} uses veracity.{name}"


@pytest.mark.parametrize(("registry", "pages"), [(SCORES, PAGES), (EXPLAINERS, [ROOT / "docs" / "explainers.md"])])
def test_everything_registered_is_documented(registry, pages) -> None:
    written = "\n".join(TEXT[page] for page in pages)
    ours = [name for name in registry if registry[name].__module__.startswith("veracity.")]
    assert len(ours) > 20
    assert not [name for name in ours if f"`{name}`" not in written]
