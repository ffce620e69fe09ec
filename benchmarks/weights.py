"""Many copies of a model at once or one after another: python -m benchmarks.weights [cpu|cuda]

A LeNet with 25 sets of perturbed weights on a batch of 64 images: its scores, and their gradients by the input. Looped: one
call per copy. Stacked: one call for all of them, torch.func.vmap over the copies. Needs torch alone.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from benchmarks.timing import in_turns
from veracity.trainers.training import initialised
from veracity_papers.zoo.lenet import lenet

if TYPE_CHECKING:
    from veracity.core.spaces import WeightSpace

COPIES = 25
BATCH = 64
SIGMA = 0.5
REPEATS = 20

Weights = dict[str, Tensor]


def scaling() -> WeightSpace:
    """One direction a copy, at one level."""
    from veracity.perturb.weights import ParameterScaling

    return ParameterScaling(sigma=SIGMA, steps=1)


def copies(model: nn.Module) -> list[Weights]:
    """The weights of every copy."""
    space = scaling().of(model)
    return [space.parameters(model, draw, 0, seed=0) for draw in range(COPIES)]


def forward(model: nn.Module, weights: Weights, x: Tensor, targets: Tensor) -> Tensor:
    """All scores (N, classes) of one copy."""
    found: Tensor = functional_call(model, weights, (x,))
    return found


def gradient(model: nn.Module, weights: Weights, x: Tensor, targets: Tensor) -> Tensor:
    """The explained scores' gradients by the input (N, ...) of one copy, as a function torch.func can map."""

    def explained(inputs: Tensor) -> Tensor:
        return forward(model, weights, inputs, targets).gather(1, targets).sum()

    found: Tensor = grad(explained)(x)
    return found


def backward(model: nn.Module, weights: Weights, x: Tensor, targets: Tensor) -> Tensor:
    """The same gradients as autograd gives them, without torch.func."""
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(forward(model, weights, leaf, targets).gather(1, targets).sum(), leaf)[0]


def compare(name: str, device: torch.device, exact: bool) -> dict[str, object]:
    """Both ways of one computation: milliseconds, how many times faster stacked is, and their largest relative difference."""
    torch.backends.cudnn.allow_tf32 = not exact
    model = initialised(lenet, seed=0).eval().requires_grad_(False).to(device)
    x = torch.rand(BATCH, 1, 28, 28, generator=torch.Generator().manual_seed(0)).to(device)
    targets = model(x).argmax(1)[:, None]
    each = copies(model)
    together = {key: torch.stack([weights[key] for weights in each]) for key in each[0]}
    one, mapped = (forward, forward) if name == "forward" else (backward, gradient)

    def looped() -> Tensor:
        return torch.stack([one(model, weights, x, targets) for weights in each])

    def stacked() -> Tensor:
        found: Tensor = vmap(lambda weights: mapped(model, weights, x, targets))(together)
        return found

    with torch.set_grad_enabled(name == "gradient"):
        slow, fast = looped(), stacked()
        times = in_turns({"looped": looped, "stacked": stacked}, device, REPEATS)
    apart = float((slow - fast).abs().amax() / slow.abs().amax())
    return {
        "what": name,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads",
        "precision": "float32" if exact or device.type == "cpu" else "tf32 convolutions",
        **{f"{key} ms": round(1000 * value, 2) for key, value in times.items()},
        "times faster": round(times["looped"] / times["stacked"], 2),
        "apart": f"{apart:.1e}",
    }


def main(device: torch.device) -> None:
    """Print one line per computation; on a GPU with and without its shortened convolutions."""
    before = torch.backends.cudnn.allow_tf32
    try:
        for exact in (True, False) if device.type == "cuda" else (True,):
            for name in ("forward", "gradient"):
                sys.stdout.write(json.dumps(compare(name, device, exact)) + "\n")
                sys.stdout.flush()
    finally:
        torch.backends.cudnn.allow_tf32 = before


if __name__ == "__main__":
    main(torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu"))
