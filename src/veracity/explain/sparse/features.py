"""Features of a layer as an explanation, and the controls that belong beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, FITTED, Context, Cost, Explainer, Frame, LayerExplainer
from veracity.core.inputs import Inputs, samples_on
from veracity.core.long_rows import long_normal
from veracity.core.models import device_of, evaluating
from veracity.core.registry import EXPLAINERS
from veracity.explain.passes import Structure, in_batches
from veracity.explain.sparse.activations import Position, finite_rows, read_layers
from veracity.explain.sparse.encoders import Encoder, LinearEncoder, RawActivations, as_encoder
from veracity.explain.sparse.examples import top_features
from veracity.explain.wrapper import computed
from veracity.inputs import as_inputs

MOST, ROWS = 512, 32
"""How many samples controls are fitted to, and how many go through the model at once, or fewer if they do not fit."""


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class SparseFeatures(LayerExplainer):
    """The features of a layer at one token: e(x) = z(h(x)) = sigma(W_enc (h - b_dec) + b_enc), (N, features).

    That is eq. 22 with the centring of Bricken et al.; encoders without it, as in Gemma Scope, leave b_dec out.

    encoder   an object with `encode`, tensors by name, or a file of them: see `as_encoder`
    layer     the name of the layer whose output h is encoded; of a tuple, its first part
    position  the token: -1 is the last one that is no padding; "mean" is the mean of the features over all tokens

    The encoder stays the same when the model's weights change. Compare explanations by `cosine_distance` without normalisation. An
    audit measures the features of a random encoder, the raw activations and their principal components beside it: see
    `feature_controls`.
    """

    name = "sparse_features"
    reference = "Hedström et al. 2025 (TMLR), section 6.4; Bricken et al. 2023 (Towards monosemanticity)"
    frame = Frame.FEATURES
    structured = True
    local = True
    signed: ClassVar[bool] = computed(lambda self: isinstance(self.encoder, Encoder) and self.encoder.signed)

    encoder: Any = None
    position: Position = -1

    def __post_init__(self) -> None:
        if self.encoder is not None:
            object.__setattr__(self, "encoder", as_encoder(self.encoder))

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless the layer gives activations that the encoder takes."""
        if not isinstance(self.encoder, Encoder) or not self.layer:
            raise SpecError("sparse_features needs an encoder and a layer: pass SparseFeatures(encoder=sae, layer='...').")
        with evaluating(model), torch.no_grad():
            found = read_layers(model, [self.layer], inputs, context.structure)[self.layer]
        self.encoder.check(finite_rows(found.tokens(), self.layer)[:4], self.layer)
        if self.position != "mean":
            found.at(self.position, self.layer)
        return ()

    @property
    def place(self) -> str | None:
        """The token; a mean over tokens is made of features, so there is nothing to share."""
        return None if self.position == "mean" else str(self.position)

    @torch.no_grad()
    def activations(self, model: nn.Module, layers: Sequence[str], inputs: Tensor, structure: Structure) -> dict[str, Tensor]:
        """The activations (N, d) of each layer at the token."""
        found = read_layers(model, layers, inputs.detach(), structure)
        return {name: one.at(int(self.position), name) for name, one in found.items()}

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        def features(x: Tensor, _targets: Tensor, structure: Structure) -> Tensor:
            if self.position != "mean":
                return self.from_activations(self.activations(model, [self.layer], x, structure)[self.layer])
            found = read_layers(model, [self.layer], x, structure)[self.layer]
            every = self.from_activations(found.values.flatten(0, 1))
            return found.mean(every.reshape(*found.values.shape[:2], -1))

        with torch.no_grad():
            return in_batches(features, inputs.detach(), targets, context.batch, context.structure)

    @torch.no_grad()
    def from_activations(self, h: Tensor) -> Tensor:
        """The features (N, m) of activations (N, d)."""
        encoder: Encoder = self.encoder
        if encoder.inputs is not None and h.shape[1] != encoder.inputs:
            encoder.check(h[:1], self.layer)
        return encoder.encode(h)

    @classmethod
    def own_controls(
        cls, explainers: Mapping[str, Explainer], model: nn.Module, inputs: Inputs, seed: int, batch: int
    ) -> Mapping[str, Mapping[str, Explainer]]:
        """The controls of `feature_controls`; none for an encoder without a nonlinearity, which is one itself."""
        mine = {label: one for label, one in explainers.items() if isinstance(one, SparseFeatures) and one.sparse}
        found: dict[str, Mapping[str, Explainer]] = {}
        for position in dict.fromkeys(one.position for one in mine.values()):
            alike = {label: one for label, one in mine.items() if one.position == position}
            h = layer_activations(list(alike.values()), model, inputs, batch)
            found |= {label: controls_for(one, h[one.layer], seed) for label, one in alike.items()}
        return found

    @classmethod
    def meanings(
        cls, explainers: Mapping[str, Explainer], model: nn.Module, inputs: Inputs, batch: int
    ) -> Mapping[str, list[dict[str, Any]]]:
        """The largest features, with the texts and tokens on which they fire; none without a nonlinearity, and none of random ones."""
        mine = {label: one for label, one in explainers.items() if isinstance(one, SparseFeatures) and one.sparse}
        named = {label: one for label, one in mine.items() if not getattr(one.encoder, "random", False)}
        return top_features(named, model, inputs, batch=batch)

    @property
    def sparse(self) -> bool:
        """Whether there is an encoder with a nonlinearity."""
        return isinstance(self.encoder, Encoder) and bool(self.layer) and not self.encoder.signed


