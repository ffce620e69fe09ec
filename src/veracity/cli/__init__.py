"""The command line."""

from veracity.cli.main import app, main
