"""The report of a run: one HTML file that needs nothing else."""

from veracity.report.page import render, write
from veracity.report.view import RunView, WorstPair

__all__ = ["RunView", "WorstPair", "render", "write"]
