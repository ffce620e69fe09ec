from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from veracity.core import cuda_random
from veracity.core.cuda_random import BOX_MULLER, KNOWN_ANSWER, LONG_NORMAL, LONG_WORD, NORMAL, WORD, usable
from veracity.core.long_rows import key_of, long_normal, signed, words_on_cpu
from veracity.core.randomness import Draws, stream_number

CPU, GPU = torch.device("cpu"), torch.device("cuda")
SEED = 12345678901234567
DRAWS = Draws(SEED, torch.tensor([0, 3, 2**31]), torch.tensor([0, 7, 1]))
COMPILER = shutil.which("g++")

SHIM = """
#include <cmath>
#include <cstring>
typedef long long ll;
static unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned int)(((unsigned long long)a * b) >> 32); }
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
static unsigned int __float_as_uint(float x) { unsigned int bits; std::memcpy(&bits, &x, 4); return bits; }
"""
ENTRIES = """
extern "C" ll word(ll a, ll b, ll c, ll d, ll e, ll f, ll g) { return philox_word<ll>(a, b, c, d, e, f, g); }
extern "C" ll normal(ll a, ll b, ll c, ll d, ll e, ll f, ll g, ll h) { return philox_normal<ll>(a, b, c, d, e, f, g, h); }
extern "C" ll long_word(ll a, ll b, ll c) { return philox_long_word<ll>(a, b, c); }
extern "C" ll long_normal(ll a, ll b, ll c, ll d) { return philox_long_normal<ll>(a, b, c, d); }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels' code as functions of the CPU."""
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    folder: Path = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.cpp").write_text(SHIM + WORD + LONG_WORD + BOX_MULLER + NORMAL + LONG_NORMAL + ENTRIES)
    subprocess.run([COMPILER, "-O1", "-w", "-shared", "-fPIC", "-o", str(folder / "k.so"), str(folder / "kernels.cpp")], check=True)
    found = ctypes.CDLL(str(folder / "k.so"))
    for name in ("word", "normal", "long_word", "long_normal"):
        getattr(found, name).restype = ctypes.c_longlong
    return found


def called(function: object, *numbers: int) -> int:
    return int(function(*(ctypes.c_longlong(number) for number in numbers)))  # type: ignore[operator]


def floats(both: list[int]) -> torch.Tensor:
    return torch.tensor(both).view(torch.float32)


def test_the_kernel_makes_the_words_of_the_cpu(compiled: ctypes.CDLL) -> None:
    stream, key = stream_number("noise"), DRAWS.key
    for row in range(len(DRAWS)):
        where = (int(DRAWS.draw[row]), int(DRAWS.sample[row]))
        found = [called(compiled.word, 0, column, *where, stream, *key) for column in range(11)]
        assert found == DRAWS.words(11, "noise")[row].tolist()


def test_the_kernels_first_word_is_the_published_one(compiled: ctypes.CDLL) -> None:
    assert called(compiled.word, *[0] * 7) == KNOWN_ANSWER
    assert not usable(CPU)


def test_the_kernel_makes_the_words_of_items(compiled: ctypes.CDLL) -> None:
    several = Draws(SEED, DRAWS.sample, DRAWS.draw, torch.tensor([0, 2, 5]))
    start, draw, sample = several.rows(3)
    found = [called(compiled.word, int(start[2]), column, int(draw[2]), int(sample[2]), 9, *several.key) for column in range(12)]
    literal = Draws(SEED, several.sample[2:], several.draw[2:]).words(72, "x")
    assert stream_number("x") != 9
    again = [
        called(compiled.word, int(start[2]), column, int(draw[2]), int(sample[2]), stream_number("x"), *several.key) for column in range(12)
    ]
    assert again == literal[0, 60:].tolist() != found


@pytest.mark.parametrize("count", [66, 131])
def test_the_kernel_makes_the_normal_numbers_of_the_cpu(compiled: ctypes.CDLL, count: int) -> None:
    pairs, expected = -(-count // 2), DRAWS.normal(count, stream="noise")
    where = (int(DRAWS.draw[1]), int(DRAWS.sample[1]), stream_number("noise"), *DRAWS.key, pairs)
    found = floats([called(compiled.normal, 0, column, *where) for column in range(pairs)])
    assert (found[:count] - expected[1]).abs().max() < 1e-6


def test_the_kernel_makes_the_long_row_of_the_cpu(compiled: ctypes.CDLL) -> None:
    key = key_of("weights", 3)
    halves = signed(key % 2**64), signed(key >> 64)
    assert [called(compiled.long_word, column, *halves) for column in range(9)] == words_on_cpu(key, 0, 3, CPU)[:9].tolist()
    found = floats([called(compiled.long_normal, column, *halves, 50) for column in range(50)])
    assert (found - long_normal(100, "weights", 3, device=CPU)).abs().max() < 1e-6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_makes_the_numbers_of_the_cpu() -> None:
    there = DRAWS.to(GPU)
    assert torch.equal(there.words(4001, "x").cpu(), DRAWS.words(4001, "x"))
    assert torch.equal(there.subsets(5000, 300, stream="x").cpu(), DRAWS.subsets(5000, 300, stream="x"))
    assert (there.normal(4001, stream="x").cpu() - DRAWS.normal(4001, stream="x")).abs().max() < 2e-6
    assert (long_normal(10001, "x", device=GPU).cpu() - long_normal(10001, "x", device=CPU)).abs().max() < 2e-6
    assert cuda_random.words(*there.rows(1), 3, 5, there.key).shape == (3, 3)
