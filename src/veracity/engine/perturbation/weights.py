"""A block of samples under copies of its model with other weights: outputs that all explainers share, and explanations.

Where the device gains by it, copies are explained together, by torch.func's vmap over stacked weights. Measured on 25 copies of a
LeNet and 64 images (`python -m benchmarks.weights`): on a CPU a loop is as fast, since each copy fills the cores by itself; on a
GPU, where small networks leave it idle, copies together are several times faster. The numbers are the same up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from veracity.core import fingerprint
from veracity.core.explainers import Cost, Inquirer, Learner, learner
from veracity.core.inputs import Signals
from veracity.core.models import out_of_memory
from veracity.core.randomness import Draws
from veracity.core.scores import OUTPUTS, Pair, Reading, Reads, Request
from veracity.core.spaces import WeightSpace
from veracity.core.walks import Ask
from veracity.engine.memory import Readings
from veracity.engine.perturbation.base import Lines, Perturbation, See, pair_of
from veracity.engine.perturbation.row_weights import under
from veracity.engine.plan import Cell
from veracity.engine.preliminaries import LEARNT, VISUALISED
from veracity.engine.progress import weight
from veracity.engine.reader import Block, Reader
from veracity.explain.stacked import Form, stacked
from veracity.measure.rank import ranked_once
from veracity.perturb.weights import WeightNoise
from veracity.perturb.weights.copies import Pairs, Remembered, at_once, remembered_for, remembering, stack

FORWARD = weight(Cost(forward=1))
GAINING = frozenset({"cuda"})
"""Kinds of device on which copies are explained together."""
STACKED = 8
"""Copies are explained together if a call has room for so many. The copies of larger networks keep a GPU busy one by one."""
LEARNT_TOGETHER = 64
"""Copies are learnt about together if a call has room for so many: the time of one copy is then mostly that of starting its kernels."""


class WeightPerturbation(Perturbation[WeightSpace]):
    """Readings of some copies at a time, (copies * samples, ...). Levels that are not explained, or not answered, are NaN."""

    def __init__(self, block: Block, cells: Sequence[Cell], space: WeightSpace, before: Readings) -> None:
        super().__init__(block, cells, space, before)
        self.key = fingerprint.of_json([block.key, space.spec(), block.seed, self.request.layer])
        self.form = form_of(block.reader.by(block.source), self.request) if Reads.EXPLANATION in self.after else None
        self.drawn = fingerprint.of_json(self.request.spec())
        self.last, self.remembered = before.get(Reads.EXPLANATION), remembered_for(block.reader.module, space)
        self.mapping = self.request.smoothing is None

    def measure(self) -> list[Lines]:
        """Follow the walk to its end. Explanations of the model itself are ranked once for all copies."""
        with ranked_once(self.before.get(Reads.EXPLANATION)):
            return super().measure()

    def observe(self, ask: Ask, see: See) -> None:
        """Some copies at a time; the ask goes copy by copy through all samples, in their order.

        Samples of one length are compared together: where there are many lengths, scores see the readings of several copies at once.
        """
        block, count = self.block, len(self.block)
        every = [(int(draw), int(level)) for draw, level in ask.element[::count]]
        some = at_once(block.model.module, block.x.values)
        together = 1 if self.own_length is None else at_once(block.model.module, block.x.values, most=None)
        read: list[Readings] = []
        for first in range(0, len(every), some):
            pairs, part = every[first : first + some], slice(first * count, (first + some) * count)
            found = self.read(pairs, ask[part])
            for number in range(len(pairs)):
                read.append({what: value[number * count : (number + 1) * count] for what, value in found.items()})
                last = first + number + 1
                if len(read) == together or last == len(every):
                    here = slice((last - len(read)) * count, last * count)
                    self.see_copies(ask[here].element, [level for _, level in every[last - len(read) : last]], read, partial(see, here))
                    read = []

    def see_copies(self, element: Tensor, levels: Sequence[int], after: Sequence[Readings], see: Callable[[Pair], None]) -> None:
        """Hand on the readings of some copies beside those of the model itself, which for one copy stay the same tensors, so that they
        are ranked once."""
        base, compared = self.before.get(Reads.EXPLANATION), list[Tensor]()
        for level, found in zip(levels, after, strict=True):
            maps = found.get(Reads.EXPLANATION)
            if maps is not None and base is not None and self.last is not None:
                earlier, self.last = compared_with(self.space, level, base, self.last, maps)
                compared.append(earlier)

        def joined(parts: Sequence[Tensor]) -> Tensor:
            return parts[0] if len(parts) == 1 else torch.cat([part.to(parts[0].device) for part in parts])

        copies = len(levels)
        before = {what: joined([value] * copies) for what, value in self.before.items() if what is not Reads.EXPLANATION or not compared}
        if compared:
            before[Reads.EXPLANATION] = joined(compared)
        read = {what: joined([found[what] for found in after]) for what in after[0]}
        targets = joined([self.block.targets] * copies)
        pair = pair_of(self.space, element, Reading(targets, before), Reading(targets, read), self.block.frame)
        see(replace(pair, start=None if base is None else joined([base] * copies)))

    def read(self, pairs: Pairs, ask: Ask) -> Readings:
        """The readings of these copies."""
        made: dict[str, Tensor] = {}

        def copy(number: int) -> Reader:
            if not made:
                with remembering(self.remembered):
                    made.update(self.block.copies.weights(self.space, pairs))
            return self.block.reader.on(self.block.copies.become(made, number))

        found: Readings = {}
        if Reads.EXPLANATION in self.after:  # first, since its pass may show the outputs too
            found[Reads.EXPLANATION] = self.explanations(pairs, ask, copy)
        if wanted := self.after & OUTPUTS:
            silent = self.blank(wanted)
            outputs = [
                silent
                if silent and not self.space.answers(pair[1])
                else self.block.outputs(partial(copy, number), wanted, self.request, f"{self.key} {pair}", passes=FORWARD)
                for number, pair in enumerate(pairs)
            ]
            found |= {one: torch.cat([output[one].to(self.block.device) for output in outputs]) for one in wanted}
        return found

    def blank(self, what: frozenset[Reads]) -> Readings:
        """Readings of the block that are NaN, shaped as those of the model itself; none if some of those were not read."""
        return {one: torch.full_like(self.before[one], torch.nan) for one in what} if what <= set(self.before) else {}

    def explanations(self, pairs: Pairs, ask: Ask, copy: Callable[[int], Reader]) -> Tensor:
        """The explanations of all copies: together where the device gains by it, else one after the other."""
        block, count = self.block, len(self.block)
        control = block.explainer is not None and block.explainer.control
        fitting = block.budget.rows // max(1, count * block.rows_each)
        together = fitting if self.form and block.device.type in GAINING and fitting >= STACKED else 1
        silent = self.blank(frozenset({Reads.EXPLANATION}))
        parts: dict[int, Tensor] = {}
        asked = [number for number, (_, level) in enumerate(pairs) if not silent or self.space.explains(level)]
        plain = self.request.smoothing is None and not block.shares(self.request)
        keys = {number: f"{self.key} {pairs[number]} {self.drawn}" for number in asked}
        unknown = [number for number in asked if not (plain and block.knows(keys[number]))]
        self.learn_together([pairs[number] for number in unknown])
        for first in range(0, len(unknown), together):
            some = unknown[first : first + together]
            maps = self.stacked([pairs[number] for number in some]) if len(some) > 1 else None
            if maps is not None:
                parts |= zip(some, maps.split(count), strict=True)

        def reader_of(number: int) -> Reader:
            return block.reader if control else self.taught(pairs[number], partial(copy, number))

        if plain and isinstance(block.source, Inquirer) and len(unknown) > 1:
            parts |= self.inquired({number: ask[number * count : (number + 1) * count] for number in unknown}, reader_of)

        def explain(number: int) -> Tensor:
            here = slice(number * count, (number + 1) * count)
            reader = reader_of(number)
            return block.explain_with(reader.by(block.source) if plain else reader, self.request, ask[here])

        for number in asked:
            if block.shares(self.request):
                key = f"{self.key} {pairs[number]}"
                shown = key if self.after & OUTPUTS and self.space.answers(pairs[number][1]) else None
                parts[number] = block.explain_layer(partial(copy, number), key, shown, weight(block.reader.cost))
            elif plain:
                if block.knows(keys[number]):
                    block.advance(count * weight(block.reader.cost))
                known = partial(parts.__getitem__, number) if number in parts else partial(explain, number)
                parts[number] = block.finished(block.recall(keys[number], known))
            else:
                parts[number] = explain(number)
        return torch.cat([parts[number] if number in parts else silent[Reads.EXPLANATION] for number in range(len(pairs))])

    def inquired(self, asks: Mapping[int, Ask], reader_of: Callable[[int], Reader]) -> dict[int, Tensor]:
        """The explanations of several copies, by number, by an explainer that asks somebody else about all of them together."""
        block, source = self.block, self.block.source
        if not isinstance(source, Inquirer):
            return {}
        each = {number: block.inquire_with(reader_of(number).by(source), self.request, ask) for number, ask in asks.items()}
        settled = iter(source.settle([one for parts in each.values() for one in parts]))
        return {
            number: block.reader.by(source).blank(block.x[asks[number].row.to(block.device)], torch.cat([next(settled) for _ in parts]))
            for number, parts in each.items()
        }

    def taught(self, pair: tuple[int, int], copy: Callable[[], Reader]) -> Reader:
        """The reader of a copy whose explainer knows the copy. A lesson by class is stored once for all blocks and explainers."""
        (draw, level), explainer = pair, learner(self.block.explainer)
        number = self.number(pair)
        if explainer is None or not explainer.by_class:
            return copy().with_lesson(number)
        key = self.lesson_key(pair)
        if draw == 0 and explainer.shown is not None:
            self.announce(explainer.shown, level, key)
        return copy().with_stored_lesson(self.block.folder, key, number, self.block.advance)

    def number(self, pair: tuple[int, int]) -> int:
        """The number of a copy, from 1."""
        return pair[0] * self.space.levels + pair[1] + 1

    def learn_together(self, pairs: Pairs) -> None:
        """Let an explainer learn about several copies at once, where it can and the device gains by it; each lesson is stored."""
        block, explainer = self.block, learner(self.block.explainer)
        if explainer is None or not explainer.by_row or not self.mapping or block.device.type not in GAINING:
            return
        missing = [pair for pair in pairs if block.folder.recovered(LEARNT, self.lesson_key(pair)) is None]
        classes = len(block.problem.classes(block.job.model))
        together = block.budget.rows // max(1, explainer.lesson.lesson_rows(block.problem.inputs.shape, classes))
        if len(missing) < 2 or together < LEARNT_TOGETHER:
            return
        for first in range(0, len(missing), together):
            some = missing[first : first + together]
            try:
                with remembering(self.remembered):
                    learnt = learn_stacked(explainer, block.reader, self.space, some, [self.number(pair) for pair in some])
            except RuntimeError as error:
                self.mapping, short = False, out_of_memory(error)
            if not self.mapping:
                if short:
                    block.budget.shrink()
                return
            for place, pair in enumerate(some):
                own = {name: value[place * classes : (place + 1) * classes] for name, value in learnt.items()}
                block.folder.write_tensors(LEARNT, self.lesson_key(pair), own)
                block.advance(weight(block.problem.lesson_cost(block.job.model, explainer)))

    def lesson_key(self, pair: tuple[int, int]) -> str:
        """A hash of everything that the lesson about a copy depends on."""
        return fingerprint.of_json([self.block.job.learnt, self.space.spec(), *pair, str(self.block.device)])

    def announce(self, tensor: str, level: int, lesson: str) -> None:
        """Say once in the folder that a lesson holds pictures of this level, for reports."""
        job, folder, space = self.block.job, self.block.folder, fingerprint.of_json(self.space.spec())
        key = fingerprint.of_json([job.model, job.explainer, space, level])
        strength = self.space.strength(level) if isinstance(self.space, WeightNoise) else None
        about = {"model": self.block.problem.label(job.model), "explainer": job.explainer, "tensor": tensor, "base": job.learnt}
        table = {**about, "lesson": lesson, "space": space, "level": level, "strength": strength}
        if folder.read_table(VISUALISED, key) != table:
            folder.write_table(VISUALISED, key, table)

    def stacked(self, pairs: Pairs) -> Tensor | None:
        """The explanations of some copies together; None, from now on, for a model that cannot be mapped over its weights."""
        if self.form is None:
            return None
        block, draws = self.block, Draws.of(self.block.seed, self.block.samples)
        try:
            maps = explain_stacked(self.form, block.reader, self.space, pairs, block.x, block.targets, draws, self.remembered)
        except RuntimeError:
            self.form = None
            return None
        block.advance(len(pairs) * len(block) * weight(block.reader.cost))
        return maps.flatten(0, 1)


def form_of(reader: Reader, request: Request) -> Form | None:
    """The explainer as a pure function of the weights, if it has such a form and draws nothing of its own for each copy."""
    explainer = reader.explainer
    plain = request.smoothing is None and reader.view is reader.module
    if explainer is None or not plain or learner(explainer) or (explainer.stochastic and not request.common_draws):
        return None
    return stacked(explainer)


def explain_stacked(
    form: Form, reader: Reader, space: WeightSpace, pairs: Pairs, x: Signals, targets: Tensor, draws: Draws, remembered: Remembered
) -> Tensor:
    """Explanations of all samples by all copies: (copies, N, ...)."""
    with remembering(remembered):
        weights = stack(space, reader.module, pairs, reader.problem.seed)
    context = reader.problem.context(reader.name, draws, reader.budget.rows, x.structure, present=x.present)

    def one(copy: dict[str, Tensor]) -> Tensor:
        return form(lambda *given: functional_call(reader.module, copy, given), x.values, targets, context)

    found: Tensor = vmap(one)(weights)
    return found.detach()


def learn_stacked(explainer: Learner, reader: Reader, space: WeightSpace, pairs: Pairs, numbers: Sequence[int]) -> Mapping[str, Tensor]:
    """What an explainer that learns by row learns about all copies, each tensor (copies * classes, ...)."""
    problem = reader.problem
    weights = stack(space, reader.module, pairs, problem.seed)
    rows = len(pairs) * len(problem.classes(reader.name))
    batch = rows * max(1, reader.budget.rows // rows)
    context = problem.lesson_context(reader.name, explainer, batch, numbers, reader.training)
    with torch.enable_grad():
        return explainer.lesson.learn(CopiesTogether(reader, weights, len(pairs)), context)


class CopiesTogether(nn.Module):
    """Copies of a model as one, for points that come in rounds of all rows: copy by copy, and class by class within a copy."""

    def __init__(self, reader: Reader, weights: dict[str, Tensor], copies: int) -> None:
        super().__init__()
        self.each, self.weights, self.copies = under(reader, reader.view), weights, copies
        self.classes = len(reader.problem.classes(reader.name))

    def forward(self, points: Tensor) -> Tensor:
        """Scores (points, K)."""
        rounds = points.reshape(-1, self.copies, self.classes, *points.shape[1:]).transpose(0, 1)
        scores: Tensor = self.each(self.weights, rounds.flatten(1, 2))
        by_round = scores.reshape(self.copies, -1, self.classes, scores.shape[-1]).transpose(0, 1)
        return by_round.reshape(len(points), -1)


def compared_with(space: WeightSpace, level: int, base: Tensor, last: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """What the explanations `found` of a copy are compared with, and those that later copies are compared with; all are (N, ...).

    Where a path starts, that is the `base`; else the explanations of the `last` level that leads.
    """
    return base if space.starts(level) else last, found if space.leads(level) else last
