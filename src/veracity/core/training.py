"""What a model learnt from, as far as an explanation refers to it: examples, concepts, checkpoints.

A learning algorithm in the place of a model: trained once for each fold of the data, without it.
"""

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
from veracity.core.component import encode
from veracity.core.errors import InputError, SpecError
from veracity.core.inputs import First, Inputs
from veracity.core.registry import TRAINERS


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


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossTrained:
    """f_i = A(D without V_i) for each of k disjoint folds V_i of the data set D (section 3.3).

    A score of one model is measured, on a sample of fold i, under f_i, which never saw it; scores of stability compare f_i with
    the others, which did.

    fit      A: a function (inputs, targets, seed) -> nn.Module, a Trainer, or the name of one
    folds    how many, stratified by class and shuffled by the seed; or a splitter of scikit-learn; or the fold of each sample (n,)
    data     (inputs, targets) to learn from, where they are more than what is audited, or labelled otherwise
    place    where each audited input stands in `data`, (samples,)
    models   models that are trained already, in the place of `fit`: number i never saw the samples of fold i
    build    a function () -> nn.Module: the network before training, to read stored weights back; a Trainer knows it
    seed     of the folds and of the training: A is one deterministic algorithm, whatever the fold
    reseed   whether fold i is trained with seed + i instead, other initial weights each
    device   where the models are audited, once they are trained
    kept     a folder for the trained models in the place of the run's own, so that several runs share them
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
    kept: str | None = None

    def trainer(self) -> Callable[..., Any]:
        """A, once its name is looked up."""
        fit: Any = TRAINERS.build(self.fit) if self.fit is not None else None
        if isinstance(fit, type):
            raise SpecError(f"fit=... is a function or a trainer, not a class: give {fit.__name__}(...), with its settings.")
        if not callable(fit):
            raise SpecError(
                "A cross-trained model needs fit=..., a function (inputs, targets, seed) -> nn.Module or the name of a trainer, or "
                f"models=[...] that are trained already; not {fit!r}."
            )
        made: Callable[..., Any] = fit
        return made

    def check(self) -> None:
        """Raise on what cannot belong together."""
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise SpecError(f"The seed of a cross-trained model must be a whole number from 0, not {self.seed!r}.")
        if not isinstance(self.models, (list, tuple)):
            raise InputError(f"The given models of the folds are a list, one for each fold, not {type(self.models).__name__}.")
        if isinstance(self.build, nn.Module) or (self.build is not None and not callable(self.build)):
            raise SpecError(f"build=... is a function that makes the network anew, such as lambda: Net(), not {type(self.build).__name__}.")
        if self.kept is not None and Path(str(self.kept)).is_file():
            raise SpecError(f"kept=... is a folder for the trained models, and {self.kept} is a file.")
        if self.kept is not None and not isinstance(self.kept, str):
            raise SpecError(f"kept=... is the name of a folder, not {self.kept!r}.")
        if self.models and self.fit is not None:
            raise SpecError("A cross-trained model is given either by fit=... or by models=[...], not by both.")
        if not self.models:
            self.trainer()
            return
        wrong = next((one for one in self.models if not isinstance(one, nn.Module)), None)
        if wrong is not None:
            raise InputError(f"The given models of the folds must be torch.nn.Modules, not {type(wrong).__name__}.")
        if np.ndim(self.folds if isinstance(self.folds, (Tensor, list, tuple, np.ndarray)) else 0) != 1:
            raise InputError("Models that are trained already need folds=..., the number of the fold (from 0) of each sample.")

    def spec(self) -> dict[str, Any]:
        """What was asked for, as plain data."""
        given = torch.as_tensor(self.folds) if hasattr(self.folds, "__array__") or isinstance(self.folds, (list, tuple)) else self.folds
        folds = encode(given) if isinstance(given, (int, Tensor)) else type(given).__name__
        return {
            "name": "cross_trained",
            "fit": encode(TRAINERS.build(self.fit)) if self.fit is not None else None,
            "folds": folds,
            "models": len(self.models),
            "seed": self.seed,
            "reseed": self.reseed,
        }
