"""What users of sparse autoencoders expect beside GEF: the quality of a dictionary, and whether sparsity has to do with faithfulness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.explainers import Frame
from veracity.core.inputs import Inputs, Signals, samples_on
from veracity.core.models import device_of, evaluating, layer_of, real_positions
from veracity.explain.passes import hooks
from veracity.explain.sparse import Activations, Encoder, SparseFeatures, read_layers
from veracity.explain.sparse.activations import as_activations
from veracity.inputs import as_inputs
from veracity.models import readable_output
from veracity.models.base import scores_in
from veracity.results import Result
from veracity.results.series import fitted_control
from veracity.scores.gef import Alignment
from veracity.statistics.correlation import spearman_interval

LOSSES = ["loss", "loss_decoded", "loss_zero", "loss_recovered"]
REPORT = ["explainer", "layer", "width", "l0", "explained_variance", *LOSSES, "dead", "tokens"]
ROWS = 16


@torch.no_grad()
def sae_report(
    explainers: Mapping[str, SparseFeatures], model: nn.Module, inputs: Any, *, labels: Tensor | None = None, skip: int = 0
) -> pd.DataFrame:
    """How good encoders are at what they are trained for, one row per explainer, over the tokens of some inputs.

    l0                  features that fire per token
    explained_variance  1 - sum |h - g(z(h))|^2 / sum |h - mean h|^2
    loss                cross-entropy of the next token, or of the `labels` (samples,)
    loss_decoded        the same if the layer's output is replaced by g(z(h))
    loss_zero           the same if it is replaced by zeros
    loss_recovered      (loss_zero - loss_decoded) / (loss_zero - loss): 1 if nothing is lost
    dead                the share of features that never fire

    The first `skip` tokens of each text are neither counted nor replaced. An encoder without a decoder has NaN in the columns that need it.
    """
    data, table = as_inputs(inputs), []
    module = data.adapt(model)
    with evaluating(module):
        module, _ = readable_output(module, samples_on(data, torch.zeros(1, dtype=torch.long), device_of(model)).through(module))
        plain = mean_loss(module, data, labels, skip)
        zeros = {
            layer: mean_loss(module, data, labels, skip, torch.zeros_like, layer) for layer in {one.layer for one in explainers.values()}
        }
        qualities = dictionary_qualities(explainers, module, data, skip)
        for label, one in explainers.items():
            found = qualities[label]
            decoded, zero = float("nan"), zeros[one.layer]
            if np.isfinite(found["explained_variance"]):
                decoded = mean_loss(module, data, labels, skip, partial(decode, one.encoder), one.layer)
            recovered = (zero - decoded) / (zero - plain) if zero != plain else float("nan")
            losses = dict(zip(LOSSES, (plain, decoded, zero, recovered), strict=True))
            table.append({"explainer": label, "layer": one.layer, **found, **losses})
    return pd.DataFrame(table, columns=REPORT)


def decode(encoder: Encoder, h: Tensor) -> Tensor | None:
    """g(z(h))."""
    return encoder.decode(encoder.encode(h))


def dictionary_qualities(
    explainers: Mapping[str, SparseFeatures], module: nn.Module, data: Inputs, skip: int
) -> dict[str, dict[str, float]]:
    """The quality of every dictionary by label; the layers of all are read in one pass."""
    found = {label: Quality(one) for label, one in explainers.items()}
    layers = list(dict.fromkeys(one.layer for one in explainers.values()))
    for part in torch.arange(data.size()).split(ROWS) if layers else ():
        x = samples_on(data, part, device_of(module))
        read = {name: kept_tokens(one, skip) for name, one in read_layers(module, layers, x.values, x.structure).items()}
        for one in found.values():
            one.see(read[one.explainer.layer])
    return {label: one.columns() for label, one in found.items()}


class Quality:
    """What one dictionary makes of tokens: how many features fire, how much of the variance they explain, which never fire."""

    def __init__(self, explainer: SparseFeatures) -> None:
        self.explainer = explainer
        self.tokens, self.active, self.rest, self.squares = 0, 0.0, 0.0, 0.0
        self.fired, self.sums = torch.zeros(0), torch.zeros(0)

    def see(self, h: Tensor) -> None:
        """Count in the activations (tokens, d) of some tokens."""
        encoder: Encoder = self.explainer.encoder
        z = self.explainer.from_activations(h)
        back, fires = encoder.decode(z), z != 0
        if not len(self.fired):
            self.fired = torch.zeros(z.shape[1], dtype=torch.bool, device=z.device)
            self.sums = torch.zeros(h.shape[1], dtype=torch.float64, device=h.device)
        self.tokens, self.active, self.fired = self.tokens + len(h), self.active + float(fires.sum()), self.fired | fires.any(0)
        self.sums, self.squares = self.sums + h.double().sum(0), self.squares + float(h.double().square().sum())
        self.rest = self.rest + float((h - back).double().square().sum()) if back is not None else np.nan

    def columns(self) -> dict[str, float]:
        """Width, L0, explained variance, and the share of dead features."""
        whole = self.squares - float(self.sums.square().sum()) / max(self.tokens, 1)
        dead, variance = float((~self.fired).float().mean()), 1.0 - self.rest / whole if whole > 0 else np.nan
        l0 = self.active / max(self.tokens, 1)
        return {"width": len(self.fired), "l0": l0, "explained_variance": variance, "dead": dead, "tokens": self.tokens}


def kept_mask(found: Activations, skip: int) -> Tensor:
    """Which positions (N, T) are tokens after the first `skip` ones."""
    real = torch.ones(found.values.shape[:2], dtype=torch.bool, device=found.values.device) if found.real is None else found.real
    return real & (real.cumsum(1) > skip) if not found.rows else real


def kept_tokens(found: Activations, skip: int) -> Tensor:
    """The activations (tokens, d) of those positions."""
    return found.values[kept_mask(found, skip)]


def mean_loss(module: nn.Module, data: Inputs, labels: Tensor | None, skip: int, change: Any = None, layer: str = "") -> float:
    """The mean cross-entropy over tokens or samples, with the output of a layer replaced by a function of it; NaN if none is known."""
    total, count = 0.0, 0
    for part in torch.arange(data.size()).split(ROWS):
        x = samples_on(data, part, device_of(module))
        real = real_positions(module, x.values, *x.structure)

        def replaced(_module: nn.Module, _args: Any, output: Any, x: Signals = x, real: Tensor | None = real) -> Any:
            h = output[0] if isinstance(output, (tuple, list)) and len(output) else output
            found = as_activations(layer, output, len(x), real)
            mask, new = kept_mask(found, skip), found.values.clone()
            new[mask] = change(found.values[mask]).to(h)
            new = (new.transpose(1, 2) if h.ndim == 4 else new).reshape(h.shape)
            return (new, *output[1:]) if isinstance(output, (tuple, list)) else new

        with hooks([layer_of(module, layer).register_forward_hook(replaced)] if change is not None else []):
            scores = scores_in(x.through(module))
        summed, here = cross_entropy(scores, x, None if labels is None else labels[part].to(scores.device), real)
        total, count = total + summed, count + here
    return total / count if count else float("nan")


def cross_entropy(scores: Tensor, x: Signals, labels: Tensor | None, real: Tensor | None) -> tuple[float, int]:
    """The summed cross-entropy and its number of terms: of labels, or of the next tokens of texts."""
    if labels is not None:
        if scores.ndim != 2:
            raise InputError(f"Labels belong to scores (samples, classes), but the model gives {tuple(scores.shape)}: leave labels out.")
        return float(functional.cross_entropy(scores.double(), labels, reduction="sum")), len(labels)
    if scores.ndim != 3 or not x.structure or x.structure[0].shape != scores.shape[:2]:
        return 0.0, 0
    ids = x.structure[0]
    follows = (torch.ones_like(ids, dtype=torch.bool) if real is None else real)[:, 1:]
    lost = functional.cross_entropy(scores[:, :-1][follows].double(), ids[:, 1:][follows], reduction="sum")
    return float(lost), int(follows.sum())


def sparsity_correlation(
    result: Result, score: str = "fast_gef", *, explainers: Sequence[str] | None = None, sparsity: Literal["l0", "l1"] = "l1"
) -> pd.DataFrame:
    """Spearman's correlation, over samples, of the sparsity of features and their score, with its interval.

    Sparsity is the sum of the features' magnitudes ("l1", as in Figure 10 of the GEF paper) or the number that fire ("l0"). One row per
    model and explainer of features, and one row "all" per model, over all of them together, whose interval leaves out one sample with
    all of its explanations at a time. Controls that were fitted beside others count among "all" only if `explainers` names them.
    """
    wanted = [one for one in result.series if one.score == score and one.frame == Frame.FEATURES.value]
    chosen = [one for one in wanted if explainers is None or one.explainer in explainers]
    if not chosen:
        raise InputError(f"The run has no features of a layer with the score '{score}': run SparseFeatures with it, or name others.")
    if not isinstance(result.score(score), Alignment):
        raise InputError(f"The correlation with sparsity is of fast_gef or gef, and '{score}' is something else.")
    rows, labels = [], {one.explainer for one in wanted}
    for model in dict.fromkeys(one.model for one in chosen):
        sparse, values = [], []
        for one in (one for one in chosen if one.model == model):
            z = result.explanations(model, one.explainer)[torch.from_numpy(one.samples)].flatten(1).double()
            magnitude = (z.abs().sum(1) if sparsity == "l1" else (z != 0).double().sum(1)).numpy()
            rows.append({"model": model, "explainer": one.explainer, **interval_of(magnitude, one.per_sample, result.confidence)})
            if explainers is not None or not fitted_control(one.explainer, one.frame, labels):
                sparse.append(magnitude)
                values.append(one.per_sample)
        if len(values) > 1 and len({len(one) for one in values}) == 1:
            rows.append({"model": model, "explainer": "all", **interval_of(np.stack(sparse, 1), np.stack(values, 1), result.confidence)})
    return pd.DataFrame(rows, columns=["model", "explainer", "correlation", "low", "high", "n"])


def interval_of(sparse: Any, values: Any, confidence: float) -> dict[str, float]:
    """The correlation as columns of a table."""
    found = spearman_interval(sparse, values, confidence)
    return {"correlation": found.value, "low": found.low, "high": found.high, "n": found.n}
