"""Token sequences, kept as numbers and shown to models as one-hot rows that can be explained."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.inputs import Signals

PADDING = -1


@dataclass(frozen=True)
class TokenInputs:
    """Sequences of token numbers (N, T) below `vocabulary`; -1 stands for no token.

    A sample's values are one-hot, (T, vocabulary), made when they are needed; a place without a token is all zero.

    >>> TokenInputs(torch.tensor([[1, -1]]), vocabulary=2).take(torch.tensor([0])).values
    tensor([[[0., 1.],
             [0., 0.]]])
    """

    ids: Tensor
    vocabulary: int

    def __post_init__(self) -> None:
        ids = self.ids
        if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.numel() == 0 or ids.is_floating_point():
            what = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
            raise InputError(f"Tokens must be whole numbers of shape (samples, length) with at least one sample, not {what}.")
        if isinstance(self.vocabulary, bool) or not isinstance(self.vocabulary, int) or self.vocabulary < 1:
            raise InputError(f"The vocabulary must be a whole number of at least 1, not {self.vocabulary!r}.")
        low, high = int(ids.min()), int(ids.max())
        if low < PADDING or high >= self.vocabulary:
            bad = low if low < PADDING else high
            raise InputError(f"Tokens must lie between 0 and {self.vocabulary - 1}, with -1 for no token; found {bad}.")

    @property
    def shape(self) -> Size:
        """(T, vocabulary)."""
        return Size((self.ids.shape[1], self.vocabulary))

    def size(self) -> int:
        """How many sequences there are."""
        return len(self.ids)

    def take(self, index: Tensor) -> Signals:
        """These sequences, one-hot."""
        ids = self.ids[index.to(self.ids.device)].long()
        values = torch.zeros(*ids.shape, self.vocabulary, device=ids.device)
        values.scatter_(2, ids.clamp(min=0).unsqueeze(2), (ids >= 0).float().unsqueeze(2))
        return Signals(values)

    def fingerprint(self) -> str:
        """A hash of the content."""
        return fingerprint.of_json(["tokens", self.vocabulary, fingerprint.of_tensor(self.ids)])

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model itself, which takes (N, T, vocabulary)."""
        return model
