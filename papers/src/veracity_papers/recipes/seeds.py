"""Results of one audit under several seeds, read together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from veracity.results import Result
from veracity.statistics.crossed import crossed_interval
from veracity.statistics.intervals import Interval

Values = NDArray[np.float64]


def over_seeds(results: Sequence[Result], score: str, explainer: str) -> Values:
    """Values (samples, seeds) of an explainer; NaN where undefined."""
    columns = [result.samples(score, explainer=explainer).set_index("sample")["value"] for result in results]
    return pd.concat(columns, axis=1).sort_index().to_numpy(dtype=np.float64)


def paired_over_seeds(results: Sequence[Result], score: str, first: str, second: str) -> Interval:
    """The mean difference of two explainers, with an interval that allows for other samples and other seeds.

    A seed moves all samples together, as a draw that they share does, so five seeds give a wide interval however many samples
    there are.
    """
    return crossed_interval(over_seeds(results, score, first) - over_seeds(results, score, second))
