"""Pages of results: a renderer of the registry `RENDERERS` makes the HTML, this module writes it to a file or into a notebook.

The report registers the renderers, so that results know nothing of how they are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from veracity.core.errors import StoreError
from veracity.core.registry import RENDERERS
from veracity.engine.store.files import write_whole

FRAME = '<iframe srcdoc="{}"{} style="width: 100%; height: 45rem; border: 0"></iframe>'


def page_of(kind: str, result: Any, **options: Any) -> str:
    """The page of a result of this kind, as one HTML text."""
    text: str = RENDERERS[kind].render(result, **options)
    return text


def save_page(kind: str, result: Any, path: str | Path, **options: Any) -> Path:
    """Write the page of a result to a file and return the file's path."""
    return save_text(lambda: page_of(kind, result, **options), path)


def save_text(make: Callable[[], str], path: str | Path) -> Path:
    """Make a text and write it to a file; raises before it is made if the path is a folder."""
    target = Path(path)
    if target.is_dir():
        raise StoreError(f"The report needs a file to write to, not the folder '{target}': give a name such as '{target / 'report.html'}'.")
    text = make()
    try:
        write_whole(target, text.encode())
    except OSError as error:
        raise StoreError(
            f"The report cannot be written to '{target}': {error.strerror}. Give a file in a folder that you may write to."
        ) from error
    return target


def framed_page(kind: str, result: Any) -> str:
    """The page of a result in a frame of its own, for a notebook: the short one without scripts if there is one, or else the whole page."""
    brief = RENDERERS[kind].brief
    return frame(page_of(kind, result), scripts=True) if brief is None else frame(brief(result))


def frame(page: str, *, scripts: bool = False) -> str:
    """A page in a frame of its own, so that its names and styles are apart from those of a notebook; scripts run only if they may."""
    return FRAME.format(escape(page), "" if scripts else ' sandbox=""')


def figure_of(kind: str, result: Any, name: str, score: str | None) -> Any:
    """A figure of a result's page by its name."""
    return RENDERERS[kind].figure(result, name, score)
