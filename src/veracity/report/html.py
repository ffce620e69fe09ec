"""The templates of all pages, and the page of an unfinished orbit evaluation, which is only a table."""

from __future__ import annotations

import base64
import hashlib
import math
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from veracity.core.wording import compact, count, day, decimals, interval, number
from veracity.engine.store.state import Progress
from veracity.report.wording import ARROWS, GUIDELINES, breakable, capital, frame_title, missing, say, title_of


@cache
def environment() -> Environment:
    """Templates with escaping on and the style sheet at hand."""
    made = Environment(
        loader=PackageLoader("veracity.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(
        number=number, interval=interval, title_of=title_of, compact=compact, count=count, decimals=decimals, frame_title=frame_title
    )
    made.filters.update(breakable=breakable, capital=capital)
    made.globals.update(style=Markup(own_file("style.css")), say=say, arrows=ARROWS, guidelines=GUIDELINES)
    made.tests["finite"] = math.isfinite
    return made


def own_file(name: str) -> str:
    """The text of a file of this package."""
    return resources.files("veracity.report").joinpath(name).read_text(encoding="utf-8")


def template(name: str) -> Template:
    """One of the page templates."""
    return environment().get_template(name)


def draw(macro: str, *parts: Any) -> Markup:
    """A table or another part of a page, drawn by the macro of that name in `parts.html.j2`."""
    drawn: Markup = getattr(template("parts.html.j2").module, macro)(*parts)
    return drawn


def csp_hash(text: str) -> str:
    """The hash by which a content security policy allows an inline script or style.

    >>> csp_hash("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def now() -> str:
    """The time at which a page is made."""
    return day(datetime.now(UTC).isoformat(timespec="minutes"))


def cells(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """A table as its columns and its cells: nothing for what is missing, three decimals for what is not whole."""

    def text(value: Any) -> str:
        if missing(value):
            return ""
        return f"{value:.3f}" if isinstance(value, float) else str(value)

    return list(table.columns), [[text(value) for value in row] for row in table.to_numpy(dtype=object)]


def render_waiting(title: str, progress: Progress, standing: pd.DataFrame) -> str:
    """A page of one table (model, explainer, state, cells, cells_measured, cells_failed, failed) under the state of the run."""
    rows = standing.to_dict("records")
    return template("waiting.html.j2").render(title=title, progress=progress, snapshot=now(), rows=rows)
