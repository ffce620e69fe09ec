"""The pages of results: one HTML file each that needs nothing else. Names are loaded on first use, since the terminal's tables take
their words from here and draw nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veracity.core.lazy import lazy

if TYPE_CHECKING:
    from veracity.report.figure import Figure, Plot, SharedFigure, sign, signs
    from veracity.report.leaderboard import Leaderboard
    from veracity.report.page import render
    from veracity.report.reading import RunReading
    from veracity.report.registered import Renderer

__getattr__, __dir__ = lazy(__name__)
