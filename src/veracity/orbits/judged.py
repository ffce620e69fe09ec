"""From outputs along orbits to metrics against the truth and the consensus, and to distances from the unmoved output."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from veracity.core.spaces import InputSpace
from veracity.interpret.orbit import Metric, Task
from veracity.orbits.columns import CONSENSUS, DISTANCE, TRUTH, WHOLE, column
from veracity.orbits.models import broken


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
