"""Small classifiers, training sets and the slow, literal way to take their gradients."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from veracity.core.explainers import Context, Explainer, learner
from veracity.core.inputs import TensorInputs
from veracity.core.randomness import Draws
from veracity.core.targets import Outputs
from veracity.core.training import Checkpoint, Training


class GlobalMax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.amax((-2, -1))


def small_cnn(seed: int = 0, bias: bool = True, classes: int = 4) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        conv1 = nn.Conv2d(1, 3, 3, padding=1, padding_mode="circular")
        conv2 = nn.Conv2d(3, 6, 3, padding=1, padding_mode="circular")
        layers = {"conv1": conv1, "relu1": nn.ReLU(inplace=True), "conv2": conv2, "tanh": nn.Tanh(), "pool": GlobalMax()}
        head = {"dense": nn.Linear(6, 5), "relu2": nn.ReLU(inplace=True), "linear": nn.Linear(5, classes, bias=bias)}
        return nn.Sequential(OrderedDict(layers | head)).eval()


def images(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 1, 6, 6, generator=torch.Generator().manual_seed(seed))


def labels(count: int, classes: int = 4) -> Tensor:
    return torch.arange(count) * 7 % 11 % classes


def training_set(count: int = 12, seed: int = 1, checkpoints: tuple[Checkpoint, ...] = ()) -> Training:
    return Training(TensorInputs(images(count, seed)), labels(count), checkpoints=checkpoints)


def context_of(rows: int, training: Training, batch: int = 512, outputs: Outputs = Outputs.LOGITS) -> Context:
    return Context(Draws.of(0, torch.arange(rows)), batch, training=training, outputs=outputs)


def explained(
    explainer: Explainer,
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    training: Training,
    batch: int = 512,
    outputs: Outputs = Outputs.LOGITS,
) -> Tensor:
    """What the engine does: learn once, then explain."""
    bare = context_of(len(inputs), training, batch, outputs)
    learnt = lessons(explainer, model, bare)
    return explainer.explain(model, inputs, targets, Context(bare.draws, batch, learnt=learnt, training=training, outputs=outputs))


def lessons(explainer: Explainer, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
    """What the explainer learns about the model; nothing if it does not learn."""
    student = learner(explainer)
    return {} if student is None else student.learn(model, context)


def slow_gradients(model: nn.Module, layer: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Gradients of each input's cross-entropy in the layer's parameters (N, P), one input at a time."""
    parameters = list(layer.parameters())
    rows = []
    for x, y in zip(inputs, targets, strict=True):
        found = torch.autograd.grad(cross_entropy(model(x[None]), y[None]), parameters)
        rows.append(torch.cat([part.flatten() for part in found]))
    return torch.stack(rows)


def slow_jacobian(model: nn.Module, layer: nn.Module, x: Tensor) -> Tensor:
    """The Jacobian (K, P) of one input's scores in the layer's parameters."""
    scores, parameters = model(x[None])[0], list(layer.parameters())
    rows = [torch.autograd.grad(score, parameters, retain_graph=True) for score in scores]
    return torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])


def slow_curvature(model: nn.Module, layer: nn.Module, inputs: Tensor, l2: float) -> Tensor:
    """l2 I + the mean of Jᵀ (diag(p) - p pᵀ) J, one input at a time."""
    total = 0
    for x in inputs:
        p, jacobian = model(x[None])[0].softmax(0), slow_jacobian(model, layer, x)
        total = total + jacobian.T @ (torch.diag(p) - torch.outer(p, p)) @ jacobian
    return total.detach() / len(inputs) + l2 * torch.eye(len(total), dtype=total.dtype)


def states(seeds: tuple[int, ...], bias: bool = True) -> tuple[Mapping[str, Tensor], ...]:
    return tuple(small_cnn(seed, bias).state_dict() for seed in seeds)
