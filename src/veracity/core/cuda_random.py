"""Random numbers on an NVIDIA GPU, one kernel each; `randomness.py` and `long_rows.py` say what they are.

Torch compiles them when they are first called. Where it cannot, torch's own operations make the same words with a hundred kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

WORD = """
template <typename T> T philox_word(T start, T column, T draw, T sample, T stream, T key0, T key1) {
  unsigned int c0 = (unsigned int)(start + (column >> 2)), c1 = (unsigned int)draw, c2 = (unsigned int)sample, c3 = (unsigned int)stream;
  unsigned int k0 = (unsigned int)key0, k1 = (unsigned int)key1;
  for (int round = 0; round < 10; ++round) {
    unsigned int high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    unsigned int high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0; c1 = low1; c2 = high0 ^ c3 ^ k1; c3 = low0;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  int which = (int)(column & 3);
  return (T)(which == 0 ? c0 : which == 1 ? c1 : which == 2 ? c2 : c3);
}
"""
LONG_WORD = """
template <typename T> T philox_long_word(T column, T key0, T key1) {
  unsigned long long c0 = (unsigned long long)(1 + (column >> 2)), c1 = 0, c2 = 0, c3 = 0;
  unsigned long long k0 = (unsigned long long)key0, k1 = (unsigned long long)key1;
  for (int round = 0; round < 10; ++round) {
    unsigned long long high0 = __umul64hi(0xD2E7470EE14C6C93ull, c0), low0 = 0xD2E7470EE14C6C93ull * c0;
    unsigned long long high1 = __umul64hi(0xCA5A826395121157ull, c2), low1 = 0xCA5A826395121157ull * c2;
    c0 = high1 ^ c1 ^ k0; c1 = low1; c2 = high0 ^ c3 ^ k1; c3 = low0;
    k0 += 0x9E3779B97F4A7C15ull; k1 += 0xBB67AE8584CAA73Bull;
  }
  int which = (int)(column & 3);
  return (T)(which == 0 ? c0 : which == 1 ? c1 : which == 2 ? c2 : c3);
}
"""
BOX_MULLER = """
template <typename T> T box_muller(T radius_word, T angle_word, T sine) {
  float u = ((float)radius_word + 0.5f) / 4294967296.0f, v = ((float)angle_word + 0.5f) / 4294967296.0f * 6.283185307179586f;
  float radius = sqrtf(-2.0f * logf(u));
  return (T)__float_as_uint(radius * (sine ? sinf(v) : cosf(v)));
}
"""
NORMAL = """
template <typename T> T philox_normal(T start, T column, T draw, T sample, T stream, T key0, T key1, T pairs) {
  T both = 0;
  #pragma unroll 1
  for (int one = 0; one < 2; ++one) {
    T number = 2 * column + one, sine = number >= pairs, place = sine ? number - pairs : number;
    T radius_word = philox_word<T>(start, place, draw, sample, stream, key0, key1);
    T angle_word = philox_word<T>(start, place + pairs, draw, sample, stream, key0, key1);
    both |= box_muller<T>(radius_word, angle_word, sine) << (32 * one);
  }
  return both;
}
"""
LONG_NORMAL = """
template <typename T> T philox_long_normal(T column, T key0, T key1, T pairs) {
  T both = 0;
  #pragma unroll 1
  for (int one = 0; one < 2; ++one) {
    T number = 2 * column + one, sine = number >= pairs;
    T word = philox_long_word<T>(sine ? number - pairs : number, key0, key1);
    both |= box_muller<T>((word >> 32) & 0xFFFFFFFFll, word & 0xFFFFFFFFll, sine) << (32 * one);
  }
  return both;
}
"""


@cache
def kernel(*parts: str) -> Callable[..., Tensor]:
    """The last function of the given CUDA code, as a function of int64 tensors that broadcast."""
    compiled: Any = torch.cuda.jiterator
    made: Callable[..., Tensor] = compiled._create_jit_fn("".join(parts))
    return made


@cache
def usable(device: torch.device) -> bool:
    """Whether these kernels run on a device: an NVIDIA GPU for which torch can compile code."""
    if device.type != "cuda":
        return False
    try:
        zero = torch.zeros(1, 1, dtype=torch.int64, device=device)
        return int(kernel(WORD)(*[zero] * 7)) == KNOWN_ANSWER
    except torch.OutOfMemoryError:  # says nothing about the kernels
        raise
    except RuntimeError:
        return False


KNOWN_ANSWER = 0x6627E8D5
"""The first word of Philox4x32-10 for a counter and a key of zeros."""


def number(value: int, like: Tensor) -> Tensor:
    """One int64 with the bits of an unsigned number, beside a tensor."""
    return torch.full((1, 1), value - 2**64 if value >= 2**63 else value, dtype=torch.int64, device=like.device)


def words(start: Tensor, draw: Tensor, sample: Tensor, count: int, stream: int, key: tuple[int, int]) -> Tensor:
    """`count` words of 32 bits for each row, whose first block, draw and sample are (N,); int64 (N, count)."""
    columns = torch.arange(count, device=sample.device)[None]
    rows = (start[:, None], columns, draw[:, None], sample[:, None])
    return kernel(WORD)(*rows, *(number(one, sample) for one in (stream, *key)))


def normal(start: Tensor, draw: Tensor, sample: Tensor, pairs: int, stream: int, key: tuple[int, int]) -> Tensor:
    """2 `pairs` standard normal numbers for each row, float32 (N, 2 pairs)."""
    columns = torch.arange(pairs, device=sample.device)[None]
    rows = (start[:, None], columns, draw[:, None], sample[:, None])
    return kernel(WORD, BOX_MULLER, NORMAL)(*rows, *(number(one, sample) for one in (stream, *key, pairs))).view(torch.float32)


def long_normal(pairs: int, key: int, device: torch.device) -> Tensor:
    """2 `pairs` standard normal numbers for a key below 2^128, float32 (2 pairs,)."""
    columns = torch.arange(pairs, device=device)[None]
    settings = (columns, number(key & (2**64 - 1), columns), number(key >> 64, columns), number(pairs, columns))
    return kernel(LONG_WORD, BOX_MULLER, LONG_NORMAL)(*settings).view(torch.float32)[0]
