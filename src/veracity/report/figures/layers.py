"""Features of one layer after the other: the score by layer, and how far explanations move by layer and level (Figure 10)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veracity.core.registry import FIGURES
from veracity.report.figure import Figure, Plot
from veracity.report.figures.alignment import distortions
from veracity.report.figures.chart import Axis, Scale, from_zero, legend, tight_scale
from veracity.report.figures.panels import Fan, Panel, draw_fans
from veracity.report.reading import RunReading

LEAST = 2
"""Fewer layers are no curve."""
FEATURES = "features"


@dataclass(frozen=True, kw_only=True)
class Family:
    """Encoders of one kind, such as all autoencoders with 256 features: the label of the explainer of each layer that has one."""

    name: str
    labels: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class LayersData:
    """One panel per model, or per model and family, over the layers; `names` are those of the lines."""

    panels: tuple[Panel, ...]
    names: tuple[str, ...]


def families(explainers: Mapping[str, Mapping[str, Any]], known: Sequence[str]) -> tuple[tuple[str, ...], tuple[Family, ...]]:
    """The layers that explainers of features name, in their order, and their families: by width, and controls of each width.

    Encoders of one layer and width are in families of their own, by the label of the first of each.

    >>> wide = {"name": "sparse_features", "encoder": {"W_enc": {"shape": [4, 8]}}}
    >>> layers, found = families({"a": {**wide, "layer": "h.0"}, "b": {**wide, "layer": "h.1"}}, ["a", "b", "a: raw activations"])
    >>> layers, [(one.name, dict(one.labels)) for one in found]
    (('h.0', 'h.1'), [('8 features', {0: 'a', 1: 'b'}), ('raw activations', {0: 'a: raw activations'})])
    """
    layered = {label: spec for label, spec in explainers.items() if spec.get("layer") and "encoder" in spec}
    layers = tuple(dict.fromkeys(str(spec["layer"]) for spec in layered.values()))
    groups: dict[str, list[dict[int, str]]] = {}
    for label, spec in layered.items():
        place, alike = layers.index(str(spec["layer"])), groups.setdefault(width_of(spec), [])
        free = next((group for group in alike if place not in group), None)
        if free is None:
            alike.append(free := {})
        free[place] = label
    own = {
        width if len(alike) == 1 else f"{width}, {next(iter(group.values()))}": group for width, alike in groups.items() for group in alike
    }
    controls: dict[str, dict[int, str]] = {}
    for name, group in own.items():
        for place, label in group.items():
            for other in known:
                if other.startswith(f"{label}: ") and other not in layered:
                    suffix = other.removeprefix(f"{label}: ")
                    line = f"{suffix}, {name}" if len(own) > 1 and suffix.startswith("random") else suffix
                    controls.setdefault(line, {}).setdefault(place, other)
    ordered = sorted(controls, key=lambda name: not name.startswith("random"))
    found = [*own.items(), *((name, controls[name]) for name in ordered)]
    return layers, tuple(Family(name=name, labels=labels) for name, labels in found)


def width_of(spec: Mapping[str, Any]) -> str:
    """How many features an encoder has, if it says so."""
    encoder = spec["encoder"] if isinstance(spec["encoder"], Mapping) else {}
    shape = (encoder.get("W_enc") or {}).get("shape")
    width = shape[1] if shape else encoder.get("width")
    return f"{width} {FEATURES}" if width else FEATURES


def layer_axis(layers: Sequence[str]) -> Axis:
    """One tick per layer, by its number if it has one.

    >>> layer_axis(["model.layers.0", "model.layers.1", "head"]).labels
    ('0', '1', 'head')
    """
    places = tuple(map(float, range(len(layers))))
    return Axis(scale=Scale(0.0, places[-1], places), labels=tuple(name.rsplit(".", 1)[-1] for name in layers))


def line(values: Mapping[int, float]) -> tuple[tuple[float, float], ...]:
    """A line over the layers that have a value."""
    return tuple((float(place), value) for place, value in sorted(values.items()))


class LayerFigure(Figure):
    """A figure over the layers of explainers of features."""

    def parts(self, reading: RunReading, label: str) -> tuple[tuple[str, ...], tuple[Family, ...]] | None:
        """Layers and families; None for fewer than two layers."""
        spec = reading.manifest["spec"].get("explainers")
        known = list(dict.fromkeys(row.explainer for row in reading.of(label)))
        layers, found = families(spec, known) if isinstance(spec, Mapping) else ((), ())
        return (layers, found) if len(layers) >= LEAST else None


@FIGURES.add
class ScoreByLayer(LayerFigure):
    """The score of features by layer and width, beside those of their controls (Figure 10 A)."""

    name = "layers"

    def data(self, reading: RunReading, label: str) -> LayersData | None:
        """One panel per model, one line per family."""
        parts = self.parts(reading, label)
        if parts is None:
            return None
        layers, found = parts
        values = {(row.model, row.explainer): row.value for row in reading.of(label)}
        up = tight_scale([value for value in values.values() if math.isfinite(value)], least=0.2)
        panels = []
        for model in reading.models:
            lines = [{place: values[model, one] for place, one in kind.labels.items() if (model, one) in values} for kind in found]
            pairs = enumerate(zip(found, lines, strict=True))
            fans = tuple(Fan(label=kind.name, index=number, seeds=(), middle=line(own)) for number, (kind, own) in pairs)
            panels.append(Panel(title=model, fans=fans, across=layer_axis(layers), up=up))
        return LayersData(panels=tuple(panels), names=tuple(kind.name for kind in found))

    def plot(self, reading: RunReading, label: str, data: LayersData) -> Plot:
        """The panels."""
        return Plot(
            title="Layer by layer",
            note="The mean score of each encoder by layer. If the autoencoder does not lie above the random encoder and the raw "
            "activations, the score says something about the layer and not about its features.",
            keys=legend(data.names, always=True),
            drawing=draw_fans(data.panels, "the score by layer"),
        )


@FIGURES.add
class DistortionByLayer(LayerFigure):
    """How far explanations move by layer, level and width (Figure 10 C to G)."""

    name = "layer_distortions"

    def data(self, reading: RunReading, label: str) -> LayersData | None:
        """One panel per model and family, one line per level."""
        parts = self.parts(reading, label)
        if parts is None:
            return None
        layers, found = parts
        moved = {subject: mean_by_level(both[1]) for subject, both in distortions(reading, label).items() if both[1].size}
        levels = max((len(one) for one in moved.values()), default=0)
        if not levels:
            return None
        up = from_zero([value for one in moved.values() for value in one])
        panels = []
        for model in reading.models:
            for kind in found:
                mine = {place: moved[model, one] for place, one in kind.labels.items() if (model, one) in moved}
                fans = tuple(
                    Fan(label=f"level {level + 1}", index=level, seeds=(), middle=line({place: one[level] for place, one in mine.items()}))
                    for level in range(levels)
                )
                title = kind.name if len(reading.models) == 1 else f"{model}: {kind.name}"
                panels.append(Panel(title=title, fans=fans, across=layer_axis(layers), up=up))
        return LayersData(panels=tuple(panels), names=tuple(f"level {level + 1}" for level in range(levels)))

    def plot(self, reading: RunReading, label: str, data: LayersData) -> Plot:
        """The panels."""
        return Plot(
            title="How far explanations move, layer by layer",
            note="The mean distortion of the explanation at each level of the path, from weak to strong noise on the weights.",
            keys=legend(data.names, always=True),
            drawing=draw_fans(data.panels, "explanation distortion by layer"),
        )


def mean_by_level(values: Any) -> list[float]:
    """The mean over the samples and draws that have a value, by level, from (samples, draws, levels).

    >>> mean_by_level(np.array([[[1.0, np.nan]], [[3.0, np.nan]]]))
    [2.0, nan]
    """
    known = np.isfinite(values)
    count = known.sum(axis=(0, 1))
    total = np.where(known, values, 0.0).sum(axis=(0, 1))
    return [float(one) for one in np.where(count > 0, total / np.maximum(count, 1), np.nan)]
