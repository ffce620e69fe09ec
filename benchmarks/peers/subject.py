"""What both packages are asked about: a small trained network, digits, and gradients, all in double precision.

In double precision what is left of a difference is one of definitions, not of rounding.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Size, Tensor, nn

from veracity.demo import digits, flatten_cnn
from veracity.trainers.training import accuracy, initialised, train

SAMPLES = 16
EPOCHS = 6

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A model in evaluation mode, its inputs (N, 1, 14, 14), the classes that are explained (N,), and the maps of these."""

    model: nn.Module
    x: Tensor
    targets: Tensor
    maps: Tensor

    def arrays(self) -> dict[str, Any]:
        """The same as Quantus takes it, copied, since it changes what it is given."""
        return {
            "model": self.model,
            "x_batch": self.x.numpy().copy(),
            "y_batch": self.targets.numpy().copy(),
            "a_batch": self.maps.numpy().copy(),
            "channel_first": True,
            "batch_size": len(self.x),
        }


class Double(nn.Module):
    """A network that computes in double precision whatever it is given; Quantus gives single precision always."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.double()

    def forward(self, x: Tensor) -> Tensor:
        """The network's outputs."""
        found: Tensor = self.network(x.double())
        return found


def case(samples: int = SAMPLES) -> Case:
    """A network that was trained for a few seconds, on its first test images."""
    x, labels = digits("train")
    built = initialised(lambda: flatten_cnn((8, 16), 10, Size((14, 14))), seed=0)
    network = train(built, x, labels, epochs=EPOCHS, batch=64, rate=2e-2)
    tests, right = digits("test")
    if accuracy(network, tests, right) < 0.9:
        raise RuntimeError("The network for the comparison learnt too little.")
    model = Double(network).eval().requires_grad_(False)
    chosen = tests[:samples].double()
    targets = model(chosen).argmax(1)
    return Case(model, chosen, targets, gradient(model, chosen, targets))


def gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The explained score's gradient by the input."""
    leaf = inputs.detach().clone().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(model(leaf).gather(1, targets[:, None]).sum(), leaf)[0]


def explain(model: nn.Module, inputs: Array, targets: Array, **settings: Any) -> Array:
    """The same gradient as Quantus asks for it."""
    return gradient(model, torch.as_tensor(inputs), torch.as_tensor(targets)).numpy()


def with_weights(model: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    """A copy of the model with other weights."""
    copy = deepcopy(model)
    copy.load_state_dict({**copy.state_dict(), **weights})
    return copy


def apart(a: Array, b: Array) -> float:
    """The largest difference over the largest value; numbers that are undefined on one side alone are infinitely far apart."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if (np.isnan(a) != np.isnan(b)).any():
        return float("inf")
    size = np.nanmax(np.abs(b))
    return float(np.nanmax(np.abs(a - b)) / (size if size > 0 else 1.0))
