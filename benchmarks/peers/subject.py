"""What both packages are asked about: a small trained network, digits, and gradients; and linear models for minimal cases.

Everything is in double precision, so that what is left of a difference is one of definitions, not of rounding.
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
STEPS = np.arange(1.0, 9.0)
"""Eight weights of a minimal case, which differ."""


@dataclass(frozen=True)
class Case:
    """A model in evaluation mode, its inputs (N, 1, height, width), the classes that are explained (N,), and the maps of these."""

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


def case(samples: int = SAMPLES) -> Case:
    """A network that was trained for a few seconds, on its first test images."""
    x, labels = digits("train")
    built = initialised(lambda: flatten_cnn((8, 16), 10, Size((14, 14))), seed=0)
    network = train(built, x, labels, epochs=EPOCHS, batch=64, rate=2e-2)
    tests, right = digits("test")
    if accuracy(network, tests, right) < 0.9:
        raise RuntimeError("The network for the comparison learnt too little.")
    model = network.double().eval().requires_grad_(False)
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


def times_input(model: nn.Module, inputs: Array, targets: Array, **settings: Any) -> Array:
    """Gradient times input, as Quantus asks for it."""
    return explain(model, inputs, targets) * inputs


def with_weights(model: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    """A copy of the model with other weights."""
    copy = deepcopy(model)
    copy.load_state_dict({**copy.state_dict(), **weights})
    return copy


def apart(a: Array, b: Array) -> float:
    """The largest difference over the largest value; numbers that are undefined on one side alone are infinitely far apart."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    defined = ~np.isnan(b)
    if (np.isnan(a) == defined).any():
        return float("inf")
    size = np.abs(b[defined]).max(initial=0.0)
    return float(np.abs(a[defined] - b[defined]).max(initial=0.0) / (size if size > 0 else 1.0))


def linear(weight: Any, bias: float = 0.0) -> nn.Module:
    """Two classes of flat inputs: weight . x + bias, and 0."""
    row = torch.as_tensor(np.asarray(weight, dtype=np.float64))
    layer = nn.Linear(len(row), 2).double()
    layer.weight = nn.Parameter(torch.stack((row, torch.zeros_like(row))), requires_grad=False)
    layer.bias = nn.Parameter(torch.tensor([bias, 0.0], dtype=torch.float64), requires_grad=False)
    return nn.Sequential(nn.Flatten(), layer).eval()


def minimal(weight: Any, x: Any, maps: Any, bias: float = 0.0) -> Case:
    """A linear model, images (N, 1, 2, 4) and maps from eight numbers each, for the class that the model predicts."""
    inputs, given = (torch.as_tensor(np.asarray(one, dtype=np.float64)).reshape(-1, 1, 2, 4) for one in (x, maps))
    model = linear(weight, bias)
    return Case(model, inputs, model(inputs).argmax(1), given)
