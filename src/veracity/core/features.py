"""What the values of a sample mean, if the data set knows: names, groups of values, scales, and a reference sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.errors import InputError, unknown
from veracity.core.inputs import Inputs, TensorInputs, is_streamed, whole
from veracity.core.randomness import Draws

CENTRES = ("reference", "mean", "median")
"""Reference samples that are made from the columns of a table."""
MOST = 10_000
"""Of a data set that is not held in memory, how many samples, the first ones, say what usual values are."""
DRAWN = 1000
"""The most samples of a background that values are drawn from; every job of a run carries them."""
CLOSE = 0.01
"""Two baselines are the same within this share of a column's standard deviation."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """The features of samples with d values.

    names        one per feature
    groups       the feature of each value, (d,): the one-hot columns of a category are one feature
    categorical  which values are categories and not amounts, (d,); noise leaves them as they are
    scales       the unit of noise on each value, (d,): its standard deviation, and 0 for categories
    background   samples (B, d) that scales and reference values come from
    named        whether the names are the data's own
    own          whether the background is the audited inputs themselves

    >>> table = Features.measured(torch.tensor([[1.0, 1.0, 0.0], [3.0, 1.0, 0.0], [5.0, 0.0, 1.0]]), groups=torch.tensor([0, 1, 1]))
    >>> table.centre("reference"), table.names
    (tensor([3., 1., 0.]), ('feature 0', 'feature 1'))
    """

    names: tuple[str, ...]
    groups: Tensor
    categorical: Tensor
    scales: Tensor
    background: Tensor
    named: bool = False
    own: bool = False

    @classmethod
    def measured(
        cls,
        background: Tensor,
        *,
        names: Sequence[str] | None = None,
        groups: Tensor | None = None,
        categorical: Tensor | None = None,
        own: bool = False,
    ) -> Features:
        """Features whose scales and reference values are those of the columns of a background (B, d)."""
        rows, width = background.detach().cpu(), background.shape[1]
        groups = torch.arange(width) if groups is None else groups
        kinds = torch.zeros(width, dtype=torch.bool) if categorical is None else categorical
        kinds = kinds | one_hot(rows, groups)
        spread = rows.double().std(dim=0, correction=0)
        scales = torch.where(kinds, torch.zeros_like(spread), spread).to(rows)
        count = int(groups.max()) + 1
        known = tuple(f"feature {number}" for number in range(count)) if names is None else tuple(names)
        if len(known) != count:
            raise InputError(f"There are {count} features and {len(known)} names: give one name for each feature.")
        return cls(names=known, groups=groups, categorical=kinds, scales=scales, background=rows, named=names is not None, own=own)

    @property
    def grouped(self) -> bool:
        """Whether a feature has several values."""
        return len(self.names) < len(self.groups)

    @cached_property
    def drawn(self) -> Tensor:
        """Samples of the background to draw values from, in its order: all of them, or 1,000 chosen at random, the same ones each time."""
        if len(self.background) <= DRAWN:
            return self.background
        keys = Draws.of(0, torch.arange(len(self.background))).words(1, stream="background")[:, 0]
        return self.background[keys.argsort(stable=True)[:DRAWN].sort().values]

    @property
    def unit(self) -> Tensor | None:
        """The unit of noise, (d,); None for columns without names, whose values are taken as they are."""
        return self.scales if self.named else None

    def centre(self, how: str = "reference") -> Tensor:
        """A reference sample (d,): "reference" and "mean" take column means, "median" their medians; categories their most frequent level.

        The columns of a group of categories are taken together, so that the level is one that occurs. A background of a single sample
        has no mean that differs from it: 0 stands for it.
        """
        if how not in CENTRES:
            raise unknown("reference sample", how, CENTRES)
        rows = self.background
        if len(rows) == 1 and self.own:
            return torch.zeros_like(rows[0])
        found = rows.double().mean(dim=0) if how != "median" else rows.double().quantile(0.5, dim=0)
        for feature in self.groups[self.categorical].unique().tolist():
            members = (self.groups == feature) & self.categorical
            some = rows[:, members]
            alone = some.shape[1] == 1  # sorting numbers is much faster than sorting rows
            levels, counts = some.unique(return_counts=True) if alone else some.unique(dim=0, return_counts=True)
            found[members] = levels[int(counts.argmax())].double()
        return found.to(rows)

    def with_background(self, background: Tensor) -> Features:
        """The same features with scales and reference values from other samples (B, d)."""
        names = self.names if self.named else None
        return Features.measured(background, names=names, groups=self.groups, categorical=self.categorical)

    def sums(self, values: Tensor) -> Tensor:
        """The sums of values (N, d) over each feature, (N, features)."""
        return group_sums(values, self.groups)

    def about(self) -> dict[str, Any]:
        """Names and groups for the manifest, and a hash of the background."""
        return {"names": list(self.names), "groups": self.groups.tolist(), "background": fingerprint.of_tensor(self.background)}


def one_hot(rows: Tensor, groups: Tensor) -> Tensor:
    """Which values (d,) belong to a group of several columns that hold nothing but 0 and 1."""
    binary = ((rows == 0) | (rows == 1)).all(dim=0)
    sizes = torch.bincount(groups)
    whole = torch.zeros(len(sizes), dtype=torch.int64).index_add_(0, groups, binary.long()) == sizes
    return (whole & (sizes > 1))[groups]


def group_sums(values: Tensor, groups: Tensor) -> Tensor:
    """The sums of values (N, d) over the groups of their columns, (N, groups).

    >>> group_sums(torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([0, 1, 1]))
    tensor([[1., 6.]])
    """
    count = int(groups.max()) + 1
    return values.new_zeros(len(values), count).index_add_(1, groups.to(values.device), values)


def features_of(inputs: Inputs, reference: Tensor | None = None) -> Features | None:
    """What the values of these inputs mean, or None: for images, series and whatever else has positions.

    A reference set gives the scales and the reference values, unless the inputs brought a background of their own. Plain vectors
    (samples, d) are taken for the rows of a table, too; of a data set that is not held in memory, the first 10,000 are looked at.
    """
    known: Features | None = getattr(inputs, "features", None)
    fits = reference is not None and reference.ndim == 2 and len(reference) > 0 and reference.shape[1:] == inputs.shape
    if known is None:
        if not (isinstance(whole(inputs), TensorInputs) or is_streamed(inputs)) or len(inputs.shape) != 1:
            return None
        rows = inputs.take(torch.arange(min(inputs.size(), MOST) if is_streamed(inputs) else inputs.size())).values
        return Features.measured(reference.to(rows) if reference is not None and fits else rows, own=not fits)
    if reference is not None and fits and known.own:
        return known.with_background(reference.to(known.background))
    return known


def background_note(features: Features) -> str:
    """Which values stand for masked ones, in a sentence."""
    count = len(features.background)
    if features.own and count == 1:
        return "masked values become 0, since a single sample has no column means: pass reference=... with samples to take the means of."
    whose = f"the {count} audited inputs" if features.own else f"a reference set of {count} samples"
    more = ": pass reference=... to take them from a training set." if features.own else "."
    return f"masked values become the reference of their own column, the mean (of a category the most frequent level) over {whose}{more}"


def other_baseline(features: Features, baseline: Any) -> str:
    """A sentence if an explainer's baseline is one number for all columns, far from the values that masks put there; "" if not."""
    if features.named or isinstance(baseline, bool) or not isinstance(baseline, (int, float)):
        return ""
    if not bool(((features.centre().double() - baseline).abs() > CLOSE * features.scales.double()).any()):
        return ""
    return (
        f"its baseline is {baseline:g}, but masked values become the mean of their column: pass inputs=TableInputs.of_array(x), so that "
        f"both take the mean, or scores with perturb_baseline={baseline:g}."
    )
