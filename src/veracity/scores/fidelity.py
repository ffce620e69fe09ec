"""Fidelity of the part that an explanation marks: edges or nodes of a graph, words of a text.

Every score looks at two inputs: without the marked part, and with the marked part alone. PyG calls the part a subgraph and defines the
scores in `torch_geometric.explain.metric`; on the same masks the values are the same.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.explainers import Frame
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, PooledScore, Reading, Request, Score, Subject
from veracity.core.settings import Inside, Portion
from veracity.perturb.parts import KEPT, REMOVED, ExplainedPart
from veracity.scores.faithfulness.masked import BOTH, MODEL, why_no_probability
from veracity.statistics.resampling import expanded_hull
from veracity.walk import MonteCarlo

HALF = 1e-2
"""How far probabilities in half precision may lie from exact ones because of rounding."""
GRAPH_FRAMEX = "Amara et al., GraphFramEx: towards systematic evaluation of explainability methods for graph neural networks (LoG 2022)"


@dataclass(frozen=True, kw_only=True)
class PartScore(Score, ABC):
    """A score of the part that an explanation marks.

    The part are the `top` edges, nodes or words with the largest relevance: a number of them, or a share of those of the sample. With
    top=None the explanation itself is the mask, as in PyG: it must lie between 0 and 1, and is undefined elsewhere.
    """

    before = BOTH
    after = MODEL
    quantities: ClassVar[tuple[str, ...]] = ("right_after", "right_before")
    bounds = (0.0, 1.0)
    top: Portion | None = 0.25

    @property
    def in_map_units(self) -> bool:
        """Only if the explanation itself is the mask."""
        return self.top is None

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Every map over gates; raises if the inputs have none."""
        explainer = subject.explainer
        if explainer is None or explainer.frame is not Frame.INPUT or explainer.categorical:
            return ()
        if subject.floor is None:
            raise InputError(
                f"'{self.name}' removes edges, nodes or words, but values of these inputs cannot be removed: pass "
                "inputs=EdgeInputs.of(graphs), NodeInputs.of(graphs) or TextInputs(texts, tokenizer)."
            )
        return (Request(ExplainedPart(top=self.top), MonteCarlo(draws=1)),)

    def setting(self) -> str:
        """What is marked."""
        if self.top is None:
            return "The explanation itself is the mask."
        what = f"The {self.top}" if isinstance(self.top, int) else f"The {self.top:.0%}"
        return f"{what} of the edges, nodes or words with the largest relevance are marked."

    def observe(self, pair: Pair) -> Tensor:
        """Whether the class with the largest probability is the explained one, for a part of the sample and for the whole: (R, 2)."""
        check_class(self.name, pair.before)
        return torch.stack([is_target(one.output, one.target) for one in (pair.after, pair.before)], dim=1)


def check_class(name: str, reading: Reading) -> None:
    """Raise if something other than a class of the output is explained: a layer, say, or a function of the output."""
    why = why_no_probability(reading.scores, reading.output) if reading.output.shape[1] > 1 else ""
    if why:
        raise InputError(f"'{name}' needs {why}: explain a class of a classifier, or leave the score out.")


def is_target(output: Tensor, target: Tensor) -> Tensor:
    """1 if the predicted class is the explained one, else 0, (R,); NaN for undefined outputs, and without classes.

    >>> is_target(torch.tensor([[0.2, 0.8], [0.6, 0.4]]), torch.tensor([1, 1]))
    tensor([1., 0.], dtype=torch.float64)
    """
    undefined = output.isnan().any(dim=1) | torch.tensor(output.shape[1] < 2, device=output.device)
    return torch.eq(output.argmax(dim=1), target.to(output.device)).double().masked_fill(undefined, torch.nan)


def probabilities(reading: Reading) -> Tensor:
    """The outputs (R, C) in float64; those of a model in half precision are made again in float32, so that they add up to 1.

    bfloat16 has eight bits, so rounded probabilities add up to 1 within about 0.004. Logits get their softmax in float32, and
    probabilities are divided by their sum if it is 1 up to rounding; other outputs stay as they are.

    >>> from veracity.core.scores import Reads
    >>> short = {Reads.SCORES: torch.tensor([[2.0, 1.0, 0.0]]).bfloat16()}
    >>> short[Reads.OUTPUT] = short[Reads.SCORES].softmax(1)
    >>> short[Reads.OUTPUT].double().sum().item(), round(probabilities(Reading(torch.tensor([0]), short)).sum().item(), 6)
    (0.9990234375, 1.0)
    """
    output = reading.output
    if output.dtype.itemsize >= 4:
        return output.double()
    scores, rounded = reading.scores.float(), output.float()
    classes = rounded[:, 1:] if scores.shape[1] == 1 and output.shape[1] == 2 else rounded
    total = rounded.sum(dim=1, keepdim=True)
    divided = torch.where((total - 1.0).abs() < HALF, rounded / total, rounded)
    if scores.shape != classes.shape:
        return divided.double()
    logits = scores if classes is rounded else torch.cat((torch.zeros_like(scores), scores), dim=1)
    made = logits.softmax(dim=1)
    by_softmax = (scores != classes).any(dim=1, keepdim=True) & ((made - rounded).abs() < HALF).all(dim=1, keepdim=True)
    return torch.where(by_softmax, made, divided).double()


