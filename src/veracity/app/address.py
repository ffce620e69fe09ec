"""The address of the interface: a port and a token that stay the same for a folder, so that the page of yesterday works after a restart.

Both lie in the state folder of the user ($VERACITY_STATE, $XDG_STATE_HOME/veracity or ~/.local/state/veracity), in a file that nobody else
can read. Where that cannot be written, they are new at every start.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from veracity.core.errors import InputError
from veracity.engine.store.writers import read_private, state_folder, write_private

FIRST, PORTS = 20_000, 10_000
"""Ports that are proposed: below those that systems give away by themselves."""
TOKEN = re.compile(r"[A-Za-z0-9_-]{32,200}")
"""What a token looks like: what `secrets.token_urlsafe(24)` makes, or longer."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is kept of a folder's interface."""

    folder: str
    port: int
    token: str


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


def place_of(folder: str | Path) -> Path:
    """The file in which the address of a folder is kept."""
    path = os.path.realpath(folder)
    return state_folder() / "app" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"


def kept(folder: str | Path) -> tuple[Kept, bool]:
    """The port and token of a folder's interface, and whether they are those of last time or new ones."""
    path = os.path.realpath(folder)
    with suppress(OSError, RuntimeError, ValueError, TypeError):
        found = Kept(**json.loads(read_private(place_of(folder))))
        if found.folder == path and type(found.port) is int and 0 < found.port < 65536 and TOKEN.fullmatch(found.token):
            return found, True
    digest = hashlib.sha256(os.fsencode(path)).digest()
    return Kept(folder=path, port=FIRST + int.from_bytes(digest[:4], "big") % PORTS, token=new_token()), False


def keep(found: Kept) -> None:
    """Keep a folder's port and token for the next start, if the state folder can be written."""
    with suppress(OSError, RuntimeError):
        write_private(place_of(found.folder), json.dumps(asdict(found)))


def token_in(file: str | Path) -> str:
    """The token in a file, which is made with a new one if it is not there; nobody but its owner may read it."""
    path = Path(file)
    try:
        if not os.path.lexists(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="ascii") as handle:
                handle.write(f"{new_token()}\n")
        token = read_private(path).decode("ascii", errors="replace").strip()
    except PermissionError as error:
        raise InputError(
            f"The token file '{file}' is not yours alone, and others may know the token: run 'chmod 600' on it, or name another file."
        ) from error
    except OSError as error:
        raise InputError(f"The token file '{file}' cannot be read or made ({error.strerror or error}): name another file.") from error
    if not TOKEN.fullmatch(token):
        raise InputError(f"The token file '{file}' holds no token: that is 32 letters, digits, - or _. Delete the file, and one is made.")
    return token
