"""What features stand for: the texts, and the tokens in them, on which they fire most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from veracity.core.inputs import Inputs, samples_on, whole, words_of
from veracity.core.models import device_of, evaluating
from veracity.explain.sparse.activations import read_layers
from veracity.inputs import TextInputs

if TYPE_CHECKING:
    from veracity.explain.sparse.features import SparseFeatures

TEXTS, ROWS = 128, 16
"""How many texts are searched, and how many go through the model at once."""
BEFORE, AFTER = 14, 4
"""How many words are shown before and after the one on which a feature fires most."""


@torch.no_grad()
def top_features(explainer: SparseFeatures, model: nn.Module, inputs: Inputs, count: int = 6, lines: int = 3) -> list[dict[str, Any]]:
    """The features that are largest on average at the explained token, each with the texts in which any token makes it fire most.

    One record per feature: its number, its mean, the share of tokens on which it fires, and the `lines`, each with the sample, some of
    its words, the activation at each, and the place of the largest. The model takes values and structure, as `inputs.adapt` makes it.
    Empty unless the inputs are texts.
    """
    if not isinstance(whole(inputs), TextInputs):
        return []
    rows = torch.arange(min(TEXTS, inputs.size()))
    total, fires, tokens = torch.zeros(0), torch.zeros(0), 0
    with evaluating(model):
        for part in rows.split(ROWS):
            x = samples_on(inputs, part, device_of(model))
            found = read_layers(model, [explainer.layer], x.values, x.structure)[explainer.layer]
            every = explainer.from_activations(found.tokens())
            at = every if explainer.position == "mean" else explainer.from_activations(found.at(int(explainer.position), explainer.layer))
            if not len(total):
                total, fires = (torch.zeros(every.shape[1], dtype=torch.float64, device=every.device) for _ in range(2))
            total, fires, tokens = total + at.double().sum(0), fires + (every > 0).double().sum(0), tokens + len(every)
        chosen = [feature for feature in total.topk(min(count, len(total))).indices.tolist() if total[feature] > 0]
        activity = [activity_of(explainer, model, inputs, part, chosen) for part in rows.split(ROWS)] if chosen else []
    by_text = [one for part in activity for one in part]
    records = []
    for place, feature in enumerate(chosen):
        peaks = torch.tensor([float(one[:, place].max()) if len(one) else 0.0 for one in by_text])
        best = [row for row in peaks.argsort(descending=True, stable=True)[:lines].tolist() if peaks[row] > 0]
        shown = [line(inputs, row, by_text[row][:, place]) for row in best]
        records.append(
            {"feature": feature, "mean": float(total[feature]) / len(rows), "fires": float(fires[feature]) / max(tokens, 1), "lines": shown}
        )
    return records


def activity_of(explainer: SparseFeatures, model: nn.Module, inputs: Inputs, part: Tensor, chosen: list[int]) -> list[Tensor]:
    """The activations (U, features) of some features on every word of some texts: the largest of the word's tokens."""
    x = samples_on(inputs, part, device_of(model))
    found = read_layers(model, [explainer.layer], x.values, x.structure)[explainer.layer]
    count, length, _ = found.values.shape
    z = explainer.from_activations(found.values.flatten(0, 1))[:, chosen].reshape(count, length, -1).float().cpu()
    units = x.structure[1].cpu()
    activity = []
    for row in range(count):
        kept = units[row] >= 0
        place = units[row][kept][:, None].expand(-1, z.shape[2])
        width = int(units[row].max()) + 1
        activity.append(torch.zeros(width, z.shape[2]).scatter_reduce(0, place, z[row][kept], "amax"))
    return activity


def line(inputs: Inputs, row: int, values: Tensor) -> dict[str, Any]:
    """The words of a text around the one with the largest value, with their values."""
    words, peak = words_of(inputs, row) or [], int(values.argmax())
    first, last = max(0, peak - BEFORE), peak + AFTER + 1
    kept = [round(value, 4) for value in values[first:last].tolist()]
    return {"sample": row, "words": [word[:24] for word in words[first:last]], "values": kept, "peak": peak - first, "cut": first > 0}
