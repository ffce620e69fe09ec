"""What every kind of perturbation does: perturb and read the rows that a walk asks for, and collect what scores observe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Generic, TypeVar

import torch
from torch import Tensor

from veracity.core.errors import SpecError, VeracityError, error_text
from veracity.core.explainers import Frame
from veracity.core.measures import Direction
from veracity.core.scores import Pair, Reading, Reads, Request, RowsOf, Score
from veracity.core.spaces import InputSpace, SampleSpace, Space
from veracity.core.transfer import send
from veracity.core.walks import Ask, within
from veracity.engine.memory import Readings
from veracity.engine.plan import Cell
from veracity.engine.reader import Block
from veracity.engine.store import Place, RunFolder
from veracity.perturb import Group
from veracity.perturb.lengths import OwnLength, by_length, compact
from veracity.perturb.masks import CumulativeMasks

S = TypeVar("S", bound=Space)
See = Callable[[slice, Pair], None]
"""Called with some rows of an ask, before and after their perturbation."""
Lines = Callable[[], "Measurements | str"]
"""Fetches what was measured of a cell, or why its score failed. A device may still be at work until then."""


class Perturbation(ABC, Generic[S]):
    """One block of samples under the request that some cells share; `before` is what was read of the unperturbed block."""

    def __init__(self, block: Block, cells: Sequence[Cell], space: S, before: Readings) -> None:
        self.block, self.cells, self.space, self.before = block, cells, space, before
        self.request: Request = cells[0].request
        self.after = frozenset[Reads]().union(*(cell.after for cell in cells))

    @abstractmethod
    def observe(self, ask: Ask, see: See) -> None:
        """Perturb and read every row of an ask, and hand the rows to `see`, part by part."""

    def measure(self) -> list[Lines]:
        """Follow the walk to its end. Returns, for each cell, a function that fetches what was measured, or why its score failed."""
        block = self.block
        tally = Tally(self.cells, block.samples, block.device, self.broken, ~block.correct, self.own_length)
        with torch.no_grad(), within(block.budget.memory):
            walker = self.request.walk.start(self.space, block.numbers, block.seed, self.cells[0].score.bounds)
            while (ask := walker.ask()) is not None:
                tally.open(ask)
                self.observe(ask, tally.see)
                walker.tell(tally.objective())
        shown = [self.worst_pairs(cell, tally.worst.get(cell.key)) for cell in self.cells]
        tally.worst.clear()  # holds inputs and explanations of the whole block
        return [partial(tally.lines, cell, worst) for cell, worst in zip(self.cells, shown, strict=True)]

    @cached_property
    def own_length(self) -> OwnValues | None:
        """What exists of samples of different lengths; None if all have the same, if other samples take their place, or if nothing that
        scores read is as long as its sample."""
        present, space = self.block.x.present, self.space
        if present is None or isinstance(space, SampleSpace):
            return None
        as_long = (
            self.block.frame is Frame.INPUT
            or isinstance(space, InputSpace)
            or any(Reads.INPUT in cell.before | cell.after for cell in self.cells)
        )
        if not as_long and bool(present.flatten(1).any(1).all()):
            return None
        return OwnValues(present, space.levels_of(present) if isinstance(space, OwnLength) else None, self.block.frame)

    @property
    def broken(self) -> Tensor:
        """Samples (samples,) whose unperturbed explanation holds NaN or infinity."""
        maps = self.before.get(Reads.EXPLANATION)
        return torch.zeros(len(self.block), dtype=torch.bool) if maps is None else ~maps.flatten(1).isfinite().all(1)

    def pair(self, row: Tensor, element: Tensor, after: Reading) -> Pair:
        """Rows (R,) of the block before and after their perturbation."""
        before = Reading(self.block.targets[row], RowsOf(self.before, row))
        return pair_of(self.space, element, before, after, self.block.frame)

    def worst_pairs(self, cell: Cell, worst: Worst | None) -> dict[str, Tensor] | None:
        """The inputs and explanations of the block's worst pairs, for pictures."""
        space = self.space
        if worst is None or worst.element is None or worst.after is None or not isinstance(space, InputSpace):
            return None
        rows = worst.rows()
        element = worst.element[rows]
        pair = self.pair(rows, element, Reading(self.block.targets[rows], {Reads.EXPLANATION: worst.after[rows]}))
        inputs = self.block.x.values[rows]
        return {
            "sample": self.block.numbers[rows],
            "draw": worst.draw[rows],
            "element": element,
            "value": worst.value[rows] * worst.sign,
            "input": inputs,
            "moved": space.move(element, self.block.x[rows]).values,
            "explanation": pair.before.explanation,
            "expected": cell.score.expected(pair),
            "found": pair.after.explanation,
        }


