"""One long row of standard normal numbers for a name, such as noise for every weight of a model; the same words on every device.

Philox4x64-10 (Salmon et al. 2011) makes the words: NumPy's generator on a CPU, which is ten times as fast there as arrays of 32-bit
words, one kernel on an NVIDIA GPU, and torch's 64-bit integers elsewhere.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from veracity.core import cuda_random

LOW32 = 0xFFFFFFFF
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
CPU_PAIRS, DEVICE_PAIRS = 2**15, 2**22
"""Pairs of numbers that are made at once: on a CPU they stay in its cache. Both are multiples of four."""


def key_of(*parts: int | str) -> int:
    """A key below 2^128 for these numbers and words, the same in every process.

    >>> key_of(0, 1, "noise") == key_of(0, 1, "noise"), key_of(0, 1, "noise") == key_of(0, 2, "noise")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:16], "big")


def long_normal(size: int, *parts: int | str, device: torch.device) -> Tensor:
    """Standard normal numbers (size,) in float32 for these numbers and words, equal on all devices up to rounding.

    Words 2 i and 2 i + 1 of 32 bits make the numbers i and i + pairs, by the Box-Muller transform.
    """
    key, pairs = key_of(*parts), -(-size // 2)
    if cuda_random.usable(device):
        return cuda_random.long_normal(pairs, key, device)[:size]
    found = torch.empty(2 * pairs, device=device)
    step, words = (CPU_PAIRS, words_on_cpu) if device.type == "cpu" else (DEVICE_PAIRS, words_on_device)
    for first in range(0, pairs, step):
        last = min(first + step, pairs)
        word = words(key, first // 4, -(-(last - first) // 4), device)[: last - first]
        radius = ((word >> 32) & LOW32).float().add_(0.5).div_(2.0**32).log_().mul_(-2.0).sqrt_()
        angle = (word & LOW32).float().add_(0.5).mul_(2.0 * torch.pi / 2.0**32)
        torch.mul(radius, angle.cos(), out=found[first:last])
        torch.mul(radius, angle.sin_(), out=found[pairs + first : pairs + last])
    return found[:size]


def words_on_cpu(key: int, start: int, blocks: int, device: torch.device) -> Tensor:
    """4 `blocks` words of 64 bits from block `start` on, as int64."""
    made = np.random.Philox(key=key, counter=start)
    return torch.from_numpy(made.random_raw(4 * blocks).view(np.int64))


def words_on_device(key: int, start: int, blocks: int, device: torch.device) -> Tensor:
    """The same words made by torch."""
    c0 = torch.arange(start + 1, start + 1 + blocks, device=device)  # NumPy counts before it draws
    c1, c2, c3 = (torch.zeros_like(c0) for _ in range(3))
    k0, k1 = key & (2**64 - 1), key >> 64
    for _ in range(10):
        (high0, low0), (high1, low1) = product(c0, MULTIPLIERS[0]), product(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ signed(k0), low1, high0 ^ c3 ^ signed(k1), low0
        k0, k1 = (k0 + WEYL[0]) % 2**64, (k1 + WEYL[1]) % 2**64
    return torch.stack((c0, c1, c2, c3), dim=1).flatten()


def product(a: Tensor, b: int) -> tuple[Tensor, Tensor]:
    """The upper and the lower 64 bits of the products of unsigned words, held as int64, with one number, by halves of 32 bits."""
    b0, b1 = b & LOW32, b >> 32
    a0, a1 = a & LOW32, (a >> 32) & LOW32
    low, left, right = a0 * b0, a0 * b1, a1 * b0
    middle = ((low >> 32) & LOW32) + (left & LOW32) + (right & LOW32)
    high = a1 * b1 + ((left >> 32) & LOW32) + ((right >> 32) & LOW32) + ((middle >> 32) & LOW32)
    return high, a * signed(b)


def signed(word: int) -> int:
    """An unsigned 64-bit number as a signed one with the same bits.

    >>> signed(2**64 - 1)
    -1
    """
    return word - 2**64 if word >= 2**63 else word
