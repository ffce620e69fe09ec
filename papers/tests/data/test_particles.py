from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from veracity_papers.data.particles import KINDS, SPOT, Flows, flows, paint, particle_pairs


def still(count: int = 1) -> dict[str, Tensor]:
    sizes = {"mean": (count, 2), "channel": (count, 2), "vortices": (count, 1, 4), "waves": (count, 1, 5)}
    parts = {name: torch.zeros(size) for name, size in sizes.items()}
    parts["vortices"][..., 2] = 1.0
    return parts


def test_every_part_of_a_flow_has_its_known_value() -> None:
    points = torch.tensor([[[0.5, 0.5], [0.75, 0.5]]])
    parts = still() | {"mean": torch.tensor([[2.0, -1.0]])}
    assert Flows(**parts).at(points).tolist() == [[[2.0, -1.0], [2.0, -1.0]]]
    parts = still() | {"channel": torch.tensor([[4.0, 0.0]])}
    assert Flows(**parts).at(points)[0, 0].tolist() == pytest.approx([4.0, 0.0])
    parts = still() | {"vortices": torch.tensor([[[0.5, 0.5, 0.25, 3.0]]])}  # at its radius a vortex has its speed
    assert Flows(**parts).at(points).flatten().tolist() == pytest.approx([0.0, 0.0, 0.0, 3.0])
    parts = still() | {"waves": torch.tensor([[[1.0, 0.0, 0.0, 0.0, 2.0]]])}
    assert Flows(**parts).at(points).flatten().tolist() == pytest.approx([0.0, 0.0, 0.0, -2.0], abs=1e-5)


def test_a_field_is_the_flow_at_the_pixels_centres() -> None:
    moving = flows(4, torch.Generator().manual_seed(0))
    field = moving.field(8)
    point = torch.tensor([[[2.5 / 8, 6.5 / 8]]]).expand(4, 1, 2)
    assert torch.allclose(field[:, :, 6, 2], moving.at(point)[:, 0], atol=1e-5)


def test_vortices_and_turbulence_neither_gather_nor_spread() -> None:
    # In an incompressible flow du/dx + dv/dy = 0, however fast it turns.
    moving = flows(4, torch.Generator().manual_seed(1))
    field = moving.field(128).double()
    across = (field[:, 0, 1:-1, 2:] - field[:, 0, 1:-1, :-2]) / 2
    down = (field[:, 1, 2:, 1:-1] - field[:, 1, :-2, 1:-1]) / 2
    shear = (field[:, 0, 2:, 1:-1] - field[:, 0, :-2, 1:-1]) / 2
    for kind in ("vortices", "turbulence"):
        number = KINDS.index(kind)
        assert (across + down)[number].abs().max() < 0.05 * shear[number].abs().max()


def test_spots_are_painted_as_one_after_the_other() -> None:
    generator = torch.Generator().manual_seed(0)
    places = torch.rand(2, 5, 2, generator=generator) * 14 - 1
    width, light = 0.5 + torch.rand(2, 5, generator=generator), torch.rand(2, 5, generator=generator)
    slow = torch.zeros(2, 12, 12)
    for picture in range(2):
        for particle in range(5):
            x, y = places[picture, particle].tolist()
            for row in range(12):
                for column in range(12):
                    near = abs(row - math.floor(y)) <= SPOT and abs(column - math.floor(x)) <= SPOT
                    distance = (column + 0.5 - x) ** 2 + (row + 0.5 - y) ** 2
                    fall = math.exp(-distance / (2 * float(width[picture, particle]) ** 2))
                    slow[picture, row, column] += float(light[picture, particle]) * fall if near else 0.0
    assert torch.allclose(paint(places, width, light, 12), slow, atol=1e-5)


def test_frames_show_particles_that_moved_with_the_flow() -> None:
    frames, flow = particle_pairs(4, torch.Generator().manual_seed(2), side=64, fastest=3.0)
    assert frames.shape == flow.shape == (4, 2, 64, 64)
    assert float(frames.min()) >= 0
    assert float(frames.max()) <= 1
    place = torch.arange(64) + 0.5
    grid = torch.stack(torch.meshgrid(place, place, indexing="xy"))

    def read(values: Tensor, by: Tensor) -> Tensor:
        at = (2 * (grid + by) / 64 - 1).permute(0, 2, 3, 1)
        return torch.nn.functional.grid_sample(values, at, align_corners=False)[..., 8:-8, 8:-8]

    def likeness(sign: float) -> float:
        both = torch.stack((read(frames[:, :1], -sign * flow / 2).flatten(), read(frames[:, 1:], sign * flow / 2).flatten()))
        return float(torch.corrcoef(both)[0, 1])

    assert likeness(1.0) > 0.95
    assert likeness(-1.0) < 0.75


def test_the_same_seed_gives_the_same_pairs_and_the_global_state_stays() -> None:
    before = torch.get_rng_state()
    one, again = (particle_pairs(4, torch.Generator().manual_seed(5), side=32)[0] for _ in range(2))
    assert torch.equal(one, again)
    assert torch.equal(before, torch.get_rng_state())
