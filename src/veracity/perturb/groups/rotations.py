"""Rotations: of an image by any angle, with interpolation, and of points in space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from typing import Self

import torch
from torch import Size, Tensor
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.registry import GROUPS
from veracity.core.spaces import InputSpace, Representation
from veracity.perturb.groups.base import FiniteGroup, Group, check_pairs, describe, lengths

TURN = 2 * math.pi


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Rotation(Group):
    """Rotations of an image about its centre by any angle, SO(2), bilinear and zero outside the frame.

    Elements (N, 1) are angles in [0, 2 pi), anticlockwise, float64. Angles form a group, but the interpolated action is only
    approximately one: compare every score with `floor`, s[g^-1 g x, x].

    >>> turned = Rotation().act(torch.tensor([[math.pi / 2]]), torch.tensor([[[1., 2.], [3., 4.]]]))
    >>> turned.round(decimals=4)
    tensor([[[2., 4.],
             [1., 3.]]])
    """

    name = "so2"
    representation = Representation.APPROXIMATE
    reference = "Jaderberg et al., Spatial transformer networks, NeurIPS 2015 (the bilinear sampler)"
    latents = 1

    def fit(self, shape: Size) -> Self:
        """The same group; raises if samples do not have rows and columns."""
        lengths(self, shape, (-2, -1))
        return self

    def decode(self, latent: Tensor) -> Tensor:
        """The latent's quantile times 2 pi."""
        quantile: Tensor = torch.special.ndtr(latent.double())
        return (quantile * TURN).remainder(TURN)

    def identity(self, n: int) -> Tensor:
        """Angle 0."""
        return torch.zeros(n, 1, dtype=torch.float64)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The sum of the angles."""
        return (g + h).remainder(TURN)

    def inverse(self, g: Tensor) -> Tensor:
        """The opposite angle."""
        return (-g).remainder(TURN)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """Each output pixel reads the input at its own position, rotated back."""
        check_pairs(self, elements, x)
        height, width = lengths(self, x.shape[1:], (-2, -1))
        if x.numel() == 0:
            return x
        angle = elements[:, 0].double()
        cos, sin = angle.cos(), angle.sin()
        rows = (cos, -sin * height / width, 0 * cos, sin * width / height, cos, 0 * cos)
        back = torch.stack(rows, dim=1).reshape(-1, 2, 3).to(device=x.device, dtype=x.dtype)
        images = x.reshape(len(x), math.prod(x.shape[1:-2]), height, width)
        grid = functional.affine_grid(back, list(images.shape), align_corners=False)
        return functional.grid_sample(images, grid, align_corners=False).reshape(x.shape)


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Rotations3D(Group):
    """Rotations of points in space about the origin, SO(3): (rho[g] x)_p = R_g x_p for every point p.

    Elements (N, 4) are unit quaternions (w, x, y, z), float64; q and -q are the same rotation. Signals (N, ..., 3) hold
    coordinates along their last axis. The representation is orthogonal but not a permutation: gradients of an invariant model
    rotate with its input (Corollary D.5), while Input x Gradient and |Saliency| need not (Proposition D.6).

    >>> quarter = torch.tensor([[0.5, 0.0, 0.0, 0.5]]).sqrt()
    >>> Rotations3D().act(quarter, torch.tensor([[[1.0, 0.0, 5.0]]])).round(decimals=4).abs()
    tensor([[[0., 1., 5.]]])
    """

    name = "so3"
    representation = Representation.ORTHOGONAL
    reference = "Shoemake, Uniform random rotations, Graphics Gems III 1992 (quaternions uniform on the sphere)"
    latents = 4

    def fit(self, shape: Size) -> Self:
        """The same group; raises if the last axis does not hold three coordinates."""
        check_points(self, shape)
        return self

    def decode(self, latent: Tensor) -> Tensor:
        """The direction of the latents, which is uniform on the sphere; the identity for a latent of zero."""
        latent = latent.double()
        length = latent.norm(dim=1, keepdim=True)
        return torch.where(length > 0, latent / length, self.identity(1).to(latent.device))

    def identity(self, n: int) -> Tensor:
        """The quaternion 1."""
        return torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64).repeat(n, 1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """Hamilton's product: (a, u) (b, v) = (a b - <u, v>, a v + b u + u x v)."""
        (a, u), (b, v) = (g[:, :1], g[:, 1:]), (h[:, :1], h[:, 1:])
        return torch.cat((a * b - (u * v).sum(dim=1, keepdim=True), a * v + b * u + torch.linalg.cross(u, v)), dim=1)

    def inverse(self, g: Tensor) -> Tensor:
        """The conjugate: the opposite turn about the same axis."""
        return g * g.new_tensor([1.0, -1.0, -1.0, -1.0])

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """N rotations of N point clouds."""
        check_pairs(self, elements, x)
        check_points(self, x.shape[1:])
        return rotate(matrices(elements.to(x.device).double()), x)


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class CubeRotations(FiniteGroup):
    """The 24 rotations that map a cube to itself, a finite subgroup of SO(3). They are exact: coordinates change places and signs.

    Elements (N, 1) are the numbers of `cube()`.

    >>> CubeRotations().order
    24
    """

    name = "cube_rotations"
    representation = Representation.ORTHOGONAL
    reference = "Coxeter, Regular polytopes, 1973 (the rotation group of the cube)"
    order = 24

    def fit(self, shape: Size) -> Self:
        """The same group; raises if the last axis does not hold three coordinates."""
        check_points(self, shape)
        return self

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The number of the product, from the group's table."""
        return cube_table().to(g.device)[g, h]

    def inverse(self, g: Tensor) -> Tensor:
        """The number whose product with g is the identity."""
        return (cube_table() == 0).nonzero()[:, 1].to(g.device)[g]

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """N rotations of N point clouds."""
        check_pairs(self, elements, x)
        check_points(self, x.shape[1:])
        return rotate(cube().to(x.device)[elements[:, 0].to(x.device)], x)


