"""Single perturbations that hurt, kept for the eye."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from veracity.core.errors import StoreError


@dataclass(frozen=True, repr=False)
class WorstPair:
    """One perturbation that hurt: the input and its explanation, before and after."""

    model: str
    explainer: str
    sample: int
    draw: int
    element: list[float]
    value: float
    input: Tensor
    moved: Tensor
    explanation: Tensor
    expected: Tensor
    found: Tensor
    merit: float | None = None
    label: int | None = None
    predicted: int | None = None

    def __repr__(self) -> str:
        """Who, where and how bad; not its tensors."""
        return f"WorstPair(model={self.model!r}, explainer={self.explainer!r}, sample={self.sample}, value={self.value:.3f})"


def unpacked(cell: dict[str, Any], kept: dict[str, Tensor]) -> Iterator[WorstPair]:
    """The stored pairs of one cell; raises if a part of them is not there."""
    parts = [kept.get(name) for name in (*PARTS, *(name for name in SEARCHED if name in kept))]
    if any(part is None or not part.ndim or len(part) != len(kept["sample"]) for part in parts):
        raise StoreError(f"The worst pairs of the cell {cell['key']} are damaged: delete their file and run the same command again.")
    for number in range(len(kept["sample"])):
        known: dict[str, Any] = {name: kind(kept[name][number]) for name, kind in SEARCHED.items() if name in kept}
        yield WorstPair(
            model=cell["model"],
            explainer=cell["explainer"],
            sample=int(kept["sample"][number]),
            draw=int(kept["draw"][number]),
            element=[float(part) for part in kept["element"][number]],
            value=float(kept["value"][number]),
            input=kept["input"][number],
            moved=kept["moved"][number],
            explanation=kept["explanation"][number],
            expected=kept["expected"][number],
            found=kept["found"][number],
            **known,
        )


PARTS = ("sample", "draw", "element", "value", "input", "moved", "explanation", "expected", "found")
"""What is kept of every pair."""
SEARCHED: dict[str, Callable[[Tensor], Any]] = {"merit": float, "label": int, "predicted": int}
"""What is kept of a pair that a search found."""


def badness_first(pair: WorstPair, sign: float) -> float:
    """What pairs are sorted by: a search knows how bad its own are; else the value counts."""
    return sign * pair.value if pair.merit is None else -pair.merit
