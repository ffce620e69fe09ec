"""The interface as one file: the page, its script and style, and every answer it will ask for; it opens from a disk and loads nothing."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import resources
from itertools import product
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from veracity import __version__
from veracity.core.errors import InputError, SpecError, StoreError
from veracity.core.sentences import tell
from veracity.core.settings import short_repr
from veracity.orbits import OrbitResult
from veracity.orbits.reduction import METHODS
from veracity.report.html import csp_hash, now, render_waiting
from veracity.report.interactive import answers
from veracity.report.interactive.packed import plain
from veracity.report.interactive.subset import Subset

SIZE = 12_000_000
"""The size of a file in bytes if no number of samples is given."""
PROBED = 3
"""How many samples are measured to estimate the size of all."""
SLOW = frozenset({"umap"})
"""Reductions that a file does without: importing it takes longer than everything else."""
NUMBER = "0"
"""The number of the file's only run."""
Entry = dict[str, Any]


def render_offline(view: OrbitResult, samples: int | None = None) -> str:
    """The interface of a run as one HTML page without any outside request.

    It holds this many samples, chosen at random in the proportions of their groups by the run's seed; without a number, as many as fit
    into about 12 MB. Where models are not measured on every sample yet, the page says how far they are instead.
    """
    if not view.complete:
        return render_waiting(str(view.manifest.get("title") or answers.folder(view)), view.progress, view.states())
    if samples is not None and (isinstance(samples, bool) or not isinstance(samples, int) or samples < 1):
        raise InputError(f"A file holds one sample or more, not {short_repr(samples)}.")
    count = fitting(view) if samples is None else samples
    few = Subset(view, spread_sample(view.labels, view.samples, count, int(view.manifest["seed"])))
    return page(dict(payload(few)))


def fitting(view: OrbitResult) -> int:
    """How many samples fit into a file, one at least."""
    some = range(min(PROBED, view.samples))
    packed = sum(len(answers.sample(view, number, frames=True)) for number in some) / max(len(some), 1)
    length = len(view.manifest["orbit"]["elements"])
    curves = sum(4 * length * len(view.models) * len(one["references"]) for one in answers.metrics(view))
    small = view.thumbnails()
    beside = 0 if small is None else small[0].size
    return max(1, min(view.samples, int(SIZE * 3 / 4 / (packed + curves + beside))))


def payload(few: Subset) -> Iterator[tuple[str, Entry]]:
    """Every path that the page will ask for, and its answer."""
    run, metrics = f"/api/runs/{NUMBER}", answers.metrics(few)
    planes = dict(reductions(few))
    about = answers.meta(few, NUMBER, reductions=[method for method in METHODS if any(key[0] == method for key in planes)])
    entry = {"id": NUMBER, "kind": "orbits", "title": about["title"], "created": about["created"], "path": answers.folder(few)}
    entry["state"] = about["state"]
    yield "/api/index", {"json": {"version": __version__, "runs": [entry]}}
    note = tell("run.snapshot", now(), open=int(not few.progress.settled))
    state = {**about["state"], **({"note": note} if note else {})}
    yield (
        run,
        {"json": {**about, "state": state, "numbers": few.numbers if few.samples < few.whole.samples else None, "of": few.whole.samples}},
    )
    for metric, reference, model in ((one["name"], *pair) for one in metrics for pair in product(one["references"], few.models)):
        query = urlencode({"metric": metric, "model": model, "reference": reference})
        yield f"{run}/values?{query}", binary(answers.values(few, model, metric, reference))
    for (method, metric, reference), data in planes.items():
        yield f"{run}/reduction?{urlencode({'method': method, 'metric': metric, 'reference': reference})}", binary(data)
    if about["thumbnail"] is not None:
        yield f"{run}/thumbnails", binary(answers.thumbnails(few))
    for number in range(few.samples):
        yield f"{run}/samples/{number}", binary(answers.sample(few, number, frames=True))


def reductions(few: Subset) -> Iterator[tuple[tuple[str, str, str], bytes]]:
    """All orbits in one plane, by method, metric and reference; methods that are slow or not installed are left out."""
    for method in METHODS:
        with suppress(SpecError, ImportError):
            for metric in answers.metrics(few) if method not in SLOW else ():
                for reference in metric["references"]:
                    yield (method, metric["name"], reference), answers.reduction(few, method, metric["name"], reference)


def binary(data: bytes) -> Entry:
    """Bytes as base64 text, for JSON."""
    return {"base64": base64.b64encode(data).decode()}


def page(entries: dict[str, Entry]) -> str:
    """One HTML page of the front end and its answers; it may run its own script and style, and ask nobody."""
    script = re.sub(r"<(?=/script|!--)", r"\\x3C", bundled("app.js"), flags=re.IGNORECASE)
    style = bundled("app.css")
    if "</style" in style.lower():
        raise StoreError("The interface's style sheet cannot stand in a page: install veracity again.")
    policy = (
        f"default-src 'none'; script-src '{csp_hash(script)}'; style-src '{csp_hash(style)}'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )
    held = json.dumps(plain(entries), separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    text = bundled("index.html")
    text = once(r"<head>", text, f'<head><meta http-equiv="Content-Security-Policy" content="{policy}">')
    text = once(r"<script\b[^>]*\bsrc=\"[^\"]*app\.js\"[^>]*>\s*</script>", text, "")
    text = once(r"<link\b[^>]*\bhref=\"[^\"]*app\.css\"[^>]*>", text, f"<style>{style}</style>")
    ends = f'<script type="application/json" id="payload">{held}</script><script type="module">{script}</script></body>'
    return once(r"</body>", text, ends)


def once(pattern: str, text: str, put: str) -> str:
    """The text with the only match of a pattern replaced; raises if there is not exactly one."""
    found, count = re.subn(pattern, lambda match: put, text)
    if count != 1:
        raise StoreError("The interface's page is not as it was built: install veracity again.")
    return found


def spread_sample(labels: NDArray[np.int64] | None, samples: int, count: int, seed: int = 0) -> NDArray[np.int64]:
    """Some of the samples at random, in the proportions of their classes, in their own order.

    The members of every class are shuffled and spread evenly over [0, 1); those that come first are taken.

    >>> labels = np.array([0] * 60 + [1] * 30 + [2] * 10)
    >>> np.bincount(labels[spread_sample(labels, 100, 10)]).tolist()
    [6, 3, 1]
    """
    if count >= samples:
        return np.arange(samples)
    generator = np.random.default_rng(seed)
    kinds = np.zeros(samples, dtype=np.int64) if labels is None else labels
    order = generator.permutation(samples)
    order = order[np.argsort(kinds[order], kind="stable")]
    _, starts, sizes = np.unique(kinds[order], return_index=True, return_counts=True)
    place = (np.arange(samples) - np.repeat(starts, sizes) + 0.5) / np.repeat(sizes, sizes)
    return np.sort(order[np.argsort(place, kind="stable")[:count]])


NAMES = ("index.html", "app.js", "app.css")
"""All that the front end consists of."""


@cache
def bundled(name: str) -> str:
    """The text of one of the front end's files."""
    file = resources.files("veracity.report.interactive").joinpath("bundle", name)
    if name not in NAMES or not file.is_file():
        raise StoreError(f"The interface's file '{name}' is not in this installation of veracity: install it again.")
    return file.read_text(encoding="utf-8")
