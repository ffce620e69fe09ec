"""The models that cards are measured on: the demo's three, a small one, and one each for fashion, a table, texts and satellite images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pandas import DataFrame
from torch import Tensor, nn

from veracity.demo import PADDING, digits, networks
from veracity.inputs import TableInputs, TextInputs
from veracity.trainers.training import train
from veracity_papers.data.eurosat import eurosat
from veracity_papers.data.mnist import fashion_mnist
from veracity_papers.data.tabular import compas
from veracity_papers.data.texts import balanced, sms
from veracity_papers.zoo import tabular
from veracity_papers.zoo.symmetry import FASHION
from veracity_papers.zoo.transformers import load_images, load_text

Loaded = tuple[nn.Module, Any, Tensor]
TEXTS = 500
"""Messages, as many of them spam as not."""


def small() -> Loaded:
    """The small network of docs/card.md, for digits without padding."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return train(net, *digits("train", padding=0), epochs=20), *digits("test", padding=0)


def fashion() -> Loaded:
    """The All-CNN of the symmetry paper."""
    return FASHION["all-cnn"].pretrained(), *fashion_mnist("test")


def table() -> Loaded:
    """A network with two hidden layers on COMPAS, whose columns have names."""
    rows = compas("test")
    return tabular.pretrained("compas-mlp3"), TableInputs(DataFrame(rows.values.numpy(), columns=list(rows.features))), rows.labels


def texts() -> Loaded:
    """A small DistilBERT that finds spam."""
    model, tokenizer = load_text("sms")
    messages, labels = balanced(sms("test"), TEXTS)
    return model, TextInputs(messages, tokenizer), labels


def satellite() -> Loaded:
    """A small ResNet on EuroSAT."""
    return load_images("eurosat-resnet"), *eurosat("test")


OTHERS: dict[str, Callable[[], Loaded]] = {"small": small, "fashion": fashion, "table": table, "texts": texts, "satellite": satellite}
DEMO = ("standard", "augmented", "invariant")
NAMES = (*DEMO, *OTHERS)


def network(name: str, folder: Path) -> Loaded:
    """A network with all of its test data; those of the demo are trained once, into a folder."""
    return OTHERS[name]() if name in OTHERS else (networks(folder / "networks")[name], *digits("test", PADDING))
