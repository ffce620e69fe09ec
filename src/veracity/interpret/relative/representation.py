"""Stability of an explanation in relation to what the model makes of the input inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.registry import SCORES
from veracity.core.scores import Defaults, Pair, Reads, Request, Subject
from veracity.interpret.relative.base import RelativeStability

SEEN = frozenset({Reads.EXPLANATION, Reads.OUTPUT, Reads.REPRESENTATION})


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelativeRepresentationStability(RelativeStability):
    """RRS: the relative change of an explanation over the relative change of a layer's output, at the worst kept draw (eq. 28).

    max over x' of |(e(x') - e(x)) / e(x)| / max(|(L(x') - L(x)) / L(x)|, eps_min), over draws with f(x') = f(x), with L the
    output of `layer`, by default of the last one with weights before the logits. Undefined where all of e(x) or of L(x) is zero.
    """

    name = "relative_representation_stability"
    before = SEEN
    after = SEEN
    layer: str | None = None

    @property
    def looks_at(self) -> str | None:
        """The layer."""
        return self.layer

    def suited(self, subject: Subject) -> Self:
        """With the last layer with weights before the model's last, unless another is given."""
        return self if self.layer is not None or len(subject.layers) < 2 else replace(self, layer=subject.layers[-2])

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For every explanation, once there is a layer."""
        if subject.explainer is not None and self.layer is None:
            raise InputError(
                f"The score '{self.name}' needs a layer of the model: pass layer=..., by its name in model.named_modules(), "
                "for example the last one before the logits."
            )
        return super().requests(subject, defaults)

    def moved(self, pair: Pair) -> Tensor:
        """|(L(x') - L(x)) / L(x)|."""
        return self.relative(pair, Reads.REPRESENTATION)
