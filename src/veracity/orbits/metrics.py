"""What is kept of outputs so that they can be looked at: class probabilities, boxes, and vector fields in small.

From outputs along orbits to metrics against the truth and the consensus, and to distances from the unmoved output.

One model's outputs along orbits become columns and details, as many at a time as memory allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Size, Tensor
from torch.nn import functional

from veracity.core.errors import SpecError
from veracity.core.spaces import InputSpace
from veracity.orbits.folder import CONSENSUS, DISTANCE, TRUTH, WHOLE, column
from veracity.orbits.models import broken
from veracity.orbits.tasks import Metric, Task
from veracity.orbits.tasks.flow import epe_map

ERRORS, ARROWS = 64, 16
"""Sides of a kept map of errors and of a kept field of arrows."""
LARGEST = 4096
"""Numbers a sample up to which outputs of no special kind are kept."""


def kept(kind: str, outputs: Tensor, judged: Judged) -> dict[str, Tensor]:
    """What is kept of outputs (n, K, ...) of a kind of task, one row a sample.

    classification  outputs (n, K, C), consensus (n, C)
    detection       outputs (n, K, top, 6), consensus (n, 6)
    flow            errors and consensus_errors (n, K, 64, 64), the end-point error against truth and consensus (without truth,
                    errors is against the consensus too); quiver (n, K, 2, 16, 16); consensus (n, 2, 16, 16); field (n, 2, H, W)
    regression      outputs (n, K, ...) where they are small; consensus (n, ...)

    All have `missing` (n,): how many of the K outputs were no part of the consensus. Probabilities and pictures of fields are
    rounded to float16; boxes and numbers, which may be large, are not.
    """
    found = {"missing": judged.missing}
    if kind != "flow":
        small = outputs[0].numel() // outputs.shape[1] <= LARGEST if kind == "regression" else True
        exact = outputs.half() if kind == "classification" else outputs.float()
        return {**found, "consensus": judged.consensus.float(), **({"outputs": exact} if small else {})}
    rows = outputs.flatten(0, 1)
    errors = {name: small_errors(rows, y.flatten(0, 1)).reshape(*outputs.shape[:2], *[ERRORS] * 2) for name, y in judged.moved.items()}
    return {
        **found,
        "errors": errors.get(TRUTH, errors[CONSENSUS]).half(),
        "consensus_errors": errors[CONSENSUS].half(),
        "quiver": arrows(rows).reshape(*outputs.shape[:2], 2, ARROWS, ARROWS).half(),
        "consensus": arrows(judged.consensus).half(),
        "field": judged.consensus.half(),
    }


def small_errors(output: Tensor, truth: Tensor) -> Tensor:
    """End-point errors of fields (R, 2, H, W), averaged to (R, 64, 64)."""
    return functional.adaptive_avg_pool2d(epe_map(output, truth), ERRORS)


def arrows(field: Tensor) -> Tensor:
    """Fields (R, 2, H, W) as the means of 16 x 16 patches, (R, 2, 16, 16); lengths stay in the field's own pixels."""
    if field.ndim != 4:
        raise SpecError(f"Arrows are drawn of vector fields (rows, 2, height, width), not of shape {tuple(field.shape)}.")
    return functional.adaptive_avg_pool2d(field, ARROWS)


@dataclass(frozen=True)
class Judged:
    """The columns (n, K) of a table of metrics, and what was compared: the consensus (n, ...), how many of the K outputs were missing
    from it (n,), and both references moved along, (n, K, ...), the truth where there is one.
    """

    columns: dict[str, Tensor]
    consensus: Tensor
    missing: Tensor
    moved: dict[str, Tensor]


@dataclass(frozen=True)
class Held:
    """What outputs of n samples are held to wherever they are moved: the consensus (n, ...), the unmoved output (n, ...), and the
    truth (n, ...) where it is known; `missing` (n,) is how many outputs were no part of the consensus.
    """

    consensus: Tensor
    missing: Tensor
    unmoved: Tensor
    truth: Tensor | None


def judge(task: Task, space: InputSpace, elements: Tensor, outputs: Tensor, truth: Tensor | None, identity: int) -> Judged:
    """Judge outputs (n, K, ...) of n samples under K elements (K, p), with their truth (n, ...) where it is known.

    An output that is NaN or infinite has no metric and no distance, and is not part of the consensus.
    """
    held = held_to(task, space, elements, outputs, truth, identity)
    columns, moved = compared(task, space, elements, outputs, held)
    return Judged(columns, held.consensus, held.missing, moved)


def held_to(task: Task, space: InputSpace, elements: Tensor, outputs: Tensor, truth: Tensor | None, identity: int) -> Held:
    """What the outputs (n, K, ...) under all K elements (K, p) are held to."""
    places = elements.to(outputs.device)
    wrong = broken(outputs.flatten(0, 1), task).reshape(*outputs.shape[:2], *[1] * (outputs.ndim - 2))
    sound = outputs.masked_fill(wrong, float("nan")) if wrong.any() else outputs
    consensus, missing = task.consensus(space, places, sound, truth)
    unmoved = task.undo(space, places[identity].expand(len(outputs), -1), outputs[:, identity])
    return Held(consensus, missing, unmoved, truth)


def compared(task: Task, space: InputSpace, elements: Tensor, outputs: Tensor, held: Held) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The columns (n, k) of outputs (n, k, ...) under any k elements (k, p) of the orbit, and the references moved along, (n, k, ...)."""
    count, length = outputs.shape[:2]
    moves = elements.to(outputs.device).repeat(count, 1)
    rows = outputs.flatten(0, 1)
    wrong = broken(rows, task)
    agreed = {CONSENSUS: task.as_truth(held.consensus)}
    references = agreed if held.truth is None else {TRUTH: held.truth, **agreed}
    moved = {name: task.truth(space, moves, along(y, length)) for name, y in references.items()}
    columns = {
        column(metric.name, name): measured(metric, rows, y, wrong).reshape(count, length)
        for name, y in moved.items()
        for metric in task.metrics
    }
    away = task.distance(space, moves, rows, along(held.unmoved, length)).float()
    lost = wrong | along(broken(held.unmoved, task), length)
    columns[DISTANCE] = away.masked_fill(lost, float("nan")).reshape(count, length)
    if held.truth is not None:
        columns[WHOLE] = task.whole(space, moves, along(held.truth, length)).float().reshape(count, length)
    return columns, {name: y.reshape(count, length, *y.shape[1:]) for name, y in moved.items()}


def along(values: Tensor, length: int) -> Tensor:
    """What n samples have, (n, ...), once for each of their elements: (n * length, ...)."""
    return values.repeat_interleave(length, dim=0)


def measured(metric: Metric, output: Tensor, truth: Tensor, wrong: Tensor) -> Tensor:
    """A metric of R rows, NaN where the output is no output."""
    return metric.measure(output, truth).masked_fill(wrong, float("nan"))


def judged_at(task: Task, space: InputSpace, element: Tensor, output: Tensor, references: dict[str, Tensor]) -> dict[str, dict[str, float]]:
    """Every metric of one output (1, ...) at one element (1, p), against each reference (1, ...) in the unmoved frame."""
    wrong = broken(output, task)
    moved = {name: task.truth(space, element.to(y.device), y) for name, y in references.items()}
    return {
        metric.name: {name: float(measured(metric, output, y.to(output.device), wrong)) for name, y in moved.items()}
        for metric in task.metrics
    }


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
