"""Train shipped networks and write their weights: python -m veracity_papers.zoo.train NAME OUT [EPOCHS]

NAME is one of ecg, fashion, imdb, modelnet, mutagenicity, pneumonia or tabular. Each takes minutes on one CPU core, except
fashion, which takes hours there and minutes on a GPU. `ecg` and `mutagenicity` need the extras "ecg" and "graphs". Some trainings
also write checkpoints, for explanations that refer to them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from veracity.trainers.training import accuracy, initialised, random_shift, train
from veracity_papers.data.ecg import LENGTH, ecg
from veracity_papers.data.imdb import imdb
from veracity_papers.data.labelled import Labelled
from veracity_papers.data.mnist import fashion_mnist
from veracity_papers.data.modelnet import modelnet
from veracity_papers.data.mutagenicity import mutagenicity
from veracity_papers.data.pneumonia import pneumonia_mnist
from veracity_papers.data.tabular import avila, compas
from veracity_papers.zoo import med, tabular
from veracity_papers.zoo.scripts import say
from veracity_papers.zoo.storage import Shipped, save
from veracity_papers.zoo.symmetry import BAG, DEEP_SETS, ECG, FASHION, GNN, PADDING

RATES = {"avila-relu": 1e-2, "avila-sigmoid": 1.2e-2, "compas-mlp3": 2e-3}


def fit(
    name: str,
    out: Path,
    build: Callable[[], nn.Module],
    data: Labelled,
    test: Labelled,
    *,
    epochs: int,
    moments: Sequence[int] = (),
    half: bool = False,
    seed: int = 0,
    **settings: Any,
) -> nn.Module:
    """Train a network where its labels are, write `name.safetensors` and checkpoints after `moments` epochs, print its accuracy.

    `half` asks for checkpoints in half precision.
    """
    start = time.perf_counter()
    model = initialised(build, seed).to(data.labels.device)

    def checkpoint(done: int, rate: float) -> None:
        if done in moments:
            save(model.state_dict(), out / f"{name}.{moments.index(done)}.safetensors", half=half, epochs=done, rate=rate)

    train(model, data.inputs, data.labels, epochs=epochs, seed=seed, checkpoint=checkpoint, **settings)
    score = round(accuracy(model, test.inputs, test.labels), 4)
    save(model.state_dict(), out / f"{name}.safetensors", epochs=epochs, test_accuracy=score, seed=seed)
    say({"model": name, "epochs": epochs, "test_accuracy": score, "seconds": round(time.perf_counter() - start, 1)})
    return model


def evenly(epochs: int, count: int) -> list[int]:
    """`count` evenly spaced moments of a training, the last one at its end.

    >>> evenly(12, 5)
    [2, 5, 7, 10, 12]
    """
    return [round(epochs * (number + 1) / count) for number in range(count)]


def train_ecg(out: Path, epochs: int) -> None:
    """Five checkpoints of the small invariant network, two of the others."""
    data, test = ecg("train"), ecg("test")
    values = data.inputs.take(torch.arange(len(data))).values
    for name, network in ECG.items():
        build = partial(standardising_network, name, float(values.mean()), float(values.std()))
        augment = random_shift(LENGTH // 2, axes=(-1,)) if name == "augmented-cnn" else None
        small = name == "all-cnn"
        moments = evenly(epochs, 5 if small else 2)
        fit(network.weights, out, build, data, test, epochs=epochs, moments=moments, half=not small, batch=64, rate=5e-3, augment=augment)


def standardising_network(name: str, mean: float, deviation: float) -> nn.Sequential:
    """An ECG network with He's initial weights, whose first convolution standardises its input."""
    net = ECG[name].build()
    for layer in net:
        if isinstance(layer, nn.Conv1d | nn.Linear):
            nn.init.kaiming_normal_(layer.get_parameter("weight"))
            nn.init.zeros_(layer.get_parameter("bias"))
    weight, bias = (net.get_submodule("conv1").get_parameter(part) for part in ("weight", "bias"))
    with torch.no_grad():
        weight.div_(deviation)
        bias.sub_(mean * weight.sum(dim=(1, 2)))
    return net


def train_fashion(out: Path, epochs: int) -> None:
    """Half-precision checkpoints after epochs 2 and 8."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    splits = [fashion_mnist(split, PADDING) for split in ("train", "test")]
    data, test = (Labelled.of((x.to(device), y.to(device))) for x, y in splits)
    for name, network in FASHION.items():
        augment = random_shift(PADDING) if name == "augmented-cnn" else None
        fit(
            network.weights, out, network.build, data, test, epochs=epochs, moments=(2, 8), half=True, batch=256, rate=4e-3, augment=augment
        )


def train_shipped(network: Shipped[Any], read: Callable[[str], Labelled], out: Path, epochs: int, keep: int = 5, **settings: Any) -> None:
    """A network on the splits of a data set, with `keep` evenly spaced checkpoints."""
    moments = evenly(epochs, keep)
    fit(network.weights, out, network.build, read("train"), read("test"), epochs=epochs, moments=moments, **settings)


def train_tabular(out: Path, epochs: int) -> None:
    """The networks over tables whose weights are shipped."""
    for name in tabular.SHIPPED:
        table = avila if name.startswith("avila") else compas
        data, test = (table(split).labelled for split in ("train", "test"))
        fit(name, out, partial(tabular.build, name), data, test, epochs=epochs, batch=64, rate=RATES[name])


TRAININGS: Mapping[str, tuple[Callable[..., None], int]] = {
    "ecg": (train_ecg, 12),
    "fashion": (train_fashion, 40),
    "imdb": (partial(train_shipped, BAG, imdb, batch=64, rate=1e-3, decay=0.1), 10),
    "modelnet": (partial(train_shipped, DEEP_SETS, modelnet, batch=32, decay=1e-7), 30),
    "mutagenicity": (partial(train_shipped, GNN, mutagenicity, batch=64, decay=1e-5), 50),
    "pneumonia": (partial(train_shipped, med.PNEUMONIA, lambda split: Labelled.of(pneumonia_mnist(split)), keep=0, rate=2e-3), 8),
    "tabular": (train_tabular, 30),
}
"""By name: how to train, and for how many epochs unless the command line says otherwise."""


def main(given: list[str]) -> None:
    """Run the training that NAME OUT [EPOCHS] asks for."""
    if len(given) not in (2, 3) or given[0] not in TRAININGS:
        raise SystemExit(f"Usage: python -m veracity_papers.zoo.train NAME OUT [EPOCHS], with NAME one of {', '.join(TRAININGS)}.")
    run, epochs = TRAININGS[given[0]]
    run(Path(given[1]), int(given[2]) if len(given) == 3 else epochs)


if __name__ == "__main__":
    main(sys.argv[1:])
