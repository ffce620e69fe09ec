"""Explainers that other people wrote: what they have in common, and plain functions.

Foreign code may draw from the global random state, so it is forked and seeded around every call. It may do
anything to the model and the inputs, so both are protected. It is called on as many rows at once as the budget allows.
"""

from __future__ import annotations

import inspect
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, VeracityError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.models import View, evaluating, out_of_memory
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.settings import Whole
from veracity.core.snapshot import preserve_state
from veracity.explain.gradients import silent_captum
from veracity.explain.maps import apart, in_shape
from veracity.explain.passes import Structure, in_batches, select
from veracity.explain.wrapper import computed

TRIAL_ROWS = 2
LEAST_SHARE = 0.1
"""A further row costs at least this share of one row, however much of that was overhead."""


class Trial(NamedTuple):
    """What a few calls showed: the maps, the seconds per row, and how far rows depend on the seed and on their neighbours."""

    maps: Tensor
    seconds: float
    random: float
    mixing: float


@dataclass(frozen=True, kw_only=True)
class Foreign(Explainer, ABC):
    """Unknown code. It counts as random and as dependent on the batch, unless `random` is off.

    `forward` and `backward` are the model rows that one explanation needs, as declared by its author. They only affect
    estimates and the batch size. `seconds` is what a row took in the trial.
    """

    stochastic: ClassVar[bool] = computed(lambda self: self.random)
    hint: ClassVar[str] = ""  # ends the sentence when a trial fails
    rows_apart: ClassVar[bool] = False  # whether rows are known not to depend on each other
    random: bool = True
    forward: Whole = 1
    backward: Whole = 1
    label: str = field(default="", metadata={"spec": False})
    seconds: float = field(default=0.0, metadata={"spec": False}, compare=False)

    @property
    def batch_dependent(self) -> bool:
        return self.random

    def cost(self, shape: Size) -> Cost:
        return Cost(self.forward, self.backward, self.seconds)

    @abstractmethod
    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure) -> Any:
        """What the foreign code returns for these rows."""

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape; axes of size one are repeated."""
        high, low = context.draws[:1].on_cpu.words(2, stream="foreign")[0].tolist()
        rows = max(1, context.batch // max(1, self.forward))

        def explain_rows(x: Tensor, t: Tensor, structure: Structure) -> Tensor:
            with preserve_state(model):
                return self.as_attributions(self.call(model, x.detach().clone(), t.clone(), structure), x)

        with seeded(high ^ low, gpus_in_use()), silent_captum(), torch.enable_grad():
            return in_batches(explain_rows, inputs, targets, rows, context.structure)

    def as_attributions(self, result: Any, inputs: Tensor) -> Tensor:
        """A result in the inputs' shape and type; raises if it does not fit."""
        expected = f"a real tensor of shape {tuple(inputs.shape)}"
        if not isinstance(result, (Tensor, np.ndarray)):
            raise InputError(f"{self.name} returned {type(result).__name__}, expected {expected}.")
        maps = torch.as_tensor(result).detach()
        if maps.is_complex():
            raise InputError(f"{self.name} returned complex numbers, expected {expected}.")
        found = in_shape(maps, inputs.shape[1:])
        if found is None or len(maps) != len(inputs):
            raise InputError(f"{self.name} returned shape {tuple(maps.shape)}, expected {expected}; axes after the first may have size 1.")
        return found.to(inputs).contiguous()

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        """With the seconds of a row; not random, if two trials with different seeds agree."""
        seen = self.trial(model, inputs, targets, context)
        found = replace(self, random=self.random and seen.random > 0, seconds=seen.seconds)
        found.__dict__["_seen"] = self.__dict__["_seen"]
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without what it remembers of its trial."""
        return {name: held for name, held in vars(self).items() if not name.startswith("_")}

    def mixing(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> float:
        """How far a row's map depends on the other rows of its batch, as a share of its size."""
        return self.trial(model, inputs, targets, context).mixing

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Run it on a few inputs. Raise if it fails or returns something else; note if it is random."""
        seen = self.trial(model, inputs, targets, context)
        notes = [f"{self.name} returned NaN or infinity for some inputs."] if not seen.maps.isfinite().all() else []
        if seen.random and not self.random:
            raise InputError(f"{self.name} is declared random=False, but two runs with different seeds differ: leave random=True.")
        if seen.random:
            notes.append(
                f"{self.name} draws from the global random state, so its numbers depend on the batch size; "
                "the same batches give the same numbers."
            )
        return notes

    def trial(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Trial:
        """Two rows together, and one of them alone with another seed; a third call only if that row differs and rows may mix.

        The last trial is remembered, since slow code should not be tried twice.
        """
        x, t, key = inputs[:TRIAL_ROWS], targets[:TRIAL_ROWS], (model, inputs, targets)
        seen = self.__dict__.get("_seen")
        if seen is not None and all(one is other for one, other in zip(seen[0], key, strict=True)):
            known: Trial = seen[1]
            return known
        start = time.perf_counter()
        maps = self.attempt(model, x, t, 0, context)
        middle = time.perf_counter()
        alone = self.attempt(model, x[:1], t[:1], 1, context)
        both, one = middle - start, time.perf_counter() - middle
        seconds = min(one, max(both - one, LEAST_SHARE * one))
        random, mixing = (apart(maps[:1], alone), 0.0) if self.rows_apart else (0.0, apart(maps[:1], alone))
        if mixing > 0:
            again = self.attempt(model, x[:1], t[:1], 0, context)
            random, mixing = apart(alone, again), apart(maps[:1], again)
        found = Trial(maps, seconds, random, mixing)
        self.__dict__["_seen"] = (key, found)
        return found

    def attempt(self, model: nn.Module, inputs: Tensor, targets: Tensor, seed: int, context: Context) -> Tensor:
        """One run on a few inputs; raises if it fails or returns something else."""
        structure = tuple(part[: len(inputs)] for part in context.structure)
        training = any(part.training for part in model.modules())  # a model that is evaluated already is watched by its caller
        try:
            with evaluating(model) if training else nullcontext():
                return self.explain(
                    model, inputs, targets, replace(context, draws=Draws.of(seed, torch.arange(len(inputs))), structure=structure)
                )
        except VeracityError:
            raise
        except Exception as error:
            if out_of_memory(error):
                raise
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"{self.name} failed on {len(inputs)} inputs with {type(error).__name__}: {reason}{self.hint}") from error


@dataclass(frozen=True, kw_only=True)
class Bound(Foreign, ABC):
    """Foreign code that was made for one fitted model, and cannot be made again for another one."""

    @property
    @abstractmethod
    def instead(self) -> str:
        """What to pass for scores that need it on other models."""


def bound_inside(explainer: Any) -> Bound | None:
    """The explainer, or one inside it, that belongs to one model."""
    if isinstance(explainer, Bound):
        return explainer
    inside = [value for value in vars(explainer).values() if isinstance(value, Explainer)] if isinstance(explainer, Explainer) else []
    return next((found for one in inside if (found := bound_inside(one)) is not None), None)


class OtherRows(RuntimeError):
    """A model with bound structure was called with another number of rows than the structure has."""


class BoundModel(View):
    """A model that knows what its inputs carry along, so it takes the inputs alone; one row's structure fits any number of rows."""

    def __init__(self, model: nn.Module, structure: Structure) -> None:
        super().__init__(model)
        self.structure = structure

    def forward(self, inputs: Tensor, *structure: Tensor) -> Tensor:
        """The model's output; raises OtherRows if these are not the rows of the structure."""
        rows = len(self.structure[0])
        if not structure and rows not in (1, len(inputs)):
            raise OtherRows(f"The model was called with {len(inputs)} rows, and {rows} were given.")
        found: Tensor = self.model(inputs, *(structure or (part.expand(len(inputs), *part.shape[1:]) for part in self.structure)))
        return found


