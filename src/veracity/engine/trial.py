"""A trial of an explainer on a model, before anything is measured: does it work, and does it leave alone what it should?

Code of others may change the model, and may mix the rows of a batch. It is tried on two inputs, together and alone; explainers of
this package are held to it by their tests.

Looks at a model before it is audited: does it take the inputs, are its outputs usable, which output is explained?
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor, nn
from torch.jit._trace import TracedModule

from veracity.core import fingerprint
from veracity.core.errors import ChangedModelError, InputError, Note, SpecError, VeracityError
from veracity.core.explainers import Cost, Explainer, Frame, Learner, learner, maps_only
from veracity.core.fingerprint.origin import in_this_package
from veracity.core.inputs import Inputs, Signals
from veracity.core.models import check_weights, device_of, evaluating, out_of_memory
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.scores import Reads, reads_after, reads_before
from veracity.core.snapshot import ModelSnapshot
from veracity.core.targets import Outputs, Target, class_numbers
from veracity.core.training import Training
from veracity.engine.memory import MEMORY, Budget, budget_for
from veracity.engine.problem import AuditedModel, Problem
from veracity.explain import Foreign

TRIAL_ROWS = 2
MIXED_MAPS = 1e-2
"""From which share of a map on a change is more than rounding, which a ReLU may turn into more than its last bits."""
NAMED = 3
"""How many changed weights are named."""


@dataclass(frozen=True)
class TrialResult:
    """An explainer as a trial left it, what it has to say, and whether it mixes the rows of a batch."""

    explainer: Explainer
    notes: tuple[str, ...]
    mixing: bool = False


def of_others(explainer: Explainer) -> bool:
    """Whether an explainer, or one inside it, is somebody else's code."""
    if isinstance(explainer, Foreign) or not in_this_package(type(explainer)):
        return True
    inside = [getattr(explainer, item.name) for item in fields(explainer)]
    return any(isinstance(one, Explainer) and of_others(one) for one in inside)


