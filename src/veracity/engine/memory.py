"""Outputs of perturbed models and inputs, kept a while: every explainer of a model asks for the same ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from torch import Tensor

from veracity.core.scores import Reads

Found = dict[Reads, Tensor]
BYTES = 64 << 20


class Memory:
    """The outputs asked for last, by keys that say everything they depend on, in a bounded number of bytes."""

    def __init__(self, limit: int = BYTES) -> None:
        self.limit, self.held = limit, 0
        self.kept: OrderedDict[str, Found] = OrderedDict()

    def recall(self, key: str, what: frozenset[Reads], compute: Callable[[frozenset[Reads]], Found]) -> Found:
        """What is known under a key, and the rest computed."""
        found = self.kept.pop(key, {})
        self.held -= size(found)
        missing = what - set(found)
        if missing:
            found = {**found, **compute(missing)}
        self.kept[key] = found
        self.held += size(found)
        while self.held > self.limit and len(self.kept) > 1:
            self.held -= size(self.kept.popitem(last=False)[1])
        return {one: found[one] for one in what}

    def forget(self) -> None:
        """Drop everything."""
        self.kept.clear()
        self.held = 0


def size(found: Found) -> int:
    """Bytes."""
    return sum(tensor.nbytes for tensor in found.values())


MEMORY = Memory()
"""One for each process; it holds values alone, never anything that a result could differ by."""
