"""Which symmetries an input may have: every group here that fits its shape."""

from __future__ import annotations

import math

import torch
from torch import Size, Tensor

from veracity.core.draws import Draws
from veracity.core.errors import InputError
from veracity.core.inputs import Signals
from veracity.core.spaces import InputSpace
from veracity.perturb import (
    CubeRotations,
    CyclicShift,
    Dihedral,
    Flips,
    Mirror,
    NodePermutations,
    Permutations,
    Rotation,
    Rotations,
    Rotations3D,
    SignFlip,
    WindowShift,
)


def catalogue(shape: Size, structured: bool = False, margin: int = 0) -> list[InputSpace]:
    """Every catalogued symmetry of inputs of this shape (one sample's values) that moves anything, fitted.

    Of a graph's values (V, F), which are `structured`: node and feature permutations. One axis (F,), a table: permutations,
    shifts and reversal. Two axes, series (C, T), points (P, 3) or tokens (T, V): the same along each axis, rotations in
    space where there are three coordinates, an image's symmetries where it is square. Three axes or more, images
    (C, H, W): shifts, turns and mirror images of the last two, permutations of the channels. Inputs with a blank `margin`
    (see `blank_margin`) can be shifted inside it.

    >>> [space.name for space in catalogue(Size([5]))]
    ['cyclic_shift', 'mirror', 'permutations', 'sign_flip']
    """
    found = [fitted for space in candidates(shape, structured, margin) if (fitted := fits(space, shape)) is not None]
    return [space for space in found if space.order is None or space.order > 1]


def candidates(shape: Size, structured: bool, margin: int) -> list[InputSpace]:
    """What may be tried on inputs with so many axes, whether it fits or not."""
    points: list[InputSpace] = [Rotations3D(), CubeRotations()]
    if structured:
        return [NodePermutations(), Permutations(axis=-1), *points, SignFlip()]
    image: list[InputSpace] = [CyclicShift(axes=(-2, -1)), Dihedral(), Rotations(), Flips(), Rotation()]
    axes = [axis for axis in (-1, -2) if len(shape) >= -axis and shape[axis] > 1]
    along = [one for axis in axes for one in (CyclicShift(axes=(axis,)), Mirror(axis=axis))]
    window = [WindowShift(margin=margin, axes=(-2, -1) if len(shape) > 2 else (-1,))] if margin > 0 else []
    if len(shape) > 2:
        return [*(image if len(axes) == 2 else []), *along, *window, Permutations(axis=-3), SignFlip()]
    square = image if len(axes) == 2 and shape[0] == shape[1] else []
    return [*square, *along, *window, *(Permutations(axis=axis) for axis in axes), *points, SignFlip()]


def fits(space: InputSpace, shape: Size) -> InputSpace | None:
    """The space fitted to this shape, None if it cannot be."""
    try:
        return space.fit(shape)
    except InputError:
        return None


def moves(space: InputSpace, signals: Signals) -> bool:
    """Whether one random element for each of these inputs changes anything: what does not move them is kept by any model.

    >>> moves(Permutations(axis=-2, size=3), Signals(torch.ones(8, 3, 4)))
    False
    """
    latent = Draws.of(0, torch.arange(len(signals))).normal(space.latents, stream="moves")
    moved = space.move(space.decode(latent), signals)
    pairs = zip((moved.values, *moved.structure), (signals.values, *signals.structure), strict=True)
    return not all(torch.equal(after, before) for after, before in pairs)


def blank_margin(x: Tensor) -> int:
    """How many outer entries are blank in every one of N inputs (N, ...): along rows and columns of images, else the last axis.

    Blank is one value a sample and channel, as `WindowShift` asks; 0 if nothing at all is to be seen.

    >>> blank_margin(torch.tensor([[[0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0]]]))
    2
    """
    sizes = x.shape[-2:] if x.ndim > 3 else x.shape[-1:]
    flat = x.reshape(-1, math.prod(sizes))
    visible = (flat != flat[:, :1]).any(dim=0).reshape(sizes).nonzero()
    if len(visible) == 0:
        return 0
    return int(torch.minimum(visible, visible.new_tensor(sizes) - 1 - visible).min())
