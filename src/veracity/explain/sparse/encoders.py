"""Encoders of activations: the tensors of a sparse autoencoder, an object with `encode`, and the activations themselves."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.core import fingerprint
from veracity.core.component import encode_setting
from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.settings import short_repr

Nonlinearity = Literal["relu", "jumprelu", "topk", "identity"]
NONLINEARITIES = ("relu", "jumprelu", "topk", "identity")
TENSORS = ("W_enc", "b_enc", "b_dec", "W_dec", "threshold")
OTHER_NAMES = {"encoder.weight": "W_enc", "encoder.bias": "b_enc", "decoder.weight": "W_dec", "bias": "b_dec"}
"""The names of the same tensors in `dictionary_learning`, whose matrices are transposed."""
SETTINGS = ("activation", "k", "subtract")
WIDTHS = ("d_sae", "dict_size", "nb_concepts", "width")
"""The names under which objects of SAELens, dictionary_learning and overcomplete know how many features they have."""
MIXED = 1e-3
"""A feature that changes by more than this share of the largest one when other rows are in the batch depends on them."""


class Encoder(ABC):
    """Maps activations (N, d) to features (N, m), row by row.

    signed  whether features may be negative
    inputs  d, if it is known
    width   m, if it is known
    """

    signed: bool = False
    inputs: int | None = None
    width: int | None = None

    @abstractmethod
    def encode(self, h: Tensor) -> Tensor:
        """Features (N, m) of activations (N, d), where those are and in their precision."""

    def decode(self, z: Tensor) -> Tensor | None:
        """Activations (N, d) from features (N, m); None if there is no decoder."""
        return None

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """The encoder as plain data."""

    def check(self, h: Tensor, layer: str) -> None:
        """Raise unless it takes the activations (N, d) of this layer, row by row."""
        if self.inputs is not None and h.shape[1] != self.inputs:
            raise InputError(
                f"The encoder takes {self.inputs} numbers, but the layer '{layer}' gives {h.shape[1]}: pass the encoder of this layer, or "
                "the layer that it was trained on."
            )
        self.encode(h)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inputs} to {self.width})"


@dataclass(frozen=True, eq=False, repr=False)
class LinearEncoder(Encoder):
    """z(h) = sigma(W_enc^T (h - b_dec) + b_enc), and g(z) = W_dec^T z + b_dec if there is a decoder (eq. 22 and 23).

    Eq. 22 has no b_dec; centring by it is that of Bricken et al. 2023.

    W_enc       (d, m)
    b_enc       (m,); 0 if None
    b_dec       (d,); 0 if None
    W_dec       (m, d), the directions of the features
    activation  "relu"; "jumprelu", which keeps what exceeds the `threshold` (m,); "topk", which keeps the `k` largest, if positive;
                "identity"
    subtract    whether b_dec is subtracted before encoding; Gemma Scope does not
    random      whether its directions are random, so that its features stand for nothing

    >>> encoder = LinearEncoder(torch.tensor([[1.0, 0.0, -1.0], [0.0, 2.0, 0.0]]), b_dec=torch.tensor([1.0, 0.0]))
    >>> encoder.encode(torch.tensor([[3.0, -1.0], [0.0, 1.0]]))
    tensor([[2., 0., 0.],
            [0., 2., 1.]])
    """

    W_enc: Tensor
    b_enc: Tensor | None = None
    b_dec: Tensor | None = None
    W_dec: Tensor | None = None
    activation: Nonlinearity = "relu"
    threshold: Tensor | None = None
    k: int | None = None
    subtract: bool = True
    random: bool = False
    moved: dict[tuple[torch.device, torch.dtype], dict[str, Tensor]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.W_enc.ndim != 2 or not self.W_enc.is_floating_point():
            raise SpecError(f"W_enc of an encoder is a matrix (d, features), not {short_repr(self.W_enc)}.")
        d, m = self.W_enc.shape
        for name, shape in {"b_enc": (m,), "b_dec": (d,), "W_dec": (m, d), "threshold": (m,)}.items():
            given: Tensor | None = getattr(self, name)
            if given is not None and tuple(given.shape) not in (shape, () if name == "threshold" else shape):
                raise SpecError(f"{name} of an encoder with W_enc of shape ({d}, {m}) has the shape {shape}, not {tuple(given.shape)}.")
        if self.activation not in NONLINEARITIES:
            raise unknown("activation of an encoder", self.activation, NONLINEARITIES)
        if self.activation == "jumprelu" and self.threshold is None:
            raise SpecError("An encoder with activation='jumprelu' needs a threshold for each feature: pass threshold=...")
        if self.activation == "topk" and not (self.k and 1 <= self.k <= m):
            raise SpecError(f"An encoder with activation='topk' needs k from 1 to its {m} features, not {self.k}: pass k=...")

    @property
    def signed(self) -> bool:  # type: ignore[override]
        """Whether features may be negative: only without a nonlinearity."""
        return self.activation == "identity"

    @property
    def inputs(self) -> int:  # type: ignore[override]
        """d."""
        return self.W_enc.shape[0]

    @property
    def width(self) -> int:  # type: ignore[override]
        """m."""
        return self.W_enc.shape[1]

    def tensors(self, like: Tensor) -> dict[str, Tensor]:
        """The tensors on the device and in the precision of some activations; they are moved once."""
        place = like.device, like.dtype
        if place not in self.moved:
            self.moved[place] = {name: part.to(like) for name in TENSORS if (part := getattr(self, name)) is not None}
        return self.moved[place]

    def encode(self, h: Tensor) -> Tensor:
        """sigma(W_enc^T (h - b_dec) + b_enc)."""
        own = self.tensors(h)
        centred = h - own["b_dec"] if self.subtract and "b_dec" in own else h
        pre = centred @ own["W_enc"]
        pre = pre + own["b_enc"] if "b_enc" in own else pre
        if self.activation == "identity":
            return pre
        if self.activation == "jumprelu":
            return torch.where(pre > own["threshold"], functional.relu(pre), 0.0)
        if self.activation == "topk":
            values, places = pre.topk(self.k or 1, dim=-1)
            return torch.zeros_like(pre).scatter(-1, places, functional.relu(values))
        return functional.relu(pre)

    def decode(self, z: Tensor) -> Tensor | None:
        """W_dec^T z + b_dec."""
        own = self.tensors(z)
        if "W_dec" not in own:
            return None
        found = z @ own["W_dec"]
        return found + own["b_dec"] if "b_dec" in own else found

    def spec(self) -> dict[str, Any]:
        """Hashes of the tensors, and the settings."""
        return self.content

    @cached_property
    def content(self) -> dict[str, Any]:
        """The spec, hashed once."""
        parts = {name: encode_setting(getattr(self, name)) for name in TENSORS}
        return {"name": "linear_encoder", **parts, "activation": self.activation, "k": self.k, "subtract": self.subtract}

    def __repr__(self) -> str:
        return f"LinearEncoder({self.inputs} to {self.width}, {self.activation}{f' {self.k}' if self.activation == 'topk' else ''})"

    def __getstate__(self) -> dict[str, Any]:
        """Without the copies on devices."""
        return {**self.__dict__, "moved": {}}


@dataclass(frozen=True, eq=False, repr=False)
class RawActivations(Encoder):
    """The activations themselves."""

    signed = True

    def encode(self, h: Tensor) -> Tensor:
        """h."""
        return h

    def decode(self, z: Tensor) -> Tensor:
        """z."""
        return z

    def spec(self) -> dict[str, Any]:
        """Its name."""
        return {"name": "raw_activations"}


@dataclass(frozen=True, eq=False, repr=False)
class EncoderObject(Encoder):
    """An object with `encode`, such as a sparse autoencoder of SAELens, overcomplete or dictionary_learning.

    If `encode` returns several tensors, the last one is read: overcomplete returns what comes before the nonlinearity first.
    """

    object: Any

    @property
    def width(self) -> int | None:  # type: ignore[override]
        """m, as the object itself, its settings `cfg` or a matrix W_enc tell it; None if they do not."""
        places = (self.object, getattr(self.object, "cfg", None))
        told = [getattr(place, name, None) for place in places for name in WIDTHS]
        shape = getattr(getattr(self.object, "W_enc", None), "shape", ())
        return next((one for one in (*told, *shape[1:2]) if isinstance(one, int) and not isinstance(one, bool)), None)

    def call(self, method: str, x: Tensor) -> Tensor:
        """What a method returns for a batch, where the batch is."""
        one = next(self.object.parameters(), None) if isinstance(self.object, nn.Module) else None
        try:
            with torch.no_grad():
                found = getattr(self.object, method)(x if one is None else x.to(one))
        except (RuntimeError, ValueError, TypeError, AssertionError, IndexError) as error:
            why = " ".join(str(error).split())[:120]
            raise InputError(
                f"The encoder {type(self.object).__name__} does not take {x.shape[1]} numbers per row ({why}): pass the encoder of this "
                "layer, or the layer that it was trained on."
            ) from error
        found = found[-1] if isinstance(found, (tuple, list)) and len(found) else found
        if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(x):
            what = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"{type(self.object).__name__}.{method} must return one row of numbers for each of {len(x)} rows, not {what}: "
                f"pass an object whose {method} takes a matrix (rows, numbers)."
            )
        return found.detach().to(x)

    def encode(self, h: Tensor) -> Tensor:
        """What the object's `encode` returns."""
        return self.call("encode", h)

    def decode(self, z: Tensor) -> Tensor | None:
        """What the object's `decode` returns, if it has one."""
        return self.call("decode", z) if callable(getattr(self.object, "decode", None)) else None

    def check(self, h: Tensor, layer: str) -> None:
        """Raise also if features depend on the other rows of a batch, as in a BatchTopK that is in train mode."""
        if isinstance(self.object, nn.Module) and self.object.training and any(True for _ in self.object.children()):
            raise InputError(f"The encoder {type(self.object).__name__} is in train mode: call its eval() first.")
        together = self.encode(h)
        alone = torch.cat([self.encode(h[row : row + 1]) for row in range(len(h))])
        if float((together - alone).abs().max()) > MIXED * float(together.abs().max()):
            raise InputError(
                f"The encoder {type(self.object).__name__} encodes a row differently when other rows are in the batch: call its eval(), or "
                "use one that encodes each row by itself."
            )

    def spec(self) -> dict[str, Any]:
        """A hash of the object."""
        return self.content

    @cached_property
    def content(self) -> dict[str, Any]:
        """The spec, hashed once."""
        known = {} if self.width is None else {"width": self.width}
        return {"name": type(self.object).__qualname__, "content": fingerprint.of_value(self.object), **known}

    def __repr__(self) -> str:
        return type(self.object).__name__


