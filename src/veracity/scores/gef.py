"""GEF, generalised explanation faithfulness: does an explanation change as much as its model does, along a path of perturbed weights?

Definition 5 of Hedström et al. (2025): scale the weights from weakly to strongly, theta_z = theta (1 + sigma_z eta). d_f holds the
distances of the outputs from the original ones at the levels z = 1..Z, and d_phi those of the explanations. The score of a sample is
their rank correlation (eq. 10), averaged over M copies of the path: 1 is faithful, 0 unrelated.

Fast-GEF measures d_phi from end to end (eq. 6). GEF measures the length of the path that the explanation travels: under the
pullback metric (eq. 11-13) the length of a curve is the length of its image, so no Jacobian is needed,

    D_phi^z = sum over t = 1..T of |e(theta_z,t) - e(theta_z,t-1)|,   theta_z,t = theta (1 + (t / T) sigma_z eta).

`InputAlignment` replaces the scaled weights by noise on the input (section 4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
from veracity.perturb.noise import GaussianNoise
from veracity.perturb.refits import Refits
from veracity.perturb.weights import FreshScaling, ParameterScaling
from veracity.scores.assumptions import PAPER
from veracity.scores.common import Repeatable
from veracity.statistics.correlation import pearson_correlation, spearman_correlation
from veracity.walk import MonteCarlo


def alignment(
    model_distortion: Array, explanation_distortion: Array, correlation: Callable[[Array, Array], Array] = spearman_correlation
) -> Array:
    """The rank correlation of D_f and D_phi over the levels of a path, for each sample and draw; its mean over draws is GEF.

    From two arrays (samples, draws, levels) to (samples, draws), by Spearman's correlation or another one along the last axis. It is
    undefined (NaN) if either distortion does not vary over the levels: an explanation that does not respond to the model has no
    alignment with it, which is not an alignment of 0. It is also undefined if any level is, since a correlation over fewer levels
    could not be compared.

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

    sum_t |e(theta_t) - e(theta_{t-1})|, from (samples, draws, levels, segments) to (samples, draws, levels). A path with an
    undefined segment is undefined.

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


