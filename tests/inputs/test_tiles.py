"""Mosaics of images, and where the explained class is in them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from veracity import Audit
from veracity.core.errors import InputError
from veracity.inputs import mosaics
from veracity.inputs.tiles import tile_masks


def test_tiles_are_the_images_and_masks_the_tiles_of_the_class() -> None:
    x = torch.rand(9, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 3])
    made = mosaics(x, y, per_class=5, seed=1)
    assert made.inputs.shape == (15, 2, 6, 8)  # class 3 has one image
    assert made.targets.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    for i in range(15):
        corners = [(slice(a, a + 3), slice(b, b + 4)) for a in (0, 3) for b in (0, 4)]
        for tile, (rows, columns) in enumerate(corners):
            source = int(made.sources[i, tile])
            assert torch.equal(made.inputs[i][:, rows, columns], x[source])
            assert bool((made.truth[i][rows, columns] == (y[source] == made.targets[i])).all())
        assert len(set(made.sources[i].tolist())) == 4
        assert int(made.truth[i].sum()) == 24
    assert torch.equal(mosaics(x, y, per_class=5, seed=1).inputs, made.inputs)
    assert not torch.equal(mosaics(x, y, per_class=5, seed=2).sources, made.sources)
    assert len({tuple(one) for one in (made.truth[:, ::3, ::4].flatten(1)).tolist()}) > 1


def test_focus_of_a_mosaic(tmp_path: Path) -> None:
    x = torch.zeros(8, 2, 2, 2)
    y = torch.arange(8) % 2
    x[torch.arange(8), y] = 1.0  # the class is the colour
    made = mosaics(x, y, per_class=3)

    class Colour(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.sum((2, 3))

    audit = Audit(
        models=Colour().eval(),
        inputs=made.inputs,
        targets=made.targets,
        target="label",
        truth=made.truth,
        explainers=["input_x_gradient"],
        scores=["focus"],
    )
    value = audit.run(tmp_path, progress=False).table().set_index("explainer")["value"]
    assert value["input_x_gradient"] == 1.0
    assert 0.3 < value["random_uniform"] < 0.7


def test_what_cannot_be_a_mosaic_is_told() -> None:
    x = torch.zeros(4, 1, 2, 2)
    with pytest.raises(InputError, match=r"not 3 labels and images of shape \(4, 1, 2, 2\)"):
        mosaics(x, [0, 1, 2])
    with pytest.raises(InputError, match="two images of a class and two of other classes"):
        mosaics(x, [0, 0, 0, 0])
    with pytest.raises(InputError, match="per_class, a whole number of at least 1, not 0"):
        mosaics(x, [0, 0, 1, 1], per_class=0)
    with pytest.raises(InputError, match=r"four numbers per sample, not the shape \(2, 3\)"):
        tile_masks(torch.zeros(2, 3), 4, 4)
