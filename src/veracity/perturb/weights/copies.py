"""Copies of a model with other weights; the model itself is never changed."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.long_rows import long_normal
from veracity.core.models import device_of, unwrap
from veracity.core.spaces import WeightSpace

T = TypeVar("T")
Pairs = Sequence[tuple[int, int]]
"""Copies as (draw, level)."""


@dataclass(frozen=True, kw_only=True)
class ModelCopies(WeightSpace, ABC):
    """A weight space that makes many copies at once.

    Parameters change, including biases; buffers, such as the running means of a batch normalisation, stay unless a space names them.
    """

    @abstractmethod
    def copies(self, model: nn.Module, pairs: Pairs, seed: int) -> dict[str, Tensor]:
        """The parameters and buffers that change in any copy, by name, each (copies, ...)."""

    def parameters(self, model: nn.Module, draw: int, level: int, seed: int) -> dict[str, Tensor]:
        """The parameters of one copy by name."""
        return {name: values[0] for name, values in self.copies(model, [(draw, level)], seed).items()}


MOST_BYTES, MOST_ROWS = 64 << 20, 2048
"""Limits for copies that are read together: bytes of weights or explanations, and rows."""


WORKERS = max(1, min(4, (os.cpu_count() or 1) - 1))
"""How many threads make the weights of copies that are needed next."""


class ScratchModel:
    """A copy of a model that takes the weights of any element of a weight space."""

    def __init__(self, model: nn.Module, seed: int) -> None:
        self.model, self.seed = model, seed
        self.scratch = deepcopy(model)
        self.own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self.held = {**dict(self.scratch.named_parameters()), **dict(self.scratch.named_buffers())}
        self.changed: set[str] = set()

    @classmethod
    @torch.no_grad()
    def of(cls, model: nn.Module, seed: int) -> ScratchModel:
        """The copy that was made last, with the model's own numbers, if it is of this model; else a new one."""
        if not LATEST or LATEST[0].model is not model or LATEST[0].seed != seed:
            LATEST[:] = [cls(model, seed)]
        found = LATEST[0]
        torch._foreach_copy_(list(found.held.values()), [found.own[name] for name in found.held])
        found.changed = set()
        return found

    @torch.no_grad()
    def weights(self, space: WeightSpace, pairs: Pairs) -> dict[str, Tensor]:
        """The parameters and buffers that change in any copy, by name, each (copies, ...)."""
        return stack(space, self.model, pairs, self.seed)

    def ahead(self, space: WeightSpace, chunks: Sequence[Pairs]) -> Iterator[dict[str, Tensor]]:
        """The weights of every chunk of copies; on processors the next ones are made by other threads while these are in use.

        Drawing the random numbers of a copy takes longer than a pass of a few samples through a small model. Of a large model there is
        never more than one copy.
        """
        large = sum(value.nbytes for value in self.own.values()) > MOST_BYTES  # one copy at a time
        if device_of(self.model).type != "cpu" or large:
            yield from (self.weights(space, pairs) for pairs in chunks)
            return
        with ThreadPoolExecutor(WORKERS) as pool:
            coming = deque(pool.submit(self.weights, space, pairs) for pairs in chunks[:WORKERS])
            for place in range(len(chunks)):
                made = coming.popleft().result()
                if place + WORKERS < len(chunks):
                    coming.append(pool.submit(self.weights, space, chunks[place + WORKERS]))
                yield made

    @torch.no_grad()
    def become(self, weights: dict[str, Tensor], number: int) -> nn.Module:
        """The scratch copy with the weights of copy `number`; all others are the model's own."""
        back = sorted(self.changed - set(weights))
        here = [*(self.held[name] for name in back), *(self.held[name] for name in weights)]
        if here:
            torch._foreach_copy_(here, [*(self.own[name] for name in back), *(values[number] for values in weights.values())])
        self.changed = set(weights)
        return self.scratch


