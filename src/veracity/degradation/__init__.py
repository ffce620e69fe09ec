"""Degradation check: a score is measured again on models that are damaged more and more, and a good one follows the damage down.

Two damages of Fel et al. (sections 4.2 and E.2): Gaussian noise on a share of each convolution's weights, and training on a share
of wrong labels. Every seed is one block: a model, and the same model damaged a little, more, and much. Any score can be asked.
"""

from veracity.degradation.check import DegradationCheck, begun
from veracity.degradation.result import DegradationResult

__all__ = ["DegradationCheck", "DegradationResult", "begun"]
