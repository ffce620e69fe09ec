"""Targets of outputs with many decisions per sample: a class for every pixel or point, or tokens after a text.

The chosen class or token is that of the unperturbed input. A class is explained by the mean of its scores over all pixels: it needs
no mask of pixels, and it stays the same when the image and the output move together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.models import Extendable, View, extendable, real_positions
from veracity.core.registry import TARGETS
from veracity.core.settings import Whole
from veracity.core.targets import Class, Label, Outputs, Predicted, Target, check_index


@TARGETS.add
@dataclass(frozen=True, kw_only=True)
class Segmentation(Target):
    """One class of a model that gives every pixel or point a class: the mean of its scores over all of them, or over a region.

    index       the class; None is the class other than the background that most pixels of the unperturbed input are given
    background  the class that None avoids, unless it is the only one found; None avoids nothing
    region      pixels (H, W) that count, as True or a weight; the same for every sample. It does not move with the image
    axis        where the classes are: 1 for (N, K, H, W), -1 for (N, P, K)
    labelled    whether the most frequent class is that of the label map, instead of that of the prediction
    """

    name = "segmentation"
    index: Whole | None = None
    background: Whole | None = 0
    region: Tensor | None = None
    axis: int = 1
    labelled: bool = False

    def view(self, model: nn.Module) -> nn.Module:
        """The mean scores of every class, (N, K)."""
        return RegionMean(model, self.axis, self.region)

    def decisions(self, model: nn.Module) -> nn.Module:
        """The scores of every pixel, (N, D, K)."""
        return PixelScores(model, self.axis)

    def choose(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The given class, or the one with the largest mean score."""
        if self.index is None:
            return scores.argmax(dim=1)
        return check_index(torch.full((len(scores),), self.index, device=scores.device), scores, "The class of the segmentation")

    def choose_by(self, decisions: Tensor, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The given class, or the most frequent one."""
        if self.index is not None or scores.shape[1] == 1:
            return self.choose(scores, labels)
        classes = label_map(labels, decisions) if self.labelled else decisions.argmax(dim=2)
        kept = torch.ones_like(classes, dtype=torch.bool) if self.region is None else self.region.flatten().bool().to(classes.device)
        return most_frequent(classes.masked_fill(~kept, -1), scores.shape[1], self.background).to(scores.device)


@TARGETS.add
@dataclass(frozen=True, kw_only=True)
class Token(Target):
    """The score of one next token (N, T, V): by default the token that is predicted after the last position of the unperturbed text.

    position  after which token; negative positions count from the end of each text, without its padding if the inputs are TextInputs
    id        the token's number; None is the predicted token
    labelled  whether the token is the one in the labels (N,)
    """

    name = "token"
    position: int = -1
    id: Whole | None = None
    labelled: bool = False

    def view(self, model: nn.Module) -> nn.Module:
        """The scores of all tokens at the position, (N, V)."""
        return PositionScores(model, self.position)

    decisions = view

    def choose(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The given, the true or the predicted token."""
        if self.labelled:
            return Label().choose(scores, labels)
        if self.id is None:
            return scores.argmax(dim=1)
        return check_index(torch.full((len(scores),), self.id, device=scores.device), scores, "The token")


@TARGETS.add
@dataclass(frozen=True, kw_only=True)
class Continuation(Target):
    """The log-probability of some tokens after each text, by a causal language model: sum over l of log p(t_l | text, t_1 .. t_(l-1)).

    With several continuations a language model is a classifier: their log-probabilities are the scores (N, C) of C classes.

    tokens    the token numbers of each continuation; `Continuation.of(texts, tokenizer)` makes them from texts
    index     which continuation is explained; None is the likeliest after the unperturbed text
    labelled  whether it is the one that the labels (N,) name
    """

    name = "continuation"
    tokens: tuple[tuple[int, ...], ...]
    index: Whole | None = None
    labelled: bool = False

    @classmethod
    def of(cls, texts: str | Sequence[str], tokenizer: Any, **settings: Any) -> Continuation:
        """From one text or several, with the tokenizer of the model; most tokenizers need the space before a word."""
        given = [texts] if isinstance(texts, str) else list(texts)
        return cls(tokens=tuple(tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in given), **settings)

    @property
    def outputs(self) -> Outputs | None:
        """Several continuations exclude each other; the log-probability of one is a value."""
        return Outputs.LOGITS if len(self.tokens) > 1 else Outputs.RAW

    def view(self, model: nn.Module) -> nn.Module:
        """The log-probabilities of all continuations, (N, C)."""
        if not self.tokens or not all(self.tokens):
            raise InputError("A continuation has at least one token: pass Continuation.of(' good', tokenizer), or tokens=((52, 7),).")
        return ContinuationScores(model, self.tokens)

    decisions = view

    def choose(self, scores: Tensor, labels: Tensor | None) -> Tensor:
        """The given, the true or the likeliest continuation."""
        if self.labelled:
            return Label().choose(scores, labels)
        if self.index is None:
            return scores.argmax(dim=1)
        return check_index(torch.full((len(scores),), self.index, device=scores.device), scores, "The continuation")


def target_for(target: Target, output: Tensor) -> Target:
    """The target for outputs (N, ...): "predicted", "label" and a class number get their meaning for pixels and for tokens.

    >>> target_for(Class(index=2), torch.zeros(1, 3, 8, 8))
    Segmentation(index=2, background=0, region=None, axis=1, labelled=False)
    >>> target_for(Predicted(), torch.zeros(1, 5, 100)), target_for(Predicted(), torch.zeros(1, 3))
    (Token(position=-1, id=None, labelled=False), Predicted())
    """
    if output.ndim not in (3, 4, 5) or not isinstance(target, (Predicted, Label, Class)):
        return target
    index, labelled = target.index if isinstance(target, Class) else None, isinstance(target, Label)
    return Token(id=index, labelled=labelled) if output.ndim == 3 else Segmentation(index=index, labelled=labelled)


class PixelScores(View):
    """The scores of every pixel or point, (N, D, K), of a model whose classes are along one axis."""

    def __init__(self, model: nn.Module, axis: int) -> None:
        super().__init__(model)
        self.axis = axis

    def forward(self, *inputs: Tensor) -> Tensor:
        """Scores (N, D, K)."""
        return self.by_pixel(self.model(*inputs)).flatten(1, -2)

    def by_pixel(self, output: Tensor) -> Tensor:
        """The output with the classes last, (N, ..., K)."""
        if output.ndim < 3 or not (1 <= self.axis < output.ndim or 1 - output.ndim <= self.axis < 0):
            raise InputError(
                f"Segmentation(axis={self.axis}) needs a score for every class and pixel, such as (classes, height, width), but one "
                f"output has shape {tuple(output.shape[1:])}: pass another target=..."
            )
        return output.movedim(self.axis, -1)


class RegionMean(PixelScores):
    """The mean scores (N, K) over all pixels, or over those of a region."""

    def __init__(self, model: nn.Module, axis: int, region: Tensor | None) -> None:
        super().__init__(model, axis)
        self.region = region

    def forward(self, *inputs: Tensor) -> Tensor:
        """Scores (N, K)."""
        scores = self.by_pixel(self.model(*inputs))
        if self.region is None:
            return scores.flatten(1, -2).mean(1)
        if self.region.shape != scores.shape[1:-1] or float(self.region.sum()) <= 0:
            raise InputError(
                f"The region of the segmentation must have the shape {tuple(scores.shape[1:-1])} of the output and count some pixels, "
                f"but it has the shape {tuple(self.region.shape)} and counts {float(self.region.sum()):g}."
            )
        weights = (self.region.to(scores) / self.region.sum().to(scores)).flatten()
        return (scores.flatten(1, -2) * weights[:, None]).sum(1)


class PositionScores(View):
    """The scores (N, V) at one position of each text."""

    def __init__(self, model: nn.Module, position: int) -> None:
        super().__init__(model)
        self.position = position

    def forward(self, *inputs: Tensor) -> Tensor:
        """Scores (N, V)."""
        output: Tensor = self.model(*inputs)
        if output.ndim != 3:
            raise InputError(
                f"Token(...) needs the scores of every token after every position, (length, vocabulary), but one output has shape "
                f"{tuple(output.shape[1:])}: pass another target=..."
            )
        if not -output.shape[1] <= self.position < output.shape[1]:
            raise InputError(f"The position {self.position} is outside of a text with {output.shape[1]} positions.")
        real = real_positions(self.model, *inputs) if self.position < 0 else None
        if real is None:
            return output[:, self.position]
        last = (real.long() * torch.arange(1, real.shape[1] + 1, device=real.device)).amax(1)
        at = (last + self.position).clamp(min=0)
        return output.gather(1, at[:, None, None].expand(-1, 1, output.shape[2])).squeeze(1)


class ContinuationScores(View):
    """The log-probability of each of several continuations after each text, (N, C), by one pass for each different beginning."""

    def __init__(self, model: nn.Module, tokens: tuple[tuple[int, ...], ...]) -> None:
        super().__init__(model)
        self.tokens = tokens

    def forward(self, *inputs: Tensor) -> Tensor:
        """Scores (N, C)."""
        text = extendable(self.model)
        if text is None:
            raise InputError("Continuation(...) needs a causal language model on texts: pass inputs=TextInputs(prompts, tokenizer).")
        known: dict[tuple[int, ...], Tensor] = {}
        found = []
        for tokens in self.tokens:
            begun = tokens[:-1]
            if begun not in known:
                known[begun] = self.next_tokens(text, begun, inputs)
            scores = known[begun]
            if not 0 <= min(tokens) <= max(tokens) < scores.shape[2]:
                raise InputError(
                    f"The continuation has the token {max(tokens, key=abs)}, and the model knows {scores.shape[2]} tokens: take the "
                    "tokenizer of this model."
                )
            chosen = torch.tensor(tokens, device=scores.device).expand(len(scores), -1)
            found.append(scores.gather(2, chosen.unsqueeze(2)).sum((1, 2)))
        return torch.stack(found, dim=1)

    def next_tokens(self, text: Extendable, begun: tuple[int, ...], inputs: tuple[Tensor, ...]) -> Tensor:
        """The log-probabilities (N, L + 1, V) of the next token after each text, and after each of L tokens that follow it."""
        longer, last = text.extended(torch.tensor(begun, dtype=torch.long), *inputs)
        output: Tensor = self.model(*longer)
        if output.ndim != 3:
            raise InputError(
                f"Continuation(...) needs the scores of every token after every position, (length, vocabulary), but one output has shape "
                f"{tuple(output.shape[1:])}: pass a causal language model."
            )
        place = last[:, None] + torch.arange(len(begun) + 1, device=last.device)
        return torch.log_softmax(output.gather(1, place.unsqueeze(2).expand(-1, -1, output.shape[2])), dim=2)


def most_frequent(classes: Tensor, count: int, avoided: int | None) -> Tensor:
    """The most frequent class (N,) of every row of classes (N, D), of which numbers outside 0 to `count` - 1 are ignored.

    >>> most_frequent(torch.tensor([[0, 0, 0, 2, 2, 1], [0, 0, 0, 0, 0, -1]]), 3, avoided=0)
    tensor([2, 0])
    """
    known = (classes >= 0) & (classes < count)
    counts = torch.zeros(len(classes), count, dtype=torch.long, device=classes.device)
    counts.scatter_add_(1, torch.where(known, classes, 0), known.long())
    if avoided is not None and avoided < count:
        counts[:, avoided] = 0
        return torch.where((counts > 0).any(1), counts.argmax(1), avoided)
    return counts.argmax(1)


def label_map(labels: Tensor | None, decisions: Tensor) -> Tensor:
    """The labels of all pixels as whole numbers (N, D); raises unless there is one for each of the decisions (N, D, K)."""
    if labels is None:
        raise InputError("The target 'label' needs targets: pass targets=... beside inputs=...")
    if labels.ndim < 2 or labels[0].numel() != decisions.shape[1]:
        raise InputError(
            f"A segmentation model has one label per pixel, {decisions.shape[1]} per sample, but the targets have the shape "
            f"{tuple(labels.shape)}: pass label maps (samples, height, width)."
        )
    if labels.is_complex() or (labels.is_floating_point() and not bool((labels == labels.round()).all())):
        raise InputError(
            "Label maps are whole numbers, the class of every pixel: pass outputs='raw' if the model does not classify pixels."
        )
    return labels.flatten(1).long().to(decisions.device)
