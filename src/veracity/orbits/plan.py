"""The plan of an orbit evaluation: blocks of samples, and the files to write, with keys that hash everything they depend on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor

from veracity.core import fingerprint
from veracity.core.explainers import Explainer
from veracity.core.inputs import Inputs
from veracity.engine.memory import Budget
from veracity.engine.problem import Problem
from veracity.engine.store import SCHEMA
from veracity.orbits.folder import CONSENSUS, TRUTH
from veracity.orbits.grids import Orbit
from veracity.orbits.models import EvaluatedModel
from veracity.orbits.pictures import Picture
from veracity.orbits.tasks import Task

ALGORITHMS = 3
"""To be raised whenever a change of this package changes numbers, so that old files are not mixed with new ones."""
BLOCK = 64
"""The most samples of a block."""
HELD = 64 << 20
"""The most bytes of one model's outputs that are held at once; a block has at least one sample."""


@dataclass(frozen=True)
class Block:
    """Consecutive samples, and the key of their pictures."""

    start: int
    stop: int
    pictures: str

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def samples(self) -> Tensor:
        """Their numbers, (n,)."""
        return torch.arange(self.start, self.stop)


@dataclass(frozen=True)
class Cell:
    """One model on one block: what one table of metrics holds; with an explainer, how that follows the orbit."""

    key: str
    model: str
    explainer: str
    block: Block

    def entry(self) -> dict[str, Any]:
        """The cell's line in the manifest."""
        return {"key": self.key, "model": self.model, "explainer": self.explainer, "start": self.block.start, "stop": self.block.stop}


@dataclass(frozen=True)
class OrbitPlan:
    """Everything that will be measured, resolved and checked.

    `elements` (K, p) are the orbit's, `truth` (samples, ...) is as the task wants it, `labels` (samples,) count samples to the
    `groups`. `budgets` are the rows of each model that fit into memory at once; `problem` is what explainers are asked, if any.
    """

    spec: dict[str, Any]
    title: str | None
    about: Mapping[str, Any]
    notes: tuple[dict[str, str], ...]
    inputs: Inputs
    truth: Tensor | None
    labels: Tensor | None
    groups: tuple[str, ...]
    orbit: Orbit
    elements: Tensor
    task: Task
    models: Mapping[str, EvaluatedModel]
    budgets: Mapping[str, Budget]
    problem: Problem | None
    picture: Picture
    span: tuple[float, float]
    window: int | None
    blocks: tuple[Block, ...]
    cells: tuple[Cell, ...]
    seed: int

    @property
    def explainers(self) -> Mapping[str, Explainer]:
        """What is followed along the orbit besides the outputs."""
        return {} if self.problem is None else self.problem.explainers

    @property
    def references(self) -> tuple[str, ...]:
        """What outputs can be judged against."""
        return (CONSENSUS,) if self.truth is None else (TRUTH, CONSENSUS)


def block_length(output: Size, elements: int) -> int:
    """How many samples make a block, where one output has this shape: 64, or fewer whose float32 outputs can be held.

    >>> block_length(Size([10]), 72), block_length(Size([2, 256, 256]), 16)
    (64, 8)
    """
    return min(BLOCK, max(1, HELD // (4 * max(1, math.prod(output)) * elements)))


def plan_cells(
    models: Mapping[str, EvaluatedModel],
    problem: Problem | None,
    budgets: Mapping[str, Budget],
    inputs: Inputs,
    truth: Tensor | None,
    orbit: Orbit,
    blocks: tuple[Block, ...],
) -> Iterator[Cell]:
    """Every cell, block by block."""
    for block in blocks:
        data = [inputs.take(block.samples).fingerprint(), block.start]
        known = None if truth is None else fingerprint.of_tensor(truth[block.start : block.stop])
        for name, model in models.items():
            base = {
                "algorithms": [SCHEMA, ALGORITHMS],
                "model": [model.fingerprint, model.task.spec(), *([budgets[name].rows] if model.mixing else [])],
                "orbit": orbit.spec(),
                "block": data,
                "truth": known,
            }
            yield Cell(fingerprint.of_json(base), name, "", block)
            if problem is None:
                continue
            for label, explainer in problem.explainers.items():
                parts = {
                    "algorithms": [SCHEMA, ALGORITHMS],
                    "orbit": orbit.spec(),
                    "block": data,
                    "model": model.fingerprint,
                    "explainer": explainer.spec(),
                    "target": [problem.target.spec(), problem.models[name].targets[block.samples].tolist()],
                    "batch": budgets[name].rows if problem.depends_on_batch(name, label) else None,
                    "learnt": problem.learnt_key(name, label),
                    "seed": problem.seed,
                }
                yield Cell(fingerprint.of_json(parts), name, label, block)


def plan_blocks(
    length: int, inputs: Inputs, truth: Tensor | None, orbit: Orbit, task: Task, picture: Picture, span: tuple[float, float]
) -> Iterator[Block]:
    """Blocks of this many samples; the key of their pictures hashes everything that these depend on."""
    for start in range(0, inputs.size(), length):
        stop = min(start + length, inputs.size())
        x = inputs.take(torch.arange(start, stop)).fingerprint()
        known = None if truth is None or task.kind == "classification" else [fingerprint.of_tensor(truth[start:stop]), task.action.spec()]
        key = fingerprint.of_json([SCHEMA, ALGORITHMS, x, start, known, orbit.spec(), task.kind, picture.value, list(span)])
        yield Block(start, stop, key)
