"""The run folder: what a run has measured, safe against being killed."""

from veracity.engine.store.folder import SCHEMA, RunFolder
from veracity.engine.store.records import Place
