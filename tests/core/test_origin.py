"""Whose code is it, and what of it counts: projects and distributions are written to disk and imported."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veracity.core import fingerprint
from veracity.core.fingerprint.origin import origin

NET = """
from torch import nn
from . import helper
from .layers import near
import {name}.far

class Net(nn.Module):
    def forward(self, x):
        from .late import late
        return near(x) + helper.beside(x) + {name}.far.away(x) + late(x)
"""
FILES = {
    "__init__.py": "",
    "net.py": NET,
    "layers.py": "def near(x):\n    return x * 1\n",
    "helper.py": "def beside(x):\n    return x * 1\n\ndef unused(x):\n    return x * 7\n",
    "far.py": "from .deeper import scale\n\ndef away(x):\n    return scale(x)\n",
    "deeper.py": "def scale(x):\n    return x * 1\n",
    "late.py": "from .later import last\n\ndef late(x):\n    return last(x)\n",
    "later.py": "def last(x):\n    return x * 1\n",
}
NUMBERS = itertools.count()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Write a package somewhere, import it as in a new process, and give the key of its network."""
    name = f"mine{next(NUMBERS)}"

    def key(folder: str = "src", **changed: str) -> str:
        root = tmp_path / folder
        (root / name).mkdir(parents=True, exist_ok=True)
        for file, text in {**FILES, **{f"{stem}.py": text for stem, text in changed.items()}}.items():
            (root / name / file).write_text(text.replace("{name}", name))
        monkeypatch.syspath_prepend(root)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        for module in [one for one in sys.modules if one.partition(".")[0] == name]:
            del sys.modules[module]
        importlib.invalidate_caches()
        return fingerprint.of_model(importlib.import_module(f"{name}.net").Net())

    key.name = name  # type: ignore[attr-defined]
    return key


def installed(root: Path, name: str, version: str, listed: str | None) -> None:
    """The metadata of a distribution; without a list of files as setuptools leaves it beside a project."""
    folder = root / (f"{name}-1.dist-info" if listed is not None else f"{name}.egg-info")
    folder.mkdir(parents=True, exist_ok=True)
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / ("METADATA" if listed is not None else "PKG-INFO")).write_text(about)
    (folder / "top_level.txt").write_text(f"{name}\n")
    if listed is not None:
        (folder / "RECORD").write_text(listed)


@pytest.mark.parametrize("file", ["layers", "helper", "far", "deeper", "late", "later"])
def test_a_function_in_another_module_of_the_user_counts(file: str, project: Callable[..., str]) -> None:
    base = project()
    assert project() == base
    assert project(**{file: FILES[f"{file}.py"].replace("return ", "return -")}) != base


def test_remarks_and_functions_that_nobody_names_do_not_count(project: Callable[..., str]) -> None:
    base = project()
    assert project(helper="# a remark\n" + FILES["helper.py"].replace("x * 7", "x * 8")) == base


@pytest.mark.parametrize("how", ["plain", "editable", "beside"])
def test_a_project_in_editable_mode_is_the_users_own_code(how: str, project: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "editable":
        installed(
            tmp_path / "site-packages", project.name, "1.0", f"__editable__.{project.name}.pth,,\n{project.name}-1.dist-info/RECORD,,\n"
        )
        monkeypatch.syspath_prepend(tmp_path / "site-packages")
    elif how == "beside":
        installed(tmp_path / "src", project.name, "1.0", None)
    base = project()
    assert origin(f"{project.name}.net") is None
    assert project(layers="def near(x):\n    return -x\n") != base


@pytest.mark.parametrize("listed", [True, False])
def test_an_installed_distribution_counts_by_name_and_version(listed: bool, project: Any, tmp_path: Path) -> None:
    def release(version: str, **changed: str) -> str:
        from veracity.core.fingerprint import origin as module

        installed(tmp_path / "site-packages", project.name, version, f"{project.name}/net.py,,\n" if listed else None)
        module.distribution_of.cache_clear()
        module.claims_on_path.cache_clear()
        return str(project("site-packages", **changed))

    base = release("1.0+cpu")
    assert origin(f"{project.name}.net") == f"{project.name} 1.0"
    assert release("1.0", layers="def near(x):\n    return -x\n") == base
    assert release("1.1") != base


def test_python_and_its_libraries_are_told_from_the_user() -> None:
    import numpy
    import sklearn.tree._tree

    assert origin("builtins") == "builtins"
    assert origin("collections.abc") == "collections"
    assert origin("math") == "math"
    assert origin("numpy.linalg") == f"numpy {numpy.__version__}"
    assert origin(sklearn.tree._tree.__name__) == f"scikit-learn {sklearn.__version__}"
    assert origin("veracity.trainers") == "veracity"
    assert origin(__name__) is None
    assert origin("__main__") is None
