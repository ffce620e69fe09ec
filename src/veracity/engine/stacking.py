"""Many copies of a model at once, where the device gains by it: torch.func's vmap over stacked weights.

Measured on 25 copies of a LeNet and 64 images (`python -m benchmarks.weights`): on a CPU a loop is as fast, since each copy
fills the cores by itself; on a GPU, where small networks leave it idle, copies together are several times faster. The numbers
are the same up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from veracity.core.draws import Draws
from veracity.core.inputs import Signals
from veracity.core.scores import Request
from veracity.core.spaces import WeightSpace
from veracity.engine.reader import Reader
from veracity.explain.stacked import Form, stacked
from veracity.perturb.weights.copies import stack

GAINING = frozenset({"cuda"})
"""Kinds of device on which copies are explained together."""


def form_of(reader: Reader, request: Request) -> Form | None:
    """The explainer as a pure function of the weights, if it has such a form and draws nothing of its own for each copy."""
    explainer = reader.explainer
    plain = request.smoothing is None and reader.view is reader.module
    if explainer is None or not plain or explainer.learns or (explainer.stochastic and not request.common_draws):
        return None
    return stacked(explainer)


def together(device: torch.device, rows: int, rows_each: int) -> int:
    """How many copies fit into the budget at once, each with this many model rows: one where the device gains nothing."""
    return max(1, rows // max(1, rows_each)) if device.type in GAINING else 1


def explained(
    form: Form, reader: Reader, space: WeightSpace, pairs: Sequence[tuple[int, int]], x: Signals, targets: Tensor, draws: Draws
) -> Tensor:
    """Explanations of all samples by all copies: (copies, N, ...)."""
    weights = stack(space, reader.module, pairs, reader.problem.seed)
    context = reader.problem.context(reader.name, draws, reader.budget.rows, x.structure)

    def one(copy: dict[str, Tensor]) -> Tensor:
        return form(lambda *given: functional_call(reader.module, copy, given), x.values, targets, context)

    found: Tensor = vmap(one)(weights)
    return found.detach()
