"""The page of several runs that belong together: where each one's report is, and their numbers below each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from veracity.report.page import saved, template


def render_joint(title: str, links: Mapping[str, str], tables: Mapping[str, pd.DataFrame]) -> str:
    """Links to reports by name and tables by heading as one HTML page; everything that users typed is escaped."""
    found = [
        (heading, list(table.columns), [[cell(value) for value in row] for row in table.to_numpy()]) for heading, table in tables.items()
    ]
    return template("joint.html.j2").render(title=title, links=list(links.items()), tables=found)


def write_joint(title: str, links: Mapping[str, str], tables: Mapping[str, pd.DataFrame], path: str | Path) -> Path:
    """Write the page to a file and return the file's path."""
    return saved(lambda: render_joint(title, links, tables), path)


def cell(value: Any) -> str:
    """A value as the page shows it: nothing for what is missing, three decimals for what is not whole."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
