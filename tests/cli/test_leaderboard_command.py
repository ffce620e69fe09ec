from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from commands import code

from report_runs import Observed, stored
from small import series_inputs, small_net
from veracity import Audit
from veracity.scores import Sparseness


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    Audit(
        models={"net_1": small_net()}, inputs=series_inputs(6), explainers=["gradient", "saliency"], scores={"sparse_50%": Sparseness()},
        companions=False,
    ).run(folder / "audit", progress=False)  # fmt: skip
    return folder


def test_tables_are_printed_or_written(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("leaderboard", runs) == 0
    printed = capsys.readouterr().out
    assert "### `net_1`" in printed
    assert r"| explainer | sparse\_50% ↑ |" in printed
    assert code("leaderboard", runs, "--out", tmp_path / "board.md") == 0
    assert (tmp_path / "board.md").read_text() == printed
    assert capsys.readouterr().out == f"{tmp_path / 'board.md'} written\n"
    assert code("leaderboard", runs, "--format", "latex", "--out", tmp_path / "tables") == 0
    assert r"explainer & sparse\_50\% $\uparrow$ \\" in (tmp_path / "tables").read_text()
    capsys.readouterr()
    assert code("leaderboard", runs / "audit", "--format", "csv") == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert set(table.loc[~table["control"], "explainer"]) == {"gradient", "saliency"}
    assert set(table["n"]) == {6}


def test_a_page_is_written_from_several_folders(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("leaderboard", runs, runs / "audit", "--out", tmp_path / "board.html") == 0
    page = (tmp_path / "board.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert page.count('<section data-model="0">') == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "error: 'nowhere' is not a folder: give a run folder, or a folder that holds some.\n"),
        (["."], "error: There is no audit in '.': give a run folder, or a folder that holds some.\n"),
        (["{runs}", "empty"], "error: There is no audit in 'empty': give a run folder, or a folder that holds some.\n"),
        (
            ["{runs}", "--format", "page"],
            "error: A page needs a file: add --out leaderboard.html, or ask for --format markdown, latex or csv.\n",
        ),
        (
            ["{runs}", "--out", "empty"],
            "error: The report needs a file to write to, not the folder 'empty': give a name such as 'empty/report.html'.\n",
        ),
    ],
)
def test_mistakes_are_one_sentence(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert code("leaderboard", *(one.format(runs=runs) for one in arguments)) == 2
    assert capsys.readouterr().err == said


def test_a_format_that_is_not_known_is_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("leaderboard", runs, "--format", "word") == 2
    assert "word" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["leaderboard", "show"])
def test_a_name_that_is_a_formula_is_text_in_csv(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    observed = [Observed(model="-net+1", explainer=name, score="sparseness", values=[-0.5, 0.1, 0.2]) for name in ("=1+1", "lime")]
    stored(tmp_path / "run", {"sparseness": Sparseness()}, observed)
    assert code(command, tmp_path / "run", "--format", "csv") == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert table["explainer"].tolist() == ["'=1+1", "lime"]
    assert set(table["model"]) == {"'-net+1"}
    assert table["value"].tolist() == pytest.approx([-0.2 / 3] * 2)
