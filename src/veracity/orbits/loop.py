"""The loop: block after block, move inputs along their orbits once, show them to every model, measure, and store."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import torch
from torch import Tensor

from veracity.core.errors import ChangedModelError, StoreError, error_text
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating, out_of_memory
from veracity.core.randomness import gpus_in_use, seeded
from veracity.core.spaces import InputSpace
from veracity.engine.memory import Budget, memory_for
from veracity.engine.preliminaries import learn_all
from veracity.engine.progress import bar, weight
from veracity.engine.store import RunFolder
from veracity.engine.trial import Guard
from veracity.orbits import folder as files
from veracity.orbits.explanations import OrbitExplainer
from veracity.orbits.folder import equivariance_column
from veracity.orbits.metrics import LARGEST, arrows, measure_outputs
from veracity.orbits.models import EvaluatedModel, read_outputs, run_model
from veracity.orbits.pictures import draw_inputs, thumbnails
from veracity.orbits.plan import Block, Cell, OrbitPlan


def outputs_along(
    models: Mapping[str, EvaluatedModel],
    space: InputSpace,
    elements: Tensor,
    signals: Signals,
    budget: Budget,
    advance: Callable[[int], None] = lambda rows: None,
) -> dict[str, Tensor]:
    """The outputs of every model along the orbits of n samples under K elements (K, p), as its task reads them: {name: (n, K, ...)}.

    A batch holds whole orbits, or a part of an orbit that is too long. `advance` gets the number of rows that every model has seen.
    """
    device = device_of(next(iter(models.values())).module)
    x, moves, length = signals.to(device), elements.to(device), len(elements)
    found: dict[str, Tensor] = {}

    def run_part(samples: slice, part: slice) -> None:
        here = x[samples]
        chosen = moves[part]
        moved = space.move(chosen.repeat(len(here), 1), repeat_signals(here, len(chosen)))
        for name, model in models.items():
            raw = run_model(name, model.module, moved.to(device_of(model.module)))
            output = read_outputs(name, model.task, raw, len(moved)).to(device)
            if name not in found:
                found[name] = output.new_empty(len(x), length, *output.shape[1:])
            found[name][samples, part] = output.reshape(len(here), len(chosen), *output.shape[1:])
        advance(len(moved))

    def run_samples(samples: slice) -> None:
        if samples.stop - samples.start > 1:
            run_part(samples, slice(0, length))
        else:
            budget.spend(length, 1, lambda part: run_part(samples, part))

    with torch.no_grad():
        budget.spend(len(x), length, run_samples)
    return found


def repeat_signals(signals: Signals, times: int) -> Signals:
    """Each of n samples repeated this many times; a single one is not copied."""
    values, *structure = (
        part.expand(times, *part.shape[1:]) if len(signals) == 1 else part.repeat_interleave(times, dim=0)
        for part in (signals.values, *signals.structure)
    )
    return Signals(values, tuple(structure))


SHARE = 2
"""Outputs that wait to be measured may take one half of the memory."""

Advance = Callable[[int], None]


def measure(plan: OrbitPlan, store: RunFolder, progress: bool = True, memory: int | None = None) -> None:
    """Measure what the folder does not hold yet, in about this many bytes beside the outputs of one model on one block."""
    device = device_of(next(iter(plan.models.values())).module)
    room = memory_for(device) if memory is None else memory
    metrics, outputs, pictures, failed = map(store.records.keys, (files.METRICS, files.OUTPUTS, files.PICTURES, "failed"))
    left: dict[Block, list[Cell]] = {block: [] for block in plan.blocks}
    for cell in plan.cells:
        if cell.key not in (metrics - failed if cell.explainer else metrics & outputs):
            left[cell.block].append(cell)
    if plan.problem is not None:
        learn_all(plan.problem, plan.budgets, store, progress)
    budget = Budget(min(one.rows for one in plan.budgets.values()))
    costs = {label: weight(one.cost(plan.inputs.shape)) for label, one in plan.explainers.items()}
    passes = sum(len(cell.block) * len(plan.elements) * costs.get(cell.explainer, 1) for cells in left.values() for cell in cells)
    output = 4 * len(plan.elements) * max(1, math.prod(next(iter(plan.models.values())).shape))
    with ExitStack() as stack, bar("moving", passes, progress) as advance:
        for model in plan.models.values():
            stack.enter_context(evaluating(model.module))
        for block, cells in left.items():

            def report(passes: int, text: str = f"samples {block.start} to {block.stop - 1}") -> None:
                advance(passes, text)

            if block.pictures not in pictures:
                draw(plan, block, store)
            own, together = [cell for cell in cells if not cell.explainer], max(1, room // SHARE // (output * len(block)))
            for start in range(0, len(own), together):
                evaluate(plan, own[start : start + together], budget, room, store, report)
            for cell in cells:
                if cell.explainer:
                    explain(plan, cell, store, report)


def evaluate(plan: OrbitPlan, cells: list[Cell], budget: Budget, memory: int, store: RunFolder, advance: Advance) -> None:
    """The metrics of some models on a block, all with the same moved inputs."""
    block = cells[0].block
    models = {cell.model: plan.models[cell.model] for cell in cells}
    signals = plan.inputs.take(block.samples)
    outputs = outputs_along(models, plan.orbit.space, plan.elements, signals, budget, lambda rows: advance(rows * len(models)))
    truth = None if plan.truth is None else plan.truth[block.start : block.stop]
    for cell in cells:
        task, orbit = models[cell.model].task, plan.orbit
        columns, details = measure_outputs(task, orbit.space, plan.elements, outputs.pop(cell.model), truth, orbit.identity, memory)
        store.write_tensors(files.OUTPUTS, cell.key, details)
        files.write_metrics(store, cell.key, block.samples.numpy(), columns)
        del columns, details


def explain(plan: OrbitPlan, cell: Cell, store: RunFolder, advance: Advance) -> None:
    """One explainer of one model on a block. Its error on a sample becomes the record of that sample; on all samples, of the cell."""
    if plan.problem is None:
        return
    failed: dict[int, str] = {}
    module, x = plan.models[cell.model].module, plan.inputs.take(cell.block.samples[:1])
    guard = Guard(cell.explainer, plan.explainers[cell.explainer], module, x.to(device_of(module)))
    one = OrbitExplainer(plan.problem, cell.model, cell.explainer, plan.budgets[cell.model], store)

    def along_orbits(samples: Tensor) -> Tensor:
        try:
            with guard.watching(), seeded(plan.evaluation.seed, gpus_in_use()):
                return one.equivariance(samples, plan.orbit, plan.elements, advance)
        except (StoreError, ChangedModelError):
            raise
        except Exception as error:
            if out_of_memory(error):
                raise
            if len(samples) == 1:
                failed[int(samples)] = error_text(error)
                return torch.full((1, len(plan.elements)), torch.nan)
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
        files.write_metrics(store, cell.key, cell.block.samples.numpy(), {equivariance_column(cell.explainer): found}, failed)


@torch.no_grad()
def draw(plan: OrbitPlan, block: Block, store: RunFolder) -> None:
    """Store the pictures of a block's inputs and of their truth."""
    signals = plan.inputs.take(block.samples)
    pictures = draw_inputs(plan.picture, signals.values, plan.span)
    small = thumbnails(plan.picture, pictures, plan.window)
    found = {"input": pictures, **({} if small is None else {"thumbnail": small})}
    truth = None if plan.truth is None else plan.truth[block.start : block.stop]
    if truth is not None and plan.task.kind == "detection":
        found["truth"] = truth
    if truth is not None and (plan.task.kind == "flow" or (plan.task.kind == "regression" and truth[0].numel() <= LARGEST)):
        length = len(plan.elements)
        moved = plan.task.truth(plan.orbit.space, plan.elements.repeat(len(truth), 1), truth.repeat_interleave(length, dim=0))
        small = arrows(moved).half() if plan.task.kind == "flow" else moved.float()
        found["truth"] = small.unflatten(0, (len(truth), length))
    store.write_tensors(files.PICTURES, block.pictures, found)
