"""How a model's output should move when its input does: phi~, beside the action phi on inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.component import Component
from veracity.core.errors import InputError, SpecError
from veracity.core.registry import ACTIONS
from veracity.core.spaces import InputSpace
from veracity.perturb.groups.base import Group, describe
from veracity.perturb.groups.dihedral import Mirror, SquareSymmetry
from veracity.perturb.groups.product import Product
from veracity.perturb.groups.shifts import Crop, WindowShift

NERO = "Zhao et al., Evaluating machine learning models with NERO, Figure 2 and appendix B.2"


@dataclass(frozen=True, kw_only=True)
class OutputAction(Component, ABC):
    """N elements (N, p) of a space of inputs act on N outputs (N, ...), and are undone: y' = phi~(g, y), y = phi~(g^-1, y')."""

    role = "output action"
    reference = NERO

    @abstractmethod
    def act(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """phi~(g, y), row by row."""

    def undo(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """phi~(g^-1, y), row by row: by default the inverse elements act."""
        return self.act(space, inverses(space, elements), y)


@ACTIONS.add
@dataclass(frozen=True, kw_only=True)
class Fixed(OutputAction):
    """Outputs that no transform of the input should change (invariance): classes, scalars."""

    name = "fixed"

    def act(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """y itself."""
        return y

    undo = act


@ACTIONS.add
@dataclass(frozen=True, kw_only=True)
class AsInput(OutputAction):
    """Outputs that live in the input's frame and move as it does (equivariance): one per point, node or pixel.

    >>> from veracity.perturb.groups.shifts import CyclicShift
    >>> AsInput().undo(CyclicShift(sizes=(3,)), torch.tensor([[1]]), torch.tensor([[1, 2, 3]]))
    tensor([[2, 3, 1]])
    """

    name = "as_input"

    def act(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """rho[g] y."""
        return space.act(elements, y)


@ACTIONS.add
@dataclass(frozen=True, kw_only=True)
class ShiftedBoxes(OutputAction):
    """Boxes (N, M, 4 or more) x0 y0 x1 y1 ... that shift with what the window shows; a row of NaN is no box.

    A window that moves by (dx, dy) moves boxes by -(dx, dy); a `WindowShift` by (dy, dx) moves them along.

    >>> ShiftedBoxes().act(Crop(window=8, reach=4), torch.tensor([[2, -1]]), torch.tensor([[[3.0, 3.0, 5.0, 6.0, 0.9]]]))
    tensor([[[1.0000, 4.0000, 3.0000, 7.0000, 0.9000]]])
    """

    name = "shifted_boxes"

    def act(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """Boxes moved along."""
        return move_boxes(y, window_offsets(space, elements))

    def undo(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """Boxes moved back."""
        return move_boxes(y, -window_offsets(space, elements))


@ACTIONS.add
@dataclass(frozen=True, kw_only=True)
class TurnedField(OutputAction):
    """Vector fields (N, 2, H, H), u to the right and v down, under D4 and time reversal.

    D4 moves the pixels and turns the vectors: a quarter turn anticlockwise takes (u, v) to (v, -u), a mirror image to (-u, v).
    Playing the frames backwards (`Mirror(axis=-3)`) negates the field; that v(x) and v(x + v) differ is not undone.

    >>> field = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]]])
    >>> from veracity.perturb.groups.dihedral import Dihedral
    >>> TurnedField().act(Dihedral(), torch.tensor([[1]]), field)[0, 1]
    tensor([[-2., -4.],
            [-1., -3.]])
    """

    name = "turned_field"
    reference = "Zhao et al., Evaluating machine learning models with NERO, section 3.2 and appendix B.2 (covariance)"

    def act(self, space: InputSpace, elements: Tensor, y: Tensor) -> Tensor:
        """Pixels moved, vectors turned, signs changed."""
        if y.ndim != 4 or y.shape[1] != 2:
            raise InputError(f"A vector field has shape (samples, 2, side, side), u to the right and v down, not {tuple(y.shape)}.")
        parts = zip(space.factors, space.split(elements), strict=True) if isinstance(space, Product) else [(space, elements)]
        for factor, part in parts:
            if isinstance(factor, SquareSymmetry):
                y = torch.einsum("nij,njhw->nihw", vector_maps(part).to(y), factor.act(part, y))
            elif isinstance(factor, Mirror) and factor.axis == -3:
                y = y * (1 - 2 * part.to(y))[:, :, None, None]
            else:
                raise SpecError(f"A vector field moves under D4 and time reversal alone, not under {describe(factor)}.")
        return y


def inverses(space: InputSpace, elements: Tensor) -> Tensor:
    """What undoes these elements (N, p); raises where a space has no inverses."""
    if isinstance(space, Group):
        return space.inverse(elements)
    if isinstance(space, WindowShift):
        return -elements
    raise SpecError(f"{describe(space)} is not a group, so nothing undoes it: choose a group, or the output action that belongs to it.")


def window_offsets(space: InputSpace, elements: Tensor) -> Tensor:
    """By how much what the window shows moves, (N, 2): to the right and down."""
    if isinstance(space, Crop):
        return -elements
    if isinstance(space, WindowShift) and sorted(space.axes) == [-2, -1]:
        return elements[:, [space.axes.index(-1), space.axes.index(-2)]]
    raise SpecError(f"Boxes shift with Crop(...) or WindowShift(axes=(-2, -1)), not with {describe(space)}.")


def move_boxes(boxes: Tensor, by: Tensor) -> Tensor:
    """Boxes (N, M, 4 or more) moved by (N, 2); what follows the corners stays."""
    if boxes.ndim != 3 or boxes.shape[2] < 4:
        raise InputError(f"Boxes have shape (samples, boxes, 4 or more), x0 y0 x1 y1 first, not {tuple(boxes.shape)}.")
    offset = by.to(boxes).repeat(1, 2)[:, None, :].expand(-1, boxes.shape[1], -1)
    return torch.cat((boxes[..., :4] + offset, boxes[..., 4:]), dim=2)


def vector_maps(elements: Tensor) -> Tensor:
    """What k quarter turns after s mirror images, elements k + 4 s (N, 1), do to a vector (right, down): matrices (N, 2, 2)."""
    quarter = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], device=elements.device)
    turned = torch.stack([torch.linalg.matrix_power(quarter, turn) for turn in range(4)])
    mirror = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]]], device=elements.device)
    return turned[elements[:, 0] % 4] @ mirror[elements[:, 0] // 4]
