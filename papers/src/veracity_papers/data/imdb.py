"""Film reviews of IMDb (Maas et al. 2011) as token numbers, negative (0) or positive (1): 5,000 for training and 5,000 for testing.

They are a balanced random part of the published 25,000 and 25,000, in the published split. A review is its first 128 words out of
a vocabulary of the 1,000 most frequent words of the training reviews, in lower case. Other words are skipped, and shorter reviews
are filled up with -1, which means no token.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from veracity.core.inputs import TokenInputs
from veracity_papers.data import files
from veracity_papers.data.labelled import Labelled, check_split


def words(text: str) -> list[str]:
    """A text's words in lower case, without markup, numbers and punctuation.

    >>> words("It's GREAT!<br />Really, 10/10.")
    ["it's", 'great', 'really']
    """
    return re.findall(r"[a-z]+(?:'[a-z]+)*", re.sub(r"<[^>]*>", " ", text).lower())


def vocabulary(texts: Iterable[Sequence[str]], size: int) -> dict[str, int]:
    """The most frequent words and their numbers, 0 for the most frequent; words that are as frequent stand in alphabetical order.

    >>> vocabulary([["b", "a"], ["b", "c"]], size=2)
    {'b': 0, 'a': 1}
    """
    counts = Counter(word for text in texts for word in text)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:size]
    return {word: number for number, word in enumerate(frequent)}


def token_ids(texts: Sequence[Sequence[str]], known: dict[str, int], length: int) -> Tensor:
    """The first `length` known words of each text as numbers (N, length), then -1; unknown words are skipped.

    >>> token_ids([["b", "x", "a"]], {"b": 0, "a": 1}, length=3)
    tensor([[ 0,  1, -1]])
    """
    ids = torch.full((len(texts), length), -1)
    for row, text in enumerate(texts):
        kept = [known[word] for word in text if word in known][:length]
        ids[row, : len(kept)] = torch.tensor(kept, dtype=torch.int64)
    return ids


ORIGIN = "ai.stanford.edu/~amaas/data/sentiment (a subset as lines of JSON with label and text)"
CLASSES = ("negative", "positive")
CONCEPTS = ("good", "bad", "excellent", "terrible")
LENGTH, VOCABULARY = 128, 1000


def imdb(split: str = "test", length: int = LENGTH, size: int = VOCABULARY) -> Labelled:
    """Token numbers (N, length), shown to models as one-hot rows (N, length, size), labels, and four words as concepts.

    A review shows a concept if the word is among its tokens, that is, where a model can see it.
    """
    check_split(split)
    train = reviews("train")
    known = vocabulary(train[0], size)
    texts, labels = train if split == "train" else reviews(split)
    ids = token_ids(texts, known, length)
    concepts = {word: (ids == known.get(word, size)).any(dim=1) for word in CONCEPTS}
    return Labelled(TokenInputs(ids, size), labels, concepts)


def reviews(split: str) -> tuple[list[list[str]], Tensor]:
    """Each review's words, and the labels (N,)."""
    texts, labels = imdb_texts(split)
    return [words(text) for text in texts], labels


def imdb_texts(split: str = "test") -> tuple[list[str], Tensor]:
    """The reviews as they were written, with a space in the place of markup, and the labels (N,)."""
    check_split(split)
    with gzip.open(files.find(f"imdb/imdb_{split}_5000.jsonl.gz", ORIGIN), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [re.sub(r"<[^>]*>", " ", row["text"]) for row in rows], torch.tensor([int(row["label"]) for row in rows])
