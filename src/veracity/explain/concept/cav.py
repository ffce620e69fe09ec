"""Concept activation vectors: is the concept on this side of a hyperplane?"""

from __future__ import annotations

from dataclasses import dataclass

from veracity.core.registry import EXPLAINERS
from veracity.explain.concept.linear import LinearConcepts


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class CAV(LinearConcepts):
    """Which concepts a linear classifier sees in a layer: e_c(x) = [w_c · h(x) + b_c > 0], bits (N, C).

    Invariant if the layer is (Proposition D.14); what is learnt and what is left out: see `ConceptExplainer`.
    """

    name = "cav"
    reference = "Kim et al. 2018, arXiv:1711.11279"
    categorical = True

    @property
    def signed(self) -> bool:
        """Zero or one."""
        return False
