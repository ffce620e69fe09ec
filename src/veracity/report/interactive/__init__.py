"""The interactive interface of an orbit evaluation: its answers, and the file that holds all of them."""

from veracity.report.interactive.offline import render_offline
