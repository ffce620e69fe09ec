"""The code of docs/models.md runs as it stands, section by section, and what it says is refused is refused."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from veracity import VeracityError

PAGE = (Path(__file__).parents[1] / "docs" / "models.md").read_text(encoding="utf-8")
REFUSED = "# refused: "
OPTIONAL = {"shap", "transformers", "tokenizers", "xgboost", "lightgbm", "onnxruntime"}


def code_of(section: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", section, flags=re.S))


INTRODUCTION, *REST = re.split(r"^## ", PAGE, flags=re.M)
SECTIONS = {section.split("\n", 1)[0]: code_of(section) for section in REST}
NEEDS = {"ONNX files": ["onnx", "onnxruntime"], "Refits and folds": ["shap"]}
"""Libraries that a section uses without an import."""
BEFORE = {"Categories and one-hot columns": ["Estimators and functions"], "Maps that you have already": ["Arrays, tables and datasets"]}
"""Sections whose names a section uses."""


def run(code: str, names: dict[str, Any], audits: bool = True) -> None:
    """Run one statement after the other; without audits, only what defines names."""
    for statement in ast.parse(code).body:
        written = ast.get_source_segment(code, statement) or ""
        line = code.splitlines()[(statement.end_lineno or 1) - 1]
        if not audits and (".run(" in written or "veracity.score(" in written or REFUSED in line):
            continue
        if REFUSED not in line:
            exec(compile(written, "docs/models.md", "exec"), names)
            continue
        with pytest.raises(VeracityError) as caught:
            exec(compile(written, "docs/models.md", "exec"), names)
        assert line.split(REFUSED)[1] in str(caught.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", SECTIONS)
def test_the_section_runs(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(SECTIONS[one] for one in (*BEFORE.get(title, ()), title))
    imported = {word.split(".")[0] for word in re.findall(r"^(?:import|from) ([\w.]+)", code, flags=re.M)}
    for library in [*sorted(imported & OPTIONAL), *NEEDS.get(title, [])]:
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "docs_models"}
    run(code_of(INTRODUCTION), names)
    for before in BEFORE.get(title, ()):
        run(SECTIONS[before], names, audits=False)
    run(SECTIONS[title], names)


def test_every_section_has_code_and_names_what_it_refuses() -> None:
    assert all("veracity." in code for code in SECTIONS.values())
    assert PAGE.count(REFUSED) >= 8
