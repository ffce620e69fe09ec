"""What the list of runs tells beside a run's state: what was measured, how long it will still take, and its verdict in words."""

from __future__ import annotations

import html
import os
import re
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from veracity.engine.store.folder import CELLS
from veracity.engine.store.manifest import Kind
from veracity.engine.store.state import Progress
from veracity.engine.store.writers import LOCK

LOOKED_AT = 20_000
"""How many records of a running run are looked at to learn its pace."""
READ = 1 << 20
"""How much of a report is read for its answer, in bytes."""
LONGEST = 600
"""The longest verdict, in characters."""
ANSWER = re.compile(r'<div class="answer">(.*?)</div>', re.DOTALL)
BLOCK, TAG = re.compile(r"</?(?:p|li|div|br|h[1-6])\b[^>]*>"), re.compile(r"<[^>]*>")


def facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured, by a run's manifest: kind in words, models, explainers without controls, samples, parts of a study.

    Of orbits also the fingerprint of the inputs, and the plane of the axes of rotation: runs of the same inputs share what is chosen.
    """
    if not manifest:
        return {}
    kind = Kind(manifest["kind"])
    if kind.study:
        return {"words": kind.words, "parts": list(manifest["parts"])}
    explainers = manifest["explainers"] if kind is Kind.ORBITS else [cell["explainer"] for cell in manifest["cells"] if not cell["control"]]
    moved = {"data": manifest["data"]["fingerprint"], "plane": manifest["orbit"].get("plane")} if kind is Kind.ORBITS else {}
    return {
        **moved,
        "words": kind.words,
        "models": list(manifest["models"]),
        "explainers": list(dict.fromkeys(filter(None, explainers))),
        "samples": manifest["data"]["samples"],
    }


def seconds_left(folder: Path, progress: Progress) -> float | None:
    """How long a running run will still take, by the pace since its writer began; None where that is not known."""
    if not progress.writer or progress.shards or progress.unit != "cell" or not progress.pending:
        return None
    try:
        began = os.stat(folder / LOCK).st_mtime
        new = sum(written_since(folder / name, began) for name in (CELLS, "orbits", "failed"))
    except OSError:
        return None
    return progress.pending * max(time.time() - began, 0.0) / new if new >= 1 else None


def written_since(folder: Path, began: float) -> float:
    """How many files of a folder were written since; of very many, some are looked at."""
    try:
        names = os.listdir(folder)
    except OSError:
        return 0.0
    some = [os.stat(folder / name).st_mtime >= began for name in islice(names, LOOKED_AT)]
    return len(names) * sum(some) / max(len(some), 1)


def answer_in(report: Path) -> str:
    """The answer that stands at the top of a report, as plain text; "" if there is none."""
    with open(report, "rb") as handle:
        text = handle.read(READ).decode(errors="replace")
    found = ANSWER.search(text)
    return plain_text(found[1]) if found else ""


def plain_text(markup: str) -> str:
    """The text of some HTML, on one line and not too long.

    >>> plain_text("<p>Of 3 explainers,\\n <b>2</b> &lt; chance.</p>")
    'Of 3 explainers, 2 < chance.'
    """
    text = " ".join(html.unescape(TAG.sub("", BLOCK.sub(" ", markup))).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(' ', 1)[0]} …"
