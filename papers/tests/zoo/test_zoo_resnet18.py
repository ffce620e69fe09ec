from __future__ import annotations

import pytest
import torch
from torch import Size, nn

from veracity.core.registry import TRAINERS
from veracity.trainers.training import random_shift
from veracity_papers.zoo.resnet18 import LAYER, resnet18


def test_resnet18_has_18_layers_and_the_known_size() -> None:
    model = resnet18(Size((3, 32, 32)), 10, width=64)
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_173_962
    deep = [part for name, part in model.named_modules() if isinstance(part, (nn.Conv2d, nn.Linear)) and "shortcut" not in name]
    assert len(deep) == 18
    assert [part.out_channels for part in deep[:-1:4] if isinstance(part, nn.Conv2d)] == [64, 64, 128, 256, 512]
    seen: list[torch.Tensor] = []
    small = resnet18(Size((1, 28, 28)), 10, width=4).eval()
    small.get_submodule(LAYER).register_forward_hook(lambda module, given, output: seen.append(output))
    small(torch.zeros(2, 1, 28, 28))
    assert seen[0].shape == (2, 32, 4, 4)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (2, 9, 17)])
def test_resnet18_takes_images_of_many_sizes(shape: tuple[int, ...]) -> None:
    inputs = torch.rand(8, *shape)
    labels = torch.arange(8) % 4
    trainer = TRAINERS.build({"name": "resnet18", "width": 2, "epochs": 1, "augment": random_shift(1), "validation": 0.0})
    assert trainer(inputs, labels, 0)(inputs).shape == (8, 4)
