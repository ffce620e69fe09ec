"""Trainers: learning algorithms as components. They turn data and a seed into a trained network."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from torch import Size, Tensor, nn

from veracity.core.component import Component
from veracity.core.errors import InputError, SpecError
from veracity.core.inputs import Inputs, TensorInputs
from veracity.core.settings import Count, NonNegative, Positive, Within
from veracity.trainers.certified import certified_constant
from veracity.trainers.training import Augmentation, BestEpoch, as_inputs, held_out, initialised, mean_loss, train

Progress = Callable[[int, int, str], object]
"""A function that is called after each epoch with the epochs done, all epochs, and a text with the losses."""
Keep = Callable[[nn.Module, float], object]
"""A function that is called after each epoch with the network and its learning rate, to keep checkpoints."""


@dataclass(frozen=True, kw_only=True)
class BaseTrainer(Component, ABC):
    """AdamW over one cycle of the learning rate, with early stopping: the weights of the best epoch are returned.

    Called with inputs (N, ...), labels (N,) and a seed, it returns a network in evaluation mode on the inputs' device. The seed
    decides initial weights, validation part, order and dropout; on a CPU, the same call gives the same network bit for bit.

    epochs       the largest number of epochs
    batch        samples per step
    rate, decay  the highest learning rate, and the weight decay
    validation   the share of every class that is held out to validate each epoch; 0 for none
    patience     how many epochs of the second half, in which the rate falls, may pass without a lower validation loss
                 before the training ends; None for all
    augment      a function (batch, generator) -> batch, such as `veracity.trainers.training.random_crop(4)`
    device       where to train, such as "cuda"; by default the inputs' device
    """

    role = "trainer"

    epochs: Count = 20
    batch: Count = 128
    rate: Positive = 3e-3
    decay: NonNegative = 1e-4
    patience: Count | None = 5
    validation: Annotated[float, Within(least=0, below=1)] = 0.1
    augment: Augmentation | None = None
    device: str | None = field(default=None, metadata={"spec": False})

    @abstractmethod
    def build(self, shape: Size, classes: int) -> nn.Module:
        """A network with fresh weights, from samples of this shape to logits (N, classes)."""

    def export(self, model: nn.Module) -> nn.Module:
        """The network to return, if it differs from the network to train."""
        return model

    def facts(self, model: nn.Module, shape: Size) -> dict[str, float]:
        """Facts about a trained network: its certified Lipschitz constant, if all of its layers have a bound."""
        try:
            return {"lipschitz": certified_constant(model)}
        except InputError:
            return {}

    def untrained(self, inputs: Tensor | Inputs, targets: Tensor, seed: int) -> nn.Module:
        """The network before training, in evaluation mode, with this seed's initial weights."""
        data = as_inputs(inputs)
        return self.export(self.initial_network(data, check_labels(targets, data.size()), seed).eval())

    def initial_network(self, inputs: Inputs, labels: Tensor, seed: int) -> nn.Module:
        """A fresh network with one output per class."""
        classes = int(labels.max()) + 1

        def build() -> nn.Module:
            model = self.build(inputs.shape, classes).cpu().eval()
            check_outputs(model, inputs, classes)
            return model

        return initialised(build, seed)

    def __call__(
        self, inputs: Tensor | Inputs, targets: Tensor, seed: int, progress: Progress | None = None, checkpoint: Keep | None = None
    ) -> nn.Module:
        """Train, and return the network in evaluation mode; `progress` and `checkpoint` are called after each epoch."""
        self.check()
        data = as_inputs(inputs)
        labels = check_labels(targets, data.size())
        home = data.take(torch.zeros(1, dtype=torch.long)).values.device
        device = home if self.device is None else torch.device(self.device)
        model = self.initial_network(data, labels, seed).to(device)
        held = held_out(labels, self.validation, seed)
        rows, validation = (~held).nonzero().flatten(), held.nonzero().flatten()
        if isinstance(data, TensorInputs):
            data = TensorInputs(data.tensor.to(device))
        labels = labels.to(device)
        best = BestEpoch(model, self.patience, after=self.epochs // 2)

        def stop(epoch: int, loss: float) -> bool:
            validation_loss = mean_loss(model, data, labels, validation) if len(validation) else loss
            if not (math.isfinite(loss) and math.isfinite(validation_loss)):
                raise InputError(f"The training diverged in epoch {epoch + 1} (its loss is not finite): lower the rate, now {self.rate:g}.")
            if progress is not None:
                progress(epoch + 1, self.epochs, f"loss {loss:.4f}" + (f", validation {validation_loss:.4f}" if len(validation) else ""))
            return best.update(validation_loss) if len(validation) else False

        def keep(done: int, rate: float) -> None:
            if checkpoint is not None and done:
                checkpoint(self.export(model), rate)

        settings: dict[str, Any] = {"epochs": self.epochs, "rate": self.rate, "decay": self.decay, "augment": self.augment}
        settings |= {} if checkpoint is None else {"checkpoint": keep}
        train(model, data, labels, batch=batch_without_single(len(rows), self.batch), seed=seed, rows=rows, stop=stop, **settings)
        best.restore()
        return self.export(model.to(home).eval())

    def check(self) -> None:
        if self.device is not None and self.device.startswith("cuda") and not torch.cuda.is_available():
            raise InputError(f"There is no GPU to train on (device='{self.device}'): leave the device out, or use 'cpu'.")


@dataclass(frozen=True, kw_only=True)
class Trainer(BaseTrainer):
    """A trainer of your own network. `network` is a class or function that builds it, without arguments or from (shape, classes).

    >>> trainer = Trainer(network=lambda shape, classes: nn.Linear(shape[0], classes), epochs=30, rate=0.1)
    >>> model = trainer(torch.eye(4).repeat(25, 1), torch.arange(4).repeat(25), seed=0)
    >>> model(torch.eye(4)).argmax(1)
    tensor([0, 1, 2, 3])
    """

    name = "trainer"
    network: Callable[..., nn.Module]

    def build(self, shape: Size, classes: int) -> nn.Module:
        if isinstance(self.network, nn.Module) or not callable(self.network):
            raise SpecError(
                "A trainer starts from a fresh network each time: give network=... as a class or function that builds it, such as "
                f"lambda: {type(self.network).__name__}(...), not as {'a network' if isinstance(self.network, nn.Module) else 'this'}."
            )
        model = self.network(shape, classes) if needs_arguments(self.network) else self.network()
        if not isinstance(model, nn.Module):
            raise SpecError(f"The trainer's network=... must build a torch.nn.Module, not {type(model).__name__}.")
        return model


def needs_arguments(build: Callable[..., Any]) -> bool:
    """Whether a function has required arguments.

    >>> needs_arguments(lambda width=8: None), needs_arguments(lambda shape, classes: None)
    (False, True)
    """
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(build).parameters.values()
    return any(one.kind in kinds and one.default is inspect.Parameter.empty for one in parameters)


def check_labels(targets: Tensor, size: int) -> Tensor:
    """The labels as int64; raises unless there is one per sample, and every class from 0 to the largest occurs."""
    if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.is_complex() or targets.shape != (size,):
        what = f"{targets.dtype} {tuple(targets.shape)}" if isinstance(targets, Tensor) else type(targets).__name__
        raise InputError(f"The targets of a training must be whole numbers, one class per sample ({size} samples), not {what}.")
    labels = targets.long()
    if int(labels.min()) < 0:
        raise InputError(f"The targets of a training must be classes from 0 on, but the lowest is {int(labels.min())}: renumber them.")
    missing = (labels.bincount() == 0).nonzero()
    if len(missing):
        raise InputError(
            f"No sample of the training has class {int(missing[0])}, though the classes go up to {int(labels.max())}: add samples of it, "
            "or renumber the classes."
        )
    if int(labels.max()) == 0:
        raise InputError("All samples of the training have class 0: a classifier needs at least two classes.")
    return labels


@torch.no_grad()
def check_outputs(model: nn.Module, inputs: Inputs, classes: int) -> None:
    """Raise unless a model gives one output per class."""
    few = torch.arange(min(2, inputs.size()))
    outputs = inputs.take(few).to(torch.device("cpu")).through(inputs.adapt(model))
    if not isinstance(outputs, Tensor) or outputs.shape != (len(few), classes):
        what = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise InputError(
            f"For {len(few)} samples the network gives {what}, but the targets have {classes} classes: its output must have shape "
            f"({len(few)}, {classes})."
        )


def batch_without_single(count: int, batch: int) -> int:
    """The batch size, or the next larger one that leaves no batch of a single sample, on which batch normalisation fails.

    >>> batch_without_single(100, 32), batch_without_single(97, 32)
    (32, 33)
    """
    return next((size for size in range(batch, count + 1) if size > 1 and count % size != 1), max(batch, 1))
