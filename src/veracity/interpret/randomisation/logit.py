"""Does an explanation depend on which class it explains?"""

from __future__ import annotations

from dataclasses import dataclass, field

from veracity.core.registry import SCORES
from veracity.core.spaces import Space
from veracity.core.walks import Walk
from veracity.interpret.randomisation.base import SurvivalScore
from veracity.perturb.retarget import OtherClass
from veracity.walk import MonteCarlo


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RandomLogit(SurvivalScore):
    """The random logit test: how alike the explanations of the target and of another class, drawn at random, are: rho(e_c, e_k).

    Lower is better: an explanation that is the same for every class does not explain any. By Spearman's correlation, which
    any shape has, where Sixt et al. and Quantus 0.6.0 take the structural similarity of images: measure=ssim. Every sample has
    a class of its own, so that one draw is enough.
    """

    name = "random_logit"
    reference = "Sixt, Granz and Landgraf, When explanations lie: why many modified BP attributions fail (ICML 2020)"
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=1))

    @property
    def instead(self) -> Space:
        """Another class."""
        return OtherClass()
