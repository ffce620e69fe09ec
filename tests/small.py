"""A small, exactly shift-invariant network over series, its data, and things an audit file can name."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from veracity.demo import GlobalMax

LENGTH = 12


def small_net(channels: int = 1, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        conv1 = nn.Conv1d(channels, 6, 3, padding=1, padding_mode="circular")
        conv2 = nn.Conv1d(6, 8, 3, padding=1, padding_mode="circular")
        return nn.Sequential(conv1, nn.ReLU(), conv2, nn.ReLU(), GlobalMax(), nn.Linear(8, 3)).eval()


def set_net(classes: int = 3, seed: int = 0) -> nn.Module:
    """A network over sets (N, points, 3) that no order of the points changes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), SetMax(), nn.Linear(8, classes)).eval()


class SetMax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.amax(dim=1)


def series_inputs(count: int = 6, seed: int = 1) -> Tensor:
    return torch.randn(count, 1, LENGTH, generator=torch.Generator().manual_seed(seed))


def labelled_series() -> tuple[Tensor, Tensor]:
    return series_inputs(6), torch.tensor([0, 1, 2, 0, 1, 2])


def labels_out_of_range() -> tuple[Tensor, Tensor]:
    return series_inputs(6), torch.tensor([0, 1, 7, 0, 1, 2])


class NaNs(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.full((len(x), 3), torch.nan)


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x.detach()).detach()
        return out


def with_dropout() -> nn.Module:
    return nn.Sequential(small_net(), nn.Dropout(0.5)).train()


def two_channels() -> nn.Module:
    return small_net(channels=2)


def shifted_mean(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """An explanation that ignores shifts of its input, as a function that users might write."""
    return torch.linspace(0, 1, inputs.shape[-1]).expand_as(inputs)


def broken_explainer(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    if len(inputs) > 2:
        raise ValueError("this explainer breaks on more than two rows")
    return inputs.clone()


def training_series() -> tuple[Tensor, Tensor]:
    """Series that have a hump on the left or on the right, and which."""
    x = series_inputs(80, seed=3)
    labels = torch.arange(80) % 3
    x[labels == 0, :, :4] += 3
    return x, labels


def one_class() -> tuple[Tensor, Tensor]:
    return series_inputs(10), torch.zeros(10, dtype=torch.long)


def high_first(x: Tensor, labels: Tensor) -> Tensor:
    return x[:, 0, :4].mean(1) > 1
