"""The code of docs/graphs.md runs, with fewer epochs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

PAGE = (Path(__file__).parents[1] / "docs" / "graphs.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch_geometric")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "graphs"}
    with torch.random.fork_rng(devices=[]):
        exec(compile(code.replace("epochs=20", "epochs=2"), "docs/graphs.md", "exec"), names)
    table = names["veracity"].Result("runs/edges").table().set_index(["explainer", "score"])
    assert {"gnn_explainer", "pg_explainer", "captum", "gradient"} <= set(table.index.get_level_values("explainer"))
    assert (table.xs("auc", level="score")["undefined"] == 1).all()
    assert "characterisation" in capsys.readouterr().out
