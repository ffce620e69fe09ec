"""Checks before anything is measured: do models take the inputs and give usable outputs, and do explainers work on them?

Code of others may change the model, or mix the rows of a batch. It is tried on two inputs, together and alone; explainers of this
package are tested for that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch
from torch import Size, Tensor, nn
from torch.jit._trace import TracedModule

from veracity.core import fingerprint
from veracity.core.dense_targets import label_map, target_for
from veracity.core.errors import ChangedModelError, InputError, Note, SpecError, VeracityError
from veracity.core.explainers import Cost, Explainer, Frame, Learner, learner, maps_only
from veracity.core.fingerprint.origin import in_this_package
from veracity.core.inputs import Inputs, Signals
from veracity.core.models import check_weights, device_of, evaluating, out_of_memory, unwrap, weight_type
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.scores import Reads, reads_after, reads_before
from veracity.core.settings import short_repr
from veracity.core.snapshot import ModelSnapshot
from veracity.core.targets import Outputs, Target, class_numbers
from veracity.core.training import Training
from veracity.engine.memory import MEMORY, Budget, budget_for
from veracity.engine.problem import AuditedModel, Problem
from veracity.explain import Foreign
from veracity.explain.maps import apart
from veracity.models import Converted, readable_output

FEW = 4
"""How many inputs a model gets alone and together."""
MIXED, ROUNDING = 1e-3, 16
"""A change of outputs is more than rounding above this share of the largest output, and above this multiple of the coarsest precision."""
MODE_DEPENDENT = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase, nn.RReLU)
TRIAL_ROWS = 2
MIXED_MAPS = 1e-2
"""A change of a map is more than rounding above this share of its size; a ReLU may enlarge rounding errors."""
NAMED = 3
"""How many changed weights an error names."""


def admit(
    name: str,
    module: nn.Module,
    inputs: Inputs,
    labels: Tensor | None,
    target: Target,
    outputs: Outputs | None,
    budget: Budget,
    advance: Callable[[int], None] = lambda rows: None,
) -> tuple[AuditedModel, float | None]:
    """The model as it will be audited, and its accuracy if labels are known."""
    with evaluating(module):
        scores = sweep(name, module, inputs, budget, advance)
        mixing = budget.attempt(lambda: check_rows(name, module, take(inputs, slice(0, min(FEW, budget.rows, inputs.size())), module)))
        target = target_for(target, scores)
        view, deciding = target.view(module), target.decisions(module)
        viewed = scores if view is module else sweep(name, view, inputs, budget)
        decided = scores if deciding is module else sweep(name, deciding, inputs, budget)
    if viewed.ndim != 2:
        raise InputError(
            f"Model '{name}' gives outputs of shape {tuple(viewed.shape[1:])} per sample, not (classes,), (classes, height, width) or "
            "(length, vocabulary): pass target=... as a function of the output."
        )
    if not viewed.is_floating_point():
        what = str(viewed.dtype).removeprefix("torch.")
        raise InputError(f"The target '{target.name}' gives {what} for model '{name}', not floating point: explain the scores themselves.")
    outputs = outputs or declared(module)
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
    )
    return audited, accuracy


def declared(module: nn.Module) -> Outputs | None:
    """What an adapter says about the outputs of its model."""
    found = getattr(unwrap(module), "outputs", None)
    return found if isinstance(found, Outputs) else None


def recognise(rows: Tensor, labels: Tensor | None) -> Outputs:
    """Guess what outputs (N, K) are, with the help of the labels.

    A single output beside labels other than 0 and 1 is the value of a regression. Several outputs beside as many 0s and 1s are
    labels that do not exclude each other.
    """
    if labels is not None and rows.ndim == 2 and not labels.is_complex():
        yes_or_no = bool(((labels == 0) | (labels == 1)).all())
        if rows.shape[1] == 1 and labels.numel() == len(rows) and not yes_or_no:
            return Outputs.RAW
        unit = bool(((rows >= 0) & (rows <= 1)).all())
        if rows.shape[1] > 1 and labels.shape == rows.shape and yes_or_no and not unit:
            return Outputs.MULTILABEL
    return Outputs.detect(rows)


def share_correct(name: str, decided: Tensor, labels: Tensor | None, kind: Outputs) -> float | None:
    """The share of correct decisions: of pixels, of single labels, or of samples with one output; None if nothing is decided."""
    if labels is None or kind is Outputs.RAW or labels.is_complex():
        return None
    if decided.ndim == 3:
        truth = label_map(labels, decided)
        known = (truth >= 0) & (truth < max(decided.shape[2], 2))
        found = decided.argmax(2) if decided.shape[2] > 1 else kind.read(decided.flatten(0, 1))[:, 1].reshape(truth.shape) > 0.5
        return float((found == truth)[known].float().mean()) if bool(known.any()) else None
    if labels.numel() != decided.numel() or decided.ndim != 2:
        if labels.ndim == 1:
            return None
        shape = tuple(labels.shape[1:])
        raise InputError(
            f"The targets have the shape {shape} per sample, but model '{name}' returns {tuple(decided.shape[1:])}: pass one class number "
            "per sample, or one 0 or 1 for each output."
        )
    if not bool(((labels == 0) | (labels == 1)).all()):
        return None
    yes = kind.read(decided) if decided.shape[1] > 1 else kind.read(decided)[:, 1:]
    return float(((yes > 0.5) == labels.reshape(yes.shape).bool()).float().mean())


def correct_samples(name: str, scores: Tensor, labels: Tensor, outputs: Outputs | None) -> Tensor | None:
    """Which samples (samples,) are classified correctly by scores (samples, K).

    Raises on a label that is no class; None if the user said that the outputs are "raw", since those do not classify.
    """
    fix = "" if outputs else "pass outputs='raw' if it does not classify"
    try:
        return scores.argmax(1) == class_numbers(labels, scores.shape[1], f"model '{name}'", fix=fix)
    except InputError:
        if outputs is Outputs.RAW:
            return None
        raise


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
    shape, kind = tuple(signals.values.shape), str(signals.values.dtype).removeprefix("torch.")
    own = next((one.dtype for one in module.parameters() if one.is_floating_point()), signals.values.dtype)
    fix = "" if own is signals.values.dtype else f" (convert them with .to({own}))"
    return InputError(f"Model '{name}' cannot take {what} of shape {shape} and type {kind}{fix}: {' '.join(str(error).split())[:200]}")


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
        what = "predicts another class for" if predicted else "says something else about"
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

    def some(part: slice) -> None:
        parts.append(take(inputs, part, module).through(module).detach().cpu())
        advance(len(parts[-1]))

    try:
        budget.spend(inputs.size(), 1, some)
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
    return inputs.take(torch.arange(part.start, part.stop)).to(device_of(module))


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


def of_others(explainer: Explainer) -> bool:
    """Whether an explainer, or one inside it, comes from outside of this package."""
    if isinstance(explainer, Foreign) or not in_this_package(type(explainer)):
        return True
    inside = [getattr(explainer, item.name) for item in fields(explainer)]
    return any(isinstance(one, Explainer) and of_others(one) for one in inside)


class Guard:
    """Checks that an explainer from outside leaves the model unchanged; explainers of this package are trusted."""

    def __init__(self, label: str, explainer: Explainer | None, module: nn.Module, x: Signals) -> None:
        self.label, self.module, self.x = label, module, x
        self.before = ModelSnapshot(module) if explainer is not None and of_others(explainer) else None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Use the explainer within this block. The model is restored after an error, and checked otherwise."""
        try:
            yield
        except BaseException:
            if self.before is not None and self.before.changes():
                self.before.restore()
                MEMORY.forget()  # some outputs may be those of the changed model
            raise
        self.check()

    def check(self) -> None:
        """Restore a changed model and raise; changes by its own forward pass are allowed."""
        changed = self.before.changes() if self.before is not None else []
        if not changed or self.before is None:
            return
        self.before.restore()
        with torch.no_grad():
            self.x.through(self.module)
        own = set(self.before.changes())
        self.before.restore()
        blamed = [what for what in changed if what not in own]
        if blamed:
            MEMORY.forget()
            rest = f" and {len(blamed) - NAMED} more" if len(blamed) > NAMED else ""
            raise ChangedModelError(
                f"{self.label} changes the model that it explains ({', '.join(blamed[:NAMED])}{rest}), which was restored: let it work "
                "on a copy, copy.deepcopy(model)."
            )


