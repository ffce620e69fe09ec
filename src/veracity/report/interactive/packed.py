"""Named arrays behind a JSON header, as one piece of bytes that a browser reads without copying.

uint32, little-endian    how many bytes the header takes
header                   JSON; its `arrays` say name, dtype, shape, offset
data                     from the next multiple of 8 on; offsets count from there and are multiples of 8

Numbers, tables and names as JSON can hold them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[Any]
KINDS = {"f": "float32", "u": "uint8", "b": "uint8", "i": "int64"}
"""What each kind of number is stored as."""


def pack(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """A header and arrays as bytes; floats become float32, whole numbers int64, unsigned ones and truth values uint8.

    >>> data = pack({"sample": 3}, {"outputs/plain": np.array([[0.25, 0.75]])})
    >>> len(data) % 8, data[:4]
    (0, b'[\\x00\\x00\\x00')
    """
    entries, pieces, offset = [], [], 0
    for name, array in arrays.items():
        dtype = np.dtype(KINDS[array.dtype.kind]).newbyteorder("<")
        piece = np.ascontiguousarray(array, dtype=dtype)
        entries.append({"name": name, "dtype": KINDS[array.dtype.kind], "shape": list(array.shape), "offset": offset})
        pieces += [piece.data.cast("B") if piece.size else b"", bytes(-piece.nbytes % 8)]
        offset += piece.nbytes + -piece.nbytes % 8
    head = json.dumps(plain({**header, "arrays": entries}), separators=(",", ":"), allow_nan=False).encode()
    start = len(head).to_bytes(4, "little") + head
    return b"".join([start, bytes(-len(start) % 8), *pieces])


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header without its `arrays`, and the arrays, as views into the bytes.

    >>> header, arrays = unpack(pack({"sample": 3}, {"truth": np.array([[1, 2]])}))
    >>> header, arrays["truth"].tolist()
    ({'sample': 3}, [[1, 2]])
    """
    length = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + length])
    start = 4 + length + -(4 + length) % 8
    arrays = {}
    for entry in header.pop("arrays"):
        dtype, shape = np.dtype(entry["dtype"]).newbyteorder("<"), entry["shape"]
        count = int(np.prod(shape, dtype=np.int64))
        arrays[entry["name"]] = np.frombuffer(data, dtype, count, start + entry["offset"]).reshape(shape)
    return header, arrays


def plain(value: Any) -> Any:
    """The value as JSON types; a number that is not finite becomes None.

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
    """The value as JSON text.

    >>> encoded({"low": float("-inf"), "name": "\N{DEGREE SIGN}"}).decode()
    '{"low":null,"name":"°"}'
    """
    return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
