"""The training loop (AdamW, one cycle, optional augmentation), its validation part and early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from veracity.core.errors import InputError
from veracity.core.inputs import Inputs, TensorInputs

Augmentation = Callable[[Tensor, torch.Generator], Tensor]
Loss = Callable[[nn.Module, Tensor, Tensor, torch.Generator], Tensor]
Network = TypeVar("Network", bound=nn.Module)


def train(
    model: Network,
    inputs: Tensor | Inputs,
    labels: Tensor,
    *,
    epochs: int,
    batch: int = 128,
    rate: float = 3e-3,
    decay: float = 0.0,
    seed: int = 0,
    augment: Augmentation | None = None,
    loss: Loss | None = None,
    report: Callable[[int, float], None] | None = None,
    checkpoint: Callable[[int, float], None] | None = None,
    reduced: bool = False,
    rows: Tensor | None = None,
    stop: Callable[[int, float], bool] | None = None,
) -> Network:
    """Train in place on the labels' device, from a seed, and return the model in evaluation mode.

    Dropout follows from the seed as well, and the global random state stays as it was.

    decay       decoupled weight decay
    loss        replaces the cross-entropy: a function of the model, a batch's values, its labels and a generator
    report      called with (epoch, mean loss) after each epoch
    checkpoint  called with (epochs done, learning rate) before the first epoch and after each
    reduced     run the forward pass in bfloat16
    rows        indices of the samples to learn from, all of them by default
    stop        called with (epoch, mean loss) after each epoch, with the model in evaluation mode; True ends the training
    """
    data = as_inputs(inputs)
    view = data.adapt(model)
    device = labels.device
    generator = torch.Generator().manual_seed(seed)
    noise = torch.Generator(device=device).manual_seed(seed + 1)
    samples = torch.arange(len(labels), device=device) if rows is None else rows.to(device)
    steps = -(-len(samples) // batch)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=epochs * steps)
    if checkpoint is not None:
        checkpoint(0, float(schedule.get_last_lr()[0]))
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for epoch in range(epochs):
            model.train()
            total = torch.zeros((), device=device)
            for index in samples[torch.randperm(len(samples), generator=generator).to(device)].split(batch):
                signals = data.take(index).to(device)
                if augment is not None:
                    signals = replace(signals, values=augment(signals.values, generator))
                with torch.autocast(device.type, torch.bfloat16, enabled=reduced):
                    if loss is None:
                        error = cross_entropy(signals.through(view).float(), labels[index])
                    elif signals.structure:
                        raise InputError("A loss function gets the values only, but these inputs also have a structure: leave `loss` out.")
                    else:
                        error = loss(view, signals.values, labels[index], noise)
                optimiser.zero_grad()
                error.backward()
                optimiser.step()
                schedule.step()
                total += error.detach() * len(index)
            model.eval()
            if report is not None:
                report(epoch, float(total) / len(samples))
            if checkpoint is not None:
                checkpoint(epoch + 1, float(schedule.get_last_lr()[0]))
            if stop is not None and stop(epoch, float(total) / len(samples)):
                break
    return model.eval()


def as_inputs(inputs: Tensor | Inputs) -> Inputs:
    """Inputs from a tensor of samples."""
    return TensorInputs(inputs) if isinstance(inputs, Tensor) else inputs


def initialised(build: Callable[[], Network], seed: int) -> Network:
    """A model with initial weights from the seed. The global random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def random_shift(margin: int, axes: tuple[int, ...] = (-2, -1)) -> Augmentation:
    """An augmentation that rolls each sample by up to `margin` along the axes."""

    def shift(x: Tensor, generator: torch.Generator) -> Tensor:
        offsets = torch.randint(-margin, margin + 1, (len(axes), len(x), 1), generator=generator).to(x.device)
        for axis, offset in zip(axes, offsets, strict=True):
            size = x.shape[axis]
            source = (torch.arange(size, device=x.device) - offset) % size
            view = [1] * x.ndim
            view[0], view[axis] = len(x), size
            x = x.gather(axis, source.reshape(view).expand_as(x))
        return x

    return shift


