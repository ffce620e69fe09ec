"""Robustness: how much an explanation changes for a little noise on its input, in relation to input, output or a layer."""

from veracity.interpret.relative.change import relative_change
from veracity.interpret.relative.input import RelativeInputStability
from veracity.interpret.relative.lipschitz import LocalLipschitz
from veracity.interpret.relative.output import RelativeOutputStability
from veracity.interpret.relative.representation import RelativeRepresentationStability

__all__ = ["LocalLipschitz", "RelativeInputStability", "RelativeOutputStability", "RelativeRepresentationStability", "relative_change"]
