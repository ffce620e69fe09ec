"""The folder of a study: its runs, each in a folder of its own, and what the study concludes from them.

    manifest.json    the kind of study, its parts, and whether all of them are measured
    findings.json    what the study concludes; written last
    PART/            the run folder of a part

A distance check has no runs: its parts are distances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from veracity.core.errors import StoreError
from veracity.engine.store.folder import RunFolder
from veracity.engine.store.manifest import Kind, Part, check
from veracity.engine.store.records import LARGEST, Damaged, sealed, unsealed

FINDINGS = "findings.json"


class Study:
    """A study that is being written."""

    def __init__(self, folder: RunFolder, manifest: Mapping[str, Any]) -> None:
        self.folder, self._manifest = folder, manifest

    def begin(self) -> None:
        """Say which parts there will be; what an earlier run concluded goes."""
        self.folder.write_manifest({**self._manifest, "finished": False})
        self.folder.files.remove(FINDINGS)

    def conclude(self, findings: Mapping[str, Any]) -> None:
        """Write what the study concludes, and that all of its parts are measured."""
        self.folder.files.write(FINDINGS, sealed({**findings, "run": self.folder.run}))
        self.folder.write_manifest({**self._manifest, "finished": True})


@contextmanager
def study(
    folder: RunFolder,
    kind: Kind,
    parts: Sequence[str],
    *,
    title: str | None = None,
    settings: Mapping[str, Any] | None = None,
    versions: Mapping[str, str | None] | None = None,
    unit: str = "run",
) -> Iterator[Study]:
    """Hold the folder of a study for writing."""
    with folder.writing():
        created = folder.manifest_before(kind).get("created") or datetime.now(UTC).isoformat(timespec="seconds")
        about = {"kind": kind, "created": created, "title": title, "settings": dict(settings or {}), "versions": dict(versions or {})}
        found = Study(folder, {**about, "parts": list(parts), "unit": unit})
        found.begin()
        yield found


def findings(folder: RunFolder, model: type[Part]) -> dict[str, Any]:
    """What a study concludes, once it is checked; raises where it is not finished, or the file is damaged."""
    path = folder.files.path(FINDINGS)
    if not folder.files.exists(FINDINGS):
        state = folder.progress(folder.manifest(None))
        if not state.settled:
            raise StoreError(f"{folder.root} has no results yet. {state.sentence()}")
        raise Damaged(f"{path} is missing: run the same command again, which writes it anew.")
    try:
        found = unsealed(folder.files.read(FINDINGS, LARGEST))
        if found.get("run") != folder.run:
            raise ValueError("it belongs to another run")
        check(model, found)
    except (ValueError, OSError) as error:
        raise Damaged(f"{path} is damaged ({error}): run the same command again, which writes it anew.") from error
    return found
