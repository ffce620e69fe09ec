"""Before a run goes on: what a killed writer left goes, and what is damaged is made again."""

from __future__ import annotations

import warnings

from veracity.core.errors import Note
from veracity.engine.progress import bar
from veracity.engine.store import Place, RunFolder
from veracity.engine.store.manifest import MANIFEST

NAMED = 3
"""How many damaged files a note names."""


def mend(store: RunFolder, progress: bool) -> None:
    """Read every file of the folder once, remove those that do not fit their checksums, and say so; for the holder of the lock."""
    store.sweep()
    gone = [Place("", MANIFEST)] if store.finished() and not store.files.exists(MANIFEST) else []
    with bar("checking stored files", store.count(), progress) as advance:
        gone += store.mend(advance)
    if gone:
        which = ", ".join(map(str, gone[:NAMED])) + (f" and {len(gone) - NAMED} more" if len(gone) > NAMED else "")
        count = "One file was" if len(gone) == 1 else f"{len(gone)} files were"
        again = "it is" if len(gone) == 1 else "they are"
        warnings.warn(f"{count} damaged or lost in {store.root}; {again} made again: {which}.", Note, stacklevel=4)
