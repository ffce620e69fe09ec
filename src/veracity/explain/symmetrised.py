"""Symmetrisation: the mean of an explanation over the transforms of a group (Propositions 2.3 and D.16)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer, Frame, learner
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.core.spaces import FiniteSpace, GuidedSpace, InputSpace
from veracity.explain.convert import as_explainer
from veracity.explain.passes import pairs
from veracity.explain.wrapper import Wrapper, computed

MOST_ELEMENTS = 100_000
"""The largest space that is enumerated, or drawn from without replacement."""

SORTED_AT_ONCE = 1_000_000
"""How many random numbers are sorted at once to draw without replacement."""

Elements = Callable[[Tensor, Tensor], Tensor]
"""From rows (R,) and items (R,) to elements (R, p)."""

Explanations = Callable[[nn.Module, Tensor, Tensor, Context], Tensor]
"""From (model, inputs, targets, context) to explanations (N, ...)."""


@runtime_checkable
class Invertible(Protocol):
    """A space whose transforms have inverses: a group."""

    def inverse(self, g: Tensor) -> Tensor:
        """The inverse of each row of g."""
        ...


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Symmetrised(Wrapper):
    """Another explainer's mean over transforms: e_inv(x) = mean_g e(g x), and e_equi(x) = mean_g g⁻¹ e(g x) in the input's frame.

    Over a whole group (no `draws`) e_inv is exactly invariant (Proposition 2.3), and e_equi exactly equivariant: with
    g = k h⁻¹, e_equi(h x) = mean_g g⁻¹ e(g h x) = mean_k h k⁻¹ e(k x) = h e_equi(x). With `draws` it is the mean over that
    many elements, drawn anew for each sample and draw, without replacement if the space has at most 100,000 (Figure 4).
    A random explainer gets fresh random numbers for each element. Without a `space` it takes the audit's symmetry. A set of
    transforms that is not a group works for e_inv only, which is then not exactly invariant.
    """

    name = "symmetrised"
    reference = "Crabbé and van der Schaar, NeurIPS 2023, Proposition 2.3"
    explainer: Any = None
    space: InputSpace | None = None
    draws: Count | None = None

    stochastic: ClassVar[bool] = computed(lambda self: self.inner.stochastic or self.draws is not None)
    splits: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "explainer", None if self.explainer is None else as_explainer(self.explainer))

    @property
    def inner(self) -> Explainer:
        if self.explainer is None:
            raise SpecError("symmetrised needs an explainer to make symmetric: pass Symmetrised(explainer=...).")
        inner: Explainer = self.explainer
        return inner

    def transforms(self, shape: Size) -> InputSpace:
        """The space, fitted to inputs of this shape; raises if there is none, or if it cannot be used."""
        if self.space is None:
            raise SpecError("symmetrised needs a symmetry: pass Audit(symmetry=...) or Symmetrised(explainer=..., space=...).")
        space = self.space.fit(shape)
        if self.inner.frame is Frame.INPUT and not isinstance(space, Invertible):
            raise SpecError(
                f"symmetrised cannot average the maps of {self.inner.name} over {space.name}, which is not a group: its transforms "
                "cannot be inverted. Choose a group such as cyclic_shift."
            )
        return space

    def count(self, space: InputSpace) -> int:
        """The number of elements in the mean; raises if the space has fewer than `draws`, or too many to enumerate."""
        finite = countable(space)
        if self.draws is not None:
            if finite is not None and self.draws > finite.order:
                raise SpecError(f"symmetrised cannot draw {self.draws} elements of {space.name}, which has {finite.order}: pass fewer.")
            return self.draws
        if finite is None:
            raise SpecError(f"symmetrised cannot average over all of {space.name}, which cannot be enumerated: pass draws=...")
        return finite.order

    def cost(self, shape: Size) -> Cost:
        return self.inner.cost(shape) * self.count(self.transforms(shape))

    def rows_at_once(self, shape: Size) -> int:
        return self.inner.rows_at_once(shape) * self.count(self.transforms(shape))

    @property
    def shown(self) -> str | None:
        """The pictures of the inner explainer, if they are the same for all transforms."""
        inner = learner(self.inner)
        return None if inner is None or inner.stochastic else inner.shown

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> Self:
        return replace(super().bind(reference, space), space=space if self.space is None else self.space)

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Self:
        """As many draws as there are elements are the whole group."""
        finite = countable(self.transforms(inputs.shape[1:]))
        exact = finite is not None and self.draws == finite.order
        return replace(super().specialise(model, inputs, targets, context), draws=None if exact else self.draws)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if the inner explainer does, or if the symmetry does not fit; note a space that is not a group."""
        space, signals = self.transforms(inputs.shape[1:]), Signals(inputs, context.structure, context.present)
        self.count(space)
        space.check(inputs)
        notes = self.inner.check(model, inputs, targets, context)
        if signals.structure:  # the inner explainer may know the inputs as they are alone
            element = space.decode(torch.arange(float(space.latents), 0, -1).repeat(len(inputs), 1)).to(inputs.device)
            moved = space.move(element, signals)
            self.inner.check(model, moved.values, targets, replace(context, structure=moved.structure))
        inexact = f"symmetrised averages {self.inner.name} over {space.name}, which is not a group: the mean is not exactly invariant."
        return notes if isinstance(space, Invertible) else (*notes, inexact)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return self.mean(lambda *args: self.inner.explain(*args).detach(), model, inputs.detach(), targets, context)

    def mean(self, explain: Explanations, model: nn.Module, x: Tensor, targets: Tensor, context: Context) -> Tensor:
        """The mean of `explain` over the transforms of x, (N, ...); in the graph of x if `explain` is."""
        space, signals, own_draws = self.transforms(x.shape[1:]), Signals(x, context.structure, context.present), context.draws.on_cpu
        count, elements = self.count(space), draw_elements(space, own_draws, self.draws)
        whole = x if context.present is None else context.present.to(x)  # gates of 1, also where the gates of x are closed
        guide = space.guide(whole, None) if isinstance(space, GuidedSpace) and isinstance(space, Invertible) else None
        total, dtype = None, x.dtype
        for row, item in pairs(len(x), count, max(1, context.batch // max(1, self.inner.rows_at_once(x.shape[1:])))):
            element, here = elements(row, item).to(x.device), row.to(x.device)
            if guide is not None and isinstance(space, GuidedSpace):
                element = space.steer(element, guide[here])
            transformed = space.move(element, signals[here])
            present, original = (None if part is None else part[here] for part in (context.present, context.original))
            moved = replace(context, structure=transformed.structure, present=present, original=original)
            own = replace(moved, draws=item_draws(own_draws, row, item))
            maps = explain(model, transformed.values, targets[here], own)
            if self.inner.frame is Frame.INPUT and isinstance(space, Invertible):
                maps = space.act(space.inverse(element), maps)
            if total is None:
                dtype, total = maps.dtype, maps.new_zeros(len(x), *maps.shape[1:], dtype=torch.float64)
            total.index_add_(0, here, maps.double())
        return torch.zeros_like(x) if total is None else (total / count).to(dtype)


def countable(space: InputSpace) -> FiniteSpace | None:
    """The space, if it is small enough to enumerate."""
    return space if isinstance(space, FiniteSpace) and space.order <= MOST_ELEMENTS else None


def draw_elements(space: InputSpace, draws: Draws, count: int | None) -> Elements:
    """Item i is element number i of the space. With a `count` it is the row's i-th random element, without replacement if possible."""
    finite = countable(space)
    if finite is None:
        return lambda row, item: space.decode(item_draws(draws, row, item).normal(space.latents, stream="symmetrised"))
    if count is None:
        table = finite.enumerate()
        return lambda _row, item: table[item]
    parts = torch.arange(len(draws)).split(max(1, SORTED_AT_ONCE // finite.order))
    chosen = torch.cat([draws[part].choice(finite.order, count, stream="symmetrised").clone() for part in parts])
    return lambda row, item: finite.unrank(chosen[row, item])


def item_draws(draws: Draws, row: Tensor, item: Tensor) -> Draws:
    """Separate random numbers for each (row, item), independent of the batch and of the number of items.

    A row's draw d and its item i make draw (d + i) (d + i + 1) / 2 + i, Cantor's numbering of pairs.

    >>> base = Draws(0, torch.tensor([5, 5]), torch.tensor([0, 1]))
    >>> item_draws(base, torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])).draw
    tensor([0, 2, 1, 4])
    """
    both = draws.draw[row] + item
    return Draws(draws.seed, draws.sample[row], both * (both + 1) // 2 + item)


def symmetrised_family(explainer: Any, sizes: Sequence[int | None], space: Any = None) -> dict[str, Symmetrised]:
    """One explainer symmetrised with several numbers of draws, by label: the points of Figure 4's curve. None is the whole group.

    >>> [label for label in symmetrised_family("saliency", [1, 4, None])]
    ['saliency, 1 draw', 'saliency, 4 draws', 'saliency, whole group']
    """
    inner = as_explainer(explainer)
    words = {size: "whole group" if size is None else f"{size} draw{'s' if size != 1 else ''}" for size in sizes}
    return {f"{inner.name}, {word}": Symmetrised(explainer=inner, space=space, draws=size) for size, word in words.items()}


def smallest_draws(curve: Sequence[tuple[int, float, float]], target: float) -> int | None:
    """The fewest draws whose confidence interval lies above a target, from points (draws, mean, lower end) (Guideline 4).

    None if there is no such point; an undefined (NaN) lower end never counts.

    >>> smallest_draws([(1, 0.7, 0.6), (16, 0.97, 0.95), (4, 0.96, 0.89), (2, float("nan"), float("nan"))], target=0.9)
    16
    """
    return min((draws for draws, _, low in curve if low >= target), default=None)
