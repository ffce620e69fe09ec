"""Balls around the input: uniform noise in a ball, and the projection onto a ball."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.randomness import Draws
from veracity.core.registry import SPACES
from veracity.core.settings import Positive, short_repr
from veracity.core.spaces import RangedSpace
from veracity.perturb.noise import AddedNoise, uniform_noise


def onto_linf(z: Tensor, radius: float) -> Tensor:
    """The nearest point of the cube |z_i| <= radius: every entry is clamped. From (N, d) to (N, d).

    >>> onto_linf(torch.tensor([[3.0, -0.5]]), 1.0)
    tensor([[ 1.0000, -0.5000]])
    """
    return z.clamp(-radius, radius)


def onto_l2(z: Tensor, radius: float) -> Tensor:
    """The nearest point of the ball |z|_2 <= radius: z min(1, radius / |z|). From (N, d) to (N, d).

    >>> onto_l2(torch.tensor([[3.0, 4.0]]), 1.0)
    tensor([[0.6000, 0.8000]])
    """
    scale: Tensor = radius / z.norm(dim=1, keepdim=True).clamp(min=radius)
    return z * scale


def onto_l1(z: Tensor, radius: float) -> Tensor:
    """The nearest point, in the Euclidean distance, of the ball sum |z_i| <= radius. From (N, d) to (N, d).

    Every entry shrinks by the same t >= 0 and stops at zero: sign(z_i) max(|z_i| - t, 0). With the sizes in falling order
    s_1 >= s_2 >= ... and t_k = (s_1 + ... + s_k - radius) / k, it is t = t_k for the last k with s_k > t_k (Duchi et al.,
    Efficient projections onto the l1-ball for learning in high dimensions, ICML 2008, figure 1).

    >>> onto_l1(torch.tensor([[3.0, 2.0, 0.5]]), 2.0)
    tensor([[1.5000, 0.5000, 0.0000]])
    """
    sizes = z.abs().double()
    falling = sizes.sort(dim=1, descending=True).values
    counts = torch.arange(1, z.shape[1] + 1, device=z.device)
    thresholds = (falling.cumsum(dim=1) - radius) / counts
    last = (falling > thresholds).sum(dim=1, keepdim=True).clamp(min=1) - 1
    shrunk = (sizes - thresholds.gather(1, last).clamp(min=0.0)).clamp(min=0.0)
    return z.sign() * shrunk.to(z)


PROJECTIONS = {"linf": onto_linf, "l2": onto_l2, "l1": onto_l1}
CENTRAL = -230.0
"""If the log probability of a shorter latent is below this, the l2 map uses a series, because the probability would underflow."""


@SPACES.add
@dataclass(frozen=True, kw_only=True)
class Ball(RangedSpace, AddedNoise):
    """Noise of at most `radius` added to the input, uniform in the ball |z| <= radius of the norm "linf", "l2" or "l1": x' = x + z.

    In a table with names, the noise is in units of the columns' standard deviations.
    Elements (N, d) are the noise itself, in the precision of the latents. Balls are not groups: the sum of two elements may leave
    the ball.

    `range` keeps x' between two values: (low, high), or "data", the smallest and largest value of the inputs. With "linf", x' is
    uniform in the intersection of ball and range, lo = max(x - radius, low) and hi = min(x + radius, high):
    x' = lo + (hi - lo) (z / radius + 1) / 2, where z = 0 gives the middle of the intersection, not x. With "l2" and "l1", x + z is
    clamped, which favours points on the boundary of the range: see `caveat`.

    >>> ball = Ball(radius=0.1).fit(Size([2]))
    >>> ball.decode(torch.tensor([[0.0, 50.0]]))
    tensor([[0.0000, 0.1000]])
    >>> within = Ball(radius=0.1, range=(0.0, 1.0)).fit(Size([2]))
    >>> within.act(torch.tensor([[0.0, 0.1]]), torch.tensor([[0.0, 0.5]]))
    tensor([[0.0500, 0.6000]])
    """

    name = "ball"
    reference = "Yeh et al., On the (in)fidelity and sensitivity of explanations, NeurIPS 2019"

    radius: Positive = 0.02
    norm: str = "linf"
    range: tuple[float, float] | str | None = None

    def fit(self, shape: Size) -> Self:
        """The ball around inputs of this shape."""
        if self.norm not in PROJECTIONS:
            raise unknown("norm of a ball", str(self.norm), PROJECTIONS)
        return replace(super().fit(shape), range=self.range if self.needs_range else self.bounds)

    def within(self, low: float, high: float) -> Self:
        """The ball for data between `low` and `high`, which become its range if that is "data"."""
        if not self.needs_range:
            return self
        if not -math.inf < low < high < math.inf:
            raise InputError(
                f"The inputs go from {low:g} to {high:g}, which is no range for a ball: give it one, such as range=(0.0, 1.0)."
            )
        return replace(self, range=(float(low), float(high)))

    @property
    def needs_range(self) -> bool:
        """Whether the range is that of the data and still unknown."""
        return isinstance(self.range, str) and self.range == "data"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest value of x'; None if there is no range, and an error before `within`."""
        if self.range is None:
            return None
        if self.needs_range:
            raise SpecError(
                'The ball does not know the range of the data yet: call within(low, high), or give range=(low, high) for "data".'
            )
        if isinstance(self.range, str) or not self.range[0] < self.range[1]:
            raise SpecError(
                'The range of a ball must be "data" or two finite numbers, the lower first, such as (0.0, 1.0), '
                f"not {short_repr(self.range)}."
            )
        return float(self.range[0]), float(self.range[1])

    @property
    def caveat(self) -> str | None:
        """That points of "l2" and "l1" are clamped to the range, if there is one."""
        if self.range is None or self.norm == "linf":
            return None
        return (
            f"Points are drawn uniformly in the {self.norm} ball and then clamped to the data range, "
            "so they are not uniform on the intersection of ball and range."
        )

    @property
    def latents(self) -> int:
        """One per entry of a sample; for "l1" one more, for the distance from the centre."""
        return self.entries + (self.norm == "l1")

    def sample(self, draws: Draws) -> Tensor:
        """Uniform noise; for "linf" it is made from uniform numbers directly."""
        if self.norm != "linf":
            return super().sample(draws)
        return draws.uniform(self.latents, stream="walk").mul_(2.0).sub_(1.0).mul_(self.radius)

    def decode(self, latent: Tensor) -> Tensor:
        """A smooth map from Gaussian latents (N, latents) onto the ball (N, d), under which their distribution becomes uniform.

        linf: z_i = radius (2 Phi(u_i) - 1). l2: z = radius F(|u|^2)^(1/d) u / |u|, F the chi-squared distribution with d
        degrees of freedom. l1: z = radius y / (sum |y_i| + E), y_i Laplace and E exponential.
        """
        if self.norm == "linf":
            return uniform_noise(latent, self.radius)
        noise = radial(latent.double(), self.radius) if self.norm == "l2" else laplacian(latent.double(), self.radius)
        return noise.to(latent.dtype)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs plus their noise, inside the range if there is one."""
        noise, bounds, unit = self.noise_for(elements, x), self.bounds, self.unit(x)
        if bounds is None:
            return x + noise * unit
        if self.norm != "linf":
            return (x + noise * unit).clamp(*bounds)
        low, high = (x - self.radius * unit).clamp(min=bounds[0]), (x + self.radius * unit).clamp(max=bounds[1])
        return (low + (high - low) * (0.5 * (noise / self.radius + 1.0))).clamp(low, high)

    def project(self, points: Tensor, x: Tensor) -> Tensor:
        """The Euclidean projection of N points (N, ...) onto the balls around x, then onto the range.

        With "linf" this is the nearest point of the intersection. With "l2" and "l1" another point may be nearer, but clamping never
        leaves the ball: if x lies in the range, it brings every entry closer to x.
        """
        if points.shape != x.shape:
            raise InputError(
                f"Points of shape {tuple(points.shape)} cannot be projected onto balls around inputs of shape {tuple(x.shape)}."
            )
        unit = self.unit(x)
        away = (points - x) / unit if self.scales is None else torch.where(torch.as_tensor(unit) > 0, (points - x) / unit, 0.0)
        inside = x + PROJECTIONS[self.norm](away.flatten(1), self.radius).reshape(x.shape) * unit
        return inside if self.bounds is None else inside.clamp(*self.bounds)

    def check(self, x: Tensor) -> None:
        """Raise if inputs lie outside the range."""
        if self.bounds is None:
            return
        low, high = self.bounds
        outside = int(((x < low) | (x > high)).flatten(1).any(dim=1).sum())
        if outside:
            raise InputError(
                f"{outside} of {len(x)} samples leave the ball's range, {low:.9g} to {high:.9g}: values go from {float(x.min()):.9g} to "
                f'{float(x.max()):.9g}, so scale the inputs into the range, widen it, or give range="data".'
            )


def radial(u: Tensor, radius: float) -> Tensor:
    """Uniform in the l2 ball from Gaussian latents, both (N, d): radius F(|u|^2)^(1/d) u / |u|, F chi-squared with d degrees.

    With a = d / 2 and s = |u|^2 / 2, F = P(a, s) is the regularised incomplete gamma function. Close to the centre, where it
    underflows, P(a, s) = s^a exp(-s) S / Gamma(a + 1) cancels the division by |u|, with
    S = 1 / (1 - s/a) - (s/a) / (a (1 - s/a)^3) + ... (DLMF, section 8.11(iii)).
    """
    size, half = u.shape[1], 0.5 * u.shape[1]
    length = u.norm(dim=1, keepdim=True)
    energy, rest = 0.5 * length.square(), math.lgamma(half + 1.0)
    central = (energy < half) & (half * energy.log() - energy - rest < CENTRAL)
    away = length.where(~central, math.sqrt(size))
    share = torch.special.gammainc(torch.full_like(away, half), 0.5 * away.square()) ** (1.0 / size)
    close = energy.where(central, 0.0)
    gap = 1.0 - close / half
    series = torch.log1p(-close / (half * gap).square()) - gap.log()
    scale: Tensor = torch.where(central, radius * math.sqrt(0.5) * ((series - close - rest) / size).exp(), radius * share / away)
    return u * scale


def laplacian(u: Tensor, radius: float) -> Tensor:
    """Uniform in the l1 ball (N, d) from Gaussian latents (N, d + 1): radius y / (sum |y_i| + E) (Barthe et al. 2005, theorem 1).

    The first d make y Laplace, |y_i| = -ln(2 Phi(-|u_i|)) with the sign of u_i, and the last makes E exponential, -ln Phi(u_d+1).
    """
    up = u[:, :-1] >= 0.0
    size = -math.log(2.0) - torch.special.log_ndtr(torch.where(up, -u[:, :-1], u[:, :-1]))
    total = size.sum(dim=1, keepdim=True) - torch.special.log_ndtr(u[:, -1:])
    scale: Tensor = radius / total.clamp(min=torch.finfo(u.dtype).tiny)
    return torch.where(up, size, -size) * scale
