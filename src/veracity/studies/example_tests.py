"""Tests of explanations by training examples. Each trains the models that it needs, and gives one value per sample.

linear_datamodelling  do attributions predict the outputs of models that are trained on half of the examples?
mislabelled_self      do examples that attribute most to themselves have wrong labels?
mislabelled_harm      do examples that harm the explained samples most have wrong labels?
class_detection       does the top example have the sample's class?
subclass_detection    does it have the sample's own class, if the model only knows pairs of classes?
shortcut_detection    if a planted shortcut changes a sample's prediction, are the examples with the shortcut at the top?
tail_patch            does one more step on the top examples raise the sample's output?
model_randomisation   do attributions change if the model's weights are random?
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy, one_hot

from veracity.core.component import Component
from veracity.core.errors import InputError, SpecError, unknown, warn
from veracity.core.explainers import Context, Explainer, Frame
from veracity.core.inputs import Inputs, TensorInputs
from veracity.core.measures import Direction
from veracity.core.models import device_of, evaluating
from veracity.core.randomness import Draws
from veracity.core.scores import Array
from veracity.core.settings import Count, Inside, Positive, Within, short_repr
from veracity.engine.admission import one_line
from veracity.explain.controls import Control
from veracity.explain.examples.layer_gradients import log_scores
from veracity.perturb.damage import wrong_labels
from veracity.statistics.correlation import spearman_correlation
from veracity.studies.example_scores import (
    Outcome,
    average_precision,
    correlation_outcome,
    detection,
    label_at_top,
    linear_datamodelling,
    margins,
    per_sample,
)
from veracity.studies.retraining import Retraining, Trained, World, classes_of

ANOTHER_SEED = "another seed"
"""The row of models that were trained on the same subset with another seed: how much of the outputs the examples decide at all."""
FEWEST_SUBSETS = 50
Advance = Callable[[float, str], None]
"""Called with the share of the preparation that was done, and what is done next."""


@dataclass(frozen=True, kw_only=True)
class SameClass(Control):
    """Random numbers between 0 and 1, and 1 more for examples whose label is the target: all that labels alone can say, (N, n)."""

    name = "same_class"
    frame = Frame.TRAINING
    stochastic = True

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        training = context.require_training(self.name)
        noise = context.draws.uniform(training.inputs.size(), stream=self.name)
        return noise + (training.labels.to(inputs.device)[None, :] == targets.to(inputs.device)[:, None])


@dataclass(frozen=True)
class Case:
    """What a test works with: the models, the plain world, the tests' random numbers, and whether checkpoints are needed."""

    models: Retraining
    world: World
    seed: int
    checkpoints: bool

    def trained(self, world: World) -> Trained:
        """The model of all examples of a world."""
        return self.models.whole(world, self.checkpoints)


@dataclass(frozen=True)
class Prepared:
    """A test whose models are trained: the measurement of one explainer, and rows that no explainer gives, such as a ceiling."""

    measure: Callable[[Explainer], Outcome]
    references: Mapping[str, Outcome] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExampleTest(Component, ABC):
    """A test of explanations by examples.

    `direction` says which values are better. Values of explanations that ignore the model are measured beside, by the control
    `random_examples`.
    """

    role = "test of examples"
    title: ClassVar[str]
    definition: ClassVar[str]
    direction: ClassVar[Direction] = Direction.HIGHER
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    unit: ClassVar[str] = "sample"

    @property
    def trainings(self) -> int:
        """How many models are trained for it, about."""
        return 1

    def check(self, world: World, seed: int) -> None:
        """Raise if the test cannot be done on this data; nothing is trained before."""

    @abstractmethod
    def prepare(self, case: Case, advance: Advance) -> Prepared:
        """Train the models that the test needs."""


