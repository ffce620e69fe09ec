"""Every recipe and trainer of the papers is found by its name, and documented."""

from __future__ import annotations

import ast
import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import veracity_papers
from veracity.core.registry import RECIPES, TRAINERS
from veracity.recipe import Recipe

SOURCE = Path(veracity_papers.__file__).parent
ROOT = Path(__file__).parents[2]
OURS = "veracity_papers."


def of(group: str) -> set[str]:
    return {point.name for point in entry_points(group=group) if point.value.startswith(OURS)}


def test_every_recipe_in_the_code_has_an_entry_point() -> None:
    written = {name for file in SOURCE.glob("recipes/*.py") for name in re.findall(r'^@recipe\("([^"]+)"', file.read_text(), flags=re.M)}
    assert len(written) == 48
    assert of("veracity.recipes") == written


def test_every_trainer_in_the_code_has_an_entry_point() -> None:
    written = {
        name
        for file in SOURCE.glob("zoo/*.py")
        for name in re.findall(r'^    name: ClassVar\[str\] = "([^"]+)"', file.read_text(), flags=re.M)
    }
    assert of("veracity.trainers") == {"lipschitz", "resnet18"}
    assert written == of("veracity.trainers")


@pytest.mark.parametrize("name", sorted(of("veracity.recipes")))
def test_a_recipe_loads_by_its_name(name: str) -> None:
    assert isinstance(RECIPES[name], Recipe)
    assert RECIPES[name].name == name
    assert RECIPES[name].assemble.__module__.startswith(OURS)


def test_a_trainer_loads_by_its_name() -> None:
    for name in of("veracity.trainers"):
        assert TRAINERS.build(name).spec()["name"] == name


def test_everything_is_documented() -> None:
    written = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    short = set(re.findall(r"`(-[a-z]+)`", written))
    assert not [name for name in RECIPES if f"`{name}`" not in written and f"-{name.rsplit('-', 1)[-1]}" not in short]
    assert not [name for name in TRAINERS if f'"{name}"' not in written]


def test_asking_for_one_recipe_imports_no_other_because_packages_import_nothing() -> None:
    for file in SOURCE.rglob("__init__.py"):
        assert not [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))], file
