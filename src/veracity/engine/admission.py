"""Looks at a model before it is audited: does it take the inputs, are its outputs usable, which output is explained?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, VeracityError
from veracity.core.inputs import Inputs, Signals
from veracity.core.models import check_weights, device_of, evaluating
from veracity.core.outputs import Outputs
from veracity.core.targets import Target, class_numbers
from veracity.engine.batching import Budget, budget_for
from veracity.engine.problem import AuditedModel

UNPACK = {"quantised": "dequantize()", "sparse": "to_dense()"}
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
    doubt = None if outputs else kind.doubt(scores)
    classes = scores.shape[1] if scores.ndim == 2 else None
    correct = None if labels is None or classes is None or classes < 2 else classified(name, scores, labels, outputs)
    chosen = target.choose(viewed, labels)
    audited = AuditedModel(module, fingerprint.of_model(module), kind, chosen.cpu(), doubt, correct=correct, classes=classes)
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


def check_ready(name: str, module: nn.Module) -> None:
    """Refuse a model without weights, and one that would behave differently in training than it is audited."""
    check_weights(name, module)
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
            raise refusal(name, module, row, error) from error
    check_output(name, output)
    return budget


def refusal(name: str, module: nn.Module, signals: Signals, error: Exception, what: str = "inputs") -> InputError:
    """What to say of a model that failed on samples, in its own words; and how to convert them if they are of another type."""
    shape, kind = tuple(signals.values.shape), str(signals.values.dtype).removeprefix("torch.")
    own = next((one.dtype for one in module.parameters() if one.is_floating_point()), signals.values.dtype)
    fix = "" if own is signals.values.dtype else f" (convert them with .to({own}))"
    reason = " ".join(str(error).split())[:200]
    return InputError(f"Model '{name}' cannot take {what} of shape {shape} and type {kind}{fix}: {reason}")


def check_output(name: str, output: Any) -> None:
    """Raise unless a model gave one row of numbers for one input."""
    if not isinstance(output, Tensor) or output.ndim == 0 or len(output) != 1:
        what = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else "None" if output is None else f"a {type(output).__name__}"
        raise InputError(f"Model '{name}' must return one tensor with a row for each input, not {what}.")
    if output.layout is not torch.strided or output.is_quantized:
        kind = "quantised" if output.is_quantized else "sparse"
        raise InputError(f"Model '{name}' must return a dense tensor, not a {kind} one: end it with {UNPACK[kind]}.")
    if output.is_complex() or output.dtype is torch.bool or output.numel() == 0:
        what = f"{output.dtype} of shape {tuple(output.shape)}"
        raise InputError(f"Model '{name}' must return real numbers, at least one for each input, not {what}.")


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
