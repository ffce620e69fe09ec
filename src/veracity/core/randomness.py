"""Random numbers that depend on (seed, sample, draw, stream) only, and a context that seeds the global generators.

Philox4x32-10 (Salmon et al. 2011) is a function from a counter and a key to 128 random bits. Here the counter is
(position, draw, sample, stream) and the key is the seed. A row gets the same numbers in every batch, order, process and device.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core import cuda_random

LOW32 = 0xFFFFFFFF
HALF = np.uint64(32)
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
CHUNK = 65536
"""Counters per call, so that the rounds stay in the cache."""
FEW = 64
"""Up to this many numbers per row are made in float64."""
CPU_NUMBERS, DEVICE_NUMBERS = 2**16, 2**22
"""Pairs of normal numbers that are made at once: on a CPU they stay in its cache, and on a device they bound the memory."""
SPARE = 24
"""Words beyond nine standard deviations."""

Words = NDArray[np.uint64]
Rows = tuple[Tensor, Tensor, Tensor]
"""The first block, the draw and the sample of each row."""


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


@dataclass(frozen=True)
class Draws:
    """The random numbers of N rows; row i belongs to sample `sample[i]` and to that sample's draw `draw[i]`.

    Numbers are made where `sample` lives. Whole numbers are the same on every device, others up to rounding.
    """

    seed: int
    sample: Tensor
    draw: Tensor
    item: Tensor | None = None
    """Which of a row's items (N,) the numbers are for, if it has several, such as the noise of one of several passes."""

    @classmethod
    def of(cls, seed: int, samples: Tensor, draw: int = 0) -> Draws:
        """The same draw number for every sample."""
        return cls(seed, samples, torch.full_like(samples, draw))

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, rows: Tensor | slice) -> Draws:
        return Draws(self.seed, self.sample[rows], self.draw[rows], None if self.item is None else self.item[rows])

    def to(self, device: torch.device) -> Draws:
        """The same rows, whose numbers are made on this device."""
        return Draws(self.seed, self.sample.to(device), self.draw.to(device), None if self.item is None else self.item.to(device))

    @property
    def on_cpu(self) -> Draws:
        """The same rows, whose numbers are made on the CPU."""
        return self.to(torch.device("cpu"))

    def words(self, count: int, stream: str) -> Tensor:
        """`count` 32-bit words per row, as int64 (N, count)."""
        blocks, purpose = -(-count // 4), stream_number(stream)
        if cuda_random.usable(self.sample.device):
            return cuda_random.words(*self.rows(blocks), count, purpose, self.key)
        make = words_on_cpu if self.sample.device.type == "cpu" else words_on_device
        return make(self.rows(blocks), blocks, purpose, self.key)[:, :count]

    @property
    def key(self) -> tuple[int, int]:
        """The lower and the upper 32 bits of the seed."""
        return self.seed & LOW32, (self.seed >> 32) & LOW32

    def rows(self, blocks: int) -> Rows:
        """The first block of four words, the draw and the sample of each row, if its items have so many blocks."""
        return torch.zeros_like(self.sample) if self.item is None else self.item * blocks, self.draw, self.sample

    def uniform(self, *shape: int, stream: str) -> Tensor:
        """Uniform numbers in the open interval (0, 1), float64 (N, *shape)."""
        count = int(torch.Size(shape).numel())
        return self.words(count, stream).double().add_(0.5).div_(2.0**32).reshape(len(self), *shape)

    def normal(self, *shape: int, stream: str) -> Tensor:
        """Standard normal numbers by the Box-Muller transform, (N, *shape).

        They are float32, or float64 for up to 64 numbers per row, where rounding would matter in the tails.
        """
        count = int(torch.Size(shape).numel())
        pairs, kind = -(-count // 2), torch.float64 if count <= FEW else torch.float32
        if kind is torch.float32 and cuda_random.usable(self.sample.device):
            made = cuda_random.normal(*self.rows(-(-2 * pairs // 4)), pairs, stream_number(stream), self.key)
            return made[:, :count].reshape(len(self), *shape)
        found = torch.empty(len(self), 2 * pairs, dtype=kind, device=self.sample.device)
        tall = max(1, (CPU_NUMBERS if self.sample.device.type == "cpu" else DEVICE_NUMBERS) // max(1, pairs))
        for top in range(0, len(self), tall):
            rows = slice(top, top + tall)
            box_muller(self[rows].words(2 * pairs, stream), found[rows])
        return found[:, :count].reshape(len(self), *shape)

    def integers(self, high: int, *shape: int, stream: str) -> Tensor:
        """Uniform whole numbers in [0, high), int64 (N, *shape)."""
        return (self.uniform(*shape, stream=stream) * high).long().clamp_(max=high - 1)

    def choice(self, population: int, count: int, *, stream: str) -> Tensor:
        """`count` distinct whole numbers below `population` per row, uniform without replacement, int64 (N, count).

        A shorter choice is a prefix of a longer one, so a walk may ask for more later.
        """
        return self.uniform(population, stream=stream).argsort(dim=1, stable=True)[:, :count]

    def subsets(self, population: int, count: int, *, stream: str) -> Tensor:
        """Masks (N, population) with `count` True entries per row; all subsets are equally likely.

        Places are drawn until `count` different ones have come (or all but these, if they are fewer), so the cost grows with `count`,
        not with the population. Whether the words were enough is never checked, which would make the CPU wait for the GPU.
        """
        if count == 0:
            return torch.zeros(len(self), population, dtype=torch.bool, device=self.sample.device)
        if 2 * count > population:
            return ~self.subsets(population, population - count, stream=stream)
        drawn = words_for_subset(population, count)
        place = (self.words(drawn, stream) * population) >> 32
        kind = torch.int16 if drawn < 2**15 else torch.int32
        turn = torch.arange(drawn, dtype=kind, device=place.device).expand(len(self), drawn)
        first = torch.full((len(self), population), drawn, dtype=kind, device=place.device).scatter_reduce_(1, place, turn, "amin")
        number = (first.gather(1, place) == turn).cumsum(1, dtype=torch.int32)
        last = torch.searchsorted(number, number.new_full((len(self), 1), count))
        return first <= last.clamp(max=drawn - 1).to(kind)


def words_for_subset(population: int, count: int) -> int:
    """So many words that they hold `count` different places, at most half of the population, in all but one of 10^15 rows.

    That is nine standard deviations above the mean of the words that it takes, and some more for small subsets.
    """
    share = count / population
    mean, variance = -population * math.log1p(-share), population * (share / (1.0 - share) + math.log1p(-share))
    return math.ceil(mean + 9.0 * math.sqrt(variance)) + SPARE


def words_on_cpu(rows: Rows, blocks: int, purpose: int, key: tuple[int, int]) -> Tensor:
    """4 `blocks` words per row, as int64, by NumPy, whose unsigned shifts are faster."""
    start, draw, sample = ((number.numpy().astype(np.int64) & LOW32).astype(np.uint64)[:, None] for number in rows)
    position, stream = np.arange(blocks, dtype=np.uint64)[None, :], np.full((1, 1), purpose, dtype=np.uint64)
    words = np.empty((len(sample), blocks, 4), dtype=np.uint64)
    tall, wide = max(1, CHUNK // max(blocks, 1)), CHUNK
    for top in range(0, len(sample), tall):
        some = slice(top, top + tall)
        begin = start[some] if start[some].any() else np.zeros((1, 1), dtype=np.uint64)  # of which less depends on the row
        for left in range(0, blocks, wide):
            columns = slice(left, left + wide)
            for word, value in enumerate(philox((begin + position[:, columns], draw[some], sample[some], stream), key)):
                words[some, columns, word] = value
    return torch.from_numpy(words.view(np.int64)).reshape(len(sample), 4 * blocks)


def words_on_device(rows: Rows, blocks: int, purpose: int, key: tuple[int, int]) -> Tensor:
    """The same words made by torch where the rows live."""
    start, draw, sample = ((number & LOW32)[:, None] for number in rows)
    position = start + torch.arange(blocks, device=sample.device)
    stream = torch.full((1, 1), purpose, dtype=torch.int64, device=sample.device)
    found = philox_on_device((position, draw, sample, stream), key)
    return torch.stack(torch.broadcast_tensors(*found), dim=-1).reshape(len(sample), 4 * blocks)


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