@dataclass(frozen=True, kw_only=True)
class Alignment(SampleNotes, Repeatable):
    """What GEF and its variants share: the distortions of model and explanation along a path of weights, and their correlation.

    steps        Z, the number of levels of the path
    draws        M, the number of copies of the path, shared by all samples
    segments     T, the number of segments of the path to each level
    sigma        the strength of the last level; None finds the smallest one at which predictions agree with the original by chance only
    measure      the distance between explanations
    correlation  "spearman" or "pearson"
    outputs      whether D_f is of the "explained" score only, or the distance over "all" scores
    normalise    whether each explanation is divided by its root mean square (eq. 21)
    independent  whether every level has its own random direction, instead of one for the whole path
    first        the strength of the first level; None spaces the levels evenly from 0
    averaged     whether distortions are averaged over draws before they are correlated, as in A.1.3, instead of scores afterwards
    """

    reference: ClassVar[str] = PAPER
    figures: ClassVar[tuple[str, ...]] = ("alignment", "scatter", "layers", "layer_distortions", "convergence")
    in_summary: ClassVar[str] = "paragraph"
    reads: ClassVar[Reads] = Reads.EXPLANATION
    before: ClassVar[frozenset[Reads] | None] = frozenset({Reads.EXPLANATION, Reads.SCORES})
    after: ClassVar[frozenset[Reads] | None] = frozenset({Reads.EXPLANATION, Reads.SCORES})
    quantities: ClassVar[tuple[str, ...]] = ("model", "explanation")
    direction = Direction.HIGHER
    bounds = (-1.0, 1.0)
    in_map_units = False

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
            raise SpecError(f"The setting 'steps' of '{self.name}' must be at least 3: a rank correlation over fewer levels means nothing.")
        if self.compare.direction is not Direction.LOWER:
            raise SpecError(
                f"The score '{self.name}' needs a distance, such as l2 or angle, not '{self.compare.name}', which grows with likeness."
            )
        if subject.explainer is None:
            return ()
        return (Request(self.path(subject.explainer), MonteCarlo(draws=self.draws), self.shares(subject.explainer)),)

    def observe(self, pair: Pair) -> Tensor:
        """D_f from the start of the path, and the distance of the explanation from its previous point (R, 2)."""
        maps = [pair.before.explanation, pair.after.explanation]
        before, after = map(normalised, maps) if self.normalise else maps
        return torch.stack((self.model_distortion(pair), self.compare(after, before).double()), dim=1)

    def model_distortion(self, pair: Pair) -> Tensor:
        """D_f (R,)."""
        if self.outputs == "explained":
            return (pair.after.score - pair.before.score).abs().double()
        moved: Tensor = (pair.after.scores - pair.before.scores).norm(dim=1)
        return moved.double()

    def distortions(self, measured: Measured) -> tuple[Array, Array]:
        """d_f and d_phi, (samples, draws, Z) each."""
        model, moved = (measured[name].reshape(*measured[name].shape[:2], self.steps, self.segments) for name in self.quantities)
        return model[..., -1], path_length(moved)

    def values(self, measured: Measured) -> Array:
        """The correlation over the levels of each path, (samples, draws); (samples, 1) if distortions are averaged."""
        model, moved = self.distortions(measured)
        if self.averaged:
            model, moved = (found.mean(axis=1, keepdims=True) for found in (model, moved))
        return alignment(model, moved, CORRELATIONS[self.correlation])

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples whose explanation does not change with the weights."""
        return np.asarray(self.silent_draws(measured).all(axis=1))

    def silent_draws(self, measured: Measured) -> NDArray[np.bool_]:
        """Paths along which the explanation does not change."""
        return np.asarray((np.nan_to_num(measured["explanation"], nan=1.0) == 0).all(axis=2))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class FastGEF(Alignment):
    """Whether the explanation changes as much as the model while noise on the weights grows: a rank correlation (eq. 6 and 10)."""

    name = "fast_gef"
    title = "Fast-GEF"


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class GEF(Alignment):
    """Fast-GEF with the length of the explanation's path in place of the distance between its ends (eq. 10-13).

    Normalised explanations (eq. 21) lie on a sphere, so the segments of a path are measured by their angle. Straight chords cut the
    corners of long segments: a longer path could seem shorter.
    """

    name = "gef"
    title = "GEF"
    measure: Measure | None = field(default_factory=lambda: angle)
    segments: Count = 5


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class InputAlignment(Alignment):
    """Whether the explanation changes as much as the model while noise on the input grows: a rank correlation (section 4.1).

    Fast-GEF with x + sigma_z eta, sigma_z = z sigma / Z, in place of the scaled weights; each sample has its own M draws of noise. Very
    noisy inputs are often all assigned to a few classes, so predictions agree with the original ones more often than by chance, however
    strong the noise: no sigma can be found then, and you have to give one.
    """

    name = "input_alignment"
    steps: Count = 10

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation: noise on its input."""
        if self.segments != 1 or self.first is not None:
            raise SpecError(f"The score '{self.name}' goes straight from the input to each level: it takes neither segments nor first.")
        noise = GaussianNoise(sigma=self.sigma, levels=self.steps, independent=self.independent)
        return tuple(replace(request, space=noise.fit(subject.shape)) for request in super().requests(subject, defaults))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RefitGEF(Alignment):
    """Whether the explanation of an estimator changes as much as the estimator while its training data get worse: a rank correlation.

    Fast-GEF for models without weights, such as trees. Level z of Z is the estimator fitted again with a share z / Z of the training
    rows replaced by others; with `shuffle` their labels are exchanged, too. This form is ours: the paper perturbs weights alone.
    """

    name = "refit_gef"
    title = "Refit-GEF"
    shuffle: bool = True

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation: refits of its estimator."""
        if self.segments != 1 or self.first is not None or self.sigma is not None or self.independent:
            raise SpecError(f"The score '{self.name}' refits an estimator: it takes neither sigma, segments, first nor independent.")
        space = Refits(steps=self.steps, shuffle=self.shuffle)
        return tuple(replace(request, space=space) for request in super().requests(subject, defaults))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class PublicFastGEF(Alignment):
    """Fast-GEF as in its authors' code: independent noise at each level, and a first level of 0.001.

    The first level ranks lowest in both distortions for every explainer, so one that has nothing to do with the model scores `null`
    instead of 0. Use it only for comparison with the published tables.
    """

    name = "fast_gef_public"
    title = "Fast-GEF (public variant)"
    independent: bool = True
    first: Positive | None = 0.001
    common_draws: bool = False

    @property
    def null(self) -> float | None:
        """The expected rank correlation of two vectors that share only their lowest entry; 0.5 for five levels."""
        if self.first is None:
            return None
        rest = self.steps - 1
        return 1.0 - rest * (rest**2 - 1) / (self.steps * (self.steps**2 - 1))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class PublicGEF(PublicFastGEF):
    """GEF as in its authors' code: a running mean, over the levels, of the fourth power of the explanation's change.

        D_phi^z = 1 / ((z + 1) T) sum over z' <= z and t of (de' J)^2,   de = e - e(theta_z't),   z = 0..Z-1

    Each of the T explanations per level has its own noise, of strengths evenly spaced from 1e-4 to sigma_z', and D_f^z has another one
    of strength sigma_z. J is the mean of e - e_k over K more explanations e_k with the same weights: for a deterministic explainer
    J = de, and each explanation adds |de|^4. Explanations are divided by their root mean square over the *whole data set*. Squares are
    means over a map's entries, so D_phi does not depend on the map's size.

    The mean includes the weak levels, so D_phi grows with z even if the explanation's change does not: a deterministic explanation that
    changes only after the first level scores the rank correlation of D_f with z, which may be 0.9. Its `null` is therefore unknown. Use
    it only for comparison with the published tables.
    """

    name = "gef_public"
    title = "GEF (public variant)"
    quantities: ClassVar[tuple[str, ...]] = ("model", "start_square", "square", "start_product", "lead_product")
    segments: Count = 10
    repeats: Count = 10

    @property
    def null(self) -> float | None:
        """Unknown: it depends on how the model's change grows with the level."""
        return None

    def path(self, explainer: Explainer) -> FreshScaling:
        """With repeats for a random explainer only."""
        if not self.independent:
            raise SpecError(f"The score '{self.name}' has independent noise at every level: leave out independent=False, or use 'gef'.")
        if self.compare.name != l2.name:
            raise SpecError(
                f"The score '{self.name}' compares explanations by l2 only, not by '{self.compare.name}': use 'gef' for others."
            )
        repeats = self.repeats if explainer.stochastic else 0
        return FreshScaling(sigma=self.sigma, steps=self.steps, segments=self.segments, first=self.first, repeats=repeats)

    def observe(self, pair: Pair) -> Tensor:
        """D_f, and mean products of three explanations: of the unperturbed model, this one, and the one that it repeats."""
        after, lead = (reading.explanation.flatten(1).double() for reading in (pair.after, pair.before))
        start = lead if pair.start is None else pair.start.flatten(1).double()
        products = [(first * second).mean(1) for first, second in ((start, start), (after, after), (start, after), (lead, after))]
        return torch.stack((self.model_distortion(pair), *products), dim=1)

    def products(self, measured: Measured) -> list[Array]:
        """The products, (samples, draws, Z, T, 1 + K) each."""
        shape = (*measured["model"].shape[:2], self.steps, -1)
        return [measured[name].reshape(shape)[..., :-1].reshape(*shape[:3], self.segments, -1) for name in self.quantities[1:]]

    def distortions(self, measured: Measured) -> tuple[Array, Array]:
        """d_f and d_phi, (samples, draws, Z) each."""
        model = measured["model"].reshape(*measured["model"].shape[:2], self.steps, -1)[..., -1]
        return model, running_mean(self.changes(*self.products(measured)) ** 2)

    def changes(self, start_square: Array, square: Array, start_product: Array, lead_product: Array) -> Array:
        """de' J of every explanation, (samples, draws, Z, T)."""
        unit, ratio = np.ones(()), np.ones((1, *square.shape[1:]))
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.normalise:
                unit = over_samples(start_square)[..., :1]
                ratio = np.sqrt(over_samples(start_square) / over_samples(square))
            ratio = np.where(np.isfinite(ratio), ratio, np.nan)
            first, others = ratio[..., :1], ratio[..., 1:]
            if others.shape[-1] == 0:
                found = start_square - 2 * first * start_product + first**2 * square
            else:
                met = (first * others * lead_product[..., 1:] - others * start_product[..., 1:]).mean(axis=-1, keepdims=True)
                found = start_square[..., :1] - first * start_product[..., :1] + met
            return np.asarray((found / unit)[..., 0], dtype=np.float64)

    def silent_draws(self, measured: Measured) -> NDArray[np.bool_]:
        """Paths along which the explanation does not change."""
        start_square, square, start_product, _ = self.products(measured)
        return np.asarray(((start_square == square) & (start_square == start_product)).all(axis=(2, 3, 4)))


def over_samples(values: Array) -> Array:
    """The mean of the finite values over the samples, the first axis; NaN if there are none.

    >>> over_samples(np.array([[1.0, np.nan], [3.0, np.nan]]))
    array([[ 2., nan]])
    """
    known = np.isfinite(values)
    return np.asarray(
        np.where(known, values, 0.0).sum(axis=0, keepdims=True) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)[None]
    )
