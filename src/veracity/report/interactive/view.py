"""What the interface reads: an orbit evaluation, seen as arrays and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from veracity.engine.store.state import Progress

Floats = NDArray[np.float32]
Array = NDArray[Any]


class OrbitView(Protocol):
    """An orbit evaluation of N samples and K elements, as the interface sees it; values need all models on all samples."""

    @property
    def path(self) -> str:
        """The run's folder."""
        ...

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What was run: title, created, about, seed, models, orbit, task, metrics, explainers, groups, input."""
        ...

    @property
    def progress(self) -> Progress:
        """How far the evaluation has come."""
        ...

    @property
    def complete(self) -> bool:
        """Whether every model is measured on every sample."""
        ...

    def standing(self) -> pd.DataFrame:
        """One row per model and explainer: state, cells, cells_measured, cells_failed, failed."""
        ...

    @property
    def models(self) -> Sequence[str]:
        """The models' names, in the order in which they were given."""
        ...

    @property
    def samples(self) -> int:
        """N."""
        ...

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """Which group each sample counts to, (N,); None where there are none."""
        ...

    @property
    def truth_classes(self) -> NDArray[np.int64] | None:
        """Which class each sample truly has, (N,); None where models do not classify, or no truth is known."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a reader must know, in sentences."""
        ...

    def values(self, model: str, metric: str, reference: str = "truth") -> Floats:
        """A metric along every sample's orbit, (N, K)."""
        ...

    def outputs(self, model: str, sample: int) -> Mapping[str, Array]:
        """What is looked at of one model's outputs for one sample: outputs, consensus, errors, consensus_errors, quiver, missing."""
        ...

    def picture(self, sample: int) -> Mapping[str, Array]:
        """What is drawn of one sample: input, and truth where it is drawn."""
        ...

    def frames(self, sample: int) -> Array | None:
        """One sample's input at every element, as it is drawn; None where the interface moves it itself."""
        ...

    def thumbnails(self) -> Array | None:
        """Small square pictures of all samples, uint8 (N, S, S, C), or None."""
        ...

    def table(self) -> pd.DataFrame:
        """One row a model, metric and reference: value, low, high, identity, worst, worst_at."""
        ...

    def gap(self) -> pd.DataFrame:
        """One row a model: value, low, high, n, undefined."""
        ...

    def agreement(self) -> pd.DataFrame:
        """One row a model and metric: correlation, low, high, n, undefined, aggregate."""
        ...

    def reduce(self, metric: str, method: str = "pca", reference: str = "truth") -> Floats:
        """All models' orbits as points of one plane, (models, N, 2)."""
        ...

    def failures(self) -> pd.DataFrame:
        """What could not be measured, and why: model, explainer, samples, error."""
        ...


class MovedView(Protocol):
    """What every model says about one moved input, as the interface sees it."""

    @property
    def label(self) -> str:
        """What the transform is called."""
        ...

    @property
    def input(self) -> Array | None:
        """The moved input as it is drawn, for images and series."""
        ...

    @property
    def outputs(self) -> Mapping[str, Array]:
        """By model, what the task reads."""
        ...

    @property
    def metrics(self) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
        """By model, metric and reference, the value."""
        ...

    @property
    def truth_class(self) -> int | None:
        """The class that the sample truly has; None where models do not classify, or no truth is known."""
        ...

    @property
    def errors(self) -> Mapping[str, Array]:
        """By model, end-point errors (64, 64) of a flow against the truth, or against the consensus where there is none."""
        ...

    @property
    def consensus_errors(self) -> Mapping[str, Array]:
        """By model, end-point errors (64, 64) of a flow against the consensus."""
        ...

    @property
    def quiver(self) -> Mapping[str, Array]:
        """By model, arrows (2, 16, 16) of a flow."""
        ...

    @property
    def attributions(self) -> Mapping[str, Array]:
        """By model, the map (H, W) of the explainer that was asked for."""
        ...
