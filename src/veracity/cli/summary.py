"""What `show` and `gate` say of a folder, as plain data that lies in the folder itself: summary.json.

Deriving a table takes torch, whose import alone takes more than a second. The first command that derives it writes the summary, and later
commands read it. A summary counts only in a folder that a run of this user wrote, while nobody writes there, and as long as every file
that a table is made of, the summary itself and the installed code are what they were.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import entry_points
from typing import Any

from rich import box
from rich import table as rich_table
from rich.console import Console
from rich.markup import escape

import veracity
from veracity.cli.catalogue import KINDS, source
from veracity.core.errors import StoreError
from veracity.engine.store import writers
from veracity.engine.store.files import TEMPORARY, Files
from veracity.engine.store.folder import SUMMARY
from veracity.engine.store.manifest import MANIFEST
from veracity.engine.store.shards import SHARDS

LARGEST = 64 << 20
"""The largest summary that is read, in bytes."""
UNUSED = {writers.LOCK, SHARDS, SUMMARY, "report.html", "models", "explanations", "worst", "learnt", "outputs", "pictures", "reductions"}
"""Files and folders of a run that no table is made of."""
HEADING = "bold"
"""The style of a row that is a heading: it begins a section."""


@dataclass(kw_only=True)
class Table:
    """A terminal table of plain texts: the settings of rich's columns, rows that begin with their style, and sentences below."""

    title: str
    columns: list[dict[str, Any]]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, title: str, left: Sequence[str], right: Sequence[str]) -> Table:
        """An empty table with columns of names and columns of numbers."""
        names = [{"header": name, "overflow": "fold"} for name in left]
        return cls(title=title, columns=names + [{"header": name, "justify": "right", "no_wrap": name != "interval"} for name in right])

    def add(self, *cells: str, style: str = "") -> None:
        """Add a row."""
        self.rows.append([style, *cells])

    def note(self, *sentences: str) -> None:
        """Put sentences under the table, each on a line of its own."""
        self.notes += [text for text in sentences if text]

    def render(self) -> rich_table.Table:
        """The table as rich draws it."""
        look: dict[str, Any] = {"title_justify": "left", "title_style": "bold", "caption_justify": "left", "padding": (0, 1, 0, 0)}
        found = rich_table.Table(title=escape(self.title), caption=escape("\n".join(self.notes)) or None, box=box.SIMPLE_HEAD, **look)
        for column in self.columns:
            found.add_column(**column)
        for style, *cells in self.rows:
            if style == HEADING and len(cells) == 1:
                found.add_section()
            found.add_row(*map(escape, cells), style=style or None)
        return found


Page = list[Table | str]


def print_page(page: Page, *, wrap: bool = True) -> None:
    """Print tables and texts; lines of texts that are laid out already are not to `wrap`."""
    console = Console()
    for part in page:
        console.print(escape(part) if isinstance(part, str) else part.render(), soft_wrap=not wrap)


@dataclass(kw_only=True)
class Summary:
    """What a folder says: the page of `show`, the columns of its table, and the rows that `gate` judges, with their confidence."""

    page: Page
    wrap: bool
    table: dict[Hashable, list[Any]]
    requirements: list[dict[str, Any]]
    confidence: float


def summary_of(folder: str, result: Any = None) -> Summary:
    """The summary of a folder: the saved one if it counts, or else a new one of the result (by default the one in the folder)."""
    files = Files(folder)
    if files.local and files.exists(SUMMARY) and (found := saved(files)) is not None:
        return found
    before = state(files)
    with ThreadPoolExecutor(1) as pool:
        stamped = pool.submit(stamp, files)  # files are hashed while others are imported and read
        summary = derive(folder, result)
        made_of = stamped.result()
    if made_of and before and before == state(files):  # nothing was measured meanwhile
        body = json.dumps(asdict(summary)).encode()
        with suppress(StoreError):
            files.write(SUMMARY, seal_of(made_of, body) + b"\n" + body)
    return summary


def saved(files: Files) -> Summary | None:
    """The saved summary of a folder, if it counts."""
    with suppress(OSError, ValueError, StoreError, TypeError, KeyError, RecursionError):
        seal, body = files.read(SUMMARY, LARGEST).split(b"\n", 1)
        now = stamp(files)
        if now and seal == seal_of(now, body):
            found = json.loads(body)
            page = [part if isinstance(part, str) else Table(**part) for part in found["page"]]
            return Summary(**{**found, "page": page})
    return None


def derive(folder: str, result: Any) -> Summary:
    """The summary of a result, derived from its measurements."""
    from veracity.cli import gate, tables
    from veracity.studies.result import load

    found = load(folder) if result is None else result
    rows, confidence = gate.requirements(found)
    return Summary(
        page=tables.page(found),
        wrap=not tables.is_text(found),
        table=found.table().to_dict("list"),
        requirements=rows,
        confidence=confidence,
    )


def seal_of(stamp: bytes, body: bytes) -> bytes:
    """The checksum of a summary and of what it was made of."""
    return hashlib.sha256(stamp + body).hexdigest().encode()


def stamp(files: Files) -> bytes:
    """A hash of everything that a folder's summary depends on; empty where no summary counts."""
    if writers.mark_of(files) is None or writers.writer(files):
        return b""
    digest = hashlib.sha256()
    try:
        for line in (*content(files.root), *code()):
            digest.update(f"{line}\n".encode(errors="surrogateescape"))
    except OSError:  # a file that cannot be read, is a link, or was just moved
        return b""
    return digest.digest()


def content(root: str) -> Iterator[str]:
    """The names and checksums of the files that a summary is made of; raises an OSError on a link."""
    for path in paths(root):
        with open(path, "rb") as file:
            yield f"{os.path.relpath(path, root)} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def state(files: Files) -> list[tuple[Any, ...]]:
    """What changes whenever one of those files is written, moved or removed; nothing if they cannot be listed."""
    try:
        found = [(path, os.lstat(path)) for path in paths(files.root)] if files.local else []
    except OSError:
        return []
    return [(path, one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for path, one in found]


def paths(root: str) -> Iterator[str]:
    """The files that a summary is made of; raises an OSError on a link."""
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in UNUSED or os.path.lexists(os.path.join(place, name, MANIFEST)))
        for name in sorted({*names, *folders} - UNUSED):
            path = os.path.join(place, name)
            kind = os.lstat(path).st_mode
            if stat.S_ISDIR(kind) or TEMPORARY.fullmatch(name):
                continue
            if not stat.S_ISREG(kind):
                raise OSError(f"{path} is no plain file")
            yield path


def code() -> Iterator[str]:
    """What changes with the installed code: versions, and the sizes and times of this package's files and of plugins' modules."""
    yield veracity.__version__
    for place, folders, names in os.walk(os.path.dirname(veracity.__file__)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (f"{name} {age(os.path.join(place, name))}" for name in sorted(names) if name.endswith((".py", ".toml")))
    points = entry_points()
    plugins = [one for plural in KINDS for one in points.select(group=f"veracity.{plural}") if one.dist is not None]
    yield from sorted({f"{one.dist.name} {one.dist.version}" for one in plugins if one.dist is not None})
    for module in sorted({one.module for one in plugins}):
        with suppress(ValueError):
            yield f"{module} {age(source(module))}"


def age(path: str | os.PathLike[str]) -> str:
    """The size and time of a file."""
    found = os.stat(path)
    return f"{found.st_size} {found.st_mtime_ns}"
