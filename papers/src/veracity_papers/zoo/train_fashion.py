"""Train the three FashionMNIST networks and write their weights: python -m veracity_papers.zoo.train_fashion OUT [EPOCHS]

Needs torch, numpy and safetensors only. Minutes on a GPU; hours on a CPU. Beside each network's weights it leaves a few
half-precision checkpoints of the training, for explanations that look back on it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

from veracity.trainers.training import accuracy, initialised, random_shift, train
from veracity_papers.data.fashion import fashion_mnist
from veracity_papers.zoo.fashion import NAMES, PADDING, build
from veracity_papers.zoo.store import save

MOMENTS = (2, 8)


def main(out: Path, epochs: int) -> None:
    """Train, score on the test split, save."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    (x, y), (x_test, y_test) = ([part.to(device) for part in fashion_mnist(split, PADDING)] for split in ("train", "test"))
    for name in NAMES:
        start = time.perf_counter()
        model = initialised(lambda name=name: build(name), seed=0).to(device)  # type: ignore[misc]

        def keep(done: int, rate: float, name: str = name, model: torch.nn.Module = model) -> None:
            if done in MOMENTS:
                save(model.state_dict(), out / f"fashion-{name}.{MOMENTS.index(done)}.safetensors", half=True, epochs=done, rate=rate)

        augment = random_shift(PADDING) if name == "augmented-cnn" else None
        train(model, x, y, epochs=epochs, batch=256, rate=4e-3, augment=augment, checkpoint=keep)
        score = accuracy(model, x_test, y_test)
        save(model.state_dict(), out / f"fashion-{name}.safetensors", epochs=epochs, test_accuracy=round(score, 4))
        line = {"model": name, "epochs": epochs, "test_accuracy": score, "seconds": round(time.perf_counter() - start, 1)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40)