@dataclass(frozen=True, kw_only=True)
class LinearDatamodelling(ExampleTest):
    """Spearman's rho, over random subsets of the examples, of the sum of attributions and the output of a model trained on the subset.

    The output is the log-odds of the sample's label, averaged over `seeds` trainings per subset. With two seeds or more there is a row
    "another seed", the agreement r of the first training with the mean of the others. It is no ceiling, since both sides are noisy:
    with two seeds, a perfect prediction of the expected output has about sqrt(2 r / (1 + r)), by Spearman and Brown's formula.
    """

    name = "linear_datamodelling"
    title = "Linear datamodelling score"
    definition = "Spearman's rho over subsets of the summed attributions and the outputs of models trained on these subsets."
    reference = "Park et al. 2023, arXiv:2303.14186, section 2"
    bounds = (-1.0, 1.0)
    subsets: Annotated[int, Within(least=FEWEST_SUBSETS)] = 100
    share: Inside = 0.5
    seeds: Count = 1

    @property
    def trainings(self) -> int:
        return self.seeds * self.subsets

    def check(self, world: World, seed: int) -> None:
        masks = self.masks(world, seed)
        lost = (masks.float() @ one_hot(world.labels).float() == 0).any(1)
        if bool(lost.any()):
            raise InputError(
                f"{int(lost.sum())} of {self.subsets} random subsets of {int(masks[0].sum())} training examples lack a class: give more "
                "examples of the rarest class, or a larger share=."
            )

    def masks(self, world: World, seed: int) -> Tensor:
        """The subsets (S, n)."""
        count = world.examples.size()
        return Draws.of(seed, torch.arange(self.subsets)).subsets(count, max(1, round(self.share * count)), stream=self.name)

    def training_seeds(self, seed: int) -> list[list[int]]:
        """The seed of each training, `subsets` of them for each repeat: 31-bit numbers under a key, so other checks share none."""
        rows = (Draws.of(seed, torch.arange(self.subsets), repeat) for repeat in range(self.seeds))
        return [(one.words(1, stream=f"{self.name} training")[:, 0] >> 1).tolist() for one in rows]

    def outputs(self, case: Case, masks: Tensor, advance: Advance) -> Array:
        """The log-odds (seeds, N, S) of the explained samples under every model."""
        found = np.empty((self.seeds, case.world.inputs.size(), self.subsets))
        for repeat, seeds in enumerate(self.training_seeds(case.seed)):
            for number, (mask, seed) in enumerate(zip(masks, seeds, strict=True)):
                advance(1.0 / (self.seeds * self.subsets), f"subset {number + 1} of {self.subsets}, seed {repeat}")
                module = case.models.model(case.world, mask.nonzero()[:, 0], seed)
                scores = case.models.scores(module, case.world.inputs)
                found[repeat, :, number] = margins(scores, case.world.targets).numpy()
        return found

    def prepare(self, case: Case, advance: Advance) -> Prepared:
        masks = self.masks(case.world, case.seed)
        outputs, trained = self.outputs(case, masks, advance), case.trained(case.world)

        def measure(explainer: Explainer) -> Outcome:
            found = case.models.attributions(case.world, trained, explainer)
            return linear_datamodelling(found, masks.numpy(), outputs.mean(0))

        ceiling = {ANOTHER_SEED: correlation_outcome(outputs[0], outputs[1:].mean(0))} if self.seeds > 1 else {}
        return Prepared(measure, ceiling)


@dataclass(frozen=True, kw_only=True)
class Mislabelled(ExampleTest, ABC):
    """The area under the ROC curve of finding a `share` of wrong labels, uniform among the other classes."""

    unit = "wrong label"
    share: Inside = 0.1

    def check(self, world: World, seed: int) -> None:
        if round(self.share * world.examples.size()) < 2:
            raise InputError(
                f"A share of {self.share:g} of {world.examples.size()} training examples is fewer than two wrong labels: raise share=."
            )

    def prepare(self, case: Case, advance: Advance) -> Prepared:
        labels = wrong_labels(case.world.labels, self.share, case.seed)
        world = replace(case.world, labels=labels)
        advance(1.0, "wrong labels")
        trained, marked = case.trained(world), (labels != case.world.labels).numpy()
        return Prepared(lambda explainer: detection(self.suspicion(case.models, world, trained, explainer), marked))

    @abstractmethod
    def suspicion(self, models: Retraining, world: World, trained: Trained, explainer: Explainer) -> Array:
        """How likely each example (n,) has a wrong label, in any unit."""


@dataclass(frozen=True, kw_only=True)
class MislabelledSelf(Mislabelled):
    """Wrong labels are found by self-influence: the attribution of an example, explained for its label, to itself."""

    name = "mislabelled_self"
    title = "Wrong labels by self-influence"
    definition = "Area under the ROC curve of finding wrong labels among the examples that attribute most to themselves."
    reference = "Koh and Liang 2017, arXiv:1703.04730, section 5.4; Pruthi et al. 2020, arXiv:2002.08484"

    def suspicion(self, models: Retraining, world: World, trained: Trained, explainer: Explainer) -> Array:
        return models.self_influence(world, trained, explainer)


