"""The entry point: choose models, inputs, an orbit and a task, run the evaluation into a folder, and read the result."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.component import encode_setting
from veracity.core.errors import InputError, Note
from veracity.core.failures import failures_of
from veracity.core.inputs import Inputs
from veracity.core.models import as_device, to_device
from veracity.core.settings import Inside, Whole, check_fields
from veracity.engine.progress import bar
from veracity.engine.resolve import as_whole, labelled
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.orbits.grids import Orbit
from veracity.orbits.loop import measure
from veracity.orbits.models import as_modules
from veracity.orbits.plan import OrbitPlan
from veracity.orbits.prepare import prepare
from veracity.orbits.result import OrbitResult
from veracity.orbits.tasks import Task


@dataclass(frozen=True, kw_only=True, eq=False)
class OrbitEvaluation:
    """Which models to evaluate along the orbit of every input, and for what task (NERO evaluation).

    models      {"name": module}, or one module; any function of inputs (N, ...) is taken for a model too
    inputs      a tensor (samples, ...), or an Inputs; scenes larger than the window for a CropOrbit
    targets     the truth: class numbers (samples,), boxes (samples, objects, 5), fields (samples, 2, H, W), numbers (samples, ...);
                without it outputs are compared with their consensus alone
    orbit       RotationOrbit, CropOrbit, FlowOrbit, DiskOrbit, or the GroupOrbit of any group
    task        Classification, Detection, Flow or Regression, with its metrics
    explainers  names, Explainers, functions; a list or {"label": ...}; each adds a metric: how well its maps follow the input
    labels      the group of each sample, as numbers or names (samples,); by default the classes of the targets
    picture     how inputs are drawn: image, scene, pair, cloud, series or none; inferred by default
    reference   a reference set for explainers that need one
    target      which output is explained, as in an Audit
    notes       sentences that a reader of the result must know
    about       further entries of the manifest, such as the recipe
    """

    models: Mapping[str, Any] | nn.Module
    inputs: Tensor | Inputs | Sequence[Any]
    orbit: Orbit
    task: Task
    targets: Any = None
    explainers: Sequence[Any] | Mapping[str, Any] = ()
    labels: Any = None
    picture: str | None = None
    reference: Tensor | None = None
    target: Any = "predicted"
    notes: Sequence[str] | str = ()
    seed: Whole = 0
    confidence: Inside = 0.95
    title: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every plain setting; `prepare` checks models, data and components."""
        check_fields(self, "the evaluation", others=("models", "inputs", "orbit", "task", "explainers", "picture", "reference", "about"))

    def run(
        self, folder: str | Path, *, workers: int | None = None, batch: int | None = None, memory: int | None = None, progress: bool = True
    ) -> OrbitResult:
        """Measure what the folder does not hold yet, and return the result.

        `workers` is how many threads models may use, `batch` how many rows they see at once, `memory` the budget in bytes.
        """
        if not isinstance(folder, (str, Path)):
            raise InputError(f"A run needs a folder to write to, such as run('runs/digits'), not {folder!r}.")
        store = RunFolder(str(folder))
        store.check_writable(Kind.ORBITS)
        with threads(workers):
            plan = self.prepare(batch=batch, memory=memory)
            with store.writing():
                with bar("checking stored files", store.count(), progress) as advance:
                    store.repair(advance)
                store.write_manifest(plan.manifest(store))
                measure(plan, store, progress, memory)
        result = OrbitResult(folder)
        for failure in failures_of(result.failures().to_dict("records")):
            warnings.warn(str(failure), Note, stacklevel=2)
        return result

    def on(self, device: str) -> OrbitEvaluation:
        """The same evaluation with its models on a device; a model that is elsewhere is copied there."""
        where = as_device(device)
        return replace(self, models={name: to_device(name, one, where) for name, one in as_modules(self.models).items()})

    def serve(self, folder: str | Path, **settings: Any) -> None:
        """Measure what this folder does not hold yet, then show it in the browser: dragging along an orbit asks the models at hand.

        Settings are those of `veracity.serve`: port, host, open_browser, announce. It ends when the process is interrupted.
        """
        from veracity import serve

        serve(self, folder, **settings)

    def prepare(self, *, batch: int | None = None, memory: int | None = None) -> OrbitPlan:
        """Resolve every name, try every model, and make the plan; raises on anything that cannot work."""
        for what, value in (("batch", batch), ("memory", memory)):
            if value is not None:
                as_whole(value, what, least=1)
        return prepare(self, memory, batch)

    def spec(self) -> dict[str, Any]:
        """The evaluation as plain data."""
        return {
            "models": list(as_modules(self.models)),
            "orbit": encode_setting(self.orbit),
            "task": encode_setting(self.task),
            "explainers": {label: one.spec() for label, one in labelled(self.explainers, controls=False).items()},
            "target": encode_setting(self.target),
            "picture": self.picture,
            "seed": self.seed,
            "confidence": self.confidence,
        }


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Give models this many threads; the setting is restored afterwards."""
    if count is None:
        yield
        return
    as_whole(count, "workers", least=1)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)
