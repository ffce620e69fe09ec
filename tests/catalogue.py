"""Write the list of components that `veracity ls` prints: python -m tests.catalogue"""

from __future__ import annotations

import inspect
import json
from typing import Any

from veracity.cli.catalogue import FILE, KINDS
from veracity.core import registry
from veracity.scores.presets import PRESETS


def summary(item: Any) -> str:
    """The first paragraph about a component."""
    if hasattr(item, "summary"):
        return str(item.summary())
    return (inspect.getdoc(item) or "").split("\n\n")[0].replace("\n", " ")


def registered() -> dict[str, dict[str, str]]:
    """The names and sentences of the package's own components, by kind."""
    known = {one.plural: one for one in vars(registry).values() if isinstance(one, registry.Registry)}
    found = {kind: {name: summary(item) for name, item in sorted(known[kind].own().items()) if ours(item)} for kind in KINDS[:-1]}
    return {**found, "presets": {name: one.summary() for name, one in sorted(PRESETS.items())}}


def ours(item: Any) -> bool:
    maker = getattr(item, "assemble", getattr(item, "function", item))
    return str(maker.__module__).startswith("veracity.")


if __name__ == "__main__":
    FILE.write_text(json.dumps(registered(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
