"""Noise added to inputs: Gaussian along a path, and uniform."""

import math

import pytest
import torch
from scipy.stats import kstest
from torch import Size

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.perturb import Ball, GaussianNoise, UniformNoise
from veracity.testing import SpaceConformance
from veracity.walk import MonteCarlo


class NoiseConformance(SpaceConformance):
    def inputs(self):
        return torch.arange(6 * 12.0).reshape(6, 3, 4)

    def draw(self, purpose):
        space = self.fitted()
        return space.at(super().draw(purpose), torch.arange(6) % space.levels)

    def test_action_is_linear(self):
        """It is not: the same noise is added to whatever is there."""
        space, g, x = self.fitted(), self.draw("g"), self.inputs().double()
        torch.testing.assert_close(space.act(g, 2 * x) - 2 * x, g.reshape(x.shape), rtol=0, atol=1e-12)

    def test_action_is_differentiable(self):
        space, g, x = self.fitted(), self.draw("g"), self.inputs().requires_grad_()
        weights = torch.rand(x.shape, generator=torch.Generator().manual_seed(0))
        (gradient,) = torch.autograd.grad((weights * space.act(g, x)).sum(), x)
        assert torch.equal(gradient, weights)


class TestGaussianNoise(NoiseConformance):
    def space(self):
        return GaussianNoise(sigma=0.5)


class TestIndependentNoise(NoiseConformance):
    def space(self):
        return GaussianNoise(sigma=0.5, levels=3, independent=True)


class TestUniformNoise(NoiseConformance):
    def space(self):
        return UniformNoise(low=-1.0, high=3.0)


def latents(count, size):
    return Draws.of(0, torch.arange(count)).normal(size, stream="test")


def walked(space, samples=3, draws=2):
    """Noise (samples, draws, levels, d) as a walk visits it."""
    walker = MonteCarlo(draws=draws).start(space, torch.arange(samples), 0, (0.0, 1.0))
    found = torch.full((samples, draws, space.levels, space.size), math.nan, dtype=torch.float64)
    while (ask := walker.ask()) is not None:
        found[ask.row, ask.draw, ask.level] = ask.element.double()
    return found


def test_levels_by_hand():
    """sigma .6 in three levels: .2, .4 and .6 times the direction; drawn elements are the last level."""
    space = GaussianNoise(sigma=0.6, levels=3).fit(Size([2]))
    eta = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    drawn = space.decode(eta)
    torch.testing.assert_close(drawn, 0.6 * eta)
    found = torch.cat([space.at(drawn, torch.tensor([level])) for level in range(3)])
    torch.testing.assert_close(found, torch.tensor([[0.2, -0.4], [0.4, -0.8], [0.6, -1.2]], dtype=torch.float64))
    x = torch.tensor([[10.0, 20.0]])
    assert torch.equal(space.act(found[:1], x), torch.tensor([[10.2, 19.6]]))


def test_one_direction_for_all_levels():
    noise = walked(GaussianNoise(sigma=2.0, levels=5).fit(Size([2, 2])))
    shares = torch.arange(1, 6, dtype=torch.float64) / 5
    torch.testing.assert_close(noise, noise[:, :, -1:] * shares[:, None], rtol=1e-12, atol=0)
    assert len({tuple(row) for row in noise[:, :, -1].reshape(6, 4).tolist()}) == 6


def test_independent_levels_have_their_own_noise():
    space = GaussianNoise(sigma=2.0, levels=4, independent=True).fit(Size([500]))
    assert space.latents == 2000
    noise = walked(space)
    assert float(torch.corrcoef(noise.reshape(24, 500)).fill_diagonal_(0).abs().max()) < 0.25
    spread = noise.std(dim=3) / torch.arange(1, 5)
    torch.testing.assert_close(spread, torch.full_like(spread, 0.5), rtol=0.12, atol=0)


def test_gaussian_noise_is_gaussian():
    noise = GaussianNoise(sigma=0.3).fit(Size([20])).decode(latents(2000, 20))
    assert kstest(noise.flatten().numpy() / 0.3, "norm").pvalue > 1e-3


def test_uniform_noise_is_uniform():
    noise = UniformNoise(low=-1.0, high=3.0).fit(Size([20])).decode(latents(2000, 20))
    assert kstest((noise.flatten().numpy() + 1) / 4, "uniform").pvalue > 1e-3
    assert float(noise.min()) >= -1
    assert float(noise.max()) <= 3


def test_a_radius_is_the_box():
    u = latents(10, 6)
    assert torch.equal(UniformNoise(radius=0.2).fit(Size([6])).decode(u), Ball(radius=0.2).fit(Size([6])).decode(u))


def test_calibration():
    waiting = GaussianNoise(sigma=None, levels=10, independent=True).fit(Size([3]))
    end = waiting.endpoint(0.7)
    assert end == GaussianNoise(sigma=0.7).fit(Size([3]))
    assert waiting.with_strength(0.7) == GaussianNoise(sigma=0.7, levels=10, independent=True).fit(Size([3]))
    assert end.endpoint(1.0) is None
    for impossible in (lambda: waiting.decode(torch.zeros(1, 30)), lambda: waiting.act(torch.zeros(1, 3), torch.zeros(1, 3))):
        with pytest.raises(SpecError, match=r"^The space 'gaussian_noise' has no sigma yet: give it one, such as sigma=0\.1, or calibrate"):
            impossible()


def test_misuse_is_refused():
    with pytest.raises(SpecError, match=r"^The space 'gaussian_noise' does not know the inputs' size yet: call fit\(shape\)"):
        _ = GaussianNoise(sigma=1.0).latents
    for sigma in (0.0, -1.0, math.inf, math.nan, True, "1"):
        with pytest.raises(SpecError, match=r"must be a positive (finite )?number or None, not"):
            GaussianNoise(sigma=sigma).fit(Size([3]))
    for levels in (0, 1.5, True):
        with pytest.raises(SpecError, match=r"^The setting 'levels' of space 'gaussian_noise' must be a whole number of at least 1, not"):
            GaussianNoise(sigma=1.0, levels=levels).fit(Size([3]))
    for settings in ({}, {"low": 1.0, "high": 1.0}, {"low": 0.0}, {"radius": 1.0, "low": 0.0}, {"low": -math.inf, "high": 0.0}):
        with pytest.raises(SpecError, match=r"needs a radius, or low below high, not|must be a finite number or None"):
            UniformNoise(**settings).fit(Size([3]))
    with pytest.raises(SpecError, match="'radius' of space 'uniform_noise' must be a positive number"):
        UniformNoise(radius=-1.0).fit(Size([3]))
    fitted = UniformNoise(radius=1.0).fit(Size([2, 2]))
    with pytest.raises(InputError, match=r"made for samples of 4 entries, but one sample has shape \(5,\)"):
        fitted.fit(Size([5]))
    with pytest.raises(InputError, match=r"need noise of shape \(2, 4\), but the space 'uniform_noise' got \(2, 3\)\.$"):
        fitted.act(torch.zeros(2, 3), torch.zeros(2, 2, 2))
