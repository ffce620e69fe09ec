"""Noise in a ball: uniform, inside, smooth in its latents."""

import math

import pytest
import torch
from scipy.stats import chi2, kstest

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import GROUPS
from veracity.perturb import Ball
from veracity.testing import SpaceConformance


def latents(count, size):
    return Draws.of(0, torch.arange(count)).normal(size, stream="test")


class TestBall(SpaceConformance):
    def space(self):
        return Ball(radius=0.5)

    def inputs(self):
        return torch.arange(6 * 12.0).reshape(6, 3, 4)

    def test_action_is_linear(self):
        """It is not: the same noise is added to whatever is there."""
        space, g, x = self.fitted(), self.draw("g"), self.inputs().double()
        torch.testing.assert_close(space.act(g, x) - x, g.reshape(x.shape), rtol=0, atol=1e-12)
        torch.testing.assert_close(space.act(g, 2 * x) - 2 * x, g.reshape(x.shape), rtol=0, atol=1e-12)

    def test_action_is_differentiable(self):
        space, g, x = self.fitted(), self.draw("g"), self.inputs().requires_grad_()
        weights = torch.rand(x.shape, generator=torch.Generator().manual_seed(0))
        (gradient,) = torch.autograd.grad((weights * space.act(g, x)).sum(), x)
        assert torch.equal(gradient, weights)


class TestRoundBall(TestBall):
    def space(self):
        return Ball(radius=0.5, norm="l2")


def test_box_by_hand():
    """The normal quantiles 0, .6745 (the upper quartile) and far out are the centre, half way and the wall."""
    box = Ball(radius=0.02).fit(torch.Size([3]))
    found = box.decode(torch.tensor([[0.0, 0.674489750196, 40.0]], dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([[0.0, 0.01, 0.02]], dtype=torch.float64), rtol=0, atol=1e-12)


def test_round_ball_by_hand():
    """In two dimensions F(r^2) = 1 - exp(-r^2 / 2), so |u| = 1 lands at radius sqrt(1 - exp(-1/2))."""
    ball = Ball(radius=2.0, norm="l2").fit(torch.Size([2]))
    found = ball.decode(torch.tensor([[0.6, 0.8], [0.0, 0.0]], dtype=torch.float64))
    reach = 2.0 * math.sqrt(1 - math.exp(-0.5))
    torch.testing.assert_close(found, torch.tensor([[0.6 * reach, 0.8 * reach], [0.0, 0.0]], dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_box_is_filled_evenly():
    noise = Ball(radius=0.02).fit(torch.Size([4, 5])).decode(latents(2000, 20))
    assert kstest(noise.flatten().numpy() / 0.04 + 0.5, "uniform").pvalue > 1e-3
    assert float(noise.abs().max()) <= 0.02
    assert float(torch.corrcoef(noise.T).fill_diagonal_(0).abs().max()) < 0.1


@pytest.mark.parametrize("size", [1, 3, 20, 3072])
def test_the_round_ball_is_filled_evenly(size):
    """(|z| / radius)^d is uniform, the direction is that of the latent; F agrees with SciPy's."""
    u = latents(1000, size).double()
    noise = Ball(radius=0.5, norm="l2").fit(torch.Size([size])).decode(u)
    share = (noise.norm(dim=1) / 0.5).pow(size)
    assert kstest(share.numpy(), "uniform").pvalue > 1e-3
    torch.testing.assert_close(share, torch.from_numpy(chi2.cdf(u.square().sum(dim=1).numpy(), size)), rtol=0, atol=1e-8)
    assert float(torch.cosine_similarity(noise, u).min()) > 1 - 1e-12
    assert float(noise.norm(dim=1).max()) <= 0.5


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_decoding_is_smooth(norm):
    ball = Ball(radius=0.5, norm=norm).fit(torch.Size([4]))
    assert torch.autograd.gradcheck(ball.decode, (latents(3, 4).requires_grad_(),))
    assert ball.decode(latents(3, 4).float()).dtype == torch.float32


def test_misuse_is_refused():
    assert "ball" not in set(GROUPS)
    with pytest.raises(SpecError, match=r"^The space 'ball' does not know the inputs' size yet: call fit\(shape\)"):
        _ = Ball().latents
    with pytest.raises(SpecError, match="Did you mean 'linf'"):
        Ball(norm="inf").fit(torch.Size([3]))
    for radius in (0.0, -1.0, math.inf, math.nan, True):
        with pytest.raises(SpecError, match=r"^The setting 'radius' of space 'ball' must be a positive (finite )?number, not"):
            Ball(radius=radius)
    fitted = Ball().fit(torch.Size([2, 2]))
    with pytest.raises(InputError, match=r"made for samples of 4 entries, but one sample has shape \(5,\)"):
        fitted.fit(torch.Size([5]))
    with pytest.raises(
        InputError, match=r"^Inputs of shape \(2, 2, 2\) need noise of shape \(2, 4\), but the space 'ball' got \(2, 3\)\.$"
    ):
        fitted.act(torch.zeros(2, 3), torch.zeros(2, 2, 2))


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_drawn_noise_fills_the_ball_evenly(norm: str) -> None:
    ball = Ball(radius=0.5, norm=norm).fit(torch.Size([2]))
    noise = ball.sample(Draws.of(0, torch.arange(20_000)))
    length = noise.abs().amax(1) if norm == "linf" else noise.norm(dim=1)
    assert length.max() <= 0.5
    share = (length <= 0.25).double().mean()  # a quarter of the area of a square, or of a disc, of half the size
    assert share.item() == pytest.approx(0.25, abs=0.015)
    assert noise.mean(0).abs().max() < 0.01
