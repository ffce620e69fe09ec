"""A short training loop for the zoo: Adam, one cycle, an optional augmentation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Augmentation = Callable[[Tensor, torch.Generator], Tensor]


def train(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    batch: int = 128,
    rate: float = 3e-3,
    seed: int = 0,
    augment: Augmentation | None = None,
    report: Callable[[int, float], None] | None = None,
) -> nn.Module:
    """Train in place on the inputs' device, from a seed, and return the model in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    steps = -(-len(inputs) // batch)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=epochs * steps)
    model.train()
    for epoch in range(epochs):
        total = torch.zeros((), device=inputs.device)
        for index in torch.randperm(len(inputs), generator=generator).to(inputs.device).split(batch):
            x = inputs[index] if augment is None else augment(inputs[index], generator)
            loss = cross_entropy(model(x), labels[index])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.detach() * len(index)
        if report is not None:
            report(epoch, float(total) / len(inputs))
    return model.eval()


def initialised(build: Callable[[], nn.Sequential], seed: int) -> nn.Sequential:
    """A model whose initial weights follow from the seed; the global random state comes back as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def random_shift(margin: int) -> Augmentation:
    """An augmentation: roll each image by up to `margin` in both directions, in one gather."""

    def shift(x: Tensor, generator: torch.Generator) -> Tensor:
        count, _, height, width = x.shape
        offsets = torch.randint(-margin, margin + 1, (2, count, 1), generator=generator).to(x.device)
        rows = (torch.arange(height, device=x.device) - offsets[0]) % height
        columns = (torch.arange(width, device=x.device) - offsets[1]) % width
        sample = torch.arange(count, device=x.device)[:, None, None]
        return x.transpose(0, 1)[:, sample, rows[:, :, None], columns[:, None, :]].transpose(0, 1)

    return shift


@torch.no_grad()
def accuracy(model: nn.Module, inputs: Tensor, labels: Tensor, batch: int = 500) -> float:
    """The share of inputs whose largest output is their label."""
    predicted = torch.cat([model(part).argmax(dim=1) for part in inputs.split(batch)])
    return float((predicted == labels).float().mean())
