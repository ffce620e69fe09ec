"""Training for robust explanations: four schemes (the robustness paper's Table 5), each a loss that the training loop takes.

Plain, a penalty on the input gradient, a penalty on the input Hessian (section 8.1 says why: the two bound how far the loss and
its gradient move inside a ball), and training on the worst case that projected gradient ascent finds.

With batch normalisation the penalties are taken in the mode that the model is in: while it trains, samples share their
statistics, and a sample's gradient is that of the whole batch's loss.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import grad
from torch.nn.functional import cross_entropy

from veracity.core.errors import InputError, SpecError
from veracity.core.models import evaluating
from veracity.core.settings import Checking, Count, NonNegative, Positive
from veracity.perturb.ball import Ball
from veracity.trainers.training import train

Network = TypeVar("Network", bound=nn.Module)


class Scheme(metaclass=Checking):
    """A way to train: what is minimised on a batch."""

    def check(self, x: Tensor) -> None:
        """Raise if the scheme does not suit these inputs."""

    @abstractmethod
    def loss(self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """One number to minimise for inputs (N, ...) and labels (N,); random numbers come from the generator."""


@dataclass(frozen=True, kw_only=True)
class Plain(Scheme):
    """The cross-entropy alone: mean_i l_i."""

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """The mean cross-entropy."""
        return cross_entropies(model, x, y, "mean")


@dataclass(frozen=True, kw_only=True)
class GradientPenalty(Scheme):
    """The cross-entropy and the squared length of its input gradient: mean_i (l_i + weight |grad_x l_i|^2).

    >>> x, y = torch.zeros(1, 2), torch.tensor([1])  # the gradient of the loss is (1/2, -1/2)
    >>> penalised = GradientPenalty(weight=1.0).loss(nn.Identity(), x, y, torch.Generator())
    >>> round(float(penalised.detach()), 4)  # log 2 + 0.5
    1.1931
    """

    reference = "Ross and Doshi-Velez, Improving the adversarial robustness and interpretability of deep neural networks, AAAI 2018"

    weight: NonNegative = 0.01

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """The penalised loss; its own gradient goes twice through the model."""
        x = x.detach().requires_grad_()
        losses = cross_entropies(model, x, y, "none")
        return losses.mean() + self.weight * squared_lengths(grad(losses.sum(), x, create_graph=True)[0]).mean()


@dataclass(frozen=True, kw_only=True)
class HessianPenalty(Scheme):
    """The cross-entropy and its curvature along random directions: mean_i (l_i + weight |H_i v|^2), v standard normal.

    H is the Hessian of the loss in the input, and is never formed: H v is the gradient of v . grad_x l. Over v the mean of
    |H v|^2 is |H|_F^2; `draws` directions per sample are averaged. A network of ReLUs is linear around almost every input, so that
    there H = J^T (diag p - p p^T) J, with J the Jacobian of the logits and p their softmax: it is this curvature that is
    penalised, not the kinks between linear pieces.
    """

    reference = "Mustafa et al., Input Hessian regularization of neural networks, 2020, arXiv:2009.06571"

    weight: NonNegative = 0.1
    draws: Count = 1

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """The penalised loss; its own gradient goes three times through the model."""
        x = x.detach().requires_grad_()
        losses = cross_entropies(model, x, y, "none")
        directions = torch.randn((self.draws, *x.shape), generator=generator, device=generator.device, dtype=x.dtype).to(x.device)
        (slope,) = grad(losses.sum(), x, create_graph=True)
        return losses.mean() + self.weight * squared_lengths(hessian_products(slope, x, directions).flatten(0, 1)).mean()


@dataclass(frozen=True, kw_only=True)
class PGD(Scheme):
    """The cross-entropy at the worst case: mean_i max l(x'), x' in the L-infinity ball of `radius` and in the data's `range`.

    The worst case is sought from a uniform start by `steps` steps of length `step` (2.5 radius / steps if None) along the sign of
    the input gradient, each projected back. It is sought in evaluation mode, so that batch statistics and dropout's masks are
    not the attack's to move, and learnt from in the model's own mode: running statistics are those of the worst cases.
    """

    reference = "Madry et al., Towards deep learning models resistant to adversarial attacks, ICLR 2018"

    radius: Positive
    range: tuple[float, float]
    steps: Count = 5
    step: Positive | None = None

    def check(self, x: Tensor) -> None:
        """The inputs lie in the range."""
        self.ball(x).check(x)

    def ball(self, x: Tensor) -> Ball:
        """The ball around one of the inputs (N, ...)."""
        return Ball(radius=self.radius, range=self.range).fit(x.shape[1:])

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """The mean cross-entropy at the worst case found."""
        return cross_entropies(model, self.worst(model, x, y, generator), y, "mean")

    def worst(self, model: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """Inputs (N, ...) inside the ball and the range with a higher loss; the model comes back as it was."""
        ball = self.ball(x)
        start = torch.rand((len(x), ball.latents), generator=generator, device=generator.device, dtype=x.dtype).to(x.device)
        point = ball.act(self.radius * (2.0 * start - 1.0), x)
        pace = 2.5 * self.radius / self.steps if self.step is None else self.step
        with evaluating(model), torch.enable_grad():
            for _ in range(self.steps):
                point.requires_grad_()
                (ascent,) = grad(cross_entropies(model, point, y, "sum"), point)
                point = ball.project(point.detach() + pace * ascent.sign(), x)
        return point


def train_robust(model: Network, inputs: Tensor, labels: Tensor, scheme: Scheme, *, epochs: int, **settings: Any) -> Network:
    """Train in place in a scheme and return the model in evaluation mode; `settings` are those of `veracity.trainers.training.train`.

    >>> from veracity.trainers.training import initialised
    >>> x, y = torch.eye(2).repeat(8, 1), torch.arange(2).repeat(8)
    >>> model = train_robust(initialised(lambda: nn.Linear(2, 2), 0), x, y, PGD(radius=0.1, range=(0.0, 1.0)), epochs=20, rate=0.1)
    >>> model(torch.eye(2)).argmax(dim=1)
    tensor([0, 1])
    """
    if not isinstance(scheme, Scheme):
        raise SpecError(f"A scheme is Plain(), GradientPenalty(), HessianPenalty() or PGD(radius=..., range=...), not {scheme!r}.")
    if labels.is_floating_point():
        raise InputError(f"The labels must be class numbers, not {labels.dtype}: convert them with labels.long().")
    scheme.check(inputs)
    return train(model, inputs, labels, epochs=epochs, loss=scheme.loss, **settings)


def cross_entropies(model: nn.Module, x: Tensor, y: Tensor, reduction: str) -> Tensor:
    """The cross-entropy of the model's logits, in float32 at least: the samples' "sum" or "mean", or "none" for each (N,)."""
    logits = model(x)
    return cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), y, reduction=reduction)


def hessian_products(first: Tensor, x: Tensor, directions: Tensor) -> Tensor:
    """Hessian-vector products: for a gradient (N, ...) and directions (draws, N, ...), H v of the same shape, differentiable."""
    many = len(directions) > 1
    (found,) = grad(first, x, directions if many else directions[0], create_graph=True, is_grads_batched=many)
    return found.reshape(directions.shape)


def squared_lengths(x: Tensor) -> Tensor:
    """The squared length of each row: (N,)."""
    return x.flatten(1).square().sum(dim=1)
