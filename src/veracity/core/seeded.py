"""Global random states that follow from a seed for a while, for code of others that draws from them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch


def in_use() -> list[int]:
    """The GPUs whose generators somebody may have drawn from: none as long as CUDA is not started."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


@contextmanager
def seeded(seed: int, gpus: Sequence[int] | None = None) -> Iterator[None]:
    """Python's, NumPy's and torch's global states follow from the seed inside, and are as they were outside.

    Of GPUs, the generators of these; of all by default, which starts CUDA.
    """
    python, array = random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = list(range(torch.cuda.device_count()) if gpus is None else gpus)
    try:
        with torch.random.fork_rng(devices=devices):
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            torch.default_generator.manual_seed(seed)
            for device in devices:
                torch.cuda.default_generators[device].manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(array)  # noqa: NPY002
