"""The documentation is true: links lead somewhere, paths exist, names are public, examples run."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import veracity
import veracity.explain
import veracity.scores
from veracity.core import registry
from veracity.core.registry import EXPLAINERS, GROUPS, SCORES, Registry

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "papers/README.md", "papers/COVERAGE.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
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
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("veracity")):
            for alias in node.names:
                assert hasattr(import_module(node.module or ""), alias.name), f"{page.name} imports {alias.name} from {node.module}"


@pytest.mark.parametrize(
    ("registry", "pages"),
    [
        (SCORES, PAGES),
        (EXPLAINERS, [ROOT / "docs" / "explainers.md"]),
        (GROUPS, [ROOT / "docs" / "symmetry.md", ROOT / "docs" / "robustness.md"]),
    ],
)
def test_everything_registered_is_documented(registry, pages) -> None:
    written = "\n".join(TEXT[page] for page in pages)
    ours = [name for name in registry if registry[name].__module__.startswith("veracity.")]
    assert len(ours) > 10
    assert not [name for name in ours if f"`{name}`" not in written]


def test_the_glossary_defines_every_term_once_in_alphabetical_order() -> None:
    terms = re.findall(r"^- \*\*(.+?)\*\*", TEXT[ROOT / "docs" / "glossary.md"], flags=re.M)
    assert len(terms) > 50
    assert len({part for term in terms for part in term.split(", ")}) == sum(len(term.split(", ")) for term in terms)
    plain = [re.sub(r"[^a-z]", "", term.lower()) for term in terms]
    assert plain == sorted(plain)


HOMES = [ROOT, ROOT / "src" / "veracity", ROOT / "papers" / "src" / "veracity_papers"]
"""Where a path in the documentation may start."""
WRITTEN = re.compile(r"^(?:[\w.-]+/)+(?:[\w-]+\.(?:py|md|toml|ts|css|sh))?$|^[\w/-]+\.py$")
GROUPS_OF_ENTRY_POINTS = {f"veracity.{one.plural}" for one in vars(registry).values() if isinstance(one, Registry)} | {
    "veracity.executors",
    "veracity.figures",
}
YOURS = {"transposed.py", "scorecard.py", "audit.toml"}
"""Files that a reader writes."""
RUN_FOLDERS = re.compile(
    r"^(?:runs|models|answers|explanations|orbits|outputs|pictures|reductions|failed|calibrations|lessons|worst|cells)(?:/|$)"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", TEXT[page], flags=re.S)
    written = [text for text in re.findall(r"`([^`\n]+)`", prose) if WRITTEN.match(text) and text not in YOURS]
    paths = [path for path in written if not RUN_FOLDERS.match(path)]
    assert not [path for path in paths if not any((home / path).exists() for home in [*HOMES, page.parent])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_exist(page: Path) -> None:
    for path in set(re.findall(r"\b(?:veracity|veracity_papers|benchmarks)(?:\.[A-Za-z_]\w*)+", TEXT[page])):
        if path in GROUPS_OF_ENTRY_POINTS:
            continue
        module, rest = path, []
        while not importable(module):
            module, _, name = module.rpartition(".")
            rest.insert(0, name)
        found = import_module(module)
        for name in rest:
            assert hasattr(found, name), f"{page.name} names {path}"
            found = getattr(found, name)


def test_the_architecture_names_every_folder_and_lists_files_in_full() -> None:
    written = TEXT[ROOT / "docs" / "ARCHITECTURE.md"]
    source = ROOT / "src" / "veracity"
    own = [path for path in source.glob("*.py") if path.name != "__init__.py"]
    folders = [path.parent for path in source.glob("*/__init__.py")]
    missing = [path.name for path in own + folders if f"`src/veracity/{path.name}{'' if path.suffix else '/'}`" not in written]
    assert not missing
    listed = set(re.findall(r"`(\w+/\w+\.py)`", "".join(re.findall(r"^\| (`\w+/\w+\.py`.*?) \|", written, flags=re.M))))
    described = {path.split("/")[0] for path in listed}
    assert len(described) > 5
    there = {f"{path.parent.name}/{path.name}" for folder in described for path in (source / folder).glob("*.py")}
    assert listed == {path for path in there if not path.endswith("__init__.py")}


def importable(name: str) -> bool:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            return False
        raise
    return True


@pytest.fixture
def registries() -> Iterator[None]:
    """Every registry is afterwards what it was before."""
    every = [one for one in vars(registry).values() if isinstance(one, Registry)]
    before = [dict(one._items) for one in every]
    yield
    for one, items in zip(every, before, strict=True):
        one._items = items


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
@pytest.mark.usefixtures("registries")
def test_every_kind_of_part_has_an_example_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "extending.md"
    (tmp_path / "extending_page.py").write_text("\n".join(blocks(page)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for one in (one for one in vars(registry).values() if isinstance(one, registry.Registry)):
        monkeypatch.setattr(one, "_items", dict(one.own()))
    try:
        import_module("extending_page")
    finally:
        sys.modules.pop("extending_page", None)
    kinds = ["measure", "group", "explainer", "walk", "score", "modality", "executor", "report-figure", "recipe"]
    assert not set(kinds) - anchors(page)
