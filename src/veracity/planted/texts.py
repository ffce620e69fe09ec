"""Planted texts: twelve words out of forty, and models that add up what a few trigger words are worth.

The model is a bag of words: an embedding with one number per trigger, the sum over the text, and a rule on these sums. A removed word is
replaced by the mask token, which is worth nothing in written models; in learnt ones its embedding was never trained.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from veracity.core.randomness import Draws
from veracity.inputs import TextInputs
from veracity.planted.task import SATURATION, Clip, Planted, PlantedTask, set_weights, share_right
from veracity.trainers.training import initialised, train

WORDS, LENGTH = 40, 12
PAD, MASK, ALPHA, BETA, ORDINARY = 0, 1, 2, 3, 4
"""Tokens: padding, mask, two triggers, and the first of the words that the rules do not know."""


class BagOfWords(nn.Module):
    """A rule on the sums of the embeddings (words, width) of a text."""

    def __init__(self, width: int, rule: nn.Module) -> None:
        super().__init__()
        self.embedding, self.rule = nn.Embedding(WORDS, width), rule

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Tokens (N, T) to outputs (N, K)."""
        found: Tensor = self.rule(self.embedding(input_ids).sum(dim=1))
        return found


def written(rule: nn.Module) -> BagOfWords:
    """A bag whose sums (N, 2) are the numbers of words alpha and beta."""
    model = BagOfWords(2, rule)
    with torch.no_grad():
        model.embedding.weight.zero_()
        model.embedding.weight[ALPHA, 0] = model.embedding.weight[BETA, 1] = 1.0
    return model.eval()


def linear(weight: Tensor, bias: float = 0.0) -> nn.Linear:
    """One output from two sums."""
    layer = nn.Linear(2, 1)
    set_weights(layer, weight, bias)
    return layer


def tokens(samples: int, seed: int, triggers: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Texts (samples, 12) of ordinary words with these triggers at random places, and masks of the triggers."""
    source = Draws.of(seed, torch.arange(samples))
    ids = ORDINARY + source.integers(WORDS - ORDINARY, LENGTH, stream="planted words")
    places = source.choice(LENGTH, len(triggers), stream="planted places")
    ids = ids.scatter(1, places, torch.tensor(triggers, dtype=torch.long).expand(samples, -1))
    return ids, torch.zeros(samples, LENGTH, dtype=torch.bool).scatter(1, places, True)


def as_texts(ids: Tensor) -> TextInputs:
    """Token numbers as texts, whose words are replaced by the mask token."""
    return TextInputs.of_encoding(ids, mask=MASK, pad=PAD)


def spelt(ids: Tensor) -> tuple[str, ...]:
    """Token numbers (T,) as words.

    >>> spelt(torch.tensor([2, 3, 17]))
    ('alpha', 'beta', 'word17')
    """
    return tuple({ALPHA: "alpha", BETA: "beta"}.get(token, f"word{token}") for token in ids.tolist())


def triggers(samples: int, seed: int) -> Planted:
    """f = 2 alpha + beta."""
    ids, mask = tokens(samples, seed, (ALPHA, BETA))
    return Planted(model=written(linear(torch.tensor([2.0, 1.0]))), inputs=as_texts(ids), truth=mask)


def pair(samples: int, seed: int) -> Planted:
    """f = relu(alpha + beta - 1): both words are needed."""
    ids, mask = tokens(samples, seed, (ALPHA, BETA))
    return Planted(model=written(nn.Sequential(linear(torch.ones(2), -1.0), nn.ReLU())), inputs=as_texts(ids), truth=mask)


def repeated(samples: int, seed: int) -> Planted:
    """f = min(1, 1.5 alpha) in texts with alpha twice."""
    ids, mask = tokens(samples, seed, (ALPHA, ALPHA))
    return Planted(model=written(nn.Sequential(linear(torch.tensor([1.5, 0.0])), Clip())), inputs=as_texts(ids), truth=mask)


def learnt(samples: int, seed: int) -> Planted:
    """A bag of words that learnt whether a text has alpha; the other words tell nothing."""
    model, accuracy = network(seed)
    ids, mask = tokens(samples, seed + 1, (ALPHA,))
    return Planted(model=model, inputs=as_texts(ids), truth=mask, targets=torch.ones(samples).long(), accuracy=accuracy)


@cache
def network(seed: int) -> tuple[nn.Module, float]:
    """The trained model, and its accuracy on 200 other texts."""
    labels = (Draws.of(seed, torch.arange(1200)).uniform(stream="planted label") < 0.5).long()
    ids = torch.where(labels[:, None] == 1, tokens(1200, seed, (ALPHA,))[0], tokens(1200, seed, ())[0])
    model = initialised(lambda: BagOfWords(8, nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))), seed)
    train(model, as_texts(ids[:1000]), labels[:1000], epochs=12, batch=50, rate=2e-2, decay=0.1, seed=seed)
    return model, share_right(model, ids[1000:], labels[1000:])


ONE_LEFT = "without one of the two words, the other one is still enough"
TASKS = (
    PlantedTask(name="triggers", rule="2 alpha + beta.", build=triggers),
    PlantedTask(name="pair", rule="relu(alpha + beta - 1): both words are needed.", build=pair),
    PlantedTask(
        name="repeated",
        rule="1.5 alpha, at most 1, in texts with alpha twice.",
        build=repeated,
        why={
            **SATURATION,
            **dict.fromkeys(("feature_ablation", "occlusion"), ONE_LEFT),
        },
    ),
    PlantedTask(name="learnt trigger", rule="a bag of words that learnt whether a text has alpha.", build=learnt, learnt=True),
    PlantedTask(
        name="repeat",
        rule="the model of 'learnt trigger', explained twice: both maps should be the same.",
        build=learnt,
        score="self_agreement",
        magnitude=False,
        learnt=True,
    ),
)
