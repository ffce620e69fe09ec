"""Explainers that somebody else wrote: Captum classes, factories of Captum methods, plain functions.

They may draw from the global random state, so that it is forked and seeded around every call; they may do anything to
the model and the inputs, so that both are protected.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import captum.attr
import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, VeracityError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.models import evaluating, out_of_memory
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.settings import Whole
from veracity.core.snapshot import preserve_state
from veracity.explain.deep_lift import DeepLift
from veracity.explain.gradients import quiet
from veracity.explain.passes import Structure, by_rows

PROBE = 2


def computed(function: Callable[[Any], Any]) -> Any:
    """A class attribute of the protocol that an instance computes from its settings."""
    return property(function)


def snake_case(name: str) -> str:
    """A class name as results write it.

    >>> snake_case("InputXGradient"), snake_case("LRP"), snake_case("DeepLiftShap")
    ('input_x_gradient', 'lrp', 'deep_lift_shap')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def name_of(value: Any) -> str:
    """What results call a class, a function, a partial function or a callable object."""
    value = getattr(value, "func", value)
    if isinstance(value, type):
        return snake_case(value.__name__)
    return str(getattr(value, "__name__", snake_case(type(value).__name__))).strip("<>")


@dataclass(frozen=True, kw_only=True)
class Foreign(Explainer, ABC):
    """Code of which nothing is known: taken to be random, and to depend on the batch, unless `random` says otherwise.

    `forward` and `backward` are the model rows that one explanation needs, as far as its author says; they serve
    estimates and the choice of a batch, nothing else.
    """

    stochastic: ClassVar[bool] = computed(lambda self: self.random)
    random: bool = True
    forward: Whole = 1
    backward: Whole = 1
    label: str = field(default="", metadata={"spec": False})

    @property
    def hint(self) -> str:
        """What may help when it fails."""
        return ""

    @property
    def batch_dependent(self) -> bool:
        """Random code draws from the global state over the whole batch."""
        return self.random

    def cost(self, shape: Size) -> Cost:
        """What the settings say."""
        return Cost(self.forward, self.backward)

    @abstractmethod
    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        """What the foreign code returns for these rows."""

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape; maps with axes of size one are repeated along them."""
        high, low = context.draws[:1].words(2, stream="foreign")[0].tolist()
        rows = max(1, context.batch // max(1, self.forward))

        def some(x: Tensor, t: Tensor, _: Structure) -> Tensor:
            with preserve_state(model):
                return self.fitted(self.call(model, x.detach().clone(), t.clone()), x)

        with seeded(high ^ low, gpus_in_use()), quiet(), torch.enable_grad():
            return by_rows(some, inputs, targets, rows)

    def fitted(self, result: Any, inputs: Tensor) -> Tensor:
        """What came back as attributions of the inputs' shape; raises if it is none."""
        expected = f"a real tensor of shape {tuple(inputs.shape)}"
        if not isinstance(result, (Tensor, np.ndarray)):
            raise InputError(f"{self.name} returned {type(result).__name__}, expected {expected}.")
        maps = torch.as_tensor(result).detach()
        if maps.is_complex():
            raise InputError(f"{self.name} returned complex numbers, expected {expected}.")
        axes = zip(maps.shape[1:], inputs.shape[1:], strict=False)
        if maps.ndim != inputs.ndim or len(maps) != len(inputs) or any(size not in (1, full) for size, full in axes):
            raise InputError(
                f"{self.name} returned shape {tuple(maps.shape)}, expected {expected}, or ones in place of axes after the first."
            )
        return maps.to(inputs).expand_as(inputs).contiguous()

    def probe(self, model: nn.Module, inputs: Tensor, targets: Tensor, seed: int, batch: int) -> Tensor:
        """A trial on a few inputs; raises if it fails or returns something else."""
        try:
            with evaluating(model):
                return self.explain(model, inputs, targets, Context(Draws.of(seed, torch.arange(len(inputs))), batch))
        except VeracityError:
            raise
        except Exception as error:
            if out_of_memory(error):
                raise
            reason = " ".join(str(error).split())
            raise InputError(f"{self.name} failed on {len(inputs)} inputs with {type(error).__name__}: {reason}{self.hint}") from error

    def settled(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        """Not random, if two trials with different seeds agree."""
        if not self.random:
            return self
        first, again = (self.probe(model, inputs[:PROBE], targets[:PROBE], seed, context.batch) for seed in (0, 1))
        return replace(self, random=False) if torch.equal(first.nan_to_num(), again.nan_to_num()) else self

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Run it on a few inputs: raise if it fails or returns something else; say if it is random."""
        first, again = (self.probe(model, inputs[:PROBE], targets[:PROBE], seed, context.batch) for seed in (0, 1))
        notes = [f"{self.name} returned NaN or infinity for some inputs."] if not first.isfinite().all() else []
        differs = not torch.allclose(first, again, equal_nan=True)
        if differs and not self.random:
            raise InputError(f"{self.name} is declared random=False, but two runs with different seeds differ: leave random=True.")
        if differs:
            notes.append(
                f"{self.name} draws from the global random state, so that its numbers depend on how the inputs are batched; "
                "the same batches give the same numbers."
            )
        return notes


@dataclass(frozen=True, kw_only=True)
class CaptumMethod(Foreign):
    """A Captum `Attribution` class, or a factory model -> Attribution, with settings for its `attribute` method."""

    name: ClassVar[str] = computed(lambda self: self.label or name_of(self.attribution))
    attribution: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hint(self) -> str:
        """Many Captum methods need settings."""
        return "; settings go in as CaptumMethod(attribution=..., settings={...})"

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """As for all foreign code; and DeepLift says here, too, where it has no rule."""
        lifted = DeepLift().check(model, inputs, targets, context) if self.attribution is captum.attr.DeepLift else ()
        return (*lifted, *super().check(model, inputs, targets, context))

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        """Build the method for this model and let it attribute."""
        method = self.attribution(model)
        if isinstance(method, (captum.attr.LayerAttribution, captum.attr.NeuronAttribution)):
            raise InputError(f"{self.name} explains a layer or a neuron, not the input: use an attribution of the input.")
        if not hasattr(method, "attribute"):
            raise InputError(f"{self.name} must make a Captum Attribution from a model, but returned {type(method).__name__}.")
        settings = {key: value.to(inputs.device) if isinstance(value, Tensor) else value for key, value in self.settings.items()}
        return method.attribute(inputs.requires_grad_(), target=targets, **settings)


@dataclass(frozen=True, kw_only=True)
class Function(Foreign):
    """Any function (model, inputs, targets) -> attributions."""

    name: ClassVar[str] = computed(lambda self: self.label or name_of(self.function))
    function: Callable[[nn.Module, Tensor, Tensor], Any]

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        """Call it."""
        return self.function(model, inputs, targets)
