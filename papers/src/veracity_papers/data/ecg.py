"""Heartbeats of the MIT-BIH arrhythmia database (Moody and Mark 2001): one beat per sample, normal or not.

The symmetry paper's file has beats of 187 steps, of which only about 100 per class are available. These beats are cut from
the original recordings instead: lead MLII at 360 Hz, the 180 samples around each R peak, scaled to [0, 1] beat by beat.
Every fifth beat of each recording is for testing, so training and test beats come from the same people. The file of
training beats holds at most 3,000 per class.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import missing_extra
from veracity.core.inputs import TensorInputs
from veracity_papers.data import files
from veracity_papers.data.labelled import Labelled, check_split

ORIGIN = "physionet.org/content/mitdb (cut into beats: x (N, 180), y (N,) with the AAMI classes N, S, V, F, Q as 0..4)"
FILES = {"train": "mitdb_mlii_beats180_train_le3000perclass.npz", "test": "mitdb_mlii_beats180_test_full21018.npz"}
LENGTH = 180
CLASSES = ("normal", "abnormal")
CONCEPTS = {"supraventricular": 1, "premature ventricular": 2, "fusion": 3, "unknown": 4}


def ecg(split: str = "test", *, balanced: bool = True, seed: int = 0) -> Labelled:
    """Beats (N, 1, 180) in [0, 1], labels 0 (normal) and 1 (abnormal), and the kind of abnormal beat as concepts.

    `balanced` gives as many abnormal as normal training beats, the four abnormal kinds in equal shares: frequent kinds are
    thinned and rare ones filled up with synthetic beats (SMOTE, Chawla et al. 2002), both from a seed. Test beats are always
    as recorded.
    """
    with np.load(files.find(f"ecg_mitbih/{FILES[check_split(split)]}", ORIGIN)) as file:
        beats, kinds = rescale(file["x"]), file["y"].astype(np.int64)
    if balanced and split == "train":
        beats, kinds = rebalance(beats, kinds, seed)
    kind = torch.from_numpy(kinds)
    concepts: dict[str, Tensor] = {name: kind == number for name, number in CONCEPTS.items()}
    return Labelled(TensorInputs(torch.from_numpy(beats)[:, None]), (kind > 0).long(), concepts)


def rescale(beats: NDArray[np.int16]) -> NDArray[np.float32]:
    """Each beat (N, T) moved and stretched to [0, 1]; a flat one is all zero.

    >>> rescale(np.array([[2, 4, 3]], dtype=np.int16))
    array([[0. , 1. , 0.5]], dtype=float32)
    """
    low = beats.min(axis=1, keepdims=True).astype(np.float32)
    span = beats.max(axis=1, keepdims=True).astype(np.float32) - low
    return np.asarray((beats - low) / np.where(span > 0, span, 1), dtype=np.float32)


def rebalance(beats: NDArray[np.float32], kinds: NDArray[np.int64], seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """All normal beats, and of each abnormal kind a quarter as many: drawn, or made between recorded neighbours of the same kind."""
    if find_spec("imblearn") is None:
        raise missing_extra("imbalanced-learn", "ecg", "veracity-papers")
    from imblearn.over_sampling import SMOTE
    from imblearn.under_sampling import RandomUnderSampler

    counts = {int(kind): int((kinds == kind).sum()) for kind in CONCEPTS.values()}
    share = int((kinds == 0).sum()) // len(counts)
    thin = RandomUnderSampler(sampling_strategy={kind: min(count, share) for kind, count in counts.items()}, random_state=seed)
    fill = SMOTE(sampling_strategy=dict.fromkeys(counts, share), random_state=seed)
    beats, kinds = fill.fit_resample(*thin.fit_resample(beats, kinds))
    return beats.astype(np.float32), kinds.astype(np.int64)