class Guard:
    """Watches a model while somebody's explainer has it; the package's own are trusted, and cost nothing."""

    def __init__(self, label: str, explainer: Explainer | None, module: nn.Module, x: Signals) -> None:
        self.label, self.module, self.x = label, module, x
        self.before = ModelSnapshot(module) if explainer is not None and of_others(explainer) else None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within it the explainer has the model, which is brought back if an error ends it, and checked if none does."""
        try:
            yield
        except BaseException:
            if self.before is not None and self.before.changes():
                self.before.restore()
                MEMORY.forget()  # some outputs may be those of the changed model
            raise
        self.check()

    def check(self) -> None:
        """Raise if the model is not what it was, once it is so again; what its own forward pass changes is its own affair."""
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
                f"{self.label} changes the model that it explains ({', '.join(blamed[:NAMED])}{rest}), which was brought back: let it work "
                "on a copy, copy.deepcopy(model)."
            )


def try_explainer(problem: Problem, name: str, label: str, budget: Budget) -> TrialResult:
    """One explainer on one model; raises, in a sentence that names both, if it cannot be used."""
    explainer, model = problem.explainers[label], problem.models[name]
    x = problem.inputs.take(torch.arange(min(TRIAL_ROWS, problem.inputs.size()))).to(device_of(model.module))
    targets, draws = model.targets[: len(x)].to(x.values.device), Draws.of(problem.seed, torch.arange(len(x)))
    with evaluating(model.module), seeded(problem.seed, gpus_in_use()):
        guard = Guard(label, explainer, model.module, x[:1])
        view = problem.view(name)
        context = problem.context(name, draws, budget.rows, x.structure, training=problem.training_of(name, explainer))
        try:
            check_declared(label, explainer, problem.inputs.shape)
            if x.structure and not explainer.structured:
                raise InputError(
                    f"{label} explains plain tensors alone, not graphs: an Explainer that does says structured = True and "
                    "calls model(inputs, *context.structure)."
                )
            with guard.watching():
                notes = explainer.check(view, x.values, targets, context)
                found = explainer.settled(view, x.values, targets, context)
                said = mixes(problem, name, label, found, ExplainerTrial(problem, name, found, budget, x, targets, draws))
        except VeracityError as error:
            raise type(error)(f"On model '{problem.label(name)}': {error}") from error
    return TrialResult(found, (*notes, *said), bool(said))


def check_declared(label: str, explainer: Explainer, shape: Size) -> None:
    """Raise if what an explainer says about itself is of the wrong kind."""
    if not isinstance(explainer.frame, Frame):
        raise SpecError(f"The frame of {label} must be a Frame, such as Frame.TRAINING, not {explainer.frame!r}.")
    if not isinstance(explainer, Learner) and hasattr(explainer, "learn"):
        raise SpecError(f"{label} has a method `learn`, which nobody would call: derive {type(explainer).__name__} from Learner.")
    cost: Any = explainer.cost(shape)
    if not isinstance(cost, Cost):
        raise SpecError(f"The cost of {label} must be a Cost, such as Cost(forward=1), not {cost!r}.")


class ExplainerTrial:
    """An explainer on a few rows of one model."""

    def __init__(
        self, problem: Problem, name: str, explainer: Explainer, budget: Budget, x: Signals, targets: Tensor, draws: Draws
    ) -> None:
        self.problem, self.name, self.explainer, self.budget = problem, name, explainer, budget
        self.x, self.targets, self.draws = x, targets, draws
        self.view, self.training = problem.view(name), problem.training_of(name, explainer)

    def explained(self, part: slice, seed: int = 0) -> Tensor:
        """Maps of some rows, with global random states that follow from a seed."""
        x = self.x[part]
        context = self.problem.context(self.name, self.draws[part], self.budget.rows, x.structure, training=self.training)
        with seeded(seed, gpus_in_use()), torch.enable_grad():
            return self.explainer.explain(self.view, x.values, self.targets[part], context).detach().double()

    def draws_globally(self, together: Tensor) -> bool:
        """Whether maps follow from the global random states."""
        return apart(together, self.explained(slice(None), seed=1)) > MIXED_MAPS


def mixes(problem: Problem, name: str, label: str, explainer: Explainer, trial: ExplainerTrial) -> tuple[str, ...]:
    """What to say of rows that depend on each other; nothing where that is known, and of what fails, which its cells will tell."""
    known = problem.models[name].mixing > 0 or explainer.batch_dependent
    if known or not of_others(explainer) or learner(explainer) or maps_only(explainer):
        return ()
    try:
        together = trial.explained(slice(None))
        alone = torch.cat([trial.explained(slice(row, row + 1)) for row in range(len(trial.x))])
        share = apart(together, alone)
        if not isinstance(explainer, Foreign) and trial.draws_globally(together):
            return (
                f"{label} draws from the global random state, so that its numbers depend on how the inputs are batched; the same batches "
                "give the same numbers: let it draw from context.draws.",
            )
    except Exception as error:
        if out_of_memory(error):
            raise
        return ()
    if share <= MIXED_MAPS:
        return ()
    return (
        f"{label} explains an input differently when other inputs are in the batch, by {share:.0%} on a trial, so that its scores mix "
        "samples and depend on the batch size: let it treat each row by itself, without torch.manual_seed.",
    )


def apart(together: Tensor, alone: Tensor) -> float:
    """The largest change of a map (N, ...), as a share of its size; 0 for maps that cannot be compared.

    >>> round(apart(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 3.5]])), 3)
    0.1
    """
    if together.shape != alone.shape or not len(together):
        return 0.0
    a, b = (one.nan_to_num().flatten(1) for one in (together, alone))
    size = torch.maximum(a.norm(dim=1), b.norm(dim=1))
    return float(np.nanmax([0.0, *((a - b).norm(dim=1) / size).nan_to_num().tolist()]))


def try_explainers(
    problem: Problem, budgets: Mapping[str, Budget], heard: Callable[[int, str], None] = lambda step, text: None
) -> tuple[Problem, list[dict[str, str]]]:
    """The problem with its explainers after a trial on each model, and what each has to say; warned about, and kept with the result.

    An explainer is random, or mixes the rows of a batch, if it did so on any model. `heard` is told of every one that is tried.
    """
    notes: list[dict[str, str]] = []
    settled: dict[str, Explainer] = {}
    mixing: set[str] = set()
    for name, model in problem.models.items():
        if model.place is not None and model.place.fold > 0:
            continue
        for label in problem.explainers:
            heard(0, f"trying {label} on {name}")
            found = budgets[name].attempt(partial(try_explainer, problem, name, label, budgets[name]))
            heard(1, f"trying {label} on {name}")
            notes += [{"model": problem.label(name), "explainer": label, "text": text} for text in found.notes]
            mixing |= {label} if found.mixing else set()
            if label not in settled or found.explainer.stochastic:
                settled[label] = found.explainer
    for name, model in {problem.label(key): model for key, model in problem.models.items()}.items():
        if model.doubt and any(Reads.OUTPUT in reads_before(score) | reads_after(score) for score in problem.scores.values()):
            notes.append({"model": name, "explainer": "", "text": model.doubt})
        if model.mixing:
            notes.append({"model": name, "explainer": "", "text": mixing_note(model.mixing)})
    for note in notes:
        warnings.warn(f"{note['model']} / {note['explainer'] or 'outputs'}: {note['text']}", Note, stacklevel=4)
    return replace(problem, explainers=settled, mixing=frozenset(mixing)), notes


UNPACK = {"quantised": "dequantize()", "sparse": "to_dense()"}
FEW = 4
"""How many inputs are looked at alone and together."""
MIXED, ROUNDING = 1e-3, 16
"""From which share of the largest output on a change is more than rounding; and in units of the coarsest precision."""
MODE_DEPENDENT = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase, nn.RReLU)


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
    """The model as it will be audited, and its accuracy on the inputs where labels are known."""
    with evaluating(module):
        scores = sweep(name, module, inputs, budget, advance)
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
def sweep(name: str, module: nn.Module, inputs: Inputs, budget: Budget, advance: Callable[[int], None] = lambda rows: None) -> Tensor:
    """The outputs on all unperturbed inputs, on the CPU; raises if the model fails on one, or gives NaN."""
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
