"""Seconds per row of bare passes of torchvision's networks on a GPU; imports no veracity.

    python benchmarks/gpu_floor.py resnet50 tf32 [side]

Three kinds of pass: forward alone, forward with a backward pass to the input, and forward with a backward pass to the layer that
Grad-CAM looks at. Prints one JSON object: for each kind, the fastest of three batch sizes. Each timing takes about a second after a
warm-up.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

SIZES = (64, 256, 512)
SECONDS = 0.7
LAYERS = {"resnet50": "layer4", "vit_b_16": "encoder.layers.encoder_layer_11.ln_1"}
"""Layers whose gradients Grad-CAM takes."""


def network(name: str) -> torch.nn.Module:
    """A network with random weights, which take as long as any others."""
    torch.manual_seed(0)
    made: torch.nn.Module = getattr(import_module("torchvision.models"), name)(weights=None)
    for layer in made.modules():
        if isinstance(layer, torch.nn.Linear) and not layer.weight.any():  # the last layer of a ViT starts at 0, which has no gradients
            layer.reset_parameters()
    return made.eval().cuda()


def set_precision(precision: str) -> None:
    """Strict float32, or TF32 in convolutions and matrix products."""
    kind = "ieee" if precision == "float32" else "tf32"
    cudnn: Any = torch.backends.cudnn
    cudnn.conv.fp32_precision = kind
    torch.backends.cuda.matmul.fp32_precision = kind


def per_row(call: Callable[[], None], rows: int) -> float:
    """Seconds per row of repeated calls."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        count += 3
    return (time.perf_counter() - start) / count / rows


def floor(model: torch.nn.Module, layer: torch.nn.Module, side: int) -> dict[str, dict[int, float]]:
    """Seconds per row by kind of pass and batch size."""
    found: dict[str, dict[int, float]] = {"forward": {}, "backward": {}, "layer": {}}
    for rows in SIZES:
        x = torch.rand(rows, 3, side, side, device="cuda")

        def forward(x: torch.Tensor = x) -> None:
            with torch.no_grad():
                model(x)

        def backward(x: torch.Tensor = x) -> None:
            leaf = x.clone().requires_grad_()
            torch.autograd.grad(model(leaf)[:, 0].sum(), leaf)

        def to_layer(x: torch.Tensor = x) -> None:
            seen: list[torch.Tensor] = []

            def start_here(_module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
                seen.append(output.detach().requires_grad_())
                return seen[0]

            handle = layer.register_forward_hook(start_here)
            torch.autograd.grad(model(x)[:, 0].sum(), seen[0])
            handle.remove()

        model.requires_grad_(True)
        for kind, call in (("forward", forward), ("backward", backward)):
            found[kind][rows] = per_row(call, rows)
        model.requires_grad_(False)
        found["layer"][rows] = per_row(to_layer, rows)
    return found


if __name__ == "__main__":
    name, precision, side = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 224
    set_precision(precision)
    model = network(name)
    seconds = floor(model, dict(model.named_modules())[LAYERS[name]], side)
    best = {kind: min(by_rows.values()) for kind, by_rows in seconds.items()}
    print(json.dumps({"network": name, "precision": precision, "seconds": seconds, "best": best}))
