"""Handling somebody's model with care: evaluation mode inside, everything as it was outside.

Whether an error means that memory ran out, on any device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from veracity.core.errors import InputError
from veracity.core.intact import Numbers


@contextmanager
def full_float32() -> Iterator[None]:
    """GPU convolutions and matrix products without the shortcut of TF32; the settings come back afterwards."""
    cudnn: Any = torch.backends.cudnn
    parts: tuple[Any, ...] = (cudnn.conv, torch.backends.cuda.matmul)
    before = [part.fp32_precision for part in parts]
    try:
        for part in parts:
            part.fp32_precision = "ieee"
        yield
    finally:
        for part, precision in zip(parts, before, strict=True):
            part.fp32_precision = precision


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """The model in evaluation mode and full float32; modes, gradients, buffers and settings come back, whatever happens in between.

    Reduced-precision convolutions would make numbers depend on the batch size and hide an exact symmetry.
    """
    modes = {module: module.training for module in model.modules()}
    gradients = {parameter: parameter.grad for parameter in model.parameters()}
    buffers = Numbers(dict(model.named_buffers()))  # a model may count its passes there
    try:
        model.eval()
        for parameter in gradients:
            parameter.grad = None
        with full_float32():
            yield model
    finally:
        for module, mode in modes.items():
            module.training = mode
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        buffers.restore()


def device_of(model: nn.Module) -> torch.device:
    """Where the model's weights are; the CPU if it has none."""
    tensor = next(model.parameters(), next(model.buffers(), None))
    return torch.device("cpu") if tensor is None else tensor.device


def as_device(name: str) -> torch.device:
    """A device by name, if this machine has it."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"The device '{name}' cannot be used here: {' '.join(str(error).split())[:120]}") from error
    return device


def check_weights(name: str, model: nn.Module) -> None:
    """Raise if a model has weights without numbers: on the device 'meta', or of a lazy layer that never saw an input."""
    for key, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise InputError(f"Model '{name}' has a lazy layer without weights, '{key}': run it on an input, then load its weights.")
        if tensor.is_meta:
            raise InputError(
                f"Model '{name}' has no numbers in '{key}', which is on the device 'meta': load its weights with "
                "load_state_dict(state, assign=True)."
            )


def placed(name: str, model: nn.Module, where: torch.device) -> nn.Module:
    """A model on a device; copied there if it is elsewhere."""
    check_weights(name, model)
    return model if device_of(model) == where else deepcopy(model).to(where)


class View(nn.Module):
    """A model seen in another way; its layers keep their own names."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


def viewed(model: nn.Module) -> nn.Module:
    """The model behind all views of it."""
    while isinstance(model, View):
        model = model.model
    return model


def layer_of(model: nn.Module, name: str) -> nn.Module:
    """The submodule of this dotted name, with a suggestion if there is none."""
    layers: dict[str, nn.Module] = dict(viewed(model).named_modules())
    if not isinstance(name, str):
        raise InputError(f"A layer is given by its name, such as '{list(layers)[-1]}', not as {type(name).__name__}.")
    if name not in layers or name == "":
        near = get_close_matches(name, [key for key in layers if key], n=1, cutoff=0.3)
        hint = f"Did you mean '{near[0]}'?" if near else f"Layers: {', '.join(key for key in layers if key)}."
        raise InputError(f"The model has no layer '{name}'. {hint}")
    return layers[name]


def weighted_layers(model: nn.Module) -> tuple[str, ...]:
    """The names of the layers that have weights of their own, in the order in which the model holds them."""
    return tuple(name for name, part in viewed(model).named_modules() if name and next(part.parameters(recurse=False), None) is not None)


class LayerScores(View):
    """The model seen from one layer: its output there, flattened to (N, units)."""

    def __init__(self, model: nn.Module, layer: str) -> None:
        super().__init__(model)
        layer_of(model, layer)
        self.layer = layer

    def forward(self, *inputs: Tensor) -> Tensor:
        """Run the model and return what the layer gave."""
        seen: list[Tensor] = []

        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            if not isinstance(output, Tensor):
                raise InputError(f"The layer '{self.layer}' gives {type(output).__name__}, not one tensor: choose another layer.")
            seen.append(output.clone())

        handle = layer_of(self.model, self.layer).register_forward_hook(keep)
        try:
            self.model(*inputs)
        finally:
            handle.remove()
        if not seen:
            raise InputError(f"The layer '{self.layer}' does not take part in the model's forward pass.")
        if len(seen[-1]) != len(inputs[0]):
            raise InputError(
                f"The layer '{self.layer}' gives {len(seen[-1])} rows for {len(inputs[0])} inputs, so that none of them belongs to one "
                "input: choose a layer after the pooling."
            )
        return seen[-1].flatten(1)


class Heard(View):
    """The model, remembering the scores that it gives; with `follow` it shows only the largest one of each row, (N, 1)."""

    def __init__(self, model: nn.Module, *, follow: bool) -> None:
        super().__init__(model)
        self.follow = follow
        self.seen: list[Tensor] = []

    def forward(self, *inputs: Tensor) -> Tensor:
        """Run the model and keep what it gave."""
        scores: Tensor = self.model(*inputs)
        self.seen.append(scores.detach())
        return scores.gather(1, scores.detach().argmax(dim=1, keepdim=True)) if self.follow else scores

    def scores(self, rows: int) -> Tensor:
        """What was given for this many rows, (rows, K)."""
        given = torch.cat(self.seen)
        if len(given) != rows:
            raise InputError(
                f"A local explainer asks the model about its {rows} inputs alone, not about {len(given)} rows: set local = False."
            )
        return given


WORDS = (
    "defaultcpuallocator",
    "not enough memory",
    "allocate memory",
    "out of memory",
    "bad_alloc",
    "status_alloc_failed",
)
"""What a plain RuntimeError says then: of the CPU's allocator in its several wordings, of CUDA, cuBLAS, cuDNN and MPS, and of C++."""


def out_of_memory(error: BaseException) -> bool:
    """Whether a smaller batch may help.

    >>> out_of_memory(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."))
    True
    >>> out_of_memory(RuntimeError("CUDA error: out of memory")), out_of_memory(RuntimeError("shapes differ"))
    (True, False)
    """
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in WORDS)
