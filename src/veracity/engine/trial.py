"""Trials of explainers before anything is measured.

Code of others may change the model, or mix the rows of a batch. It is tried on two inputs, together and alone; explainers of this
package are tested for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import ChangedModelError, InputError, SpecError, VeracityError, warn
from veracity.core.explainers import Cost, Explainer, Frame, Learner, learner, maps_only, with_all_inside
from veracity.core.fingerprint.origin import in_this_package
from veracity.core.inputs import Inputs, Signals, whole
from veracity.core.models import device_of, evaluating, out_of_memory, unwrap
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.scores import Reads, reads_after, reads_before
from veracity.core.settings import short_repr
from veracity.core.snapshot import ModelSnapshot
from veracity.core.targets import Class, Outputs
from veracity.engine.admission import mixing_note
from veracity.engine.memory import Budget, forget_outputs
from veracity.engine.problem import AuditedModel, Problem
from veracity.explain import Foreign
from veracity.explain.maps import apart
from veracity.inputs import TextInputs

TRIAL_ROWS = 2
MIXED_MAPS = 1e-2
"""A change of a map is more than rounding above this share of its size; a ReLU may enlarge rounding errors."""
NAMED = 3
"""How many changed weights an error names."""


def of_others(explainer: Explainer) -> bool:
    """Whether an explainer, or one inside it, comes from outside of this package."""
    return any(isinstance(one, Foreign) or not in_this_package(type(one)) for one in with_all_inside(explainer))


class Guard:
    """Checks that an explainer from outside leaves the model unchanged; explainers of this package are trusted."""

    def __init__(self, label: str, explainer: Explainer | None, module: nn.Module, x: Signals) -> None:
        self.label, self.module, self.x = label, module, x
        self.before = ModelSnapshot(module) if explainer is not None and of_others(explainer) else None

    @property
    def trusted(self) -> bool:
        """Whether the explainer is part of this package."""
        return self.before is None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Use the explainer within this block. The model is restored after an error, and checked otherwise."""
        try:
            yield
        except BaseException:
            if self.before is not None and self.before.changes():
                self.before.restore()
                forget_outputs()  # some outputs may be those of the changed model
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
            forget_outputs()
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
                raise InputError(plain_only(label, explainer, problem.inputs))
            with guard.watching():
                notes = explainer.check(view, x.values, targets, context)
                found = explainer.specialise(view, x.values, targets, context)
                remark = mixing_remark(problem, name, label, found, budget, x, targets)
        except VeracityError as error:
            raise type(error)(f"On model '{problem.label(name)}': {error}") from error
    return found, [*notes, *([remark] if remark else [])], bool(remark)


def plain_only(label: str, explainer: Explainer, inputs: Inputs) -> str:
    """A sentence about an explainer of plain tensors that meets graphs or texts: what to use, or how to change a class of your own."""
    if not in_this_package(type(explainer)):
        fix = "an Explainer for them sets structured = True and calls model(inputs, *context.structure)"
    elif isinstance(whole(inputs), TextInputs):
        fix = "for texts use kernel_shap, partition_shap or integrated_gradients"
    else:
        fix = "use another one, such as integrated_gradients"
    return f"{label} explains plain tensors only, not graphs or texts: {fix}."


def check_declared(label: str, explainer: Explainer, shape: Size) -> None:
    """Raise if an explainer declares something of the wrong type."""
    if not isinstance(explainer.frame, Frame):
        raise SpecError(f"The frame of {label} must be a Frame, such as Frame.TRAINING, not {short_repr(explainer.frame)}.")
    if not isinstance(explainer, Learner) and hasattr(explainer, "learn"):
        raise SpecError(f"{label} has a method `learn`, which is never called: derive {type(explainer).__name__} from Learner.")
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
        caveat = getattr(unwrap(model.module), "caveat", None)
        if isinstance(caveat, str):
            notes.append({"model": name, "explainer": "", "text": caveat})
        if model.doubt and any(Reads.OUTPUT in reads_before(score) | reads_after(score) for score in problem.scores.values()):
            notes.append({"model": name, "explainer": "", "text": model.doubt})
        if model.mixing:
            notes.append({"model": name, "explainer": "", "text": mixing_note(model.mixing)})
        if problem.explainers and (absent := never_predicted(model)):
            notes.append({"model": name, "explainer": "", "text": absent})
    for note in notes:
        warn(f"{note['model']} / {note['explainer'] or 'outputs'}: {note['text']}")
    return replace(problem, explainers=explainers, mixing=frozenset(mixing)), notes


def never_predicted(model: AuditedModel) -> str:
    """What to know if the one class that is explained is predicted for no sample; "" if it is for some, or is not a class."""
    if not isinstance(model.target, Class) or model.predicted is None or (model.classes or 0) < 2 or model.outputs is Outputs.RAW:
        return ""
    if bool((model.predicted == model.target.index).any()):
        return ""
    return (
        f"class {model.target.index} is explained, but it is predicted for none of the {len(model.predicted)} samples: explanations say "
        "what speaks for a class that the model does not choose; add samples of it, or leave target=... out to explain the predicted "
        "classes."
    )