@dataclass(frozen=True, kw_only=True)
class Function(Foreign):
    """Any function (model, inputs, targets) -> attributions.

    One that takes more arguments also gets what the inputs carry along, such as the tokens of a text. For one that does not, the model
    knows them. If such a function calls the model with other rows than it was given, as SmoothGrad does, it explains one row at a time.
    """

    name: ClassVar[str] = computed(lambda self: self.label or display_name(self.function))
    structured: ClassVar[bool] = True
    function: Callable[..., Any]

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure) -> Any:
        if not structure or takes_structure(self.function):
            return self.function(model, inputs, targets, *structure)
        if not self.__dict__.get("_alone") or len(inputs) == 1:
            try:
                return self.function(BoundModel(model, structure), inputs, targets)
            except OtherRows:
                self.__dict__["_alone"] = True
        rows = [slice(row, row + 1) for row in range(len(inputs))]
        return torch.cat(
            [self.as_attributions(self.call(model, inputs[row], targets[row], select(structure, row)), inputs[row]) for row in rows]
        )

    def trial(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Trial:
        """As for all foreign code; rows that differ beside others may have met the structure of others, so they are explained alone."""
        seen = super().trial(model, inputs, targets, context)
        if seen.mixing and context.structure and not takes_structure(self.function) and not self.__dict__.get("_alone"):
            del self.__dict__["_seen"]
            self.__dict__["_alone"] = True
            return super().trial(model, inputs, targets, context)
        return seen

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        """As for all foreign code; it remembers whether it explains one row at a time."""
        found = super().specialise(model, inputs, targets, context)
        found.__dict__["_alone"] = self.__dict__.get("_alone", False)
        return found

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """As for all foreign code; notes if it explains one row at a time."""
        notes = super().check(model, inputs, targets, context)
        if not self.__dict__.get("_alone"):
            return notes
        return [
            *notes,
            f"{self.name} calls the model with other rows than it was given, so it explains one row at a time, which is slow: let it take "
            "what the inputs carry along, as (model, inputs, targets, *carried), and pass the fitting rows to the model.",
        ]


def takes_structure(function: Callable[..., Any]) -> bool:
    """Whether a function has more than three positional arguments.

    >>> takes_structure(lambda model, x, t: x), takes_structure(lambda model, x, t, *more: x)
    (False, True)
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    every = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    needed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty]
    return every or len(needed) > 3


def display_name(value: Any) -> str:
    """The name of a class, a function, a partial function or a callable object in results.

    >>> display_name(nn.ReLU6), display_name(lambda model: model)
    ('re_lu6', 'lambda')
    """
    value = getattr(value, "func", value)
    if not isinstance(value, type) and hasattr(value, "__name__"):
        return str(value.__name__).strip("<>")
    kind = value if isinstance(value, type) else type(value)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind.__name__).lower()
