"""What explainers need besides the model: training examples, concepts, and what they learnt. Each raises if it is missing."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.explainers import Context
from veracity.core.training import Training


def training_of(name: str, context: Context) -> Training:
    """The training examples."""
    if context.training is None:
        raise InputError(f"{name} needs training examples: pass Audit(training=(inputs, labels)).")
    return context.training


def training_with_concepts(name: str, context: Context) -> Training:
    """The training examples, with their concepts."""
    training = training_of(name, context)
    if not training.concepts:
        raise InputError(f"{name} needs concepts: pass Audit(concepts={{'name': ...}}) with labels, a mask or a function for each.")
    return training


def learnt_values(name: str, context: Context) -> Mapping[str, Tensor]:
    """The tensors that `learn` returned."""
    if not context.learnt:
        raise InputError(f"{name} must learn about the model first: pass the result of learn(model, context) as Context(learnt=...).")
    return context.learnt
