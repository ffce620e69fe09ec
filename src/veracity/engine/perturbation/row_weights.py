"""Rows that are each read under weights of their own, as a search through weight noise asks for them.

Where the model allows it, all rows go together, by torch.func's vmap over their stacked weights: on a CPU, for 200 rows of a
LeNet, three times as fast as one copy after the other for outputs, four times for a gradient, 1.4 times for the 20 gradients of
a path. A model that cannot be mapped, or that is not what its copy is when mapped, takes on the rows' weights one by one in a
scratch copy. The numbers are the same up to rounding; the caller's model is only read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from veracity.core.errors import InputError
from veracity.core.explainers import learner
from veracity.core.inputs import Signals
from veracity.core.models import out_of_memory
from veracity.core.randomness import Draws
from veracity.core.scores import Reads
from veracity.core.walks import Ask
from veracity.engine.memory import Readings
from veracity.engine.perturbation.inputs import RowPerturbation
from veracity.engine.reader import Reader
from veracity.explain.stacked import Call, Form, stacked
from veracity.perturb.weights.copies import MOST_BYTES, ScratchModel
from veracity.perturb.weights.noise import RowWeightSpace

Weights = dict[str, Tensor]
"""Parameters by name, each (R, ...): row i has its own."""

NEAR, ROUNDING = 0.01, 16
"""How far a mapped pass may be from a copy's: in shares of what the weights changed, and in units of the scores' precision."""


class RowWeightPerturbation(RowPerturbation[RowWeightSpace]):
    """Every row keeps its input and is read under weights of its own."""

    model_stays = False

    def transform(self, piece: Ask, element: Tensor) -> tuple[Signals, Tensor]:
        """The rows as they are."""
        row = piece.row.to(self.block.device)
        return self.block.x[row], self.block.targets[row]

    def read_outputs(self, element: Tensor, x: Signals, what: frozenset[Reads]) -> Readings:
        """The outputs of R rows, each by its own model."""
        return outputs_each(self.block.reader, self.space, element, x, what, self.request.layer)

    def read_explanation(self, element: Tensor, x: Signals, targets: Tensor, draws: Draws) -> Tensor:
        """The explanations of R rows, each of its own model."""
        return explanations_each(self.block.reader, self.space, element, x, targets, draws)


@torch.no_grad()
def outputs_each(
    reader: Reader, space: RowWeightSpace, elements: Tensor, x: Signals, what: frozenset[Reads], layer: str | None = None
) -> Readings:
    """What the model says of R rows, row i under the weights of element i of (R, p): each reading (R, ...)."""

    def together(copy: Reader, weights: Weights, part: slice) -> Readings:
        return mapped(copy, weights, x[part], what, layer)

    def alone(copy: Reader, row: slice) -> Readings:
        return copy.outputs(what, x[row], layer)

    return read(reader, space, elements, x, 1, together, alone)


@torch.no_grad()
def explanations_each(reader: Reader, space: RowWeightSpace, elements: Tensor, x: Signals, targets: Tensor, draws: Draws) -> Tensor:
    """Explanations of R rows for their targets (R,), row i under the weights of element i of (R, p): (R, ...).

    An explainer that learns about a model learns anew about each row's; one that says nothing of the model sees the model.
    """
    explainer, rows_each = reader.explainer, max(reader.cost.forward, reader.cost.backward)
    if explainer is None:
        raise InputError("A score of explanations needs an explainer.")
    if explainer.control:
        maps: list[Tensor] = []
        reader.budget.spend(len(x), rows_each, lambda part: maps.append(reader.explanation(x[part], targets[part], draws[part])))
        return torch.cat(maps)
    form = None if learner(explainer) else stacked(explainer)

    def together(copy: Reader, weights: Weights, part: slice, form: Form) -> Readings:
        rows = x[part]
        batch = len(rows) * max(1, reader.budget.rows // len(rows))
        context = reader.problem.context(reader.name, draws[part], batch, rows.structure, present=rows.present)
        return {Reads.EXPLANATION: form(in_rounds(copy, weights, len(rows)), rows.values, targets[part], context).detach()}

    def alone(copy: Reader, row: slice) -> Readings:
        taught = copy.with_lesson(max(1, int(draws.draw[row.start])), targets[row])  # with the random numbers of the explanation
        return {Reads.EXPLANATION: taught.explanation(x[row], targets[row], draws[row])}

    return read(reader, space, elements, x, rows_each, partial(together, form=form) if form else None, alone)[Reads.EXPLANATION]


def read(
    reader: Reader,
    space: RowWeightSpace,
    elements: Tensor,
    x: Signals,
    rows_each: int,
    together: Callable[[Reader, Weights, slice], Readings] | None,
    alone: Callable[[Reader, slice], Readings],
) -> Readings:
    """Readings of all rows, as many at once as the budget of model rows and the bytes of their weights allow.

    `together` reads some rows of a copy under stacked weights, `alone` one row of a copy that has taken on its weights.
    """
    if len(elements) != len(x):
        raise InputError(f"Each row needs weights of its own: {len(x)} rows came with {len(elements)} elements of '{space.name}'.")
    copies = ScratchModel(reader.module, reader.problem.seed)
    copy, most = reader.on(copies.scratch), max(1, MOST_BYTES // sum(value.nbytes for value in copies.own.values()))
    mapping = together is not None and can_be_mapped(reader, copy, copies, space, x[:1])
    parts: list[Readings] = []

    def some(part: slice) -> None:
        nonlocal mapping
        weights = space.parameters(reader.module, elements[part])
        if mapping and together is not None:
            try:
                parts.append(together(copy, weights, part))
                return
            except RuntimeError as error:
                if out_of_memory(error):
                    raise
                mapping = False
        found = []
        for row in range(part.start, part.stop):
            copies.become(weights, row - part.start)
            found.append(alone(copy, slice(row, row + 1)))
        parts.extend(found)

    reader.budget.spend(len(x), max(rows_each, -(-reader.budget.rows // most)), some)
    return {what: torch.cat([part[what] for part in parts]) for what in parts[0]}


def can_be_mapped(reader: Reader, copy: Reader, copies: ScratchModel, space: RowWeightSpace, x: Signals) -> bool:
    """Whether a mapped pass of one row (1, ...) gives what a copy gives that has taken on the same weights.

    Some operations cannot be mapped, and a model that keeps its parameters in a list of its own would be read unchanged.
    """
    weights = space.parameters(reader.module, space.decode(torch.arange(1.0, space.latents + 1).sin().unsqueeze(0)))
    before = x.through(reader.view)
    if len(before) != 1:
        raise InputError(
            f"The model gives an output of shape {tuple(before.shape)} for a batch of one input, but must give (1, outputs): "
            "rows with weights of their own are read one by one."
        )
    copies.become(weights, 0)
    after = x.through(copy.view)
    copies.become({}, 0)  # the model's own weights again, so that a mapped pass that misses its weights is seen
    try:
        found = mapped(copy, weights, x, frozenset({Reads.SCORES}), None)[Reads.SCORES]
    except RuntimeError as error:
        if out_of_memory(error):
            raise
        return False
    unit = torch.finfo(after.dtype).eps * after.abs().max()
    return bool((found - after).abs().max() <= NEAR * (after - before).abs().max() + ROUNDING * unit)


def mapped(copy: Reader, weights: Weights, x: Signals, what: frozenset[Reads], layer: str | None) -> Readings:
    """Outputs of R rows under R weights in one call, each row a batch of one."""
    each = under(copy, lambda *row: copy.outputs(what, Signals(row[0], row[1:]), layer))
    found: Readings = each(weights, *(part.unsqueeze(1) for part in (x.values, *x.structure)))
    return {one: value.flatten(0, 1) for one, value in found.items()}


def in_rounds(copy: Reader, weights: Weights, rows: int) -> Call:
    """The scores of points that come in rounds of all R rows, point i under the weights of row i % R.

    So do those of a stacked form whose batch is a multiple of R: every row's points then share one pass of its weights.
    """
    each = under(copy, copy.view)

    def call(*points: Tensor) -> Tensor:
        by_row = (part.reshape(-1, rows, *part.shape[1:]).transpose(0, 1) for part in points)
        scores: Tensor = each(weights, *by_row)
        return scores.transpose(0, 1).flatten(0, 1)

    return call


def under(copy: Reader, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of some points that uses a copy, mapped over R weights and R times its points (R, ...)."""
    held = ModuleFunction(copy.module, function)

    def one(weights: Weights, *points: Tensor) -> Any:
        return functional_call(held, {f"module.{name}": value for name, value in weights.items()}, points)

    return vmap(one)


class ModuleFunction(nn.Module):
    """A function beside the module that it uses, so that the module's weights can be exchanged behind any view of it."""

    def __init__(self, module: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self.functions = module, (function,)  # in a tuple, since a view is a module and would be held twice

    def forward(self, *points: Tensor) -> Any:
        """What the function gives."""
        return self.functions[0](*points)
