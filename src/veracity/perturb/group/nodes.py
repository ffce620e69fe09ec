"""Permutations of a graph's nodes: features, mask and edges move together, so that it stays the same graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.registry import GROUPS
from veracity.perturb.group.base import describe
from veracity.perturb.group.permutation import Permutations


@GROUPS.add
@dataclass(frozen=True, kw_only=True)
class NodePermutations(Permutations):
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
    needs_structure = True
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
