"""The report of a run: one HTML file that needs nothing else."""

from veracity.report.degradation import render_degradation, write_degradation
from veracity.report.distances import render_distances, write_distances
from veracity.report.joint import render_joint, write_joint
from veracity.report.meta import render_meta, write_meta
from veracity.report.page import render, write
from veracity.report.view import RunView, WorstPair