def pair_of(space: Space, element: Tensor, before: Reading, after: Reading, frame: Frame) -> Pair:
    """Rows before and after their perturbation, with the transform of the explanations and, for a group, its inverse."""
    if frame is not Frame.INPUT or not isinstance(space, InputSpace) or not space.moves_frame:
        return Pair(before, after, element, lambda x: x, lambda x: x, space=space)

    def undo(x: Tensor) -> Tensor:
        return space.act(space.inverse(element), x) if isinstance(space, Group) else x

    return Pair(before, after, element, lambda x: space.act(element, x), undo, space=space)


@dataclass(frozen=True)
class Measurements:
    """The sample, draw and level of each measurement, (R,), its quantities by name, and tensors of the pairs that are shown."""

    sample: Tensor
    draw: Tensor
    level: Tensor
    quantities: Mapping[str, Tensor]
    worst: Mapping[str, Tensor] | None = None

    def without(self, samples: Mapping[int, str]) -> Measurements:
        """With one undefined line for each of the samples that failed."""
        if not samples:
            return self
        nothing = torch.full((len(samples),), torch.nan, dtype=torch.float64)
        zero = torch.zeros(len(samples), dtype=torch.int64)
        return join([self, Measurements(torch.tensor(list(samples)), zero, zero, dict.fromkeys(self.quantities, nothing))])

    def write(self, key: str, folder: RunFolder, failed: Mapping[int, str], needed: Sequence[Place] = ()) -> None:
        """Store the cell with the records it needs, and first the pairs that are shown."""
        shown = [] if self.worst is None else [folder.write_tensors("worst", key, dict(self.worst))]
        columns = {name: value.numpy() for name, value in self.quantities.items()}
        folder.write_cell(key, self.sample.numpy(), self.draw.numpy(), self.level.numpy(), columns, [*needed, *shown], failed)


def join(parts: Sequence[Measurements]) -> Measurements:
    """The lines of several parts of a block as one; a quantity that a part does not have is NaN there."""
    if len(parts) == 1:
        return parts[0]
    sample, draw, level = (torch.cat([getattr(part, what) for part in parts]) for what in ("sample", "draw", "level"))
    names = dict.fromkeys(name for part in parts for name in part.quantities)
    blank = [torch.full((len(part.sample),), torch.nan, dtype=torch.float64) for part in parts]
    columns = {name: torch.cat([part.quantities.get(name, none) for part, none in zip(parts, blank, strict=True)]) for name in names}
    shown = [part.worst for part in parts if part.worst is not None]
    worst = {name: torch.cat([one[name].cpu() for one in shown]) for name in shown[0]} if shown else None
    return replace(parts[0], sample=sample, draw=draw, level=level, quantities=columns, worst=worst)


@dataclass(frozen=True)
class OwnValues:
    """Which values (samples, ...) of a block exist, and how many levels (samples,) each sample has; None if all have the same.

    Explanations in another `frame` than the input's have no padding, even if they happen to be as long as a sample.
    """

    present: Tensor
    levels: Tensor | None
    frame: Frame

    def split(self, pair: Pair, row: Tensor) -> list[tuple[Tensor | slice, Pair]]:
        """The rows of each length with their existing values only, so that no measure counts padding. `row` (R,) is in the block."""
        present = self.present[row.to(self.present.device)]
        return [(rows, shortened(pair, rows, present, self.frame)) for rows, _ in by_length(present)]


