"""Planted truth: models whose rule is known, samples that show it, and `examine`, which asks explainers for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from veracity.core.lazy import lazy

if TYPE_CHECKING:
    from veracity.planted.examination import Examination, Finding, Verdict
    from veracity.planted.suite import MODALITIES, examine
    from veracity.planted.task import Planted, PlantedTask

__getattr__, __dir__ = lazy(__name__)
__all__ = sorted(__dir__())
