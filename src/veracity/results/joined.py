"""The end of a run by shards: checks that every planned cell is there, and says which shards have not delivered their cells."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from veracity.core.errors import StoreError
from veracity.engine.store import RunFolder
from veracity.engine.store.shards import Share, Sign, in_words, living, signs
from veracity.results.run import Result

NAMED = 5
"""How many shards a sentence names."""


def joined(folder: str | Path) -> Result:
    """The result of a run whose cells are all there, measured or recorded as failed; raises if shards are at work, cells are missing, or
    no shard came to the last checks.
    """
    store = RunFolder(str(folder))
    manifest = store.manifest()
    state, working = store.progress(manifest), living(store.files)
    share = f"{state.measured} of {state.cells:,} cells are measured"
    if working:
        who = f"{in_words(working)} {'is' if len(working) == 1 else 'are'}"
        raise StoreError(f"{store.root} is not complete: {who} still at work, and {share}: wait until every shard has ended.")
    again = f": {state.command}" if state.command else " with shard='auto'"
    seen = signs(store.files)
    missing = [cell for cell in manifest["cells"] if cell["key"] not in state.done and cell["key"] not in state.failures]
    if missing:
        owed = debts([cell.get("base") or "" for cell in manifest["cells"]], [cell.get("base") or "" for cell in missing], seen)
        raise StoreError(f"{store.root} is not complete: {share}; {owed}. Run what is missing{again}")
    if seen and not manifest.get("concluded"):
        if state.writer:
            raise StoreError(f"{store.root} is not complete: {state.writer} is still checking and packing the cells: wait for its end.")
        raise StoreError(
            f"{store.root} is not complete: {share}, but the last shard stopped before it had checked and packed them. "
            f"Run one more shard{again}"
        )
    return Result(str(folder))


def debts(jobs: list[str], missing: list[str], seen: dict[str, Sign]) -> str:
    """Which shards have not delivered the missing cells, in words; jobs by their keys, one for each cell.

    >>> sign = Sign("1/2", "process 7 on a", "", 7, jobs=2, done=1)
    >>> debts(["a", "a", "b", "c"], ["b", "c", "c"], {"1-of-2-x": sign})
    'shard 2/2 never started (1 cell missing), and shard 1/2 (process 7 on a) stopped after 1 of 2 jobs (2 cells missing)'
    """
    by_share: dict[Share, Sign] = {}
    for sign in seen.values():
        share = Share.of(sign.shard)
        before = by_share.get(share)
        by_share[share] = sign if before is None or sign.done >= before.done else before
    counts = Counter(missing)
    total = max((share.count for share in by_share), default=0)
    said = []
    for number in range(1, total + 1):
        share = Share(number, total)
        owed = sum(counts[key] for key in share.mine(jobs))
        if not owed:
            continue
        known = by_share.get(share)
        what = f"shard {share} never started" if known is None else f"shard {share} ({known.process}) stopped after {progress(known)}"
        said.append((known is not None, f"{what} ({owed} cell{'' if owed == 1 else 's'} missing)"))
    words = [text for _, text in sorted(said, key=lambda one: one[0])]
    if not words:
        return f"{len(missing)} cell{'' if len(missing) == 1 else 's'} missing"
    more = len(words) - NAMED
    shown = words[:NAMED] + ([f"the rest belongs to {more} other shard{'' if more == 1 else 's'}"] if more > 0 else [])
    return ", ".join(shown[:-1]) + (", and " if len(shown) > 1 else "") + shown[-1]


def progress(sign: Sign) -> str:
    """How far a shard came."""
    return f"{sign.done} of {sign.jobs} job{'' if sign.jobs == 1 else 's'}"
