"""Numbers, tables and names as JSON can hold them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd


def plain(value: Any) -> Any:
    """The same in JSON's own kinds; a number that is not finite is None.

    >>> plain({"value": float("nan"), "shape": (2, np.int64(3)), "best": np.float32(0.5)})
    {'value': None, 'shape': [2, 3], 'best': 0.5}
    """
    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, bool, int)) else str(value)


def encoded(value: Any) -> bytes:
    """The same as JSON text.

    >>> encoded({"low": float("-inf"), "name": "\N{DEGREE SIGN}"}).decode()
    '{"low":null,"name":"°"}'
    """
    return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
