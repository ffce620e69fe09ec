"""Copies of a model with other weights: made from their numbers a few at a time, the original never touched.

Many copies of a model at once, where the device gains by it: torch.func's vmap over stacked weights.

Measured on 25 copies of a LeNet and 64 images (`python -m benchmarks.weights`): on a CPU a loop is as fast, since each copy
fills the cores by itself; on a GPU, where small networks leave it idle, copies together are several times faster. The numbers
are the same up to rounding.

What a block of samples shows under copies of its model: outputs that all explainers share, and explanations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from veracity.core import fingerprint
from veracity.core.explainers import Cost
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws
from veracity.core.scores import OUTPUTS, Reads, Request
from veracity.core.spaces import WeightSpace
from veracity.core.walks import Ask
from veracity.engine.memory import MEMORY, Found
from veracity.engine.perturbation import weights
from veracity.engine.perturbation.rows import Rows
from veracity.engine.progress import weight
from veracity.engine.reader import Reader
from veracity.explain.stacked import Form, stacked
from veracity.perturb.weights.copies import stack

BYTES = 64 << 20
ROWS = 2048

Pairs = Sequence[tuple[int, int]]
"""Copies, each as (draw, level)."""


class Copies:
    """A scratch copy of a model that takes on the weights of any element of a weight space."""

    def __init__(self, model: nn.Module, seed: int) -> None:
        self.model, self.seed = model, seed
        self.scratch = deepcopy(model)
        self.own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self.held = {**dict(self.scratch.named_parameters()), **dict(self.scratch.named_buffers())}
        self.changed: set[str] = set()

    def at_once(self, x: Tensor) -> int:
        """How many copies are made, and observed on these samples, at once: weights, rows and explanations are bounded.

        An explanation is as large as its input, and is compared in twice the precision, with what it came from.
        """
        size = sum(value.nbytes for value in self.own.values())
        return max(1, min(BYTES // max(size, 1), ROWS // max(len(x), 1), BYTES // max(6 * x.nbytes, 1)))

    @torch.no_grad()
    def weights(self, space: WeightSpace, pairs: Pairs) -> dict[str, Tensor]:
        """What the copies' parameters and buffers become, by name, each (copies, ...)."""
        return stack(space, self.model, pairs, self.seed)

    @torch.no_grad()
    def become(self, weights: dict[str, Tensor], number: int) -> nn.Module:
        """The scratch copy with the weights of one of the copies; what they leave alone is the model's own."""
        for name in self.changed - set(weights):
            self.held[name].copy_(self.own[name])
        for name, values in weights.items():
            self.held[name].copy_(values[number])
        self.changed = set(weights)
        return self.scratch


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


