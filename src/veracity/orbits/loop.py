"""Model passes along orbits: inputs are moved once, and every model is shown them.

The loop: block after block, move inputs along their orbits, show them to every model, judge, and store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor

from veracity.core.errors import ChangedModelError, StoreError, error_text
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating, out_of_memory
from veracity.core.randomness import gpus_in_use, seeded
from veracity.core.spaces import InputSpace
from veracity.engine.learning import learn_all
from veracity.engine.memory import Budget, memory_for
from veracity.engine.progress import bar, weight
from veracity.engine.store import RunFolder
from veracity.engine.trial import Guard
from veracity.orbits import folder as files
from veracity.orbits.explanations import Following
from veracity.orbits.folder import Block, Cell, followed
from veracity.orbits.metrics import LARGEST, arrows, looked_at
from veracity.orbits.models import Examined, passed, read_by
from veracity.orbits.pictures import drawn, thumbnails
from veracity.orbits.prepare import Prepared


def along(
    models: Mapping[str, Examined],
    space: InputSpace,
    elements: Tensor,
    signals: Signals,
    budget: Budget,
    told: Callable[[int], None] = lambda rows: None,
) -> dict[str, Tensor]:
    """What every model gives along the orbits of n samples under K elements (K, p), as its task reads it: {name: (n, K, ...)}.

    A batch is whole orbits, or a part of one where one is too long; `told` hears of the rows that every model has seen.
    """
    device = device_of(next(iter(models.values())).module)
    x, moves, length = signals.to(device), elements.to(device), len(elements)
    found: dict[str, Tensor] = {}

    def look(samples: slice, part: slice) -> None:
        here = x[samples]
        chosen = moves[part]
        moved = space.move(chosen.repeat(len(here), 1), repeated(here, len(chosen)))
        for name, model in models.items():
            raw = passed(name, model.module, moved.to(device_of(model.module)))
            output = read_by(name, model.task, raw, len(moved)).to(device)
            if name not in found:
                found[name] = output.new_empty(len(x), length, *output.shape[1:])
            found[name][samples, part] = output.reshape(len(here), len(chosen), *output.shape[1:])
        told(len(moved))

    def some(samples: slice) -> None:
        if samples.stop - samples.start > 1:
            look(samples, slice(0, length))
        else:
            budget.spend(length, 1, lambda part: look(samples, part))

    with torch.no_grad():
        budget.spend(len(x), length, some)
    return found


def repeated(signals: Signals, times: int) -> Signals:
    """Each of n samples this many times in a row; a single one is not copied."""
    if len(signals) == 1:
        parts = [part.expand(times, *part.shape[1:]) for part in (signals.values, *signals.structure)]
    else:
        parts = [part.repeat_interleave(times, dim=0) for part in (signals.values, *signals.structure)]
    return Signals(parts[0], tuple(parts[1:]))


SHARE = 2
"""The part of the memory that outputs may take which wait to be judged: a half."""

Told = Callable[[int], None]


def measure(ready: Prepared, store: RunFolder, progress: bool = True, memory: int | None = None) -> None:
    """Measure what the folder does not hold yet, within about this many bytes beside the outputs of one model on one block."""
    device = device_of(next(iter(ready.models.values())).module)
    room = memory_for(device) if memory is None else memory
    metrics, outputs, pictures = (files.finished(store, kind) for kind in (files.METRICS, files.OUTPUTS, files.PICTURES))
    failed = files.finished(store, "failed")
    left: dict[Block, list[Cell]] = {block: [] for block in ready.blocks}
    for cell in ready.cells:
        if cell.key not in (metrics - failed if cell.explainer else metrics & outputs):
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
            for some in together(ready, [cell for cell in cells if not cell.explainer], room):
                evaluate(ready, some, budget, room, store, told)
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


def together(ready: Prepared, cells: list[Cell], memory: int) -> Iterator[list[Cell]]:
    """Models of a block that are shown the same moved inputs: as many as have room for their outputs, and one at least."""
    if cells:
        each = len(cells[0].block) * len(ready.elements) * 4 * max(1, math.prod(ready.models[cells[0].model].shape))
        count = max(1, memory // SHARE // each)
        yield from (cells[start : start + count] for start in range(0, len(cells), count))


def evaluate(ready: Prepared, cells: list[Cell], budget: Budget, memory: int, store: RunFolder, told: Told) -> None:
    """The metrics of some models on a block, all with the same moved inputs."""
    block = cells[0].block
    models = {cell.model: ready.models[cell.model] for cell in cells}
    signals = ready.inputs.take(block.samples)
    outputs = along(models, ready.orbit.space, ready.elements, signals, budget, lambda rows: told(rows * len(models)))
    truth = None if ready.truth is None else ready.truth[block.start : block.stop]
    for cell in cells:
        task, orbit = models[cell.model].task, ready.orbit
        columns, details = looked_at(task, orbit.space, ready.elements, outputs.pop(cell.model), truth, orbit.identity, memory)
        store.write_tensors(files.OUTPUTS, cell.key, details)
        files.write_metrics(store, cell.key, block.samples.numpy(), columns)
        del columns, details


def follow(ready: Prepared, cell: Cell, store: RunFolder, told: Told) -> None:
    """One explainer of one model on a block. What it throws on a sample becomes the record of that sample; on all, of the cell."""
    if ready.problem is None:
        return
    failed: dict[int, str] = {}
    module, x = ready.models[cell.model].module, ready.inputs.take(cell.block.samples[:1])
    guard = Guard(cell.explainer, ready.explainers[cell.explainer], module, x.to(device_of(module)))
    one = Following(ready.problem, cell.model, cell.explainer, ready.budgets[cell.model], store)

    def along_orbits(samples: Tensor) -> Tensor:
        try:
            with guard.watching(), seeded(ready.seed, gpus_in_use()):
                return one.equivariance(samples, ready.orbit, ready.elements, told)
        except (StoreError, ChangedModelError):
            raise
        except Exception as error:
            if out_of_memory(error):
                raise
            if len(samples) == 1:
                failed[int(samples)] = error_text(error)
                return torch.full((1, len(ready.elements)), torch.nan)
        middle = len(samples) // 2
        return torch.cat([along_orbits(samples[:middle]), along_orbits(samples[middle:])])

    try:
        found = along_orbits(cell.block.samples)
    except StoreError:
        raise
    except Exception as error:
        store.write_failure(cell.key, error_text(error))
        return
    if len(failed) == len(found):
        store.write_failure(cell.key, next(iter(failed.values())))
    else:
        files.write_metrics(store, cell.key, cell.block.samples.numpy(), {followed(cell.explainer): found}, failed)


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
    if truth is not None and (ready.task.kind == "flow" or (ready.task.kind == "regression" and truth[0].numel() <= LARGEST)):
        length = len(ready.elements)
        moved = ready.task.truth(ready.orbit.space, ready.elements.repeat(len(truth), 1), truth.repeat_interleave(length, dim=0))
        small = arrows(moved).half() if ready.task.kind == "flow" else moved.float()
        found["truth"] = small.unflatten(0, (len(truth), length))
    store.write_tensors(files.PICTURES, block.pictures, found)
