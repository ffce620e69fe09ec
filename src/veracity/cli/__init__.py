"""The command line."""

from veracity.cli.main import app, main

__all__ = ["app", "main"]
