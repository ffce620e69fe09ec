"""An input that a person gives on the page of an audit, as one sample like the audited ones: an image, a text, or a row of a table.

What was given is only ever read as pixels, as text or as numbers. Whatever does not fit is refused in one sentence.
"""

from __future__ import annotations

import csv
import io
import math
import re
import struct
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor, nn

from veracity.core.errors import InputError, listed, unknown
from veracity.core.features import Features
from veracity.core.inputs import Inputs, TensorInputs, shown_words, whole
from veracity.core.models import unwrap
from veracity.core.wording import count, number
from veracity.inputs import ImageInputs, TableInputs, TextInputs
from veracity.inputs.images import Scaling

CHANNELS = {1: ("L", "grey"), 3: ("RGB", "colour"), 4: ("RGBA", "colour with transparency")}
"""The images that a model takes, by their number of channels: Pillow's mode, and what people call it."""
MODES = {
    "1": "black and white",
    "L": "grey",
    "LA": "grey with transparency",
    "P": "a palette of colours",
    "PA": "a palette of colours with transparency",
    "RGB": "colour",
    "RGBA": "colour with transparency",
    "CMYK": "colours for printing",
    "YCbCr": "colour (YCbCr)",
}
"""The modes of images that are read, in words; others have more than 8 bits per channel."""
FORMATS = ("PNG", "JPEG")
MOST_PIXELS = 40_000_000
"""The most pixels of an image: a small file can hold very many of them."""
LONGEST_SIDE = 20_000
"""The most pixels along a side: stretching a line of pixels takes far more memory than a square."""
LETTERS = 100_000
"""The most characters of a text, and of a row."""
LOOKED_AT = 256
"""How many audited samples say between which values they lie."""
FIELDS = 60
"""Up to so many columns have a field each on the page."""
SIZES = {"refuse": "refuse them", "stretch": "stretch them", "crop": "crop the centre"}
"""What is done with images of another size or another number of channels."""
BROKEN = (OSError, ValueError, SyntaxError, TypeError, KeyError, IndexError, EOFError, OverflowError, struct.error, zlib.error)
"""What Pillow raises on files that are damaged."""
Pixels = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class How:
    """What a person chose: what to do with images of another `size`, whether to `invert` them, what their `pixels` become (`mean` and `std`
    as text), and the `label`."""

    size: str = "refuse"
    invert: bool = False
    pixels: str = ""
    mean: str = ""
    std: str = ""
    label: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """One sample, what was done to make it, its words if it is a text, and its cells if it is a row of a table with names.

    `doubt` is a sentence on how it differs from all audited samples, and `invertible` says that it would not if it were inverted.
    """

    inputs: Inputs
    steps: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    label: int | None = None
    doubt: str = ""
    invertible: bool = False


