"""TracIn: how much the training steps on an example changed the input's loss, estimated at checkpoints of the training."""

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
from veracity.explain.examples.base import LossBased, example_batches, input_batches, loss_gradient
from veracity.explain.examples.layer_gradients import Factors


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class TracIn(LossBased):
    """The effect of the training examples on the input's loss, by checkpoints: e_n(x) = Σ_c rate_c ∇l_c(x_n, y_n)ᵀ ∇l_c(x, y).

    Each checkpoint c has its weights and its learning rate. Gradients are in the parameters of one `layer` (None: the last
    one with parameters). Positive: steps on the example lowered the loss of x. The model itself is not changed.
    """

    name = "tracin"
    reference = "Pruthi et al. 2020, arXiv:2002.08484; Crabbé and van der Schaar 2023, Proposition D.9"
    passes: int = field(default=1, repr=False, metadata={"spec": False})

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.TRAINING, Need.CHECKPOINTS})

    def cost(self, shape: Size) -> Cost:
        return super().cost(shape) * self.passes

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        """With the number of checkpoints."""
        return replace(self, passes=len(context.require_training(self.name).checkpoints))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Also raise if a checkpoint does not fit."""
        checkpoints_of(self.name, model, context)
        return super().check(model, inputs, targets, context)

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """The gradients of all training examples at each checkpoint, as factors `left` (c, n, o) and `right` (c, n, i)."""
        checkpoints, training = checkpoints_of(self.name, model, context), context.require_training(self.name)
        with evaluating(model):
            layer, _ = self.find_layer(model, context)
            factors = [
                [layer.gradients(*part, loss_gradient, one.state) for part in example_batches(training, context.batch, device_of(model))]
                for one in checkpoints
            ]
        left = torch.stack([torch.cat([part.left[:, 0] for part in parts]) for parts in factors])
        right = torch.stack([torch.cat([part.right for part in parts]) for parts in factors])
        return {"left": left, "right": right, "place": layer.record}

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        checkpoints, examples = learnt["left"].shape[:2]
        return [{"examples": examples, "parameters": int(learnt["place"][2]), "checkpoints": checkpoints}]

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Influences (N, n) of the n training examples, in float64."""
        layer, learnt = self.learnt_layer(model, context), context.require_learnt(self.name)
        total = torch.zeros(len(inputs), learnt["left"].shape[1], dtype=torch.float64, device=inputs.device)
        for checkpoint, left, right in zip(checkpoints_of(self.name, model, context), learnt["left"], learnt["right"], strict=True):
            examples = Factors(left.to(total).unsqueeze(1), right.to(total))
            batches = input_batches(inputs, targets, context)
            gradients = (layer.gradients(signals, labels, loss_gradient, checkpoint.state) for signals, labels in batches)
            total += checkpoint.rate * torch.cat([Factors(one.left.to(total), one.right.to(total)).kernel(examples) for one in gradients])
        return total


def checkpoints_of(name: str, model: nn.Module, context: Context) -> tuple[Checkpoint, ...]:
    """The checkpoints on the model's device; raises if there are none, or if one does not fit the model."""
    found = context.require_training(name).checkpoints
    if not found:
        raise InputError(f"{name} needs checkpoints of the training: pass checkpoints={{model: [state_dict, ...]}}.")
    for number, checkpoint in enumerate(found):
        check_checkpoint(type(unwrap(model)).__name__, number, checkpoint, model)
    return tuple(replace(one, state=state_for(model, number, one.state)) for number, one in enumerate(found))


def state_for(model: nn.Module, number: int, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """A checkpoint's state on the model's device, with one name per tensor; raises if tied names have different values."""
    first: dict[int, str] = {}
    named = chain(model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False))
    alias = {name: first.setdefault(id(value), name) for name, value in named}
    for name, value in state.items():
        if not torch.equal(value, state[alias.get(name, name)]):
            raise InputError(
                f"Checkpoint {number} has different values for '{alias[name]}' and '{name}', which are one tensor in the model: "
                "pass checkpoints in which these weights are tied."
            )
    return {name: value.detach().to(device_of(model)) for name, value in state.items() if alias.get(name, name) == name}
