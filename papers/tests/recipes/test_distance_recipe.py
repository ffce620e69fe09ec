from __future__ import annotations

from pathlib import Path

import pytest

from veracity.cli import main
from veracity.recipe import Scale, run_recipe


def test_the_recipe_runs_from_the_command_line_and_again_into_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    with pytest.raises(SystemExit) as caught:
        main(["recipe", "distance-check", "--scale", "smoke", "--out", str(folder)])
    assert not caught.value.code
    said = capsys.readouterr().out
    assert "sliced_wasserstein" in said
    assert "report.html written" in said
    verdicts = run_recipe("distance-check", folder, Scale.SMOKE, progress=False).verdicts().set_index("distance")
    assert verdicts.loc["signed_rank_distance", "spot, diagonal"] == "passes"
    assert verdicts.loc["rank_distance", "spot, diagonal"] == "fails"
    assert {path.name for path in folder.iterdir()} == {"findings.json", "lock", "manifest.json", "report.html", "run.json", "summary.json"}
