"""Pairs of particle images with known flow: the NERO paper's test set (Cai et al. 2019), and generated pairs.

The test set has sixty pairs of six flow types. A pair is two frames of 256x256; its flow says how far a particle moves between
them: u to the right and v downwards, in pixels. The file has the first pair of each type twice, so there are nine different pairs
of each; the copies are left out. Warping the second frame back matches the first best (a correlation of .960 for SQG) if the flow
is taken at the middle of each path, not at its beginning (.951) or end (.950).

In generated pairs, bright particles follow a smooth flow. Four kinds of flow take turns, as in the usual benchmarks: uniform in
any direction, channels whose fluid runs to the right, vortices, and turbulence of random waves. Particles are Gaussian spots
(Raffel et al. 2018, section 2), drawn before and after the flow moved them; a displacement belongs to the middle of a particle's
path, as in central-difference PIV. Every random number comes from one generator, and everything is computed on its device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity_papers.data import files

ORIGIN = "github.com/zhuokaizhao/nero_vis (<type>/first, <type>/second, <type>/flow for six types, in one npz file)"
FILE = "piv/piv_six_flows_10each.npz"
TYPES = {
    "uniform": "uniform",
    "backstep": "backstep_Re800",
    "cylinder": "cylinder_Re40",
    "SQG": "SQG",
    "DNS": "DNS_turbulence",
    "isotropic": "JHTDB_isotropic1024_hd",
}
CLASSES = tuple(TYPES)
EACH = 9
DISTINCT = [0, *range(2, 10)]


@dataclass(frozen=True)
class Pairs:
    """Frames (N, 2, H, W) in [0, 1], flows (N, 2, H, W) in pixels, and the flow types' numbers (N,)."""

    frames: Tensor
    flow: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def piv(each: int = EACH) -> Pairs:
    """`each` pairs of every one of the six flow types, at most nine, in the order of CLASSES."""
    if not 1 <= each <= EACH:
        raise InputError(f"There are {EACH} different pairs of each flow type, not {each}: choose from 1 to {EACH}.")
    with np.load(files.find(FILE, ORIGIN)) as file:
        first, second, flow = (
            torch.from_numpy(np.concatenate([file[f"{key}/{part}"][DISTINCT][:each] for key in TYPES.values()])).float()
            for part in ("first", "second", "flow")
        )
    frames = torch.stack((first, second), dim=1) / 255.0
    return Pairs(frames, flow.permute(0, 3, 1, 2).contiguous(), torch.arange(len(TYPES)).repeat_interleave(each))


KINDS = ("uniform", "channel", "vortices", "turbulence")
MODES = 12
SPOT = 3
"""Particles reach this many pixels from their own, rounded."""


@dataclass(frozen=True)
class Flows:
    """N smooth flows, known everywhere: a mean, a channel's parabola, Gaussian vortices and plane waves, added up.

    mean (N, 2)   channel (N, 2): the highest speed to the right and the phase of its profile
    vortices (N, V, 4): x, y, radius, speed in pixels   waves (N, M, 5): wave numbers x and y, phase, u, v
    """

    mean: Tensor
    channel: Tensor
    vortices: Tensor
    waves: Tensor

    def at(self, points: Tensor) -> Tensor:
        """Displacements (N, P, 2) in pixels at points (N, P, 2), x and y in shares of the picture's side."""
        y = points[..., 1]
        flow = self.mean[:, None] + torch.zeros_like(points)
        rise = self.channel[:, :1] * torch.sin(math.pi * (y + self.channel[:, 1:])) ** 2
        flow = flow + torch.stack((rise, torch.zeros_like(rise)), dim=-1)
        away = points[:, :, None] - self.vortices[:, None, :, :2]
        radius, speed = self.vortices[:, None, :, 2], self.vortices[:, None, :, 3]
        near = away / radius[..., None]
        swirl = speed * (0.5 - near.square().sum(dim=-1) / 2).exp()
        flow = flow + (torch.stack((-near[..., 1], near[..., 0]), dim=-1) * swirl[..., None]).sum(dim=2)
        phase = 2 * math.pi * (points @ self.waves[..., :2].transpose(1, 2)) + self.waves[:, None, :, 2]
        return flow + phase.sin() @ self.waves[..., 3:]

    def field(self, side: int) -> Tensor:
        """Displacements (N, 2, side, side) at the pixels of a picture."""
        place = (torch.arange(side, device=self.mean.device) + 0.5) / side
        grid = torch.stack(torch.meshgrid(place, place, indexing="xy"), dim=-1).reshape(1, -1, 2)
        return self.at(grid.expand(len(self.mean), -1, -1)).transpose(1, 2).reshape(-1, 2, side, side)


