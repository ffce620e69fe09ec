"""JSON files that carry a checksum of their own content, and reading JSON that may come from anywhere."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

CHECKSUM = "checksum"
LARGEST = 256 << 20
"""The largest JSON file that is read, in bytes."""
DEEPEST = 64
"""How deep lists and tables may lie in each other."""
STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""Texts; one without an end runs to the end of the file, so that no byte is looked at twice."""
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that steer a terminal, and halves of characters that cannot be written."""
ESCAPED = re.compile(rb"\\[bfru]|\x7f|\xc2[\x80-\x9f]")
"""What any of those looks like in a file; most files hold none."""


def sealed(content: Mapping[str, Any]) -> bytes:
    """A JSON file with its checksum.

    >>> opened(sealed({"b": 1.5, "a": [1, 2]}))
    {'b': 1.5, 'a': [1, 2]}
    """
    plain = json.loads(json.dumps(content, allow_nan=False))
    return json.dumps({**plain, CHECKSUM: checksum(plain)}, indent=1, allow_nan=False).encode()


def opened(data: bytes) -> dict[str, Any]:
    """What a sealed file holds; raises ValueError where it was changed. Characters that steer a terminal are replaced.

    >>> opened(sealed({"a": 1}).replace(b"1", b"2", 1))
    Traceback (most recent call last):
    ValueError: its checksum does not fit its content
    >>> opened(sealed({"title": "a\x1b[2Jb"}))
    {'title': 'a\N{REPLACEMENT CHARACTER}[2Jb'}
    """
    content = parsed(data)
    if not isinstance(content, dict):
        raise ValueError("it holds no table")
    if content.pop(CHECKSUM, None) != checksum(content):
        raise ValueError("its checksum does not fit its content")
    found: dict[str, Any] = printable(content) if ESCAPED.search(data) else content
    return found


def checksum(content: Mapping[str, Any]) -> str:
    """A checksum of plain data, whatever the order of its names."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def parsed(data: bytes) -> Any:
    """The content of a JSON file; raises a ValueError if it is too large, too deep, or holds NaN."""
    if len(data) > LARGEST:
        raise ValueError(f"it has {len(data) >> 20} MiB, more than {LARGEST >> 20}")
    if depth(data) > DEEPEST:
        raise ValueError(f"its lists and tables are more than {DEEPEST} deep")
    return json.loads(data.decode(), parse_constant=no_number)


def depth(data: bytes) -> int:
    """How deep lists and tables lie in each other in a JSON text.

    >>> depth(b'[[1], "[[["]')
    2
    """
    bare = np.frombuffer(STRINGS.sub(b"", data), dtype=np.uint8)
    brackets = bare[np.isin(bare, np.frombuffer(b"[]{}", dtype=np.uint8))]
    steps = np.where(np.isin(brackets, np.frombuffer(b"[{", dtype=np.uint8)), 1, -1)
    return int(steps.cumsum().max(initial=0))


def no_number(text: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(f"{text} is not a number")


def printable(value: Any) -> Any:
    """The same without characters that steer a terminal or cannot be written."""
    if isinstance(value, str):
        return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [printable(item) for item in value]
    return {printable(key): printable(item) for key, item in value.items()} if isinstance(value, dict) else value
