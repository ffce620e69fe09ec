from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from veracity.core.errors import InputError
from veracity.orbits.tasks.flow import reversal_floor
from veracity_papers.data import files
from veracity_papers.data.particles import CLASSES, FILE, TYPES, piv

real = pytest.mark.skipif(files.locate(FILE) is None, reason="needs the real PIV pairs")


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """A file of the real one's form, with small frames that are all different."""
    draw = np.random.default_rng(0)
    content: dict[str, np.ndarray] = {}
    for key in TYPES.values():
        for part in ("first", "second"):
            content[f"{key}/{part}"] = draw.integers(0, 256, (10, 8, 8), dtype=np.uint8)
        content[f"{key}/flow"] = draw.normal(size=(10, 8, 8, 2)).astype(np.float16)
    (tmp_path / "piv").mkdir()
    np.savez(tmp_path / FILE, **content)
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    return content


def test_pairs_come_by_type_without_the_second_copy(few: dict[str, np.ndarray]) -> None:
    data = piv(2)
    assert data.frames.shape == (12, 2, 8, 8)
    assert data.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    sqg = CLASSES.index("SQG")
    for place, row in ((0, 0), (1, 2)):
        number = 2 * sqg + place
        assert torch.equal(data.frames[number, 1], torch.from_numpy(few["SQG/second"][row]).float() / 255)
        assert torch.equal(data.flow[number, 0], torch.from_numpy(few["SQG/flow"][row, ..., 0]).float())
    assert len(piv()) == 54


def test_no_more_pairs_are_given_than_there_are() -> None:
    with pytest.raises(InputError, match=r"There are 9 different pairs of each flow type, not 10: choose from 1 to 9\."):
        piv(10)


def read_at(values: Tensor, flow: Tensor) -> Tensor:
    side = flow.shape[-1]
    place = torch.arange(side) + 0.5
    grid = torch.stack(torch.meshgrid(place, place, indexing="xy")) + flow
    return grid_sample(values, (2 * grid / side - 1).permute(0, 2, 3, 1), padding_mode="border", align_corners=False)


def likeness(one: Tensor, other: Tensor) -> float:
    both = torch.stack((one[..., 16:-16, 16:-16].flatten(), other[..., 16:-16, 16:-16].flatten()))
    return float(torch.corrcoef(both)[0, 1])


@real
def test_real_flows_explain_their_frames_and_have_the_known_floors() -> None:
    data = piv(1)
    floors = dict(zip(CLASSES, reversal_floor(data.flow).tolist(), strict=True))
    assert floors["uniform"] < 1e-3
    assert floors["SQG"] == pytest.approx(0.354, abs=0.01)
    assert floors["DNS"] == pytest.approx(0.105, abs=0.01)
    first, second = data.frames[:, :1], data.frames[:, 1:]
    assert likeness(read_at(second, data.flow), first) > 0.9
    assert likeness(read_at(second, -data.flow), first) < 0.7
    # The flow belongs to the middle of each path: taken there it matches better than at the path's beginning.
    sqg = slice(CLASSES.index("SQG"), CLASSES.index("SQG") + 1)
    flow, first, second = data.flow[sqg], first[sqg], second[sqg]
    middle = read_at(flow, read_at(flow, flow / 2) / 2)
    assert likeness(read_at(second, middle), first) > likeness(read_at(second, flow), first) + 0.005
