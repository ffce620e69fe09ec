"""Texts with two classes: sentences of film reviews (SST-2, Socher et al. 2013) and short messages (SMS Spam, Almeida et al. 2011)."""

from __future__ import annotations

import csv

from torch import Tensor, tensor

from veracity_papers.data import files
from veracity_papers.data.labelled import check_split

SST2, SMS = "sst2/{}.tsv", "sms_spam/SMSSpamCollection"
SST2_ORIGIN = "github.com/clairett/pytorch-sentiment-classification (train.tsv, dev.tsv)"
SMS_ORIGIN = "archive.ics.uci.edu/dataset/228/sms+spam+collection"
EVERY = 5
"""Every fifth message is held out, as when the networks were trained."""


def sst2(split: str = "test") -> tuple[list[str], Tensor]:
    """Sentences in lower case, and whether they are positive (N,). The test split is the published "dev" split."""
    check_split(split)
    path = files.find(SST2.format("dev" if split == "test" else split), SST2_ORIGIN)
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if len(row) == 2 and {*row} & {"0", "1"}]
    first = rows[0][0] in ("0", "1")  # the label may be the first or the last column
    return [row[first].strip() for row in rows], tensor([int(row[not first]) for row in rows])


def sms(split: str = "test") -> tuple[list[str], Tensor]:
    """Messages, and whether they are spam (N,)."""
    check_split(split)
    lines = files.find(SMS, SMS_ORIGIN).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t", 1) for line in lines if "\t" in line]
    kept = [pair for number, pair in enumerate(pairs) if (number % EVERY == 0) == (split == "test")]
    return [text for _, text in kept], tensor([int(kind == "spam") for kind, _ in kept])


def balanced(data: tuple[list[str], Tensor], count: int, *, longest: int = 30) -> tuple[list[str], Tensor]:
    """The first texts of at most `longest` words, as many of each class."""
    texts, labels = data
    kept = [row for row, text in enumerate(texts) if 1 < len(text.split()) <= longest]
    classes = sorted(set(labels.tolist()))
    each = [[row for row in kept if int(labels[row]) == one][: -(-count // len(classes))] for one in classes]
    rows = sorted(row for part in each for row in part)[:count]
    return [texts[row] for row in rows], labels[rows]
