"""Studies: questions that take more than one audit to answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from veracity.core.lazy import lazy

if TYPE_CHECKING:
    from veracity.studies.advice import Advice, advise
    from veracity.studies.degradation import DegradationCheck, DegradationResult
    from veracity.studies.distance_check import DistanceCheck, DistanceResult
    from veracity.studies.example_check import ExampleCheck, ExampleResult
    from veracity.studies.meta import MetaEvaluation, MetaResult
    from veracity.studies.result import StudyResult, load
    from veracity.studies.several import Audits, JointResult
    from veracity.studies.sparse_features import sae_report, sparsity_correlation
    from veracity.studies.symmetry_scan import Scan, scan

__getattr__, __dir__ = lazy(__name__)
