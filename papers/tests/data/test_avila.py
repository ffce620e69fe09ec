from __future__ import annotations

from pathlib import Path

import pytest
import torch

from veracity.core.errors import InputError
from veracity_papers.data import files
from veracity_papers.data.tabular import AVILA_FEATURES, AVILA_FILES, COPYISTS, avila

ROWS = "0.5,-1,2,3,4,5,6,7,8,9,A\n1,1,1,1,1,1,1,1,1,-1.25,Y\n0,0,0,0,0,0,0,0,0,0,W\n"


def test_letters_become_numbers_and_values_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "avila").mkdir()
    for file in AVILA_FILES.values():
        (tmp_path / file).write_text(ROWS)
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    table = avila("train")
    assert table.values[0].tolist() == [0.5, -1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert float(table.values[1, 9]) == -1.25
    assert table.labels.tolist() == [0, 11, 9]
    assert [table.classes[label] for label in table.labels] == ["A", "Y", "W"]
    assert table.features == AVILA_FEATURES
    (tmp_path / AVILA_FILES["test"]).write_text(ROWS.replace(",W", ",Z"))
    with pytest.raises(InputError, match=r"avila-ts.txt holds a row that is not 10 numbers and one of the letters ABCDEFGHIWXY"):
        avila("test")


@pytest.mark.skipif(files.locate(AVILA_FILES["test"]) is None, reason="needs Avila")
def test_the_real_rows_are_standardised_together() -> None:
    train, test = avila("train"), avila("test")
    assert (len(train), len(test), len(COPYISTS)) == (10_430, 10_437, 12)
    assert test.labels.bincount().tolist() == [4286, 5, 103, 353, 1095, 1962, 447, 520, 832, 45, 522, 267]
    values = torch.cat([train.values, test.values])
    odd = (train.values[:, 1] > 300).nonzero().flatten()
    assert odd.tolist() == [6619]
    rest = values[torch.arange(len(values)) != 6619]
    assert torch.allclose(rest.mean(dim=0), torch.zeros(10), atol=0.01)
    assert torch.allclose(rest.std(dim=0), torch.ones(10), atol=0.01)
