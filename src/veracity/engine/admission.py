"""Checks of a model before anything is measured: does it take the inputs, give usable outputs, and treat each row by itself?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.jit._trace import TracedModule

from veracity.core import fingerprint
from veracity.core.dense_targets import target_for
from veracity.core.errors import InputError, VeracityError
from veracity.core.explainers import Explainer
from veracity.core.inputs import Inputs, Signals, samples_on
from veracity.core.models import View, check_weights, device_of, evaluating, extendable, out_of_memory, unwrap, weight_type
from veracity.core.targets import Outputs, Target
from veracity.core.training import Training
from veracity.core.transfer import fetch
from veracity.engine.memory import BYTES, Budget, budget_for
from veracity.engine.plan import BLOCK
from veracity.engine.predictions import correct_samples, declared, recognise, share_correct
from veracity.engine.problem import AuditedModel, FirstOutputs
from veracity.inputs.several import PartsModel
from veracity.models import Converted, readable_output
from veracity.models.base import HIDDEN, scores_key
from veracity.scores.faithfulness.masked import why_no_probability

FEW = 4
"""How many inputs a model gets alone and together."""
SHOWN = 64
"""How many outputs show whether they are probabilities."""
MIXED, ROUNDING = 1e-3, 16
"""A change of outputs is more than rounding above this share of the largest output, and above this multiple of the coarsest precision."""
MODE_DEPENDENT = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase, nn.RReLU)


def admit(
    name: str,
    module: nn.Module,
    inputs: Inputs,
    labels: Tensor | Callable[[], Tensor | None] | None,
    target: Target,
    outputs: Outputs | None,
    budget: Budget,
    advance: Callable[[int], None] = lambda rows: None,
) -> tuple[AuditedModel, float | None]:
    """The model as it will be audited, and its accuracy if labels are known.

    Labels may be a function, which is called after the model has seen every input: a dataset is read once for both.
    """
    at_once = budget.rows
    with evaluating(module):
        scores = None if extendable(module) else sweep(name, module, inputs, budget, advance)
        with torch.no_grad():  # one text says what the outputs are: scores of all tokens after all positions would fill the memory
            given, target = target, target_for(target, take(inputs, slice(0, 1), module).through(module) if scores is None else scores)
        if target is not given:
            check_head(name, module, take(inputs, slice(0, 1), module))
        view, deciding = target.view(module), target.decisions(module)
        if scores is None and module in (view, deciding):
            scores = sweep(name, module, inputs, budget, advance)
        mixing = budget.attempt(lambda: check_rows(name, module, take(inputs, slice(0, min(FEW, budget.rows, inputs.size())), module)))
        told = advance if scores is None else lambda rows: None
        viewed = scores if scores is not None and view is module else sweep(name, view, inputs, budget, told)
        same = scores is None and type(target).decisions is type(target).view
        decided = scores if scores is not None and deciding is module else viewed if same else sweep(name, deciding, inputs, budget)
    if labels is not None and not isinstance(labels, Tensor):
        labels = labels()
    if viewed.ndim != 2:
        raise InputError(
            f"Model '{name}' gives outputs of shape {tuple(viewed.shape[1:])} per sample, not (classes,), (classes, height, width) or "
            "(length, vocabulary): pass target=... as a function of the output."
        )
    if not viewed.is_floating_point():
        what = str(viewed.dtype).removeprefix("torch.")
        raise InputError(f"The target '{target.name}' gives {what} for model '{name}', not floating point: explain the scores themselves.")
    outputs = outputs or target.outputs or declared(module)
    rows = decided.flatten(0, -2) if decided.ndim == 3 and deciding is not module else decided
    kind = outputs or recognise(rows, labels)
    doubt = None if outputs else kind.doubt(rows)
    if labels is not None and labels.ndim == 2 and decided.shape == labels.shape and kind is Outputs.PROBABILITIES:
        doubt = None
    classes = decided.shape[1] if decided.ndim == 2 else None
    single = labels is None or labels.ndim != 1 or classes is None or classes < 2
    correct = None if single or labels is None else correct_samples(name, decided, labels, outputs)
    accuracy = share_correct(name, decided, labels, kind) if correct is None else float(correct.float().mean())
    chosen = target.choose_by(decided, viewed, labels)
    kept = viewed is decided and module is view and module is deciding and budget.rows == at_once and viewed.nbytes <= BYTES
    audited = AuditedModel(
        module,
        fingerprint.of_model(module),
        kind,
        chosen.cpu(),
        doubt,
        correct=correct,
        classes=classes,
        predicted=None if classes is None else decided.argmax(1),
        mixing=mixing,
        target=target,
        uncertain=why_uncertain(viewed[:SHOWN], decided[:SHOWN], kind, dense=deciding is not module),
        first=FirstOutputs(viewed, aligned_rows(module, budget), device_of(module)) if kept else None,
    )
    return audited, accuracy


@torch.no_grad()
def check_head(name: str, module: nn.Module, first: Signals) -> None:
    """Raise if the scores of a model are hidden states, which are no scores of classes, pixels or tokens."""
    inner, seen = unwrap(module), list[Any]()
    if isinstance(inner, torch.jit.ScriptModule):
        return
    handle = inner.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    try:
        first.through(module)
    finally:
        handle.remove()
    if any(not isinstance(one, Tensor) and scores_key(one) == HIDDEN for one in seen):
        raise InputError(
            f"Model '{name}' ({type(inner).__name__}) has no classification head, and its output is hidden states: load it with a head, "
            "such as AutoModelForSequenceClassification.from_pretrained(...), or pass target=... as a function of the hidden states."
        )


def why_uncertain(scores: Tensor, decided: Tensor, kind: Outputs, *, dense: bool) -> str:
    """What a probability of the explained scores (N, K) would need, from the outputs (N, ...) that decide; "" if there is one."""
    read = kind.read_decisions(decided) if dense else kind.read(decided)
    raw = "probabilities, but the model's outputs are raw values" if kind is Outputs.RAW else ""
    return why_no_probability(scores, read) or raw


def check_ready(name: str, module: nn.Module) -> None:
    """Raise on a model without weights, and on one in train mode whose layers depend on the mode."""
    check_weights(name, module)
    if any(isinstance(part, torch.jit.ScriptModule) and not isinstance(part, TracedModule) for part in module.modules()):
        raise InputError(f"Model '{name}' holds a scripted network, whose layers cannot be watched: pass the network it was made from.")
    if "eval" in vars(module):
        raise InputError(f"Model '{name}' is an exported program, whose mode cannot be set: pass the network it was exported from.")
    layers = sorted({type(part).__name__ for part in module.modules() if part.training and isinstance(part, MODE_DEPENDENT)})
    if layers:
        raise InputError(f"Model '{name}' is in train mode and has {', '.join(layers)}: call model.eval() first.")


def first_pass(
    name: str, module: nn.Module, inputs: Inputs, memory: int | None, rows: int | None, workers: int = 1
) -> tuple[nn.Module, Budget]:
    """The model as one that returns a tensor of scores, and its row budget, from a first forward pass of one sample.

    Scores are found in a dict, a tuple or an object, and one number per input becomes (N, 1).
    """
    with evaluating(module):
        row, kind = take(inputs, slice(0, 1), module), weight_type(module)
        if kind is not None and kind is not row.values.dtype:
            module = Converted(module, kind)
        try:
            view, output = readable_output(module, row.through(module))
            budget = budget_for(view, row, memory, rows, workers)
        except VeracityError:
            raise
        except Exception as error:
            raise refusal(name, module, row, error) from error
    check_output(name, output)
    return view, budget


def refusal(name: str, module: nn.Module, signals: Signals, error: Exception, what: str = "inputs") -> InputError:
    """The error for a model that fails on samples, with its own message, and how to convert samples of another type."""
    shape, kind = shown_shape(module, signals), str(signals.values.dtype).removeprefix("torch.")
    own = next((one.dtype for one in module.parameters() if one.is_floating_point()), signals.values.dtype)
    fix = "" if own is signals.values.dtype else f" (convert them with .to({own}))"
    return InputError(f"Model '{name}' cannot take {what} of shape {shape} and type {kind}{fix}: {' '.join(str(error).split())[:200]}")


def shown_shape(module: nn.Module, signals: Signals) -> str:
    """The shape of values, or of every part if samples have several."""
    view = module
    while isinstance(view, View):
        if isinstance(view, PartsModel):
            parts = view.by_part(signals.values, *signals.structure)
            return ", ".join(f"{tuple(part.shape)} ({name})" for name, part in parts.items())
        view = view.model
    return str(tuple(signals.values.shape))


def check_output(name: str, output: Any) -> None:
    """Raise unless a model returns one row of numbers for one input."""
    if not isinstance(output, Tensor) or output.ndim == 0 or len(output) != 1:
        what = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else "None" if output is None else f"a {type(output).__name__}"
        fix = ": wrap it in a module that returns .logits" if isinstance(getattr(output, "logits", None), Tensor) else ""
        raise InputError(f"Model '{name}' must return one tensor with a row for each input, not {what}{fix}.")
    if output.layout is not torch.strided or output.is_quantized:
        kind, fix = ("quantised", "dequantize()") if output.is_quantized else ("sparse", "to_dense()")
        raise InputError(f"Model '{name}' must return a dense tensor, not a {kind} one: end it with {fix}.")
    if output.is_complex() or output.numel() == 0:
        what = f"{output.dtype} of shape {tuple(output.shape)}"
        raise InputError(f"Model '{name}' must return real numbers, at least one for each input, not {what}.")
    if not output.is_floating_point():
        raise InputError(
            f"Model '{name}' must return scores in floating point, not {output.dtype}: return what comes before argmax or a threshold."
        )


@torch.no_grad()
def check_rows(name: str, module: nn.Module, few: Signals) -> float:
    """How far the outputs of a few inputs depend on each other; raises if they are random, or depend on each other too much."""
    together = few.through(module)
    if not torch.allclose(together, few.through(module), rtol=1e-3, atol=1e-5):
        raise InputError(f"Model '{name}' gives different outputs for the same input, even in evaluation mode: make it deterministic.")
    return check_mixing(name, together, torch.cat([few[slice(row, row + 1)].through(module) for row in range(len(few))]), precision(module))


def precision(module: nn.Module) -> float:
    """The coarsest rounding of a model's weights."""
    return max((torch.finfo(one.dtype).eps for one in module.parameters() if one.is_floating_point()), default=0.0)


