"""How the draws of a run came about, as its manifest says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veracity.core.walks import Sampling

MONTE_CARLO = "monte_carlo"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The draws of one score of one explainer on one model: how they were sampled, and the range of a value."""

    sampling: Sampling
    bounds: tuple[float, float]

    @property
    def width(self) -> float:
        """The width of the range."""
        return self.bounds[1] - self.bounds[0]


def drawn(manifest: Mapping[str, Any], score: str) -> dict[tuple[str, str], Drawn]:
    """Draws that are a random sample of their own from the first to any later one, by (model, explainer).

    Those of a Monte Carlo walk are, where each value is a mean over draws. An exhaustive walk visits elements in their order,
    an adaptive one stops by looking at its values, and a maximum over draws only ever grows.
    """
    if walk_of(manifest, score) != MONTE_CARLO or (about(manifest, score).get("reduce") or "mean") != "mean":
        return {}
    cells = {(str(cell["model"]), str(cell["explainer"])): cell for cell in manifest.get("cells") or () if cell["score"] == score}
    found = {name: Drawn(sampling=Sampling(**cell["sampling"]), bounds=bounds_of(cell)) for name, cell in cells.items()}
    return {name: item for name, item in found.items() if random(item.sampling)}


def shared(manifest: Mapping[str, Any], score: str) -> bool:
    """Whether all samples share the random draws of a score."""
    kinds = [Sampling(**cell["sampling"]) for cell in manifest.get("cells") or () if cell["score"] == score]
    return any(not kind.nested and not kind.exhaustive for kind in kinds)


def random(sampling: Sampling) -> bool:
    """Whether the first draws of every sample are a random sample of their own."""
    return sampling.nested and not sampling.exhaustive and sampling.anytime is None


def walk_of(manifest: Mapping[str, Any], score: str) -> str:
    """The name of the walk that a score took: its own, or else the audit's, or else what its cells show; "" if unknown.

    >>> walk_of({"spec": {"walk": {"name": "monte_carlo", "draws": 50}}}, "equivariance")
    'monte_carlo'
    """
    for given in ((about(manifest, score).get("spec") or {}).get("walk"), (manifest.get("spec") or {}).get("walk")):
        if given:
            return str(given.get("name", "")) if isinstance(given, Mapping) else str(given)
    kinds = [cell["sampling"] for cell in manifest.get("cells") or () if cell["score"] in (score, "model_invariance")]
    return MONTE_CARLO if kinds and all(random(Sampling(**kind)) for kind in kinds) else ""


def about(manifest: Mapping[str, Any], score: str) -> Mapping[str, Any]:
    """What the manifest says about a score."""
    found: Mapping[str, Any] = (manifest.get("score_specs") or {}).get(score) or {}
    return found


def bounds_of(cell: Mapping[str, Any]) -> tuple[float, float]:
    """The range of a value; unbounded where the manifest does not say."""
    low, high = cell.get("bounds") or (-math.inf, math.inf)
    return float(low), float(high)
