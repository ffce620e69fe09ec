"""What must be said of published figures that stand beside ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any


def caveats(entries: Sequence[Mapping[str, Any]], score: str, models: Collection[str], explainers: Collection[str]) -> list[str]:
    """One sentence per caveat of the figures that are shown, with the explainers that it is about.

    >>> told = {"model": "net", "score": "gef", "caveat": "come from another network"}
    >>> caveats([{**told, "explainer": "lime"}, {**told, "explainer": "shap"}], "gef", ["net"], ["lime", "shap"])
    ['The published figures of lime and shap come from another network.']
    """
    found: dict[str, list[str]] = {}
    for entry in entries:
        shown = entry.get("score") == score and entry.get("model") in models and entry.get("explainer") in explainers
        if shown and entry.get("caveat"):
            found.setdefault(str(entry["caveat"]), []).append(str(entry["explainer"]))
    return [f"The published figures of {listed(list(dict.fromkeys(names)))} {caveat}." for caveat, names in found.items()]


def listed(names: Sequence[str]) -> str:
    """Names with commas and an "and".

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
