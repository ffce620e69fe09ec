"""The 1-Lipschitz network of the stability paper (Table 4), built and trained through deel-torchlip.

Three 3x3 convolutions whose kernels are kept orthonormal, PReLU with a slope of at most 1, means over 2x2 windows scaled so that
their norm is 1, and a dense layer with orthonormal rows: no input moves the logits by more than it moves itself, in the Euclidean
norm. Dropout acts in training alone. After training the weights are copied into plain layers, so that explanations and stored
weights need torch alone; `veracity.trainers.certified.certified_constant` checks the bound on those.

The paper gives neither the kernels' size nor the loss. Here kernels are 3x3, and the loss is the cross-entropy of the logits times
a temperature: logits that move little need it to become probabilities. On scikit-learn's digits, widths of (16, 32, 32) scored
.973 over five folds, with certified constants of .79 to .81 and slopes of at most .07 at the images; `small_cnn` scored .987, with
1,000 and 22.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import missing_extra
from veracity.core.registry import TRAINERS
from veracity.core.settings import Count, NonNegative, Positive, Within
from veracity.trainers.small_cnn import images
from veracity.trainers.trainer import BaseTrainer
from veracity.trainers.training import initialised

WIDTHS = (48, 96, 96)
LAYER = "conv3"  # where Grad-CAM looks: the last maps before their means


class Scaled(nn.Module):
    """A network's logits times a temperature, for training alone."""

    def __init__(self, network: nn.Module, temperature: float) -> None:
        super().__init__()
        self.network, self.temperature = network, temperature

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, classes)."""
        logits: Tensor = self.network(x)
        return logits * self.temperature


def plain_network(shape: Size, classes: int, widths: tuple[int, ...] = WIDTHS, dropout: float = 0.2) -> nn.Sequential:
    """Table 4 in plain layers, with any weights; a mean over 2x2 is a sum over 2 here, whose norm is 1."""
    channels, height, width = images(shape, "lipschitz", least=2 ** len(widths))
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (before, after) in enumerate(zip((channels, *widths), widths, strict=False), start=1):
        layers[f"conv{number}"] = nn.Conv2d(before, after, 3, padding=1)
        last = number == len(widths)
        if not last:
            layers[f"prelu{number}"] = nn.PReLU()
        layers[f"pool{number}"] = nn.AvgPool2d(2, divisor_override=2)
        if not last:
            layers[f"dropout{number}"] = nn.Dropout(dropout)
        height, width = height // 2, width // 2
    layers.update(flatten=nn.Flatten(), linear=nn.Linear(widths[-1] * height * width, classes))
    return nn.Sequential(layers)


def constrain(network: nn.Sequential) -> nn.Sequential:
    """The same layers with their weights constrained: convolutions and dense layers spectrally, PReLU to slopes of at most 1."""
    lip = torchlip()
    made: OrderedDict[str, nn.Module] = OrderedDict()
    for name, layer in network.named_children():
        if isinstance(layer, nn.Conv2d):
            made[name] = lip.SpectralConv2d(layer.in_channels, layer.out_channels, layer.kernel_size, padding=layer.padding)
        elif isinstance(layer, nn.Linear):
            made[name] = lip.SpectralLinear(layer.in_features, layer.out_features)
        elif isinstance(layer, nn.PReLU):
            made[name] = lip.LPReLU()
        else:
            made[name] = layer
    return nn.Sequential(made)


@torch.no_grad()
def to_plain_layers(network: nn.Sequential) -> nn.Sequential:
    """A constrained network in plain layers, with the weights it acts with, in evaluation mode."""
    made: OrderedDict[str, nn.Module] = OrderedDict()
    for name, layer in network.eval().named_children():
        if isinstance(layer, nn.PReLU):
            made[name] = nn.PReLU().to(layer.weight.device)
            made[name].load_state_dict({"weight": layer.weight.clamp(-1.0, 1.0)})
        else:
            export: Any = getattr(layer, "vanilla_export", None)
            made[name] = layer if export is None else export()
    return nn.Sequential(made).eval()


def torchlip() -> Any:
    """The library, if it is installed."""
    try:
        return import_module("deel.torchlip")
    except ImportError as error:
        raise missing_extra("deel-torchlip", "lipschitz", "veracity-papers") from error


@TRAINERS.add
@dataclass(frozen=True, kw_only=True)
class Lipschitz(BaseTrainer):
    """A 1-Lipschitz convolutional network, handed over in plain layers; needs deel-torchlip to train, not to be audited.

    widths        filters of the convolutions, each followed by a halving of the image
    dropout       after each halving but the last, in training alone
    temperature   what the logits are multiplied by in the loss: higher fits closer, lower leaves larger margins
    """

    name: ClassVar[str] = "lipschitz"
    reference: ClassVar[str] = "Fel, Vigouroux, Cadène and Serre, How good is your explanation? (WACV 2022), Table 4"
    epochs: Count = 30
    batch: Count = 32
    rate: Positive = 5e-3
    decay: NonNegative = 0.0
    patience: Count | None = None
    widths: tuple[Count, ...] = WIDTHS
    dropout: Annotated[float, Within(least=0, below=1)] = 0.2
    temperature: Positive = 300.0

    def build(self, shape: Size, classes: int) -> nn.Module:
        """The constrained network with fresh weights, its logits scaled for training."""
        return Scaled(constrain(plain_network(shape, classes, tuple(self.widths), self.dropout)), self.temperature)

    def export(self, model: nn.Module) -> nn.Module:
        """The network in plain layers, without the temperature."""
        network = model.get_submodule("network")
        return initialised(lambda: to_plain_layers(network), 0) if isinstance(network, nn.Sequential) else network
