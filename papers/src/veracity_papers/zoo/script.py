"""What the training scripts share: train one network, write its weights and checkpoints, print its score."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from veracity.trainers.training import accuracy, initialised, train
from veracity_papers.data.labelled import Labelled
from veracity_papers.zoo.store import save


def arguments(given: list[str], epochs: int) -> tuple[Path, int]:
    """The folder and the number of epochs from a command line OUT [EPOCHS]."""
    if len(given) < 2:
        raise SystemExit(f"Say where to write the weights: python -m {Path(given[0]).stem} OUT [EPOCHS]")
    return Path(given[1]), int(given[2]) if len(given) > 2 else epochs


def say(line: dict[str, object]) -> None:
    """One line of JSON on the standard output."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def fit(
    name: str,
    out: Path,
    build: Callable[[], nn.Module],
    data: Labelled,
    test: Labelled,
    *,
    epochs: int,
    keep: int = 0,
    half: bool = False,
    seed: int = 0,
    **settings: Any,
) -> nn.Module:
    """Train a network, write `name.safetensors`, and `keep` evenly spaced checkpoints of its training, in half precision if asked."""
    start = time.perf_counter()
    model = initialised(build, seed)
    moments = [round(epochs * (number + 1) / keep) for number in range(keep)]

    def checkpoint(done: int, rate: float) -> None:
        if done in moments:
            save(model.state_dict(), out / f"{name}.{moments.index(done)}.safetensors", half=half, epochs=done, rate=rate)

    train(model, data.inputs, data.labels, epochs=epochs, seed=seed, checkpoint=checkpoint, **settings)
    score = accuracy(model, test.inputs, test.labels)
    save(model.state_dict(), out / f"{name}.safetensors", epochs=epochs, test_accuracy=round(score, 4), seed=seed)
    line: dict[str, object] = {
        "model": name,
        "epochs": epochs,
        "test_accuracy": round(score, 4),
        "seconds": round(time.perf_counter() - start, 1),
    }
    say(line)
    return model
