"""What is damaged, and how much of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veracity.core.errors import SpecError, unknown
from veracity.core.spaces import WeightSpace
from veracity.perturb import ConvolutionNoise, WrongLabels

UNDAMAGED = "undamaged"

Damage = WeightSpace | WrongLabels
DAMAGES: dict[str, Damage] = {"weights": ConvolutionNoise(), "labels": WrongLabels()}


@dataclass(frozen=True)
class Case:
    """One damaged model: which damage, how much of it, its level, and the seed; the undamaged one has the share 0."""

    damage: str
    share: float
    level: int
    seed: int

    @property
    def name(self) -> str:
        """The case's folder.

        >>> Case("weights", 0.05, 0, 2).name, Case("", 0.0, 0, 2).name
        ('weights-0.05-2', 'undamaged-2')
        """
        return f"{self.damage}-{self.share:g}-{self.seed}" if self.damage else f"{UNDAMAGED}-{self.seed}"


def as_damages(given: Any) -> dict[str, Damage]:
    """Damages by name, from names, objects, or a mapping to either."""
    if isinstance(given, str):
        raise SpecError(f"The damages are a list, such as ['{given}'], not one name.")
    listed = (
        given.items() if isinstance(given, Mapping) else [(one if isinstance(one, str) else getattr(one, "name", ""), one) for one in given]
    )
    found: dict[str, Damage] = {}
    for name, one in listed:
        if isinstance(one, str) and one not in DAMAGES:
            raise unknown("damage", one, DAMAGES)
        damage = DAMAGES[one] if isinstance(one, str) else one
        if not isinstance(damage, (WeightSpace, WrongLabels)):
            raise SpecError(
                f"A damage is 'weights', 'labels', a space of weights such as ConvolutionNoise(), or WrongLabels(), not {one!r}."
            )
        if name in found or name == UNDAMAGED or not re.fullmatch(r"[\w .=-]+", str(name)):
            raise SpecError(f"Each damage needs a name of its own, of letters and digits, such as {{'weights': ...}}, not {name!r}.")
        found[str(name)] = damage
    if not found:
        raise SpecError("There is no damage to check: pass damages=['weights', 'labels'], or one of them.")
    return found
