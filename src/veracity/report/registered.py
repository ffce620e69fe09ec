"""Registers the figures that scores name (`FIGURES`) and a renderer for every kind of result (`RENDERERS`); both look here first.

The pages of studies and orbit evaluations are imported when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from veracity.core.registry import RENDERERS
from veracity.engine.store.manifest import Kind
from veracity.report import figures
from veracity.report.page import render


@dataclass(frozen=True)
class Renderer:
    """What makes a page of one kind of result: `render(result, **options)` is the HTML."""

    name: str
    render: Callable[..., str]


def render_later(module: str, function: str, result: Any, **options: Any) -> str:
    """Call a function of a module of this package that is imported only now."""
    return str(getattr(import_module(f"veracity.report.{module}"), function)(result, **options))


for module in iter_modules(figures.__path__):
    import_module(f"{figures.__name__}.{module.name}")
RENDERERS.add(Renderer(Kind.AUDIT, render))
RENDERERS.add(Renderer(Kind.AUDITS, partial(render_later, "joint", "render_several")))
RENDERERS.add(Renderer(Kind.ORBITS, partial(render_later, "interactive.offline", "render_offline")))
RENDERERS.add(Renderer(Kind.META, partial(render_later, "meta", "render_meta")))
RENDERERS.add(Renderer(Kind.DEGRADATION, partial(render_later, "degradation", "render_degradation")))
RENDERERS.add(Renderer(Kind.DISTANCES, partial(render_later, "distances", "render_distances")))
RENDERERS.add(Renderer("leaderboard", partial(render_later, "leaderboard", "render")))
RENDERERS.add(Renderer(Kind.EXAMPLES, partial(render_later, "examples", "render_examples")))
RENDERERS.add(Renderer("examination", partial(render_later, "examination", "render_examination")))
