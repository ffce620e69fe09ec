"""What a block of samples shows under copies of its model: outputs that all explainers share, and explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.draws import Draws
from veracity.core.explainers import Cost
from veracity.core.scores import OUTPUTS, Reads, Request
from veracity.core.spaces import WeightSpace
from veracity.core.walks import Ask
from veracity.engine import stacking
from veracity.engine.copies import Copies, Pairs
from veracity.engine.memory import MEMORY, Found
from veracity.engine.progress import weight
from veracity.engine.reader import Reader
from veracity.engine.rows import Rows


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
        self.form = stacking.form_of(reader, request) if Reads.EXPLANATION in after else None

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
        together = stacking.together(rows.device, rows.budget.rows, count * rows.rows_each) if self.form else 1
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
            maps = stacking.explained(self.form, self.reader, self.space, pairs, rows.x, rows.targets, draws)
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
