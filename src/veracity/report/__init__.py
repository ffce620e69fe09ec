"""The pages of results: one HTML file each that needs nothing else.

Importing this package registers a renderer for every kind of result (`RENDERERS`) and the figures that scores name (`FIGURES`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from veracity.core.registry import RENDERERS
from veracity.engine.store.manifest import Kind
from veracity.report.degradation import render_degradation
from veracity.report.distances import render_distances
from veracity.report.figure import Figure, Plot, SharedFigure, sign, signs
from veracity.report.figures import (
    adversaries,
    alignment,
    convergence,
    curves,
    histograms,
    invariance,
    robustness,
    search,
    selection,
    sensitivity,
    symmetrisation,
)
from veracity.report.html import render_several
from veracity.report.interactive import render_offline
from veracity.report.meta import render_meta
from veracity.report.page import render
from veracity.report.reading import Reading


@dataclass(frozen=True)
class Renderer:
    """What makes a page of one kind of result: `render(result, **options)` is the HTML."""

    name: str
    render: Callable[..., str]


for renderer in (
    Renderer(Kind.AUDIT, render),
    Renderer(Kind.ORBITS, render_offline),
    Renderer(Kind.META, render_meta),
    Renderer(Kind.DEGRADATION, render_degradation),
    Renderer(Kind.DISTANCES, render_distances),
    Renderer(Kind.AUDITS, render_several),
):
    RENDERERS.add(renderer)
