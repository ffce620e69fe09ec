from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.fingerprint import of_model
from veracity.orbits.layouts import FlowOrbit
from veracity.orbits.tasks.flow import Flow, reversal_floor
from veracity_papers.data.particles import particle_pairs
from veracity_papers.zoo.flow import Farneback

pytest.importorskip("cv2", reason="needs OpenCV")
TOLERANCE = 1e-3
"""How far Farneback is from equivariant on D4, in pixels: 3e-5 or less was measured on real pairs and on these."""


@pytest.fixture(scope="module")
def pairs() -> tuple[Tensor, Tensor]:
    return particle_pairs(4, torch.Generator().manual_seed(0), side=128, fastest=3.0)


def test_it_finds_a_known_shift(pairs: tuple[Tensor, Tensor]) -> None:
    first = pairs[0][:1, :1]
    both = torch.cat((first, first.roll((1, 2), (-2, -1))), dim=1)
    flow = Farneback()(both)
    assert flow.shape == (1, 2, 128, 128)
    assert flow[0, :, 16:-16, 16:-16].mean(dim=(1, 2)).tolist() == pytest.approx([2.0, 1.0], abs=0.05)


def test_its_orbit_is_flat_on_turns_and_mirror_images_and_near_the_floor_in_time(pairs: tuple[Tensor, Tensor]) -> None:
    frames, truth = pairs
    orbit, task, model = FlowOrbit(), Flow(), Farneback()
    count, elements = len(orbit.elements), orbit.elements
    many = frames.repeat_interleave(count, dim=0)
    rows = elements.repeat(len(frames), 1)
    outputs = task.undo(orbit.space, rows, model(orbit.space.act(rows, many)))
    still = outputs.reshape(len(frames), count, *truth.shape[1:])[:, :1].expand(-1, count, -1, -1, -1).flatten(0, 1)
    gaps = task.apart(outputs, still).reshape(len(frames), count)
    assert gaps[:, :8].max() < TOLERANCE
    backwards = gaps[:, 8:]
    assert backwards.min() > 5 * TOLERANCE  # time reversal is no exact symmetry of it
    assert (backwards.mean(dim=1) < reversal_floor(truth) + 0.15).all()


def test_rows_do_not_depend_on_each_other_and_none_may_be_given(pairs: tuple[Tensor, Tensor]) -> None:
    model = Farneback()
    assert torch.equal(model(pairs[0])[2:3], model(pairs[0][2:3]))
    assert model(pairs[0][:0]).shape == (0, 2, 128, 128)


def test_other_settings_are_another_model() -> None:
    assert of_model(Farneback()) == of_model(Farneback()) != of_model(Farneback(window=21))


def test_mistakes_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"pairs of frames \(N, 2, H, W\), not a batch of \(1, 1, 8, 8\)"):
        Farneback()(torch.zeros(1, 1, 8, 8))
    monkeypatch.setitem(sys.modules, "cv2", None)
    monkeypatch.setattr("veracity_papers.zoo.flow.find_spec", lambda name: None)
    with pytest.raises(SpecError, match=r"needs opencv-python-headless, which is not installed: pip install 'veracity-papers\[piv\]'"):
        Farneback()(torch.zeros(1, 2, 8, 8))
