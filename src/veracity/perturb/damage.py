"""Damage to a model: noise on a share of its weights, and wrong labels in its training set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from veracity.core.component import Component
from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.models import unwrap
from veracity.core.settings import Positive, short_repr
from veracity.core.spaces import check_level
from veracity.perturb.weights.copies import ModelCopies, Pairs, generator, parameters_of

LAYERS = ("convolutions", "all")


@dataclass(frozen=True, kw_only=True)
class ConvolutionNoise(ModelCopies):
    """Gaussian noise on a share of each convolution's weights, w' = w + sigma u with u ~ N(0, 1); level l damages `shares[l]`.

    Of a weight tensor of n entries, round(share n) get noise. The entries and u depend on (seed, draw, number of the tensor): a larger
    share damages the same entries as a smaller one, by the same noise, and others. Biases, buffers and other layers stay the same.
    `layers="all"` damages every tensor of weights with at least two dimensions, for models without convolutions.

    The paper writes N(0, 0.5). `sigma` is the standard deviation; if 0.5 is meant as a variance, use sigma=0.7071. The noise does not
    scale with the weights: if the smallest share already ruins the accuracy, choose a smaller sigma.

    >>> model = nn.Conv2d(1, 10, 2, bias=False)
    >>> space = ConvolutionNoise().of(model)
    >>> [int((space.parameters(model, 0, level, seed=0)["weight"] != model.weight).sum()) for level in range(space.levels)]
    [2, 4, 12]
    """

    name = "convolution_noise"
    reference = "Fel et al., How good is your explanation? Algorithmic stability measures, WACV 2022, sections 4.2 and E.2"

    shares: tuple[float, ...] = (0.05, 0.10, 0.30)
    sigma: Positive = 0.5
    layers: str = "convolutions"

    @property
    def levels(self) -> int:
        """One per share."""
        return len(self.shares)

    def of(self, model: nn.Module) -> Self:
        """The space itself; raises if a setting is invalid or the model has no weights to damage."""
        check_shares(self.shares, f"The setting 'shares' of the space '{self.name}'")
        if self.layers not in LAYERS:
            raise unknown(f"setting 'layers' of the space '{self.name}'", str(self.layers), LAYERS)
        self.noisy_weights(model)
        return self

    def noisy_weights(self, model: nn.Module) -> dict[str, Tensor]:
        """The tensors that get noise, by name; raises if there is none."""
        own = parameters_of(model)
        parts = [part for part in unwrap(model).modules() if self.layers == "all" or isinstance(part, nn.modules.conv._ConvNd)]
        chosen = {id(value) for part in parts for value in part.parameters() if value.ndim > 1}
        found = {name: own[name] for name, value in sorted(model.named_parameters()) if id(value) in chosen and name in own}
        if not found:
            what, fix = ("convolution", "pass ConvolutionNoise(layers='all')")
            if self.layers == "all":
                what, fix = "tensor of weights", "leave out its damage"
            raise InputError(f"The model {type(model).__name__} has no {what} that noise could damage: {fix}.")
        return found

    def copies(self, model: nn.Module, pairs: Pairs, seed: int) -> dict[str, Tensor]:
        """The damaged tensors of every copy, (copies, ...); the noise of a draw is drawn once."""
        once = sorted({draw for draw, _ in pairs})
        which = torch.tensor([once.index(draw) for draw, _ in pairs], dtype=torch.int64)
        shares = [self.shares[check_level(self, level)] for _, level in pairs]
        made = {}
        for number, (name, value) in enumerate(self.noisy_weights(model).items()):
            size = value.numel()
            noise = torch.stack([torch.randn(size, generator=generator("damage", seed, draw, number)) for draw in once])
            place = torch.stack([torch.randperm(size, generator=generator("damaged", seed, draw, number)) for draw in once])
            hit = place[which] < torch.tensor([round(share * size) for share in shares])[:, None]
            added = (self.sigma * noise[which] * hit).reshape(len(pairs), *value.shape)
            made[name] = value + added.to(value)
        return made


def check_shares(shares: object, what: str) -> None:
    """Raise unless these are ascending numbers above 0 and up to 1."""
    given = list(shares) if isinstance(shares, (tuple, list)) else []
    good = all(isinstance(one, (int, float)) and not isinstance(one, bool) and 0 < one <= 1 for one in given)
    if not given or not good or given != sorted(set(given)):
        raise SpecError(f"{what} must be ascending numbers above 0 and up to 1, such as (0.05, 0.10, 0.30), not {short_repr(shares)}.")


def wrong_labels(labels: Tensor, share: float, seed: int) -> Tensor:
    """Labels (N,) of which exactly round(share N) are replaced by another class that occurs; all are equally likely.

    The wrong labels depend on the seed alone: a larger share contains those of a smaller one.

    >>> labels = torch.arange(4).repeat(5)
    >>> [int((wrong_labels(labels, share, seed=0) != labels).sum()) for share in (0.05, 0.10, 0.30)]
    [1, 2, 6]
    """
    check_labels(labels)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise SpecError(f"The share of wrong labels must be a number between 0 and 1, such as 0.1, not {short_repr(share)}.")
    classes, index = torch.unique(labels.cpu(), return_inverse=True)
    own = generator("wrong labels", seed)
    place = torch.randperm(len(labels), generator=own)
    step = torch.randint(1, len(classes), (len(labels),), generator=own)
    wrong = classes[(index + step) % len(classes)].to(labels.device)
    return torch.where(place.to(labels.device) < round(share * len(labels)), wrong, labels)


@dataclass(frozen=True, kw_only=True)
class WrongLabels(Component):
    """Training on labels of which a share is wrong, uniformly among the other classes.

    >>> labels = torch.arange(10)
    >>> int((WrongLabels().of(labels, 0.30, seed=0) != labels).sum())
    3
    """

    name = "wrong_labels"
    reference = "Fel et al., How good is your explanation? Algorithmic stability measures, WACV 2022, section 4.2"

    def of(self, labels: Tensor, share: float, seed: int) -> Tensor:
        """The labels (N,), of which this share is wrong."""
        return wrong_labels(labels, share, seed)


def check_labels(labels: Any) -> None:
    """Raise unless these are whole numbers (N,) of at least two classes."""
    if not isinstance(labels, Tensor) or labels.ndim != 1 or labels.is_floating_point() or labels.is_complex():
        what = f"{labels.dtype} {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
        raise InputError(f"Labels that can be made wrong are whole numbers, one per sample, not {what}.")
    if len(torch.unique(labels)) < 2:
        raise InputError("Labels can only be made wrong if there are at least two classes, but these labels are all the same.")
