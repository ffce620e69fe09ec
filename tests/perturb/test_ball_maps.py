"""The maps from Gaussian latents: uniform in the ball of each norm, smooth from the centre to the wall, in any precision."""

import math

import pytest
import torch
from scipy.special import gammaln
from scipy.stats import beta, kstest
from scipy.stats import norm as gaussian

from veracity.core.randomness import Draws
from veracity.perturb import Ball

NORMS = ("linf", "l2", "l1")
LENGTHS = {"linf": lambda z: z.abs().amax(1), "l2": lambda z: z.norm(dim=1), "l1": lambda z: z.abs().sum(1)}


def fitted(norm, size, radius=0.5):
    return Ball(radius=radius, norm=norm).fit(torch.Size([size]))


def drawn(ball, count, stream="test"):
    return Draws.of(0, torch.arange(count)).normal(ball.latents, stream=stream)


def slow_l1(u, radius):
    """One number at a time, by the quantiles of the Laplace and the exponential distribution at Phi(u)."""
    rows = []
    for row in u.tolist():
        shares = [gaussian.cdf(value) for value in row]
        y = [math.log(2 * p) if p < 0.5 else -math.log(2 * (1 - p)) for p in shares[:-1]]
        total = sum(map(abs, y)) - math.log(shares[-1])
        rows.append([radius * value / total for value in y])
    return torch.tensor(rows, dtype=torch.float64)