def shortened(pair: Pair, rows: Tensor, present: Tensor, frame: Frame) -> Pair:
    """Some rows of a pair, all of one length, without the values that do not exist in `present` (R, ...)."""
    keep = present[rows]
    maps = {Reads.INPUT, Reads.TRUTH, *([Reads.EXPLANATION] if frame is Frame.INPUT else [])}

    def short(values: Tensor) -> Tensor:
        own = values[rows.to(values.device)]
        return compact(own, keep.to(own.device)) if own.shape == keep.shape else own

    def reading(one: Reading) -> Reading:
        found = {what: short(value) if what in maps else value[rows.to(value.device)] for what, value in one.found.items()}
        return Reading(one.target[rows.to(one.target.device)], found)

    def within(transform: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """A transform of maps with padding, for maps without it."""

        def moved(values: Tensor) -> Tensor:
            whole, here = values.new_zeros(present.shape), rows.to(values.device)
            whole[here] = whole[here].masked_scatter(keep.to(values.device), values)
            return short(transform(whole))

        moves = frame is Frame.INPUT and isinstance(pair.space, InputSpace) and pair.space.moves_frame
        return moved if moves else transform

    start = None if pair.start is None else short(pair.start)
    return Pair(reading(pair.before), reading(pair.after), short(pair.element), within(pair.move), within(pair.undo), start)


def observed(score: Score, parts: Sequence[tuple[Tensor | slice, Pair]], rows: int) -> Tensor:
    """What a score observes of `rows` rows that come in parts."""
    found = [score.observe(pair).detach().double() for _, pair in parts]
    if len(parts) == 1 and isinstance(parts[0][0], slice):
        return found[0]
    whole = found[0].new_full((rows, *found[0].shape[1:]), torch.nan)
    for (place, _), values in zip(parts, found, strict=True):
        whole[place.to(whole.device) if isinstance(place, Tensor) else place] = values
    return whole


KEEP = 4


class Worst:
    """Per sample of a block: the worst value so far, its draw and element, and what was read there; all on the block's device."""

    def __init__(self, samples: int, direction: Direction, device: torch.device) -> None:
        self.sign = 1.0 if direction is Direction.HIGHER else -1.0
        self.value = torch.full((samples,), torch.inf, dtype=torch.float64, device=device)
        self.draw = torch.zeros(samples + 1, dtype=torch.long, device=device)
        self.element: Tensor | None = None
        self.after: Tensor | None = None

    def see(self, ask: Ask, values: Tensor, after: Tensor) -> None:
        """Take in R values of perturbations, and what was read there (R, ...)."""
        badness = torch.where(values.isnan(), torch.inf, values.double() * self.sign)
        lowest = self.value.scatter_reduce(0, ask.row, badness, reduce="amin")
        place = torch.arange(len(ask), device=badness.device)
        hit = torch.where((badness == lowest[ask.row]) & (badness < self.value[ask.row]), place, len(ask))
        first = torch.full_like(self.value, len(ask), dtype=torch.long).scatter_reduce_(0, ask.row, hit, reduce="amin")
        row = torch.where(first[ask.row] == place, ask.row, len(self.value))  # the last row takes what is not worse

        def update(old: Tensor | None, new: Tensor) -> Tensor:
            whole = new.new_zeros(len(self.value) + 1, *new.shape[1:]) if old is None else old
            return whole.index_copy_(0, row, new)

        self.value, self.draw = lowest, update(self.draw, ask.draw)
        self.element, self.after = update(self.element, ask.element), update(self.after, after)

    def rows(self) -> Tensor:
        """The few samples with the worst values, worst first; infinite values come last."""
        return self.value.argsort(stable=True)[:KEEP]


def undefined_whole(values: Tensor, row: Tensor, draw: Tensor, drawn: Tensor) -> Tensor:
    """Values (Q, R) of curves that are NaN as a whole if one of their `drawn` levels is; `row` and `draw` name the curve.

    Then NaN at the end of a curve means that a short sample has no such level, and nothing else.
    """
    _, curve = torch.stack((row, draw)).unique(dim=1, return_inverse=True)
    broken = values.new_zeros(len(values), int(curve.max()) + 1 if len(curve) else 0)
    broken.index_add_(1, curve, (values.isnan() & drawn).to(values))
    return values.masked_fill(broken[:, curve] > 0, torch.nan)


class Tally:
    """Quantities (Q, R) of every cell, one ask after the other, and the pairs that hurt most.

    Samples that are `broken` (samples,), whose explanation holds NaN or infinity, have no score of explanations; samples that
    are `wrong`, misclassified, have none that starts from correctly classified ones. Of samples of different lengths, scores see
    the values that exist.
    """

    def __init__(
        self, cells: Sequence[Cell], samples: Tensor, device: torch.device, broken: Tensor, wrong: Tensor, own: OwnValues | None = None
    ) -> None:
        self.cells, self.samples, self.device, self.own = cells, samples, device, own
        self.broken, self.wrong = send(broken, device), send(wrong, device)
        self.levels = None if own is None or own.levels is None else own.levels.to(device)
        self.asks: list[Ask] = []
        self.seen: list[list[Tensor]] = [[] for _ in cells]
        self.failed: dict[str, str] = {}
        shown = [cell for cell in cells if Reads.EXPLANATION in cell.after and cell.score.quantities == ("value",)]
        self.worst = {
            cell.key: Worst(len(samples), cell.score.direction, device) for cell in shown if isinstance(cell.request.space, InputSpace)
        }

    def open(self, ask: Ask) -> None:
        """Make room for the rows of an ask."""
        self.asks.append(replace(ask, row=ask.row.to(self.device), element=ask.element[:, :0]))  # elements may be large
        for cell, seen in zip(self.cells, self.seen, strict=True):
            seen.append(torch.full((len(cell.score.quantities), len(ask)), torch.nan, dtype=torch.float64, device=self.device))

    def see(self, part: slice, pair: Pair) -> None:
        """Let every score observe some rows of the ask that is open."""
        ask = self.asks[-1][part]
        parts = [(slice(None), pair)] if self.own is None else self.own.split(pair, ask.row)
        for cell, seen in zip(self.cells, self.seen, strict=True):
            if cell.key in self.failed:
                continue
            try:
                values = observed(cell.score, parts, len(ask))
            except VeracityError as error:
                self.failed[cell.key] = error_text(error)
                if len(self.failed) == len(self.cells):
                    raise
                continue
            columns = values[:, None] if values.ndim == 1 else values
            if columns.shape != (len(ask), len(cell.score.quantities)):
                expected = f"({len(ask)}, {len(cell.score.quantities)})"
                raise SpecError(f"The score '{cell.name}' observed numbers of shape {tuple(values.shape)}, expected {expected}.")
            columns = columns.to(self.device).masked_fill(self.undefined(cell, ask)[:, None], torch.nan)
            seen[-1][:, part] = columns.T
            if cell.key in self.worst:
                self.worst[cell.key].see(replace(ask, element=pair.element), columns[:, 0], pair.after.explanation)

    def undefined(self, cell: Cell, ask: Ask) -> Tensor:
        """Rows (R,) that have no score: of broken explanations, of levels that short samples do not have, of wrong predictions."""
        found = self.broken[ask.row] if cell.score.reads is Reads.EXPLANATION else torch.zeros_like(ask.row, dtype=torch.bool)
        if self.levels is not None:
            found = found | (ask.level.to(self.device) >= self.levels[ask.row])
        return found | self.wrong[ask.row] if cell.score.correct_only else found

    def objective(self) -> Tensor:
        """The first score's values of the ask that is open."""
        return self.seen[0][-1][0]

    def lines(self, cell: Cell, worst: dict[str, Tensor] | None) -> Measurements | str:
        """What was measured of one cell, with the pairs for the eye; or why its score could not observe it."""
        if cell.key in self.failed:
            return self.failed[cell.key]
        row, draw, level = (torch.cat([getattr(ask, what) for ask in self.asks]).cpu() for what in ("row", "draw", "level"))
        values = torch.cat(self.seen[self.cells.index(cell)], dim=1).cpu()
        if isinstance(cell.request.space, (CumulativeMasks, OwnLength)):
            drawn = (
                torch.ones_like(level, dtype=torch.bool) if self.own is None or self.own.levels is None else level < self.own.levels[row]
            )
            values = undefined_whole(values, row, draw, drawn)
        kept = None if worst is None else worst["value"].isfinite().cpu()
        shown = None if worst is None or kept is None or not kept.any() else {name: value.cpu()[kept] for name, value in worst.items()}
        return Measurements(self.samples[row], draw, level, dict(zip(cell.score.quantities, values, strict=True)), shown)
