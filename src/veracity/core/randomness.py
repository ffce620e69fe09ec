"""Random numbers that depend on (seed, sample, draw, stream) only, and a context that seeds the global generators.

Philox4x32-10 (Salmon et al. 2011) is a function from a counter and a key to 128 random bits. Here the counter is
(position, draw, sample, stream) and the key is the seed. A row gets the same numbers in every batch, order, process and device.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LOW32 = 0xFFFFFFFF
HALF = np.uint64(32)
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
CHUNK = 65536
"""Counters per call, so that the rounds stay in the cache."""
FEW = 64
"""Up to this many numbers per row are made in float64."""
DEVICE_CHUNK = 2**22
"""Pairs of numbers per call on a device, which bounds its memory."""

Words = NDArray[np.uint64]


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Ten rounds of Philox4x32 on uint64 arrays that hold 32-bit words and broadcast against each other.

    >>> zero = np.zeros(1, dtype=np.uint64)
    >>> [hex(word.item()) for word in philox((zero, zero, zero, zero), (0, 0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c2 = (p1 >> HALF) ^ c1, (p0 >> HALF) ^ c3
        c0 ^= k0
        c2 ^= k1
        p0 &= LOW32
        p1 &= LOW32
        c1, c3 = p1, p0
        k0, k1 = (k0 + WEYL[0]) & LOW32, (k1 + WEYL[1]) & LOW32
    return c0, c1, c2, c3


def philox_on_device(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same ten rounds on int64 tensors on any device: products wrap, and arithmetic shifts are masked."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c2 = ((p1 >> 32) & LOW32) ^ c1 ^ k0, ((p0 >> 32) & LOW32) ^ c3 ^ k1
        c1, c3 = p1 & LOW32, p0 & LOW32
        k0, k1 = (k0 + WEYL[0]) & LOW32, (k1 + WEYL[1]) & LOW32
    return c0, c1, c2, c3


def box_muller(words: Tensor, out: Tensor) -> None:
    """Write standard normal numbers (N, 2 n) made from random words (N, 2 n) into `out`, in its precision."""
    pairs = words.shape[1] // 2
    u = words.to(out.dtype).add_(0.5).div_(2.0**32)
    radius, angle = u[:, :pairs].log().mul_(-2.0).sqrt_(), u[:, pairs:].mul_(2.0 * torch.pi)
    torch.mul(radius, angle.cos(), out=out[:, :pairs])
    torch.mul(radius, angle.sin_(), out=out[:, pairs:])


def stream_number(stream: str) -> int:
    """A 32-bit number for a stream's name, so that two purposes do not share random numbers."""
    return int.from_bytes(hashlib.sha256(stream.encode()).digest()[:4], "big")


def as_word_column(number: Tensor) -> Words:
    """Whole numbers (N,) as 32-bit words (N, 1)."""
    return (number.cpu().numpy().astype(np.int64) & LOW32).astype(np.uint64)[:, None]