class Form(ABC):
    """A kind of input that a person can give."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """What the page needs to ask for it."""

    @abstractmethod
    def read(self, data: bytes, how: How) -> Given:
        """One sample from what was given; raises one sentence if it is none."""


def form_of(data: Inputs, features: Features | None, models: Sequence[nn.Module]) -> Form:
    """The form for inputs like those of an audit; raises if there is none."""
    found = whole(data)
    first = data.take(torch.zeros(1, dtype=torch.long))
    if isinstance(found, ImageInputs) and found.shape[0] in CHANNELS:
        return ImageForm(shape=tuple(found.shape), images=found, audited=data)
    if isinstance(found, TextInputs):
        return TextForm(texts=found, models=tuple(models))
    if isinstance(found, TableInputs):
        return TableForm(table=found)
    shape = tuple(data.shape)
    plain = not first.structure and first.present is None
    if plain and len(shape) == 3 and shape[0] in CHANNELS:
        return ImageForm(shape=shape, like=values_of(data), audited=data)
    if plain and len(shape) == 1:
        named = features is not None and len(features.names) == shape[0]
        names = features.names if named and features is not None else tuple(f"value {one}" for one in range(shape[0]))
        return RowForm(names=names, like=first.values)
    raise InputError(
        f"Inputs of your own can be images, texts and rows of a table, and the samples of this audit are of the shape {shape}: try others "
        "in Python with veracity.Audit."
    )


def values_of(data: Inputs) -> Tensor:
    """The first samples (N, ...) of some data."""
    return data.take(torch.arange(min(LOOKED_AT, data.size()))).values.cpu()


@dataclass(frozen=True, kw_only=True)
class ImageForm(Form):
    """Images of a `shape` (C, H, W): stored ones with a known scaling (`images`), or numbers `like` those of the first samples.

    What is given is compared with the `audited` samples.
    """

    shape: tuple[int, ...]
    images: ImageInputs | None = None
    like: Tensor | None = None
    audited: Inputs | None = None

    @cached_property
    def span(self) -> tuple[float, float]:
        """Between which values the first audited samples lie."""
        return (0.0, 1.0) if self.like is None else (float(self.like.min()), float(self.like.max()))

    @cached_property
    def means(self) -> tuple[float, float]:
        """Between which numbers the means of the first audited samples lie."""
        if self.audited is None:
            return -math.inf, math.inf
        means = (values_of(self.audited) if self.like is None else self.like).double().flatten(1).mean(dim=1)
        slack = 1e-6 * float(means.abs().max())
        return float(means.min()) - slack, float(means.max()) + slack

    @cached_property
    def pixels(self) -> dict[str, str]:
        """What the pixels 0 to 255 may become, in words; nothing to choose if the audit knows it."""
        low, high = self.span
        return {
            "unit": "0 to 1, divided by 255",
            "span": f"{number(low)} to {number(high)}, the range of the audited samples",
            "byte": "0 to 255, as they are",
            "standard": "(pixel / 255 \N{MINUS SIGN} mean) / std",
        }

    @property
    def likely(self) -> str:
        """What pixels probably become, by the range of the audited samples."""
        low, high = self.span
        return "unit" if low >= 0 and high <= 1 else "byte" if low >= 0 and 128 < high <= 255 else "span"

    def about(self) -> dict[str, Any]:
        """The size, the mode, and the choices."""
        channels, height, width = self.shape
        choices = [] if self.images is not None else [{"value": one, "text": text} for one, text in self.pixels.items()]
        sizes = [{"value": one, "text": text} for one, text in SIZES.items()]
        shape = {"width": width, "height": height, "mode": CHANNELS[channels][1]}
        return {"kind": "image", **shape, "sizes": sizes, "pixels": choices, "likely": self.likely if choices else ""}

    def read(self, data: bytes, how: How) -> Given:
        """An image, brought to the model's size and mode only if that was chosen."""
        if how.size not in SIZES:
            raise unknown("way to treat images of another size", how.size, SIZES)
        image, steps = opened(data)
        image, made = self.fitted(image, how.size)
        array = np.array(image, dtype=np.uint8).reshape(*self.shape[1:], self.shape[0])
        other = inverted(array)
        if how.invert:
            array, other, made = other, array, [*made, "inverted"]
        inputs, told = self.scaled(array, how)
        doubt, invertible = self.doubt(inputs), False
        if doubt:
            invertible = not self.doubt(self.scaled(other, how)[0])
            again = "take the inversion back?" if how.invert else "invert it?"
            doubt += f": {again}" if invertible else ": check what its pixels become."
        return Given(inputs=inputs, steps=(*steps, *made, told), label=how.label, doubt=doubt, invertible=invertible)

    def doubt(self, inputs: Inputs) -> str:
        """That a picture is lighter or darker than all audited samples that are looked at, by the mean of its values; "" if it is not."""
        low, high = self.means
        mean = float(values_of(inputs).double().mean())
        return "" if low <= mean <= high else f"This picture is {'lighter' if mean > high else 'darker'} than every audited sample"

    def fitted(self, image: Image.Image, size: str) -> tuple[Image.Image, list[str]]:
        """The image in the model's size and mode, and what was done to it; raises if it has others and should stay as it is."""
        channels, height, width = self.shape
        mode, name = CHANNELS[channels]
        wanted, given = (width, height), (image.width, image.height)
        if size == "refuse" and (given != wanted or image.mode != mode):
            raise InputError(
                f"The image is {in_words(given)} in {MODES[image.mode]}, and the model takes {in_words(wanted)} in {name}: choose to "
                "stretch or crop other images, or give one like that."
            )
        steps = []
        if image.mode != mode:
            if mode != "RGBA" and (image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info):
                clear = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
                steps.append("put on white")
            image = image.convert(mode)
            steps.append(f"converted to {name}")
        if given != wanted and size == "crop":
            image = ImageOps.fit(image, wanted, Image.Resampling.BILINEAR)
            steps.append(f"its centre cropped and resized to {in_words(wanted)} (bilinear)")
        elif given != wanted:
            image = image.resize(wanted, Image.Resampling.BILINEAR)
            steps.append(f"stretched to {in_words(wanted)} (bilinear)")
        return image, steps

    def scaled(self, pixels: Pixels, how: How) -> tuple[Inputs, str]:
        """Pixels (H, W, C) as the model's numbers, and how they became so."""
        if self.images is not None:
            last = self.images.last or self.images.images.ndim == 3
            stored = pixels[None] if last else np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]
            return replace(self.images, images=stored, channels="last" if last else "first"), "scaled as the audit scales its images"
        chosen = how.pixels or self.likely
        if chosen not in self.pixels or self.like is None:
            raise unknown("way to scale pixels", chosen, self.pixels)
        values = torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float64))[None]
        if chosen == "standard":
            mean, std = (numbers_in(what, text, self.shape[0]) for what, text in (("mean", how.mean), ("std", how.std)))
            if min(std) <= 0:
                raise InputError(f"The std of pixels must be larger than 0, not {number(min(std))}.")
            values = Scaling(mean=mean, std=std)(values)
        else:
            low, high = {"unit": (0.0, 1.0), "byte": (0.0, 255.0), "span": self.span}[chosen]
            values = low + values * (high - low) / 255
        shown = f" with mean {how.mean} and std {how.std}" if chosen == "standard" else ""
        return TensorInputs(values.to(self.like.dtype)), f"pixels 0 to 255 became {self.pixels[chosen]}{shown}"


