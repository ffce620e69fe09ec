"""The interactive interface as a local server."""

from veracity.app.serving import serve, show

__all__ = ["serve", "show"]
