"""The code of docs/scale.md about data that does not fit in memory runs as it stands, and its datasets give their samples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from veracity.inputs import DatasetInputs

PAGE = (Path(__file__).parents[1] / "docs" / "scale.md").read_text(encoding="utf-8")
SECTION = re.split(r"^## ", PAGE, flags=re.M)[1]


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_the_section_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    assert SECTION.startswith("Data that does not fit in memory")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "docs_scale"}
    for code in re.findall(r"```python\n(.*?)```", SECTION, flags=re.S):
        exec(compile(code, "docs/scale.md", "exec"), names)
    assert "saliency" in capsys.readouterr().out
    x = np.arange(600, dtype=np.float64).reshape(200, 3)
    pq.write_table(pa.table({"x": x.tolist(), "y": np.arange(200) % 2}), "rows.parquet", row_group_size=70)
    rows = DatasetInputs(names["ParquetRows"]("rows.parquet"))
    assert torch.equal(rows.take(torch.arange(200)).values, torch.from_numpy(x).float())
    assert rows.labels().tolist() == (np.arange(200) % 2).tolist()
    for number in range(3):
        image.fromarray(np.full((4, 5, 3), 51 * number, dtype=np.uint8)).save(f"{number}.png")
    photos = DatasetInputs(names["Photos"](tmp_path))
    assert photos.shape == (3, 4, 5)
    torch.testing.assert_close(photos.take(torch.arange(3)).values[:, 0, 0, 0], torch.tensor([0.0, 0.2, 0.4]))
