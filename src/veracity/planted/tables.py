"""Planted tables: eight columns, of which the rule reads one, two or three. The baseline of explainers is 0."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor, nn

from veracity.core.randomness import Draws
from veracity.planted.task import CONTRIBUTIONS, SATURATION, SLOPE, Clip, Planted, PlantedTask, set_weights, share_right
from veracity.trainers.training import initialised, train

COLUMNS = 8
WEIGHTS = (3.0, -2.0, 1.0)
"""Of the first columns of additive tables; the others have 0."""
TRAP = 4.0
LOUD = 100.0
"""How much larger the values of unused columns are."""


def draws(samples: int, seed: int) -> Draws:
    """The random numbers of a number of samples."""
    return Draws.of(seed, torch.arange(samples))


def linear(weights: tuple[float, ...]) -> nn.Linear:
    """One output with these weights for the first columns, and 0 for the others."""
    layer = nn.Linear(COLUMNS, 1)
    set_weights(layer, torch.tensor([*weights, *[0.0] * (COLUMNS - len(weights))]))
    return layer


def hinges(first: Tensor, bias: Tensor, second: Tensor) -> nn.Sequential:
    """One hidden layer of hinges: second · relu(first x + bias), with weights (H, columns used), (H,) and (H,)."""
    hidden, out = nn.Linear(COLUMNS, len(first)), nn.Linear(len(first), 1)
    set_weights(hidden, torch.cat((first, torch.zeros(len(first), COLUMNS - first.shape[1])), dim=1), bias)
    set_weights(out, second)
    return nn.Sequential(hidden, nn.ReLU(), out)


def columns_used(samples: int, *used: int) -> Tensor:
    """Masks (samples, columns) of the columns that the rule reads."""
    mask = torch.zeros(samples, COLUMNS, dtype=torch.bool)
    mask[:, list(used)] = True
    return mask


def additive(samples: int, seed: int) -> Planted:
    """f = 3 a - 2 b + c on normal numbers: the contribution of a column is its weight times its value."""
    x = draws(samples, seed).normal(COLUMNS, stream="planted additive").float()
    model = linear(WEIGHTS)
    return Planted(model=model.eval(), inputs=x, truth=columns_used(samples, 0, 1, 2), contributions=x * model.weight.detach())


def unused(samples: int, seed: int) -> Planted:
    """f = 2 a + b beside six columns with values a hundred times as large."""
    x = draws(samples, seed).normal(COLUMNS, stream="planted unused").float()
    x[:, 2:] *= LOUD
    return Planted(model=linear((2.0, 1.0)).eval(), inputs=x, truth=columns_used(samples, 0, 1))


def both(samples: int, seed: int) -> Planted:
    """f = a and b, as relu(a + b - 1), on rows of 0 and 1 in which it holds."""
    x = bits(samples, seed, "planted and")
    reference = x.clone()
    x[:, :2] = 1.0
    model = hinges(torch.tensor([[1.0, 1.0]]), torch.tensor([-1.0]), torch.tensor([1.0]))
    return Planted(model=model.eval(), inputs=x, truth=columns_used(samples, 0, 1), reference=reference)


def either(samples: int, seed: int) -> Planted:
    """f = a xor b, as a + b - 2 relu(a + b - 1), on rows of 0 and 1 in which it holds."""
    x = bits(samples, seed, "planted xor")
    reference = x.clone()
    x[:, :2] = torch.tensor([[1.0, 0.0], [0.0, 1.0]])[torch.arange(samples) % 2]
    model = hinges(torch.ones(2, 2), torch.tensor([0.0, -1.0]), torch.tensor([1.0, -2.0]))
    return Planted(model=model.eval(), inputs=x, truth=columns_used(samples, 0, 1), reference=reference)


def smaller(samples: int, seed: int) -> Planted:
    """f = min(a, b), as a - relu(a - b), on positive numbers."""
    x = draws(samples, seed).uniform(COLUMNS, stream="planted minimum").float() + 0.2
    model = hinges(torch.tensor([[1.0, 0.0], [1.0, -1.0]]), torch.zeros(2), torch.tensor([1.0, -1.0]))
    return Planted(model=model.eval(), inputs=x, truth=columns_used(samples, 0, 1))


def saturated(samples: int, seed: int) -> Planted:
    """f = min(a + b, 1) on rows in which a + b is far above 1; in the rows of the reference it often is not."""
    low = draws(samples, seed).uniform(COLUMNS, stream="planted saturated").float()
    model, truth = nn.Sequential(linear((1.0, 1.0)), Clip()).eval(), columns_used(samples, 0, 1)
    return Planted(model=model, inputs=low + 0.7, truth=truth, reference=low)


def correlated(samples: int, seed: int) -> Planted:
    """f = c + 4 relu(a - b - 0.5), where a and b are the same up to 0.1: on the data, f is c."""
    source = draws(samples, seed)
    x = source.normal(COLUMNS, stream="planted correlated").float()
    x[:, 0] = 1.5 + source.uniform(stream="planted common").float()
    x[:, 1] = x[:, 0] + 0.1 * (2.0 * source.uniform(stream="planted apart").float() - 1.0)
    rows = torch.tensor([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    model = hinges(rows, torch.tensor([-0.5, 0.0, 0.0]), torch.tensor([TRAP, 1.0, -1.0]))
    return Planted(model=model.eval(), inputs=x, truth=columns_used(samples, 2))


def bits(samples: int, seed: int, stream: str) -> Tensor:
    """Rows of 0 and 1."""
    return (draws(samples, seed).uniform(COLUMNS, stream=stream) < 0.5).float()


def learnt(rule: Callable[[Tensor], Tensor], used: tuple[int, ...], samples: int, seed: int) -> Planted:
    """A network that learnt a rule from 2,000 rows of normal numbers; only the columns in `used` tell the class."""
    x = draws(samples, seed + 1).normal(COLUMNS, stream="planted learnt").float()
    model, accuracy = network(rule, seed)
    return Planted(model=model, inputs=x, truth=columns_used(samples, *used), targets=rule(x), accuracy=accuracy)


@cache
def network(rule: Callable[[Tensor], Tensor], seed: int) -> tuple[nn.Module, float]:
    """The trained network, and its accuracy on 500 other rows."""
    rows = draws(2500, seed).normal(COLUMNS, stream="planted training").float()
    model = initialised(lambda: nn.Sequential(nn.Linear(COLUMNS, 32), nn.ReLU(), nn.Linear(32, 2)), seed)
    train(model, rows[:2000], rule(rows[:2000]), epochs=30, rate=2e-2, decay=1e-2, seed=seed)
    return model, share_right(model, rows[2000:], rule(rows[2000:]))


def same_sign(x: Tensor) -> Tensor:
    """1 where the first two columns have the same sign: a xor of signs."""
    return (x[:, 0] * x[:, 1] > 0).long()


def weighted(x: Tensor) -> Tensor:
    """1 where 3 a - 2 b + c is positive."""
    return (x[:, :3] @ torch.tensor(WEIGHTS) > 0).long()


OFF_DATA = "it asks the model about rows in which two columns that are always alike differ, where the model does something else"
SAME_AS_BASELINE = "a column that is 0 already cannot be removed by setting it to 0"
NO_VALUE = "it is a slope, not a contribution: it does not know the value of the column"
TASKS = (
    PlantedTask(
        name="additive",
        rule="3 a - 2 b + c; five columns are not used. Truth: weight times value, with its sign.",
        build=additive,
        score=CONTRIBUTIONS,
        bar=0.95,
        magnitude=False,
        why=dict.fromkeys(SLOPE, NO_VALUE),
    ),
    PlantedTask(name="unused", rule="2 a + b; six columns are not used, with values 100 times as large.", build=unused),
    PlantedTask(name="and", rule="a and b, on rows of 0 and 1 in which both are 1.", build=both),
    PlantedTask(
        name="xor",
        rule="a xor b, on rows of 0 and 1 in which it holds.",
        build=either,
        why=dict.fromkeys(
            ("feature_ablation", "kernel_shap", "occlusion", "integrated_gradients", "input_x_gradient", "partition_shap", "lrp_epsilon"),
            SAME_AS_BASELINE,
        ),
    ),
    PlantedTask(
        name="interaction",
        rule="min(a, b), on positive numbers.",
        build=smaller,
        why=dict.fromkeys(
            ("gradient", "saliency", "input_x_gradient", "integrated_gradients"),
            "the slope is 0 for the larger one, on which the output depends",
        ),
    ),
    PlantedTask(
        name="saturated",
        rule="min(a + b, 1), on rows in which a + b is above 1.4.",
        build=saturated,
        why=SATURATION,
    ),
    PlantedTask(
        name="correlated",
        rule="c + 4 relu(a - b - 0.5), where a and b are the same up to 0.1: on the data it is c alone.",
        build=correlated,
        why=dict.fromkeys(("kernel_shap", "lime", "feature_ablation", "feature_permutation", "occlusion", "partition_shap"), OFF_DATA),
    ),
    PlantedTask(
        name="learnt additive",
        rule="a network that learnt the sign of 3 a - 2 b + c.",
        build=partial(learnt, weighted, (0, 1, 2)),
        learnt=True,
    ),
    PlantedTask(
        name="learnt xor",
        rule="a network that learnt whether a and b have the same sign.",
        build=partial(learnt, same_sign, (0, 1)),
        learnt=True,
    ),
    PlantedTask(
        name="repeat",
        rule="the model of 'learnt xor', explained twice: both maps should be the same.",
        build=partial(learnt, same_sign, (0, 1)),
        score="self_agreement",
        magnitude=False,
        learnt=True,
    ),
)
