"""The page of an orbit evaluation that has no plots yet: how far each model is."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from veracity.engine.store.state import Progress
from veracity.report.page import now, saved, template


def render_waiting(title: str, progress: Progress, standing: pd.DataFrame) -> str:
    """A page of one table (model, explainer, state, cells, cells_measured, cells_failed, failed) under the state of the run."""
    rows = standing.to_dict("records")
    return template("waiting.html.j2").render(title=title, progress=progress, snapshot=now(), rows=rows)


def write_waiting(title: str, progress: Progress, standing: pd.DataFrame, path: str | Path) -> Path:
    """Write the page to a file and return the file's path."""
    return saved(lambda: render_waiting(title, progress, standing), path)
