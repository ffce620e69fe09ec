from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from veracity.core import randomness as module
from veracity.core.randomness import LOW32, Draws, philox, philox_on_device, stream_number

CPU = torch.device("cpu")


def rows(count: int = 30, seed: int = 2**35 + 11) -> Draws:
    return Draws(seed, torch.arange(count) * 7, torch.arange(count) % 4)


def test_signed_words_make_the_same_rounds_as_unsigned_ones() -> None:
    generator = np.random.default_rng(0)
    words = generator.integers(0, 2**32, size=(4, 500), dtype=np.uint64)
    words[:, :2] = [[0, LOW32]] * 4
    for key in ((0, 0), (LOW32, LOW32), (0xA4093822, 0x299F31D0)):
        plain = philox(tuple(words.copy()), key)
        found = philox_on_device(tuple(torch.from_numpy(word.astype(np.int64)) for word in words), key)
        for one, other in zip(plain, found, strict=True):
            assert np.array_equal(one, other.numpy().astype(np.uint64))


@pytest.mark.parametrize("count", [1, 4, 10, 33])
def test_words_of_a_device_are_those_of_the_cpu(count: int) -> None:
    # What words_on does away from the CPU, on tensors of the CPU.
    own = rows()
    blocks = -(-count // 4)
    counter = (torch.arange(blocks)[None], own.draw[:, None], own.sample[:, None], torch.full((1, 1), stream_number("s")))
    key = (own.seed & LOW32, own.seed >> 32)
    made = torch.stack(torch.broadcast_tensors(*philox_on_device(counter, key)), dim=-1).reshape(len(own), -1)[:, :count]
    assert torch.equal(made, own.words(count, "s"))
    assert torch.equal(own.words_on(count, "s", CPU), own.words(count, "s"))


@pytest.mark.parametrize("count", [1, 2, 7, 65])
def test_gaussian_is_box_and_muller_on_the_words(count: int) -> None:
    own, pairs = rows(8), (count + 1) // 2
    words = own.words(2 * pairs, "s").tolist()
    found = own.gaussian(count, stream="s", device=CPU)
    assert found.dtype == (torch.float32 if count > 64 else torch.float64)
    assert found.shape == (8, count)
    for row in range(8):
        u = [(word + 0.5) / 2**32 for word in words[row]]
        radius = [math.sqrt(-2 * math.log(u[place])) for place in range(pairs)]
        turned = [2 * math.pi * u[pairs + place] for place in range(pairs)]
        literal = [r * math.cos(a) for r, a in zip(radius, turned, strict=True)] + [
            r * math.sin(a) for r, a in zip(radius, turned, strict=True)
        ]
        assert found[row].tolist() == pytest.approx(literal[:count], abs=2e-5)
    assert torch.allclose(found.double(), own.normal(count, stream="s"), atol=2e-5)


def test_a_row_is_the_same_in_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows().gaussian(9, stream="s", device=CPU)
    monkeypatch.setattr(module, "DEVICE_CHUNK", 12)
    assert torch.equal(rows().gaussian(9, stream="s", device=CPU), whole)
    assert torch.equal(rows()[torch.tensor([17, 3])].gaussian(9, stream="s", device=CPU), whole[[17, 3]])


def test_gaussian_is_normal_and_finite() -> None:
    values = Draws.of(1, torch.arange(2000)).gaussian(100, stream="s", device=CPU)
    assert values.isfinite().all()
    assert stats.kstest(values.double().numpy().ravel(), "norm").pvalue > 0.01
    assert np.abs(np.corrcoef(values.numpy().T)[np.triu_indices(100, 1)]).max() < 5 / math.sqrt(2000)


def test_extreme_words_give_finite_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = torch.tensor([[0, LOW32, 0, LOW32], [LOW32, 0, LOW32 - 1, 1]])
    monkeypatch.setattr(Draws, "words_on", lambda self, count, stream, device: ends)
    found = Draws.of(0, torch.arange(2)).gaussian(4, stream="s", device=CPU)
    assert found.isfinite().all()
    assert float(found.abs().max()) < 6.8


def test_nothing_asked_nothing_drawn() -> None:
    assert rows(3).gaussian(0, stream="s", device=CPU).shape == (3, 0)
    assert rows(0).gaussian(5, stream="s", device=CPU).shape == (0, 5)