def check_mixing(name: str, together: Tensor, alone: Tensor, eps: float = 0.0) -> float:
    """Difference between the outputs (N, ...) in one batch and alone, as a share of the largest output; 0 if it is only rounding.

    Raises if predictions change, or an output by half of its range.
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
        what = "predicts another class for" if predicted else "changes its output for"
        raise InputError(
            f"Model '{name}' {what} an input when other inputs are in the batch (its outputs change by {share:.0%}), so that every score "
            "would mix samples: use statistics that do not depend on the batch, or audit it row by row: audit.run(folder, batch=1)."
        )
    return share


def mixing_note(share: float) -> str:
    """A sentence about a model whose outputs depend on the batch."""
    return (
        f"its outputs change by {share:.1%} when other inputs are in the batch, so that every score mixes samples and depends on the "
        "batch size: use statistics that do not depend on the batch, or audit it row by row: audit.run(folder, batch=1)."
    )


@torch.no_grad()
def sweep(name: str, module: nn.Module, inputs: Inputs, budget: Budget, advance: Callable[[int], None] = lambda rows: None) -> Tensor:
    """The outputs for all unperturbed inputs, on the CPU; raises if the model fails on one, or gives NaN."""
    parts: list[Tensor] = []
    coming: list[Callable[[], Tensor]] = []

    def some(start: int, part: slice) -> None:
        x = take(inputs, slice(start + part.start, start + part.stop), module)  # goes to a GPU while it works on the inputs before
        if coming:
            parts.append(coming.pop()())
        coming.append(fetch(x.through(module).detach()))
        advance(part.stop - part.start)

    aligned = aligned_rows(module, budget)
    try:
        for start in range(0, inputs.size(), aligned):
            budget.spend(min(aligned, inputs.size() - start), 1, partial(some, start))
        parts += [late() for late in coming]
    except VeracityError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        raise sample_error(name, module, inputs, error) from error
    outputs = torch.cat(parts)
    bad = (~outputs.isfinite().reshape(len(outputs), -1).all(dim=1)).nonzero()
    if len(bad):
        raise InputError(
            f"Model '{name}' returns NaN or infinity for {len(bad)} of {len(outputs)} inputs; the first is sample {int(bad[0])}."
        )
    return outputs


def aligned_rows(module: nn.Module, budget: Budget) -> int:
    """After how many samples a new call begins: on a CPU after each of the smallest blocks, so that every block consists of whole calls.

    Elsewhere, and for models without weights, such as trees, a call takes long whatever its rows, so calls are as large as they may be.
    """
    return BLOCK if device_of(module).type == "cpu" and next(module.parameters(), None) is not None else budget.rows


def sample_error(name: str, module: nn.Module, inputs: Inputs, error: Exception) -> InputError:
    """The error for a model that fails on inputs: it names the first such sample, or says that only batches fail."""
    for sample in range(inputs.size()):
        try:
            take(inputs, slice(sample, sample + 1), module).through(module)
        except Exception as own:
            return InputError(f"Model '{name}' fails on sample {sample} with {one_line(own)}: leave the sample out, or fix the model.")
    return InputError(f"Model '{name}' takes every input alone, but fails on several at once with {one_line(error)}: pass batch=1.")


def one_line(error: Exception) -> str:
    """An error of other people's code, with its type, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def take(inputs: Inputs, part: slice, module: nn.Module) -> Signals:
    """Some inputs by position, on the model's device."""
    return samples_on(inputs, torch.arange(part.start, part.stop), device_of(module))


def check_training(name: str, module: nn.Module, training: Training | None, explainers: Mapping[str, Explainer]) -> None:
    """Raise if a model cannot take the training examples that explainers will show it."""
    if training is None or not any(explainer.needs for explainer in explainers.values()):
        return
    first = training.inputs.take(torch.zeros(1, dtype=torch.long)).to(device_of(module))
    try:
        with evaluating(module), torch.no_grad():
            first.through(module)
    except VeracityError:
        raise
    except Exception as error:
        raise refusal(name, module, first, error, "training examples") from error
