"""The command `examine`."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import code


def test_a_table_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("examine", "gradient", "integrated_gradients", "--modality", "graphs", "--samples", 6, "--out", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    assert "integrated_gradients" in printed
    assert "3 redundant: 1.5 for each alpha" in printed
    assert "graphs, redundant: gradient: the output is flat at the sample" in printed
    assert (tmp_path / "out" / "examine.csv").exists()
    assert (tmp_path / "out" / "examine.md").exists()
    assert (tmp_path / "out" / "examine.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("no_such_module:Thing",), "Cannot import 'no_such_module'"),
        (("gradient", "--modality", "sounds"), "Unknown modality 'sounds'"),
        (("grad_cam", "--modality", "graphs"), "'grad_cam' explains none of the planted graphs"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("examine", *arguments) == 2
    error = capsys.readouterr().err.strip()
    assert sentence in error
    assert "\n" not in error
