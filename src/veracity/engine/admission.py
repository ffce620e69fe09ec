"""Looks at a model before it is audited: does it take the inputs, are its outputs usable, which output is explained?"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, VeracityError
from veracity.core.inputs import Inputs, Signals
from veracity.core.models import device_of, evaluating
from veracity.core.outputs import Outputs
from veracity.core.targets import Target, class_numbers
from veracity.engine.batching import Budget, budget_for
from veracity.engine.problem import AuditedModel

MODE_DEPENDENT = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase, nn.RReLU)


def admit(
    name: str, module: nn.Module, inputs: Inputs, labels: Tensor | None, target: Target, outputs: Outputs | None, budget: Budget
) -> tuple[AuditedModel, float | None]:
    """The model as it will be audited, and its accuracy on the inputs where labels are known."""
    with evaluating(module):
        scores = sweep(name, module, inputs, budget)
        few = take(inputs, slice(0, min(4, inputs.size())), module)
        with torch.no_grad():
            steady = torch.allclose(few.through(module), few.through(module), rtol=1e-3, atol=1e-5)
        if not steady:
            raise InputError(f"Model '{name}' gives different outputs for the same input, even in evaluation mode: make it deterministic.")
        view = target.view(module)
        viewed = scores if view is module else sweep(name, view, inputs, budget)
    if viewed.ndim != 2:
        raise InputError(
            f"Model '{name}' gives outputs of shape {tuple(viewed.shape[1:])} a sample, not (classes,): "
            "pass target=... as a function of the output."
        )
    kind = outputs or Outputs.detect(scores)
    guessed = outputs is None and kind is Outputs.LOGITS and scores.shape[1] == 1
    classes = scores.shape[1] if scores.ndim == 2 else None
    correct = None if labels is None or classes is None or classes < 2 else classified(name, scores, labels, outputs)
    chosen = target.choose(viewed, labels)
    audited = AuditedModel(module, fingerprint.of_model(module), kind, chosen.cpu(), guessed, correct=correct, classes=classes)
    if classes is not None:
        audited = replace(audited, predicted=scores.argmax(1))
    return audited, None if correct is None else float(correct.float().mean())


def classified(name: str, scores: Tensor, labels: Tensor, outputs: Outputs | None) -> Tensor | None:
    """Which samples (samples,) the largest of several scores (samples, K) is right for.

    Raises on a label that is no class, unless the user said that the outputs are "raw": then there is no right or wrong, None.
    """
    fix = "" if outputs else "pass outputs='raw' if it does not classify"
    try:
        return scores.argmax(1) == class_numbers(labels, scores.shape[1], f"model '{name}'", fix=fix)
    except InputError:
        if outputs is Outputs.RAW:
            return None
        raise


def check_mode(name: str, module: nn.Module) -> None:
    """Refuse a model that would behave differently in training than it is audited."""
    layers = sorted({type(part).__name__ for part in module.modules() if part.training and isinstance(part, MODE_DEPENDENT)})
    if layers:
        raise InputError(f"Model '{name}' is in train mode and has {', '.join(layers)}: call model.eval() first.")


def first_budget(name: str, module: nn.Module, inputs: Inputs, memory: int | None, rows: int | None, workers: int = 1) -> Budget:
    """The model's row budget, from a first forward pass of one sample."""
    with evaluating(module):
        row = take(inputs, slice(0, 1), module)
        try:
            output = row.through(module)
            budget = budget_for(module, row, memory, rows, workers)
        except VeracityError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            shape, kind = tuple(row.values.shape), str(row.values.dtype).removeprefix("torch.")
            raise InputError(f"Model '{name}' cannot take inputs of shape {shape} and type {kind}: {reason}") from error
    if not isinstance(output, Tensor) or output.ndim == 0 or len(output) != 1:
        what = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise InputError(f"Model '{name}' must return one tensor with a row for each input, not {what}.")
    return budget


@torch.no_grad()
def sweep(name: str, module: nn.Module, inputs: Inputs, budget: Budget) -> Tensor:
    """The outputs on all unperturbed inputs, on the CPU; none of them may be NaN."""
    parts: list[Tensor] = []
    budget.spend(inputs.size(), 1, lambda part: parts.append(take(inputs, part, module).through(module).detach().cpu()))
    outputs = torch.cat(parts)
    bad = (~outputs.isfinite().reshape(len(outputs), -1).all(dim=1)).nonzero()
    if len(bad):
        raise InputError(
            f"Model '{name}' returns NaN or infinity for {len(bad)} of {len(outputs)} inputs; the first is sample {int(bad[0])}."
        )
    return outputs


def take(inputs: Inputs, part: slice, module: nn.Module) -> Signals:
    """Some inputs by position, on the model's device."""
    return inputs.take(torch.arange(part.start, part.stop)).to(device_of(module))
