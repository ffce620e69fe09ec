"""Masks and noise of tables: a feature is masked as one, values come from their own column, noise is measured in column scales."""

from __future__ import annotations

import pytest
import torch
from torch import Size

from veracity.core.errors import InputError, SpecError
from veracity.core.features import Features
from veracity.core.randomness import Draws
from veracity.perturb import Ball, FullMask, GaussianNoise, OrderedMasks, RandomMasks, RandomOrderMasks, UniformNoise

BACKGROUND = torch.tensor([[10.0, 0.0, 1.0, 0.1], [20.0, 0.0, 1.0, 0.3], [60.0, 1.0, 0.0, 0.2]])
TABLE = Features.measured(BACKGROUND, names=["age", "job", "share"], groups=torch.tensor([0, 1, 1, 2]))
X = torch.tensor([[15.0, 1.0, 0.0, 0.4], [70.0, 0.0, 1.0, 0.0]])


def test_masked_values_come_from_their_own_column() -> None:
    masks = FullMask(baseline="reference").fit(Size([4])).over(TABLE)
    torch.testing.assert_close(masks.act(torch.ones(2, 1, dtype=torch.bool), X), torch.tensor([[30.0, 0.0, 1.0, 0.2]]).expand(2, 4))
    median = FullMask(baseline="median").fit(Size([4])).over(TABLE)
    torch.testing.assert_close(median.act(torch.ones(2, 1, dtype=torch.bool), X)[0], torch.tensor([20.0, 0.0, 1.0, 0.2]))
    black = FullMask(baseline="black").fit(Size([4])).over(TABLE)
    assert black.act(torch.ones(2, 1, dtype=torch.bool), X)[0].tolist() == [0.0] * 4, "what the user asks for by name stays"


@pytest.mark.parametrize("space", [RandomMasks(size=1), RandomMasks(size=0.6), RandomOrderMasks()])
def test_a_feature_is_masked_as_one(space: RandomMasks | RandomOrderMasks) -> None:
    bound = space.fit(Size([4])).over(TABLE)
    assert bound.units == 3
    elements = bound.at(bound.sample(Draws.of(0, torch.arange(40))), torch.zeros(40, dtype=torch.long))
    masks = bound.spread(elements)
    assert torch.equal(masks[:, 1], masks[:, 2])
    assert 0 < int(masks[:, 1].sum()) < 40


def test_the_order_is_that_of_sums_over_features() -> None:
    """The columns of 'job' have 3 and 3, together more than the 5 of 'age'."""
    masks = OrderedMasks(features=1, baseline="reference").fit(Size([4])).over(TABLE)
    guide = masks.guide(X[:1], torch.tensor([[5.0, 3.0, 3.0, 1.0]]))
    first = masks.steer(masks.at(masks.enumerate(), torch.tensor([0])), guide)
    assert masks.levels == 3
    assert first.tolist() == [[False, True, True, False]]


def test_a_space_without_a_table_is_what_it_was() -> None:
    assert "groups" not in RandomMasks(size=1).spec()
    assert "scales" not in GaussianNoise(sigma=0.1).spec()
    bound = RandomMasks(size=1, baseline="reference").fit(Size([4])).over(TABLE)
    assert bound.spec()["groups"] is not None
    assert bound.spec()["baseline"] != "reference"


@pytest.mark.parametrize("space", [GaussianNoise(sigma=0.5), UniformNoise(radius=0.5), Ball(radius=0.5), Ball(radius=0.5, norm="l2")])
def test_noise_is_measured_in_column_scales_and_leaves_categories_alone(space: GaussianNoise | UniformNoise | Ball) -> None:
    plain, bound = space.fit(Size([4])), space.fit(Size([4])).over(TABLE)
    elements = plain.sample(Draws.of(0, torch.arange(2)))
    moved = bound.act(elements, X) - X
    torch.testing.assert_close(moved, (plain.act(elements, torch.zeros_like(X))) * TABLE.scales, rtol=1e-4, atol=1e-5)
    assert moved[:, 1:3].abs().max() == 0.0
    assert moved[:, 0].abs().min() > 0.0


def test_columns_without_names_keep_their_noise() -> None:
    assert GaussianNoise(sigma=0.1).fit(Size([4])).over(Features.measured(BACKGROUND)).scales is None


def test_projection_is_onto_the_scaled_ball() -> None:
    ball = Ball(radius=1.0).fit(Size([4])).over(TABLE)
    far = X + 1000.0
    torch.testing.assert_close(ball.project(far, X), X + TABLE.scales)
    near = X + 0.5 * TABLE.scales
    torch.testing.assert_close(ball.project(near, X), near)


def test_mistakes_are_told() -> None:
    with pytest.raises(InputError, match=r"do not fit a sample of 3"):
        RandomMasks(size=4).fit(Size([4])).over(TABLE)
    with pytest.raises(SpecError, match="'reference' is known for tables only"):
        FullMask(baseline="reference").fit(Size([4])).act(torch.ones(2, 1, dtype=torch.bool), X)
    with pytest.raises(InputError, match=r"has shape \(3,\), but one sample has shape \(4,\)"):
        FullMask(baseline=torch.zeros(3)).fit(Size([4]))
