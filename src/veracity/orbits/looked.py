"""One model's outputs along orbits become columns and details, as many at a time as memory allows."""

from __future__ import annotations

import math

import torch
from torch import Size, Tensor

from veracity.core.spaces import InputSpace
from veracity.interpret.orbit import Task
from veracity.orbits.details import kept
from veracity.orbits.judged import Judged, compared, held_to

JUDGED = 8192
"""How many outputs are judged at once, at most."""
COPIES = 8
"""How many tensors of the size of the outputs are about while these are judged: both references moved along, and what is between."""
ALONG = frozenset({"outputs", "errors", "consensus_errors", "quiver"})
"""What of the details has a row for every element; the rest has one a sample."""


def at_once(output: Size, memory: int) -> int:
    """How many outputs of this shape are judged at once within a budget in bytes.

    >>> at_once(Size([10]), 1 << 30), at_once(Size([1, 64, 64]), 64 << 20)
    (8192, 512)
    """
    return max(1, min(JUDGED, memory // (COPIES * 4 * max(1, math.prod(output)))))


@torch.no_grad()
def looked_at(
    task: Task, space: InputSpace, elements: Tensor, outputs: Tensor, truth: Tensor | None, identity: int, memory: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The columns (n, K) and the details (n, ...) of one model's outputs (n, K, ...).

    A few samples at a time, and of these a few elements, once it is known what all of them are held to: only the consensus needs the
    whole orbit of a sample.
    """
    rows, length = at_once(outputs.shape[2:], memory), outputs.shape[1]
    found = []
    for part in torch.arange(len(outputs)).split(max(1, rows // length)):
        here = slice(int(part[0]), int(part[-1]) + 1)
        y = None if truth is None else truth[here].to(outputs.device)
        held = held_to(task, space, elements, outputs[here], y, identity)
        pieces = []
        for some in torch.arange(length).split(max(1, rows // len(part))):
            given = outputs[here, int(some[0]) : int(some[-1]) + 1]
            columns, moved = compared(task, space, elements[some], given, held)
            pieces.append((columns, kept(task.kind, given, Judged(columns, held.consensus, held.missing, moved))))
        found.append((joined([one for one, _ in pieces], 1), joined_along([one for _, one in pieces])))
    return joined([columns for columns, _ in found]), joined([details for _, details in found])


def joined_along(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Details of consecutive elements of the same samples."""
    by_element = joined([{name: one for name, one in part.items() if name in ALONG} for part in parts], 1)
    return {**parts[0], **by_element}


def joined(parts: list[dict[str, Tensor]], dim: int = 0) -> dict[str, Tensor]:
    """Tensors of consecutive samples, one below the other; or of consecutive elements, side by side."""
    if len(parts) == 1:
        return parts[0]
    return {name: torch.cat([part[name] for part in parts], dim=dim) for name in parts[0]}
