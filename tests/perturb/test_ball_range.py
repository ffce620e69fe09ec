"""A ball inside the range of the data: where points land, what is said, what is refused."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.perturb import Ball
from veracity.testing import SpaceConformance

NORMS = ("linf", "l2", "l1")
LENGTHS = {"linf": lambda z: z.abs().amax(1), "l2": lambda z: z.norm(dim=1), "l1": lambda z: z.abs().sum(1)}


class TestDiamond(SpaceConformance):
    """The l1 ball without a range; the tests about linear actions say what holds of added noise instead."""

    def space(self):
        return Ball(radius=0.5, norm="l1")

    def inputs(self):
        return torch.linspace(0, 1, 6 * 12).reshape(6, 3, 4)

    def test_action_is_linear(self):
        space, g, x = self.fitted(), self.draw("g"), self.inputs().double()
        torch.testing.assert_close(space.act(g, 2 * x) - 2 * x, space.act(g, x) - x, rtol=0, atol=1e-12)

    def test_action_is_differentiable(self):
        space, g, x = self.fitted(), self.draw("g"), self.inputs().double().requires_grad_()
        assert torch.autograd.gradcheck(lambda value: space.act(g, value), (x,))


class TestBoxInRange(TestDiamond):
    def space(self):
        return Ball(radius=0.4, range=(0.0, 1.0))

    def test_action_is_linear(self):
        """It is not; but it lies in the box, and mirrored inputs and elements give mirrored points."""
        space, g, x = self.fitted(), self.draw("g"), self.inputs().double()
        torch.testing.assert_close(space.act(-g, 1 - x), 1 - space.act(g, x), rtol=0, atol=1e-12)


class TestRoundBallInRange(TestBoxInRange):
    def space(self):
        return Ball(radius=0.4, norm="l2", range=(0.0, 1.0))


class TestDiamondInRange(TestBoxInRange):
    def space(self):
        return Ball(radius=0.4, norm="l1", range=(0.0, 1.0))


def test_by_hand():
    """Entries 0, .5 and .95 with radius .1 in [0, 1] may go to [0, .1], [.4, .6] and [.85, 1]."""
    x = torch.tensor([[0.0, 0.5, 0.95]] * 3, dtype=torch.float64)
    z = torch.tensor([[-0.1, -0.1, -0.1], [0.0, 0.0, 0.0], [0.1, 0.05, 0.1]], dtype=torch.float64)
    box = Ball(radius=0.1, range=(0.0, 1.0)).fit(torch.Size([3]))
    expected = torch.tensor([[0.0, 0.4, 0.85], [0.05, 0.5, 0.925], [0.1, 0.55, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(box.act(z, x), expected, rtol=0, atol=1e-12)
    for norm in ("l2", "l1"):
        clamped = torch.tensor([[0.0, 0.4, 0.85], [0.0, 0.5, 0.95], [0.1, 0.55, 1.0]], dtype=torch.float64)
        torch.testing.assert_close(Ball(radius=0.1, norm=norm, range=(0.0, 1.0)).act(z, x), clamped, rtol=0, atol=1e-12)


def test_the_box_in_range_is_filled_evenly():
    """Every entry is uniform between lo and hi, at a wall of the range, near one and far from one."""
    x = torch.tensor([-1.0, -0.95, 0.0, 0.7, 1.0], dtype=torch.float64)
    low, high = (x - 0.3).clamp(min=-1), (x + 0.3).clamp(max=1)
    ball = Ball(radius=0.3, range=(-1.0, 1.0)).fit(torch.Size([5]))
    draws = Draws.of(0, torch.arange(4000))
    for elements in (ball.sample(draws), ball.decode(draws.normal(5, stream="test"))):
        share = (ball.act(elements, x.expand(4000, 5)) - low) / (high - low)
        for entry in range(5):
            assert kstest(share[:, entry].numpy(), "uniform").pvalue > 1e-3
        assert float(torch.corrcoef(share.T).fill_diagonal_(0).abs().max()) < 0.06


def test_a_range_far_away_changes_nothing():
    x = torch.rand(7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for norm in NORMS:
        free, wide = (Ball(radius=0.3, norm=norm, range=span).fit(torch.Size([6])) for span in (None, (-9.0, 9.0)))
        z = free.sample(Draws.of(0, torch.arange(7)))
        assert torch.equal(z, wide.sample(Draws.of(0, torch.arange(7))))
        torch.testing.assert_close(wide.act(z, x), free.act(z, x), rtol=0, atol=1e-14)
        torch.testing.assert_close(wide.project(x + 3 * z, x), free.project(x + 3 * z, x), rtol=0, atol=1e-14)


@pytest.mark.parametrize("norm", NORMS)
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 9),
    radius=st.floats(1e-3, 3.0),
    span=st.tuples(st.floats(-2, 2), st.floats(0.01, 3)),
    stretch=st.sampled_from([0.0, 1.0, 8.0, 60.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_points_stay_in_ball_and_range(norm, seed, size, radius, span, stretch, dtype):
    """Moved and projected points, with inputs on the walls too, and however long the latents."""
    low, high = span[0], span[0] + span[1]
    ball, generator = Ball(radius=radius, norm=norm, range=(low, high)).fit(torch.Size([size])), torch.Generator().manual_seed(seed)
    x = (torch.rand(5, size, generator=generator) * 1.5 - 0.25).clamp(0, 1).to(dtype).mul(high - low).add(low).clamp(low, high)
    ball.check(x)
    latent = stretch * torch.randn(5, ball.latents, generator=generator, dtype=dtype)
    points = x + 4 * radius * torch.randn(5, size, generator=generator, dtype=dtype)
    slack = 20 * torch.finfo(dtype).eps * (1 + abs(low) + abs(high)) * size
    for found in (ball.act(ball.decode(latent), x), ball.project(points, x)):
        ball.check(found)
        assert float(LENGTHS[norm]((found - x).double()).max()) <= radius + slack


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), radius=st.floats(0.01, 1.5))
def test_the_projection_onto_the_box_in_range_is_the_nearest_point(seed, radius):
    """Entry by entry the nearest of a fine grid between lo and hi."""
    generator = torch.Generator().manual_seed(seed)
    x, points = torch.rand(3, 4, generator=generator).double(), 3 * torch.randn(3, 4, generator=generator).double()
    found = Ball(radius=radius, range=(0.0, 1.0)).project(points, x)
    low, high = (x - radius).clamp(min=0), (x + radius).clamp(max=1)
    grid = low[..., None] + (high - low)[..., None] * torch.linspace(0, 1, 2001, dtype=torch.float64)
    nearest = grid.gather(-1, (grid - points[..., None]).abs().argmin(-1, keepdim=True))[..., 0]
    torch.testing.assert_close(found, nearest, rtol=0, atol=1e-3)
    assert bool(((found - points).abs() <= (nearest - points).abs() + 1e-12).all())


@pytest.mark.parametrize("norm", NORMS)
def test_projection_of_pictures(norm):
    """Any shape, one ball a row, and the caller's tensors stay as they were."""
    generator = torch.Generator().manual_seed(0)
    x, points = torch.rand(5, 2, 3, 4, generator=generator), torch.rand(5, 2, 3, 4, generator=generator)
    kept = x.clone(), points.clone()
    ball = Ball(radius=0.2, norm=norm, range=(0.0, 1.0)).fit(x.shape[1:])
    found = ball.project(points, x)
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    assert torch.equal(found, torch.cat([ball.project(points[[row]], x[[row]]) for row in range(5)]))
    assert torch.equal(x, kept[0])
    assert torch.equal(points, kept[1])
    torch.testing.assert_close(ball.project(x, x), x)
    with pytest.raises(
        InputError, match=r"^Points of shape \(4, 2, 3, 4\) cannot be projected onto balls around inputs of shape \(5, 2, 3, 4\)\.$"
    ):
        ball.project(points[:4], x)


