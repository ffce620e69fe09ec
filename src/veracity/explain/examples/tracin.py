"""TracIn: how much the steps on a training example changed the input's loss, by checkpoints of the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost, Explainer, Need
from veracity.core.models import device_of, evaluating, unwrap
from veracity.core.registry import EXPLAINERS
from veracity.core.training import Checkpoint, check_checkpoint
from veracity.explain.examples.base import LossBased, examples, in_parts, learnt, loss_gradient, training_of
from veracity.explain.examples.layer_gradients import Factors, Place


def checkpoints_of(name: str, model: nn.Module, context: Context) -> tuple[Checkpoint, ...]:
    """The checkpoints on the model's device, if there are any and all fit the model."""
    found = training_of(name, context).checkpoints
    if not found:
        raise InputError(f"{name} needs checkpoints of the training: pass checkpoints={{model: [state_dict, ...]}}.")
    for number, checkpoint in enumerate(found):
        check_checkpoint(type(unwrap(model)).__name__, number, checkpoint, model)
    device = device_of(model)
    states = (untied(number, model, one.state) for number, one in enumerate(found))
    return tuple(
        replace(one, state={key: value.detach().to(device) for key, value in state.items()})
        for one, state in zip(found, states, strict=True)
    )


def untied(number: int, model: nn.Module, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """A checkpoint's state with one name alone for each tensor that the model knows by several, if all have the same values."""
    first: dict[int, str] = {}
    named = chain(model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False))
    alias = {name: first.setdefault(id(value), name) for name, value in named}
    for name, value in state.items():
        if not torch.equal(value, state[alias.get(name, name)]):
            raise InputError(
                f"Checkpoint {number} has different values for '{alias[name]}' and '{name}', which are one tensor in the model: "
                "pass checkpoints of the model with these weights tied."
            )
    return {name: value for name, value in state.items() if alias.get(name, name) == name}


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class TracIn(LossBased):
    """What the training examples did to the input's loss at the checkpoints: e_n(x) = Σ_c rate_c ∇l_c(x_n, y_n)ᵀ ∇l_c(x, y).

    A sum of products, one for each checkpoint's weights and learning rate, with gradients in the parameters of one `layer`
    (None: the last with parameters). Positive: steps on the example lowered the loss of x. The model runs with a
    checkpoint's weights without being changed.
    """

    name = "tracin"
    reference = "Pruthi et al. 2020, arXiv:2002.08484; Crabbé and van der Schaar 2023, Proposition D.9"
    passes: int = field(default=1, repr=False, metadata={"spec": False})

    @property
    def needs(self) -> frozenset[Need]:
        """Training examples and checkpoints."""
        return frozenset({Need.TRAINING, Need.CHECKPOINTS})

    def cost(self, shape: Size) -> Cost:
        """One pass for each checkpoint; also back to the layer if one is named."""
        return super().cost(shape) * self.passes

    def settled(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        """The explainer that knows how many checkpoints there are."""
        return replace(self, passes=len(training_of(self.name, context).checkpoints))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if a checkpoint does not fit, besides what is asked of any loss."""
        checkpoints_of(self.name, model, context)
        return super().check(model, inputs, targets, context)

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """The gradients of all training examples at each checkpoint, as factors `left` (c, n, o) and `right` (c, n, i)."""
        checkpoints = checkpoints_of(self.name, model, context)
        with evaluating(model):
            place, _ = self.placed(model, context)
            found = [self.gradients(place, one, context) for one in checkpoints]
        left, right = (torch.stack(parts) for parts in zip(*found, strict=True))
        return {"left": left, "right": right, "place": place.found}

    def gradients(self, place: Place, checkpoint: Checkpoint, context: Context) -> tuple[Tensor, Tensor]:
        """The factors (n, o) and (n, i) of all training examples' gradients at one checkpoint."""
        training, device = training_of(self.name, context), device_of(place.model)
        parts = torch.arange(training.inputs.size()).split(context.batch)
        found = [place.factors(*examples(training, part, device), loss_gradient, checkpoint.state) for part in parts]
        return torch.cat([one.left[:, 0] for one in found]), torch.cat([one.right for one in found])

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """How much was compared."""
        checkpoints, examples = learnt["left"].shape[:2]
        return [{"examples": examples, "parameters": int(learnt["place"][2]), "checkpoints": checkpoints}]

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Influences (N, n) of the n training examples, in float64."""
        place, known = self.kept(model, context), learnt(self.name, context)
        total = torch.zeros(len(inputs), known["left"].shape[1], dtype=torch.float64, device=inputs.device)
        for checkpoint, left, right in zip(checkpoints_of(self.name, model, context), known["left"], known["right"], strict=True):
            past = Factors(left.to(total).unsqueeze(1), right.to(total))
            parts = in_parts(inputs, targets, context, context.batch)
            found = (place.factors(signals, labels, loss_gradient, checkpoint.state) for signals, labels in parts)
            total += checkpoint.rate * torch.cat([Factors(one.left.to(total), one.right.to(total)).kernel(past) for one in found])
        return total
