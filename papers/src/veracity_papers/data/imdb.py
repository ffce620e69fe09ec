"""Film reviews of IMDb (Maas et al. 2011), negative (0) or positive (1): 5,000 for training and 5,000 for testing.

They are a balanced random part of the published 25,000 and 25,000, and keep the published split. A review is its first 128
words out of a vocabulary of the 1,000 most frequent words of the training reviews; other words are skipped, and a
review with fewer is filled up with -1, which stands for no token.
"""

from __future__ import annotations

import gzip
import json

import torch

from veracity.core.inputs import TokenInputs
from veracity_papers.data import files
from veracity_papers.data.labelled import Labelled, check_split
from veracity_papers.data.words import numbered, vocabulary, words

ORIGIN = "ai.stanford.edu/~amaas/data/sentiment (a subset as lines of JSON with label and text)"
CLASSES = ("negative", "positive")
CONCEPTS = ("good", "bad", "excellent", "terrible")
LENGTH, VOCABULARY = 128, 1000


def imdb(split: str = "test", length: int = LENGTH, size: int = VOCABULARY) -> Labelled:
    """Token numbers (N, length), shown to models as one-hot rows (N, length, size), labels, and four words as concepts.

    A review shows a concept if the word is among its tokens, that is, where a model can see it.
    """
    check_split(split)
    train, _ = reviews("train")
    known = vocabulary(train, size)
    texts, labels = (train, _) if split == "train" else reviews(split)
    ids = numbered(texts, known, length)
    concepts = {word: (ids == known.get(word, size)).any(dim=1) for word in CONCEPTS}
    return Labelled(TokenInputs(ids, size), labels, concepts)


def reviews(split: str) -> tuple[list[list[str]], torch.Tensor]:
    """Each review's words, and the labels (N,)."""
    with gzip.open(files.find(f"imdb/imdb_{split}_5000.jsonl.gz", ORIGIN), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [words(row["text"]) for row in rows], torch.tensor([int(row["label"]) for row in rows])


def spelled(ids: torch.Tensor, size: int = VOCABULARY) -> list[str]:
    """A review's tokens as words, for a reader; ids (T,)."""
    known = list(vocabulary(reviews("train")[0], size))
    return [known[number] for number in ids.tolist() if number >= 0]
