"""What features stand for: the texts, and the tokens in them, on which they fire most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from veracity.core.inputs import Inputs, samples_on, whole, words_of
from veracity.core.models import device_of, evaluating
from veracity.explain.sparse.activations import Activations, read_layers
from veracity.inputs import TextInputs

if TYPE_CHECKING:
    from veracity.explain.sparse.features import SparseFeatures

TEXTS, ROWS = 128, 16
"""How many texts are searched, and how many go through the model at once, or fewer if they do not fit."""
KEPT = 1 << 28
"""Up to so many bytes of activations are kept for the second look at the texts; the others are read again."""
FAINT = 0.1
"""A text in which a feature fires less than this share of its largest activation is not shown."""
BEFORE, AFTER = 14, 4
"""How many words are shown before and after the one on which a feature fires most."""


@torch.no_grad()
def top_features(
    explainers: Mapping[str, SparseFeatures], model: nn.Module, inputs: Inputs, count: int = 6, lines: int = 3, batch: int = ROWS
) -> dict[str, list[dict[str, Any]]]:
    """The features that are largest on average over the explanations, each with the texts in which any token makes it fire most.

    By label, one record per feature: its number, its mean, the share of tokens on which it fires, and the `lines`, each with the sample,
    some of its words, the activation at each, and the place of the largest. The model takes values and structure, as `inputs.adapt`
    makes it; the layers of all explainers are read together. Empty unless the inputs are texts.
    """
    if not explainers or not isinstance(whole(inputs), TextInputs):
        return {}
    rows = torch.arange(min(TEXTS, inputs.size()))
    tallies = {label: Tally(one) for label, one in explainers.items()}
    layers = list(dict.fromkeys(one.layer for one in explainers.values()))
    kept: dict[int, dict[str, Activations]] = {}
    for see in (Tally.count, Tally.follow):
        with evaluating(model):
            for number, part in enumerate(rows.split(min(ROWS, batch))):
                x = samples_on(inputs, part, device_of(model))
                found = kept[number] if number in kept else read_layers(model, layers, x.values, x.structure)
                if len(kept) == number and (number + 1) * sum(one.values.nbytes for one in found.values()) <= KEPT:
                    kept[number] = found
                for one in tallies.values():
                    see(one, found[one.explainer.layer], x.structure[1].cpu())
        for one in tallies.values():
            one.choose(count)
    return {label: one.records(inputs, len(rows), lines) for label, one in tallies.items()}


class Tally:
    """How much the features of an explainer fire: first all of them, then the chosen ones on every word of every text."""

    def __init__(self, explainer: SparseFeatures) -> None:
        self.explainer, self.tokens = explainer, 0
        self.total: Tensor | None = None
        self.fires: Tensor | None = None
        self.chosen: list[int] = []
        self.by_text: list[Tensor] = []

    def count(self, found: Activations, _units: Tensor) -> None:
        """Add up the explanations, and on how many tokens features fire."""
        one = self.explainer
        every = one.from_activations(found.values.flatten(0, 1)).unflatten(0, found.values.shape[:2])
        at = found.mean(every) if one.position == "mean" else one.from_activations(found.at(int(one.position), one.layer))
        every = every.flatten(0, 1) if found.real is None else every[found.real]
        total, fires = at.double().sum(0), (every > 0).double().sum(0)
        self.total = total if self.total is None else self.total + total
        self.fires = fires if self.fires is None else self.fires + fires
        self.tokens += len(every)

    def choose(self, count: int) -> None:
        """Choose the features with the largest sums."""
        if self.total is not None:
            self.chosen = [one for one in self.total.topk(min(count, len(self.total))).indices.tolist() if self.total[one] > 0]

    def follow(self, found: Activations, units: Tensor) -> None:
        """Keep the chosen features on every word (U, features) of each text: the largest over the word's tokens."""
        texts, length, _ = found.values.shape
        z = self.explainer.from_activations(found.values.flatten(0, 1))[:, self.chosen].reshape(texts, length, -1).float().cpu()
        for row in range(texts):
            kept = units[row] >= 0
            place = units[row][kept][:, None].expand(-1, z.shape[2])
            self.by_text.append(torch.zeros(int(units[row].max()) + 1, z.shape[2]).scatter_reduce(0, place, z[row][kept], "amax"))

    def records(self, inputs: Inputs, rows: int, lines: int) -> list[dict[str, Any]]:
        """One record per chosen feature."""
        if self.total is None or self.fires is None:
            return []
        records = []
        for place, feature in enumerate(self.chosen):
            peaks = torch.tensor([float(one[:, place].max()) for one in self.by_text])
            best = [row for row in peaks.argsort(descending=True, stable=True)[:lines].tolist() if peaks[row] > FAINT * peaks.max()]
            shown = [line(inputs, row, self.by_text[row][:, place]) for row in best]
            mean, fires = float(self.total[feature]) / rows, float(self.fires[feature]) / max(self.tokens, 1)
            records.append({"feature": feature, "mean": mean, "fires": fires, "lines": shown})
        return records


def line(inputs: Inputs, row: int, values: Tensor) -> dict[str, Any]:
    """The words of a text around the one with the largest value, with their values."""
    words, peak = words_of(inputs, row) or [], int(values.argmax())
    first, last = max(0, peak - BEFORE), peak + AFTER + 1
    kept = [round(value, 4) for value in values[first:last].tolist()]
    return {"sample": row, "words": [word[:24] for word in words[first:last]], "values": kept, "peak": peak - first, "cut": first > 0}