def changed(measured: Measured, level: int) -> Array:
    """|1(y = t) - 1(y' = t)| at one level, (samples, draws)."""
    found: Array = np.abs(measured["right_before"][:, :, level] - measured["right_after"][:, :, level])
    return found


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class FidelityPlus(PartScore):
    """Share of samples whose prediction changes when the marked part is removed: it was necessary.

        |1(y = t) - 1(y' = t)|,   y' the class that is predicted without the part

    t is the explained class. For the predicted class, PyG's "model" explanations, that is 1(y' != y); for labels, PyG's "phenomenon"
    explanations, it also counts predictions that become right.
    """

    name = "fidelity_plus"
    title = "fidelity+"
    reference = GRAPH_FRAMEX
    direction = Direction.HIGHER

    def values(self, measured: Measured) -> Array:
        """Whether it changes, (samples, draws)."""
        return changed(measured, REMOVED)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class FidelityMinus(PartScore):
    """Share of samples whose prediction changes when only the marked part is kept: 0 if it is sufficient.

    |1(y = t) - 1(y' = t)|,   y' the class that is predicted for the part alone, t the explained class
    """

    name = "fidelity_minus"
    title = "fidelity-"
    reference = GRAPH_FRAMEX
    direction = Direction.LOWER

    def values(self, measured: Measured) -> Array:
        """Whether it changes, (samples, draws)."""
        return changed(measured, KEPT)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Characterisation(PartScore, PooledScore):
    """Weighted harmonic mean of fidelity+ and 1 - fidelity-, both over all samples: is the marked part necessary and sufficient?

        1 / (w / fid+ + (1 - w) / (1 - fid-))

    `weight` is w. It is 0 if fid+ is 0 or fid- is 1. The value of a sample is 1 if its prediction changes without the part and stays with
    the part alone, else 0; the score is no mean of these. Its interval is a bootstrap over samples, for at least five of them.
    """

    name = "characterisation"
    reference = GRAPH_FRAMEX
    direction = Direction.HIGHER
    figures = ()
    in_summary = "nothing"
    least: ClassVar[int] = 5
    weight: Inside = 0.5

    def values(self, measured: Measured) -> Array:
        """1 if the part is necessary and sufficient, else 0, (samples, draws)."""
        return changed(measured, REMOVED) * (1.0 - changed(measured, KEPT))

    def pool(self, measured: Measured, weights: Array) -> Array:
        """The harmonic mean of weighted means over the samples for which both are defined, (B,)."""
        plus, minus = (changed(measured, level)[:, 0] for level in (REMOVED, KEPT))
        known = np.isfinite(plus + minus)
        total = weights[:, known].sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            necessary, sufficient = (weights[:, known] @ one[known] / total for one in (plus, 1.0 - minus))
            found: Array = 1.0 / (self.weight / necessary + (1.0 - self.weight) / sufficient)
        return found

    def interval(self, measured: Measured, value: float, replicates: Array, confidence: float) -> tuple[float, float]:
        """From the bootstrap, widened for few samples."""
        return expanded_hull(value, replicates, self.defined(measured), confidence)

    def enough(self, measured: Measured) -> bool:
        """Whether there are enough samples for an interval."""
        return self.defined(measured) >= self.least

    def defined(self, measured: Measured) -> int:
        """The number of samples with a value."""
        return int(np.isfinite(self.values(measured)).any(axis=1).sum())


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Unfaithfulness(PartScore):
    """How far the predicted probabilities move when only the marked part is kept: 0 if they stay.

        1 - exp(-KL(p' || p)),   p' the probabilities for the part alone, p those for the whole sample

    The direction of KL is that of PyG's code; its documentation writes KL(p || p'). PyG takes the mean of KL over a batch before the
    exponential; here each sample has a value of its own, which is PyG's for a batch of one.
    """

    name = "unfaithfulness"
    reference = "Agarwal et al., Evaluating explainability for graph neural networks (Scientific Data 2023)"
    direction = Direction.LOWER
    quantities = ("moved",)

    def observe(self, pair: Pair) -> Tensor:
        """1 - exp(-KL(p' || p)) (R,), NaN for outputs that are no probabilities; 1 if a class gains probability that had none."""
        check_class(self.name, pair.before)
        before, after = probabilities(pair.before), probabilities(pair.after)
        divergence = (torch.xlogy(after, after) - torch.xlogy(after, before)).sum(dim=1)
        proper = [(one >= 0).all(dim=1) & ((one.sum(dim=1) - 1).abs() < 1e-4) for one in (before, after)]
        return (1.0 - torch.exp(-divergence.clamp(min=0.0))).where(proper[0] & proper[1], torch.nan)

    def values(self, measured: Measured) -> Array:
        """That of the part alone, (samples, draws)."""
        return measured["moved"][:, :, KEPT]
