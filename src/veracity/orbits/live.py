"""Live answers: what every model gives at one place along a sample's orbit, which the interface shows while you drag."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError, unknown
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating
from veracity.core.settings import short_repr
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import MANIFEST
from veracity.orbits.evaluation import OrbitEvaluation
from veracity.orbits.explanations import OrbitExplainer
from veracity.orbits.folder import CONSENSUS, TRUTH
from veracity.orbits.metrics import arrows, metrics_at, small_errors
from veracity.orbits.models import read_outputs, run_model
from veracity.orbits.pictures import Picture, draw_inputs
from veracity.orbits.result import MOVED, OrbitResult

Array = NDArray[Any]
REMEMBERED = 64
"""How many samples' references are kept in memory."""


@dataclass(frozen=True)
class LiveAnswer:
    """The answers of all models for one moved input.

    `at` are its coordinates and `label` is its name; `input` is the moved input as it is drawn (images and series; else None).
    By model: `outputs` as the task reads them, `metrics` {metric: {reference: value}}, of a flow `errors` (64, 64) against the truth
    and `consensus_errors`, and `quiver` (2, 16, 16), and the `attributions` (H, W) of the explainer that was asked for. `truth_class`
    is the sample's true class, where models classify and it is known.
    """

    at: tuple[float, ...]
    label: str
    input: Array | None
    outputs: dict[str, Array]
    metrics: dict[str, dict[str, dict[str, float]]]
    truth_class: int | None = None
    errors: dict[str, Array] = field(default_factory=dict)
    consensus_errors: dict[str, Array] = field(default_factory=dict)
    quiver: dict[str, Array] = field(default_factory=dict)
    attributions: dict[str, Array] = field(default_factory=dict)


class Live:
    """The models of an evaluation with the folder of its run. It answers one question at a time, from any thread."""

    def __init__(self, evaluation: OrbitEvaluation, path: str | Path) -> None:
        self.plan = evaluation.prepare()
        self.store = RunFolder(str(path))
        self.lock = threading.Lock()
        self.references = lru_cache(maxsize=REMEMBERED)(self._references)
        self.explainer = lru_cache(maxsize=None)(self._explainer)
        self.result = self._result(path)

    def answer(self, sample: int, at: Sequence[float], explainer: str | None = None) -> LiveAnswer:
        """What every model gives for one sample, moved to the coordinates `at`; they need not lie on the grid.

        Coordinates of a group that has nothing in between mean the nearest element.
        """
        plan = self.plan
        place = self._place(sample, at, explainer)
        with self.lock, ExitStack() as stack, torch.no_grad():
            for model in plan.models.values():
                stack.enter_context(evaluating(model.module))
            element = plan.orbit.locate(place)
            moved = plan.orbit.space.move(element, plan.inputs.take(torch.tensor([sample])))
            outputs = {
                name: read_outputs(name, model.task, run_model(name, model.module, moved.to(device_of(model.module))), 1).cpu()
                for name, model in plan.models.items()
            }
            metrics = {
                name: metrics_at(plan.models[name].task, plan.orbit.space, element, output, self.references(name, sample))
                for name, output in outputs.items()
            }
            shown = draw_inputs(plan.picture, moved.values, plan.span)[0].numpy() if Picture(plan.picture) in MOVED else None
            return LiveAnswer(
                at=tuple(place[0].tolist()),
                label=plan.orbit.label(place[0]),
                input=shown,
                outputs={name: output[0].numpy() for name, output in outputs.items()},
                metrics=metrics,
                truth_class=int(plan.truth[sample]) if plan.truth is not None and plan.task.kind == "classification" else None,
                **(self._fields(sample, element, outputs) if plan.task.kind == "flow" else {}),
                attributions=self._attributions(sample, moved, explainer) if explainer is not None else {},
            )

    def _place(self, sample: int, at: Sequence[float], explainer: str | None) -> Tensor:
        """The coordinates (1, axes); raises if the sample, the place or the explainer does not exist."""
        plan = self.plan
        if isinstance(sample, bool) or not isinstance(sample, int) or not 0 <= sample < plan.inputs.size():
            raise InputError(f"A sample is known by its number from 0 to {plan.inputs.size() - 1}, not {short_repr(sample)}.")
        place = torch.tensor([[float(value) for value in at]], dtype=torch.float64)
        if place.shape[1] != len(plan.orbit.axes) or not place.isfinite().all():
            names = ", ".join(axis.name for axis in plan.orbit.axes)
            raise InputError(f"A place along the orbit has the coordinates ({names}), not {list(at)}.")
        if explainer is not None and explainer not in plan.explainers:
            raise unknown("explainer of this evaluation", explainer, plan.explainers or ["(there is none)"])
        return place

    def _references(self, name: str, sample: int) -> dict[str, Tensor]:
        """Truth and consensus (1, ...) of one sample, if they are known."""
        task, truth = self.plan.models[name].task, self.plan.truth
        found = {} if truth is None else {TRUTH: truth[sample : sample + 1]}
        kept = {} if self.result is None else self.result.outputs(name, sample)
        consensus = kept.get("field" if task.kind == "flow" else "consensus")
        return found if consensus is None else {**found, CONSENSUS: task.as_truth(torch.from_numpy(np.array(consensus)).float()[None])}

    def _fields(self, sample: int, element: Tensor, outputs: dict[str, Tensor]) -> dict[str, dict[str, Array]]:
        """Errors and arrows of vector fields."""
        found: dict[str, dict[str, Array]] = {"errors": {}, "consensus_errors": {}, "quiver": {}}
        for name, output in outputs.items():
            known = self.references(name, sample)
            found["quiver"][name] = arrows(output)[0].numpy()
            moved = {one: self.plan.task.truth(self.plan.orbit.space, element, y) for one, y in known.items()}
            errors = {one: small_errors(output, y)[0].numpy() for one, y in moved.items()}
            if errors:
                found["errors"][name] = errors.get(TRUTH, next(iter(errors.values())))
            if CONSENSUS in errors:
                found["consensus_errors"][name] = errors[CONSENSUS]
        return found

    def _attributions(self, sample: int, moved: Signals, explainer: str) -> dict[str, Array]:
        """The explanations of the moved input, for the output that is explained of the unmoved one, summed over channels."""
        number = torch.tensor([sample])
        found = {}
        for name in self.plan.models:
            one = self.explainer(name, explainer)
            targets = one.problem.models[name].targets[number].to(one.device)
            maps = one.explanation(moved.to(one.device), targets, number, 1)[0].float().cpu()
            found[name] = (maps.sum(dim=0) if maps.ndim == 3 else maps).numpy()
        return found

    def _explainer(self, name: str, explainer: str) -> OrbitExplainer:
        """One explainer of one model, made once."""
        if self.plan.problem is None:
            raise InputError("This evaluation has no explainers: pass OrbitEvaluation(explainers=[...]).")
        return OrbitExplainer(self.plan.problem, name, explainer, self.plan.budgets[name], self.store)

    def _result(self, path: str | Path) -> OrbitResult | None:
        """The run in the folder, None without one; raises unless it has the same models, inputs, truth and orbit."""
        if not self.store.files.exists(MANIFEST):
            return None
        found = OrbitResult(path)
        planned = {(cell.model, cell.key) for cell in self.plan.cells if not cell.explainer}
        if planned != {(cell["model"], cell["key"]) for cell in found.manifest["cells"] if not cell["explainer"]}:
            raise InputError("The models or inputs at hand are not those of this run: run the evaluation again to see them.")
        return found
