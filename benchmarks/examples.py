"""Example importance: time over its floor, and against Captum on the same work.

The floor is the forward passes that a method cannot do without, as bare batched calls: every training example and every
test input once (for TracIn once for each checkpoint). A method's time is learning and explaining together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from captum.influence import NaiveInfluenceFunction, TracInCPFast
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.timing import CONSOLE, empty_table, floor_seconds, synchronise
from veracity.core.explainers import Context, Cost, Learner
from veracity.core.inputs import TensorInputs
from veracity.core.models import evaluating
from veracity.core.randomness import Draws
from veracity.core.training import Checkpoint, Training
from veracity.demo import GlobalMax, all_cnn, digits
from veracity.explain.examples.influence import InfluenceFunctions
from veracity.explain.examples.representation import RepresentationSimilarity, SimplEx
from veracity.explain.examples.tracin import TracIn
from veracity.trainers.training import initialised, train

TESTS = 1000
CHECKPOINTS = 10
L2 = 0.01
ROWS = 512
REPEATS = 3


def digits_net() -> nn.Module:
    """The demo's architecture; its head has no bias, since Captum's TracInCPFast leaves the bias's gradient out."""

    def build() -> nn.Module:
        model = all_cnn((8, 16, 32), 10, GlobalMax())
        model.linear = nn.Linear(32, 10, bias=False)
        return model

    return initialised(build, seed=0)


def subject() -> tuple[nn.Module, Tensor, Tensor, Training]:
    """A trained net, test inputs and labels, and 1,000 training examples with the checkpoints of ten epochs."""
    x, y = digits("train")
    model, checkpoints = digits_net(), list[Checkpoint]()

    def keep(done: int, rate: float) -> None:
        state = {key: value.clone() for key, value in model.state_dict().items()}
        checkpoints.extend([Checkpoint(state, rate)] if done else [])

    train(model, x[:1000], y[:1000], epochs=CHECKPOINTS, rate=1e-2, checkpoint=keep)
    tests, labels = digits("test")
    chosen = torch.arange(TESTS) % len(tests)
    return model, tests[chosen], labels[chosen], Training(TensorInputs(x[:1000]), y[:1000], checkpoints=tuple(checkpoints))


def table_of(explainer: Learner, model: nn.Module, x: Tensor, y: Tensor, training: Training) -> Tensor:
    """Learn, then explain every test input."""
    context = Context(Draws.of(0, torch.arange(len(x))), ROWS, training=training)
    with evaluating(model):
        learnt = explainer.learn(model, context)
        return explainer.explain(model, x, y, replace(context, learnt=learnt))


def fastest(work: Callable[[], Any], device: torch.device) -> tuple[float, Any]:
    """The shortest of some runs in seconds, and what the last one gave."""
    seconds, found = [], None
    for _ in range(REPEATS):
        start = time.perf_counter()
        found = work()
        synchronise(device)
        seconds.append(time.perf_counter() - start)
    return min(seconds), found


def subset(training: Training, count: int) -> Training:
    """The first training examples."""
    return Training(TensorInputs(training.inputs.take(torch.arange(count)).values), training.labels[:count])


def load(model: nn.Module, checkpoint: Checkpoint) -> float:
    """How Captum takes a checkpoint."""
    model.load_state_dict(checkpoint.state)
    return checkpoint.rate


def captum_tracin(model: nn.Module, x: Tensor, y: Tensor, training: Training) -> Tensor:
    """TracInCPFast over the same checkpoints."""
    data = TensorDataset(training.inputs.take(torch.arange(len(training.labels))).values, training.labels)
    made = TracInCPFast(
        model, "linear", data, training.checkpoints, load, nn.CrossEntropyLoss(reduction="sum"), batch_size=ROWS, vectorize=True
    )
    found: Tensor = made.influence((x, y))
    return found


def captum_influence(model: nn.Module, x: Tensor, y: Tensor, training: Training) -> Tensor:
    """NaiveInfluenceFunction with the same L2 term and all directions; it sums the Hessian where we average."""
    count = len(training.labels)
    data = TensorDataset(training.inputs.take(torch.arange(count)).values, training.labels)
    made = NaiveInfluenceFunction(
        model,
        data,
        "",
        lambda *_: 1.0,
        ["linear"],
        nn.CrossEntropyLoss(reduction="sum"),
        ROWS,
        sample_wise_grads_per_batch=True,
        projection_dim=320,
        hessian_reg=count * L2,
        hessian_inverse_tol=0.0,
    )
    found: Tensor = count * made.influence((x, y)).detach()
    return found


def main() -> None:
    """Print both tables."""
    model, x, y, training = subject()
    table = empty_table(
        f"Example importance for {TESTS:,} tests, {torch.get_num_threads()} threads",
        "explainer",
        "examples",
        "forward",
        "seconds",
        "floor s",
        "ratio",
    )
    cases: list[tuple[Learner, int, int]] = [
        (InfluenceFunctions(l2=L2), 1000, 1),
        (TracIn(), 1000, CHECKPOINTS),
        (SimplEx(layer="pool"), 100, 1),
        (SimplEx(layer="pool"), 1000, 1),
        (RepresentationSimilarity(layer="pool"), 1000, 1),
    ]
    ours: dict[str, tuple[float, Tensor]] = {}
    for explainer, count, passes in cases:
        given = training if count == 1000 else subset(training, count)
        cost = Cost(forward=passes * (TESTS + count))
        before = min(floor_seconds(model, x, cost, ROWS) for _ in range(REPEATS))
        ours[explainer.name] = seconds, _ = fastest(partial(table_of, explainer, model, x, y, given), x.device)
        floor = min(before, *(floor_seconds(model, x, cost, ROWS) for _ in range(REPEATS)))
        table.add_row(explainer.name, f"{count:,}", f"{cost.forward:,}", f"{seconds:.3f}", f"{floor:.3f}", f"{seconds / floor:.3f}")
    CONSOLE.print(table)
    against = empty_table(
        "The same work by Captum; apart: largest difference over largest value",
        "explainer",
        "ours s",
        "Captum",
        "Captum s",
        "times",
        "apart",
    )
    for name, peer, run in (("influence_functions", "NaiveInfluenceFunction", captum_influence), ("tracin", "TracInCPFast", captum_tracin)):
        start = time.perf_counter()
        theirs = run(digits_net().eval() if run is captum_tracin else model, x, y, training)
        seconds, found = time.perf_counter() - start, ours[name][1]
        apart = float((theirs - found).abs().max() / found.abs().max())
        against.add_row(name, f"{ours[name][0]:.3f}", peer, f"{seconds:.2f}", f"{seconds / ours[name][0]:.1f}", f"{apart:.1e}")
    CONSOLE.print(against)


if __name__ == "__main__":
    main()
