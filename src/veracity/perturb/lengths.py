"""Samples of different lengths: every sample is perturbed as if it were alone, without the padding that makes all shapes equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws
from veracity.core.spaces import FiniteSpace, GuidedSpace, InputSpace, Representation
from veracity.perturb.masks import Masks


@dataclass(frozen=True, kw_only=True)
class OwnLength(GuidedSpace):
    """A space of masks or noise that is fitted to each sample's own number of values n, and leaves the padding alone.

    Elements (N, latents + 1) are the latents of the space and a level. `steer` turns them into what the space does to the n values of
    their samples, padded to the longest. A short sample has fewer levels, if those depend on its length: `levels_of`.
    """

    name = "own_length"
    moves_frame = False
    representation = Representation.APPROXIMATE
    by_explanation: ClassVar[bool] = property(lambda self: getattr(self.space, "by_explanation", False))  # type: ignore[assignment]

    space: InputSpace

    def fit(self, shape: Size) -> Self:
        """For samples that are padded to this shape."""
        return replace(self, space=self.space.fit(shape))

    @property
    def levels(self) -> int:
        """Those of the longest sample."""
        return self.space.levels

    @property
    def latents(self) -> int:
        """Those of the longest sample."""
        return self.space.latents

    def decode(self, latent: Tensor) -> Tensor:
        """The latents, at level 0."""
        return torch.cat((latent, latent.new_zeros(len(latent), 1)), dim=1)

    def sample(self, draws: Draws) -> Tensor:
        """Random latents. Those of a short sample are the first ones of a long sample."""
        words = draws.words(self.latents, stream="walk").double()
        return self.decode(torch.special.ndtri((words + 0.5) / 2.0**32))

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """The latents with their level."""
        return torch.cat((elements[:, :-1], level.to(elements)[:, None]), dim=1)

    def guide(self, x: Tensor, explanation: Tensor | None, present: Tensor | None = None) -> Tensor:
        """What exists of each sample, its values, and its explanation: (B, 2 U) or (B, 3 U)."""
        if x.ndim != 2:
            raise InputError(f"Samples of different lengths are rows of numbers, not of shape {tuple(x.shape[1:])}.")
        known = torch.ones_like(x, dtype=torch.bool) if present is None else present
        return torch.cat([known.to(x), x, *([] if explanation is None else [explanation.to(x)])], dim=1)

    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """What is done to each entry, (N, U): True where it is masked, or its noise."""
        width = self.padded
        present, x, explanation = guide[:, :width] > 0, guide[:, width : 2 * width], guide[:, 2 * width :]
        found: Tensor | None = None
        for rows, size in by_length(present):
            space, keep = self.of_length(size), present[rows]
            latent, level = elements[rows, : space.latents], elements[rows, -1].long().clamp(max=space.levels - 1)
            identity = torch.zeros(len(rows), dtype=torch.long, device=latent.device)
            own = space.unrank(identity) if isinstance(space, FiniteSpace) else space.decode(latent)
            own = space.at(own.to(guide.device), level.to(guide.device))
            if isinstance(space, GuidedSpace):
                maps = compact(explanation[rows], keep) if explanation.shape[1] else None
                own = space.steer(own, space.guide(compact(x[rows], keep), maps))
            found = own.new_zeros(len(elements), width) if found is None else found
            found[rows] = found[rows].masked_scatter(keep, own)
        if found is None:
            raise InputError("There are no samples to perturb.")
        return found

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs after their perturbation; the padding is left alone by `move`."""
        return self.space.act(elements, x)

    def move(self, elements: Tensor, signals: Signals) -> Signals:
        """Every sample is perturbed as if it were alone."""
        if signals.present is None:
            return super().move(elements, signals)
        values = signals.values.clone()
        for rows, size in by_length(signals.present):
            keep = signals.present[rows]
            own = self.of_length(size).act(compact(elements[rows], keep), compact(values[rows], keep))
            values[rows] = values[rows].masked_scatter(keep, own)
        return Signals(values, signals.structure, signals.present)

    def levels_of(self, present: Tensor) -> Tensor:
        """The number of levels (N,) of samples of which `present` (N, U) exists."""
        found = torch.zeros(len(present), dtype=torch.long)
        for rows, size in by_length(present):
            found[rows.cpu()] = self.of_length(size).levels
        return found

    @property
    def padded(self) -> int:
        """U, the number of values of the longest sample."""
        known: Any = self.space
        return int(self.space.known_shape.numel() if isinstance(self.space, Masks) else known.size)

    def of_length(self, size: int) -> InputSpace:
        """The space for samples of this many values."""
        return of_length(self.space, size)


@cache
def of_length(space: InputSpace, size: int) -> InputSpace:
    """A fitted space, fitted again to samples of another length."""
    free = replace(space, **({"shape": None} if isinstance(space, Masks) else {"size": None}))
    fitted: InputSpace = free.fit(Size([size]))
    return fitted


def within_samples(space: InputSpace, floor: float | None, padded: bool) -> InputSpace:
    """The space as it acts on these inputs: dark masks put the inputs' own `floor`, and padding is left alone.

    Inputs with a floor are gates, which are all 1: any other baseline that is computed from them is 1, too.
    """
    if floor is not None and isinstance(space, Masks) and isinstance(space.baseline, str):
        if space.baseline not in ("black", *space.own_baselines):
            raise SpecError(
                f"The baseline '{space.baseline}' of the space '{space.name}' changes nothing in texts and graphs, whose values are gates "
                "of 1: leave it out, or give a number from 0 (the word or edge is removed) to 1."
            )
        space = replace(space, baseline=floor)
    fits = isinstance(space, Masks) or hasattr(space, "noise_for")
    return OwnLength(space=space) if padded and fits and not space.moves_frame else space


def by_length(present: Tensor) -> Iterator[tuple[Tensor, int]]:
    """The rows of each length, and the length: how many values of a row exist. Rows without any are left out."""
    sizes = present.flatten(1).sum(1)
    for size in sizes.unique().tolist():
        if size:
            yield (sizes == size).nonzero()[:, 0], int(size)


def compact(values: Tensor, present: Tensor) -> Tensor:
    """The existing values (R, n) of rows (R, U) of one length.

    >>> compact(torch.tensor([[1.0, 2.0, 0.0]]), torch.tensor([[True, True, False]]))
    tensor([[1., 2.]])
    """
    return values[present].reshape(len(values), -1)
