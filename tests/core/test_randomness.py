from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from veracity.core import randomness as module
from veracity.core.randomness import (
    LOW32,
    SPARE,
    Draws,
    gpus_in_use,
    philox,
    philox_on_device,
    seeded,
    stream_number,
    words_for_subset,
    words_on_device,
)

ONES = 0xFFFFFFFF
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def rows(count: int = 40, seed: int = 3) -> Draws:
    return Draws(seed, torch.arange(count) * 7, torch.arange(count) % 5)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN, ids=["zeros", "ones", "pi"])
def test_philox_gives_the_known_answers(counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]) -> None:
    found = philox(tuple(np.array([word], dtype=np.uint64) for word in counter), key)
    assert tuple(int(word[0]) for word in found) == expected


def slow_philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 2**32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


def test_words_are_philox_of_position_draw_sample_and_stream() -> None:
    seed = 2**40 + 5
    words = Draws(seed, torch.tensor([9, 4]), torch.tensor([2, 2**33 + 1])).words(10, "s")
    for row, (sample, draw) in enumerate([(9, 2), (4, 1)]):
        slow = [word for place in range(3) for word in slow_philox((place, draw, sample, stream_number("s")), (5, 2**8))]
        assert words[row].tolist() == slow[:10]


def test_words_do_not_change_from_version_to_version() -> None:
    words = Draws(0, torch.tensor([1]), torch.tensor([2])).words(5, "walk")
    assert words.tolist() == [[1311208760, 1840378563, 99611908, 1301699058, 2191679251]]