def try_explainer(problem: Problem, name: str, label: str, budget: Budget) -> tuple[Explainer, list[str], bool]:
    """Try one explainer on one model; raises if it cannot be used.

    Returns the explainer with what it found out about itself, its notes, and whether it mixes the rows of a batch.
    """
    explainer, model = problem.explainers[label], problem.models[name]
    x = problem.inputs.take(torch.arange(min(TRIAL_ROWS, problem.inputs.size()))).to(device_of(model.module))
    targets, draws = model.targets[: len(x)].to(x.values.device), Draws.of(problem.seed, torch.arange(len(x)))
    with evaluating(model.module), seeded(problem.seed, gpus_in_use()):
        guard = Guard(label, explainer, model.module, x[:1])
        view = problem.view(name)
        context = problem.context(name, draws, budget.rows, x.structure, training=problem.training_of(name, explainer), present=x.present)
        try:
            check_declared(label, explainer, problem.inputs.shape)
            if x.structure and not explainer.structured:
                raise InputError(
                    f"{label} explains plain tensors only, not graphs or texts: an Explainer for them sets structured = True and "
                    "calls model(inputs, *context.structure)."
                )
            with guard.watching():
                notes = explainer.check(view, x.values, targets, context)
                found = explainer.specialise(view, x.values, targets, context)
                remark = mixing_remark(problem, name, label, found, budget, x, targets)
        except VeracityError as error:
            raise type(error)(f"On model '{problem.label(name)}': {error}") from error
    return found, [*notes, *([remark] if remark else [])], bool(remark)