@pytest.mark.parametrize("norm", NORMS)
def test_slopes_reach_the_latents(norm):
    """Through act and decode, for inputs on both walls and between; nothing depends on another sample's latents."""
    x = torch.tensor([[0.0, 0.5, 1.0, 0.98]] * 3, dtype=torch.float64)
    ball = Ball(radius=0.1, norm=norm, range=(0.0, 1.0)).fit(torch.Size([4]))
    u = Draws.of(3, torch.arange(3)).normal(ball.latents, stream="test").requires_grad_()
    assert torch.autograd.gradcheck(lambda latent: ball.act(ball.decode(latent), x), (u,))
    (slope,) = torch.autograd.grad(ball.act(ball.decode(u), x)[1].sum(), u)
    assert bool((slope[1] != 0).any())
    assert not bool(slope[[0, 2]].any())


def test_the_caveat_is_said_where_points_are_clamped():
    assert [Ball(norm=norm).caveat for norm in NORMS] == [None] * 3
    assert Ball(range=(0.0, 1.0)).caveat is None
    for norm in ("l2", "l1"):
        said = Ball(norm=norm, range="data").caveat
        assert said == Ball(norm=norm, range="data").within(0.0, 1.0).caveat
        assert said.startswith(f"Points are drawn uniformly in the {norm} ball and then clamped to the data range")
        assert said.endswith(".")


