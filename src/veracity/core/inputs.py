"""Data sets whose samples are taken by index: tensors, token sequences, and parts of other data sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.settings import short_repr
from veracity.core.transfer import send

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
PADDING = -1


@dataclass(frozen=True)
class Signals:
    """A batch of N samples: values that can be explained (N, ...), and structure that cannot, each part (N, ...).

    Images, series and sets have values only; the edges of a graph are structure. Samples of different lengths are padded to one
    shape: `present` (N, ...), shaped as the values, is then False where a value does not exist. Such values are 0, nothing perturbs
    them, and nothing counts them.
    """

    values: Tensor
    structure: tuple[Tensor, ...] = ()
    present: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Tensor | slice) -> Signals:
        present = None if self.present is None else self.present[rows]
        return Signals(self.values[rows], tuple(part[rows] for part in self.structure), present)

    def to(self, device: torch.device) -> Signals:
        """The same samples on a device."""
        present = None if self.present is None else send(self.present, device)
        return Signals(send(self.values, device), tuple(send(part, device) for part in self.structure), present)

    def blank(self, maps: Tensor) -> Tensor:
        """Maps (N, ...) with 0 where a value does not exist; maps of another shape than the values stay."""
        return maps if self.present is None or maps.shape != self.present.shape else torch.where(self.present, maps, maps.new_zeros(()))

    def through(self, model: nn.Module) -> Tensor:
        """The outputs of a model for these samples."""
        output: Tensor = model(self.values, *self.structure)
        return output

    @property
    def nbytes(self) -> int:
        """The memory of all tensors in bytes."""
        return self.values.nbytes + sum(part.nbytes for part in self.structure)

    def fingerprint(self) -> str:
        """A hash of the content."""
        parts = [fingerprint.of_tensor(part) for part in (self.values, *self.structure)]
        return parts[0] if len(parts) == 1 else fingerprint.of_json(parts)


class Inputs(Protocol):
    """A data set whose samples are taken by index."""

    @property
    def shape(self) -> Size:
        """The shape of one sample's values."""
        ...

    def size(self) -> int:
        """The number of samples."""
        ...

    def take(self, index: Tensor) -> Signals:
        """Samples by index, as one batch."""
        ...

    def fingerprint(self) -> str:
        """A hash of the content."""
        ...

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model as a module that takes values and structure: the model itself if there is no structure."""
        ...


def samples_on(inputs: Inputs, index: Tensor, device: torch.device) -> Signals:
    """Samples by index on a device, as a copy; consecutive samples of a tensor are copied once, on their way there."""
    part = consecutive(inputs, index)
    return inputs.take(index).to(device) if part is None or part.device == device else Signals(part).to(device)


def samples_to_read(inputs: Inputs, index: Tensor) -> Signals:
    """Samples by index that nobody may write into: consecutive samples of a tensor are not copied."""
    part = consecutive(inputs, index)
    return inputs.take(index) if part is None else Signals(part)


def content_key(inputs: Inputs, index: Tensor) -> str:
    """A hash of some samples' content; data sets that are not held in memory know it without reading the samples again."""
    own = getattr(inputs, "content_key", None)
    return str(own(index)) if own is not None else samples_to_read(inputs, index).fingerprint()


def is_streamed(inputs: Any) -> bool:
    """Whether samples are read when they are needed, and not held in memory."""
    return bool(getattr(whole(inputs), "streamed", False))


def consecutive(inputs: Inputs, index: Tensor) -> Tensor | None:
    """Consecutive samples of a tensor, in its own memory; None for other samples and other data."""
    if not isinstance(inputs, TensorInputs) or not len(index):
        return None
    first = int(index[0])
    return inputs.tensor[first : first + len(index)].detach() if torch.equal(index.cpu(), torch.arange(first, first + len(index))) else None


@dataclass(frozen=True)
class TensorInputs:
    """Samples stacked in one tensor."""

    tensor: Tensor

    def __post_init__(self) -> None:
        if isinstance(self.tensor, Tensor):
            check_readable(self.tensor, "inputs")
        if not isinstance(self.tensor, Tensor) or self.tensor.ndim < 2 or self.tensor.numel() == 0:
            what = tuple(self.tensor.shape) if isinstance(self.tensor, Tensor) else type(self.tensor).__name__
            raise InputError(f"The inputs must be a tensor of shape (samples, ...) with at least one sample, not {what}.")
        if self.tensor.is_complex():
            raise InputError(
                f"The inputs must be real numbers, not {self.tensor.dtype}: pass torch.view_as_real(inputs) and a model that takes it."
            )
        if self.tensor.dtype not in FLOATS:
            raise InputError(
                f"The inputs must be floating point, not {self.tensor.dtype}: convert them with inputs.float(), "
                "or pass token numbers as TokenInputs(ids, vocabulary)."
            )
        check_finite(self.tensor)

    @property
    def shape(self) -> Size:
        """The shape of one sample."""
        return self.tensor.shape[1:]

    def size(self) -> int:
        """The number of samples."""
        return len(self.tensor)

    def take(self, index: Tensor) -> Signals:
        """Samples by index, as one batch."""
        return Signals(self.tensor[index.to(self.tensor.device)].detach())

    def fingerprint(self) -> str:
        """A hash of the content."""
        return fingerprint.of_tensor(self.tensor)

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model itself."""
        return model


@dataclass(frozen=True)
class TokenInputs:
    """Sequences of token numbers (N, T) from 0 to vocabulary - 1, padded with -1.

    A sample's values are one-hot rows (T, vocabulary), made when the sample is taken; padding is all zero.

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
        given: Any = self.vocabulary
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            fix = f": pass its size, {len(given)}" if isinstance(given, (list, tuple, dict)) else ""
            raise InputError(f"The vocabulary must be a whole number of at least 1, not {short_repr(given)}{fix}.")
        low, high = int(ids.min()), int(ids.max())
        if low < PADDING or high >= self.vocabulary:
            bad = low if low < PADDING else high
            raise InputError(f"Tokens must lie between 0 and {self.vocabulary - 1}, with -1 for no token; found {bad}.")

    @property
    def shape(self) -> Size:
        """(T, vocabulary)."""
        return Size((self.ids.shape[1], self.vocabulary))

    def size(self) -> int:
        """The number of sequences."""
        return len(self.ids)

    def take(self, index: Tensor) -> Signals:
        """Sequences by index, one-hot."""
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


