"""The short hash of plain data, for keys; it needs nothing but Python, so that a folder can be looked at quickly."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def of_json(value: Any) -> str:
    """A short hash of JSON data, independent of key order.

    >>> of_json({"a": 1, "b": 2}) == of_json({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
