"""Looks at a model before it is audited: does it take the inputs, are its outputs usable, which output is explained?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.jit._trace import TracedModule

from veracity.core import fingerprint
from veracity.core.errors import InputError, VeracityError
from veracity.core.inputs import Inputs, Signals
from veracity.core.models import check_weights, device_of, evaluating, out_of_memory
from veracity.core.targets import Outputs, Target, class_numbers
from veracity.engine.memory import Budget, budget_for
from veracity.engine.problem import AuditedModel

UNPACK = {"quantised": "dequantize()", "sparse": "to_dense()"}
FEW = 4
"""How many inputs are looked at alone and together."""
MIXED, ROUNDING = 1e-3, 16
"""From which share of the largest output on a change is more than rounding; and in units of the coarsest precision."""
MODE_DEPENDENT = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase, nn.RReLU)


def admit(
    name: str, module: nn.Module, inputs: Inputs, labels: Tensor | None, target: Target, outputs: Outputs | None, budget: Budget
) -> tuple[AuditedModel, float | None]:
    """The model as it will be audited, and its accuracy on the inputs where labels are known."""
    with evaluating(module):
        scores = sweep(name, module, inputs, budget)
        mixing = budget.attempt(lambda: check_rows(name, module, take(inputs, slice(0, min(FEW, budget.rows, inputs.size())), module)))
        view = target.view(module)
        viewed = scores if view is module else sweep(name, view, inputs, budget)
    if viewed.ndim != 2:
        raise InputError(
            f"Model '{name}' gives outputs of shape {tuple(viewed.shape[1:])} a sample, not (classes,): "
            "pass target=... as a function of the output."
        )
    if not viewed.is_floating_point():
        what = str(viewed.dtype).removeprefix("torch.")
        raise InputError(f"The target '{target.name}' gives {what} for model '{name}', not floating point: explain the scores themselves.")
    kind = outputs or Outputs.detect(scores)
    doubt = None if outputs else kind.doubt(scores)
    classes = scores.shape[1] if scores.ndim == 2 else None
    correct = None if labels is None or classes is None or classes < 2 else correct_samples(name, scores, labels, outputs)
    chosen = target.choose(viewed, labels)
    audited = AuditedModel(module, fingerprint.of_model(module), kind, chosen.cpu(), doubt, correct=correct, classes=classes, mixing=mixing)
    if classes is not None:
        audited = replace(audited, predicted=scores.argmax(1))
    return audited, None if correct is None else float(correct.float().mean())


def correct_samples(name: str, scores: Tensor, labels: Tensor, outputs: Outputs | None) -> Tensor | None:
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
    if any(isinstance(part, torch.jit.ScriptModule) and not isinstance(part, TracedModule) for part in module.modules()):
        raise InputError(f"Model '{name}' holds a scripted network, whose layers cannot be watched: pass the network it was made from.")
    if "eval" in vars(module):
        raise InputError(f"Model '{name}' is an exported program, whose mode cannot be set: pass the network it was exported from.")
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
    return InputError(f"Model '{name}' cannot take {what} of shape {shape} and type {kind}{fix}: {' '.join(str(error).split())[:200]}")


def check_output(name: str, output: Any) -> None:
    """Raise unless a model gave one row of numbers for one input."""
    if not isinstance(output, Tensor) or output.ndim == 0 or len(output) != 1:
        what = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else "None" if output is None else f"a {type(output).__name__}"
        fix = ": wrap it in a module that returns .logits" if isinstance(getattr(output, "logits", None), Tensor) else ""
        raise InputError(f"Model '{name}' must return one tensor with a row for each input, not {what}{fix}.")
    if output.layout is not torch.strided or output.is_quantized:
        kind = "quantised" if output.is_quantized else "sparse"
        raise InputError(f"Model '{name}' must return a dense tensor, not a {kind} one: end it with {UNPACK[kind]}.")
    if output.is_complex() or output.numel() == 0:
        what = f"{output.dtype} of shape {tuple(output.shape)}"
        raise InputError(f"Model '{name}' must return real numbers, at least one for each input, not {what}.")
    if not output.is_floating_point():
        raise InputError(
            f"Model '{name}' must return scores in floating point, not {output.dtype}: return what comes before argmax or a threshold."
        )


@torch.no_grad()
def check_rows(name: str, module: nn.Module, few: Signals) -> float:
    """How far the outputs of a few inputs depend on each other; raises if they depend on chance, or on each other alone."""
    together = few.through(module)
    if not torch.allclose(together, few.through(module), rtol=1e-3, atol=1e-5):
        raise InputError(f"Model '{name}' gives different outputs for the same input, even in evaluation mode: make it deterministic.")
    return check_mixing(name, together, torch.cat([few[slice(row, row + 1)].through(module) for row in range(len(few))]), precision(module))


def precision(module: nn.Module) -> float:
    """The coarsest rounding of a model's weights."""
    return max((torch.finfo(one.dtype).eps for one in module.parameters() if one.is_floating_point()), default=0.0)


