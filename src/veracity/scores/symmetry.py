"""Symmetry scores: is an explanation, or the model itself, equivariant or invariant to transforms of the input?

Definition 2.1 of Crabbé and van der Schaar (2023), with s a measure of similarity:

    Inv_G(e, x)   = mean over g of s[e(g x), e(x)]        (eq. 1)
    Equiv_G(e, x) = mean over g of s[e(g x), g e(x)]      (eq. 2)
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
from veracity.perturb import AsInput, Group, OutputAction, Redraw
from veracity.walk import MonteCarlo

PAPER = "Crabbé & van der Schaar, Evaluating the Robustness of Interpretability Methods (NeurIPS 2023)"


@dataclass(frozen=True, kw_only=True)
class Likeness(Score, ABC):
    """A score by the measure of Definition 2.1 unless another is given: agreement for categories, cosine for everything else."""

    beside: ClassVar[tuple[str, ...]] = ("self_agreement", "random_control")

    def for_subject(self, subject: Subject) -> Self:
        """With the measure for this kind of explanation."""
        categorical = subject.explainer is not None and subject.explainer.categorical
        return self if self.measure is not None else replace(self, measure=categorical_agreement if categorical else cosine)

    @property
    def compare(self) -> Measure:
        """The measure; cosine before the subject is known."""
        return self.measure or cosine


@dataclass(frozen=True, kw_only=True)
class SymmetryScore(Likeness, ABC):
    """A score over the transforms of one symmetry: `space`, or the symmetry of the audit."""

    reference: ClassVar[str] = PAPER
    figures: ClassVar[tuple[str, ...]] = ("symmetrisation", "relaxation", "training", "convergence")
    mark: ClassVar[float | None] = 0.99
    in_summary: ClassVar[str] = "paragraph"
    space: InputSpace | None = None
    walk: Walk | None = None

    def request(self, subject: Subject, defaults: Defaults, common_draws: bool = False) -> Request:
        """The transforms that the walk visits."""
        space = self.space or defaults.space
        if space is None:
            raise InputError(f"The score '{self.name}' needs a symmetry: pass Audit(symmetry=...), for example CyclicShift(axes=(-1,)).")
        return Request(space.fit(subject.shape), self.walk or defaults.walk, common_draws)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Equivariance(SymmetryScore):
    """How well a feature map moves along when the input is transformed: the similarity of e(g x) and g e(x) (eq. 2).

    With `common_draws`, a random explainer uses the same random numbers for e(x) and e(g x), so noise does not count as asymmetry.
    """

    name = "equivariance"
    figures = (*SymmetryScore.figures, "sensitivity")
    definition = (
        "How well an explanation moves along with its input: the mean, over transforms g, of the similarity of e(g x), the explanation "
        "of the transformed input, and g e(x), the transformed explanation."
    )
    common_draws: bool = False

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For feature maps."""
        if subject.explainer is None or subject.explainer.frame is not Frame.INPUT:
            return ()
        return (self.request(subject, defaults, self.common_draws),)

    def expected(self, pair: Pair) -> Tensor:
        """g e(x)."""
        return pair.move(pair.before.explanation)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Symmetry(Equivariance):
    """How well an explanation respects a symmetry: the equivariance of feature maps, the invariance of examples and concepts (eq. 2)."""

    name = "symmetry"
    definition = (
        "How well an explanation responds to a transform g of the input. A feature map should move along (equivariance): the mean, over "
        "transforms, of the similarity of e(g x) and g e(x). Examples and concepts should stay the same (invariance): the mean "
        "similarity of e(g x) and e(x)."
    )

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        return () if subject.explainer is None else (self.request(subject, defaults, self.common_draws),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Invariance(SymmetryScore):
    """How well an explanation stays the same when the input is transformed: the similarity of e(g x) and e(x) (eq. 1)."""

    name = "invariance"
    definition = (
        "How little an explanation changes when its input is transformed: the mean, over transforms g, of the similarity of e(g x) and "
        "e(x). Use it for explanations that are not maps of the input, such as examples and concepts."
    )
    common_draws: bool = False

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        return () if subject.explainer is None else (self.request(subject, defaults, self.common_draws),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ModelInvariance(SymmetryScore):
    """How well the model's output stays the same when the input is transformed: the similarity of f(g x) and f(x) (appendix F)."""

    name = "model_invariance"
    definition = "The mean, over transforms g, of the similarity of the model's outputs for g x and for x."
    reads: ClassVar[Reads] = Reads.OUTPUT

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once per model, for all explainers."""
        return () if subject.explainer is not None else (self.request(subject, defaults),)

    def observe(self, pair: Pair) -> Tensor:
        """s[f(g x), f(x)]; raises for the cosine of single numbers, which is 1 for any two of the same sign."""
        if self.compare.name == cosine.name and pair.before.output[0].numel() == 1:
            raise InputError(f"The cosine of single numbers does not compare them: give '{self.name}' a distance, such as measure=l2.")
        return super().observe(pair)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ModelEquivariance(SymmetryScore):
    """How well the model's output moves along when the input is transformed: the similarity of f(g x) and g f(x).

    For outputs that live in the frame of the input, such as a class for every pixel or point. `action` says how g moves them: as the
    input by default, `ShiftedBoxes()` for boxes, `TurnedField()` for vectors. The outputs are compared as the model returns them.
    """

    name = "model_equivariance"
    definition = (
        "The mean, over transforms g, of the similarity of the model's output for g x and of its output for x, moved by g. For outputs "
        "that should move with the input, such as segmentation masks."
    )
    reads: ClassVar[Reads] = Reads.FIELD
    action: OutputAction = field(default_factory=AsInput)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once per model, for all explainers."""
        return () if subject.explainer is not None else (self.request(subject, defaults),)

    def expected(self, pair: Pair) -> Tensor:
        """g f(x)."""
        output = pair.before.field
        if not isinstance(pair.space, InputSpace):
            raise InputError(f"The score '{self.name}' needs transforms of the input.")
        try:
            return self.action.act(pair.space, pair.element, output)
        except InputError as error:
            raise InputError(
                f"An output of shape {tuple(output.shape[1:])} does not move by '{self.action.name}' under '{pair.space.name}': use "
                f"'model_invariance', or another action=... ({error})"
            ) from error


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class SelfAgreement(Likeness):
    """How well a random explainer agrees with itself on the same input: no other score of it can be expected to be higher."""

    name = "self_agreement"
    repeats: Count = 8

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """`repeats` for a random explainer; one, as a check, for a deterministic one; none for maps without their explainer."""
        if subject.explainer is None or maps_only(subject.explainer):
            return ()
        return (Request(Redraw(), MonteCarlo(draws=self.repeats if subject.explainer.stochastic else 1)),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ActionFloor(SymmetryScore):
    """How well the input survives the transform and its inverse: 1 for an exact transform, less if pixels are interpolated."""

    name = "action_floor"
    mark = None
    definition = (
        "What the transform itself loses: the similarity of x and of x after the transform and its inverse. If it is below 1, "
        "differences of that size between scores of explanations mean nothing."
    )
    reads: ClassVar[Reads] = Reads.INPUT

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For groups whose action is only approximate, such as rotations of pixels."""
        if subject.explainer is not None:
            return ()
        request = self.request(subject, defaults)
        inexact = isinstance(request.space, Group) and request.space.representation is Representation.APPROXIMATE
        return (request,) if inexact else ()

    def observe(self, pair: Pair) -> Tensor:
        """s[g^-1 g x, x]."""
        return self.compare(pair.undo(pair.after.input), pair.before.input)
