from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from veracity.core.errors import SpecError
from veracity_papers.data import ecg as module
from veracity_papers.data import files
from veracity_papers.data.ecg import FILES, ecg, rescale

REAL = files.locate(f"ecg_mitbih/{FILES['test']}") is not None


@pytest.fixture
def beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """A folder with beats of kinds 0 to 4: 48 normal ones, and 12, 20, 8 and 9 of the others."""
    kinds = np.repeat(np.arange(5, dtype=np.uint8), [48, 12, 20, 8, 9])
    x = np.random.default_rng(0).integers(0, 2048, (len(kinds), 180)).astype(np.int16)
    (tmp_path / "ecg_mitbih").mkdir()
    for name in FILES.values():
        np.savez(tmp_path / "ecg_mitbih" / name, x=x, y=kinds)
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    return x


def test_beats_are_scaled_one_by_one_and_concepts_are_their_kinds(beats: np.ndarray) -> None:
    data = ecg("test")
    values = data.inputs.take(torch.arange(len(data))).values
    assert values.shape == (97, 1, 180)
    assert torch.equal(values.amin(dim=(1, 2)), torch.zeros(97))
    assert torch.equal(values.amax(dim=(1, 2)), torch.ones(97))
    low, high = int(beats[5].min()), int(beats[5].max())
    assert float(values[5, 0, 17]) == pytest.approx((int(beats[5, 17]) - low) / (high - low), abs=1e-6)
    assert data.labels.bincount().tolist() == [48, 49]
    assert {name: int(mask.sum()) for name, mask in data.concepts.items()} == {
        "supraventricular": 12,
        "premature ventricular": 20,
        "fusion": 8,
        "unknown": 9,
    }
    assert torch.equal(torch.stack(list(data.concepts.values())).any(dim=0), data.labels == 1)


def test_the_training_beats_are_balanced_by_drawing_and_by_smote(beats: np.ndarray) -> None:
    pytest.importorskip("imblearn")
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    train, again, plain = ecg("train"), ecg("train"), ecg("train", balanced=False)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert train.labels.bincount().tolist() == [48, 48]
    assert {int(mask.sum()) for mask in train.concepts.values()} == {12}
    values, recorded = (part.inputs.take(torch.arange(len(part))).values[:, 0] for part in (train, plain))
    assert torch.equal(values, again.inputs.take(torch.arange(len(train))).values[:, 0])
    assert not torch.equal(values, ecg("train", seed=1).inputs.take(torch.arange(len(train))).values[:, 0])
    known = torch.cdist(values.double(), recorded.double()).amin(dim=1) < 1e-6
    assert known[train.labels == 0].all()
    assert {name: int((known & mask).sum()) for name, mask in train.concepts.items()} == {
        "supraventricular": 12,
        "premature ventricular": 12,
        "fusion": 8,
        "unknown": 9,
    }
    # A synthetic fusion beat lies on the line between two recorded ones.
    new, old = values[~known & train.concepts["fusion"]], recorded[plain.concepts["fusion"]]
    detour = torch.cdist(new, old)[:, :, None] + torch.cdist(new, old)[:, None, :] - torch.cdist(old, old)
    assert float(detour.flatten(1).amin(dim=1).max()) < 1e-3


def test_a_flat_beat_is_zero() -> None:
    assert not rescale(np.full((1, 4), 7, dtype=np.int16)).any()


def test_a_missing_package_is_one_sentence(beats: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(SpecError, match=r"needs imbalanced-learn, which is not installed: pip install 'veracity-papers\[ecg\]'"):
        ecg("train")


@pytest.mark.skipif(not REAL, reason="needs the beats")
def test_no_recorded_test_beat_is_a_training_beat() -> None:
    train, test = ecg("train", balanced=False), ecg("test")
    assert (len(train), len(test)) == (11_871, 21_018)
    rows = [
        {row.tobytes() for row in np.ascontiguousarray(part.inputs.take(torch.arange(len(part))).values[:, 0])} for part in (train, test)
    ]
    assert not rows[0] & rows[1]