def inverted(pixels: Pixels) -> Pixels:
    """Pixels (H, W, C) with light for dark; what is transparent stays so.

    >>> inverted(np.array([[[0, 55, 255, 9]]], dtype=np.uint8)).tolist()
    [[[255, 200, 0, 9]]]
    """
    colours = 3 if pixels.shape[2] == 4 else pixels.shape[2]
    return np.concatenate([255 - pixels[:, :, :colours], pixels[:, :, colours:]], axis=2)


def opened(data: bytes) -> tuple[Image.Image, list[str]]:
    """The image in a PNG or JPEG file, upright, and what it is; raises one sentence on anything else."""
    if not data:
        raise InputError("The file is empty: give a PNG or JPEG image.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            if image.width * image.height > MOST_PIXELS or max(image.size) > LONGEST_SIDE:
                raise Image.DecompressionBombError
            kind, size = image.format, in_words(image.size)
            if image.mode not in MODES:
                raise InputError(f"The image has more than 8 bits per channel (mode {image.mode}): save it with 8.")
            image.load()
            upright = ImageOps.exif_transpose(image)
    except Image.DecompressionBombError:
        raise InputError(
            f"The image has more than {MOST_PIXELS // 10**6} million pixels, or more than {LONGEST_SIDE:,} along a side: make it smaller."
        ) from None
    except UnidentifiedImageError:
        raise InputError("This file is no PNG or JPEG image: give one of these.") from None
    except BROKEN as error:
        raise InputError(f"This image is damaged, so that it cannot be read ({' '.join(str(error).split())[:120]}).") from error
    turned = ["turned upright as the file says"] if upright.size != image.size or image.getexif().get(0x0112, 1) != 1 else []
    return upright, [f"{kind}, {size} in {MODES[image.mode]}", *turned]


def in_words(size: tuple[int, int]) -> str:
    """Width and height.

    >>> in_words((8, 4))
    '8 × 4 pixels'
    """
    return f"{size[0]} \N{MULTIPLICATION SIGN} {size[1]} pixels"


def numbers_in(what: str, text: str, channels: int) -> tuple[float, ...]:
    """One number for all channels, or one for each, from text.

    >>> numbers_in("mean", "0.5, 0.4, 0.3", 3)
    (0.5, 0.4, 0.3)
    """
    parts = [one.strip() for one in text.split(",")]
    try:
        found = tuple(float(one) for one in parts)
    except ValueError:
        found = ()
    if len(found) not in (1, channels) or not all(map(math.isfinite, found)):
        wanted = "one number" if channels == 1 else f"one number, or {channels} with commas between them"
        raise InputError(f"The {what} of pixels is {wanted}, not '{text[:40]}'.")
    return found


def as_text(data: bytes, what: str) -> str:
    """What was typed; raises if it is no text, or too long to be looked at."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"This {what} is not text in UTF-8: type it, or paste it as text.") from None
    if len(text) > LETTERS:
        raise InputError(f"This {what} has {len(text):,} characters, and at most {LETTERS:,} are read: shorten it.")
    return text


@dataclass(frozen=True, kw_only=True)
class TextForm(Form):
    """Texts for the tokenizer of the models."""

    texts: TextInputs
    models: tuple[nn.Module, ...]

    def about(self) -> dict[str, Any]:
        """The most tokens, if that is known."""
        return {"kind": "text", "tokens": self.limit}

    @cached_property
    def limit(self) -> int | None:
        """The most tokens that every model takes; None if nobody says it."""
        known = [self.texts.length, getattr(self.texts.tokenizer, "model_max_length", None)]
        known += [getattr(getattr(unwrap(model), "config", None), "max_position_embeddings", None) for model in self.models]
        return min((one for one in known if isinstance(one, int) and 0 < one < 10**6), default=None)

    def read(self, data: bytes, how: How) -> Given:
        """A text that the tokenizer knows and the model can take."""
        text = as_text(data, "text")
        if not text.strip():
            raise InputError("The text is empty: type at least one word.")
        given = self.texts.truncate
        new = replace(self.texts, texts=[text], given=None, given_words=None, length=self.limit, truncate=given)
        tokens = len(self.texts.tokenizer(text, truncation=False)["input_ids"])
        if self.limit is not None and tokens > self.limit and not given:
            raise InputError(f"The text has {tokens} tokens, and the model takes {self.limit}: shorten it.")
        try:
            units = int(new.counts[0])
        except InputError:
            if bool((new.encoding["special_tokens_mask"] == 0).any()):
                raise
            raise InputError("The tokenizer leaves nothing of this text, so there is nothing to explain: type words.") from None
        cut = f", cut to {self.limit} as the audit cuts its texts" if self.limit is not None and tokens > self.limit else ""
        words = shown_words(new)
        steps = (f"{count(tokens, 'token')}{cut}, {count(units, new.unit)} explained",)
        return Given(inputs=new, steps=steps, words=tuple(words[0]) if words else (), label=how.label)


@dataclass(frozen=True, kw_only=True)
class RowForm(Form):
    """Rows of numbers, with `names`, `like` the first sample (1, d)."""

    names: tuple[str, ...]
    like: Tensor

    def about(self) -> dict[str, Any]:
        """The columns, and the first audited row to begin with."""
        columns = [{"name": name, "levels": None} for name in self.names]
        return {
            "kind": "row",
            "columns": columns,
            "first": [plainly(one) for one in self.like[0].tolist()],
            "fields": len(columns) <= FIELDS,
        }

    def read(self, data: bytes, how: How) -> Given:
        """A number for every column."""
        cells = cells_in(as_text(data, "row"), self.names)
        values = [number_in(name, cell) for name, cell in zip(self.names, cells, strict=True)]
        row = torch.tensor([values], dtype=torch.float64).to(self.like.dtype)
        for name, value, kept in zip(self.names, values, row[0].tolist(), strict=True):
            if not math.isfinite(kept):
                raise InputError(f"{value:g} in the column '{name}' is too large for this audit's numbers ({row.dtype}).")
        return Given(inputs=TensorInputs(row), label=how.label)


@dataclass(frozen=True, kw_only=True)
class TableForm(Form):
    """Rows of a table with names and categories."""

    table: TableInputs

    @cached_property
    def levels(self) -> dict[str, dict[str, Any]]:
        """The levels of every column of categories, by their names."""
        return {name: {str(level): level for level in known} for name, known in self.table.categories.items()}

    def about(self) -> dict[str, Any]:
        """The columns with their levels, and the first audited row to begin with."""
        columns = [{"name": name, "levels": list(self.levels[name]) if name in self.levels else None} for name in self.table.names]
        first = [plainly(one) for one in self.table.frame.iloc[0].tolist()]
        return {"kind": "row", "columns": columns, "first": first, "fields": len(columns) <= FIELDS}

    def read(self, data: bytes, how: How) -> Given:
        """A number or a known level for every column."""
        table, row = self.table, dict[Any, Any]()
        cells = cells_in(as_text(data, "row"), table.names)
        for name, label, cell in zip(table.names, table.frame.columns, cells, strict=True):
            row[label] = level_in(name, self.levels[name], cell) if name in self.levels else number_in(name, cell)
        frame = pd.DataFrame({label: [value] for label, value in row.items()})
        for column, kind in zip(table.frame.columns, table.frame.dtypes, strict=True):
            if not pd.api.types.is_integer_dtype(kind) or holds(kind, row[column]):
                frame[column] = frame[column].astype(kind)
        new = replace(table, frame=frame).with_levels(table.frame, "table of the audit")
        return Given(inputs=new, cells=tuple(cells), label=how.label)


def holds(kind: Any, value: float) -> bool:
    """Whether a type of whole numbers holds a number.

    >>> holds(np.dtype("uint8"), 255.0), holds(np.dtype("uint8"), -1.0), holds(np.dtype("int64"), 0.5)
    (True, False, False)
    """
    limits = np.iinfo(getattr(kind, "numpy_dtype", kind))
    return value.is_integer() and limits.min <= value < limits.max + 1


def plainly(value: Any) -> str:
    """A cell as people write it.

    >>> plainly(3.0), plainly(0.1), plainly(float(np.float32(0.1))), plainly(1609459200.5), plainly(123456789), plainly("cook")
    ('3', '0.1', '0.1', '1609459200.5', '123456789', 'cook')
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (float, np.floating)):
        return str(value)
    short, number = f"{value:.7g}", float(value)
    single = float(np.float32(number)) == number and float(np.float32(short)) == number
    return short if single or float(short) == number else repr(number)


