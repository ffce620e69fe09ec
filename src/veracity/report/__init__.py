"""The report of a run: one HTML file that needs nothing else."""

from veracity.report.joint import render_joint, write_joint
from veracity.report.meta import render_meta, write_meta
from veracity.report.page import render, write
from veracity.report.view import RunView, WorstPair

__all__ = ["RunView", "WorstPair", "render", "render_joint", "render_meta", "write", "write_joint", "write_meta"]
