"""The nearest point of a ball around zero, for each of N vectors at once."""

from __future__ import annotations

import torch
from torch import Tensor


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
