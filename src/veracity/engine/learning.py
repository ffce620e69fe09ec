"""What explainers find out about each model before they explain anything: kept in the folder, so that it is done once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from veracity.core.draws import Draws
from veracity.core.errors import VeracityError
from veracity.core.models import evaluating
from veracity.engine.batching import Budget
from veracity.engine.problem import Problem
from veracity.engine.progress import bar
from veracity.engine.store import RunFolder

KIND = "learnt"


def learn_all(problem: Problem, budgets: Mapping[str, Budget], folder: RunFolder, progress: bool = True) -> list[dict[str, Any]]:
    """Let every explainer learn about every model, and return what a reader must know of it."""
    lessons = [(name, label) for name in problem.models for label in problem.explainers if problem.learnt_key(name, label)]
    facts: list[dict[str, Any]] = []
    done: set[str] = set()
    with bar("learning", len(lessons), progress) as advance:
        for name, label in lessons:
            advance(0, f"learning {name} / {label}")
            if (key := problem.learnt_key(name, label)) not in done:
                facts += learn(problem, name, label, budgets[name], folder)
            done.add(key)
            advance(1, f"learning {name} / {label}")
    return facts


def learn(problem: Problem, name: str, label: str, budget: Budget, folder: RunFolder) -> list[dict[str, Any]]:
    """One explainer and one model."""
    explainer, key = problem.explainers[label].lesson, problem.learnt_key(name, label)
    context = problem.context(name, Draws.of(problem.seed, torch.arange(0)), budget.rows, training=problem.training_of(name, explainer))
    learnt: Mapping[str, Tensor] | None = folder.read_tensors(KIND, key)
    if learnt is None:
        with evaluating(problem.models[name].module):
            try:
                learnt = explainer.learn(problem.view(name), context)
            except VeracityError as error:
                raise type(error)(f"On model '{name}', {label}: {error}") from error
        folder.write_tensors(KIND, key, dict(learnt))
    return [{"model": name, "explainer": label, **plain(fact)} for fact in explainer.facts(learnt, context)]


def plain(fact: dict[str, Any]) -> dict[str, Any]:
    """A fact as JSON can write it: without NaN."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in fact.items()}


def recall(folder: RunFolder, key: str, device: torch.device) -> dict[str, Tensor]:
    """What was learnt, on the model's device."""
    found = folder.read_tensors(KIND, key) if key else None
    return {name: value.to(device) for name, value in (found or {}).items()}