def at_once(model: nn.Module, x: Tensor, most: int | None = MOST_BYTES) -> int:
    """The number of copies that are made, and read on these samples, at once: weights, rows and explanations are bounded.

    With `most` None the weights do not count. Per copy, explanations take about six times the memory of the inputs: they are compared in
    double precision, in pairs.
    """
    rows = max(1, min(MOST_ROWS // max(len(x), 1), MOST_BYTES // max(6 * x.nbytes, 1)))
    if most is None or rows == 1:
        return rows
    size = sum(value.nbytes for value in (*model.parameters(), *model.buffers()))
    return max(1, min(most // max(size, 1), rows))


LATEST: list[ScratchModel] = []
"""The copy that was made last: jobs of a run share it, unless their explainer comes from outside, which may change it."""


def forget_copies() -> None:
    """Drop the copy that was made last, and the noise of copies: both take memory."""
    LATEST.clear()
    SHARED.clear()


def stack(space: WeightSpace, model: nn.Module, pairs: Pairs, seed: int) -> dict[str, Tensor]:
    """The parameters that change in any of several copies, by name, each (copies, ...), for torch.func.functional_call under vmap.

    >>> from veracity.perturb import ParameterScaling
    >>> space = ParameterScaling(sigma=0.1, steps=2)
    >>> {name: tuple(value.shape) for name, value in stack(space, nn.Linear(3, 2), [(0, 0), (0, 1), (1, 0)], seed=0).items()}
    {'bias': (3, 2), 'weight': (3, 2, 3)}
    """
    if isinstance(space, ModelCopies):
        return space.copies(model, pairs, seed)
    return stack_copies(parameters_of(model), [space.parameters(model, draw, level, seed) for draw, level in pairs])


def stack_copies(parameters: dict[str, Tensor], copies: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Stack copies that each hold their changed parameters; a missing parameter is the model's own. One copy is not copied again."""
    if len(copies) == 1:
        return {name: copies[0][name][None] for name in parameters if name in copies[0]}
    changed = [name for name in parameters if any(name in copy for copy in copies)]
    return {name: torch.stack([copy.get(name, parameters[name]) for copy in copies]) for name in changed}


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Every floating-point parameter once, detached, in the order of names; raises if there is none."""
    found = dict(sorted(model.named_parameters()))
    for name, value in found.items():
        if is_lazy(value) or value.is_meta:
            what = "has no shape yet (a lazy layer)" if is_lazy(value) else "has no values (it is on the meta device)"
            raise InputError(f"The parameter '{name}' {what} and cannot be perturbed: run the model once, or load its weights.")
    kept = {name: value.detach() for name, value in found.items() if value.is_floating_point() and value.numel() > 0}
    if not kept and hasattr(unwrap(model), "estimator"):
        raise InputError(
            f"{getattr(unwrap(model), 'title', 'The estimator')} has no weights that could be perturbed: use refit_gef, which fits it "
            "again, with Audit(training=(x, y))."
        )
    if not kept:
        title = getattr(unwrap(model), "title", f"The model {type(model).__name__}")
        raise InputError(
            f"{title} has no parameters that could be perturbed: leave out the scores that perturb weights, or "
            "pass a model whose weights are nn.Parameters."
        )
    return kept


def key(*parts: int | str) -> int:
    """A seed below 2^63 for these numbers and words, the same in every process.

    >>> key(0, 1, "noise") == key(0, 1, "noise"), key(0, 1, "noise") == key(0, 2, "noise")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def generator(*parts: int | str) -> torch.Generator:
    """A new CPU generator for these numbers and words."""
    return torch.Generator().manual_seed(key(*parts))


REMEMBERED = 1 << 30
"""How many bytes of noise and of new layers are remembered at once: 180 directions of a model of 1.5 million parameters."""


class Remembered:
    """What copies of a model share, such as the noise of all levels of a draw, by name; the oldest are dropped."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self.most, self.held, self.kept = most, 0, OrderedDict[tuple[Any, ...], dict[str, Any]]()
        self.lock = Lock()

    def recall(self, name: tuple[Any, ...], make: Callable[[], dict[str, T]]) -> dict[str, T]:
        """What is known under a name, or what `make` makes."""
        with self.lock:
            found = self.kept.get(name)
        if found is None:
            found = make()
            with self.lock:
                self.held += size_of(found) - size_of(self.kept.get(name, {}))
                self.kept[name] = found
                while self.held > self.most and len(self.kept) > 1:
                    self.held -= size_of(self.kept.popitem(last=False)[1])
        return found


SHARED: list[tuple[nn.Module, str, Remembered]] = []
"""What copies of the latest model in the latest space share."""


def remembered_for(model: nn.Module, space: WeightSpace) -> Remembered:
    """What copies of a model share, within a block of samples and from one block to the next: all blocks take the same copies."""
    spec = fingerprint.of_json(space.spec())
    if not SHARED or SHARED[0][0] is not model or SHARED[0][1] != spec:
        SHARED[:] = [(model, spec, Remembered())]
    return SHARED[0][2]


def size_of(content: Mapping[str, Any]) -> int:
    """The bytes of its tensors."""
    return sum(value.nbytes for value in content.values() if isinstance(value, Tensor))


OPEN: list[Remembered] = []
"""Open caches, innermost last."""


@contextmanager
def remembering(store: Remembered) -> Iterator[None]:
    """Remember noise and new layers within this block, in which the same ones are needed several times."""
    OPEN.append(store)
    try:
        yield
    finally:
        OPEN.pop()


def recall(name: tuple[Any, ...], make: Callable[[], dict[str, T]]) -> dict[str, T]:
    """What is remembered under a name, or what `make` makes."""
    return OPEN[-1].recall(name, make) if OPEN else make()


def direction_noise(size: int, seed: int, draw: int, number: int, device: torch.device) -> Tensor:
    """Standard normal numbers (size,) for direction `number` of a draw; the same for the same numbers, up to rounding on any device."""
    name = ("weights", seed, draw, number)
    return recall((*name, size, str(device)), lambda: {"noise": long_normal(size, *name, device=device)})["noise"]
