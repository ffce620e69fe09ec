"""Pictures of global explanations in a run folder: of every model itself, and of its copies with growing perturbation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from veracity.engine.store import RunFolder


@dataclass(frozen=True, repr=False)
class Visualised:
    """The pictures (levels, classes, channels, H, W) of one explainer of a model; the first level is the model itself.

    `strengths` are those of the perturbations, None where a perturbation has no strength.
    """

    model: str
    explainer: str
    classes: tuple[int, ...]
    strengths: tuple[float | None, ...]
    images: Tensor

    def __repr__(self) -> str:
        """Everything but the pictures."""
        return f"Visualised(model={self.model!r}, explainer={self.explainer!r}, classes={self.classes}, strengths={self.strengths})"


def visualised(folder: RunFolder, subjects: Sequence[tuple[str, str]]) -> list[Visualised]:
    """The pictures of some (model, explainer), in their order; of several paths of perturbations, the one with the fewest levels."""
    tables = [table for table in folder.tables("visualised") if known(table)]
    found = []
    for subject in subjects:
        mine = [table for table in tables if (table["model"], table["explainer"]) == subject]
        base = next((table for table in mine if table["lesson"] == table["base"]), None)
        if base is not None:
            found += picture_levels(folder, base, [table for table in mine if table["base"] == base["base"] and table is not base])
    return found


def known(table: Mapping[str, Any]) -> bool:
    """Whether a table has everything that a run writes into it."""
    words = all(isinstance(table.get(name), str) for name in ("model", "explainer", "tensor", "base", "lesson"))
    strength = table.get("strength")
    return words and (strength is None or isinstance(strength, (int, float))) and isinstance(table.get("level", 0), int)


def picture_levels(folder: RunFolder, base: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[Visualised]:
    """The pictures of one explainer; none if they are not in the folder any more."""
    paths: dict[str, list[Mapping[str, Any]]] = {}
    for table in others:
        if table["tensor"] == base["tensor"]:
            paths.setdefault(str(table.get("space")), []).append(table)
    path = min(paths.items(), key=lambda item: (len(item[1]), item[0]), default=("", []))[1]
    lessons = [
        (table["strength"], folder.recovered("learnt", table["lesson"]))
        for table in (base, *sorted(path, key=lambda one: one.get("level", 0)))
    ]
    kept = [(strength, lesson) for strength, lesson in lessons if lesson is not None and base["tensor"] in lesson]
    first = lessons[0][1]
    if first is None or "classes" not in first or base["tensor"] not in first:
        return []
    shape = first[base["tensor"]].shape
    images = [(strength, lesson[base["tensor"]]) for strength, lesson in kept if lesson[base["tensor"]].shape == shape]
    if len(shape) != 4 or len(first["classes"]) != shape[0]:
        return []
    classes, strengths = tuple(first["classes"].tolist()), tuple(strength for strength, _ in images)
    return [Visualised(base["model"], base["explainer"], classes, strengths, torch.stack([one for _, one in images]))]
