"""The loop: block after block, move inputs along their orbits, show them to every model, judge, and store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor

from veracity.core.errors import StoreError, said
from veracity.core.models import evaluating
from veracity.engine.batching import Budget
from veracity.engine.learning import learn_all
from veracity.engine.progress import bar, weight
from veracity.engine.store import RunFolder
from veracity.interpret.orbit import Task
from veracity.orbits import folder as files
from veracity.orbits.cells import Block, Cell
from veracity.orbits.columns import followed
from veracity.orbits.details import arrows, kept
from veracity.orbits.explaining import Following
from veracity.orbits.judged import judge
from veracity.orbits.passes import along
from veracity.orbits.pictures import drawn, thumbnails
from veracity.orbits.prepared import Prepared

JUDGED = 8192
"""How many outputs are judged at once; the orbit of one sample at least."""

Told = Callable[[int], None]


def measure(ready: Prepared, store: RunFolder, progress: bool = True) -> None:
    """Measure what the folder does not hold yet."""
    done, pictures = files.finished(store, files.METRICS), files.finished(store, files.PICTURES)
    left: dict[Block, list[Cell]] = {block: [] for block in ready.blocks}
    for cell in ready.cells:
        if cell.key not in done:
            left[cell.block].append(cell)
    if ready.problem is not None:
        learn_all(ready.problem, ready.budgets, store, progress)
    budget = Budget(min(one.rows for one in ready.budgets.values()))
    with ExitStack() as stack, bar("moving", total(ready, left), progress) as advance:
        for model in ready.models.values():
            stack.enter_context(evaluating(model.module))
        for block, cells in left.items():
            told = partial(told_of, advance, f"samples {block.start} to {block.stop - 1}")
            if block.pictures not in pictures:
                draw(ready, block, store)
            evaluate(ready, [cell for cell in cells if not cell.explainer], budget, store, told)
            for cell in cells:
                if cell.explainer:
                    follow(ready, cell, store, told)


def total(ready: Prepared, left: Mapping[Block, list[Cell]]) -> int:
    """How many model passes are still to make, in forward ones."""
    costs = {label: weight(one.cost(ready.inputs.shape)) for label, one in ready.explainers.items()}
    return sum(len(block) * len(ready.elements) * costs.get(cell.explainer, 1) for block, cells in left.items() for cell in cells)


def told_of(advance: Callable[[int, str], None], text: str, passes: int) -> None:
    """Move the bar."""
    advance(passes, text)


def evaluate(ready: Prepared, cells: list[Cell], budget: Budget, store: RunFolder, told: Told) -> None:
    """The metrics of the models that have none yet on a block, all with the same moved inputs."""
    if not cells:
        return
    block = cells[0].block
    models = {cell.model: ready.models[cell.model] for cell in cells}
    signals = ready.inputs.take(block.samples)
    outputs = along(models, ready.orbit.space, ready.elements, signals, budget, lambda rows: told(rows * len(models)))
    truth = None if ready.truth is None else ready.truth[block.start : block.stop]
    for cell in cells:
        columns, details = looked_at(ready, models[cell.model].task, outputs.pop(cell.model), truth)
        store.write_tensors(files.OUTPUTS, cell.key, details)
        files.write_metrics(store, cell.key, block.samples.numpy(), columns)


@torch.no_grad()
def looked_at(ready: Prepared, task: Task, outputs: Tensor, truth: Tensor | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The columns (n, K) and the details (n, ...) of one model's outputs (n, K, ...), a few samples at a time."""
    columns: list[dict[str, Tensor]] = []
    details: list[dict[str, Tensor]] = []
    for part in torch.arange(len(outputs)).split(max(1, JUDGED // outputs.shape[1])):
        here = slice(int(part[0]), int(part[-1]) + 1)
        y = None if truth is None else truth[here].to(outputs.device)
        found = judge(task, ready.orbit.space, ready.elements, outputs[here], y, ready.orbit.identity)
        columns.append(found.columns)
        details.append(kept(task.kind, outputs[here], found))
    return joined(columns), joined(details)


def joined(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors of consecutive samples, one below the other."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def follow(ready: Prepared, cell: Cell, store: RunFolder, told: Told) -> None:
    """One explainer of one model on a block; what it throws becomes a record."""
    if ready.problem is None:
        return
    try:
        one = Following(ready.problem, cell.model, cell.explainer, ready.budgets[cell.model], store)
        found = one.equivariance(cell.block.samples, ready.orbit, ready.elements, told)
    except (StoreError, ConnectionError):
        raise
    except Exception as error:
        store.write_failure(cell.key, said(error))
        return
    files.write_metrics(store, cell.key, cell.block.samples.numpy(), {followed(cell.explainer): found})


@torch.no_grad()
def draw(ready: Prepared, block: Block, store: RunFolder) -> None:
    """Keep what is drawn of a block's inputs and of their truth."""
    signals = ready.inputs.take(block.samples)
    pictures = drawn(ready.picture, signals.values, ready.span)
    small = thumbnails(ready.picture, pictures, ready.window)
    found = {"input": pictures, **({} if small is None else {"thumbnail": small})}
    truth = None if ready.truth is None else ready.truth[block.start : block.stop]
    if truth is not None and ready.task.kind == "detection":
        found["truth"] = truth
    if truth is not None and ready.task.kind == "flow":
        length = len(ready.elements)
        fields = ready.task.truth(ready.orbit.space, ready.elements.repeat(len(truth), 1), truth.repeat_interleave(length, dim=0))
        found["truth"] = arrows(fields).reshape(len(truth), length, *arrows(fields).shape[1:]).half()
    store.write_tensors(files.PICTURES, block.pictures, found)
