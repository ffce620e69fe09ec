"""Symmetry scores: does an explanation, or the model itself, keep still or move along with its input?

Definition 2.1 of Crabbé and van der Schaar (2023), with s a measure of similarity:

    Inv_G(e, x)   = mean over g of s[e(g x), e(x)]        (eq. 1)
    Equiv_G(e, x) = mean over g of s[e(g x), g e(x)]      (eq. 2)
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.explainers import Frame, maps_only
from veracity.core.measures import Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Defaults, Pair, Reads, Request, Score, Subject
from veracity.core.settings import Count
from veracity.core.spaces import InputSpace, Representation
from veracity.core.walks import Walk
from veracity.measure import categorical_agreement, cosine
from veracity.perturb import Group, Redraw
from veracity.walk import MonteCarlo

PAPER = "Crabbé & van der Schaar, Evaluating the Robustness of Interpretability Methods (NeurIPS 2023)"


def natural(subject: Subject) -> Measure:
    """The measure of Definition 2.1 for a subject: agreement for categories, cosine for everything else."""
    return categorical_agreement if subject.explainer is not None and subject.explainer.categorical else cosine


@dataclass(frozen=True, kw_only=True)
class Likeness(Score, ABC):
    """A score by the measure of Definition 2.1, unless another is given."""

    beside: ClassVar[tuple[str, ...]] = ("self_agreement", "random_control")

    def for_subject(self, subject: Subject) -> Self:
        """With the measure that fits the explanation."""
        return self if self.measure is not None else replace(self, measure=natural(subject))

    @property
    def compare(self) -> Measure:
        """Cosine, as long as nothing is known of the subject."""
        return self.measure or cosine


@dataclass(frozen=True, kw_only=True)
class SymmetryScore(Likeness, ABC):
    """A score over the transforms of one symmetry: its own, or else the audit's."""

    reference: ClassVar[str] = PAPER
    figures: ClassVar[tuple[str, ...]] = ("symmetrisation", "relaxation", "training", "convergence")
    mark: ClassVar[float | None] = 0.99
    in_summary: ClassVar[str] = "paragraph"
    space: InputSpace | None = None
    walk: Walk | None = None

    def request(self, subject: Subject, defaults: Defaults, common_draws: bool = False) -> Request:
        """Every transform that the walk visits."""
        space = self.space or defaults.space
        if space is None:
            raise InputError(f"The score '{self.name}' needs a symmetry: pass Audit(symmetry=...), for example CyclicShift(axes=(-1,)).")
        return Request(space.fit(subject.shape), self.walk or defaults.walk, common_draws)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Equivariance(SymmetryScore):
    """How well an explanation in the input's frame moves along with its input (eq. 2).

    With `common_draws` a random explainer uses the same random numbers for e(x) and e(g x), which tells asymmetry
    from noise.
    """

    name = "equivariance"
    figures = (*SymmetryScore.figures, "sensitivity")
    definition = (
        "How well an explanation moves with its input: the mean, over transforms g, of how alike e(g x), the explanation of the "
        "transformed input, and g e(x), the transformed explanation of the input, are."
    )
    common_draws: bool = False

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For explanations that live where the input lives."""
        if subject.explainer is None or subject.explainer.frame is not Frame.INPUT:
            return ()
        return (self.request(subject, defaults, self.common_draws),)

    def expected(self, pair: Pair) -> Tensor:
        """g e(x)."""
        return pair.move(pair.before.explanation)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Symmetry(Equivariance):
    """How well any explanation does what its frame asks when the input moves (eq. 2).

    Maps in the input's frame should move along: their equivariance. Examples and concepts should stay: there rho' is
    the identity, and this is their invariance.
    """

    name = "symmetry"
    definition = (
        "How well an explanation does what its kind asks when the input moves. A feature map should move along: the mean, over "
        "transforms g, of how alike e(g x) and g e(x) are, its equivariance. Examples and concepts should stay: the mean of how alike "
        "e(g x) and e(x) are, their invariance."
    )

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        return () if subject.explainer is None else (self.request(subject, defaults, self.common_draws),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Invariance(SymmetryScore):
    """How well an explanation stays the same when its input moves (eq. 1)."""

    name = "invariance"
    definition = (
        "How little an explanation changes when its input moves: the mean, over transforms g, of how alike e(g x) and e(x) are. It "
        "suits explanations that do not live in the input's frame."
    )
    common_draws: bool = False

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        return () if subject.explainer is None else (self.request(subject, defaults, self.common_draws),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ModelInvariance(SymmetryScore):
    """How well the model's probabilities stay the same when the input moves (appendix F)."""

    name = "model_invariance"
    definition = "The mean, over transforms g, of how alike the model's output for g x and for x are."
    reads: ClassVar[Reads] = Reads.OUTPUT

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once a model, whatever the explainers."""
        return () if subject.explainer is not None else (self.request(subject, defaults),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class SelfAgreement(Likeness):
    """How well an explainer agrees with itself on the same input with fresh random numbers: its noise ceiling."""

    name = "self_agreement"
    repeats: Count = 8

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """A few repeats; one, as a check, for an explainer that draws nothing; none of maps that were made elsewhere."""
        if subject.explainer is None or maps_only(subject.explainer):
            return ()
        return (Request(Redraw(), MonteCarlo(draws=self.repeats if subject.explainer.stochastic else 1)),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ActionFloor(SymmetryScore):
    """What the transform itself loses: s[g^-1 g x, x], 1 for an exact action, less for an interpolated one."""

    name = "action_floor"
    mark = None
    definition = (
        "What the transform itself costs: how alike x and x moved there and back again are. Where that is not perfect, no score of an "
        "explanation can be read more finely."
    )
    reads: ClassVar[Reads] = Reads.INPUT

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For groups whose action only approximates them."""
        if subject.explainer is not None:
            return ()
        request = self.request(subject, defaults)
        inexact = isinstance(request.space, Group) and request.space.representation is Representation.APPROXIMATE
        return (request,) if inexact else ()

    def observe(self, pair: Pair) -> Tensor:
        """s[g^-1 g x, x]."""
        return self.compare(pair.undo(pair.after.input), pair.before.input)
