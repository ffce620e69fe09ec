"""Does an explanation move as its model moves? The mathematics of GEF, on distortions that have been measured.

Generalised explanation faithfulness: does an explanation change as much as its model does, along a path of perturbed weights?

Definition 5 of Hedström et al. (2025): scale the weights from weakly to strongly, theta_z = theta (1 + sigma_z eta); d_f holds
the distances of the outputs at the levels z = 1..Z, d_phi those of the explanations; the score of a sample is their rank
correlation (eq. 10), averaged over M copies of the path. 1 is faithful, 0 unrelated.

Fast-GEF measures d_phi from end to end (eq. 6). GEF measures the length of the path that the explanation travels: under the
pullback metric (eq. 11-13) the length of a curve is the length of its image, so that no Jacobian is needed,

    D_phi^z = sum over t = 1..T of |e(theta_z,t) - e(theta_z,t-1)|,   theta_z,t = theta (1 + (t / T) sigma_z eta).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.explainers import Explainer
from veracity.core.measures import Direction, Measure
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reads, Request, SampleNotes, Subject
from veracity.core.settings import Count, Positive
from veracity.measure import angle, l2
from veracity.measure.distance import normalised
from veracity.perturb.weights import FreshScaling, ParameterScaling
from veracity.scores.common import Repeatable
from veracity.statistics.correlation import pearson_correlation, spearman_correlation
from veracity.walk import MonteCarlo


def alignment(
    model_distortion: Array, explanation_distortion: Array, correlation: Callable[[Array, Array], Array] = spearman_correlation
) -> Array:
    """How alike model and explanation rank the levels of a path, for each sample and draw; its mean over draws is GEF.

    Spearman's rank correlation over the levels of D_f and D_phi, with ties averaged and its sign kept, from two arrays
    (samples, draws, levels) to (samples, draws). It is undefined (NaN) where either does not vary over the levels: an
    explanation that does not respond to the model has no alignment with it, not one of 0. It is undefined, too, where any level
    is: a correlation over fewer levels would not be alike. Another correlation over the last axis may stand for Spearman's.

    >>> model = np.array([[[0.1, 0.4, 0.9, 1.6, 2.5], [0.1, 0.4, 0.9, 1.6, 2.5]]])
    >>> alignment(model, np.array([[[1.0, 3.0, 2.0, 4.0, 5.0], [0.0, 0.0, 0.0, 0.0, 0.0]]]))
    array([[0.9, nan]])

    Reference: Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025).
    """
    if model_distortion.shape != explanation_distortion.shape or model_distortion.ndim != 3:
        raise InputError(
            "Alignment needs the distortions of a model and of its explanations, each of shape (samples, draws, levels), "
            f"not {model_distortion.shape} and {explanation_distortion.shape}."
        )
    whole = (np.isfinite(model_distortion) & np.isfinite(explanation_distortion)).all(axis=-1)
    return np.where(whole, correlation(model_distortion, explanation_distortion), np.nan)


def path_length(steps: Array) -> Array:
    """The length of a path from the lengths of its segments: D_phi of exact GEF (equations 11 to 13).

    sum_t |e(theta_t) - e(theta_{t-1})|, from (samples, draws, levels, segments) to (samples, draws, levels). The length of a
    curve under the pullback metric is the length of its image, so that no Jacobian is needed. A path with an undefined
    segment is undefined.

    >>> path_length(np.array([[[[0.5, 0.25], [1.0, np.nan]]]]))
    array([[[0.75,  nan]]])
    """
    if steps.ndim != 4:
        raise InputError(f"Path lengths need steps of shape (samples, draws, levels, segments), not {steps.shape}.")
    return np.asarray(steps.sum(axis=-1), dtype=np.float64)


def running_mean(steps: Array) -> Array:
    """The mean of all segments up to each level: D_phi of the public code of exact GEF.

    1 / ((z + 1) T) sum over z' <= z and t of the segments, from (samples, draws, levels, segments) to (samples, draws, levels).

    >>> running_mean(np.array([[[[1.0, 3.0], [5.0, 7.0]]]]))
    array([[[2., 4.]]])
    """
    if steps.ndim != 4:
        raise InputError(f"Running means need steps of shape (samples, draws, levels, segments), not {steps.shape}.")
    return np.asarray(steps.mean(axis=-1).cumsum(axis=-1) / np.arange(1, steps.shape[2] + 1), dtype=np.float64)


CORRELATIONS = {"spearman": spearman_correlation, "pearson": pearson_correlation}
OUTPUTS = ("explained", "all")
PAPER = "Hedström et al., Evaluating Interpretable Methods via Geometric Alignment of Functional Distortions (TMLR 2025)"


@dataclass(frozen=True, kw_only=True)
class Alignment(SampleNotes, Repeatable):
    """What GEF and its variants share: both distortions along the levels of a path of weights, and their correlation.

    steps        Z, the levels of the path
    draws        M, the copies of the path, shared by all samples
    segments     T, into which the way to each level is cut
    sigma        the strength of the last level; None finds the smallest at which predictions are kept by chance alone
    measure      the distance between explanations
    correlation  "spearman" or "pearson"
    outputs      D_f on the "explained" score alone, or the distance over "all" of them
    normalise    whether explanations are divided by the root of their mean square (eq. 21), each sample by itself
    independent  whether every level has a direction of its own, instead of one for the whole path
    first        the strength of the first level; None spaces the levels evenly from 0
    averaged     whether distortions are averaged over the draws before they are correlated, as A.1.3 does, instead of scores after
    """

    reference: ClassVar[str] = PAPER
    figures: ClassVar[tuple[str, ...]] = ("alignment", "scatter", "convergence")
    in_summary: ClassVar[str] = "paragraph"
    reads: ClassVar[Reads] = Reads.EXPLANATION
    before: ClassVar[frozenset[Reads] | None] = frozenset({Reads.EXPLANATION, Reads.SCORES})
    after: ClassVar[frozenset[Reads] | None] = frozenset({Reads.EXPLANATION, Reads.SCORES})
    quantities: ClassVar[tuple[str, ...]] = ("model", "explanation")
    direction = Direction.HIGHER
    bounds = (-1.0, 1.0)

    measure: Measure | None = field(default_factory=lambda: l2)
    steps: int = 5
    draws: Count = 5
    segments: Count = 1
    sigma: Positive | None = None
    correlation: str = "spearman"
    outputs: str = "explained"
    normalise: bool = True
    independent: bool = False
    first: Positive | None = None
    averaged: bool = False

    def path(self, explainer: Explainer) -> ParameterScaling:
        """The path of weights on which an explainer is scored."""
        return ParameterScaling(sigma=self.sigma, steps=self.steps, segments=self.segments, independent=self.independent, first=self.first)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation."""
        if self.correlation not in CORRELATIONS:
            raise unknown(f"correlation of {self.name}", self.correlation, CORRELATIONS)
        if self.outputs not in OUTPUTS:
            raise unknown(f"outputs of {self.name}", self.outputs, OUTPUTS)
        if self.steps < 3:
            raise SpecError(
                f"The setting 'steps' of '{self.name}' must be at least 3, since fewer levels have no rank correlation to speak of."
            )
        if self.compare.direction is not Direction.LOWER:
            raise SpecError(
                f"The score '{self.name}' needs a distance, such as l2 or angle, not '{self.compare.name}', which grows with likeness."
            )
        if subject.explainer is None:
            return ()
        return (Request(self.path(subject.explainer), MonteCarlo(draws=self.draws), self.shares(subject.explainer)),)

    def observe(self, pair: Pair) -> Tensor:
        """D_f of the whole way, and how far the explanation went since it was last looked at (R, 2)."""
        before, after = (self.scaled(reading.explanation) for reading in (pair.before, pair.after))
        return torch.stack((self.model_distortion(pair), self.compare(after, before).double()), dim=1)

    def model_distortion(self, pair: Pair) -> Tensor:
        """D_f (R,)."""
        if self.outputs == "explained":
            return (pair.after.score - pair.before.score).abs().double()
        moved: Tensor = (pair.after.scores - pair.before.scores).norm(dim=1)
        return moved.double()

    def scaled(self, explanation: Tensor) -> Tensor:
        """Eq. 21, or the explanation as it is."""
        return normalised(explanation) if self.normalise else explanation

    def distortions(self, measured: Measured) -> tuple[Array, Array]:
        """d_f and d_phi, (samples, draws, Z) each."""
        model, moved = (measured[name].reshape(*measured[name].shape[:2], self.steps, self.segments) for name in self.quantities)
        return model[..., -1], path_length(moved)

    @property
    def in_map_units(self) -> bool:
        """No: a correlation along the levels has no units, whatever the distance between explanations has."""
        return False

    def values(self, measured: Measured) -> Array:
        """The correlation over the levels of each path, (samples, draws); (samples, 1) where distortions are averaged."""
        model, moved = self.distortions(measured)
        if self.averaged:
            model, moved = (found.mean(axis=1, keepdims=True) for found in (model, moved))
        return alignment(model, moved, CORRELATIONS[self.correlation])

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples whose explanation is the same whatever the weights."""
        moved = measured["explanation"]
        return np.asarray((np.nan_to_num(moved, nan=1.0) == 0).all(axis=(1, 2)))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class FastGEF(Alignment):
    """How well the explanation's change follows the model's, from end to end, while the weights are scaled (eq. 6 and 10)."""

    name = "fast_gef"
    title = "Fast-GEF"


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class GEF(Alignment):
    """How well the length of the explanation's path follows the model's change while the weights are scaled (eq. 10-13).

    Normalised explanations (eq. 21) lie on a sphere, and the length of a path on it is made of arcs: the segments are measured
    by their angle. Straight chords would cut the corners of long segments, so that a longer way could come out shorter.
    """

    name = "gef"
    title = "GEF"
    measure: Measure | None = field(default_factory=lambda: angle)
    segments: Count = 5


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class PublicFastGEF(Alignment):
    """Fast-GEF as its authors' code has it: noise of its own at each level, and a first level of .001.

    That level ranks lowest in both distortions whatever the explainer, so that one which has nothing to do with the model
    scores `null`, not 0. For standing beside the published tables alone.
    """

    name = "fast_gef_public"
    title = "Fast-GEF (public variant)"
    independent: bool = True
    first: Positive | None = 0.001
    common_draws: bool = False

    @property
    def null(self) -> float | None:
        """The expected rank correlation of two vectors that share their lowest entry and nothing else; .5 for five levels."""
        if self.first is None:
            return None
        rest = self.steps - 1
        return 1.0 - rest * (rest**2 - 1) / (self.steps * (self.steps**2 - 1))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class PublicGEF(PublicFastGEF):
    """GEF as its authors' code has it: a running mean over the levels of the explanation's change to the fourth power.

        D_phi^z = 1 / ((z + 1) T) sum over z' <= z and t of (de' J)^2,   de = e - e(theta_z't),   z = 0..Z-1

    Every one of the T looks t at an explanation has noise of its own, of strengths evenly spaced from 1e-4 to sigma_z', and
    D_f^z another one, of strength sigma_z. J is the mean of e - e_k over K more explanations e_k of the same weights: for an
    explainer that draws nothing J = de, and each look adds |de|^4. Explanations are divided by the root of their mean square
    over the *whole data set*. Squares are means over a map's entries, so that D_phi does not depend on the map's size.

    Since the mean runs over the weak levels, too, D_phi grows with z even where the explanation's change does not: a deterministic
    explanation whose change merely sets in after the first level scores the rank correlation of D_f with z, which may be .9. So there
    is no `null` to hold it against. Only for comparison with the published tables.
    """

    name = "gef_public"
    title = "GEF (public variant)"
    quantities: ClassVar[tuple[str, ...]] = ("model", "start_square", "square", "start_product", "lead_product")
    segments: Count = 10
    repeats: Count = 10

    @property
    def null(self) -> float | None:
        """Not known: it depends on how the model's change goes with the level."""
        return None

    def path(self, explainer: Explainer) -> FreshScaling:
        """Repeats are needed where the explainer draws random numbers alone."""
        if not self.independent:
            raise SpecError(f"The score '{self.name}' has noise of its own at every look: leave out independent=False, or use 'gef'.")
        if self.compare.name != l2.name:
            raise SpecError(
                f"The score '{self.name}' compares explanations by l2 alone, not by '{self.compare.name}': use 'gef' for others."
            )
        repeats = self.repeats if explainer.stochastic else 0
        return FreshScaling(sigma=self.sigma, steps=self.steps, segments=self.segments, first=self.first, repeats=repeats)

    def observe(self, pair: Pair) -> Tensor:
        """D_f, and mean products over entries of the explanations of the unperturbed model, of this look and of the one that it repeats."""
        after, lead = (reading.explanation.flatten(1).double() for reading in (pair.after, pair.before))
        start = lead if pair.start is None else pair.start.flatten(1).double()
        products = [(first * second).mean(1) for first, second in ((start, start), (after, after), (start, after), (lead, after))]
        return torch.stack((self.model_distortion(pair), *products), dim=1)

    def looks(self, measured: Measured) -> list[Array]:
        """The products, (samples, draws, Z, T, 1 + K) each."""
        shape = (*measured["model"].shape[:2], self.steps, -1)
        return [measured[name].reshape(shape)[..., :-1].reshape(*shape[:3], self.segments, -1) for name in self.quantities[1:]]

    def distortions(self, measured: Measured) -> tuple[Array, Array]:
        """d_f and d_phi, (samples, draws, Z) each."""
        model = measured["model"].reshape(*measured["model"].shape[:2], self.steps, -1)[..., -1]
        return model, running_mean(self.changes(*self.looks(measured)) ** 2)

    def changes(self, start_square: Array, square: Array, start_product: Array, lead_product: Array) -> Array:
        """de' J of every look, (samples, draws, Z, T)."""
        unit, ratio = np.ones(()), np.ones((1, *square.shape[1:]))
        if self.normalise:
            with np.errstate(divide="ignore", invalid="ignore"):
                unit = over_samples(start_square)[..., :1]
                ratio = np.sqrt(over_samples(start_square) / over_samples(square))
        ratio = np.where(np.isfinite(ratio), ratio, np.nan)
        first, others = ratio[..., :1], ratio[..., 1:]
        if others.shape[-1] == 0:
            found = start_square - 2 * first * start_product + first**2 * square
        else:
            met = (first * others * lead_product[..., 1:] - others * start_product[..., 1:]).mean(axis=-1, keepdims=True)
            found = start_square[..., :1] - first * start_product[..., :1] + met
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((found / unit)[..., 0], dtype=np.float64)

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples whose explanation is the same whatever the weights."""
        start_square, square, start_product, _ = self.looks(measured)
        return np.asarray(((start_square == square) & (start_square == start_product)).all(axis=(1, 2, 3, 4)))


def over_samples(values: Array) -> Array:
    """The mean over the samples, the first axis, of what is finite; NaN where nothing is.

    >>> over_samples(np.array([[1.0, np.nan], [3.0, np.nan]]))
    array([[ 2., nan]])
    """
    known = np.isfinite(values)
    return np.asarray(
        np.where(known, values, 0.0).sum(axis=0, keepdims=True) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)[None]
    )
