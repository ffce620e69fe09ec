"""Texts as token numbers: words in lower case, the most frequent of a training set as vocabulary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
MARKUP = re.compile(r"<[^>]*>")


def words(text: str) -> list[str]:
    """A text's words in lower case, without markup, numbers and punctuation.

    >>> words("It's GREAT!<br />Really, 10/10.")
    ["it's", 'great', 'really']
    """
    return WORD.findall(MARKUP.sub(" ", text).lower())


def vocabulary(texts: Iterable[Sequence[str]], size: int) -> dict[str, int]:
    """The most frequent words and their numbers, 0 for the most frequent; words that are as frequent stand in alphabetical order.

    >>> vocabulary([["b", "a"], ["b", "c"]], size=2)
    {'b': 0, 'a': 1}
    """
    counts = Counter(word for text in texts for word in text)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:size]
    return {word: number for number, word in enumerate(frequent)}


def numbered(texts: Sequence[Sequence[str]], known: dict[str, int], length: int) -> Tensor:
    """The first `length` known words of each text as numbers (N, length), then -1; unknown words are skipped.

    >>> numbered([["b", "x", "a"]], {"b": 0, "a": 1}, length=3)
    tensor([[ 0,  1, -1]])
    """
    ids = torch.full((len(texts), length), -1)
    for row, text in enumerate(texts):
        kept = [known[word] for word in text if word in known][:length]
        ids[row, : len(kept)] = torch.tensor(kept, dtype=torch.int64)
    return ids