def check_declared(label: str, explainer: Explainer, shape: Size) -> None:
    """Raise if an explainer declares something of the wrong type."""
    if not isinstance(explainer.frame, Frame):
        raise SpecError(f"The frame of {label} must be a Frame, such as Frame.TRAINING, not {short_repr(explainer.frame)}.")
    if not isinstance(explainer, Learner) and hasattr(explainer, "learn"):
        raise SpecError(f"{label} has a method `learn`, which nobody would call: derive {type(explainer).__name__} from Learner.")
    cost: Any = explainer.cost(shape)
    if not isinstance(cost, Cost):
        raise SpecError(f"The cost of {label} must be a Cost, such as Cost(forward=1), not {short_repr(cost)}.")


def mixing_remark(problem: Problem, name: str, label: str, explainer: Explainer, budget: Budget, x: Signals, targets: Tensor) -> str:
    """What to say if the rows of an explainer depend on each other; "" if they do not, if that is known, and if the explainer fails."""
    known = problem.models[name].mixing > 0 or explainer.batch_dependent
    if known or not of_others(explainer) or learner(explainer) or maps_only(explainer):
        return ""
    view, training, draws = problem.view(name), problem.training_of(name, explainer), Draws.of(problem.seed, torch.arange(len(x)))

    def explain(part: slice, seed: int = 0) -> Tensor:
        rows = x[part]
        context = problem.context(name, draws[part], budget.rows, rows.structure, training=training, present=rows.present)
        with seeded(seed, gpus_in_use()), torch.enable_grad():
            return explainer.explain(view, rows.values, targets[part], context).detach().double()

    if isinstance(explainer, Foreign):
        share = explainer.mixing(view, x.values, targets, problem.context(name, draws, budget.rows, x.structure))
        return mixed_maps(label, share)
    try:
        together = explain(slice(None))
        share = apart(together, torch.cat([explain(slice(row, row + 1)) for row in range(len(x))]))
        if apart(together, explain(slice(None), seed=1)) > MIXED_MAPS:
            return (
                f"{label} draws from the global random state, so its numbers depend on how the inputs are batched; the same batches "
                "give the same numbers: let it draw from context.draws."
            )
    except Exception as error:
        if out_of_memory(error):
            raise
        return ""
    return mixed_maps(label, share)


def mixed_maps(label: str, share: float) -> str:
    """A sentence about an explainer whose maps depend on the batch; "" if the change is rounding."""
    if share <= MIXED_MAPS:
        return ""
    return (
        f"{label} explains an input differently when other inputs are in the batch, by {share:.0%} on a trial, so that its scores mix "
        "samples and depend on the batch size: let it treat each row by itself, without torch.manual_seed."
    )


def try_explainers(
    problem: Problem, budgets: Mapping[str, Budget], advance: Callable[[int, str], None] = lambda steps, text: None
) -> tuple[Problem, list[dict[str, str]]]:
    """The problem with its explainers after a trial on each model, and notes about them, which are also warnings.

    An explainer counts as random, or as mixing the rows of a batch, if it was so on any model.
    """
    notes: list[dict[str, str]] = []
    explainers: dict[str, Explainer] = {}
    mixing: set[str] = set()
    for name, model in problem.models.items():
        if model.place is not None and model.place.fold > 0:
            continue
        for label in problem.explainers:
            advance(0, f"trying {label} on {name}")
            explainer, texts, mixes = budgets[name].attempt(partial(try_explainer, problem, name, label, budgets[name]))
            advance(1, f"trying {label} on {name}")
            notes += [{"model": problem.label(name), "explainer": label, "text": text} for text in texts]
            mixing |= {label} if mixes else set()
            if label not in explainers or explainer.stochastic:
                explainers[label] = explainer
    for name, model in {problem.label(key): model for key, model in problem.models.items()}.items():
        if model.doubt and any(Reads.OUTPUT in reads_before(score) | reads_after(score) for score in problem.scores.values()):
            notes.append({"model": name, "explainer": "", "text": model.doubt})
        if model.mixing:
            notes.append({"model": name, "explainer": "", "text": mixing_note(model.mixing)})
    for note in notes:
        warnings.warn(f"{note['model']} / {note['explainer'] or 'outputs'}: {note['text']}", Note, stacklevel=4)
    return replace(problem, explainers=explainers, mixing=frozenset(mixing)), notes
