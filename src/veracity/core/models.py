"""Working with a user's model: evaluation mode, devices, layers by name, views of its outputs, and out-of-memory errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import deepcopy
from difflib import get_close_matches
from threading import Lock
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from veracity.core.errors import InputError, listed
from veracity.core.snapshot import TensorSnapshot

PRECISIONS = {"float32": "ieee", "tf32": "tf32"}
"""The precisions of products and convolutions on a GPU, and torch's names for them."""
PRECISION: ContextVar[str] = ContextVar("precision", default="float32")


@contextmanager
def in_precision(name: str) -> Iterator[None]:
    """Evaluate models in this precision within the block; float32 outside of any."""
    before = PRECISION.set(name)
    try:
        yield
    finally:
        PRECISION.reset(before)


ASKED: list[str] = []
"""The precisions of all open blocks, of every thread, in the order of their starts."""
FOUND: dict[Any, str] = {}
"""The caller's own settings while any block is open."""
SETTING = Lock()


@contextmanager
def products_in(name: str) -> Iterator[None]:
    """Torch's settings for products and convolutions, which all threads share, at this precision; the caller's own after the last block.

    Blocks of several threads may end in any order. If each put back what it found, they could leave settings that torch refuses.
    """
    cudnn: Any = torch.backends.cudnn
    with SETTING:
        if not ASKED:
            FOUND.update({part: part.fp32_precision for part in (cudnn.conv, cudnn.rnn, torch.backends.cuda.matmul)})
        ASKED.append(name)
        for part in FOUND:
            part.fp32_precision = PRECISIONS[name]
    try:
        yield
    finally:
        with SETTING:
            del ASKED[len(ASKED) - 1 - ASKED[::-1].index(name)]
            for part, own in FOUND.items():
                part.fp32_precision = PRECISIONS[ASKED[-1]] if ASKED else own


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """The model in evaluation mode and in the precision of the audit; modes, gradients, buffers and settings are restored on exit.

    That is full float32 unless somebody asks for TF32, whose numbers depend on the batch size and may hide an exact symmetry.
    """
    modes = {module: module.training for module in model.modules()}
    gradients = {parameter: parameter.grad for parameter in model.parameters()}
    buffers = TensorSnapshot(dict(model.named_buffers()))  # a model may count its passes there
    try:
        if any(modes.values()):
            model.eval()
        for parameter, gradient in gradients.items():
            if gradient is not None:
                parameter.grad = None
        with products_in(PRECISION.get()):
            yield model
    finally:
        for module, mode in modes.items():
            if module.training is not mode:
                module.training = mode
        for parameter, gradient in gradients.items():
            if parameter.grad is not gradient:
                parameter.grad = gradient
        buffers.restore()


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's weights; the CPU if it has none."""
    tensor = next(model.parameters(), next(model.buffers(), None))
    return torch.device("cpu") if tensor is None else tensor.device


def as_device(name: str) -> torch.device:
    """A device by name; raises if this machine does not have it."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"The device '{name}' cannot be used here: {' '.join(str(error).split())[:120]}") from error
    return device


def check_weights(name: str, model: nn.Module) -> None:
    """Raise if weights have no numbers: on the device 'meta', or in a lazy layer that has not seen an input."""
    for key, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise InputError(f"Model '{name}' has a lazy layer without weights, '{key}': run it on an input, then load its weights.")
        if tensor.is_meta:
            raise InputError(
                f"Model '{name}' has no numbers in '{key}', which is on the device 'meta': load its weights with "
                "load_state_dict(state, assign=True)."
            )


def to_device(name: str, model: nn.Module, where: torch.device) -> nn.Module:
    """The model on a device, copied only if needed."""
    check_weights(name, model)
    return model if device_of(model) == where else deepcopy(model).to(where)


def weight_type(model: nn.Module) -> torch.dtype | None:
    """The floating-point type of a model's weights; None if it has no weights, or several types."""
    kinds = {one.dtype for one in model.parameters() if one.is_floating_point()}
    return kinds.pop() if len(kinds) == 1 else None


class View(nn.Module):
    """A module around a model that changes its inputs or outputs; layers are still found under the model's own names."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside all views."""
    while isinstance(model, View):
        model = model.model
    return model


@runtime_checkable
class Padded(Protocol):
    """A model that knows which positions of its inputs hold a token."""

    def real_positions(self, *inputs: Tensor) -> Tensor:
        """True for tokens and False for padding, (N, T)."""
        ...


def real_positions(model: nn.Module, *inputs: Tensor) -> Tensor | None:
    """Which positions of the inputs hold a token, (N, T), as the outermost view that knows says; None if none of them knows."""
    while isinstance(model, View) and not isinstance(model, Padded):
        model = model.model
    return model.real_positions(*inputs) if isinstance(model, Padded) else None