def random_crop(margin: int) -> Augmentation:
    """An augmentation that crops each image (N, C, H, W) at random from itself with a black margin, and mirrors half of them."""

    def crop(x: Tensor, generator: torch.Generator) -> Tensor:
        count, _, height, width = x.shape
        corners = torch.randint(0, 2 * margin + 1, (2, count, 1), generator=generator).to(x.device)
        mirrored = torch.randint(0, 2, (count, 1), generator=generator).bool().to(x.device)
        rows, columns = (torch.arange(side, device=x.device) for side in (height, width))
        rows, columns = corners[0] + rows, corners[1] + torch.where(mirrored, columns.flip(0), columns)
        image = torch.arange(count, device=x.device)[:, None, None]
        return pad(x, (margin,) * 4).permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)

    return crop


def batch_outputs(model: nn.Module, inputs: Inputs, labels: Tensor, rows: Tensor, batch: int = 500) -> Iterator[tuple[Tensor, Tensor]]:
    """The outputs and labels of some samples, a batch at a time."""
    view = inputs.adapt(model)
    for index in rows.to(labels.device).split(batch):
        yield inputs.take(index).to(labels.device).through(view), labels[index]


@torch.no_grad()
def accuracy(model: nn.Module, inputs: Tensor | Inputs, labels: Tensor) -> float:
    """The share of inputs whose largest output is their label."""
    parts = batch_outputs(model, as_inputs(inputs), labels, torch.arange(len(labels)))
    return float(torch.cat([outputs.argmax(dim=1) == truth for outputs, truth in parts]).float().mean())


def held_out(labels: Tensor, share: float, seed: int) -> Tensor:
    """A mask (N,) of the validation samples: about this share of every class, at least one of each, but never all of them.

    >>> held_out(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2]), share=0.25, seed=0).sum()
    tensor(2)
    """
    held = torch.zeros(len(labels), dtype=torch.bool)
    if share <= 0:
        return held
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    count = labels.cpu().bincount()
    wanted = torch.minimum((count * share).round().long().clamp(min=1), count - 1)
    for label in labels.cpu().unique():
        held[order[labels.cpu()[order] == label][: wanted[label]]] = True
    return held


@torch.no_grad()
def mean_loss(model: nn.Module, inputs: Inputs, labels: Tensor, rows: Tensor) -> float:
    """The mean cross-entropy over some samples, for a model in evaluation mode."""
    parts = batch_outputs(model, inputs, labels, rows)
    return sum(float(cross_entropy(outputs.float(), truth, reduction="sum")) for outputs, truth in parts) / len(rows)


class BestEpoch:
    """The weights of the epoch with the lowest validation loss, and the number of epochs since.

    Epochs up to `after` do not count: early in a cycle the learning rate is high, and the loss need not fall.
    """

    def __init__(self, model: nn.Module, patience: int | None, after: int = 0) -> None:
        self.model, self.patience, self.after = model, patience, after
        self.loss, self.since = math.inf, 0
        self.state: dict[str, Tensor] = {}

    def update(self, loss: float) -> bool:
        """Record one more epoch's validation loss; returns whether to stop."""
        self.after -= 1
        self.since += self.after < 0
        if loss < self.loss:
            self.loss, self.since = loss, 0
            self.state = {key: value.detach().clone() for key, value in self.model.state_dict().items()}
        return self.patience is not None and self.since >= self.patience

    def restore(self) -> None:
        """Load the best weights into the model."""
        if self.state:
            self.model.load_state_dict(self.state)


def place_in_group(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each item within its group, from 0; items of a group are adjacent.

    >>> place_in_group(np.array([0, 0, 1, 1, 1, 2]))
    array([0, 1, 0, 1, 2, 0])
    """
    first = np.r_[0, np.flatnonzero(np.diff(group)) + 1]
    place: NDArray[np.int64] = np.arange(len(group)) - np.repeat(first, np.diff(np.r_[first, len(group)]))
    return place
