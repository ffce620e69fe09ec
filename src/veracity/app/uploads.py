"""Inputs that people send: read piece by piece up to a limit, and held in memory, never in a file, until newer ones come."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import ClientDisconnect, Request

from veracity.app.forms import Form, Given, How
from veracity.core.errors import InputError

LARGEST = 16 * 1024 * 1024
"""The largest input that a client may send, in bytes."""
HELD = 8
"""How many inputs are held at once."""
AT_ONCE = 4
"""How many inputs may be on their way at once."""
TOO_LARGE, TOO_MANY, CUT = 413, 429, 400
BUSY = f"{AT_ONCE} inputs are being sent already: try again in a moment."
GONE = "The server does not hold this input any more: give it again."


class Refused(InputError):
    """An input that is not read; `status` says it to a program."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def megabytes(size: int) -> str:
    """A number of bytes in words.

    >>> megabytes(16 * 1024 * 1024), megabytes(9 * 10**9)
    ('16 MiB', '8,583 MiB')
    """
    return f"{size / 1024**2:,.0f} MiB"


@dataclass(kw_only=True)
class Upload:
    """What was sent for the run in a folder, and how it should be read; the sample, once it was."""

    folder: Path
    data: bytes
    how: How
    given: Given | None = None
    form: Form | None = None
    """The form by which it was read."""

    def read(self, form: Form) -> Given:
        """The sample; read once. Raises if it was read for other data, which the folder held before."""
        if self.given is None:
            self.given, self.form = form.read(self.data, self.how), form
            self.data = b""
        if self.form is not form:
            raise InputError(GONE)
        return self.given


class Uploads:
    """The inputs that were sent last, by names that nobody guesses."""

    def __init__(self) -> None:
        self.held: OrderedDict[str, Upload] = OrderedDict()
        self.coming = 0

    def hold(self, folder: Path, data: bytes, how: How) -> str:
        """Keep an input, and forget the oldest if there are too many."""
        name = secrets.token_urlsafe(12)
        self.held[name] = Upload(folder=folder, data=data, how=how)
        while len(self.held) > HELD:
            self.held.popitem(last=False)
        return name

    def get(self, name: str, folder: Path) -> Upload:
        """An input that was sent for this run."""
        found = self.held.get(name)
        if found is None or found.folder != folder:
            raise InputError(GONE)
        return found

    async def receive(self, request: Request) -> bytes:
        """What a client sends; raises as soon as it says or shows that it is too much, and holds no more of it."""
        said, found = request.headers.get("content-length", ""), bytearray()
        if said.isdecimal() and int(said) > LARGEST:
            raise too_large(megabytes(int(said)))
        if self.coming >= AT_ONCE:
            raise Refused(BUSY, TOO_MANY)
        self.coming += 1
        try:
            async for piece in request.stream():
                if len(found) + len(piece) > LARGEST:
                    raise too_large(f"more than {megabytes(LARGEST)}")
                found += piece
        except ClientDisconnect as error:
            raise Refused("The input did not arrive as a whole: give it again.", CUT) from error
        finally:
            self.coming -= 1
        return bytes(found)


def too_large(size: str) -> Refused:
    """The refusal of an input of this size."""
    return Refused(f"This input is {size}, and at most {megabytes(LARGEST)} are read: make it smaller.", TOO_LARGE)
