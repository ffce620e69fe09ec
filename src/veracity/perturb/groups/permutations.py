"""Permutations of a set, such as points, of the nodes of a graph with their edges, and of the words of a text with their gates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.inputs import Signals
from veracity.core.registry import GROUPS
from veracity.core.settings import Count
from veracity.core.spaces import GraphSpace, GuidedSpace, check_known
from veracity.perturb.groups.base import FiniteGroup, PermutationAction, check_order, describe, lengths, same_sizes


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Permutations(PermutationAction, FiniteGroup):
    """All orders of the entries along one axis, S_n: (rho[pi] x)_i = x_pi(i).

    Elements (N, n) are the indices pi(0) ... pi(n - 1). Permutations of up to 12 entries can be numbered (by their Lehmer code);
    larger ones can only be drawn. The `axis` may be left out if only one axis of a sample has more than one entry: for points
    (P, 3) axis -1 holds x, y and z, and axis -2 the points.

    >>> orders = Permutations(axis=-1).fit(Size([3]))
    >>> orders.order, orders.unrank(torch.tensor([0, 5]))
    (6, tensor([[0, 1, 2],
            [2, 1, 0]]))
    """

    name = "permutations"
    reference = "Zaheer et al., Deep sets, NeurIPS 2017"

    axis: int | None = None
    size: Count | None = None

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis as a tuple; the last axis by default."""
        return (-1 if self.axis is None else self.axis,)

    def fit(self, shape: Size) -> Self:
        """The permutations of the entries of inputs of this shape."""
        named = self if self.axis is not None else replace(self, axis=self.only_axis(shape))
        sizes = lengths(named, shape, named.axes)
        same_sizes(named, None if self.size is None else (self.size,), sizes)
        return replace(named, size=sizes[0])

    def only_axis(self, shape: Size) -> int:
        """The only axis with more than one entry, counted from the end; raises if there are several."""
        long = [place - len(shape) for place, length in enumerate(shape) if length > 1]
        if len(long) > 1:
            choices = " or ".join(f"axis={axis} ({shape[axis]} entries)" for axis in long)
            raise InputError(
                f"{describe(self)} does not say which axis to permute, but one sample has shape {tuple(shape)}: give it {choices}; "
                "of points (P, 3) or tokens (T, V) it is axis=-2."
            )
        return long[0] if long else -1

    @property
    def length(self) -> int:
        """The number of entries; raises before `fit`."""
        return check_known(self, self.size, "the inputs' size")

    @property
    def order(self) -> int:
        """n! for n entries."""
        return math.factorial(self.length)

    @property
    def latents(self) -> int:
        """One per entry."""
        return self.length

    def decode(self, latent: Tensor) -> Tensor:
        """The ranks of the latents, which make all permutations equally likely."""
        return latent.argsort(dim=1)

    def enumerate(self) -> Tensor:
        """Every permutation once, (n!, n)."""
        return self.unrank(torch.arange(check_order(self)))

    def unrank(self, index: Tensor) -> Tensor:
        """Permutations (N, n) in lexicographic order, from the digits of their numbers in the factorial base."""
        check_order(self)
        left = torch.arange(self.length, 0, -1, device=index.device)
        weights = torch.tensor([math.factorial(n - 1) for n in range(self.length, 0, -1)], device=index.device)
        elements = (index.long()[:, None] // weights) % left
        for position in range(self.length - 2, -1, -1):
            elements[:, position + 1 :] += elements[:, position + 1 :] >= elements[:, [position]]
        return elements

    def identity(self, n: int) -> Tensor:
        """0, 1, ... n - 1."""
        return torch.arange(self.length).repeat(n, 1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """Entry i of the result is x_h(g(i))."""
        return h.gather(1, g)

    def inverse(self, g: Tensor) -> Tensor:
        """The inverse permutation."""
        return g.argsort(dim=1)

    def source(self, elements: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """The element itself."""
        same_sizes(self, (elements.shape[1],), sizes)
        return elements


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class NodePermutations(GraphSpace, Permutations):
    """All orders of a graph's node slots, S_V: rho[g] x(u) = x(g^-1(u)) and rho[g] a(u, v) = a(g^-1(u), g^-1(v)) (Table 4).

    Elements (N, V) are g^-1(0) ... g^-1(V - 1), the slots that are read. `act` moves features (N, V, F); `carry` moves the mask of
    slots that are nodes (N, V) with the fields of nodes before it, and the ends of edges (N, E, 2), where -1 stands for no edge; fields of
    edges after them stay. All orders of a graph's own nodes are
    equally likely, however many slots are empty.

    >>> graphs = NodePermutations().fit(torch.Size([3, 1]))
    >>> mask, edges = graphs.carry(torch.tensor([[2, 0, 1]]), (torch.tensor([[True, True, False]]), torch.tensor([[[0, 1], [-1, -1]]])))
    >>> mask.tolist(), edges.tolist()
    ([[False, True, True]], [[[1, 2], [-1, -1]]])
    """

    name = "node_permutations"
    reference = "Crabbé and van der Schaar, NeurIPS 2023, Table 4 (Mutagenicity)"

    axis: int | None = -2

    def fit(self, shape: Size) -> Self:
        """The permutations of the slots of graphs of this shape."""
        if len(shape) < 2:
            raise InputError(
                f"{describe(self)} moves node features, but one sample has shape {tuple(shape)}, such as gates of edges: pass "
                "inputs=GraphInputs.of(graphs)."
            )
        return super().fit(shape)

    def carry(self, elements: Tensor, structure: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """N permutations move the mask (N, V) with what comes before it, and rename the ends of the edges (N, E, 2), if there are any."""
        if not structure:
            return structure
        shapes = [tuple(part.shape) for part in structure]
        count, slots = elements.shape
        at = next((place for place, part in enumerate(structure[:-1]) if part.dtype is torch.bool), 0)  # after the fields of nodes
        ends = shapes[at + 1 : at + 2]
        if shapes[at] != (count, slots) or not ends or len(ends[0]) != 3 or ends[0][::2] != (count, 2):
            raise InputError(
                f"{describe(self)} needs graphs with a mask of shape ({count}, {slots}) and edges of shape ({count}, edges, 2), but the "
                f"structure has shapes {shapes}: build the inputs with GraphInputs."
            )
        mask, edges = structure[at : at + 2]
        place = self.inverse(elements).to(edges.device)
        renamed = place.gather(1, edges.clamp(min=0).flatten(1)).reshape(edges.shape)
        row, slot = torch.arange(count, device=mask.device)[:, None], elements.to(mask.device)
        nodes = (part[row, slot] for part in (*structure[:at], mask))
        return *nodes, torch.where(edges < 0, edges, renamed), *structure[at + 2 :]


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class TokenPermutations(GuidedSpace, Permutations):
    """All orders of the words or tokens of a text, S_n: token numbers and gates move together, and special tokens stay where they are.

    Elements (N, U) are permutations of as many slots as the longest text has. A text of n words is moved by the order that an element
    gives to its first n slots, so all its orders are equally likely, and padding stays. The pieces of a word stay together.

    >>> texts = TokenPermutations().fit(torch.Size([3]))
    >>> texts.steer(torch.tensor([[2, 1, 0]]), torch.tensor([[True, True, False]]))
    tensor([[1, 0, 2]])
    >>> ids, units = texts.carry(torch.tensor([[1, 0, 2]]), (torch.tensor([[101, 7, 8, 102]]), torch.tensor([[-1, 0, 1, -1]])))
    >>> ids.tolist(), units.tolist()
    ([[101, 8, 7, 102]], [[-1, 0, 1, -1]])
    """

    name = "token_permutations"
    reference = "Crabbé and van der Schaar, NeurIPS 2023, Table 4 (IMDb)"

    axis: int | None = -1

    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """Which gates exist: those of an unperturbed text are 1."""
        return x != 0

    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """The order of the existing slots, the first ones, in each permutation; the others stay."""
        count, slot = guide.sum(1, keepdim=True), torch.arange(elements.shape[1], device=elements.device)
        first = elements.gather(1, torch.where(elements < count, slot, slot + elements.shape[1]).argsort(dim=1))
        return torch.where(slot < count, first, slot)

    def move(self, elements: Tensor, signals: Signals) -> Signals:
        """N permutations move gates and tokens; what does not exist stays where it is."""
        elements = elements if signals.present is None else self.steer(elements, signals.present.to(elements.device))
        return Signals(signals.blank(self.act(elements, signals.values)), self.carry(elements, signals.structure), signals.present)

    def carry(self, elements: Tensor, structure: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """N permutations reorder token numbers, units and whatever else there is one of per token, each (N, T)."""
        units = structure[1]
        slot = torch.where(units >= 0, self.inverse(elements).to(units.device).gather(1, units.clamp(min=0)), units)
        last = elements.shape[1]
        tokens = torch.where(units >= 0, slot, last).argsort(dim=1, stable=True)  # in their new order, then those that stay
        places = (units < 0).long().argsort(dim=1, stable=True)
        source = torch.empty_like(tokens).scatter(1, places, tokens)
        moved = (part.gather(1, source) if part.shape == units.shape else part for part in structure[2:])
        return structure[0].gather(1, source), slot.gather(1, source), *moved