def matrices(quaternions: Tensor) -> Tensor:
    """Rotation matrices (N, 3, 3) of quaternions (N, 4), whatever their length.

    >>> matrices(torch.tensor([[0.0, 0.0, 0.0, 2.0]]))[0]
    tensor([[-1.,  0.,  0.],
            [ 0., -1.,  0.],
            [ 0.,  0.,  1.]])
    """
    w, x, y, z = quaternions.unbind(dim=1)
    s = 2.0 / quaternions.square().sum(dim=1)
    entries = (
        *(1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)),
        *(s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)),
        *(s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)),
    )
    return torch.stack(entries, dim=1).reshape(-1, 3, 3)


@cache
def cube() -> Tensor:
    """The cube's rotation matrices (24, 3, 3), the identity first: signed permutations of the axes with determinant 1."""
    axes = torch.eye(3, dtype=torch.float64)[torch.tensor(list(permutations(range(3))))]
    signs = torch.tensor(list(product((1.0, -1.0), repeat=3)), dtype=torch.float64)
    signed = (axes[:, None] * signs[None, :, :, None]).flatten(0, 1)
    return signed[torch.linalg.det(signed) > 0]


@cache
def cube_table() -> Tensor:
    """The number of g h for every two of the cube's rotations, (24, 24)."""
    products = (cube()[:, None] @ cube()[None]).flatten(2)
    return (products[:, :, None] == cube().flatten(1)).all(dim=3).long().argmax(dim=2)


def rotate(rotations: Tensor, x: Tensor) -> Tensor:
    """Points (N, ..., 3) multiplied by rotation matrices (N, 3, 3)."""
    points = x.reshape(len(x), math.prod(x.shape[1:-1]), 3)
    return (points @ rotations.to(x.dtype).mT).reshape(x.shape)


def check_points(space: InputSpace, shape: Size) -> None:
    """Raise unless the last axis of one sample holds three coordinates."""
    if lengths(space, shape, (-1,)) != (3,):
        raise InputError(
            f"{describe(space)} needs the 3 coordinates of a point along the last axis, but one sample has shape {tuple(shape)}: "
            "bring the inputs to (samples, points, 3)."
        )
