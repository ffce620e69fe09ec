"""The run folder: what a run has measured, safe against being killed."""

from veracity.engine.store.folder import SCHEMA, RunFolder

__all__ = ["SCHEMA", "RunFolder"]
