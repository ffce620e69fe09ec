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
    """What makes a page of one kind of result: `render(result, **options)` is the HTML.

    `brief(result)` is a shorter page without scripts, for notebooks; `figure(result, name, score)` is one of its figures.
    """

    name: str
    render: Callable[..., str]
    brief: Callable[[Any], str] | None = None
    figure: Callable[..., Any] | None = None


def call_later(module: str, function: str, result: Any, *more: Any, **options: Any) -> Any:
    """Call a function of a module of this package that is imported only now."""
    return getattr(import_module(f"veracity.report.{module}"), function)(result, *more, **options)


def render_later(module: str, function: str, result: Any, **options: Any) -> str:
    """Make a page by a function of a module of this package that is imported only now."""
    return str(call_later(module, function, result, **options))


for module in iter_modules(figures.__path__):
    import_module(f"{figures.__name__}.{module.name}")
RENDERERS.add(
    Renderer(
        Kind.AUDIT, render, brief=partial(render_later, "notebook", "brief_audit"), figure=partial(call_later, "drawing", "audit_figure")
    )
)
RENDERERS.add(Renderer(Kind.AUDITS, partial(render_later, "joint", "render_several")))
RENDERERS.add(
    Renderer(
        Kind.ORBITS,
        partial(render_later, "interactive.offline", "render_offline"),
        brief=partial(render_later, "notebook", "brief_orbits"),
        figure=partial(call_later, "drawing", "orbit_figure"),
    )
)
RENDERERS.add(Renderer(Kind.META, partial(render_later, "meta", "render_meta")))
RENDERERS.add(Renderer(Kind.DEGRADATION, partial(render_later, "degradation", "render_degradation")))
RENDERERS.add(Renderer(Kind.DISTANCES, partial(render_later, "distances", "render_distances")))
RENDERERS.add(Renderer("leaderboard", partial(render_later, "leaderboard", "render")))
RENDERERS.add(Renderer(Kind.EXAMPLES, partial(render_later, "examples", "render_examples")))
RENDERERS.add(Renderer("examination", partial(render_later, "examination", "render_examination")))
