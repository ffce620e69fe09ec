"""What a model was trained on (examples, concepts, checkpoints), and learning algorithms that are trained once per fold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.component import encode_setting
from veracity.core.errors import InputError, SpecError
from veracity.core.inputs import FirstSamples, Inputs
from veracity.core.registry import TRAINERS
from veracity.core.settings import short_repr


@dataclass(frozen=True)
class Checkpoint:
    """The weights and the learning rate at one step of the training."""

    state: Mapping[str, Tensor]
    rate: float = 1.0


@dataclass(frozen=True)
class Training:
    """Training examples with their labels (n,), a mask of the examples of each concept (n,), and the model's checkpoints in order.

    Labels are class numbers, or real numbers for a regression.
    """

    inputs: Inputs
    labels: Tensor
    concepts: Mapping[str, Tensor] = field(default_factory=dict)
    checkpoints: tuple[Checkpoint, ...] = ()

    def __post_init__(self) -> None:
        if not hasattr(self.inputs, "adapt"):
            raise InputError(f"The training examples must be an Inputs, such as TensorInputs(tensor), not {type(self.inputs).__name__}.")
        if not isinstance(self.labels, Tensor) or self.labels.is_complex() or self.labels.shape != (self.inputs.size(),):
            what = f"{self.labels.dtype} {tuple(self.labels.shape)}" if isinstance(self.labels, Tensor) else type(self.labels).__name__
            raise InputError(f"The training labels must be numbers, one per example ({self.inputs.size()}), not {what}.")
        if self.labels.is_floating_point() and not bool(self.labels.isfinite().all()):
            raise InputError("The training labels hold NaN or infinity: leave these examples out.")

    def fingerprint(self) -> str:
        """A hash of the content."""
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
        """The first `count` examples."""
        kept = min(count, self.inputs.size())
        concepts = {name: mask[:kept] for name, mask in self.concepts.items()}
        return replace(self, inputs=FirstSamples(self.inputs, kept), labels=self.labels[:kept], concepts=concepts)

    def seen_by(self, view: nn.Module, module: nn.Module) -> Training:
        """The training with the names of weights changed from those in `module` to those in a `view` of it."""
        prefix = next(f"{name}." if name else "" for name, part in view.named_modules() if part is module)
        renamed = (replace(one, state={prefix + key: value for key, value in one.state.items()}) for one in self.checkpoints)
        return replace(self, checkpoints=tuple(renamed))


def check_checkpoint(name: str, number: int, checkpoint: Checkpoint, module: nn.Module) -> None:
    """Raise if a checkpoint does not fit the module or is not finite."""
    own = {key: tuple(value.shape) for key, value in module.state_dict().items()}
    given = {key: tuple(value.shape) for key, value in checkpoint.state.items()}
    for key in (*own, *given):
        if own.get(key) != given.get(key):
            here, there = (f"{found[key]}" if key in found else "nothing" for found in (own, given))
            raise InputError(
                f"Checkpoint {number} of model '{name}' has another architecture: '{key}' is {here} in the model and {there} in the state."
            )
    bad = next((key for key, value in checkpoint.state.items() if not value.isfinite().all()), None)
    if bad is not None or not math.isfinite(checkpoint.rate):
        what = f"'{bad}' holds NaN or infinity" if bad is not None else f"its learning rate is {checkpoint.rate}"
        raise InputError(f"Checkpoint {number} of model '{name}' cannot be used: {what}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossTrained:
    """A learning algorithm A, audited through its models f_i = A(D without V_i) for k disjoint folds V_i of the data set D.

    Scores of one model measure a sample of fold i under f_i, which was not trained on it. Scores of stability compare f_i with the
    other models, which were.

    fit      A: a function (inputs, targets, seed) -> nn.Module, a Trainer, or the name of a Trainer
    folds    the number of folds, stratified by class and shuffled by the seed; or a scikit-learn splitter; or the fold of each
             sample (n,)
    data     (inputs, targets) to train on, if they differ from the audited data
    place    the index of each audited input in `data`, (samples,)
    models   trained models instead of `fit`; model i was not trained on the samples of fold i
    build    a function () -> nn.Module that makes the untrained network, to load stored weights; a Trainer has its own
    seed     the seed of the folds and of the training
    reseed   whether fold i is trained with seed + i, so that initial weights differ
    device   the device of the audit
    folder   a folder for the trained models instead of the run's own, so that several runs can share them

    Reference: Fel, Vigouroux, Cadene and Serre, How good is your explanation? (WACV 2022), section 3.3.
    """

    fit: Any = None
    folds: Any = 5
    data: tuple[Any, Any] | None = None
    place: Any = None
    models: Sequence[nn.Module] = ()
    build: Callable[[], nn.Module] | None = None
    seed: int = 0
    reseed: bool = False
    device: str | None = None
    folder: str | None = None

    def trainer(self) -> Callable[..., Any]:
        """The learning algorithm A."""
        fit: Any = TRAINERS.build(self.fit) if self.fit is not None else None
        if isinstance(fit, type):
            raise SpecError(f"fit=... must be a function or a trainer, not a class: pass {fit.__name__}(...) with its settings.")
        if not callable(fit):
            raise SpecError(
                "A cross-trained model needs fit=..., a function (inputs, targets, seed) -> nn.Module or the name of a trainer, or "
                f"models=[...] that are already trained; not {short_repr(fit)}."
            )
        made: Callable[..., Any] = fit
        return made

    def check(self) -> None:
        """Raise if settings are invalid or contradict each other."""
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise SpecError(f"The seed of a cross-trained model must be a whole number from 0, not {short_repr(self.seed)}.")
        if not isinstance(self.models, (list, tuple)):
            raise InputError(f"models=... must be a list with one model per fold, not {type(self.models).__name__}.")
        if isinstance(self.build, nn.Module) or (self.build is not None and not callable(self.build)):
            raise SpecError(
                f"build=... must be a function that makes a new network, such as lambda: Net(), not {type(self.build).__name__}."
            )
        if self.folder is not None and Path(str(self.folder)).is_file():
            raise SpecError(f"folder=... must be a folder for the trained models, but {self.folder} is a file.")
        if self.folder is not None and not isinstance(self.folder, str):
            raise SpecError(f"folder=... must be the name of a folder, not {short_repr(self.folder)}.")
        if self.models and self.fit is not None:
            raise SpecError("A cross-trained model needs either fit=... or models=[...], not both.")
        if not self.models:
            self.trainer()
            return
        wrong = next((one for one in self.models if not isinstance(one, nn.Module)), None)
        if wrong is not None:
            raise InputError(f"models=... must hold torch.nn.Modules, not {type(wrong).__name__}.")
        if np.ndim(self.folds if isinstance(self.folds, (Tensor, list, tuple, np.ndarray)) else 0) != 1:
            raise InputError("models=... needs folds=..., the number of the fold (from 0) of each sample.")

    def spec(self) -> dict[str, Any]:
        """The settings as plain data."""
        given = torch.as_tensor(self.folds) if hasattr(self.folds, "__array__") or isinstance(self.folds, (list, tuple)) else self.folds
        folds = encode_setting(given) if isinstance(given, (int, Tensor)) else type(given).__name__
        return {
            "name": "cross_trained",
            "fit": encode_setting(TRAINERS.build(self.fit)) if self.fit is not None else None,
            "folds": folds,
            "models": len(self.models),
            "seed": self.seed,
            "reseed": self.reseed,
        }