class Copied:
    """One block and one request on weights: readings of some copies at a time, (copies * samples, ...).

    `before` is what was read of the block under the model itself. Levels that are not explained, or not answered, are NaN.
    """

    def __init__(
        self, rows: Rows, reader: Reader, copies: Copies, request: Request, space: WeightSpace, before: Found, after: frozenset[Reads]
    ) -> None:
        self.rows, self.reader, self.copies, self.request, self.space = rows, reader, copies, request, space
        self.before, self.after = before, after
        self.key = fingerprint.of_json([rows.key, space.spec(), rows.seed, request.layer])
        self.form = weights.form_of(reader, request) if Reads.EXPLANATION in after else None

    def read(self, ask: Ask) -> Iterator[tuple[slice, Pairs, Found]]:
        """Parts of an ask, the copies in it, and what was read of them; the ask goes copy by copy through all samples."""
        count = len(self.rows)
        every = [(int(draw), int(level)) for draw, level in ask.element[::count]]
        some = self.copies.at_once(self.rows.x.values)
        for first in range(0, len(every), some):
            pairs, part = every[first : first + some], slice(first * count, (first + some) * count)
            yield part, pairs, self.found(pairs, ask[part])

    def found(self, pairs: Pairs, ask: Ask) -> Found:
        """The readings of these copies."""
        made: dict[str, Tensor] = {}

        def copy(number: int) -> Reader:
            if not made:
                made.update(self.copies.weights(self.space, pairs))
            return self.reader.on(self.copies.become(made, number))

        found: Found = {}
        if wanted := self.after & OUTPUTS:
            silent = self.blank(wanted)
            outputs = [
                silent if silent and not self.space.answers(pair[1]) else self.outputs(pair, partial(copy, number))
                for number, pair in enumerate(pairs)
            ]
            found = {one: torch.cat([each[one].to(self.rows.device) for each in outputs]) for one in wanted}
        if Reads.EXPLANATION in self.after:
            found[Reads.EXPLANATION] = self.explanations(pairs, ask, copy)
        return found

    def blank(self, what: frozenset[Reads]) -> Found:
        """Readings of the block that are NaN, shaped as those of the model itself; none if some of those were not read."""
        return {one: torch.full_like(self.before[one], torch.nan) for one in what} if what <= set(self.before) else {}

    def outputs(self, pair: tuple[int, int], copy: Callable[[], Reader]) -> Found:
        """The outputs of one copy for the block, on the CPU."""

        def compute(missing: frozenset[Reads]) -> Found:
            reader, parts, layer = copy(), list[Found](), self.request.layer
            self.rows.budget.spend(len(self.rows), 1, lambda part: parts.append(reader.outputs(missing, self.rows.x[part], layer)))
            self.rows.moved(len(self.rows) * weight(Cost(forward=1)))
            return {one: torch.cat([part[one] for part in parts]).cpu() for one in missing}

        return MEMORY.recall(f"{self.key} {pair}", self.after & OUTPUTS, compute)

    def explanations(self, pairs: Pairs, ask: Ask, copy: Callable[[int], Reader]) -> Tensor:
        """The explanations of all copies: together where the device gains by it, else one after the other."""
        rows, count = self.rows, len(self.rows)
        control = self.reader.explainer is not None and self.reader.explainer.control
        together = weights.together(rows.device, rows.budget.rows, count * rows.rows_each) if self.form else 1
        silent = self.blank(frozenset({Reads.EXPLANATION}))
        parts: dict[int, Tensor] = {}
        asked = [number for number, (_, level) in enumerate(pairs) if not silent or self.space.explains(level)]
        for first in range(0, len(asked), together):
            some = asked[first : first + together]
            maps = self.stacked([pairs[number] for number in some]) if len(some) > 1 else None
            if maps is not None:
                parts |= zip(some, maps.split(count), strict=True)
                continue
            for number in some:
                here = slice(number * count, (number + 1) * count)
                parts[number] = rows.explained(self.reader if control else copy(number).informed(), self.request, ask[here])
        return torch.cat([parts[number] if number in parts else silent[Reads.EXPLANATION] for number in range(len(pairs))])

    def stacked(self, pairs: Pairs) -> Tensor | None:
        """The explanations of some copies together; None, from now on, for a model that cannot be mapped over its weights."""
        if self.form is None:
            return None
        rows, draws = self.rows, Draws.of(self.rows.seed, self.rows.samples)
        try:
            maps = weights.explained(self.form, self.reader, self.space, pairs, rows.x, rows.targets, draws)
        except RuntimeError:
            self.form = None
            return None
        rows.moved(len(pairs) * len(rows) * weight(self.reader.cost))
        return maps.flatten(0, 1)


def came_from(space: WeightSpace, pairs: Pairs, base: Tensor, last: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """What the explanations of some copies are compared with, (copies * N, ...), and the leading ones that later copies go on from.

    Where a path starts, that is the base; else the explanations of the last level that leads. `base` and `last`, which led before
    these, are (N, ...); `found` is (copies * N, ...).
    """
    parts: list[Tensor] = []
    for maps, (_, level) in zip(found.split(len(base)), pairs, strict=True):
        parts.append(base if space.starts(level) else last)
        last = maps if space.leads(level) else last
    return torch.cat(parts), last
