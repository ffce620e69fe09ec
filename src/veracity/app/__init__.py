"""The interactive interface as a local server."""

from veracity.app.server import serve, show
