"""Try every model before it is evaluated along orbits: does it take the inputs, and what does it return?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, VeracityError
from veracity.core.inputs import Inputs, Signals
from veracity.core.models import device_of, evaluating, out_of_memory
from veracity.engine.admission import check_mixing, check_ready, precision, refusal
from veracity.engine.memory import Budget, budget_for
from veracity.models import FunctionModel as AnyFunction
from veracity.models import as_model, readable_output
from veracity.orbits.grids import Orbit
from veracity.orbits.tasks import Task

TRIAL_SAMPLES = 256
"""How many unmoved samples a classifier is tried on, to tell logits from probabilities; other models need a few."""
FEW = 2
READABLE = ("classification", "regression")
"""Tasks whose outputs are one tensor, which may lie in a dict, a tuple or an object with `.logits`."""


class FunctionModel(nn.Module):
    """A plain function from inputs (N, ...) to outputs, as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """What the function gives; an array as a tensor."""
        found = self.function(*inputs)
        return torch.from_numpy(found).to(inputs[0].device) if isinstance(found, np.ndarray) else found


@dataclass(frozen=True)
class EvaluatedModel:
    """A model with the task by which its outputs are read, a hash of the model, and the shape of one output.

    `mixing` says how far its outputs depend on the other inputs of a batch, as a share.
    """

    module: nn.Module
    task: Task
    fingerprint: str
    shape: Size
    mixing: float = 0.0

    def about(self) -> dict[str, Any]:
        """The model's line in the manifest."""
        outputs = getattr(self.task, "outputs", None)
        parameters = sum(one.numel() for one in self.module.parameters())
        return {"fingerprint": self.fingerprint, "parameters": parameters, "outputs": outputs.value if outputs else None}


def as_modules(models: Any) -> dict[str, nn.Module]:
    """Models by name; a plain function counts as a model too, and models of other libraries are adapted."""
    named = dict(models) if isinstance(models, Mapping) else {"model": models}
    if not named:
        raise InputError("There is no model to evaluate: pass models={'name': module}.")
    return {str(name): as_module(str(name), model) for name, model in named.items()}


def as_module(name: str, model: Any) -> nn.Module:
    """A model as a module. A function may return anything that its task reads, such as lists of boxes."""
    adapted = as_model(name, model)
    return FunctionModel(model) if isinstance(adapted, AnyFunction) else adapted


def examine(
    name: str, module: nn.Module, inputs: Inputs, orbit: Orbit, task: Task, memory: int | None, rows: int | None
) -> tuple[EvaluatedModel, Budget, Tensor]:
    """The model with its task, how many of its rows fit into memory at once, and its outputs for a few unmoved samples.

    Raises on a model that cannot be evaluated.
    """
    check_ready(name, module)
    called = isinstance(module, FunctionModel)
    content = fingerprint.of_value(["called", module.function]) if called else fingerprint.of_model(module)
    with evaluating(module), torch.no_grad():
        row = unmoved_signals(inputs, orbit, torch.arange(1), module)
        first = run_model(name, module, row)
        if task.kind in READABLE and not isinstance(first, Tensor):
            module, first = readable_output(module, first)
        read_outputs(name, fit_task(name, task, first), first, len(row))
        budget = budget_for(module, row, memory, rows)
        count = min(inputs.size(), TRIAL_SAMPLES if task.kind == "classification" else FEW)
        parts: list[Signals] = []
        raw: list[Any] = []

        def run(part: slice) -> None:
            signals = unmoved_signals(inputs, orbit, torch.arange(part.start, part.stop), module)
            raw.append(run_model(name, module, signals))
            parts.append(signals)

        budget.spend(count, 1, run)
        fitted = fit_task(name, task, torch.cat(raw) if stackable(raw) else raw[0])
        outputs = [read_outputs(name, fitted, one, len(part)) for one, part in zip(raw, parts, strict=True)]
        again = read_outputs(name, fitted, run_model(name, module, parts[0]), len(parts[0]))
        few = [parts[0][slice(row, row + 1)] for row in range(min(FEW, len(parts[0])))]
        alone = [read_outputs(name, fitted, run_model(name, module, one), 1) for one in few]
    output = torch.cat(outputs) if stackable(outputs) else outputs[0]
    if not torch.allclose(outputs[0], again, rtol=1e-3, atol=1e-5, equal_nan=True):
        raise InputError(f"Model '{name}' gives different outputs for the same input, even in evaluation mode: make it deterministic.")
    wrong = invalid_outputs(output, fitted).nonzero()
    if len(wrong):
        raise InputError(f"Model '{name}' returns NaN or infinity for sample {int(wrong[0])} as it is: look at the model or the input.")
    mixing = check_mixing(name, outputs[0][: len(alone)], torch.cat(alone), precision(module)) if stackable([outputs[0], *alone]) else 0.0
    return EvaluatedModel(module, fitted, content, output.shape[1:], mixing), budget, output[:FEW]


def stackable(parts: Sequence[Any]) -> bool:
    """Whether all are tensors with rows of one shape, which can be concatenated."""
    return all(isinstance(one, Tensor) and one.ndim and one.shape[1:] == parts[0].shape[1:] for one in parts)


def unmoved_signals(inputs: Inputs, orbit: Orbit, samples: Tensor, module: nn.Module) -> Signals:
    """Some samples under the identity of the orbit, on the model's device."""
    signals = inputs.take(samples).to(device_of(module))
    element = orbit.elements[orbit.identity].to(signals.values.device)
    return orbit.space.move(element.expand(len(signals), -1), signals)


def run_model(name: str, module: nn.Module, signals: Signals) -> Any:
    """The output of a model; raises an error that says why the model cannot take these inputs."""
    try:
        return signals.through(module)
    except VeracityError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        raise refusal(name, module, signals, error) from error


def fit_task(name: str, task: Task, raw: Any) -> Task:
    """The task for what this model gives."""
    try:
        return task.fit(raw)
    except VeracityError as error:
        raise type(error)(f"Model '{name}': {error}") from error


def read_outputs(name: str, task: Task, raw: Any, rows: int) -> Tensor:
    """Outputs as the task reads them, one per row."""
    try:
        output = task.read(raw)
    except VeracityError as error:
        raise type(error)(f"Model '{name}': {error}") from error
    if len(output) != rows:
        raise InputError(f"Model '{name}' must give one row for each input, but gave {len(output)} for {rows}.")
    return output


def invalid_outputs(output: Tensor, task: Task) -> Tensor:
    """Which outputs (R, ...) hold infinity, or NaN where that does not stand for no detection: bool (R,)."""
    flat = output.reshape(len(output), -1)
    return flat.isinf().any(dim=1) if task.kind == "detection" else ~flat.isfinite().all(dim=1)


def check_shapes(models: Mapping[str, EvaluatedModel]) -> None:
    """Raise unless all models give outputs of the same shape, which a comparison needs."""
    (first, one), *others = models.items()
    for name, other in others:
        if other.shape != one.shape:
            raise InputError(
                f"Model '{name}' gives outputs of shape {tuple(other.shape)} per sample and model '{first}' of {tuple(one.shape)}: models "
                "that are compared must give the same."
            )
