"""Small models, training sets and contexts for concept explanations."""

from __future__ import annotations

from dataclasses import replace

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from veracity.core.explainers import Context, Explainer
from veracity.core.inputs import TensorInputs
from veracity.core.randomness import Draws
from veracity.core.training import Training


def context_of(training: Training | None, rows: int = 0, batch: int = 512, seed: int = 0, draw: int = 0) -> Context:
    return Context(Draws.of(seed, torch.arange(rows), draw), batch, training=training)


def learnt(explainer: Explainer, model: nn.Module, context: Context) -> Context:
    return replace(context, learnt=explainer.learn(model, context))


def normal(*shape: int, stream: str = "concept tests") -> Tensor:
    return Draws.of(0, torch.arange(shape[0])).normal(*shape[1:], stream=stream)


def network() -> nn.Sequential:
    """Six numbers to three scores, with an in-place step right after the first layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)).double().eval()


def numbers(count: int = 400) -> Training:
    """Examples whose concepts can be told from the input, whose labels can, and a concept that nothing tells."""
    x = normal(count, 6)
    coin = normal(count, 1, stream="coin")[:, 0] > 0
    concepts = {"first": x[:, 0] > 0, "coin": coin, "far": x.norm(dim=1) > 2.3}
    return Training(TensorInputs(x), (x[:, 1] > 0).long(), concepts)


def digits_training(coin: bool = False) -> Training:
    """The examples that the digits fixture was trained on, with concepts from their labels."""
    data = load_digits()
    images = nn.functional.pad(torch.tensor(data.images[:1500], dtype=torch.float32)[:, None] / 16, (2, 2, 2, 2))
    labels = torch.tensor(data.target[:1500])
    concepts = {"loop": torch.isin(labels, torch.tensor([0, 6, 8, 9])), "stroke": torch.isin(labels, torch.tensor([1, 4, 7]))}
    return Training(TensorInputs(images), labels, concepts | ({"coin": normal(1500, 1)[:, 0] > 0} if coin else {}))