def feature_controls(explainer: SparseFeatures, model: nn.Module, inputs: Any, *, seed: int = 0) -> dict[str, SparseFeatures]:
    """What features of a layer must be compared with, as explainers of the same layer and token.

    random encoder        as many features in random directions, each of which fires on as many of the inputs as a feature of the encoder
    raw activations       h itself
    principal components  of h, as many as the encoder has features, or as vary

    They are fitted to the activations of the unperturbed model on the inputs, of which at most 512 are used.
    """
    data = as_inputs(inputs)
    return controls_for(explainer, layer_activations([explainer], data.adapt(model), data)[explainer.layer], seed)


def controls_for(explainer: SparseFeatures, h: Tensor, seed: int = 0) -> dict[str, SparseFeatures]:
    """The controls of an explainer, from activations (n, d) of its layer."""
    encoder: Encoder = explainer.encoder
    encoder.check(h[:4], explainer.layer)
    z = torch.cat([explainer.from_activations(part) for part in h.split(256)])
    encoders = (random_encoder(h, z, encoder, seed), RawActivations(), pca_encoder(h, z.shape[1]))
    return {suffix: replace(explainer, encoder=one) for suffix, one in zip(FITTED, encoders, strict=True)}


@torch.no_grad()
def layer_activations(explainers: Sequence[SparseFeatures], model: nn.Module, inputs: Inputs, batch: int = ROWS) -> dict[str, Tensor]:
    """The activations (n, d) of the layers of some explainers of one token, on the first inputs; at all tokens for a mean.

    The model takes values and structure, as `inputs.adapt` makes it.
    """
    layers, position = list(dict.fromkeys(one.layer for one in explainers)), explainers[0].position
    found: dict[str, list[Tensor]] = {name: [] for name in layers}
    with evaluating(model):
        for rows in torch.arange(min(MOST, inputs.size())).split(min(ROWS, batch)):
            x = samples_on(inputs, rows, device_of(model))
            for name, one in read_layers(model, layers, x.values, x.structure).items():
                found[name].append(one.tokens() if position == "mean" else one.at(int(position), name))
    return {name: finite_rows(torch.cat(parts), name) for name, parts in found.items()}


def random_encoder(h: Tensor, z: Tensor, like: Encoder, seed: int = 0) -> LinearEncoder:
    """An encoder in random directions whose feature j is positive on as many of the activations (n, d) as feature j of z (n, m).

    W_enc is standard normal, with columns of unit length; b_dec is that of the encoder, or the mean activation, and b_enc puts zero in
    the middle between two neighbouring activations. So both have the same L0 on these activations, feature by feature; with "topk" the
    random one keeps as many.

    >>> h = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    >>> one = random_encoder(h, torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 0.0]]), RawActivations())
    >>> (one.encode(h) > 0).sum(0)
    tensor([0, 3])
    """
    (count, d), m = h.shape, z.shape[1]
    given = like.b_dec if isinstance(like, LinearEncoder) and like.subtract else None
    centre = h.mean(0) if given is None else given.to(h)
    directions = long_normal(d * m, "random encoder", seed, d, m, device=h.device).reshape(d, m).to(h)
    directions = directions / directions.norm(dim=0)
    if isinstance(like, LinearEncoder) and like.activation == "topk":
        return LinearEncoder(directions.cpu(), b_dec=centre.cpu(), activation="topk", k=like.k, random=True)
    pre = ((h - centre) @ directions).sort(dim=0, descending=True).values
    fires = (z > 0).sum(0)
    margin = ((pre[:1] - pre[-1:]) / count).clamp(min=1e-6)
    edge = torch.cat((pre[:1] + margin, pre, pre[-1:] - margin))  # the border lies between entries `fires` and `fires` + 1
    border = (edge.gather(0, fires[None]) + edge.gather(0, fires[None] + 1))[0] / 2
    return LinearEncoder(directions.cpu(), b_enc=-border.cpu(), b_dec=centre.cpu(), random=True)


def pca_encoder(h: Tensor, width: int) -> LinearEncoder:
    """The first `width` principal components of activations (n, d), or as many as there are: min(n, d).

    With all of them it is a rotation of the centred activations, which no angle depends on.
    """
    if len(h) < 2:
        raise InputError("Principal components need the activations of at least two inputs: pass more inputs, or controls=False.")
    mean = h.mean(0)
    _, _, axes = torch.linalg.svd((h - mean).double(), full_matrices=False)
    kept = axes[:width].to(h).cpu()
    return LinearEncoder(kept.T.contiguous(), b_dec=mean.cpu(), W_dec=kept, activation="identity")