@runtime_checkable
class Extendable(Protocol):
    """A model whose inputs hold tokens, after which others can be put."""

    def extended(self, tokens: Tensor, *inputs: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """The inputs with the same tokens (L,) after the last token of every row, and that token's position (N,)."""
        ...


def extendable(model: nn.Module) -> Extendable | None:
    """The outermost view whose inputs can be extended; None if there is none."""
    while isinstance(model, View) and not isinstance(model, Extendable):
        model = model.model
    return model if isinstance(model, Extendable) else None


def layer_of(model: nn.Module, name: str) -> nn.Module:
    """The submodule of this dotted name; raises with a suggestion if there is none."""
    if isinstance(name, str) and name:
        with suppress(AttributeError):
            return unwrap(model).get_submodule(name)
    layers: dict[str, nn.Module] = dict(unwrap(model).named_modules())
    if not isinstance(name, str):
        raise InputError(f"A layer is given by its name, such as '{list(layers)[-1]}', not as {type(name).__name__}.")
    if len(layers) == 1 and getattr(unwrap(model), "layers", True) is False:
        raise InputError(f"{getattr(unwrap(model), 'title', 'The model')} has no layers: leave out what names the layer '{name}'.")
    near = get_close_matches(name, [key for key in layers if key], n=1, cutoff=0.3)
    hint = f". Did you mean '{near[0]}'?" if near else f": choose one of {listed([key for key in layers if key])}."
    raise InputError(f"The model has no layer '{name}'{hint}")


def word_embedding(model: nn.Module) -> nn.Embedding:
    """The layer that looks up the tokens' vectors; raises if the model does not tell."""
    inner: Any = unwrap(model)
    found = inner.get_input_embeddings() if hasattr(inner, "get_input_embeddings") else None
    if found is None:
        tables = [part for part in inner.modules() if isinstance(part, nn.Embedding)]
        found = tables[0] if len(tables) == 1 else None
    if found is None or not hasattr(found, "weight"):
        raise InputError("The model has no layer of word embeddings that can be found: give it a method get_input_embeddings().")
    table: nn.Embedding = found
    return table


def weighted_layers(model: nn.Module) -> tuple[str, ...]:
    """Names of the layers that have weights of their own, in the model's order."""
    return tuple(name for name, part in unwrap(model).named_modules() if name and next(part.parameters(recurse=False), None) is not None)


class LayerScores(View):
    """The output of one layer, flattened to (N, units)."""

    def __init__(self, model: nn.Module, layer: str) -> None:
        super().__init__(model)
        layer_of(model, layer)
        self.layer = layer

    def forward(self, *inputs: Tensor) -> Tensor:
        """Run the model and return the layer's output."""
        seen: list[Tensor] = []

        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            if not isinstance(output, Tensor):
                raise InputError(f"The layer '{self.layer}' returns {type(output).__name__}, not one tensor: choose another layer.")
            seen.append(output.clone())

        handle = layer_of(self.model, self.layer).register_forward_hook(keep)
        try:
            self.model(*inputs)
        finally:
            handle.remove()
        if not seen:
            raise InputError(f"The layer '{self.layer}' is not used in the model's forward pass: choose another layer.")
        if len(seen[-1]) != len(inputs[0]):
            raise InputError(
                f"The layer '{self.layer}' returns {len(seen[-1])} rows for {len(inputs[0])} inputs, so its rows do not belong to single "
                "inputs: choose a layer after the pooling."
            )
        return self.read(seen[-1])

    def read(self, output: Tensor) -> Tensor:
        """Scores (N, units) from the layer's output."""
        return output.flatten(1)


class ScoreRecorder(View):
    """Records the scores that the model returns; with `follow` it returns only the largest score of each row, (N, 1)."""

    def __init__(self, model: nn.Module, *, follow: bool) -> None:
        super().__init__(model)
        self.follow = follow
        self.seen: list[Tensor] = []

    def forward(self, *inputs: Tensor) -> Tensor:
        """Run the model and record its scores."""
        scores: Tensor = self.model(*inputs)
        self.seen.append(scores.detach())
        return scores.gather(1, scores.detach().argmax(dim=1, keepdim=True)) if self.follow else scores

    def scores(self, rows: int) -> Tensor:
        """The recorded scores (rows, K); raises if the model was called on another number of rows."""
        given = torch.cat(self.seen)
        if len(given) != rows:
            raise InputError(
                f"A local explainer calls the model on its {rows} inputs only, but this one used {len(given)} rows: set local = False."
            )
        return given


MEMORY_ERRORS = (
    "defaultcpuallocator",
    "not enough memory",
    "allocate memory",
    "out of memory",
    "bad_alloc",
    "status_alloc_failed",
)
"""Words in a RuntimeError of the CPU's allocator, CUDA, cuBLAS, cuDNN, MPS or C++ when memory runs out."""


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on any device.

    >>> out_of_memory(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."))
    True
    >>> out_of_memory(RuntimeError("CUDA error: out of memory")), out_of_memory(RuntimeError("shapes differ"))
    (True, False)
    """
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in MEMORY_ERRORS)
