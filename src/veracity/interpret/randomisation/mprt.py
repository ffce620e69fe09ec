"""Does an explanation survive the randomisation of the model's layers, one after the other?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Request, Score, Subject
from veracity.core.spaces import Space
from veracity.interpret.assumptions import ModelSensitivity
from veracity.interpret.common import across_levels, check_levels
from veracity.interpret.randomisation.base import SurvivalScore
from veracity.perturb.weights import LayerRandomisation


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class MPRT(SurvivalScore):
    """The model parameter randomisation test: how alike e is to the explanation e_l of the model with random layers (eq. 30).

        q = mean over l of rho(e, e_l),   l = the layers randomised so far, from the output down

    Lower is better. `layers` is "mean", or "last" for the model without any layer of its own left; the similarity at every
    level is kept. Quantus 0.6.0 counts the unrandomised model (similarity 1) into its average, and compares magnitudes
    unless told otherwise (`absolute`).
    """

    name = "mprt"
    reference = "Adebayo et al., Sanity checks for saliency maps (NeurIPS 2018)"
    layer_order: str = "top_down"
    layers: str = "mean"

    @property
    def instead(self) -> Space:
        """Random layers."""
        return LayerRandomisation(direction=self.layer_order)

    @property
    def assumption(self) -> Score:
        """That the model's output changes with the same layers."""
        return ModelSensitivity(layer_order=self.layer_order, layers=self.layers, walk=self.walk)

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation: the randomised copies."""
        check_levels(self.layers)
        return super().requests(subject, defaults)

    def values(self, measured: Measured) -> Array:
        """The mean over the layers, or the last of them."""
        return across_levels(measured["value"], self.layers)
