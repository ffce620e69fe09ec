"""Noise on the word vectors of texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.inputs import Signals
from veracity.core.models import word_embedding
from veracity.core.registry import SPACES
from veracity.core.settings import Positive
from veracity.core.spaces import InputSpace, Representation, check_known


@SPACES.add
@dataclass(frozen=True, kw_only=True)
class EmbeddingNoise(InputSpace):
    """Gaussian noise on the word vectors of a text, E'_t = E_t + sigma r z_t, with r the root mean square of the model's word vectors.

    The gates stay 1, so that the explained values do not change. Special tokens and padding get no noise; the pieces of a word share
    theirs. Elements (N, U width) are the noise z of the U units.
    """

    name = "embedding_noise"
    reference = "Fel et al., How good is your explanation? (WACV 2022); Hedström et al., TMLR 2025, A.5, for inputs"
    moves_frame = False
    representation = Representation.APPROXIMATE

    sigma: Positive = 0.05
    size: int | None = None
    width: int | None = None
    scale: float | None = None

    def fit(self, shape: Size) -> Self:
        """The noise of texts of this many units."""
        if len(shape) != 1:
            raise InputError(f"The space '{self.name}' acts on texts, whose samples are rows of gates, not on shape {tuple(shape)}.")
        return replace(self, size=shape[0])

    def of(self, model: nn.Module) -> Self:
        """The noise for the word vectors of this model."""
        table = word_embedding(model).weight.detach()
        return replace(self, width=table.shape[1], scale=float(table.double().square().mean().sqrt()))

    @property
    def latents(self) -> int:
        """One per unit and dimension."""
        return check_known(self, self.size, "the texts' length") * (self.width or 1)

    def decode(self, latent: Tensor) -> Tensor:
        """The latents."""
        return latent

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The gates as they are."""
        return x

    def move(self, elements: Tensor, signals: Signals) -> Signals:
        """The noise goes along as the last part of the structure."""
        width = check_known(self, self.width, "the model's width", "of(model)")
        if not signals.structure or elements.shape[1] != signals.values.shape[1] * width:
            raise InputError(f"The space '{self.name}' acts on TextInputs: for tensors use gaussian_noise.")
        noise = (elements * (self.sigma * (self.scale or 1.0))).reshape(len(elements), -1, width).to(signals.values)
        return Signals(signals.values, (*signals.structure, noise), signals.present)
