"""Samples that belong together, such as the images of one patient: one pseudo-value per unit stands for all of its samples.

Samples of one unit are alike, so n samples of G units say less than n independent ones. A mean m over samples stays what it is. Its
uncertainty comes from what each unit does to it, the delete-one-unit jackknife: without unit g the mean is m_g, and

    u_g = m + (G - 1) (m - m_g) = m + (G - 1) (s_g - n_g m) / (n - n_g)

for a unit of n_g samples with the sum s_g. The standard error of m is that of the mean of the G values u_g, with G - 1 degrees of freedom.
If each sample is a unit of its own, u_g is its value, and everything is as it is without units. If all units have the same size, this is
the usual cluster-robust error. If one unit has most of the samples, the usual one is far too small, and this one is not.

References: Bell and McCaffrey, Bias reduction in standard errors for linear regression with multi-stage samples (Survey Methodology 2002);
MacKinnon, Nielsen and Webb, Fast and reliable jackknife and bootstrap methods for cluster-robust inference (J. Applied Econometrics 2023).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


def unit_values(values: Array, units: Codes) -> Array:
    """The pseudo-values (units,) of values (samples,), or (units, draws) of (samples, draws), each draw by itself; NaN is left out.

    `units` (samples,) are any whole numbers. A unit without a defined value is NaN, and so is a single unit.

    >>> unit_values(np.array([1.0, 3.0, 5.0, 5.0]), np.array([0, 0, 1, 2])).round(3).tolist()
    [0.5, 4.5, 4.5]
    >>> unit_values(np.array([1.0, 3.0, 5.0]), np.array([7, 8, 9])).tolist()
    [1.0, 3.0, 5.0]
    """
    names, place = np.unique(units, return_inverse=True)
    table = values if values.ndim == 2 else values[:, None]
    known = np.isfinite(table)
    centre = np.where(known, table, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    counts, moved = np.zeros((len(names), table.shape[1])), np.zeros((len(names), table.shape[1]))
    np.add.at(counts, place, known)
    np.add.at(moved, place, np.where(known, table - centre, 0.0))
    seen, others = (counts > 0).sum(axis=0), counts.sum(axis=0) - counts
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Array = np.where((counts > 0) & (others > 0), centre + (seen - 1) * moved / others, np.nan)
    return found if values.ndim == 2 else found[:, 0]


def by_unit(values: Array, units: Codes | None) -> Array:
    """The pseudo-values of units; the values themselves if there are no units."""
    return values if units is None else unit_values(values, units)


def independent(known: NDArray[np.bool_], units: Codes | None) -> int:
    """How many independent units have a defined sample: `known` (samples,) marks those; without units, the number of samples.

    >>> independent(np.array([True, True, False]), np.array([4, 4, 5])), independent(np.array([True, True, False]), None)
    (1, 2)
    """
    return int(known.sum()) if units is None else len(np.unique(units[known]))
