"""The pytest plugin, through its entry point: a session of its own makes a card, and the next one finds it measured."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from veracity.studies.result import load

ROOT = Path(__file__).parents[2]
POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
TESTS = """
import pytest
from linear_cards import contributions, labelled, linear_model, sum_of_logits
from veracity.cards import Claim

LONG = "Made again, it differs. " * 20

@pytest.fixture(scope="session")
def card(veracity_card):
    x, y = labelled(16)
    return veracity_card(linear_model(), x, y, explainers={"exact": contributions, "summed": sum_of_logits}, budget="1s", samples=12)

def test_holds(card):
    assert card.holds("model", explainer="exact")

def test_falls_short(card):
    assert card.holds("model", explainer="summed")

def test_long_sentence():
    assert Claim("lime", "Is it calm?", "falls short", LONG)

def test_wrong_name(card):
    card.holds("calm", explainer="sumed")

def test_two_of_a_name(card, veracity_card):
    x, y = labelled(16)
    veracity_card(linear_model(), x, y)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one test file, where veracity is installed: with the metadata that pip would write."""
    about = tmp_path / "site" / "veracity_here-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: veracity-here\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pytest11]\n" + "".join(f"{name} = {value}\n" for name, value in POINTS.items()))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "project" / "test_explanations.py").write_text(TESTS)
    return tmp_path / "project"


def session(project: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a session of pytest in a project prints."""
    pytest.main(["--rootdir", str(project), "-c", str(project / "pytest.ini"), "--import-mode=importlib", str(project)])
    return capsys.readouterr().out.splitlines()


def test_a_claim_fails_with_its_sentence_and_the_next_session_resumes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = session(project, capsys)
    assert "4 failed, 1 passed" in said[-1]
    folder = project / ".pytest_cache" / "d" / "veracity" / "model"
    card = load(folder)
    assert f"E       assert Does it depend on the model? summed: falls short. {card.answer('model', 'summed').sentence}" in said
    assert "Is it calm? lime: falls short. " + "Made again, it differs. " * 20 in said  # whole, however long it is
    assert any("Unknown explainer of this card 'sumed'. Did you mean 'summed'?" in line for line in said)
    assert any("SpecError: Two cards of this session are called 'model'" in line for line in said)
    cells = {path: path.stat().st_mtime_ns for path in (folder / "maps").rglob("*.parquet")}
    assert cells
    assert "4 failed, 1 passed" in session(project, capsys)[-1]
    assert {path: path.stat().st_mtime_ns for path in (folder / "maps").rglob("*.parquet")} == cells


@pytest.mark.subprocess
def test_the_plugin_costs_nothing_at_the_start() -> None:
    script = "import sys, veracity.pytest_plugin; print([name for name in ('torch', 'numpy', 'pandas', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
