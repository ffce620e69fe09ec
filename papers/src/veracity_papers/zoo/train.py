"""Train shipped networks and write their weights: python -m veracity_papers.zoo.train NAME OUT [EPOCHS]

NAME is one of ecg, fashion, imdb, modelnet, mutagenicity, pneumonia or tabular. Each takes minutes on one CPU core, except
fashion, which takes hours there and minutes on a GPU. `ecg` and `mutagenicity` need the extras "ecg" and "graphs". Some trainings
also write checkpoints, for explanations that refer to them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from veracity.core.inputs import TensorInputs
from veracity.trainers.training import accuracy, initialised, random_shift, train
from veracity_papers.data.ecg import LENGTH, ecg
from veracity_papers.data.imdb import imdb
from veracity_papers.data.labelled import Labelled
from veracity_papers.data.mnist import fashion_mnist
from veracity_papers.data.modelnet import CLASSES, modelnet
from veracity_papers.data.mutagenicity import mutagenicity
from veracity_papers.data.pneumonia import pneumonia_mnist
from veracity_papers.data.tabular import avila, compas
from veracity_papers.zoo import bag, fashion, graph, med, series, sets, tabular
from veracity_papers.zoo.storage import save

RATES = {"avila-relu": 1e-2, "avila-sigmoid": 1.2e-2, "compas-mlp3": 2e-3}
FASHION_CHECKPOINTS = (2, 8)


def say(line: Mapping[str, object]) -> None:
    """Print one line of JSON."""
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
    """Train a network, write `name.safetensors` and `keep` evenly spaced checkpoints (in half precision if asked), print its accuracy."""
    start = time.perf_counter()
    model = initialised(build, seed)
    moments = [round(epochs * (number + 1) / keep) for number in range(keep)]

    def checkpoint(done: int, rate: float) -> None:
        if done in moments:
            save(model.state_dict(), out / f"{name}.{moments.index(done)}.safetensors", half=half, epochs=done, rate=rate)

    train(model, data.inputs, data.labels, epochs=epochs, seed=seed, checkpoint=checkpoint, **settings)
    score = accuracy(model, test.inputs, test.labels)
    save(model.state_dict(), out / f"{name}.safetensors", epochs=epochs, test_accuracy=round(score, 4), seed=seed)
    say({"model": name, "epochs": epochs, "test_accuracy": round(score, 4), "seconds": round(time.perf_counter() - start, 1)})
    return model


def train_ecg(out: Path, epochs: int) -> None:
    """Five checkpoints of the small invariant network, two of the others."""
    data, test = ecg("train"), ecg("test")
    values = data.inputs.take(torch.arange(len(data))).values
    for name in series.NAMES:
        build = partial(standardising, name, float(values.mean()), float(values.std()))
        augment = random_shift(LENGTH // 2, axes=(-1,)) if name == "augmented-cnn" else None
        small = name == "all-cnn"
        checkpoints: dict[str, Any] = {"keep": 5 if small else 2, "half": not small}
        fit(f"ecg-{name}", out, build, data, test, epochs=epochs, batch=64, rate=5e-3, augment=augment, **checkpoints)


def standardising(name: str, mean: float, deviation: float) -> nn.Sequential:
    """An ECG network with He's initial weights, whose first convolution standardises its input."""
    net = series.build(name)
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
    (x, y), (x_test, y_test) = ([part.to(device) for part in fashion_mnist(split, fashion.PADDING)] for split in ("train", "test"))
    for name in fashion.NAMES:
        start = time.perf_counter()
        model = initialised(partial(fashion.build, name), seed=0).to(device)

        def checkpoint(done: int, rate: float, name: str = name, model: nn.Module = model) -> None:
            if done in FASHION_CHECKPOINTS:
                path = out / f"fashion-{name}.{FASHION_CHECKPOINTS.index(done)}.safetensors"
                save(model.state_dict(), path, half=True, epochs=done, rate=rate)

        augment = random_shift(fashion.PADDING) if name == "augmented-cnn" else None
        train(model, x, y, epochs=epochs, batch=256, rate=4e-3, augment=augment, checkpoint=checkpoint)
        score = accuracy(model, x_test, y_test)
        save(model.state_dict(), out / f"fashion-{name}.safetensors", epochs=epochs, test_accuracy=round(score, 4))
        say({"model": name, "epochs": epochs, "test_accuracy": score, "seconds": round(time.perf_counter() - start, 1)})


def train_imdb(out: Path, epochs: int) -> None:
    """The bag-of-words network."""
    fit(bag.NAME, out, bag.bag_of_words, imdb("train"), imdb("test"), epochs=epochs, keep=5, batch=64, rate=1e-3, decay=0.1)


def train_modelnet(out: Path, epochs: int) -> None:
    """The Deep Sets network."""
    data, test = modelnet("train"), modelnet("test")
    fit(sets.NAME, out, lambda: sets.deep_sets(len(CLASSES), sets.WIDTH), data, test, epochs=epochs, keep=5, batch=32, decay=1e-7)


def train_mutagenicity(out: Path, epochs: int) -> None:
    """The graph network."""
    fit(graph.NAME, out, graph.GraphNet, mutagenicity("train"), mutagenicity("test"), epochs=epochs, keep=5, batch=64, decay=1e-5)


def train_pneumonia(out: Path, epochs: int) -> None:
    """The MedCNN."""
    (x, y), (x_test, y_test) = pneumonia_mnist("train"), pneumonia_mnist("test")
    fit(med.NAME, out, med.med_cnn, Labelled(TensorInputs(x), y), Labelled(TensorInputs(x_test), y_test), epochs=epochs, rate=2e-3)


def train_tabular(out: Path, epochs: int) -> None:
    """The networks over tables whose weights are shipped."""
    for name in tabular.SHIPPED:
        table = avila if name.startswith("avila") else compas
        data, test = (table(split).labelled for split in ("train", "test"))
        fit(name, out, partial(tabular.build, name), data, test, epochs=epochs, batch=64, rate=RATES[name])


TRAININGS: Mapping[str, tuple[Callable[[Path, int], None], int]] = {
    "ecg": (train_ecg, 12),
    "fashion": (train_fashion, 40),
    "imdb": (train_imdb, 10),
    "modelnet": (train_modelnet, 30),
    "mutagenicity": (train_mutagenicity, 50),
    "pneumonia": (train_pneumonia, 8),
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
