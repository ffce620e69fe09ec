"""How a Markov chain moves between points of the latent space without leaving the standard normal distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.component import Component
from veracity.core.registry import KERNELS
from veracity.core.settings import Inside

EDGE = 1e-7


@dataclass(frozen=True, kw_only=True)
class Kernel(Component, ABC):
    """A proposal whose `width` grows or shrinks until a share of `acceptance` of the proposals is accepted; it begins at `width`."""

    role = "kernel"
    acceptance: Inside
    width: Inside

    @abstractmethod
    def propose(self, latent: Tensor, noise: Tensor, width: Tensor) -> tuple[Tensor, Tensor | None]:
        """Proposals for chains (A, n, d) from standard normal noise of the same shape, widths (A,) each sample's own.

        With the logarithm (A, n) of the ratio by which the target's and the proposal's densities differ there and back; None
        if it is 0, so that the event alone decides.
        """

    def adapted(self, width: Tensor, accepted: Tensor) -> Tensor:
        """Widths (A,) after a step of which shares (A,) were accepted: w exp(share - acceptance), within (1e-6, 0.999)."""
        return (width * torch.exp(accepted - self.acceptance)).clamp(1e-6, 0.999)


@KERNELS.add
@dataclass(frozen=True, kw_only=True)
class CrankNicolson(Kernel):
    """The preconditioned Crank-Nicolson step, u' = sqrt(1 - w^2) u + w xi, which keeps the normal distribution in any dimension.

    Whatever the dimension, a proposal is accepted if it stays in the event. Widths adapt to an acceptance of .44.
    """

    name = "crank_nicolson"
    reference = "Papaioannou et al., MCMC algorithms for subset simulation, Probabilistic Engineering Mechanics 2015"
    acceptance: Inside = 0.44
    width: Inside = 0.8

    def propose(self, latent: Tensor, noise: Tensor, width: Tensor) -> tuple[Tensor, Tensor | None]:
        """A step towards fresh noise."""
        wide = width.to(latent)[:, None, None]
        return torch.sqrt(1.0 - wide.square()) * latent + wide * noise, None


@KERNELS.add
@dataclass(frozen=True, kw_only=True)
class Window(Kernel):
    """A uniform step in a window around the point, in the coordinates t = Phi(u) in which the target is uniform on a cube.

    The window [t - w, t + w] is cut at the cube's walls, which makes the proposal lopsided near them: equation (23), with
    its ratio the right way up, accepts with probability min(1, product of the window's lengths at t over those at t').
    In high dimension that ratio, or the event, rejects nearly everything, so that widths shrink and chains hardly move.
    """

    name = "window"
    reference = "Huang et al., SAFARI: versatile and efficient evaluations for robustness of interpretability, ICCV 2023, section 8.3"
    acceptance: Inside = 0.234
    width: Inside = 0.1

    def propose(self, latent: Tensor, noise: Tensor, width: Tensor) -> tuple[Tensor, Tensor | None]:
        """A uniform point of the window, and the ratio of the windows' volumes."""
        wide = width.to(latent)[:, None, None]
        here = torch.special.ndtr(latent)
        low, high = (here - wide).clamp(min=0.0), (here + wide).clamp(max=1.0)
        there = low + (high - low) * torch.special.ndtr(noise)
        back = (there + wide).clamp(max=1.0) - (there - wide).clamp(min=0.0)
        ratio = ((high - low).double().log() - back.double().log()).sum(dim=2)
        return torch.special.ndtri(there.clamp(EDGE, 1.0 - EDGE)), ratio
