"""Live answers: what every model gives at one place along a sample's orbit, which the interface shows while you drag."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Generator, Sequence
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
from veracity.core.measures import Direction
from veracity.core.models import device_of, evaluating
from veracity.core.settings import short_repr
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import MANIFEST
from veracity.orbits.evaluation import OrbitEvaluation
from veracity.orbits.explanations import OrbitExplainer
from veracity.orbits.folder import CONSENSUS, TRUTH
from veracity.orbits.metrics import arrows, metrics_at, small_errors
from veracity.orbits.models import invalid_outputs, read_outputs, run_model
from veracity.orbits.pictures import Picture, draw_inputs
from veracity.orbits.result import MOVED, OrbitResult
from veracity.orbits.search import WorstPlace, worst_place
from veracity.orbits.tasks import Metric

Array = NDArray[Any]
AT_ONCE = 16
"""How many places of a search a model looks at together; others who ask wait for so many."""
REMEMBERED = 64
"""How many samples' references are kept in memory."""
PART = 0.05
"""About how many seconds models of one part of an answer take together; a slower one is a part of its own."""


@dataclass(frozen=True)
class LiveAnswer:
    """The answers of all models for one moved input.

    `at` are its coordinates and `label` is its name; `input` is the moved input as it is drawn (images and series; else None).
    By model that was asked: `outputs` as the task reads them, `metrics` {metric: {reference: value}}, of a flow `errors` (64, 64)
    against the truth and `consensus_errors`, and `quiver` (2, 16, 16). Of the explainer that was asked for: the `attributions` (H, W),
    those `expected` from the unmoved input, moved along, and in `explained` the `target` and the `agreement` of the two. `truth_class`
    is the true class of the sample, where models classify and it is known.
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
    expected: dict[str, Array] = field(default_factory=dict)
    explained: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FoundWorst:
    """The worst place of an orbit that a search found for one model, the metric there, and at the worst measured element."""

    at: tuple[float, ...]
    label: str
    value: float
    measured: float
    evaluations: int


class Live:
    """The models of an evaluation with the folder of its run. It answers one question at a time, from any thread."""

    def __init__(self, evaluation: OrbitEvaluation, path: str | Path) -> None:
        self.plan = evaluation.prepare()
        self.store = RunFolder(str(path))
        self.lock = threading.Lock()
        self.references = lru_cache(maxsize=REMEMBERED)(self._references)
        self.explainer = lru_cache(maxsize=None)(self._explainer)
        self.seconds: dict[tuple[str, str | None], float] = {}
        self.result = self._result(path)

    def parts(self, explainer: str | None = None) -> list[list[str]]:
        """The models in the parts that an answer is given in, the fastest first: by the least time that each one has taken.

        The first answer, which may load and warm up a lot, says nothing yet.
        """
        least = {name: self.seconds.get((name, explainer), math.inf) for name in self.plan.models}
        took = {name: seconds if math.isfinite(seconds) else 0.0 for name, seconds in least.items()}
        found: list[list[str]] = []
        left = 0.0
        for name in sorted(took, key=lambda one: took[one]):
            if not found or took[name] > left:
                found.append([])
                left = PART
            found[-1].append(name)
            left -= took[name]
        return found

    def answer(self, sample: int, at: Sequence[float], explainer: str | None = None, models: Sequence[str] | None = None) -> LiveAnswer:
        """What models, or by default all, give for one sample, moved to the coordinates `at`; they need not lie on the grid.

        Coordinates of a group that has nothing in between mean the nearest element.
        """
        plan = self.plan
        place = self._place(sample, at, explainer)
        outputs: dict[str, Tensor] = {}
        metrics: dict[str, dict[str, dict[str, float]]] = {}
        more: dict[str, dict[str, Any]] = {}
        with self.lock, torch.no_grad():
            element = plan.orbit.locate(place)
            moved = plan.orbit.space.move(element, plan.inputs.take(torch.tensor([sample])))
            for name in plan.models if models is None else models:
                started, model = time.perf_counter(), plan.models[name]
                with evaluating(model.module):
                    found = run_model(name, model.module, moved.to(device_of(model.module)))
                    outputs[name] = output = read_outputs(name, model.task, found, 1).cpu()
                    metrics[name] = metrics_at(model.task, plan.orbit.space, element, output, self.references(name, sample))
                    parts = self._fields(name, sample, element, output) if plan.task.kind == "flow" else {}
                    parts |= self._attributions(name, sample, moved, element, explainer) if explainer is not None else {}
                for part, value in parts.items():
                    more.setdefault(part, {})[name] = value
                asked = name, explainer
                known = asked in self.seconds
                self.seconds[asked] = min(self.seconds[asked], time.perf_counter() - started) if known else math.inf
            shown = draw_inputs(plan.picture, moved.values, plan.span)[0].numpy() if Picture(plan.picture) in MOVED else None
            return LiveAnswer(
                at=tuple(place[0].tolist()),
                label=plan.orbit.label(place[0]),
                input=shown,
                outputs={name: output[0].numpy() for name, output in outputs.items()},
                metrics=metrics,
                truth_class=int(plan.truth[sample]) if plan.truth is not None and plan.task.kind == "classification" else None,
                **more,
            )

    def worst(self, sample: int, metric: str, reference: str = TRUTH) -> dict[str, FoundWorst]:
        """By model, the worst place of a sample's orbit that a search finds, between measured elements too."""
        search = self.search(sample, metric, reference)
        while True:
            try:
                next(search)
            except StopIteration as ended:
                found: dict[str, FoundWorst] = ended.value
                return found

    def search(self, sample: int, metric: str, reference: str = TRUTH) -> Generator[None, None, dict[str, FoundWorst]]:
        """The search for the worst place in steps: after each of them it yields, so that others can ask the models in between."""
        plan, result = self.plan, self.result
        self._place(sample, plan.orbit.coordinates()[plan.orbit.identity].tolist(), None)
        if result is None:
            raise InputError("A search starts at measured elements: run the evaluation first.")
        found = {}
        for name, model in plan.models.items():
            about = next((one for one in model.task.metrics if one.name == metric), None)
            if about is None or reference not in self.references(name, sample):
                raise InputError(f"No search measures '{metric}' by the {reference}: choose a metric of the task that has it.")
            sign = -1.0 if about.direction is Direction.HIGHER else 1.0
            losses = sign * torch.from_numpy(result.values(name, metric, reference)[sample].copy())
            search = worst_place(plan.orbit, losses)
            try:
                places = next(search)
                while True:
                    parts = []
                    for part in places.split(AT_ONCE):
                        parts.append(sign * self._measured(name, about, reference, sample, part))
                        yield
                    places = search.send(torch.cat(parts))
            except StopIteration as ended:
                worst: WorstPlace = ended.value
            found[name] = FoundWorst(
                at=tuple(worst.at.tolist()),
                label=plan.orbit.label(worst.at),
                value=sign * worst.loss,
                measured=sign * float(losses.nan_to_num(-torch.inf).max()),
                evaluations=worst.evaluations,
            )
        return found

    def _measured(self, name: str, metric: Metric, reference: str, sample: int, places: Tensor) -> Tensor:
        """A metric of one model and sample at some coordinates (n, axes): (n,)."""
        plan, model = self.plan, self.plan.models[name]
        with self.lock, evaluating(model.module), torch.no_grad():
            elements = plan.orbit.locate(places)
            moved = plan.orbit.space.move(elements, plan.inputs.take(torch.full((len(places),), sample)))
            output = read_outputs(name, model.task, run_model(name, model.module, moved.to(device_of(model.module))), len(places)).cpu()
        known = self.references(name, sample)[reference]
        truth = model.task.truth(plan.orbit.space, elements, known.expand(len(places), *known.shape[1:]))
        return metric.measure(output, truth).masked_fill(invalid_outputs(output, model.task), torch.nan)

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

    def _fields(self, name: str, sample: int, element: Tensor, output: Tensor) -> dict[str, Any]:
        """Errors and arrows of a vector field."""
        known = self.references(name, sample)
        found: dict[str, Any] = {"quiver": arrows(output)[0].numpy()}
        moved = {one: self.plan.task.truth(self.plan.orbit.space, element, y) for one, y in known.items()}
        errors = {one: small_errors(output, y)[0].numpy() for one, y in moved.items()}
        if errors:
            found["errors"] = errors.get(TRUTH, next(iter(errors.values())))
        if CONSENSUS in errors:
            found["consensus_errors"] = errors[CONSENSUS]
        return found

    def _attributions(self, name: str, sample: int, moved: Signals, element: Tensor, explainer: str) -> dict[str, Any]:
        """The explanation of the moved input, for the output that is explained of the unmoved one, and the expected one."""
        x = self.plan.inputs.take(torch.tensor([sample]))
        one = self.explainer(name, explainer).beside_expected(x, moved, element, self.plan.orbit.space, sample)
        return {
            "attributions": flat(one.found),
            "expected": flat(one.expected),
            "explained": {"target": one.target, "agreement": one.agreement},
        }

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


def flat(maps: Tensor) -> Array:
    """A map summed over its channels."""
    shown = maps.float().cpu()
    return (shown.sum(dim=0) if shown.ndim == 3 else shown).numpy()
