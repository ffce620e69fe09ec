"""A trial of an explainer on a model, before anything is measured: does it work, and does it leave alone what it should?

Code of others may change the model, and may mix the rows of a batch. It is tried on two inputs, together and alone; explainers of
this package are held to it by their tests.
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

from veracity.core.errors import ChangedModelError, InputError, Note, SpecError, VeracityError
from veracity.core.explainers import Cost, Explainer, Frame, Learner, learner, maps_only
from veracity.core.fingerprint.origin import in_this_package
from veracity.core.inputs import Signals
from veracity.core.models import device_of, evaluating, out_of_memory
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.scores import Reads, reads_after, reads_before
from veracity.core.snapshot import ModelSnapshot
from veracity.engine.admission import mixing_note
from veracity.engine.memory import MEMORY, Budget
from veracity.engine.problem import Problem
from veracity.explain import Foreign

ROWS = 2
MIXED = 1e-2
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
    x = problem.inputs.take(torch.arange(min(ROWS, problem.inputs.size()))).to(device_of(model.module))
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
                found = explainer.specialise(view, x.values, targets, context)
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
        return apart(together, self.explained(slice(None), seed=1)) > MIXED


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
    if share <= MIXED:
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