def check_mixing(name: str, together: Tensor, alone: Tensor, eps: float = 0.0) -> float:
    """How far outputs (N, ...) of inputs in one batch are from those of each input alone, as a share of the largest; 0 for rounding.

    Raises if that is as large as what tells the inputs apart: if predictions change, or an output by half of its range.
    """
    if len(together) < 2 or together.shape != alone.shape or not together.is_floating_point():
        return 0.0
    a, b = (one.double().nan_to_num().flatten(1) for one in (together, alone))
    moved, largest = float((a - b).abs().max()), float(torch.maximum(a.abs(), b.abs()).max())
    if moved <= max(MIXED, ROUNDING * max(eps, torch.finfo(together.dtype).eps)) * largest:
        return 0.0
    share = moved / largest
    predicted = together.ndim == 2 and together.shape[1] > 1 and not torch.equal(a.argmax(1), b.argmax(1))
    if predicted or moved >= float((a.amax(0) - a.amin(0)).max()) / 2:
        what = "predicts another class for" if predicted else "says something else about"
        raise InputError(
            f"Model '{name}' {what} an input when other inputs are in the batch (its outputs change by {share:.0%}), so that every score "
            "would mix samples: use statistics that do not depend on the batch, or audit it row by row: audit.run(folder, batch=1)."
        )
    return share


def mixing_note(share: float) -> str:
    """What to say of a model whose outputs depend on the batch."""
    return (
        f"its outputs change by {share:.1%} when other inputs are in the batch, so that every score mixes samples and depends on the "
        "batch size: use statistics that do not depend on the batch, or audit it row by row: audit.run(folder, batch=1)."
    )


@torch.no_grad()
def sweep(name: str, module: nn.Module, inputs: Inputs, budget: Budget) -> Tensor:
    """The outputs on all unperturbed inputs, on the CPU; raises if the model fails on one, or gives NaN."""
    parts: list[Tensor] = []
    try:
        budget.spend(inputs.size(), 1, lambda part: parts.append(take(inputs, part, module).through(module).detach().cpu()))
    except VeracityError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        raise failing(name, module, inputs, error) from error
    outputs = torch.cat(parts)
    bad = (~outputs.isfinite().reshape(len(outputs), -1).all(dim=1)).nonzero()
    if len(bad):
        raise InputError(
            f"Model '{name}' returns NaN or infinity for {len(bad)} of {len(outputs)} inputs; the first is sample {int(bad[0])}."
        )
    return outputs


def failing(name: str, module: nn.Module, inputs: Inputs, error: Exception) -> InputError:
    """What to say of a model that throws on unperturbed inputs: on which one first, or that it takes single ones alone."""
    for sample in range(inputs.size()):
        try:
            take(inputs, slice(sample, sample + 1), module).through(module)
        except Exception as own:
            return InputError(f"Model '{name}' fails on sample {sample} with {in_a_line(own)}: leave the sample out, or mend the model.")
    return InputError(f"Model '{name}' takes every input alone, but fails on several at once with {in_a_line(error)}: pass batch=1.")


def in_a_line(error: Exception) -> str:
    """An error of somebody else's code."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def take(inputs: Inputs, part: slice, module: nn.Module) -> Signals:
    """Some inputs by position, on the model's device."""
    return inputs.take(torch.arange(part.start, part.stop)).to(device_of(module))