def test_the_range_of_the_data():
    waiting = Ball(radius=0.1, range="data").fit(torch.Size([2]))
    assert waiting.range == "data"
    for use in (lambda: waiting.act(torch.zeros(1, 2), torch.zeros(1, 2)), lambda: waiting.check(torch.zeros(1, 2))):
        with pytest.raises(SpecError, match=r"^The ball does not know the range of the data yet: call within\(low, high\)"):
            use()
    known = waiting.within(-1, 2)
    assert known == Ball(radius=0.1, range=(-1.0, 2.0), size=2) == known.within(5.0, 6.0)
    assert json.loads(json.dumps(known.spec()))["range"] == [-1.0, 2.0]
    assert Ball().within(0.0, 1.0) == Ball()
    assert Ball(range=[0, 1]).fit(torch.Size([2])).range == (0.0, 1.0)
    for low, high in ((3.0, 3.0), (math.nan, 1.0), (0.0, math.inf)):
        with pytest.raises(InputError, match=r"^The inputs go from \S+ to \S+, which is no range for a ball: give it one"):
            waiting.within(low, high)


@pytest.mark.parametrize(
    "span", [(1.0, 0.0), (0.0, 0.0), (0.0, math.inf), (math.nan, 1.0), (0.0,), (0.0, 1.0, 2.0), "dat", 3.0, (False, True)]
)
def test_a_wrong_range_is_refused(span):
    with pytest.raises(
        SpecError,
        match=r'^The range of a ball must be "data" or two finite numbers, the lower first|must be a list of 2 numbers, text or None',
    ):
        Ball(range=span).fit(torch.Size([3]))


@pytest.mark.parametrize("norm", NORMS)
def test_data_outside_the_range_are_refused(norm):
    ball = Ball(norm=norm, range=(0.0, 1.0)).fit(torch.Size([2]))
    ball.check(torch.tensor([[0.0, 1.0], [0.5, 0.5]]))
    with pytest.raises(InputError, match=r"^2 of 3 samples leave the ball's range, 0 to 1: values go from -0\.5 to 255, so scale the"):
        ball.check(torch.tensor([[0.0, 255.0], [0.5, 0.5], [-0.5, 0.0]]))
    with pytest.raises(InputError, match=r"^1 of 1 samples .* values go from 0 to 1\.00000012, so"):
        ball.check(torch.tensor([[0.0, 1.0000001]]))
    Ball(norm=norm).check(torch.tensor([[0.0, 255.0]]))


def test_single_numbers_at_the_end_of_a_range_are_inside():
    """0.3 in single precision is above 0.3 in double, and still the end of the range."""
    x = torch.tensor([[0.3, 0.1]])
    ball = Ball(radius=0.1, range=(0.1, 0.3)).fit(torch.Size([2]))
    ball.check(x)
    ball.check(ball.act(torch.tensor([[0.1, -0.1]]), x))
