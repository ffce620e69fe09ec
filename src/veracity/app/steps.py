"""Live steps: what a score sees of one sample at one level after the other, measured again by the engine with what it saw kept.

Along a faithfulness curve these are masked inputs, under randomised layers explanations, and of a cross-trained model the
explanations of the models of the other folds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.scores import Pair, Reads
from veracity.core.spaces import GuidedSpace, InputSpace, Space, TargetSpace, TrainingSpace
from veracity.core.walks import Ask, within
from veracity.core.wording import compact
from veracity.engine.loop import perturbation_of
from veracity.engine.perturbation.base import Measurements, Tally
from veracity.engine.plan import Cell
from veracity.engine.reader import Block
from veracity.perturb.parts import KEPT, REMOVED, ExplainedPart
from veracity.perturb.weights import LayerRandomisation, Randomisation
from veracity.report.figures.chart import evenly
from veracity.report.figures.images import to_array
from veracity.report.interactive.cases import Shown
from veracity.report.interactive.courses import SHARE, curve_of, has_curve
from veracity.results import Result
from veracity.results.series import Array
from veracity.scores.common import Curve

MOST = 8
"""The most levels that are drawn, evenly spaced."""


def shows_steps(cell: Cell) -> bool:
    """Whether there is something to draw: explanations after a perturbation, or inputs that are masked as the explanation says."""
    space = cell.request.space
    by_explanation = isinstance(space, GuidedSpace) and space.by_explanation and cell.request.walk.length(space) == 1
    return Reads.EXPLANATION in cell.after or has_curve(cell.score) or by_explanation


def side_by_side(cell: Cell) -> bool:
    """Whether all draws are shown beside each other, as those of folds, where each draw is another model."""
    return isinstance(cell.request.space, TrainingSpace)


@dataclass(frozen=True)
class Seen:
    """The input and the explanation at one step; None for what stays, or is not looked at.

    `masked` is the masked share of a sample, if samples have different lengths.
    """

    input: Tensor | None
    explanation: Tensor | None
    masked: float | None = None


@dataclass(frozen=True)
class Watched:
    """What was measured of one sample, what was seen by draw and level, and the unperturbed input with its explanation."""

    found: Measurements
    seen: Mapping[tuple[int, int], Seen]
    input: Tensor
    explanation: Tensor | None


def tables_of(found: Measurements) -> dict[str, Array]:
    """The quantities (draws, levels) of one sample; of a single draw, its row alone."""
    draws, place = found.draw.unique(return_inverse=True)
    shape = (len(draws), int(found.level.max()) + 1)

    def table(values: Tensor) -> Array:
        filled = np.full(shape, np.nan)
        filled[place.numpy(), found.level.numpy()] = values.numpy()
        return filled

    return {name: table(values) for name, values in found.quantities.items()}


def shown_at(cell: Cell, pair: Pair, row: int) -> bool:
    """Whether a row has a picture: levels that are not explained have maps of NaN."""
    return Reads.EXPLANATION not in cell.after or bool(pair.after.explanation[row].isfinite().any())


def masked_share(element: Tensor, present: Tensor | None) -> float | None:
    """The share of what exists of a sample that a mask hides; None if all samples have one length, where levels say it."""
    if present is None or element.dtype != torch.bool or element.numel() != present[0].numel():
        return None
    there = present[0].flatten().to(element.device)
    return float((element & there).sum() / there.sum())


def watch(block: Block, cell: Cell) -> Watched:
    """Measure a block of one sample by one score, and keep what the score saw at a few levels of every draw."""
    seen: dict[tuple[int, int], Seen] = {}
    with block.guard.watching(), torch.no_grad(), within(block.budget.memory):
        before = block.read(cell.before, cell.request)
        perturbation = perturbation_of(block, [cell], before)
        space: Space = perturbation.space
        own = perturbation.own_length
        levels = space.levels if own is None or own.levels is None else int(own.levels[0])
        wanted = set(evenly(levels, MOST).tolist())
        tally = Tally([cell], block.samples, block.device, perturbation.broken, ~block.correct, own)
        walker = cell.request.walk.start(space, block.numbers, block.seed, cell.score.bounds)
        while (ask := walker.ask()) is not None:

            def see(part: slice, pair: Pair, ask: Ask = ask) -> None:
                tally.see(part, pair)
                for row, place in enumerate(zip(ask.draw[part].tolist(), ask.level[part].tolist(), strict=True)):
                    if place[1] in wanted and shown_at(cell, pair, row):
                        moved = space.move(pair.element[[row]], block.x).values[0] if isinstance(space, InputSpace) else None
                        found = pair.after.explanation[row] if Reads.EXPLANATION in cell.after else None
                        seen[place] = Seen(moved, found, masked_share(pair.element[row], block.x.present))

            tally.open(ask)
            perturbation.observe(ask, see)
            walker.tell(tally.objective())
    lines = tally.lines(cell, None)
    if isinstance(lines, str):
        raise InputError(lines)
    maps = before.get(Reads.EXPLANATION)
    return Watched(lines, seen, block.x.values[0], None if maps is None else maps[0])


def steps_of(run: Result, cell: Cell, watched: Watched, stored: Mapping[str, Array], shown: Shown, explainer: str) -> dict[str, Any]:
    """The steps as the page shows them, beside the input and the explanation before them.

    Each has a name, its `value` now, the `stored` one, and drawings of the input and the explanation; null where there is none. `stored`
    holds the quantities (draws, levels) of the run.
    """
    space: Space = cell.request.space
    draws, levels = watched.found.draw.unique().tolist(), space.levels
    curve = curve_of(run, cell.score, levels)
    quantity = curve.quantity if curve is not None else cell.score.quantities[0]
    now, base = tables_of(watched.found)[quantity], to_array(watched.input)

    def drawn(seen: Seen) -> dict[str, Any]:
        moved = None if seen.input is None else to_array(seen.input)
        found = None if seen.explanation is None else to_array(seen.explanation)
        return {
            "input": None if moved is None else shown.masked(moved, base),
            "map": None if found is None else shown.map(found, explainer, places=base if moved is None else moved),
        }

    steps = [
        {
            "name": name_of(space, curve, draw, level, watched.seen[draw, level].masked),
            "value": finite(now[row, level]),
            "stored": finite(stored[quantity][draw, level]) if level < stored[quantity].shape[1] else None,
            **drawn(watched.seen[draw, level]),
        }
        for row, draw in enumerate(draws)
        for level in range(levels)
        if (draw, level) in watched.seen
    ]
    first = "own model" if side_by_side(cell) else "before"
    return {"quantity": quantity, "before": first, **drawn(Seen(watched.input, watched.explanation)), "steps": steps}


def name_of(space: Space, curve: Curve | None, draw: int, level: int, masked: float | None) -> str:
    """What happened up to a step: the share that is masked, how many layers are random, or which other model it is."""
    if isinstance(space, TrainingSpace):
        return f"other model {draw + 1}"
    if isinstance(space, LayerRandomisation):
        count = space.reach(level)
        last = space.known_layers[count - 1]
        return f"layer {last}" if count == 1 else f"{count} layers, to {last}"
    if isinstance(space, ExplainedPart):
        return PARTS[level]
    if isinstance(space, Randomisation):
        return "all layers"
    if isinstance(space, TargetSpace):
        return "another output"
    if curve is not None and curve.across.startswith(SHARE):
        what = curve.across.rsplit(" ", 1)[-1]
        own = None if masked is None else masked if what == "masked" else 1.0 - masked
        return f"{compact(round(100 * (float(curve.places[level]) if own is None else own), 1))} % {what}"
    return f"step {level + 1} of {space.levels}" if space.levels > 1 else "perturbed"


PARTS = {REMOVED: "without what is explained", KEPT: "what is explained alone"}


def finite(value: float) -> float | None:
    """A number as JSON can hold it."""
    return float(value) if math.isfinite(value) else None