@pytest.mark.parametrize("kind", ["uniform", "normal"])
@pytest.mark.parametrize("chunk", [8, 100, 65536])
def test_a_row_is_the_same_in_every_batch(kind: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    all_at_once = getattr(rows(), kind)(3, 11, stream="s")
    monkeypatch.setattr(module, "CHUNK", chunk)
    assert torch.equal(getattr(rows(), kind)(3, 11, stream="s"), all_at_once)
    for part in (slice(0, 1), slice(5, 12), torch.tensor([39, 2, 2, 17])):
        assert torch.equal(getattr(rows()[part], kind)(3, 11, stream="s"), all_at_once[part])


def test_seed_sample_draw_and_stream_each_matter() -> None:
    def one(seed: int = 0, sample: int = 0, draw: int = 0, stream: str = "s") -> list[int]:
        return Draws(seed, torch.tensor([sample]), torch.tensor([draw])).words(4, stream)[0].tolist()

    made = [one(), one(seed=1), one(seed=2**32), one(sample=1), one(draw=1), one(stream="t")]
    assert len({tuple(words) for words in made}) == len(made)


def test_more_words_begin_with_fewer() -> None:
    assert torch.equal(rows().words(50, "s")[:, :13], rows().words(13, "s"))


def test_nothing_asked_nothing_drawn() -> None:
    assert rows(4).normal(0, stream="s").shape == (4, 0)
    assert rows(4).uniform(2, 0, stream="s").shape == (4, 2, 0)
    assert rows(0).normal(3, stream="s").shape == (0, 3)


def test_uniform_is_uniform_and_open() -> None:
    values = Draws.of(1, torch.arange(200)).uniform(500, stream="s")
    assert values.dtype == torch.float64
    assert 0.0 < values.min() < values.max() < 1.0
    assert stats.kstest(values.flatten().numpy(), "uniform").pvalue > 0.01
    by_row = stats.kstest(values.numpy(), "uniform", axis=1).pvalue
    assert stats.kstest(by_row, "uniform").pvalue > 0.01


def test_normal_is_normal_and_uncorrelated() -> None:
    values = Draws.of(1, torch.arange(1000)).normal(100, stream="s").numpy()
    assert stats.kstest(values.ravel(), "norm").pvalue > 0.01
    assert stats.kstest(np.sqrt(1000) * values.mean(axis=0), "norm").pvalue > 0.01
    across = np.corrcoef(values.T)[np.triu_indices(100, 1)]
    assert np.abs(across).max() < 5 / np.sqrt(1000)
    neighbours = Draws(1, torch.zeros(1000, dtype=torch.int64), torch.arange(1000)).normal(100, stream="s").numpy()
    assert np.abs(np.corrcoef(neighbours.T)[np.triu_indices(100, 1)]).max() < 5 / np.sqrt(1000)


def test_integers_are_below_and_even() -> None:
    values = Draws.of(1, torch.arange(100)).integers(7, 100, stream="s")
    counts = torch.bincount(values.flatten(), minlength=7).numpy()
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > 0.01


def test_choice_is_without_replacement_and_a_prefix_of_more() -> None:
    chosen = rows(60).choice(23, 23, stream="s")
    assert torch.equal(chosen.sort(dim=1).values, torch.arange(23).expand(60, 23))
    assert torch.equal(rows(60).choice(23, 9, stream="s"), chosen[:, :9])
    assert torch.equal(rows(60)[torch.tensor([31])].choice(23, 9, stream="s"), chosen[31:32, :9])
    assert rows(2).choice(5, 9, stream="s").shape == (2, 5)


def test_choice_is_uniform() -> None:
    chosen = Draws.of(1, torch.arange(6000)).choice(4, 2, stream="s")
    counts = torch.bincount(4 * chosen[:, 0] + chosen[:, 1], minlength=16).numpy()
    ordered_pairs = counts[np.arange(16) % 5 != 0]
    assert counts.sum() == ordered_pairs.sum()
    assert stats.chisquare(ordered_pairs).pvalue > 0.01


def test_global_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    rows().normal(5, stream="s")
    assert torch.equal(torch.get_rng_state(), before)


def device_rows(count: int = 30, seed: int = 2**35 + 11) -> Draws:
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
@pytest.mark.parametrize("item", [None, 3])
def test_words_of_a_device_are_those_of_the_cpu(count: int, item: int | None) -> None:
    # What words does away from the CPU, on tensors of the CPU.
    own, blocks = device_rows(), -(-count // 4)
    own = own if item is None else replace(own, item=torch.full_like(own.sample, item))
    start = torch.zeros_like(own.sample) if item is None else torch.full_like(own.sample, item * blocks)
    made = words_on_device((start, own.draw, own.sample), blocks, stream_number("s"), (own.seed & LOW32, own.seed >> 32))
    assert torch.equal(made[:, :count], own.words(count, "s"))


def test_items_of_a_row_follow_each_other_in_its_stream() -> None:
    rows = device_rows(5)
    every = rows.words(24, "s").reshape(5, 3, 8)
    item = torch.tensor([0, 2, 1, 2, 0])
    assert torch.equal(replace(rows, item=item).words(8, "s"), every[torch.arange(5), item])


@pytest.mark.parametrize(("population", "count"), [(5, 2), (5, 4), (6, 3)])
def test_all_subsets_are_equally_likely(population: int, count: int) -> None:
    masks = Draws.of(3, torch.arange(30_000)).subsets(population, count, stream="s")
    assert (masks.sum(1) == count).all()
    seen = masks.long().mul(2 ** torch.arange(population)).sum(1).bincount()
    seen = seen[seen > 0]
    assert len(seen) == math.comb(population, count)
    assert stats.chisquare(seen.numpy()).pvalue > 0.01


@pytest.mark.parametrize(("population", "count"), [(1, 1), (4, 0), (4, 4), (300, 20), (300, 290)])
def test_a_subset_is_the_first_different_places_of_its_row(population: int, count: int) -> None:
    rows = device_rows(6)
    fewer = min(count, population - count) if 2 * count > population else count
    for row, mask in enumerate(rows.subsets(population, count, stream="s")):
        places: list[int] = []
        for word in rows[torch.tensor([row])].words(4 * fewer + 40, "s")[0].tolist():
            place = word * population // 2**32
            if place not in places and len(places) < fewer:
                places.append(place)
        literal = set(places) if fewer == count else set(range(population)) - set(places)
        assert set(mask.nonzero()[:, 0].tolist()) == literal


def test_a_subset_draws_enough_words() -> None:
    """Even if a hundredth of the words were missing, every subset would be full."""
    for population, count in ((2, 1), (7, 3), (64, 32), (784, 196), (784, 392), (3072, 1000)):
        drawn = math.ceil(-population * math.log1p(-count / population) + 8.0 * math.sqrt(count)) + SPARE
        places = Draws.of(5, torch.arange(400)).words(int(0.9 * drawn), "s") * population >> 32
        assert min(len(row.unique()) for row in places) >= count


@pytest.mark.parametrize("count", [1, 2, 7, 65])
def test_normal_is_box_and_muller_on_the_words(count: int) -> None:
    own, pairs = device_rows(8), (count + 1) // 2
    words = own.words(2 * pairs, "s").tolist()
    found = own.normal(count, stream="s")
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


def test_a_normal_row_is_the_same_in_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = device_rows().normal(9, stream="s")
    monkeypatch.setattr(module, "CPU_NUMBERS", 12)
    assert torch.equal(device_rows().normal(9, stream="s"), whole)
    assert torch.equal(device_rows()[torch.tensor([17, 3])].normal(9, stream="s"), whole[[17, 3]])


def test_many_normal_numbers_are_normal_and_finite() -> None:
    values = Draws.of(1, torch.arange(2000)).normal(100, stream="s")
    assert values.isfinite().all()
    assert stats.kstest(values.double().numpy().ravel(), "norm").pvalue > 0.01
    assert np.abs(np.corrcoef(values.numpy().T)[np.triu_indices(100, 1)]).max() < 5 / math.sqrt(2000)


def test_extreme_words_give_finite_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = torch.tensor([[0, LOW32, 0, LOW32], [LOW32, 0, LOW32 - 1, 1]])
    monkeypatch.setattr(Draws, "words", lambda self, count, stream: ends)
    found = Draws.of(0, torch.arange(2)).normal(4, stream="s")
    assert found.isfinite().all()
    assert float(found.abs().max()) < 6.8


def test_no_numbers_asked_none_drawn() -> None:
    assert device_rows(3).normal(0, stream="s").shape == (3, 0)
    assert device_rows(0).normal(5, stream="s").shape == (0, 5)


def states() -> tuple[list[int], list[int], object]:
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002


def test_all_states_follow_from_the_seed_and_come_back_after_an_error() -> None:
    def drawn() -> tuple[float, float, float]:
        return float(torch.rand(())), float(np.random.rand()), random.random()  # noqa: NPY002

    before = states()
    with seeded(3, gpus_in_use()):
        first = drawn()
    with pytest.raises(ValueError, match="inside"), seeded(3, gpus_in_use()):  # noqa: PT012 - all of it is undone
        assert drawn() == first
        torch.manual_seed(9)
        raise ValueError("inside")
    assert states() == before
    with seeded(4):
        assert drawn() != first


def test_a_gpu_that_nobody_uses_is_left_alone() -> None:
    if not torch.cuda.is_initialized():
        assert gpus_in_use() == []


@pytest.mark.parametrize(
    ("population", "count"), [(2, 1), (4, 2), (10, 5), (50, 25), (100, 50), (100, 10), (784, 28), (784, 392), (20000, 224)]
)
def test_the_words_of_a_subset_are_enough(population: int, count: int) -> None:
    """By the Markov chain of the number of different places so far."""
    found, places = np.zeros(count + 1), np.arange(count + 1)
    found[0] = 1.0
    for _ in range(words_for_subset(population, count)):
        new = np.where(places < count, found * (1 - places / population), 0.0)
        found = found - new
        found[1:] += new[:-1]
    assert found[:count].sum() < 1e-15
