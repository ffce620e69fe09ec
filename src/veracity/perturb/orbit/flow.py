"""Two frames, turned, mirrored, and played backwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.registry import ORBITS
from veracity.perturb.group.base import UNMOVED, describe
from veracity.perturb.group.dihedral import Dihedral, Mirror
from veracity.perturb.group.product import FiniteGroupProduct
from veracity.perturb.orbit.base import Axis, Layout, Orbit


@ORBITS.add
@dataclass(frozen=True, kw_only=True)
class FlowOrbit(Orbit):
    """Pairs of square frames (2, H, H) under D4 x time reversal: 16 transforms, as four rows of four quarter turns.

    Element number turn + 4 mirrored + 8 reversed mirrors left to right, then turns anticlockwise, and swaps the frames.

    >>> orbit = FlowOrbit()
    >>> orbit.coordinates()[13].tolist(), orbit.label(orbit.coordinates()[13])
    ([1.0, 1.0, 1.0], 'mirrored, turned by 90°, reversed')
    """

    name = "flow_orbit"
    reference = "Zhao et al., Evaluating machine learning models with NERO, section 3.2 and Figure 10"

    @property
    def layout(self) -> Layout:
        """Tiles."""
        return Layout.TILES

    @property
    def space(self) -> FiniteGroupProduct:
        """Time reversal x D4."""
        return FiniteGroupProduct(factors=(Mirror(axis=-3), Dihedral()))

    def fit(self, shape: Size) -> Self:
        """The same orbit, if one sample is two square frames."""
        if len(shape) != 3 or shape[0] != 2 or shape[1] != shape[2]:
            raise InputError(f"{describe(self)} needs pairs of square frames, of shape (2, side, side), but one sample has {tuple(shape)}.")
        return self

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Quarter turns, then whether it is mirrored and reversed."""
        turn = Axis(name="turn", label="quarter turns", low=0.0, high=3.0, period=4.0, step=1.0)
        mirrored = Axis(name="mirrored", label="mirrored", low=0.0, high=1.0, step=1.0)
        return turn, mirrored, Axis(name="reversed", label="reversed in time", low=0.0, high=1.0, step=1.0)

    def coordinates(self) -> Tensor:
        """(turn, mirrored, reversed), (16, 3)."""
        number = torch.arange(16)
        return torch.stack((number % 4, number // 4 % 2, number // 8), dim=1).double()

    def locate(self, at: Tensor) -> Tensor:
        """The nearest transforms."""
        turn, mirrored, backwards = at.double().round().long().unbind(dim=1)
        return torch.stack((backwards.clamp(0, 1), turn.remainder(4) + 4 * mirrored.clamp(0, 1)), dim=1)

    def label(self, at: Tensor) -> str:
        """What is done, in words."""
        backwards, square = self.locate(at[None])[0]
        done = [word for word in (Dihedral().words(square[None]), "reversed" if backwards else UNMOVED) if word != UNMOVED]
        return ", ".join(done) or UNMOVED