@dataclass(frozen=True)
class Subset:
    """Samples of another data set, with its shape, its models and what it knows of its features."""

    inputs: Inputs

    @property
    def features(self) -> Any:
        """What the values mean (core.features.Features); None if the data set does not know."""
        return getattr(self.inputs, "features", None)

    @property
    def shape(self) -> Size:
        """The shape of one sample."""
        return self.inputs.shape

    def adapt(self, model: nn.Module) -> nn.Module:
        """As for the whole data set."""
        return self.inputs.adapt(model)

    @property
    def floor(self) -> float | None:
        """As for the whole data set."""
        return getattr(self.inputs, "floor", None)


@dataclass(frozen=True)
class FirstSamples(Subset):
    """The first samples of a data set."""

    count: int

    def size(self) -> int:
        """The number of samples."""
        return self.count

    def take(self, index: Tensor) -> Signals:
        """Samples by index."""
        return self.inputs.take(index)

    def fingerprint(self) -> str:
        """A hash of the content."""
        return fingerprint.of_json([self.inputs.fingerprint(), self.count])


@dataclass(frozen=True)
class SelectedSamples(Subset):
    """Samples of a data set selected by their indices (n,)."""

    index: Tensor

    def size(self) -> int:
        """The number of samples."""
        return len(self.index)

    def take(self, index: Tensor) -> Signals:
        """Samples by index."""
        return self.inputs.take(self.index[index.to(self.index.device)])

    def fingerprint(self) -> str:
        """A hash of the content."""
        return fingerprint.of_json([self.inputs.fingerprint(), fingerprint.of_tensor(self.index)])


WORDS, LETTERS, TEXTS = 60, 24, 200
"""How many words of a text are kept for readers, how many letters of a word, and of how many texts."""


def words_of(inputs: Any, row: int) -> list[str] | None:
    """The words or tokens of a sample, one per value; None if the samples are not texts."""
    found = whole(inputs)
    return list(found.words(row_in_whole(inputs, row))) if hasattr(found, "words") else None


def shown_words(inputs: Inputs) -> list[list[str]]:
    """The words of the first texts, cut to a readable length; empty if the samples are not texts."""
    rows = (words_of(inputs, row) or [] for row in range(min(TEXTS, inputs.size())))
    found = [[word if len(word) <= LETTERS else word[: LETTERS - 1] + "…" for word in row[:WORDS]] for row in rows]
    return found if any(found) else []


def whole(inputs: Any) -> Any:
    """The data set that samples were selected from."""
    return whole(inputs.inputs) if isinstance(inputs, Subset) else inputs


def row_in_whole(inputs: Any, row: int) -> int:
    """The number that a sample has in the data set that it was selected from."""
    if not isinstance(inputs, Subset):
        return row
    return row_in_whole(inputs.inputs, int(inputs.index[row]) if isinstance(inputs, SelectedSamples) else row)


def shown_parts(inputs: Inputs) -> list[dict[str, Any]]:
    """The name and the shape of each explained array of a sample; empty if the samples are single arrays."""
    found = whole(inputs)
    names = getattr(found, "explained", ()) if hasattr(found, "parts") else ()
    return [{"name": name, "shape": list(found.parts[name].shape[1:])} for name in names] if len(names) > 1 else []


def check_readable(tensor: Tensor, what: str) -> None:
    """Raise if a tensor is sparse, nested, quantised or without memory; `what` names it in the error."""
    problems = {
        "a nested tensor: pad them to one shape with .to_padded_tensor(0.0)": tensor.is_nested,
        "a sparse tensor: convert them with .to_dense()": tensor.layout is not torch.strided,
        "a quantised tensor: convert them with .dequantize()": tensor.is_quantized,
        "on the device 'meta', which holds no numbers: make them on another device, such as 'cpu'": tensor.is_meta,
    }
    for problem, found in problems.items():
        if found:
            raise InputError(f"The {what} are {problem}.")


def check_finite(values: Tensor) -> None:
    """Raise if a sample holds NaN or infinity."""
    if values.flatten(1).sum(dim=1).isfinite().all():  # the sum of a sample's values is finite only if all of them are
        return
    bad = (~values.isfinite().flatten(1).all(dim=1)).nonzero()
    if len(bad):
        raise InputError(
            f"{len(bad)} of {len(values)} inputs hold NaN or infinity; the first is sample {int(bad[0])}: "
            "replace these values, or leave the samples out."
        )
