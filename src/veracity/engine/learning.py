"""What explainers find out about each model before they explain anything: learnt once, stored in the folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from veracity.core.errors import StoreError, error_text
from veracity.core.explainers import Context, Cost, learner
from veracity.core.models import device_of, evaluating
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.engine.memory import Budget
from veracity.engine.problem import Problem
from veracity.engine.progress import LATE, bar
from veracity.engine.store import RunFolder
from veracity.engine.trial import Guard

KIND = "learnt"


@dataclass
class LearningResult:
    """What a reader must know of what was learnt, and why some (model, explainer) could not learn."""

    facts: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)

    def warnings(self) -> list[str]:
        """The facts' warnings, each once a model."""
        found = [f"{fact['model']} / {fact['explainer']}: {fact['warning']}" for fact in self.facts if fact.get("warning")]
        said = [(fact["model"], fact["warning"]) for fact in self.facts if fact.get("warning")]
        return [text for number, text in enumerate(found) if said.index(said[number]) == number]


def learn_all(problem: Problem, budgets: Mapping[str, Budget], folder: RunFolder, progress: bool = True) -> LearningResult:
    """Let every explainer learn about every model; one that cannot is recorded, and the others go on."""
    places = [(name, label) for name in problem.models for label in problem.explainers if problem.learnt_key(name, label)]
    found = LearningResult()
    with bar("learning", len(places), progress, after=LATE) as advance:
        for name, label in places:
            advance(0, f"learning {name} / {label}")
            try:
                found.facts += learn(problem, name, label, budgets[name], folder)
            except StoreError:
                raise
            except Exception as error:
                found.failures[name, label] = error_text(error)
            advance(1, f"learning {name} / {label}")
    return found


def pending_lessons(problem: Problem, folder: RunFolder | None) -> list[tuple[str, str]]:
    """The (model, explainer) that must learn first, those who learn the same once; controls have nothing to find out."""
    keys = {
        problem.learnt_key(name, label): (name, label)
        for name in problem.models
        for label, explainer in problem.explainers.items()
        if learner(explainer) and not explainer.control
    }
    return [place for key, place in keys.items() if folder is None or folder.read_tensors(KIND, key) is None]


def least_cost(problem: Problem, name: str, label: str) -> Cost:
    """The passes that a lesson needs at least: one of each training example that it looks at."""
    training = problem.training_of(name, problem.explainers[label])
    return Cost(forward=0 if training is None else training.inputs.size())


def learn(problem: Problem, name: str, label: str, budget: Budget, folder: RunFolder) -> list[dict[str, Any]]:
    """One explainer and one model."""
    explainer, key = learner(problem.explainers[label]), problem.learnt_key(name, label)
    if explainer is None:
        return []
    context = context_of(problem, name, label, budget)
    learnt: Mapping[str, Tensor] | None = folder.read_tensors(KIND, key)
    if learnt is None:
        module, first = problem.models[name].module, problem.inputs.take(torch.arange(1))
        with evaluating(module), seeded(problem.seed, gpus_in_use()):
            guard = Guard(label, explainer, module, first.to(device_of(module)))
            with guard.watching():
                learnt = budget.attempt(lambda: explainer.lesson.learn(problem.view(name), context_of(problem, name, label, budget)))
        folder.write_tensors(KIND, key, dict(learnt))
    return [{"model": name, "explainer": label, **plain(fact)} for fact in explainer.facts(learnt, context)]


def context_of(problem: Problem, name: str, label: str, budget: Budget) -> Context:
    """What an explainer learns from."""
    training = problem.training_of(name, problem.explainers[label])
    return problem.context(name, Draws.of(problem.seed, torch.arange(0)), budget.rows, training=training)


def plain(fact: dict[str, Any]) -> dict[str, Any]:
    """A fact as JSON can write it: without NaN."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in fact.items()}


def recall(folder: RunFolder, key: str, device: torch.device) -> dict[str, Tensor]:
    """What was learnt, on the model's device."""
    found = folder.read_tensors(KIND, key) if key else None
    return {name: value.to(device) for name, value in (found or {}).items()}