def as_encoder(value: Any) -> Encoder:
    """An encoder from an Encoder, an object with `encode`, tensors by name, or a file of them (.safetensors or .npz).

    Tensors are W_enc, b_enc, b_dec, W_dec and threshold, or the state of `dictionary_learning`'s autoencoders; others are refused. A
    table or the header of a file may hold `activation`, `k` and `subtract` beside them. With a threshold the default is "jumprelu", with
    a k "topk", else "relu". b_dec is subtracted by default, except by "jumprelu" with a W_enc, as in Gemma Scope.

    >>> as_encoder({"W_enc": torch.ones(2, 3), "k": 1})
    LinearEncoder(2 to 3, topk 1)
    """
    if isinstance(value, Encoder):
        return value
    if isinstance(value, (str, Path)):
        return as_encoder(read_tensors(Path(value)))
    if isinstance(value, Mapping):
        return from_tensors(value)
    if callable(getattr(value, "encode", None)) and not isinstance(value, type):
        return EncoderObject(value)
    raise SpecError(
        "An encoder is an object with encode(h), a table with W_enc, b_enc and b_dec, or a .safetensors or .npz file of them, not "
        f"{short_repr(value)}."
    )


def from_tensors(table: Mapping[str, Any]) -> LinearEncoder:
    """An encoder from its tensors and settings."""
    named = {OTHER_NAMES.get(str(name), str(name)): value for name, value in table.items()}
    if "W_enc" not in named:
        raise SpecError(f"The tensors of an encoder need the name W_enc (or encoder.weight), but these are {', '.join(map(str, table))}.")
    if strange := [name for name, value in named.items() if name not in (*TENSORS, *SETTINGS) and value is not None]:
        raise SpecError(
            f"The tensors of an encoder are {', '.join(TENSORS)}, but there is also {', '.join(strange)}, without which its features would "
            "be others: pass an object with encode(h) instead, or leave out what encoding does not need."
        )
    tensors: dict[str, Any] = {name: torch.as_tensor(named[name]).detach().float() for name in TENSORS if named.get(name) is not None}
    tensors |= {OTHER_NAMES[name]: tensors[OTHER_NAMES[name]].T for name in ("encoder.weight", "decoder.weight") if name in table}
    k = None if named.get("k") is None else as_count(named["k"])
    if k and "threshold" in tensors and "activation" not in named:
        raise SpecError("An encoder with k and a threshold may be either kind: add activation='topk' or activation='jumprelu' to them.")
    usual: Nonlinearity = "topk" if k else "jumprelu" if "threshold" in tensors else "relu"
    activation = named.get("activation", usual)
    centred = named.get("subtract", activation != "jumprelu" or "encoder.weight" in table)
    return LinearEncoder(**tensors, activation=activation, k=k, subtract=as_flag(centred))


