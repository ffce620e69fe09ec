"""Folds of a data set, and the space of the models that were each trained without one fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.randomness import seeded
from veracity.core.registry import SPACES
from veracity.core.settings import Within
from veracity.core.spaces import TrainingSpace


@SPACES.add
@dataclass(frozen=True, kw_only=True)
class Folds(TrainingSpace):
    """Models that were each trained without one of k disjoint folds (section 3.3).

    The model of a sample in fold i is f_i, which was not trained on it. Element d = 0 .. k - 2 replaces it by the model of fold
    (i + 1 + d) mod k; these models were trained on the sample. All samples share the same models, so draws are crossed with samples.

    >>> Folds(k=5).order, Folds(k=5).unrank(torch.tensor([3])).tolist()
    (4, [[3]])
    """

    name = "folds"
    reference = "Fel, Vigouroux, Cadène and Serre, How good is your explanation? (WACV 2022), section 3.3"
    k: Annotated[int, Within(least=2)] = 5

    @property
    def order(self) -> int:
        """The other k - 1 models."""
        return self.k - 1

    def unrank(self, index: Tensor) -> Tensor:
        """Offsets of the fold, minus 1, (N, 1)."""
        return index.reshape(-1, 1)


def members(folds: Any, labels: Tensor, seed: int = 0) -> Tensor:
    """The fold (n,) of each sample, from 0 to k - 1.

    `folds` is the number of folds, stratified by class and shuffled by the seed; or a scikit-learn splitter, whose test parts are the
    folds; or the folds themselves (n,). Raises unless every sample lies in exactly one fold.

    >>> members(2, torch.tensor([0, 0, 1, 1])).bincount().tolist()
    [2, 2]
    """
    if isinstance(folds, (int, np.integer)) and not isinstance(folds, bool):
        return stratify(int(folds), labels, seed)
    if hasattr(folds, "split") and not isinstance(folds, (str, Tensor)):
        return split_by(folds, labels, seed)
    return check_folds(folds, len(labels))


def stratify(k: int, labels: Tensor, seed: int) -> Tensor:
    """k folds whose sizes, and whose counts of each class, differ by at most one: shuffled samples are dealt out class by class."""
    if not 2 <= k <= len(labels):
        raise InputError(f"{len(labels)} samples cannot be cut into {k} folds: choose from 2 to {len(labels)}.")
    classes, counts = labels.unique(return_counts=True)
    if int(counts.min()) < 2:
        rare = classes[counts.argmin()].item()
        raise InputError(f"Class {rare} has a single sample, so one model would never see the class: leave such classes out.")
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    order = shuffled[labels[shuffled].argsort(stable=True)]
    found = torch.empty(len(labels), dtype=torch.long)
    found[order] = torch.arange(len(labels)) % k
    return found


def split_by(splitter: Any, labels: Tensor, seed: int) -> Tensor:
    """The test parts of a splitter as folds; the seed counts if the splitter shuffles without its own."""
    size = len(labels)
    try:
        with seeded(seed):
            parts = [np.asarray(test) for _, test in splitter.split(np.arange(size)[:, None], labels.numpy())]
    except (TypeError, ValueError) as error:
        raise InputError(f"The splitter {type(splitter).__name__} cannot cut {size} samples: {' '.join(str(error).split())}") from error
    total = np.concatenate([*parts, np.zeros(0, dtype=np.int64)])
    if len(parts) < 2 or len(total) != size or len(np.unique(total)) != size:
        raise InputError(
            f"The test parts of {type(splitter).__name__} must be at least two disjoint folds that hold every sample once: use KFold or "
            "StratifiedKFold, or give the fold of each sample."
        )
    found = torch.empty(size, dtype=torch.long)
    for number, part in enumerate(parts):
        found[torch.as_tensor(part)] = number
    return found


def check_folds(folds: Any, size: int) -> Tensor:
    """The fold of each sample as the user gave it, as int64 (n,); raises if it is invalid."""
    if isinstance(folds, (list, tuple)) and not all(isinstance(one, (int, np.integer)) for one in folds):
        what = ", ".join(sorted({type(one).__name__ for one in folds}))
        raise InputError(f"The folds must be one whole number for each of the {size} samples, or a splitter itself, not a list of {what}.")
    try:
        found = torch.as_tensor(folds)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"folds=... is a number of folds, a splitter, or the fold of each sample, not {type(folds).__name__}.") from error
    if found.is_floating_point() or found.dtype is torch.bool or found.shape != (size,):
        raise InputError(f"The folds must be one whole number for each of the {size} samples, not {found.dtype} {tuple(found.shape)}.")
    found = found.cpu().long()
    if int(found.min()) < 0 or len(found.unique()) != int(found.max()) + 1 or int(found.max()) < 1:
        raise InputError(
            f"The folds must be numbered 0 to k - 1, none of them empty, k at least 2, not {sorted(set(found.tolist()))[:12]}."
        )
    return found


def check_classes(folds: Tensor, labels: Tensor) -> None:
    """Raise if there is only one class, or if all samples of a class lie in one fold."""
    classes, place = labels.unique(return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"All {len(labels)} samples are of class {classes[0].item()}: training needs at least two classes.")
    table = torch.zeros(int(folds.max()) + 1, len(classes), dtype=torch.long)
    table.index_put_((folds, place), torch.ones_like(folds), accumulate=True)
    alone = (table == table.sum(0)).nonzero()
    if len(alone):
        fold, where = alone[0].tolist()
        raise InputError(
            f"Every sample of class {classes[where].item()} lies in fold {fold}, so the model trained without this fold never sees the "
            "class: use stratified folds (folds=5), or fewer of them."
        )
