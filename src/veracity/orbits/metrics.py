"""From one model's outputs along orbits to metrics against the truth and the consensus, to distances from the unmoved output, and to the
details that are shown: class probabilities, boxes, small vector fields. Memory decides how many outputs are measured at once.
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
from veracity.orbits.models import invalid_outputs
from veracity.orbits.tasks import Task
from veracity.orbits.tasks.flow import epe_map


@dataclass(frozen=True)
class References:
    """What outputs of n samples are compared with: the consensus (n, ...), the unmoved output (n, ...), and the truth (n, ...) if it is
    known; `missing` (n,) is how many outputs are missing from the consensus.
    """

    consensus: Tensor
    missing: Tensor
    unmoved: Tensor
    truth: Tensor | None


def references_of(task: Task, space: InputSpace, elements: Tensor, outputs: Tensor, truth: Tensor | None, identity: int) -> References:
    """What the outputs (n, K, ...) under all K elements (K, p) are compared with; NaN and infinite ones are not part of the consensus."""
    places = elements.to(outputs.device)
    wrong = invalid_outputs(outputs.flatten(0, 1), task).reshape(*outputs.shape[:2], *[1] * (outputs.ndim - 2))
    sound = outputs.masked_fill(wrong, float("nan")) if wrong.any() else outputs
    consensus, missing = task.consensus(space, places, sound, truth)
    unmoved = task.undo(space, places[identity].expand(len(outputs), -1), outputs[:, identity])
    return References(consensus, missing, unmoved, truth)


def columns_of(
    task: Task, space: InputSpace, elements: Tensor, outputs: Tensor, references: References
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The columns (n, k) of outputs (n, k, ...) under any k elements (k, p) of the orbit, and the references moved along, (n, k, ...).

    An output that is NaN or infinite has no metric and no distance.
    """
    count, length = outputs.shape[:2]
    moves = elements.to(outputs.device).repeat(count, 1)
    rows = outputs.flatten(0, 1)
    wrong = invalid_outputs(rows, task)
    agreed = {CONSENSUS: task.as_truth(references.consensus)}
    named = agreed if references.truth is None else {TRUTH: references.truth, **agreed}
    moved = {name: task.truth(space, moves, y.repeat_interleave(length, dim=0)) for name, y in named.items()}
    columns = {
        column(metric.name, name): metric.measure(rows, y).masked_fill(wrong, float("nan"))
        for name, y in moved.items()
        for metric in task.metrics
    }
    unmoved = references.unmoved.repeat_interleave(length, dim=0)
    distances = task.distance(space, moves, rows, unmoved).float()
    columns[DISTANCE] = distances.masked_fill(wrong | invalid_outputs(unmoved, task), float("nan"))
    if references.truth is not None:
        columns[WHOLE] = task.whole(space, moves, references.truth.repeat_interleave(length, dim=0)).float()
    shape = (count, length)
    return {name: one.unflatten(0, shape) for name, one in columns.items()}, {name: y.unflatten(0, shape) for name, y in moved.items()}


def metrics_at(task: Task, space: InputSpace, element: Tensor, output: Tensor, named: dict[str, Tensor]) -> dict[str, dict[str, float]]:
    """Every metric of one output (1, ...) at one element (1, p), against each reference (1, ...) in the unmoved frame."""
    wrong = invalid_outputs(output, task)
    moved = {name: task.truth(space, element.to(y.device), y) for name, y in named.items()}
    return {
        metric.name: {name: math.nan if wrong else float(metric.measure(output, y.to(output.device))) for name, y in moved.items()}
        for metric in task.metrics
    }


ERRORS, ARROWS = 64, 16
"""Side lengths of a stored map of errors and of a stored field of arrows."""
LARGEST = 4096
"""The most numbers per sample of outputs of no special kind that are stored."""