def as_count(value: Any) -> int:
    """The k of a table or a header; raises unless it is a whole number."""
    try:
        count = float(value)
    except (TypeError, ValueError):
        count = math.nan
    if not count.is_integer():
        raise SpecError(f"k of an encoder is a whole number of features, not {short_repr(value)}.")
    return int(count)


def as_flag(value: Any) -> bool:
    """The `subtract` of a table or a header; raises unless it is true or false."""
    plain = value.tolist() if isinstance(value, (Tensor, np.ndarray, np.generic)) else value
    known = {"true": True, "1": True, "false": False, "0": False}
    if str(plain).lower() not in known:
        raise SpecError(f"'subtract' of an encoder is true or false, not {short_repr(value)}.")
    return known[str(plain).lower()]


def read_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a file, and the settings in its header."""
    if not os.path.isfile(path):  # unlike Path.is_file, it takes names that no file can have
        raise InputError(
            f"There is no encoder file {short_repr(str(path))}: pass the path of a .safetensors or .npz file with W_enc, b_enc and b_dec."
        )
    if path.suffix not in (".npz", ".safetensors"):
        raise InputError(f"An encoder file is .safetensors or .npz, not {path.name}: save its tensors with safetensors.torch.save_file.")
    from safetensors import SafetensorError, safe_open

    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {name: arrays[name].tolist() if name in SETTINGS else torch.from_numpy(arrays[name]) for name in arrays.files}
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            settings: dict[str, Any] = {name: about[name] for name in SETTINGS if name in about}
            return settings | {name: file.get_tensor(name) for name in list(file.keys())}
    except (SafetensorError, BadZipFile, OSError, ValueError, TypeError, EOFError, AttributeError) as error:
        why = " ".join(str(error).split())[:120]
        raise InputError(
            f"The encoder file {path.name} cannot be read ({why}): save its tensors again, with safetensors.torch.save_file or numpy.savez."
        ) from error
