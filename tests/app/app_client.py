"""A server inside a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from veracity.app.application import create
from veracity.app.runs import Runs, Workspace
from veracity.audit import Audit
from veracity.orbits import OrbitEvaluation

TOKEN = "a-token-for-tests"
ORIGIN = "http://127.0.0.1:8000"
AUTHORISED = {"authorization": f"Bearer {TOKEN}"}
SOCKET = "ws://127.0.0.1:8000/api/runs/0/live"
LIVE = f"{SOCKET}?token={TOKEN}"


def client(folder: Path, evaluation: OrbitEvaluation | Audit | None = None, **settings: Any) -> TestClient:
    """A client that knows the token of a server for a folder."""
    app = create(Workspace(Runs(folder), evaluation), TOKEN)
    return TestClient(app, base_url=ORIGIN, headers=AUTHORISED, **settings)
