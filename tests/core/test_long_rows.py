from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from veracity.core import long_rows
from veracity.core.long_rows import MULTIPLIERS, WEYL, key_of, long_normal, product, signed, words_on_cpu, words_on_device

CPU = torch.device("cpu")


def plain_philox(counter: int, key: int) -> list[int]:
    """Philox4x64-10 with Python's whole numbers."""
    c, k = [counter, 0, 0, 0], [key % 2**64, key >> 64]
    for _ in range(10):
        high, low = divmod(c[0] * MULTIPLIERS[0], 2**64)
        other_high, other_low = divmod(c[2] * MULTIPLIERS[1], 2**64)
        c = [other_high ^ c[1] ^ k[0], other_low, high ^ c[3] ^ k[1], low]
        k = [(one + step) % 2**64 for one, step in zip(k, WEYL, strict=True)]
    return c


@pytest.mark.parametrize("start", [0, 5])
def test_words_are_those_of_a_plain_philox_everywhere(start: int) -> None:
    key = key_of("weights", 7)
    literal = [signed(word) for block in range(start, start + 3) for word in plain_philox(block + 1, key)]
    assert words_on_cpu(key, start, 3, CPU).tolist() == literal
    assert words_on_device(key, start, 3, CPU).tolist() == literal


def test_products_of_unsigned_words() -> None:
    words = [0, 1, 2**32, 2**63, 2**64 - 1, *np.random.default_rng(0).integers(0, 2**63, 50).tolist()]
    for factor in MULTIPLIERS:
        high, low = product(torch.tensor([signed(word) for word in words]), factor)
        assert high.tolist() == [signed(word * factor >> 64) for word in words]
        assert low.tolist() == [signed(word * factor % 2**64) for word in words]


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_numbers_are_box_and_muller_on_the_halves_of_words(size: int) -> None:
    pairs = -(-size // 2)
    words = [word for block in range(1, 12) for word in plain_philox(block, key_of("a", 3))][:pairs]
    radius = [math.sqrt(-2 * math.log(((word >> 32) + 0.5) / 2**32)) for word in words]
    angle = [2 * math.pi * ((word % 2**32) + 0.5) / 2**32 for word in words]
    literal = [r * math.cos(a) for r, a in zip(radius, angle, strict=True)] + [r * math.sin(a) for r, a in zip(radius, angle, strict=True)]
    assert long_normal(size, "a", 3, device=CPU).tolist() == pytest.approx(literal[:size], abs=2e-6)


def test_numbers_do_not_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = long_normal(10_001, "w", 0, device=CPU)
    monkeypatch.setattr(long_rows, "CPU_PAIRS", 512)
    assert torch.equal(long_normal(10_001, "w", 0, device=CPU), whole)


def test_long_rows_are_normal_and_differ_by_name() -> None:
    one, other = (long_normal(100_000, "w", name, device=CPU) for name in (0, 1))
    assert one.dtype == torch.float32
    assert stats.kstest(one.double().numpy(), "norm").pvalue > 0.01
    assert abs(float(torch.corrcoef(torch.stack((one, other)))[0, 1])) < 0.02
