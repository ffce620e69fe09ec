"""Ground truth: masks of the positions that an explanation should point to, also from boxes and from features of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.features import Features
from veracity.core.inputs import Inputs, whole
from veracity.engine.resolve.inputs import as_tensor
from veracity.inputs.truth import Boxes, BoxMasks, RelevantFeatures

BLOCK = 1024
"""How many samples are looked at together."""


@dataclass(frozen=True)
class SelectedMasks:
    """Masks (samples, ...) of some samples of a truth that was checked as a whole: these may all be empty."""

    masks: Tensor


def as_truth(given: Any, shape: Size, size: int, features: Callable[[], Features | None] = lambda: None) -> Tensor | BoxMasks | None:
    """Masks as booleans (samples, ...) with the axes of a sample, of which an axis for the channels may have size one.

    `given` holds one mask for each of `size` inputs of this shape: True or False, 1 or 0, of the shape of an input or without its channels.
    A list may hold None for a sample without a mask, whose mask is then empty. RelevantFeatures become masks; `features` finds what the
    columns of a table are called. Boxes stay boxes, and become masks of the samples that somebody asks for.

    >>> as_truth([[[1, 0]], None], Size((3, 1, 2)), 2).tolist()
    [[[[True, False]]], [[[False, False]]]]
    """
    if given is None or isinstance(given, SelectedMasks):
        return None if given is None else given.masks
    if isinstance(given, (Boxes, RelevantFeatures)):
        marked = given.masks(shape, size) if isinstance(given, Boxes) else given.masks(features(), size)
        if not bool(marked.any()):
            what = "boxes" if isinstance(given, Boxes) else "features"
            raise InputError(f"The truth holds no {what} at all: give some for at least one input, or leave truth out.")
        return marked
    if isinstance(given, (list, tuple)) and any(one is None for one in given):
        known = next((one for one in given if one is not None), None)
        if known is None:
            raise InputError("The truth holds no mask at all: pass one mask per input, or leave truth out.")
        empty = np.zeros_like(np.asarray(known.cpu() if isinstance(known, Tensor) else known))
        given = [empty if one is None else np.asarray(one.cpu() if isinstance(one, Tensor) else one) for one in given]
        if len({one.shape for one in given}) > 1:
            raise InputError("The masks of the truth have different shapes: pass masks of one shape, or None for samples without a mask.")
        given = np.stack(given)
    found = as_tensor(given, "truth")
    if found is None or not found.ndim or len(found) != size:
        count = "one number" if found is None or not found.ndim else f"{len(found)} masks"
        raise InputError(f"The truth has {count} for {size} inputs: give one mask per input, in their order, and None where there is none.")
    masks = found.detach().cpu()
    if masks.dtype != torch.bool and not bool(((masks == 0) | (masks == 1)).all()):
        other = masks[(masks != 0) & (masks != 1)].flatten()[0].item()
        raise InputError(f"The truth must hold True and False, or 1 and 0, but it holds {other:g}: pass masks such as truth == class.")
    bare = len(shape) > 1 and masks.shape[1:] == shape[1:]
    masks = masks.bool().unsqueeze(1) if bare else masks.bool()
    full = (size, *shape)
    channels = (size, 1, *shape[1:])
    if masks.shape != full and (len(shape) < 2 or masks.shape != channels):
        shapes = [(size, *shape[1:]), channels, full] if len(shape) > 1 else [full]
        wanted = " or ".join(dict.fromkeys(map(str, shapes)))
        raise InputError(f"The truth has the shape {tuple(found.shape)}, and the inputs {full}: give masks of shape {wanted}.")
    if not bool(masks.any()):
        raise InputError("Every mask of the truth is empty: mark the positions that an explanation should point to.")
    return masks


def of_own_lengths(given: Any, inputs: Inputs) -> Any:
    """A truth with as many numbers per sample as it has edges, nodes or words, padded with False; anything else as it is given.

    A truth that is padded already may mark nothing beyond a sample's own length.
    """
    if (
        given is None
        or isinstance(given, SelectedMasks)
        or len(inputs.shape) != 1
        or not isinstance(given, (list, tuple, Tensor, np.ndarray))
    ):
        return given
    if inputs.take(torch.arange(1)).present is None or not hasattr(given, "__len__") or getattr(given, "ndim", 1) == 0:
        return given
    parts = (inputs.take(rows).present for rows in torch.arange(inputs.size()).split(BLOCK))
    present = torch.cat([part.cpu() for part in parts if part is not None])
    if len(given) != len(present):
        raise InputError(f"The truth has {len(given)} masks for {len(present)} inputs: give one per input, in their order, or None.")
    unit, padded = str(getattr(whole(inputs), "unit", "value")), torch.zeros(present.shape)
    for row, (one, exists) in enumerate(zip(given, present, strict=True)):
        mask = torch.zeros(0) if one is None else as_tensor(one, f"truth of sample {row}")
        count, found = int(exists.sum()), 0 if mask is None or not mask.ndim else len(mask)
        whole_row = mask is not None and mask.shape == exists.shape and not bool(mask[~exists].any())
        if one is not None and (mask is None or mask.ndim != 1 or (found != count and not whole_row)):
            raise InputError(
                f"The truth of sample {row} has {found} numbers, but the sample has {count} {unit}s: give True or False for each {unit}, "
                "in their order, or None if they are not known."
            )
        if one is not None and mask is not None:
            padded[row, exists] = mask[exists].cpu().float() if found != count else mask.cpu().float()
    return padded
