"""What a model learnt from, as far as an explanation refers to it: examples, concepts, checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.inputs import First, Inputs


@dataclass(frozen=True)
class Checkpoint:
    """Weights at one moment of the training, and the learning rate there."""

    state: Mapping[str, Tensor]
    rate: float = 1.0


@dataclass(frozen=True)
class Training:
    """Training examples with their labels (n,), which of them show each concept (n,), and a model's checkpoints in order."""

    inputs: Inputs
    labels: Tensor
    concepts: Mapping[str, Tensor] = field(default_factory=dict)
    checkpoints: tuple[Checkpoint, ...] = ()

    def __post_init__(self) -> None:
        if not hasattr(self.inputs, "adapt"):
            raise InputError(f"The training examples must be an Inputs, such as TensorInputs(tensor), not {type(self.inputs).__name__}.")
        if not isinstance(self.labels, Tensor) or self.labels.is_floating_point() or self.labels.shape != (self.inputs.size(),):
            what = f"{self.labels.dtype} {tuple(self.labels.shape)}" if isinstance(self.labels, Tensor) else type(self.labels).__name__
            raise InputError(f"The training labels must be whole numbers, one for each of {self.inputs.size()} examples, not {what}.")

    def fingerprint(self) -> str:
        """A hash of everything."""
        parts = {
            "inputs": self.inputs.fingerprint(),
            "labels": fingerprint.of_tensor(self.labels),
            "concepts": [[name, fingerprint.of_tensor(mask)] for name, mask in self.concepts.items()],
            "checkpoints": [
                [one.rate, {key: fingerprint.of_tensor(value) for key, value in one.state.items()}] for one in self.checkpoints
            ],
        }
        return fingerprint.of_json(parts)

    def first(self, count: int) -> Training:
        """The first examples alone."""
        kept = min(count, self.inputs.size())
        concepts = {name: mask[:kept] for name, mask in self.concepts.items()}
        return replace(self, inputs=First(self.inputs, kept), labels=self.labels[:kept], concepts=concepts)

    def seen_by(self, view: nn.Module, module: nn.Module) -> Training:
        """The training with its checkpoints' names as they are in a view of the module."""
        prefix = next(f"{name}." if name else "" for name, part in view.named_modules() if part is module)
        renamed = (replace(one, state={prefix + key: value for key, value in one.state.items()}) for one in self.checkpoints)
        return replace(self, checkpoints=tuple(renamed))


def check_fits(name: str, number: int, checkpoint: Checkpoint, module: nn.Module) -> None:
    """Raise if a checkpoint belongs to another architecture."""
    own = {key: tuple(value.shape) for key, value in module.state_dict().items()}
    given = {key: tuple(value.shape) for key, value in checkpoint.state.items()}
    for key in (*own, *given):
        if own.get(key) != given.get(key):
            here, there = (f"{found[key]}" if key in found else "nothing" for found in (own, given))
            raise InputError(
                f"Checkpoint {number} of model '{name}' belongs to another architecture: '{key}' is {here} in the model and {there} in it."
            )
    bad = next((key for key, value in checkpoint.state.items() if not value.isfinite().all()), None)
    if bad is not None or not math.isfinite(checkpoint.rate):
        what = f"'{bad}' holds NaN or infinity" if bad is not None else f"its learning rate is {checkpoint.rate}"
        raise InputError(f"Checkpoint {number} of model '{name}' cannot be used: {what}.")
