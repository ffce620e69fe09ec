"""Permutations of a set, such as points or words, and of the nodes of a graph, whose mask and edges move along."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.registry import GROUPS
from veracity.core.settings import Count
from veracity.core.spaces import GraphSpace
from veracity.perturb.groups.base import FiniteGroup, PermutationAction, describe, known, lengths, numbered, same_sizes


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class Permutations(PermutationAction, FiniteGroup):
    """All orders of the entries along one axis, S_n: (rho[pi] x)_i = x_pi(i).

    Elements (N, n) are the indices pi(0) ... pi(n - 1). There are n! of them: sets of up to 12 can be numbered (by
    their Lehmer code), larger ones only drawn. The `axis` may be left out where only one axis of a sample has more than one
    entry: on points (P, 3) the last axis holds x, y and z, and axis=-2 the points.

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
        """The set's axis: the last one, as long as none is named."""
        return (-1 if self.axis is None else self.axis,)

    def fit(self, shape: Size) -> Self:
        """The permutations of the entries of inputs of this shape."""
        named = self if self.axis is not None else replace(self, axis=self.only_axis(shape))
        sizes = lengths(named, shape, named.axes)
        same_sizes(named, None if self.size is None else (self.size,), sizes)
        return replace(named, size=sizes[0])

    def only_axis(self, shape: Size) -> int:
        """The only axis with more than one entry, counted from the end; raises if several axes could be meant."""
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
        """How many entries the set has, once fitted."""
        known(self, self.size)
        return self.size or 0

    @property
    def order(self) -> int:
        """n!"""
        return math.factorial(self.length)

    @property
    def latents(self) -> int:
        """One for each entry."""
        return self.length

    def decode(self, latent: Tensor) -> Tensor:
        """The order of the latents: every permutation is as likely as any other."""
        return latent.argsort(dim=1)

    def enumerate(self) -> Tensor:
        """Every permutation once, (n!, n)."""
        return self.unrank(torch.arange(numbered(self)))

    def unrank(self, index: Tensor) -> Tensor:
        """Permutations (N, n) in lexicographic order, from the digits of their numbers in the factorial base."""
        numbered(self)
        place = torch.arange(self.length)
        weights = torch.tensor([math.factorial(self.length - 1 - position) for position in range(self.length)], device=index.device)
        elements = (index.long()[:, None] // weights) % (self.length - place.to(index.device))
        for position in range(self.length - 2, -1, -1):
            elements[:, position + 1 :] += elements[:, position + 1 :] >= elements[:, [position]]
        return elements

    def identity(self, n: int) -> Tensor:
        """Every entry at its own place."""
        return torch.arange(self.length).repeat(n, 1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """x_h(g(i)): g reads what h has laid out."""
        return h.gather(1, g)

    def inverse(self, g: Tensor) -> Tensor:
        """Where each entry went."""
        return g.argsort(dim=1)

    def source(self, elements: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """The element itself."""
        same_sizes(self, (elements.shape[1],), sizes)
        return elements


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class NodePermutations(GraphSpace, Permutations):
    """All orders of a graph's node slots, S_V: rho[g] x(u) = x(g^-1(u)) and rho[g] a(u, v) = a(g^-1(u), g^-1(v)) (Table 4).

    Elements (N, V) are g^-1(0) ... g^-1(V - 1), the slots that are read. `act` moves features (N, V, F); `carry` moves
    which slots are nodes (N, V) and the ends of edges (N, E, 2), where -1 stands for no edge. Every order of a graph's
    own nodes is as likely as any other, however many slots are empty.

    >>> graphs = NodePermutations().fit(torch.Size([3, 1]))
    >>> mask, edges = graphs.carry(torch.tensor([[2, 0, 1]]), (torch.tensor([[True, True, False]]), torch.tensor([[[0, 1], [-1, -1]]])))
    >>> mask.tolist(), edges.tolist()
    ([[False, True, True]], [[[1, 2], [-1, -1]]])
    """

    name = "node_permutations"
    reference = "Crabbé and van der Schaar, NeurIPS 2023, Table 4 (Mutagenicity)"

    axis: int | None = -2

    def carry(self, elements: Tensor, structure: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """N permutations move the mask (N, V) and rename the ends of the edges (N, E, 2); without structure nothing is left to do."""
        if not structure:
            return structure
        mask, edges = self.graph(elements, structure)
        place = self.inverse(elements).to(edges.device)
        renamed = place.gather(1, edges.clamp(min=0).flatten(1)).reshape(edges.shape)
        return mask.gather(1, elements.to(mask.device)), torch.where(edges < 0, edges, renamed)

    def graph(self, elements: Tensor, structure: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """The mask and the edges, if that is what the structure holds."""
        shapes = [tuple(part.shape) for part in structure]
        fits = len(shapes) == 2 and shapes[0] == tuple(elements.shape) and len(shapes[1]) == 3 and shapes[1][::2] == (len(elements), 2)
        if not fits:
            count, slots = elements.shape
            raise InputError(
                f"{describe(self)} needs graphs with a mask of shape ({count}, {slots}) and edges of shape ({count}, edges, 2), but the "
                f"structure has shapes {shapes}: build the inputs with GraphInputs."
            )
        return structure[0], structure[1]
