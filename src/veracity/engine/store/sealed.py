"""JSON files that carry a checksum of their own content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

CHECKSUM = "checksum"


def sealed(content: Mapping[str, Any]) -> bytes:
    """A JSON file with its checksum.

    >>> opened(sealed({"b": 1.5, "a": [1, 2]}))
    {'b': 1.5, 'a': [1, 2]}
    """
    plain = json.loads(json.dumps(content, allow_nan=False))
    return json.dumps({**plain, CHECKSUM: checksum(plain)}, indent=1, allow_nan=False).encode()


def opened(data: bytes) -> dict[str, Any]:
    """What a sealed file holds; raises ValueError where it was changed.

    >>> opened(sealed({"a": 1}).replace(b"1", b"2", 1))
    Traceback (most recent call last):
    ValueError: its checksum does not fit its content
    """
    try:
        content = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it is not a table of names and values")
    if content.pop(CHECKSUM, None) != checksum(content):
        raise ValueError("its checksum does not fit its content")
    return content


def checksum(content: Mapping[str, Any]) -> str:
    """A checksum of plain data, whatever the order of its names."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
