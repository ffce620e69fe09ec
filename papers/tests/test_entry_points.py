"""Every recipe and trainer of the papers is found by its name, and documented."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import veracity_papers
from veracity.core.registry import RECIPES, TRAINERS
from veracity.recipe import Recipe

SOURCE = Path(veracity_papers.__file__).parent
ROOT = Path(__file__).parents[2]
OURS = "veracity_papers."


PAPERS = ("Crabbé", "Hedström", "Huang", "Fel", "Zhao", "Abnar", "Almeida", "Helber", "Socher", "Becker", "Luo")


def installed(group: str) -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=group) if point.value.startswith(OURS)}


@pytest.mark.parametrize("group", ["veracity.recipes", "veracity.trainers"])
def test_what_is_installed_is_what_pyproject_says(group: str) -> None:
    stated = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][group]
    assert installed(group) == stated, "The installed entry points are stale: reinstall with pip install -e papers"


@pytest.mark.parametrize(
    ("group", "folder", "pattern"),
    [("veracity.recipes", "recipes", r'^@recipe\("([^"]+)"'), ("veracity.trainers", "zoo", r'^    name: ClassVar\[str\] = "([^"]+)"')],
)
def test_every_part_in_the_code_has_an_entry_point(group: str, folder: str, pattern: str) -> None:
    written = {name for file in SOURCE.glob(f"{folder}/*.py") for name in re.findall(pattern, file.read_text(), flags=re.M)}
    assert set(installed(group)) == written


@pytest.mark.parametrize("name", sorted(installed("veracity.recipes")))
def test_a_recipe_loads_by_its_name_and_says_what_it_does(name: str) -> None:
    assert isinstance(RECIPES[name], Recipe)
    assert RECIPES[name].name == name
    assert RECIPES[name].assemble.__module__.startswith(OURS)
    assert RECIPES[name].summary().endswith((".", "?"))
    assert RECIPES[name].reference.startswith(PAPERS)


def test_a_trainer_loads_by_its_name() -> None:
    for name in installed("veracity.trainers"):
        assert TRAINERS.build(name).spec()["name"] == name


def test_everything_is_documented() -> None:
    written = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    short = set(re.findall(r"`(-[a-z]+)`", written))
    assert not [name for name in RECIPES if f"`{name}`" not in written and f"-{name.rsplit('-', 1)[-1]}" not in short]
    assert not [name for name in TRAINERS if f'"{name}"' not in written]


def test_asking_for_one_recipe_imports_no_other_because_packages_import_nothing() -> None:
    for file in SOURCE.rglob("__init__.py"):
        assert not [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))], file
