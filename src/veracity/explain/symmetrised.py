"""Any explanation made symmetric: its mean over the transforms of a group (Propositions 2.3 and D.16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer, Frame, Learner, Need, learner
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.core.spaces import FiniteSpace, InputSpace
from veracity.explain.foreign import computed
from veracity.explain.passes import pairs
from veracity.explain.resolve import as_explainer

DISTINCT = 100_000
"""The largest space that is counted out, or drawn from without replacement."""

SHUFFLED = 1_000_000
"""How many random numbers are sorted at once to choose without replacement."""

Elements = Callable[[Tensor, Tensor], Tensor]
"""From rows (R,) and the numbers of their draws (R,) to elements (R, p)."""


@runtime_checkable
class Undoes(Protocol):
    """A space whose transforms can be undone: a group."""

    def inverse(self, g: Tensor) -> Tensor:
        """What undoes g, row by row."""
        ...


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Symmetrised(Learner):
    """Another explainer's mean over transforms: e_inv(x) = mean_g e(g x), and e_equi(x) = mean_g g⁻¹ e(g x) in the input's frame.

    Over a whole group (no `draws`) e_inv is exactly invariant (Proposition 2.3), and e_equi exactly equivariant: with
    g = k h⁻¹, e_equi(h x) = mean_g g⁻¹ e(g h x) = mean_k h k⁻¹ e(k x) = h e_equi(x). With `draws` it is the mean over that
    many elements, chosen anew for each sample and draw, without replacement where the space has at most 100,000 (Figure 4).
    A random explainer gets fresh random numbers for each element. Without a `space` of its own it takes the audit's
    symmetry; a set of transforms that is no group will do for e_inv alone, which is then not exactly invariant.
    """

    name = "symmetrised"
    reference = "Crabbé and van der Schaar, NeurIPS 2023, Proposition 2.3"
    explainer: Any = None
    space: InputSpace | None = None
    draws: Count | None = None

    frame: ClassVar[Frame] = computed(lambda self: self.inner.frame)
    control: ClassVar[bool] = computed(lambda self: self.inner.control)
    categorical: ClassVar[bool] = computed(lambda self: self.inner.categorical)
    structured: ClassVar[bool] = computed(lambda self: self.inner.structured)
    stochastic: ClassVar[bool] = computed(lambda self: self.inner.stochastic or self.draws is not None)

    def __post_init__(self) -> None:
        """The explainer may be anything that an audit takes for one."""
        object.__setattr__(self, "explainer", None if self.explainer is None else as_explainer(self.explainer))

    @property
    def inner(self) -> Explainer:
        """The explainer that is made symmetric."""
        if self.explainer is None:
            raise SpecError("symmetrised needs an explainer to make symmetric: pass Symmetrised(explainer=...).")
        inner: Explainer = self.explainer
        return inner

    @property
    def signed(self) -> bool:
        """As the inner one is."""
        return self.inner.signed

    @property
    def batch_dependent(self) -> bool:
        """As the inner one is."""
        return self.inner.batch_dependent

    @property
    def needs(self) -> frozenset[Need]:
        """What the inner one needs."""
        return self.inner.needs

    @property
    def learns(self) -> bool:
        """As the inner one does."""
        return learner(self.inner) is not None

    @property
    def lesson(self) -> Learner:
        """The inner explainer's."""
        inner = learner(self.inner)
        return self if inner is None else inner.lesson

    def fitted(self, shape: Size) -> InputSpace:
        """The transforms of inputs of this shape; raises if there are none, or none that can be used."""
        if self.space is None:
            raise SpecError("symmetrised needs a symmetry: pass Audit(symmetry=...) or Symmetrised(explainer=..., space=...).")
        space = self.space.fit(shape)
        if self.inner.frame is Frame.INPUT and not isinstance(space, Undoes):
            raise SpecError(
                f"symmetrised cannot average the maps of {self.inner.name} over {space.name}, which is no group: its transforms "
                "cannot be undone, so choose a group such as cyclic_shift."
            )
        return space

    def count(self, space: InputSpace) -> int:
        """How many elements the mean is over; raises if there are not as many, or too many to count out."""
        finite = countable(space)
        if self.draws is not None:
            if finite is not None and self.draws > finite.order:
                raise SpecError(
                    f"symmetrised cannot draw {self.draws} different elements of {space.name}, which has {finite.order}: pass fewer draws."
                )
            return self.draws
        if finite is None:
            raise SpecError(f"symmetrised cannot average over all of {space.name}, which cannot be counted out: pass draws=... for some.")
        return finite.order

    def cost(self, shape: Size) -> Cost:
        """The inner explainer's, once for each element."""
        return self.inner.cost(shape) * self.count(self.fitted(shape))

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> Symmetrised:
        """With the audit's reference set for the inner explainer, and its symmetry unless there is one."""
        return replace(self, explainer=self.inner.bind(reference, space), space=space if self.space is None else self.space)

    def settled(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Symmetrised:
        """Around the settled inner explainer; as many draws as there are elements are the whole group."""
        finite = countable(self.fitted(inputs.shape[1:]))
        exact = finite is not None and self.draws == finite.order
        return replace(self, explainer=self.inner.settled(model, inputs, targets, context), draws=None if exact else self.draws)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if the inner explainer does, or the symmetry does not fit; say if it is no group."""
        space = self.fitted(inputs.shape[1:])
        self.count(space)
        space.check(inputs)
        said = self.inner.check(model, inputs, targets, context)
        loose = f"symmetrised averages {self.inner.name} over {space.name}, which is no group, so that the mean is not exactly invariant."
        return (*said, *(() if isinstance(space, Undoes) else (loose,)))

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """What the inner explainer learns."""
        inner = learner(self.inner)
        return {} if inner is None else inner.learn(model, context)

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        """What the inner explainer says."""
        inner = learner(self.inner)
        return [] if inner is None else inner.facts(learnt, context)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """The mean of the inner explanations, of their shape."""
        inner, space = self.inner, self.fitted(inputs.shape[1:])
        count, elements = self.count(space), elements_of(space, context.draws, self.draws)
        cost, signals = inner.cost(inputs.shape[1:]), Signals(inputs.detach(), context.structure)
        total: Tensor | None = None
        kind = inputs.dtype
        for row, item in pairs(len(inputs), count, max(1, context.batch // max(1, cost.forward, cost.backward))):
            element, here = elements(row, item).to(inputs.device), row.to(inputs.device)
            moved = space.move(element, signals[here])
            own = replace(context, structure=moved.structure, draws=of_items(context.draws, row, item))
            found = inner.explain(model, moved.values, targets[here], own).detach()
            if inner.frame is Frame.INPUT and isinstance(space, Undoes):
                found = space.act(space.inverse(element), found)
            if total is None:
                kind = found.dtype
                total = found.new_zeros(len(inputs), *found.shape[1:], dtype=torch.float64)
            total.index_add_(0, here, found.double())
        return torch.zeros_like(inputs) if total is None else (total / count).to(kind)


def countable(space: InputSpace) -> FiniteSpace | None:
    """The space, if it is small enough to be counted out."""
    return space if isinstance(space, FiniteSpace) and space.order <= DISTINCT else None


def elements_of(space: InputSpace, draws: Draws, count: int | None) -> Elements:
    """Item i is element number i, or with a `count` the i-th of the row's own random choice: distinct if the space can be counted out."""
    finite = countable(space)
    if finite is None:
        return lambda row, item: space.decode(of_items(draws, row, item).normal(space.latents, stream="symmetrised"))
    if count is None:
        table = finite.enumerate()
        return lambda _row, item: table[item]
    parts = torch.arange(len(draws)).split(max(1, SHUFFLED // finite.order))
    chosen = torch.cat([draws[part].choice(finite.order, count, stream="symmetrised").clone() for part in parts])
    return lambda row, item: finite.unrank(chosen[row, item])


def of_items(draws: Draws, row: Tensor, item: Tensor) -> Draws:
    """Random numbers of their own for each (row, item), whatever the chunk and however many items there are.

    A row's draw d and its item i make draw (d + i) (d + i + 1) / 2 + i, Cantor's numbering of pairs.

    >>> base = Draws(0, torch.tensor([5, 5]), torch.tensor([0, 1]))
    >>> of_items(base, torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])).draw
    tensor([0, 2, 1, 4])
    """
    both = draws.draw[row] + item
    return Draws(draws.seed, draws.sample[row], both * (both + 1) // 2 + item)


def symmetrised_family(explainer: Any, sizes: Sequence[int | None], space: Any = None) -> dict[str, Symmetrised]:
    """One explainer made symmetric with several numbers of draws, by label: the points of Figure 4's curve; None is the whole group.

    >>> [label for label in symmetrised_family("saliency", [1, 4, None])]
    ['saliency, 1 draw', 'saliency, 4 draws', 'saliency, whole group']
    """
    inner = as_explainer(explainer)
    words = {size: "whole group" if size is None else f"{size} draw{'s' if size != 1 else ''}" for size in sizes}
    return {f"{inner.name}, {word}": Symmetrised(explainer=inner, space=space, draws=size) for size, word in words.items()}


def smallest_draws(curve: Sequence[tuple[int, float, float]], target: float) -> int | None:
    """The fewest draws whose score reaches a target for sure: of points (draws, mean, lower end), the first with lower end >= target.

    None if no point does; an undefined (NaN) one never does (Guideline 4).

    >>> smallest_draws([(1, 0.7, 0.6), (16, 0.97, 0.95), (4, 0.96, 0.89), (2, float("nan"), float("nan"))], target=0.9)
    16
    """
    return min((draws for draws, _, low in curve if low >= target), default=None)
