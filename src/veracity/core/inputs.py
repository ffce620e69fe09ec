"""Data by number: anything with a size and a way to take some of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Size, Tensor

from veracity.core import fingerprint
from veracity.core.errors import InputError


class Inputs(Protocol):
    """A data set whose samples are taken by their number."""

    @property
    def shape(self) -> Size:
        """One sample's shape."""
        ...

    def size(self) -> int:
        """How many samples there are."""
        ...

    def take(self, index: Tensor) -> Tensor:
        """These samples as one batch."""
        ...

    def fingerprint(self) -> str:
        """A hash of the content."""
        ...


@dataclass(frozen=True)
class TensorInputs:
    """Samples stacked in one tensor."""

    tensor: Tensor

    def __post_init__(self) -> None:
        if not isinstance(self.tensor, Tensor) or self.tensor.ndim < 2 or len(self.tensor) == 0:
            what = tuple(self.tensor.shape) if isinstance(self.tensor, Tensor) else type(self.tensor).__name__
            raise InputError(f"The inputs must be a tensor of shape (samples, ...) with at least one sample, not {what}.")
        if not self.tensor.is_floating_point():
            raise InputError(f"The inputs must be floating point, not {self.tensor.dtype}: convert them with inputs.float().")
        bad = (~self.tensor.isfinite().flatten(1).all(dim=1)).nonzero()
        if len(bad):
            raise InputError(f"{len(bad)} of {len(self.tensor)} inputs hold NaN or infinity; the first is sample {int(bad[0])}.")

    @property
    def shape(self) -> Size:
        """One sample's shape."""
        return self.tensor.shape[1:]

    def size(self) -> int:
        """How many samples there are."""
        return len(self.tensor)

    def take(self, index: Tensor) -> Tensor:
        """These samples as one batch."""
        return self.tensor[index.to(self.tensor.device)].detach()

    def fingerprint(self) -> str:
        """A hash of the content."""
        return fingerprint.of_tensor(self.tensor)
