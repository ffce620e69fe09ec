"""The randomisation test with explanations that are averaged over noise."""

from __future__ import annotations

from dataclasses import dataclass

from veracity.core.registry import SCORES
from veracity.core.scores import Smoothing, Subject
from veracity.core.settings import Count, Positive
from veracity.interpret.randomisation.mprt import MPRT
from veracity.perturb.noise import GaussianNoise


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class SmoothMPRT(MPRT):
    """The randomisation test from the input up, on explanations averaged over noise, so that shattered gradients count less (eq. 31).

        q = mean over l of rho(mean over i of e(x + n_i), mean over i of e_l(x + n_i)),   n_i ~ N(0, noise_magnitude^2)

    with `nr_samples` draws of noise a sample, the same ones for e and for every e_l. Lower is better. In Quantus 0.6.0 the
    noise is a share of the sample's range, which is the same for inputs from 0 to 1, and one of the draws is without noise.
    """

    name = "smooth_mprt"
    reference = "Hedström et al., A fresh look at sanity checks for saliency maps (2024)"
    layer_order: str = "bottom_up"
    nr_samples: Count = 5
    noise_magnitude: Positive = 0.01

    def smoothing(self, subject: Subject) -> Smoothing:
        """The noise around the input."""
        return Smoothing(GaussianNoise(sigma=self.noise_magnitude).fit(subject.shape), self.nr_samples)