def test_l1_by_hand():
    """At the quartiles y = -ln 2 and ln 2, and the last latent 0 makes E = ln 2: each is a third of the way out."""
    ball, quartile = fitted("l1", 2, radius=3.0), 0.6744897501960817
    found = ball.decode(torch.tensor([[-quartile, quartile, 0.0], [0.0, quartile, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([[-1.0, 1.0], [0.0, 1.5]], dtype=torch.float64), rtol=0, atol=1e-12)


def test_l1_takes_one_latent_more():
    assert [fitted(norm, 12).latents for norm in NORMS] == [12, 12, 13]
    assert fitted("l1", 12).sample(Draws.of(0, torch.arange(4))).shape == (4, 12)


def test_l1_agrees_with_quantiles_one_at_a_time():
    ball = fitted("l1", 5)
    u = drawn(ball, 40)
    torch.testing.assert_close(ball.decode(u), slow_l1(u, 0.5), rtol=0, atol=1e-13)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_lengths_are_those_of_uniform_points(norm, size):
    """P(|z| <= t radius) = t^d, by decoding and as drawn."""
    ball = fitted(norm, size)
    for noise in (ball.decode(drawn(ball, 2000)), ball.sample(Draws.of(1, torch.arange(2000)))):
        share = LENGTHS[norm](noise) / 0.5
        assert float(share.max()) <= 1 + 1e-12
        assert kstest(share.pow(size).numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("size", [1, 3, 30])
@pytest.mark.parametrize("norm", NORMS)
def test_entries_have_the_exact_marginals(norm, size):
    """t = z_i / radius: uniform; (1 + t) / 2 ~ Beta((d + 1) / 2, (d + 1) / 2); |t| ~ Beta(1, d). First, last, and mean products."""
    ball = fitted(norm, size)
    t = ball.decode(drawn(ball, 4000)) / 0.5
    law = {"linf": beta(1, 1), "l2": beta((size + 1) / 2, (size + 1) / 2), "l1": beta(1, size)}[norm]
    for entry in {0, size - 1}:
        value = t[:, entry].abs() if norm == "l1" else (1 + t[:, entry]) / 2
        assert kstest(value.numpy(), law.cdf).pvalue > 1e-3
        assert float((t[:, entry] > 0).double().mean()) == pytest.approx(0.5, abs=0.03)
    square = {"linf": 1 / 3, "l2": 1 / (size + 2), "l1": 2 / ((size + 1) * (size + 2))}[norm]
    moments = t.T @ t / len(t) / square
    assert float((moments - torch.eye(size)).abs().max()) < (0.3 if norm == "l1" else 0.12)
    assert float(moments.diagonal().mean()) == pytest.approx(1.0, abs=0.05)


def test_each_direction_of_the_l1_ball_is_as_likely():
    """A quarter of the square |a| + |b| <= 1 lies where |a| + |b| <= 1/2, and half of that where |a| < |b|."""
    z = fitted("l1", 2, radius=1.0).sample(Draws.of(0, torch.arange(20_000)))
    inner = z.abs().sum(1) <= 0.5
    assert float(inner.double().mean()) == pytest.approx(0.25, abs=0.012)
    assert float((inner & (z[:, 0].abs() < z[:, 1].abs())).double().mean()) == pytest.approx(0.125, abs=0.01)
    assert float((inner & (z > 0).all(1)).double().mean()) == pytest.approx(1 / 16, abs=0.008)


@pytest.mark.parametrize("norm", NORMS)
def test_single_precision_agrees_with_double(norm):
    ball = fitted(norm, 784)
    u = torch.cat((drawn(ball, 20), torch.linspace(-8, 8, 17, dtype=torch.float64)[:, None].expand(-1, ball.latents))).float()
    found = ball.decode(u)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), ball.decode(u.double()), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 784, 3072])
@pytest.mark.parametrize("norm", NORMS)
def test_slopes_are_finite_from_the_centre_to_far_out(norm, size, dtype):
    ball = fitted(norm, size)
    levels = torch.tensor([0.0, 1e-30, 1e-8, 0.1, 0.5, 0.72, 0.9, 1.0, 1.2, 4.0, 8.0, -8.0, 40.0], dtype=dtype)
    u = levels[:, None].repeat(1, ball.latents).requires_grad_()
    z = ball.decode(u)
    assert bool(z.isfinite().all())
    assert float(LENGTHS[norm](z.detach().double()).max()) <= 0.5 * (1 + 1e-5)
    weights = torch.linspace(-1, 2, size, dtype=dtype)
    (slope,) = torch.autograd.grad((ball.act(z, torch.zeros(len(z), size, dtype=dtype)) * weights).sum(), u)
    assert bool(slope.isfinite().all())


@pytest.mark.parametrize("size", [1, 3, 784, 150_528])
def test_slopes_at_the_centre(size):
    """dz_1/du_1 at u = 0: radius sqrt(2 / pi); radius / (sqrt 2 Gamma(d/2 + 1)^(1/d)); radius sqrt(2 / pi) / ln 2."""
    expected = {
        "linf": math.sqrt(2 / math.pi),
        "l2": math.exp(-gammaln(size / 2 + 1) / size) / math.sqrt(2),
        "l1": math.sqrt(2 / math.pi) / math.log(2),
    }
    for norm, value in expected.items():
        ball = fitted(norm, size)
        u = torch.zeros(1, ball.latents, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(ball.decode(u)[0, 0], u)
        assert float(slope[0, 0]) == pytest.approx(0.5 * value, rel=1e-10)
        assert float(slope[0, 1:].abs().sum()) == 0.0


def slow_reach(size, length):
    """F(|u|^2)^(1/d), by the series P(a, s) = s^a exp(-s) / Gamma(a + 1) (1 + s / (a + 1) + s^2 / ((a + 1)(a + 2)) + ...), term by term."""
    a, s = size / 2, length**2 / 2
    term, total, count = 1.0, 1.0, 0
    while term > 1e-18 * total:
        count += 1
        term *= s / (a + count)
        total += term
    return math.exp((2 * a * math.log(length) - a * math.log(2) - s - gammaln(a + 1) + math.log(total)) / size)


@pytest.mark.parametrize("size", [1, 4, 50, 784, 3072])
def test_short_latents_land_where_the_series_says(size):
    """On both sides of where the map changes to its own short series, which errs by 1e-8 at most."""
    ball = fitted("l2", size)
    shares = [1e-120, 1e-99, 1e-40, 1e-20, 1e-5, *(0.02 * step for step in range(1, 60))]
    lengths = torch.tensor(shares, dtype=torch.float64) * math.sqrt(size)
    direction = torch.ones(1, size, dtype=torch.float64) / math.sqrt(size)
    found = ball.decode(lengths[:, None] * direction)[:, 0] * math.sqrt(size)
    expected = torch.tensor([0.5 * slow_reach(size, length) for length in lengths.tolist()], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=2e-8, atol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_slopes_agree_with_finite_differences(norm):
    ball = fitted(norm, 4)
    assert torch.autograd.gradcheck(ball.decode, (drawn(ball, 3).requires_grad_(),))


def test_laplace_tails_do_not_overflow():
    """Far out |y| = u^2 / 2 + ln(u) + ln(sqrt(2 pi) / 2) + O(u^-2): at 8 single numbers still know it, where 1 - Phi(8) is zero."""
    ball = fitted("l1", 1, radius=1.0)
    found = ball.decode(torch.tensor([[8.0, 0.0]]))
    y = 32 + math.log(8) + math.log(math.sqrt(2 * math.pi) / 2) + 1 / 64
    assert float(found) == pytest.approx(y / (y + math.log(2)), abs=1e-5)
