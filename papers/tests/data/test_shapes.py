from __future__ import annotations

import math

import torch

from veracity_papers.data.shapes import CLASSES, NOISE, shapes


def test_shapes_are_bright_labelled_and_the_same_every_time() -> None:
    images, classes = shapes(40, seed=3)
    assert all(torch.equal(one, other) for one, other in zip((images, classes), shapes(40, seed=3), strict=True))
    assert not torch.equal(images, shapes(40, seed=4)[0])
    assert set(classes.unique().tolist()) == set(range(len(CLASSES)))
    inside = classes > 0
    assert images[:, 0][inside].mean() > 0.6
    assert abs(float(images[:, 0][~inside].mean())) < NOISE / 10


def test_one_shape_per_image_and_areas_of_the_same_range() -> None:
    _, classes = shapes(400)
    assert all(len(set(one.unique().tolist()) - {0}) == 1 for one in classes)
    areas = {kind: [float(one.sum()) for one in (classes == kind) if one.any()] for kind in (1, 2)}
    middle = math.pi * (5.0**3 - 3.0**3) / (3 * 2.0)  # the mean of pi r^2 for r between 3 and 5
    for found in areas.values():
        assert abs(sum(found) / len(found) - middle) < 0.1 * middle