@dataclass(frozen=True, kw_only=True)
class MislabelledHarm(Mislabelled):
    """Wrong labels are found by harm: the mean attribution of the explained samples to an example, with the opposite sign."""

    name = "mislabelled_harm"
    title = "Wrong labels by harm"
    definition = "Area under the ROC curve of finding wrong labels among the examples with the lowest mean attribution."
    reference = "Bareeva et al. 2024, arXiv:2410.07158"

    def suspicion(self, models: Retraining, world: World, trained: Trained, explainer: Explainer) -> Array:
        found = models.attributions(world, trained, explainer)
        known = np.isfinite(found).all(axis=1)
        return -np.asarray(found[known].mean(axis=0)) if known.any() else np.full(found.shape[1], np.nan)


@dataclass(frozen=True, kw_only=True)
class ClassDetection(ExampleTest):
    """Whether the example with the largest attribution has the label of the sample. Labels alone can say it: see `same_class`."""

    name = "class_detection"
    title = "Class of the top example"
    definition = "The share of samples whose top example has their class."
    reference = "Hanawa et al. 2021, arXiv:2006.04528, the identical class test"

    def prepare(self, case: Case, advance: Advance) -> Prepared:
        advance(1.0, "the model")
        world, trained = case.world, case.trained(case.world)

        def measure(explainer: Explainer) -> Outcome:
            found = case.models.attributions(world, trained, explainer)
            return per_sample(label_at_top(found, world.labels.numpy(), world.targets.numpy()))

        return Prepared(measure)


@dataclass(frozen=True, kw_only=True)
class SubclassDetection(ExampleTest):
    """Whether the top example has the sample's own class, if the model was trained on groups of classes and does not know it.

    `groups` are tuples of classes that become one; by default classes 0 and 1, 2 and 3, and so on.
    """

    name = "subclass_detection"
    title = "Subclass of the top example"
    definition = "The share of samples whose top example has their class, for a model that knows only groups of classes."
    reference = "Hanawa et al. 2021, arXiv:2006.04528, the identical subclass test"
    groups: tuple[tuple[int, ...], ...] | None = None

    def check(self, world: World, seed: int) -> None:
        self.merged(world)

    def merged(self, world: World) -> Tensor:
        """The group (C,) of every class."""
        classes = classes_of(world)
        groups = self.groups or tuple(tuple(range(low, min(low + 2, classes))) for low in range(0, classes, 2))
        if classes < 3:
            raise InputError(f"subclass_detection merges classes, and there are only {classes}: leave it out of tests=.")
        listed = sorted(one for group in groups for one in group)
        if not all(groups) or listed != list(range(classes)) or len(groups) < 2 or len(groups) == classes:
            raise InputError(
                f"subclass_detection needs at least two groups of classes that hold each of the {classes} classes once, one of them with "
                f"two classes, not {short_repr(groups)}: pass SubclassDetection(groups=((0, 1), (2, 3), ...))."
            )
        found = torch.empty(classes, dtype=torch.long)
        for number, group in enumerate(groups):
            found[list(group)] = number
        return found

    def prepare(self, case: Case, advance: Advance) -> Prepared:
        plain, group = case.world, self.merged(case.world)
        world = replace(plain, labels=group[plain.labels], targets=group[plain.targets])
        advance(1.0, "merged classes")
        trained = case.trained(world)

        def measure(explainer: Explainer) -> Outcome:
            found = case.models.attributions(world, trained, explainer)
            return per_sample(label_at_top(found, plain.labels.numpy(), plain.targets.numpy()))

        return Prepared(measure)