def flows(count: int, generator: torch.Generator, *, fastest: float = 6.0) -> Flows:
    """`count` flows of the four kinds in turn, whose displacements are of the order of up to `fastest` pixels."""
    device = generator.device
    kind = torch.arange(count, device=device) % len(KINDS)
    drawn = partial(torch.rand, count, generator=generator, device=device)
    angle, speed = 2 * math.pi * drawn(1), fastest * drawn(1) * torch.where(kind == 0, 1.0, 0.25)[:, None]
    mean = speed * torch.cat((angle.cos(), angle.sin()), dim=1)
    channel = torch.cat((1.3 * fastest * drawn(1), 0.5 * drawn(1)), dim=1) * (kind == 1)[:, None]
    vortices = torch.cat((drawn(4, 2), 0.08 + 0.2 * drawn(4, 1), fastest * (drawn(4, 1) - 0.5)), dim=2)
    vortices = vortices * torch.where((kind == 2)[:, None, None], 1.0, vortices.new_tensor([1.0, 1.0, 1.0, 0.0]))
    number, phase, turn = 6 * drawn(MODES, 1).square() + 0.5, 2 * math.pi * drawn(MODES, 1), 2 * math.pi * drawn(MODES, 1)
    strength = 0.8 * fastest / number / MODES**0.5 * (drawn(MODES, 1) - 0.5) * 2 * torch.where(kind == 3, 1.0, 0.05)[:, None, None]
    across, along = -turn.sin() * strength, turn.cos() * strength
    waves = torch.cat((number * turn.cos(), number * turn.sin(), phase, across, along), dim=2)
    return Flows(mean, channel, vortices, waves)


def particle_pairs(count: int, generator: torch.Generator, *, side: int = 128, fastest: float = 6.0) -> tuple[Tensor, Tensor]:
    """Frames (N, 2, side, side) in [0, 1] of particles before and after they moved, and their flows (N, 2, side, side) in pixels."""
    device = generator.device
    moving = flows(count, generator, fastest=fastest)
    margin = 2 * fastest / side
    most = round(0.1 * (side * (1 + 2 * margin)) ** 2)
    drawn = partial(torch.rand, count, generator=generator, device=device)
    points = drawn(most, 2) * (1 + 2 * margin) - margin
    dense = drawn(most) < 0.4 + 0.6 * drawn(1)
    light = (0.4 + 0.6 * drawn(most)) * dense
    width = 0.5 + 0.6 * drawn(1) + 0.2 * drawn(most)
    half = moving.at(points) / 2
    frames = torch.stack([paint(points * side + way, width, light, side) for way in (-half, half)], dim=1)
    noisy = frames + 0.02 * torch.randn(frames.shape, generator=generator, device=device)
    return (0.05 * drawn(1, 1, 1) + (0.6 + 0.4 * drawn(1, 1, 1)) * noisy).clamp(0, 1), moving.field(side)


def paint(places: Tensor, width: Tensor, light: Tensor, side: int) -> Tensor:
    """Pictures (N, side, side) of Gaussian spots at places (N, P, 2) in pixels, with widths (N, P) and brightness (N, P).

    >>> paint(torch.tensor([[[1.5, 0.5]]]), torch.ones(1, 1), torch.ones(1, 1), 3)[0, 0].round(decimals=2)
    tensor([0.6100, 1.0000, 0.6100])
    """
    around = torch.arange(-SPOT, SPOT + 1, device=places.device)
    x, y = ((places[..., axis].floor().long()[..., None] + around) for axis in (0, 1))
    falls = [(-((line + 0.5 - places[..., axis, None]) ** 2) / (2 * width[..., None] ** 2)).exp() for axis, line in ((0, x), (1, y))]
    inside = [(line >= 0) & (line < side) for line in (x, y)]
    value = light[..., None, None] * (falls[1] * inside[1])[..., :, None] * (falls[0] * inside[0])[..., None, :]
    number = torch.arange(len(places), device=places.device)[:, None, None, None] * side * side
    place = number + y.clamp(0, side - 1)[..., :, None] * side + x.clamp(0, side - 1)[..., None, :]
    canvas = value.new_zeros(len(places) * side * side).index_add_(0, place.flatten(), value.flatten())
    return canvas.reshape(-1, side, side)
