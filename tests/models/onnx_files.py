"""Small networks as ONNX files."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import nn


def small_network(inputs: int = 4, outputs: int = 3) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network: nn.Module = nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs)).eval()
    return network


def export(network: nn.Module, path: Path, shape: tuple[int, ...] = (1, 4), dynamic: bool = True) -> Path:
    axes = {"x": {0: "batch"}} if dynamic else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (torch.zeros(shape),), path, input_names=["x"], dynamic_axes=axes, dynamo=False)
    return path