@dataclass(frozen=True)
class Draws:
    """The random numbers of N rows; row i belongs to sample `sample[i]` and to that sample's draw `draw[i]`."""

    seed: int
    sample: Tensor
    draw: Tensor

    @classmethod
    def of(cls, seed: int, samples: Tensor, draw: int = 0) -> Draws:
        """The same draw number for every sample."""
        return cls(seed, samples, torch.full_like(samples, draw))

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, rows: Tensor | slice) -> Draws:
        return Draws(self.seed, self.sample[rows], self.draw[rows])

    def words(self, count: int, stream: str) -> Tensor:
        """`count` 32-bit words per row, as int64 (N, count)."""
        blocks = -(-count // 4)
        position = np.arange(blocks, dtype=np.uint64)[None, :]
        draw, sample = (as_word_column(number) for number in (self.draw, self.sample))
        purpose = np.full((1, 1), stream_number(stream), dtype=np.uint64)
        key = (self.seed & LOW32, (self.seed >> 32) & LOW32)
        words = np.empty((len(self), blocks, 4), dtype=np.uint64)
        tall, wide = max(1, CHUNK // max(blocks, 1)), CHUNK
        for top in range(0, len(self), tall):
            for left in range(0, blocks, wide):
                rows, columns = slice(top, top + tall), slice(left, left + wide)
                for word, value in enumerate(philox((position[:, columns], draw[rows], sample[rows], purpose), key)):
                    words[rows, columns, word] = value
        return torch.from_numpy(words.view(np.int64)).reshape(len(self), 4 * blocks)[:, :count]

    def words_on(self, count: int, stream: str, device: torch.device) -> Tensor:
        """The same words made on a device, as int64 (N, count)."""
        if device.type == "cpu":
            return self.words(count, stream)
        blocks = -(-count // 4)
        position = torch.arange(blocks, device=device)[None, :]
        draw, sample = ((number.to(device) & LOW32)[:, None] for number in (self.draw, self.sample))
        purpose = torch.full((1, 1), stream_number(stream), dtype=torch.int64, device=device)
        key = (self.seed & LOW32, (self.seed >> 32) & LOW32)
        found = philox_on_device((position, draw, sample, purpose), key)
        return torch.stack(torch.broadcast_tensors(*found), dim=-1).reshape(len(self), 4 * blocks)[:, :count]

    def gaussian(self, count: int, *, stream: str, device: torch.device) -> Tensor:
        """Standard normal numbers (N, count) made on a device, the same on every device up to rounding.

        They are float32, or float64 for up to 64 numbers per row, where rounding would matter in the tails.
        """
        pairs, kind = -(-count // 2), torch.float64 if count <= FEW else torch.float32
        found = torch.empty(len(self), 2 * pairs, dtype=kind, device=device)
        tall = max(1, DEVICE_CHUNK // max(1, pairs))
        for top in range(0, len(self), tall):
            rows = slice(top, top + tall)
            box_muller(self[rows].words_on(2 * pairs, stream, device), found[rows])
        return found[:, :count]

    def uniform(self, *shape: int, stream: str) -> Tensor:
        """Uniform numbers in the open interval (0, 1), float64 (N, *shape)."""
        count = int(torch.Size(shape).numel())
        return self.words(count, stream).double().add_(0.5).div_(2.0**32).reshape(len(self), *shape)

    def normal(self, *shape: int, stream: str) -> Tensor:
        """Standard normal numbers by the Box-Muller transform, float64 (N, *shape)."""
        count = int(torch.Size(shape).numel())
        pairs = -(-count // 2)
        found = torch.empty(len(self), 2 * pairs, dtype=torch.float64)
        box_muller(self.words(2 * pairs, stream), found)
        return found[:, :count].reshape(len(self), *shape)

    def integers(self, high: int, *shape: int, stream: str) -> Tensor:
        """Uniform whole numbers in [0, high), int64 (N, *shape)."""
        return (self.uniform(*shape, stream=stream) * high).long().clamp_(max=high - 1)

    def choice(self, population: int, count: int, *, stream: str) -> Tensor:
        """`count` distinct whole numbers below `population` per row, uniform without replacement, int64 (N, count).

        A shorter choice is a prefix of a longer one, so a walk may ask for more later.
        """
        return self.uniform(population, stream=stream).argsort(dim=1, stable=True)[:, :count]


def gpus_in_use() -> list[int]:
    """Indices of the GPUs whose generators may have been used: none if CUDA has not been initialised."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


@contextmanager
def seeded(seed: int, gpus: Sequence[int] | None = None) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch; restore their states on exit.

    `gpus` are the indices of the GPUs to include, by default all of them, which initialises CUDA.
    """
    python, array = random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = list(range(torch.cuda.device_count()) if gpus is None else gpus)
    try:
        with torch.random.fork_rng(devices=devices):
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            torch.default_generator.manual_seed(seed)
            for device in devices:
                torch.cuda.default_generators[device].manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(array)  # noqa: NPY002
