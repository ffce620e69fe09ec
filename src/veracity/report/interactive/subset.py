"""Some samples of an orbit evaluation, numbered from 0, seen as an evaluation of their own; its tables stay those of all samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veracity.orbits import OrbitResult
from veracity.orbits.reduction import embed

Floats = NDArray[np.float32]
Array = NDArray[Any]


@dataclass(frozen=True)
class Subset:
    """The samples of `whole` with these `numbers`; everything that is not about single samples is that of the whole."""

    whole: OrbitResult
    numbers: NDArray[np.int64]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(self.numbers)

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The group of each sample."""
        return None if self.whole.labels is None else self.whole.labels[self.numbers]

    @property
    def truth_classes(self) -> NDArray[np.int64] | None:
        """The true class of each sample."""
        return None if self.whole.truth_classes is None else self.whole.truth_classes[self.numbers]

    @property
    def notes(self) -> Sequence[str]:
        """The run's notes, after a note on how many samples the file holds."""
        count, of = self.samples, self.whole.samples
        if count == of:
            return self.whole.notes
        how = "" if self.whole.labels is None else ", in the proportions of the classes"
        return [
            f"This file holds {count:,} of {of:,} samples, chosen at random{how}. "
            "Plots are of these; the table, the gaps and the agreement are of all.",
            *self.whole.notes,
        ]

    def values(self, model: str, metric: str, reference: str = "truth") -> Floats:
        """A metric along the orbits of these samples."""
        return self.whole.values(model, metric, reference)[self.numbers]

    def outputs(self, model: str, sample: int) -> Mapping[str, Array]:
        """What is looked at of one model's outputs for one of these samples."""
        return self.whole.outputs(model, int(self.numbers[sample]))

    def picture(self, sample: int) -> Mapping[str, Array]:
        """What is drawn of one of these samples."""
        return self.whole.picture(int(self.numbers[sample]))

    def frames(self, sample: int) -> Array | None:
        """One of these samples' input at every element."""
        return self.whole.frames(int(self.numbers[sample]))

    def thumbnails(self) -> Array | None:
        """Small pictures of these samples."""
        found = self.whole.thumbnails()
        return None if found is None else found[self.numbers]

    def reduce(self, metric: str, method: str = "pca", reference: str = "truth") -> Floats:
        """These orbits as points of one plane: an embedding of their own, unless they are all."""
        if self.samples == self.whole.samples:
            return self.whole.reduce(metric, method, reference)
        stack = np.concatenate([self.values(model, metric, reference) for model in self.models])
        points = embed(stack, method, int(self.manifest["seed"]), len(self.models))
        return points.reshape(len(self.models), self.samples, 2)
