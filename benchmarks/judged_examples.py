"""Explanations by example, judged on scikit-learn's digits: the table of docs/examples.md, and the time of a check over its floor.

The floor is what a check cannot do without, called barely: the same trainings, the same passes for the outputs of the retrained models,
and learning and explaining once per explainer and model. It has no folder, no tests and no intervals.

    python -m benchmarks.judged_examples FOLDER           the table; the folder keeps the models, so a second call is quick
    python -m benchmarks.judged_examples FOLDER --time    the time over the floor, in FOLDER/timed
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from torch import nn

from benchmarks.timing import CONSOLE, empty_table, now, quiet
from veracity.core.explainers import Context, Learner
from veracity.core.inputs import TensorInputs
from veracity.core.models import evaluating
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.training import Checkpoint, Training
from veracity.demo import digits
from veracity.studies import ExampleCheck
from veracity.studies.example_tests import TESTS, ClassDetection, ExampleTest, LinearDatamodelling, ShortcutDetection
from veracity.trainers import SmallCNN

EXAMPLES, SAMPLES, SUBSETS, SEEDS = 600, 100, 100, 2
NAMES = ["influence_functions", "tracin", "simplex", "representation_similarity"]
SHORTCUT = ShortcutDetection(label=1, share=0.8)
"""A corner in four fifths of the ones: in half of the zeros, the default, it fools no sample."""
CPU = torch.device("cpu")


def trainer() -> SmallCNN:
    """Eight epochs, and no example held out."""
    return SmallCNN(width=8, epochs=8, batch=32, validation=0.0, patience=None, dropout=0.0)


def judged(*tests: str | ExampleTest, seed: int = 0) -> ExampleCheck:
    """The check of all explainers by example."""
    (x, y), (inputs, targets) = digits("train", padding=0), digits("test", padding=0)
    training = x[:EXAMPLES], y[:EXAMPLES]
    return ExampleCheck(
        fit=trainer(), training=training, inputs=inputs[:SAMPLES], targets=targets[:SAMPLES], explainers=NAMES, tests=tests, seed=seed
    )  # fmt: skip


def floor(check: ExampleCheck, subsets: int) -> None:
    """The trainings, passes and explanations of a datamodelling score and of class detection, and nothing else."""
    world, tests, _, fit = check.check()
    test = tests[LinearDatamodelling.name]
    assert isinstance(test, LinearDatamodelling)
    examples = world.examples.take(torch.arange(world.examples.size())).values
    inputs = world.inputs.take(torch.arange(world.inputs.size())).values
    states: list[Checkpoint] = []

    def keep(network: nn.Module, rate: float) -> None:
        states.append(Checkpoint({name: value.clone() for name, value in network.state_dict().items()}, rate))

    whole = fit(examples, world.labels, check.seed, checkpoint=keep)
    for mask, seed in zip(test.masks(world, check.seed)[:subsets], test.training_seeds(check.seed)[0], strict=False):
        module = fit(examples[mask], world.labels[mask], seed)
        with torch.no_grad():
            module(inputs)
    training = Training(TensorInputs(examples), world.labels, checkpoints=tuple(states[-check.checkpoints :]))
    context = Context(Draws.of(0, torch.arange(len(inputs))), 256, training=training)
    with evaluating(whole):
        for name in NAMES:
            explainer: Learner = EXPLAINERS.build(name)
            learnt = explainer.learn(whole, context)
            explainer.explain(whole, inputs, world.targets, Context(context.draws, 256, training=training, learnt=learnt))


def timed(folder: Path, subsets: int = 50) -> None:
    """Print the time of a check, of the same check again, and of its floor."""
    torch.set_num_threads(1)
    check = judged(LinearDatamodelling(subsets=subsets), ClassDetection())
    shutil.rmtree(folder, ignore_errors=True)
    floor(check, 1)  # warm up
    seconds = []
    for work in (lambda: check.run(folder, progress=False), lambda: check.run(folder, progress=False), lambda: floor(check, subsets)):
        start = now(CPU)
        work()
        seconds.append(now(CPU) - start)
    table = empty_table(
        f"{subsets + 1} trainings on up to {EXAMPLES} digits, {len(NAMES)} explainers, 1 thread", "what", "seconds", "ratio"
    )
    for name, one in zip(("check", "check again, from its folder", "floor"), seconds, strict=True):
        table.add_row(name, f"{one:.1f}", f"{one / seconds[-1]:.3f}")
    CONSOLE.print(table)


def main() -> None:
    """Read the folder, and print the table or the times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judged_examples")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time", action="store_true", help="print the time over the floor")
    parser.add_argument("--seed", type=int, default=0, help="the seed of trainings and draws")
    parser.add_argument("--against", default="random_examples", help="the control that gains are over")
    given = parser.parse_args()
    with quiet():
        if given.time:
            timed(given.folder / "timed")
        else:
            chosen = {LinearDatamodelling.name: LinearDatamodelling(subsets=SUBSETS, seeds=SEEDS), ShortcutDetection.name: SHORTCUT}
            tests = [chosen.get(name, name) for name in TESTS]
            print(judged(*tests, seed=given.seed).run(given.folder / "digits").against(given.against))


if __name__ == "__main__":
    main()
