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


def judge(task: Task, space: InputSpace, elements: Tensor, outputs: Tensor, truth: Tensor | None, identity: int) -> Judged:
    """Judge outputs (n, K, ...) of n samples under K elements (K, p), with their truth (n, ...) where it is known.

    An output that is NaN or infinite has no metric and no distance, and is not part of the consensus.
    """
    count, length = outputs.shape[:2]
    moves = elements.to(outputs.device).repeat(count, 1)
    rows = outputs.flatten(0, 1)
    undone = task.undo(space, moves, rows)
    wrong = broken(rows, task)
    if wrong.any():
        undone = undone.masked_fill(wrong.reshape(-1, *[1] * (undone.ndim - 1)), float("nan"))
    together = undone.reshape(count, length, *undone.shape[1:])
    consensus, missing = task.consensus(together, truth)
    references = {CONSENSUS: task.as_truth(consensus)} if truth is None else {TRUTH: truth, CONSENSUS: task.as_truth(consensus)}
    moved = {name: task.truth(space, moves, y.repeat_interleave(length, dim=0)) for name, y in references.items()}
    columns = {
        column(metric.name, name): measured(metric, rows, y, wrong).reshape(count, length)
        for name, y in moved.items()
        for metric in task.metrics
    }
    base = together[:, identity].repeat_interleave(length, dim=0)
    away = task.distance(undone, base).float()
    lost = wrong | wrong.reshape(count, length)[:, identity].repeat_interleave(length)
    columns[DISTANCE] = away.masked_fill(lost, float("nan")).reshape(count, length)
    if truth is not None:
        columns[WHOLE] = task.whole(space, moves, truth.repeat_interleave(length, dim=0)).float().reshape(count, length)
    return Judged(columns, consensus, missing, {name: y.reshape(count, length, *y.shape[1:]) for name, y in moved.items()})


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