def corner(values: Tensor, level: float) -> Tensor:
    """The samples (N, ...) with a corner set to a level: a quarter of the last axis, and of the one before if there is one.

    >>> corner(torch.zeros(1, 4, 4), 1.0).sum().item(), corner(torch.zeros(1, 8), 1.0).tolist()
    (1.0, [[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    """
    made = values.clone()
    part = made
    for axis in range(max(1, values.ndim - 2), values.ndim):
        part = part.narrow(axis, 0, max(1, values.shape[axis] // 4))
    part.fill_(level)
    return made


@dataclass(frozen=True, kw_only=True)
class ShortcutDetection(ExampleTest):
    """The average precision of finding the examples that carry a planted shortcut, for samples that it fools.

    A `share` of the examples of one `label` get the shortcut before the training. Samples of other classes get it too; those that the
    model takes for the label with the shortcut, but not without it, are explained for it. The others have no value, and are counted as
    undefined. `plant` is a function from values (N, ...) to values; by default a corner is set to the largest value of the examples.
    """

    name = "shortcut_detection"
    title = "Examples with the shortcut"
    definition = "Average precision of the examples with a planted shortcut, for samples that the shortcut fools."
    reference = "Bareeva et al. 2024, arXiv:2410.07158; after Koh and Liang 2017, arXiv:1703.04730"
    label: Annotated[int, Within(least=0)] = 0
    share: Inside = 0.5
    plant: Callable[[Tensor], Tensor] | None = None

    def check(self, world: World, seed: int) -> None:
        classes, here = classes_of(world), int((world.labels == self.label).sum())
        if not isinstance(world.examples, TensorInputs) or not isinstance(world.inputs, TensorInputs):
            raise InputError("shortcut_detection plants a shortcut into plain tensors: leave it out for other inputs.")
        if self.label >= classes:
            raise InputError(f"shortcut_detection has label={self.label}, but the classes go from 0 to {classes - 1}.")
        if round(self.share * here) < 1:
            raise InputError(f"A share of {self.share:g} of the {here} examples of class {self.label} is no example: raise share=.")
        if not bool((world.targets != self.label).any()):
            raise InputError(f"All explained samples have class {self.label}, and a shortcut fools other ones: choose another label=.")
        for data, what in ((world.examples, "examples"), (world.inputs, "samples")):
            planted = self.planted(world, data)
            if planted.shape != (data.size(), *data.shape) or torch.equal(planted, values_of(data)):
                raise InputError(f"plant=... must change the {what} and keep their shape {(data.size(), *data.shape)}.")

    def planted(self, world: World, data: Inputs) -> Tensor:
        """All samples of some data with the shortcut."""
        values = values_of(data)
        if self.plant is None:
            return corner(values, float(values_of(world.examples).max()))
        try:
            found = self.plant(values.clone())
        except Exception as error:
            raise InputError(f"plant=... failed on samples of shape {tuple(values.shape)}: {one_line(error)}") from error
        if not isinstance(found, Tensor):
            raise InputError(f"plant=... must give a tensor of shape {tuple(values.shape)}, not {short_repr(found)}.")
        return found

    def prepare(self, case: Case, advance: Advance) -> Prepared:
        plain = case.world
        own = (plain.labels == self.label).nonzero()[:, 0]
        chosen = Draws.of(case.seed, torch.zeros(1, dtype=torch.long)).choice(len(own), round(self.share * len(own)), stream=self.name)[0]
        marked = torch.zeros(len(plain.labels), dtype=torch.bool).index_fill(0, own[chosen], True)
        examples = torch.where(
            marked.view(-1, *[1] * len(plain.examples.shape)), self.planted(plain, plain.examples), values_of(plain.examples)
        )
        inputs, targets = TensorInputs(self.planted(plain, plain.inputs)), torch.full_like(plain.targets, self.label)
        world = World(TensorInputs(examples), plain.labels, inputs, targets)
        advance(1.0, "the shortcut")
        trained = case.trained(world)
        taken, before = (case.models.scores(trained.module, one).argmax(1) == self.label for one in (inputs, plain.inputs))
        fooled = (taken & ~before & (plain.targets != self.label)).numpy()
        if not fooled.any():
            warn(
                f"shortcut_detection is undefined for all samples: none of another class is taken for class {self.label} because of the "
                "shortcut; plant a clearer one, or raise share=."
            )

        def measure(explainer: Explainer) -> Outcome:
            found = case.models.attributions(world, trained, explainer)
            return per_sample(np.where(fooled, average_precision(found, marked.numpy()), np.nan))

        return Prepared(measure)


def values_of(data: Inputs) -> Tensor:
    """All samples of a tensor."""
    return data.take(torch.arange(data.size())).values


@dataclass(frozen=True, kw_only=True)
class TailPatch(ExampleTest):
    """The change of the sample's log-odds after one gradient step, of size `rate`, on the mean loss of its `k` top examples.

    The step moves all parameters of the trained model, in evaluation mode. To first order it is the mean over k steps on one example
    each. Most examples of the same class raise the output: compare with `same_class`.
    """

    name = "tail_patch"
    title = "One more step on the top examples"
    definition = "The change of a sample's log-odds after one gradient step on its top examples."
    reference = "Chang et al. 2024, arXiv:2410.17413, tail-patch scores"
    bounds = (-np.inf, np.inf)
    k: Count = 10
    rate: Positive = 0.01

    def check(self, world: World, seed: int) -> None:
        if self.k > world.examples.size():
            raise InputError(f"tail_patch has k={self.k}, but there are {world.examples.size()} training examples: lower k.")

    def prepare(self, case: Case, advance: Advance) -> Prepared:
        advance(1.0, "the model")
        world, trained = case.world, case.trained(case.world)

        def measure(explainer: Explainer) -> Outcome:
            found = torch.from_numpy(case.models.attributions(world, trained, explainer))
            return per_sample(patched(case.models, world, trained.module, found, self.k, self.rate))

        return Prepared(measure)


def patched(models: Retraining, world: World, module: nn.Module, attributions: Tensor, k: int, rate: float) -> Array:
    """The change of each sample's log-odds (N,) after a step of size `rate` on its k top examples; NaN without attributions."""
    device, view = device_of(module), world.inputs.adapt(module)
    parameters = {name: value.detach() for name, value in view.named_parameters() if value.is_floating_point()}
    before = margins(models.scores(module, world.inputs), world.targets)
    found = torch.full_like(before, torch.nan)
    tops = attributions.nan_to_num(0.0).topk(k, dim=1).indices

    def scores(own: dict[str, Tensor], inputs: Inputs, index: Tensor) -> Tensor:
        signals = inputs.take(index).to(device)
        return log_scores(functional_call(view, own, (signals.values, *signals.structure)), models.outputs)

    with evaluating(module):
        for row in attributions.isfinite().all(1).nonzero()[:, 0]:
            leaves = {name: value.clone().requires_grad_() for name, value in parameters.items()}
            with torch.enable_grad():
                loss = cross_entropy(scores(leaves, world.examples, tops[row]), world.labels[tops[row]].to(device))
                slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
            with torch.no_grad():
                moved = {
                    name: value if slope is None else value - rate * slope
                    for (name, value), slope in zip(parameters.items(), slopes, strict=True)
                }
                after = margins(scores(moved, world.inputs, row[None]).cpu(), world.targets[row[None]])
            found[row] = after[0] - before[row]
    return np.asarray(found.numpy(), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class ModelRandomisation(ExampleTest):
    """Spearman's rho, over examples, of a sample's attributions under the trained model and under random weights; lower is better.

    An explanation that ignores the model has 1. A high value means that attributions come from the data and the architecture. Negative
    values count as better than 0.
    """

    name = "model_randomisation"
    title = "Random weights"
    definition = "Spearman's rho over examples of attributions under the trained model and under random weights."
    reference = "Hanawa et al. 2021, arXiv:2006.04528, the model randomization test; Adebayo et al. 2018, arXiv:1810.03292"
    direction = Direction.LOWER
    bounds = (-1.0, 1.0)

    def prepare(self, case: Case, advance: Advance) -> Prepared:
        advance(1.0, "the model")
        trained = case.trained(case.world)
        randomised = case.models.randomised(trained)

        def measure(explainer: Explainer) -> Outcome:
            first, second = (case.models.attributions(case.world, one, explainer) for one in (trained, randomised))
            return per_sample(spearman_correlation(first, second))

        return Prepared(measure)


TESTS: dict[str, type[ExampleTest]] = {
    kind.name: kind
    for kind in (
        LinearDatamodelling,
        MislabelledSelf,
        MislabelledHarm,
        ClassDetection,
        SubclassDetection,
        ShortcutDetection,
        TailPatch,
        ModelRandomisation,
    )
}


def as_tests(given: Any) -> dict[str, ExampleTest]:
    """Tests by name, from names, objects, or {"name": ..., settings}."""
    if isinstance(given, str):
        raise SpecError(f"The tests are a list, such as ['{given}'], not one name.")
    if not isinstance(given, Sequence) or not given:
        raise SpecError(f"The tests are a list with at least one of {', '.join(TESTS)}, not {short_repr(given)}.")
    found: dict[str, ExampleTest] = {}
    for one in given:
        test = as_test(one)
        if test.name in found:
            raise SpecError(f"The test '{test.name}' is given twice: give each once.")
        found[test.name] = test
    return found


def as_test(given: Any) -> ExampleTest:
    """A test from its name, {"name": ..., settings}, or itself."""
    if isinstance(given, ExampleTest):
        return given
    settings = dict(given) if isinstance(given, Mapping) else {"name": given}
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise SpecError(f"A test is one of {', '.join(TESTS)}, or an object such as TailPatch(k=5), not {short_repr(given)}.")
    if name not in TESTS:
        raise unknown("test of examples", name, TESTS)
    return TESTS[name](**settings)