def details_of(kind: str, outputs: Tensor, references: References, moved: dict[str, Tensor]) -> dict[str, Tensor]:
    """What is stored of outputs (n, K, ...) of a kind of task, one row per sample.

    classification  outputs (n, K, C), consensus (n, C)
    detection       outputs (n, K, top, 6), consensus (n, 6)
    flow            errors and consensus_errors (n, K, 64, 64), the end-point error against truth and consensus (without truth,
                    errors is against the consensus too); quiver (n, K, 2, 16, 16); consensus (n, 2, 16, 16); field (n, 2, H, W)
    regression      outputs (n, K, ...) where they are small; consensus (n, ...)

    All have `missing` (n,): how many of the K outputs are missing from the consensus. Probabilities and pictures of fields are
    rounded to float16; boxes and numbers, which may be large, are not.
    """
    found = {"missing": references.missing}
    if kind != "flow":
        small = outputs[0].numel() // outputs.shape[1] <= LARGEST if kind == "regression" else True
        exact = outputs.half() if kind == "classification" else outputs.float()
        return {**found, "consensus": references.consensus.float(), **({"outputs": exact} if small else {})}
    rows = outputs.flatten(0, 1)
    errors = {name: small_errors(rows, y.flatten(0, 1)).unflatten(0, outputs.shape[:2]) for name, y in moved.items()}
    return {
        **found,
        "errors": errors.get(TRUTH, errors[CONSENSUS]).half(),
        "consensus_errors": errors[CONSENSUS].half(),
        "quiver": arrows(rows).unflatten(0, outputs.shape[:2]).half(),
        "consensus": arrows(references.consensus).half(),
        "field": references.consensus.half(),
    }


def small_errors(output: Tensor, truth: Tensor) -> Tensor:
    """End-point errors of fields (R, 2, H, W), averaged to (R, 64, 64)."""
    return functional.adaptive_avg_pool2d(epe_map(output, truth), ERRORS)


def arrows(field: Tensor) -> Tensor:
    """Fields (R, 2, H, W) as the means of 16 x 16 patches, (R, 2, 16, 16); lengths stay in the field's own pixels."""
    if field.ndim != 4:
        raise SpecError(f"Arrows are drawn of vector fields (rows, 2, height, width), not of shape {tuple(field.shape)}.")
    return functional.adaptive_avg_pool2d(field, ARROWS)


MOST_OUTPUTS = 8192
"""The most outputs that are measured at once."""
COPIES = 8
"""How many tensors of the size of the outputs are in memory meanwhile: both references moved along, and what is between."""
PER_ELEMENT = frozenset({"outputs", "errors", "consensus_errors", "quiver"})
"""Details with one row per element; the others have one per sample."""


def rows_at_once(output: Size, memory: int) -> int:
    """How many outputs of this shape are measured at once within a budget in bytes.

    >>> rows_at_once(Size([10]), 1 << 30), rows_at_once(Size([1, 64, 64]), 64 << 20)
    (8192, 512)
    """
    return max(1, min(MOST_OUTPUTS, memory // (COPIES * 4 * max(1, math.prod(output)))))


@torch.no_grad()
def measure_outputs(
    task: Task, space: InputSpace, elements: Tensor, outputs: Tensor, truth: Tensor | None, identity: int, memory: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The columns (n, K) and the details (n, ...) of one model's outputs (n, K, ...).

    A few samples at a time, and of these a few elements: only the consensus needs the whole orbit of a sample.
    """
    rows, length = rows_at_once(outputs.shape[2:], memory), outputs.shape[1]
    found = []
    for part in torch.arange(len(outputs)).split(max(1, rows // length)):
        here = slice(int(part[0]), int(part[-1]) + 1)
        y = None if truth is None else truth[here].to(outputs.device)
        references = references_of(task, space, elements, outputs[here], y, identity)
        pieces = []
        for some in torch.arange(length).split(max(1, rows // len(part))):
            given = outputs[here, int(some[0]) : int(some[-1]) + 1]
            columns, moved = columns_of(task, space, elements[some], given, references)
            pieces.append((columns, details_of(task.kind, given, references, moved)))
        details = concatenate([{name: one for name, one in part.items() if name in PER_ELEMENT} for _, part in pieces], 1)
        found.append((concatenate([columns for columns, _ in pieces], 1), {**pieces[0][1], **details}))
    return concatenate([columns for columns, _ in found]), concatenate([details for _, details in found])


def concatenate(parts: list[dict[str, Tensor]], dim: int = 0) -> dict[str, Tensor]:
    """The tensors of consecutive samples, or with dim=1 of consecutive elements."""
    return parts[0] if len(parts) == 1 else {name: torch.cat([part[name] for part in parts], dim=dim) for name in parts[0]}
