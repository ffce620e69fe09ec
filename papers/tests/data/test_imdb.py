from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch

from veracity_papers.data.imdb import imdb, token_ids, vocabulary, words

TRAIN = [("A good film, a GOOD film.<br />Good!", 1), ("Bad film; 3 stars", 0)]
TEST = [("good zebra film a terrible", 0)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "imdb").mkdir()
    for split, rows in (("train", TRAIN), ("test", TEST)):
        with gzip.open(tmp_path / "imdb" / f"imdb_{split}_5000.jsonl.gz", "wt") as file:
            file.writelines(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    return tmp_path


def test_the_vocabulary_is_the_training_sets_and_other_words_are_skipped(folder: Path) -> None:
    train, test = (imdb(split, length=4, size=4) for split in ("train", "test"))
    # Film and good occur three times, a twice, bad and stars once: bad comes first in the alphabet.
    assert train.inputs.ids.tolist() == [[2, 1, 0, 2], [3, 0, -1, -1]]
    assert test.inputs.ids.tolist() == [[1, 0, 2, -1]]
    assert train.labels.tolist() == [1, 0]
    assert test.inputs.shape == (4, 4)
    assert train.concepts["good"].tolist() == [True, False]
    assert train.concepts["bad"].tolist() == [False, True]


def test_a_concept_is_a_word_that_the_model_can_see(folder: Path) -> None:
    # "terrible" is in the test review but not in the vocabulary; "good" is cut off at length 0 and in sight at 1.
    test = imdb("test", length=4, size=4)
    assert test.concepts["terrible"].tolist() == [False]
    assert imdb("train", length=1, size=4).concepts["good"].tolist() == [False, False]
    assert imdb("train", length=2, size=4).concepts["good"].tolist() == [True, False]


def test_numbering_against_words() -> None:
    texts = [words("the cat and the dog"), words("dog")]
    known = vocabulary(texts, 3)
    assert known == {"dog": 0, "the": 1, "and": 2}
    assert token_ids(texts, known, 3).tolist() == [[1, 2, 1], [0, -1, -1]]
    assert token_ids([[]], known, 2).dtype == torch.int64
