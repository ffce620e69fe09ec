"""The command `card`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import code

FILE = """
data = "linear_cards:some"
explainers = {{exact = "linear_cards:contributions"}}
out = "runs/linear"
[models.linear]
build = "linear_cards:linear_model"
{more}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "audit.toml"
    path.write_text(FILE.format(more=""))
    return path


def test_a_page_a_file_and_a_gate(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("card", file, "--budget", "1s", "--samples", 10, "--workers", 1) == 0
    printed = capsys.readouterr().out
    assert "There is one explainer, exact, so nothing is compared." in printed
    folder = file.parent / "runs" / "linear-card"
    assert str(folder / "card.html") in printed.replace("\n", "")
    assert json.loads((folder / "card.json").read_text())["card"] == "veracity-card/1"
    assert "| `exact` |" in (folder / "card.md").read_text()
    assert code("show", folder) == 0
    assert "exact" in capsys.readouterr().out
    assert code("gate", folder, "--require", "repeat>=0.9") == 0
    assert code("gate", folder, "--require", "repeat>=1.5") == 1
    assert code("report", folder) == 0
    assert "Six questions" in (folder / "report.html").read_text()
    capsys.readouterr()
    assert code("audit", file, "--out", folder) == 2
    assert "a card" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "arguments", "sentence"),
    [
        ("", ("--budget", "soon"), "A budget is a time such as '90s', '10m' or '2h'"),
        ("[models.again]\nfit = 'small_cnn'\n[models.more]\nfit = 'small_cnn'", (), "has 2 cross-trained models"),
    ],
)
def test_mistakes_are_one_line(
    file: Path, more: str, arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(FILE.format(more=more))
    assert code("card", file, *arguments) == 2
    error = capsys.readouterr().err.strip()
    assert sentence in error
    assert "\n" not in error
