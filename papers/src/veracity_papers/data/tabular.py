"""Tables: numbers in named columns, one class per row.

Four tables are OpenXAI's (Agarwal et al. 2022), in its own splits. Categories are already 0 and 1 there. Every column is scaled
to [0, 1] by the training rows, which is what OpenXAI's models were trained on; a test row may lie outside.

Avila (De Stefano et al. 2018) has 10 measures of the layout of a medieval Bible's pages, and which of 12 copyists wrote them.
Values are as published, where each feature already has mean 0 and deviation 1 over all 20,867 rows. One training row was
published in other units (the upper margin is 386); it is not removed. Class B has five rows in either split.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError, unknown
from veracity.core.inputs import TensorInputs
from veracity_papers.data import files
from veracity_papers.data.labelled import Labelled, check_split

ORIGIN = "github.com/AI4LIFE-GROUP/OpenXAI"
CLASSES = {
    "adult": ("up to 50K", "above 50K"),
    "compas": ("high risk", "low or medium risk"),
    "german": ("bad credit", "good credit"),
    "heloc": ("bad", "good"),
}


@dataclass(frozen=True)
class Table:
    """Values (N, F), labels (N,), and the names of the F features and of the classes.

    >>> table = Table(torch.eye(2), torch.tensor([0, 1]), ("age", "income"), ("no", "yes"))
    >>> len(table), table.labelled.inputs.shape
    (2, torch.Size([2]))
    """

    values: Tensor
    labels: Tensor
    features: tuple[str, ...]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def labelled(self) -> Labelled:
        """The rows as samples with labels, without the names."""
        return Labelled(TensorInputs(self.values), self.labels)


def adult(split: str = "test") -> Table:
    """Adults of the 1994 census (Becker and Kohavi 1996), 13 features, whether they earn above 50K: 36,177 and 9,045 rows."""
    return openxai("adult", split)


def compas(split: str = "test") -> Table:
    """Defendants (ProPublica 2016), 7 features, and the risk that a tool ascribed to them: 4,937 and 1,235 rows."""
    return openxai("compas", split)


def german(split: str = "test") -> Table:
    """Credits of a German bank (Hofmann 1994), 60 features, whether they were paid back: 800 and 200 rows."""
    return openxai("german", split)


def heloc(split: str = "test") -> Table:
    """Home equity lines of credit (FICO 2018), 23 features, whether they were paid in time: 7,896 and 1,975 rows."""
    return openxai("heloc", split)


def openxai(name: str, split: str = "test") -> Table:
    """One of the four tables by name, scaled by its training rows."""
    if name not in CLASSES:
        raise unknown("table", name, CLASSES)
    check_split(split)
    features, train = columns(name, "train")
    rows = train if split == "train" else columns(name, split)[1]
    values = rescale(rows[:, :-1], train[:, :-1])
    return Table(torch.from_numpy(values), torch.from_numpy(rows[:, -1]).long(), features, CLASSES[name])


def columns(name: str, split: str) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """The features' names, and the rows (N, F + 1) whose last column is the label."""
    path = files.find(f"openxai_tabular/{name}-{split}.csv", ORIGIN)
    with path.open(encoding="utf-8") as lines:
        *features, _ = next(lines).strip().split(",")
        rows = np.loadtxt(lines, delimiter=",", ndmin=2)
    if rows.shape[1] != len(features) + 1:
        raise InputError(f"{path} has {rows.shape[1]} columns of numbers, but its first line names {len(features) + 1}.")
    return tuple(features), rows


def rescale(rows: NDArray[np.float64], train: NDArray[np.float64]) -> NDArray[np.float32]:
    """Each column (N, F) less the training rows' minimum, over their range; a column that is constant there is only moved.

    >>> rescale(np.array([[5.0, 7.0]]), np.array([[1.0, 6.0], [3.0, 6.0]]))
    array([[2., 1.]], dtype=float32)
    """
    low, high = train.min(axis=0), train.max(axis=0)
    return np.asarray((rows - low) / np.where(high > low, high - low, 1.0), dtype=np.float32)


AVILA_ORIGIN = "archive.ics.uci.edu/dataset/459/avila"
AVILA_FILES = {"train": "avila/avila-tr.txt", "test": "avila/avila-ts.txt"}
COPYISTS = tuple("ABCDEFGHIWXY")
AVILA_FEATURES = (
    "intercolumnar distance", "upper margin", "lower margin", "exploitation", "row number", "modular ratio", "interlinear spacing",
    "weight", "peak number", "modular ratio / interlinear spacing",
)  # fmt: skip


def avila(split: str = "test") -> Table:
    """Values (N, 10), as published, and labels (N,) 0..11 for the classes A to Y: 10,430 and 10,437 rows."""
    path = files.find(AVILA_FILES[check_split(split)], AVILA_ORIGIN)
    try:
        rows = np.loadtxt(path, delimiter=",", converters={len(AVILA_FEATURES): lambda letter: COPYISTS.index(letter.strip())}, ndmin=2)
    except ValueError as error:
        raise InputError(
            f"{path} holds a row that is not {len(AVILA_FEATURES)} numbers and one of the letters {''.join(COPYISTS)}."
        ) from error
    return Table(torch.from_numpy(rows[:, :-1]).float(), torch.from_numpy(rows[:, -1]).long(), AVILA_FEATURES, COPYISTS)


UCI_ORIGIN = "archive.ics.uci.edu/dataset/2/adult"
UCI_FILES = {"train": "adult_uci/adult.data.gz", "test": "adult_uci/adult.test.gz"}
UCI_LEFT_OUT = ("fnlwgt", "education")
"""The weight of a row in the census, which says nothing about the person, and the school years in words; they stay as a number."""


def adult_frame(split: str = "test") -> tuple[pd.DataFrame, Tensor]:
    """Adults of the 1994 census as published, 12 columns of which 7 hold categories, and whether they earn above 50K (N,).

    32,561 and 16,281 rows. What is not known is a category of its own, "?".
    """
    path = files.find(UCI_FILES[check_split(split)], UCI_ORIGIN)
    frame = pd.read_csv(path, skipinitialspace=True, keep_default_na=False)
    lacking = next((name for name in (*UCI_LEFT_OUT, "income") if name not in frame.columns), None)
    if lacking is not None:
        raise InputError(f"{path} has no column '{lacking}': its first line must name the columns, such as age and income.")
    labels = torch.from_numpy(frame.pop("income").str.startswith(">").to_numpy(copy=True)).long()
    return frame.drop(columns=list(UCI_LEFT_OUT)), labels
