"""Feature visualisation: images that a model's class, or another of its scores, responds to most.

All classes of a copy of the model are optimised together, each with its own random numbers. A trajectory goes through all of its
`stops`: explainers that differ only in the stop at which they read it share it, so three settings cost as much as the longest one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer, InputObserver, Learner
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, Fraction, NonNegative, Positive, Share, Whole
from veracity.explain.gradients import check_gradient
from veracity.explain.passes import pairs, pick
from veracity.explain.visualise.base import GlobalExplainer
from veracity.explain.visualise.images import (
    NAdam,
    blur,
    boxes,
    can_be_cropped,
    crop,
    mean_amplitude,
    picture,
    resized_amplitude,
    spectral_scale,
    standardise,
    without_smallest,
)
from veracity.explain.wrapper import computed

PAPER = "Hedström et al. 2025, section 6"


@dataclass(frozen=True, kw_only=True)
class Visualisation(GlobalExplainer, ABC):
    """An image per class, found by `steps` steps of gradient ascent on the class's score.

    Explainers that share a trajectory name the same `stops`, one of which is their own number of steps. With `grey`, the image is
    averaged over its channels. With `common`, random numbers are the same for every copy of a model, so that an image moves only
    if the model does. Without, every copy starts anew, as in the public code, and the restart moves the image too.
    """

    stochastic: ClassVar[bool] = computed(lambda self: not self.common)
    by_row: ClassVar[bool] = True
    steps: Whole = 100
    stops: tuple[int, ...] = ()
    grey: bool = False
    common: bool = True

    def at(self, *stops: int) -> list[Self]:
        """One explainer for each stop of a single trajectory.

        >>> [one.steps for one in Fourier().at(50, 100, 250)]
        [50, 100, 250]
        """
        ordered = tuple(sorted(stops))
        return [replace(self, steps=stop, stops=ordered) for stop in ordered]

    @property
    def lesson(self) -> Learner:
        """The whole trajectory."""
        return replace(self, steps=self.path[-1])

    @property
    def path(self) -> tuple[int, ...]:
        """The steps at which the trajectory is kept."""
        if self.stops and (self.steps not in self.stops or list(self.stops) != sorted(set(self.stops)) or self.stops[0] < 0):
            raise SpecError(
                f"The setting 'stops' of '{self.name}' must be increasing numbers of steps with steps={self.steps} among them, "
                f"not {list(self.stops)}."
            )
        return self.stops or (self.steps,)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless inputs are images, stops make sense, and the model has gradients."""
        self.check_images(inputs)
        check_gradient(self.name, model, inputs, targets)
        return ()

    def check_images(self, inputs: Tensor) -> None:
        """Raise unless inputs are images, and stops make sense."""
        if inputs.ndim != 4 or not inputs.is_floating_point():
            raise InputError(
                f"{self.name} makes images, (channels, height, width) of floating-point numbers, but one input is {inputs.dtype} of shape "
                f"{tuple(inputs.shape[1:])}: leave it out, or use natural_activation."
            )
        _ = self.path

    @property
    def shown(self) -> str | None:
        return name_of(self.steps)

    def lesson_cost(self, shape: Size, classes: int) -> Cost:
        """A forward and a backward pass of each view per step."""
        rows = self.path[-1] * self.lesson_rows(shape, classes)
        return Cost(forward=rows, backward=rows)

    def lesson_rows(self, shape: Size, classes: int) -> int:
        """All views of the images of all classes."""
        return classes * self.views(shape)

    def views(self, shape: Size) -> int:
        """How many views of an image go through the model in each step."""
        return 1

    def explain_classes(self, model: nn.Module, classes: Tensor, draws: Draws, like: Tensor, context: Context) -> Mapping[str, Tensor]:
        """The images (C, channels, H, W) at every stop."""
        self.check_images(like)
        path, found = self.path, {}
        for step, images in enumerate(self.trajectory(model, classes.to(like.device), draws.to(like.device), like, context)):
            if step in path:
                found[name_of(step)] = images.mean(1, keepdim=True) if self.grey else images.clone()
            if step == path[-1]:
                break
        return found

    @abstractmethod
    def trajectory(self, model: nn.Module, classes: Tensor, draws: Draws, like: Tensor, context: Context) -> Iterator[Tensor]:
        """The images (C, channels, H, W) of inputs like (1, channels, H, W) before the first step, after it, and so on without end."""

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        if self.stops and not context.learnt:  # nobody shares this trajectory, which may then end here
            _ = self.path
            return replace(self, stops=()).explain(model, inputs, targets, context)
        return super().explain(model, inputs, targets, context)

    def read(self, learnt: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """The images at this explainer's own stop."""
        images = learnt[name_of(self.steps)]
        return images[rows.to(images.device)]


def name_of(step: int) -> str:
    """The name of the images after some steps."""
    return f"step {step}"


@dataclass(frozen=True, kw_only=True)
class SpectralVisualisation(Visualisation, ABC):
    """A visualisation whose image is given by its spectrum, and whose score is the mean over noisy random crops.

    Each step of NAdam, with its `rate`, follows the gradient of the mean score over `crops` square crops, enlarged to the size of
    the image. Their sides are between `smallest` and `largest` of the image's. Gaussian noise of standard deviation `noise` is added
    to each crop. Crops are at least 8 pixels wide; images that are too small for that are seen whole, once per step. The values of
    the image lie within plus and minus `span`.
    """

    rate: Positive = 1.0
    crops: Count = 6
    smallest: Fraction = 0.20
    largest: Fraction = 0.25
    noise: NonNegative = 0.1
    span: Positive = 2.5

    def views(self, shape: Size) -> int:
        return self.crops if can_be_cropped((shape[-2], shape[-1]), self.largest) else 1

    @abstractmethod
    def start(self, draws: Draws, like: Tensor) -> Tensor:
        """Random parameters (C, ...) of the first images."""

    @abstractmethod
    def spectrum(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        """A function from parameters to complex spectra (C, channels, H, W // 2 + 1)."""

    def trajectory(self, model: nn.Module, classes: Tensor, draws: Draws, like: Tensor, context: Context) -> Iterator[Tensor]:
        parameters, spectrum, size = self.start(draws, like).to(like), self.spectrum(like), (like.shape[-2], like.shape[-1])
        optimiser, step = NAdam(parameters, self.rate), 0
        while True:
            with torch.enable_grad():
                leaf = parameters.detach().requires_grad_()
                images = picture(spectrum(leaf), size, self.span)
            yield images.detach()
            slope = self.slope(model, images.detach(), classes, draws, step, context)
            (gradient,) = torch.autograd.grad(images, leaf, -slope)
            parameters = parameters + optimiser.change(gradient)
            step += 1

    def slope(self, model: nn.Module, images: Tensor, classes: Tensor, draws: Draws, step: int, context: Context) -> Tensor:
        """The gradient of the mean score over all views in the images, (C, channels, H, W)."""
        total, views = torch.zeros_like(images), self.views(images.shape)
        for row, item in pairs(len(images), views, context.batch, images.device):
            own = Draws(draws.seed, draws.sample[row], draws.draw[row], step * views + item)
            leaf = images[row].requires_grad_()
            with torch.enable_grad():
                seen = leaf
                if views > 1:
                    seen = crop(leaf, boxes(own, (self.smallest, self.largest), min(images.shape[-2:])))
                noise = own.normal(*images.shape[1:], stream="visualisation noise").to(images)
                score = pick(model(seen + self.noise * noise), classes[row]).sum() / views
                total.index_add_(0, row, torch.autograd.grad(score, leaf)[0])
        return total


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Fourier(SpectralVisualisation):
    """Feature visualisation in the Fourier basis: a free spectrum, divided by max(frequency, 1 / side)^`decay`.

    The image is the standardised inverse transform, in decorrelated colours, with a sigmoid to ±2.5.
    """

    name = "fourier_visualisation"
    reference = f"Olah et al. 2017, doi:10.23915/distill.00007; {PAPER}"
    decay: NonNegative = 1.5

    def start(self, draws: Draws, like: Tensor) -> Tensor:
        _, channels, height, width = like.shape
        return draws.normal(channels, height, width // 2 + 1, 2, stream="visualisation start")

    def spectrum(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        scale = spectral_scale(like.shape[-2], like.shape[-1], self.decay, like)[..., None]
        return lambda parameters: torch.view_as_complex(parameters * scale)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Maco(SpectralVisualisation, InputObserver):
    """Magnitude-constrained feature visualisation: the spectrum's amplitudes are given, and its phases are optimised.

    The `amplitude` (channels, H, W // 2 + 1), in decorrelated colours, may have another size; None is the mean over the audit's inputs.
    """

    name = "maco"
    title = "MACO"
    reference = f"Fel et al. 2023, arXiv:2306.06805; {PAPER}"
    amplitude: Tensor | None = None

    def prepare(self, inputs: Tensor) -> Explainer:
        """With the mean amplitude of the inputs, unless one was given."""
        if self.amplitude is not None or inputs.ndim != 4 or not inputs.is_floating_point():
            return self
        return replace(self, amplitude=mean_amplitude(inputs))

    def check_images(self, inputs: Tensor) -> None:
        super().check_images(inputs)
        given = self.amplitude
        if given is not None and (given.ndim != 3 or not bool((given >= 0).all()) or not bool((given > 0).any())):
            raise InputError(
                f"The amplitude of maco must be (channels, height, width // 2 + 1) of numbers that are not negative, not a tensor of shape "
                f"{tuple(given.shape)} with values from {float(given.min()):g}: leave it out to use the mean of your inputs."
            )

    def start(self, draws: Draws, like: Tensor) -> Tensor:
        _, channels, height, width = like.shape
        return draws.normal(channels, height, width // 2 + 1, stream="visualisation start")

    def spectrum(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        if self.amplitude is None:
            raise InputError("maco has no amplitudes yet: pass amplitude=..., or let it see your inputs first, maco.prepare(inputs).")
        amplitude = resized_amplitude(self.amplitude.to(like), like.shape[1], (like.shape[-2], like.shape[-1]))

        def with_phases(parameters: Tensor) -> Tensor:
            phases = standardise(parameters)
            return torch.complex(amplitude * phases.cos(), amplitude * phases.sin())

        return with_phases


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class DeepViz(Visualisation):
    """Feature visualisation in pixels with the regularisers of Yosinski et al.: decay, blur, and crops of small values.

    Each step adds `rate` times the gradient to an image that begins as uniform noise, and takes away the share `decay` of it. A
    Gaussian of `blur_width` pixels blurs it at every `blur_every`-th step. Then the share `norm_crop` of pixels with the smallest norm
    over channels becomes 0, and so does the share `value_crop` of values that are smallest. The image with the largest score so far
    is kept.
    """

    name = "deep_visualisation"
    title = "Deep-Viz"
    reference = f"Yosinski et al. 2015, arXiv:1506.06579; {PAPER}"
    rate: Positive = 50.0
    decay: Share = 0.1
    blur_width: Positive = 1.0
    blur_every: Count = 4
    norm_crop: Share = 0.3
    value_crop: Share = 0.3

    def lesson_cost(self, shape: Size, classes: int) -> Cost:
        """One forward pass more than backward passes, for the score of the last image."""
        steps = self.path[-1]
        return Cost(forward=(steps + 1) * classes, backward=steps * classes) if steps else Cost()

    def trajectory(self, model: nn.Module, classes: Tensor, draws: Draws, like: Tensor, context: Context) -> Iterator[Tensor]:
        images = draws.uniform(*like.shape[1:], stream="visualisation start").to(like)
        yield images
        best, highest, step = images, torch.full((len(images),), -torch.inf, dtype=like.dtype, device=like.device), 0
        _, slope = score_and_slope(model, images, classes, context.batch)
        while True:
            images = self.regularised((images + self.rate * slope()) * (1.0 - self.decay), step)
            score, slope = score_and_slope(model, images, classes, context.batch)
            better = score > highest
            highest = torch.where(better, score, highest)
            best = torch.where(better.reshape(-1, 1, 1, 1), images, best)
            yield best
            step += 1

    def regularised(self, images: Tensor, step: int) -> Tensor:
        """Images after the regularisers of one step."""
        if step % self.blur_every == 0:
            images = blur(images, self.blur_width)
        images = without_smallest(images, images.norm(dim=1, keepdim=True), self.norm_crop)
        return without_smallest(images, images.abs(), self.value_crop)


def score_and_slope(model: nn.Module, images: Tensor, classes: Tensor, batch: int) -> tuple[Tensor, Callable[[], Tensor]]:
    """The scores (C,) of images for their classes, and a function that gives their gradients (C, ...), if they are needed."""
    leaves = [part.detach().requires_grad_() for part in images.split(batch)]
    with torch.enable_grad():
        scores = [pick(model(leaf.clone()), chosen) for leaf, chosen in zip(leaves, classes.split(batch), strict=True)]

    def slope() -> Tensor:
        return torch.cat(torch.autograd.grad(scores, leaves, [torch.ones_like(score) for score in scores]))

    return torch.cat(scores).detach(), slope