def cells_in(text: str, names: Sequence[str]) -> list[str]:
    """The cells of one row, with commas, semicolons, tabs or spaces between them; raises if there is not one for each column.

    >>> cells_in("1, 2.5", ["age", "size"]), cells_in("1\\t2", ["age", "size"]), cells_in('30, "cook; chef"', ["age", "job"])
    (['1', '2.5'], ['1', '2'], ['30', 'cook; chef'])
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"The row is empty: give {count(len(names), 'value')}, such as those of an audited row.")
    if len(lines) > 1:
        raise InputError(f"These are {len(lines)} rows: give one at a time.")
    outside = re.sub(r'"[^"]*"', "", lines[0])
    divider = next((one for one in "\t;," if one in outside), " ")
    line = re.sub(r"\s+", " ", lines[0].strip()) if divider == " " else lines[0]
    try:
        cells = [one.strip() for one in next(csv.reader([line], delimiter=divider, skipinitialspace=True))]
    except csv.Error as error:
        raise InputError(f"The row cannot be read ({error}): give values with commas between them.") from error
    if len(cells) != len(names):
        raise InputError(
            f"The row has {count(len(cells), 'value')}, and the audit has {count(len(names), 'column')}: {listed(list(names))}."
        )
    return cells


def level_in(name: str, levels: Mapping[str, Any], cell: str) -> Any:
    """The level that a cell names, with or without the blanks around it; raises if there is none.

    >>> level_in("job", {" cook": 0, " chef": 1}, "chef")
    1
    """
    named = [cell] if cell in levels else [level for level in levels if level.strip() == cell]
    if len(named) != 1:
        raise InputError(f"Column '{name}' has the levels {listed(list(levels))}, not '{cell[:40]}'.")
    return levels[named[0]]


def number_in(name: str, cell: str) -> float:
    """The number in a cell; raises if it holds none."""
    try:
        found = float(cell)
    except ValueError:
        what = "is empty" if not cell else f"holds '{cell[:40]}'"
        raise InputError(f"Column '{name}' {what}: give a number, with a point before its decimals.") from None
    if not math.isfinite(found):
        raise InputError(f"Column '{name}' holds '{cell[:40]}': give a finite number.")
    return found
