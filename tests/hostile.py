"""Run folders as somebody who means harm, or a broken disk, would leave them; each from a good one.

`REFUSED` must end every command with one sentence; `HARMLESS` are read, and what they name or hold must do nothing.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from orbit_run import measured
from small import series_inputs, small_net
from stored import edit_manifest, sign_record, signed
from veracity import Audit
from veracity.engine.store.folder import COLUMNS, SCHEMA
from veracity.engine.store.records import ROWS
from veracity.perturb import CyclicShift

SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
ESCAPES = "\x1b]0;owned\x07\x1b[2J"
TRIPWIRE = "from pathlib import Path\nPath(__file__).with_name('tripped').write_text('imported')\nname = 'trip'\n"
SECONDS = 60
OPENED: list[str] = []
"""What was opened since a test emptied it."""
Change = Callable[[Path], None]


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note a file that is opened."""
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        if int(arguments[2] or 0) & os.O_NOFOLLOW and os.path.islink(arguments[0]):
            return
        OPENED.append(os.path.realpath(os.fsdecode(arguments[0])))


sys.addaudithook(watch)


def whole_runs(folder: Path) -> Path:
    """An audit and an orbit evaluation, small and whole, which no mark knows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VERACITY_STATE", str(folder / "elsewhere"))
        Audit(
            models={"net": small_net()}, inputs=series_inputs(4), explainers=["gradient"], scores=["equivariance"],
            symmetry=CyclicShift(axes=(-1,)), controls=False, companions=False,
        ).run(folder / "audit", progress=False)  # fmt: skip
        measured(folder / "orbits", samples=3, explainers=())
    return folder


@contextmanager
def in_time() -> Iterator[None]:
    """A command that waits for a pipe is ended, and fails the test."""

    def late(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def edited(change: Callable[[dict[str, Any]], object]) -> Change:
    """A folder whose manifest is changed."""

    return lambda folder: edit_manifest(folder, lambda manifest: change(manifest) and None)


def raw(data: bytes) -> Change:
    """A folder whose manifest is these bytes."""
    return lambda folder: (folder / "manifest.json").write_bytes(data) and None


def put(*where: str | int, value: Any) -> Change:
    """A manifest with one value changed."""

    def change(manifest: dict[str, Any]) -> None:
        part: Any = manifest
        for step in where[:-1]:
            part = part[step]
        part[where[-1]] = value

    return edited(change)


def replaced(pattern: str, make: Callable[[Path], object]) -> Change:
    """A folder in which something else lies in the place of the first file of a pattern."""

    def build(folder: Path) -> None:
        path = min(folder.glob(pattern))
        path.unlink()
        make(path)
        if path.is_file() and path.parent != folder and path.stat().st_size < 1 << 30:
            sign_record(path)

    return build


def linked(pattern: str) -> Change:
    """A folder in which a file is a link to one outside."""

    def build(folder: Path) -> None:
        path = min(folder.glob(pattern))
        outside = folder.parent / f"outside-{path.name}"
        shutil.move(path, outside)
        path.symlink_to(outside)

    return build


def parquet(**columns: Any) -> Callable[[Path], object]:
    """A writer of a Parquet file with these columns."""

    def write(path: Path) -> None:
        sink = io.BytesIO()
        pq.write_table(pa.table(columns), sink)
        path.write_bytes(sink.getvalue())

    return write


@cache
def very_many_rows() -> bytes:
    """A small Parquet file of a cell that claims a few more rows than are read."""
    count = ROWS // 1024 + 1
    long, short = (pa.chunked_array([pa.array([0] * 1024, kind)] * count) for kind in (pa.int64(), pa.int32()))
    text = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([0] * 1024, pa.int8()), ["value"])] * count)
    number = pa.chunked_array([pa.array([0.5] * 1024)] * count)
    sink = io.BytesIO()
    pq.write_table(pa.table({"sample": long, "draw": short, "level": short, "quantity": text, "value": number, "status": text}), sink)
    return sink.getvalue()


def tensors(**named: torch.Tensor) -> Callable[[Path], object]:
    """A writer of a file of tensors."""
    return lambda path: save_file(named, path)


def cell(draw: int) -> Callable[[Path], object]:
    """A writer of a cell with one measurement of this draw."""
    text = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), ["value"])
    one = {"sample": pa.array([0]), "draw": pa.array([draw], pa.int32()), "level": pa.array([0], pa.int32())}
    return parquet(**one, quantity=text, value=pa.array([0.5]), status=text)


def sparse(path: Path) -> None:
    """A file that claims 64 GiB and takes no room."""
    with path.open("wb") as handle:
        handle.truncate(64 << 30)


def every_name(manifest: dict[str, Any]) -> None:
    """Name a module in every place that could be imported by its name."""
    trip = {"name": "trip:name", "import": "trip:name", "function": {"import": "trip:name"}, "attribution": "trip:name"}
    manifest["spec"] |= {"file": "audit.toml", "symmetry": trip, "walk": trip, "target": trip, "explainers": {"gradient": trip}}
    for about in manifest["score_specs"].values():
        about["spec"] |= {"space": {**trip, "code": "0"}, "measure": trip, "walk": trip}
    (Path(manifest["hint"]) / "audit.toml").write_text('data = "trip:data"\n[models.net]\nbuild = "trip:net"\n')


def tripwires(folder: Path) -> None:
    """A manifest that names modules of its folder everywhere, and an audit file that does."""
    put("hint", value=str(folder))(folder)
    edited(every_name)(folder)


def named_file(path: str) -> Change:
    """A manifest that names an audit file elsewhere."""
    return put("spec", "file", value=path)


PAIR = ("draw", "element", "value", "input", "moved", "explanation", "expected", "found")
DEEP = b"[" * 100_000 + b"]" * 100_000
AUDIT_REFUSED: dict[str, Change] = {
    "no JSON": raw(b"{"),
    "bytes": raw(bytes(range(256))),
    "a list": raw(b"[]"),
    "a number": raw(b"7"),
    "deep": raw(DEEP),
    "deep in a field": raw(b'{"schema": 1, "spec": ' + DEEP + b"}"),
    "an endless text": raw(b'{"schema": 1, "x": "' + b'\\"' * 1_000_000),
    "NaN": put("seed", value=float("nan")),
    "a schema of text": put("schema", value="one"),
    "a newer schema": put("schema", value=10**6),
    "an unknown kind": put("kind", value="zoo"),
    "a kind of list": put("kind", value=["audit"]),
    "cells of text": put("cells", value="all"),
    "a cell of number": put("cells", 0, value=3),
    "a key above": put("cells", 0, "key", value="../../../../etc/passwd"),
    "an absolute key": put("cells", 0, "key", value="/etc/passwd"),
    "a base above": put("cells", 0, "base", value="../" * 9 + "x"),
    "one key twice": edited(lambda manifest: manifest["cells"].append(manifest["cells"][0])),
    "bounds of text": put("cells", 0, "bounds", value=["low", "high"]),
    "one bound": put("cells", 0, "bounds", value=["0"]),
    "a direction": put("cells", 0, "direction", value="sideways"),
    "a sampling with more": put("cells", 0, "sampling", "__class__", value="x"),
    "more samples than can be": put("cells", 0, "stop", value=10**12),
    "samples below 0": put("data", "samples", value=-1),
    "as many samples as a list cannot hold": edited(
        lambda manifest: (manifest["data"].update(samples=10**12), manifest["cells"][0].update(stop=10**12))
    ),
    "a score nobody describes": put("scores", value=["fantasy"]),
    "a model nobody describes": put("cells", 0, "model", value="ghost"),
    "models in a list": put("models", value=["net"]),
    "notes of numbers": put("notes", value=[1, 2]),
    "published text": put("spec", "published", value=[{"model": "net", "explainer": "gradient", "score": "equivariance", "value": "9"}]),
    "confidence above 1": put("spec", "confidence", value=95),
    "no spec": edited(lambda manifest: manifest.pop("spec")),
    "facts in facts": put("facts", value=[{"model": {"a": []}}]),
    "a calibration of text": put("calibrations", value=[{"model": "net", "space": "x", "sigma": "large"}]),
    "a pipe for a manifest": replaced("manifest.json", os.mkfifo),
    "a folder for a manifest": replaced("manifest.json", Path.mkdir),
    "a device for a manifest": replaced("manifest.json", lambda path: path.symlink_to("/dev/zero")),
    "a manifest elsewhere": linked("manifest.json"),
    "a manifest that leads to itself": replaced("manifest.json", lambda path: path.symlink_to(path)),
    "a huge manifest": replaced("manifest.json", sparse),
    "a pipe for a cell": replaced("cells/*.parquet", os.mkfifo),
    "a cell elsewhere": linked("cells/*.parquet"),
    "all cells elsewhere": linked("cells"),
    "a cell of other columns": replaced("cells/*.parquet", parquet(a=[1, 2])),
    "a cell of text": replaced("cells/*.parquet", parquet(**{name: ["x"] for name in COLUMNS.names})),
    "a cell that is no table": replaced("cells/*.parquet", lambda path: path.write_bytes(b"PAR1" + b"\xff" * 64 + b"PAR1")),
    "a cell of a far draw": replaced("cells/*.parquet", cell(2**31 - 1)),
    "a cell of a draw below 0": replaced("cells/*.parquet", cell(-1)),
    "a cell of very many rows": replaced("cells/*.parquet", lambda path: path.write_bytes(very_many_rows())),
    "a huge cell": replaced("cells/*.parquet", sparse),
}  # fmt: skip
ORBIT_REFUSED: dict[str, Change] = {
    "no elements": put("orbit", "elements", value=[]),
    "an identity beyond": put("orbit", "identity", value=99),
    "coordinates of text": put("orbit", "coordinates", 0, value=["x"]),
    "fewer coordinates": put("orbit", "coordinates", value=[[0.0]]),
    "a block beyond": put("pictures", 0, "stop", value=10**9),
    "labels for others": put("labels", value=[0]),
    "labels beyond the groups": put("labels", value=[0, 0, 99]),
    "no metrics": put("metrics", value=[]),
    "a reference": put("metrics", 0, "references", value=["gossip"]),
    "a task of text": put("spec", "task", value="x"),
    "pictures above": put("pictures", 0, "key", value="../../x"),
    "metrics elsewhere": linked("orbits/*.parquet"),
    "metrics of text": replaced("orbits/*.parquet", parquet(sample=["x"], element=["y"])),
    "metrics of one row": replaced("orbits/*.parquet", parquet(sample=[0], element=[0])),
}
TENSORS_AUDIT: dict[str, Change] = {
    "pairs of nothing": replaced("worst/*.safetensors", tensors(other=torch.zeros(1))),
    "pairs of other shapes": replaced(
        "worst/*.safetensors", tensors(**{name: torch.zeros(3, 1, 1) for name in PAIR}, sample=torch.zeros(2))
    ),
    "pairs that are no file of tensors": replaced("worst/*.safetensors", lambda path: path.write_bytes(b"\xff" * 100)),
    "pairs elsewhere": linked("worst/*.safetensors"),
    "a pipe for pairs": replaced("worst/*.safetensors", os.mkfifo),
    "a pipe for advice": lambda folder: os.mkfifo(folder / "advice.json"),
    "advice of numbers": lambda folder: (folder / "advice.json").write_bytes(signed({"advice": [1]})) and None,
    "deep advice": lambda folder: (folder / "advice.json").write_bytes(DEEP) and None,
}
"""What a report reads of an audit, and a table does not."""
TENSORS_ORBITS: dict[str, Change] = {
    "outputs of nothing": replaced("outputs/*.safetensors", tensors(other=torch.zeros(3, 1))),
    "fewer outputs": replaced("outputs/*.safetensors", tensors(outputs=torch.zeros(1, 8, 10))),
    "outputs without samples": replaced("outputs/*.safetensors", tensors(outputs=torch.zeros(()))),
    "outputs elsewhere": linked("outputs/*.safetensors"),
    "a pipe for outputs": replaced("outputs/*.safetensors", os.mkfifo),
    "pictures of nothing": replaced("pictures/*.safetensors", tensors(other=torch.zeros(3, 1))),
    "pictures of another shape": replaced("pictures/*.safetensors", tensors(input=torch.zeros(3, 2), thumbnail=torch.zeros(3))),
    "pictures of other inputs": replaced(
        "pictures/*.safetensors",
        tensors(input=torch.zeros(3, 5, 5, 1, dtype=torch.uint8), thumbnail=torch.zeros(3, 8, 8, 1, dtype=torch.uint8)),
    ),
    "an orbit of very many steps": put("orbit", "spec", "step", value=1e-12),
    "an orbit of no step": put("orbit", "spec", "step", value=0),
}
"""What a report reads of orbits, and a table does not."""
HARMLESS: dict[str, Change] = {
    "names of modules": tripwires,
    "an audit file above": named_file("../../../audit.toml"),
    "an absolute audit file": named_file("/etc/audit.toml"),
    "a title that is a script": put("title", value=SCRIPT),
    "a title that steers the terminal": put("title", value=ESCAPES),
    "half a character": put("title", value="\ud800"),
    "a recipe nobody has": edited(lambda manifest: manifest["spec"].update(recipe="trip:name", scale="small")),
    "more fields": put("extra", value={"a": [1, {"b": None}]}),
    "a lock that is a pipe": replaced("lock", os.mkfifo),
    "a lock elsewhere": linked("lock"),
    "a report elsewhere": lambda folder: (folder / "report.html").symlink_to(folder.parent / "victim.html"),
}
STUDY = {"schema": SCHEMA, "kind": "audits", "parts": ["a"], "finished": False}
STUDIES: dict[str, bytes] = {
    "no JSON": b"{",
    "deep": DEEP,
    "parts above": signed({**STUDY, "parts": ["../good"]}),
    "absolute parts": signed({**STUDY, "parts": ["/etc"]}),
    "parts of numbers": signed({**STUDY, "parts": [1]}),
    "a title of list": signed({**STUDY, "title": []}),
    "an unknown kind": signed({**STUDY, "kind": "zoo"}),
}


def build(good: Path, folder: Path, change: Change) -> Path:
    """A copy of a good folder, changed, with a module in it that leaves a file where it is imported."""
    shutil.copytree(good, folder)
    (folder / "trip.py").write_text(TRIPWIRE)
    change(folder)
    return folder
