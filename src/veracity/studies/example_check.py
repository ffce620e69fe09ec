"""Example check: do explanations by training examples name the examples that matter? The settings of the check, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field
from torch import Tensor, nn

from veracity.core.errors import InputError, SpecError, VeracityError, error_text, unknown, warn
from veracity.core.explainers import Explainer, Frame
from veracity.core.failures import failures_of
from veracity.core.inputs import Inputs
from veracity.core.measures import Direction
from veracity.core.registry import TRAINERS
from veracity.core.settings import Count, Inside, Whole, check_fields
from veracity.core.targets import Outputs, class_numbers
from veracity.core.training import CrossTrained, Training
from veracity.engine.crosstrain.folds import MODELS
from veracity.engine.resolve import as_labels, labelled
from veracity.engine.resolve.training import as_training
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind, Part
from veracity.engine.store.study import findings
from veracity.explain.controls import RandomExamples
from veracity.inputs import as_inputs
from veracity.statistics.intervals import unseen_share
from veracity.studies.example_scores import Outcome
from veracity.studies.example_tests import TESTS, Case, ExampleTest, SameClass, as_tests
from veracity.studies.result import StudyResult, gate_rows, or_none, write_study
from veracity.studies.retraining import ATTRIBUTIONS, STATES, Retraining, World, classes_of, needs_checkpoints

RANDOM, LABELS = RandomExamples.name, SameClass.name
FEWEST = 2
STEPS = 1000
COLUMNS = [
    *("test", "explainer", "value", "low", "high", "n", "undefined", "unseen"),
    *("gain", "gain_low", "gain_high", "verdict", "control", "direction"),
]
SHOWN = ["explainer", "value", "low", "high", "n", "undefined", "gain", "gain_low", "gain_high", "verdict"]


class Row(Part):
    """What one explainer has in one test: a value per sample, and the numbers of the second set; NaN is null."""

    test: str
    explainer: str
    control: bool
    values: list[float | None]
    shared: list[float | None]
    error: str


class About(Part):
    """What a test is, for readers."""

    name: str
    title: str
    definition: str
    direction: Literal["higher", "lower"]
    least: float | None
    most: float | None
    unit: str
    reference: str


class Findings(Part):
    """What the folder of an example check keeps."""

    rows: list[Row]
    tests: list[About]
    confidence: Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True)
class Measured:
    """The outcome of one explainer in one test, or the error that it ended with."""

    test: str
    explainer: str
    control: bool
    outcome: Outcome
    error: str = ""


@dataclass(frozen=True)
class ExampleResult(StudyResult):
    """Every explainer in every test, with the controls `random_examples` and `same_class`."""

    kind: ClassVar[Kind] = Kind.EXAMPLES
    measured: tuple[Measured, ...]
    tests: tuple[Mapping[str, Any], ...]
    null: str = RANDOM

    @classmethod
    def read(cls, folder: RunFolder, manifest: Mapping[str, Any]) -> Self:
        """The values that a folder holds."""
        kept = findings(folder, Findings)
        measured = []
        for one in kept["rows"]:
            values, shared = (np.array(one[name], dtype=np.float64) for name in ("values", "shared"))
            measured.append(Measured(one["test"], one["explainer"], one["control"], Outcome(values, shared), one["error"]))
        about: dict[str, Any] = {"title": manifest.get("title"), "path": folder.root, "confidence": kept["confidence"]}
        return cls(tuple(measured), tuple(kept["tests"]), **about)

    def findings(self) -> dict[str, Any]:
        """Every value."""
        rows = []
        for one in self.measured:
            numbers = {name: [or_none(float(value)) for value in part] for name, part in vars(one.outcome).items()}
            rows.append({"test": one.test, "explainer": one.explainer, "control": one.control, **numbers, "error": one.error})
        return {"rows": rows, "tests": [dict(one) for one in self.tests], "confidence": self.confidence}

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row per test and explainer."""
        found = []
        for about in self.tests:
            here = [one for one in self.measured if one.test == about["name"]]
            null = next((one.outcome for one in here if one.explainer == self.null and not one.error), None)
            found += [self.row(one, about, null) for one in here]
        return pd.DataFrame(found, columns=COLUMNS)

    def row(self, one: Measured, about: Mapping[str, Any], null: Outcome | None) -> dict[str, Any]:
        """The mean of a test with its interval, and how much better it is than random attributions."""
        mean = asdict(one.outcome.interval(self.confidence))
        least, most = (bound if about[end] is None else about[end] for end, bound in (("least", -np.inf), ("most", np.inf)))
        low, high = np.clip([mean["low"], mean["high"]], least, most)
        gain: dict[str, Any] = dict.fromkeys(("gain", "gain_low", "gain_high"), np.nan)
        verdict = ""
        if null is not None and one.explainer != self.null and null.comparable(one.outcome):
            sign = 1.0 if about["direction"] == Direction.HIGHER.value else -1.0
            over = one.outcome.minus(null).times(sign).interval(self.confidence)
            gain = {"gain": over.value, "gain_low": over.low, "gain_high": over.high}
            verdict = "better" if over.low > 0 else "worse" if over.high < 0 else "" if np.isnan(over.low) else "cannot be told apart"
        names = {"test": one.test, "explainer": one.explainer, **mean, "low": low, "high": high}
        counted = {"undefined": int(np.isnan(one.outcome.values).sum()), "unseen": np.nan}
        if mean["n"] > 1 and mean["low"] == mean["high"]:
            counted["unseen"] = unseen_share(mean["n"], self.confidence)
        return {**names, **counted, **gain, "verdict": verdict, "control": one.control, "direction": about["direction"]}

    def against(self, explainer: str) -> ExampleResult:
        """The same result, whose gains are over another explainer or control, such as "same_class"."""
        known = {one.explainer for one in self.measured}
        if explainer not in known:
            raise unknown("explainer", explainer, known)
        return replace(self, null=explainer)

    def table(self) -> pd.DataFrame:
        """One row per test and explainer: the mean over `n` samples with its interval, and the comparison with random attributions.

        `gain` is how much better than `random_examples` (see `against`) the explainer is on the same samples, with its interval:
        positive is better, whatever the direction of the test. `verdict` says whether that can be told: "better", "worse" or "cannot be
        told apart". Samples without a value are counted in `undefined`. If all values are equal, the interval has no width, and `unseen`
        is the largest share of samples that may differ all the same.
        """
        return self.rows.copy()

    def failures(self) -> pd.DataFrame:
        """What could not be measured, and why."""
        lost = [{"test": one.test, "explainer": one.explainer, "error": one.error} for one in self.measured if one.error]
        return pd.DataFrame(lost, columns=["test", "explainer", "error"])

    def requirements(self) -> pd.DataFrame:
        """The mean of every explainer in every test, which is the score; controls are left out."""
        kept = self.rows[~self.rows["control"].astype(bool)]
        names = ("explainer", "value", "low", "high", "n", "unseen")
        return gate_rows(
            [{"model": "trained", "score": row["test"], **{name: row[name] for name in names}} for row in kept.to_dict("records")]
        )

    def __str__(self) -> str:
        """One table per test."""
        parts = []
        for about in self.tests:
            rows = self.rows[self.rows["test"] == about["name"]][SHOWN]
            text = rows.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep="")
            parts.append(f"{about['title']} ({about['name']}, {about['direction']} is better)\n{text}")
        lost = failures_of({**row, "model": row["test"], "score": ""} for row in self.failures().to_dict("records"))
        return "\n\n".join([*parts, *map(str, lost)])


@dataclass(frozen=True, kw_only=True, eq=False)
class ExampleCheck:
    """Which explainers by example to judge, on which data, with which learning algorithm, by which tests.

    fit          the learning algorithm: a function (inputs, targets, seed) -> nn.Module, a Trainer, or the name of a Trainer. It may
                 take checkpoint=..., a function (network, learning rate) that it calls after each epoch
    training     (inputs, labels) that the models are trained on
    inputs       the samples that are explained, not among the training examples
    targets      their labels; each sample is explained for its label
    explainers   explainers by training examples, as in an Audit
    tests        names or objects of `veracity.studies.example_tests`; all by default
    checkpoints  how many checkpoints of a training explainers such as TracIn see, evenly spaced over the epochs, the last one included
    outputs      "logits" or "probabilities": what the models give
    build        a function () -> nn.Module that makes the untrained network, so that stored models of a plain function can be loaded
    """

    fit: Any
    training: Any
    inputs: Tensor | Inputs | Sequence[Any]
    targets: Any = None
    explainers: Sequence[Any] | Mapping[str, Any]
    tests: Sequence[Any] = tuple(TESTS)
    checkpoints: Count = 5
    outputs: Literal["logits", "probabilities"] = "logits"
    build: Any = None
    device: str | None = None
    seed: Whole = 0
    confidence: Inside = 0.95
    title: str | None = None

    def __post_init__(self) -> None:
        """Check every plain setting; `check` looks at names and data."""
        check_fields(self, "the example check", others=("fit", "training", "inputs", "targets", "explainers", "tests", "build"))

    def run(self, folder: str | Path, *, workers: int = 1, progress: bool = True) -> ExampleResult:
        """Train, explain and measure what the folder does not hold yet; `workers` has no effect."""
        world, tests, explainers, fit = self.check()
        store = RunFolder(str(folder))
        models = Retraining(fit, store, self.seed, self.build, self.device, Outputs(self.outputs), self.checkpoints)
        case = Case(models, world, self.seed, needs_checkpoints(list(explainers.values())))
        about: dict[str, Any] = {"title": self.title, "settings": {"seed": self.seed}, "steps": STEPS, "unit": "test", "progress": progress}
        steps = STEPS * len(tests)
        found: list[Measured] = []
        with write_study(Kind.EXAMPLES, folder, list(tests), doing="judging examples", **about) as (written, advance):
            for kind in (MODELS, STATES, ATTRIBUTIONS):
                store.files.sweep(kind)
            case.trained(world)  # a training that fails is the user's mistake, and ends the run
            total = sum(test.trainings for test in tests.values())
            for name, test in tests.items():
                share, done = test.trainings / total, 0.0

                def advanced(part: float, text: str, name: str = name, share: float = share) -> None:
                    nonlocal done
                    before, done = round(steps * share * done), min(1.0, done + part)
                    advance(round(steps * share * done) - before, f"{name}: {text}")

                found += measure_test(test, case, explainers, advanced)
            kept = tuple(about_test(one) for one in tests.values())
            result = ExampleResult(tuple(found), kept, title=self.title, path=store.root, confidence=self.confidence)
            written.conclude(result.findings())
        return result

    def on(self, device: str) -> ExampleCheck:
        """The same check with its models on a device; a trainer trains there too."""
        fit: Any = TRAINERS.build(self.fit)
        settable = is_dataclass(fit) and not isinstance(fit, type) and any(item.name == "device" for item in fields(fit))
        if settable and getattr(fit, "device", None) is None:
            fit = replace(fit, device=device)
        return replace(self, fit=fit, device=device)

    def check(self) -> tuple[World, dict[str, ExampleTest], dict[str, Explainer], Any]:
        """The data, the tests and the explainers by name, and the learning algorithm; raises on what cannot work."""
        training = as_training(self.training, None)
        if training is None:
            raise InputError("An example check needs the examples that models are trained on: pass training=(inputs, labels).")
        inputs = as_inputs(self.inputs)
        targets = as_labels(self.targets, inputs.size())
        if targets is None:
            raise InputError("An example check explains each sample for its label: pass targets=..., one class number per sample.")
        world = as_world(training, inputs, targets)
        fit = CrossTrained(fit=self.fit).trainer()
        if isinstance(fit, nn.Module):
            raise SpecError("fit=... trains a new network each time: pass a Trainer or a function (inputs, targets, seed), not a network.")
        held = getattr(fit, "validation", 0.0)
        if held:
            warn(
                f"fit holds out {held:.0%} of the examples for validation, which then hardly matter to the model: pass validation=0 to "
                "judge explanations by example."
            )
        explainers = labelled(self.explainers, controls=False)
        for label, one in explainers.items():
            if one.frame is not Frame.TRAINING:
                raise InputError(
                    f"'{label}' does not explain by training examples: give such explainers, as influence_functions, tracin, simplex or "
                    "representation_similarity."
                )
        explainers |= {name: one for name, one in ((RANDOM, RandomExamples()), (LABELS, SameClass())) if name not in explainers}
        tests = as_tests(self.tests)
        for test in tests.values():
            test.check(world, self.seed)
        return world, tests, explainers, fit


def as_world(training: Training, inputs: Inputs, targets: Tensor) -> World:
    """The data of a check; raises unless labels are classes that all occur in the training set."""
    labels = class_numbers(training.labels, None, what="label of training example")
    if labels.unique().tolist() != list(range(int(labels.max()) + 1)) or int(labels.max()) == 0:
        raise InputError(
            "The training labels must be the classes 0, 1, ..., at least two of them, with examples of each, not "
            f"{labels.unique().tolist()[:12]}."
        )
    if inputs.size() < FEWEST:
        raise InputError(f"An interval needs at least {FEWEST} explained samples, not {inputs.size()}: give more inputs.")
    if training.inputs.shape != inputs.shape:
        raise InputError(
            f"The training examples have shape {tuple(training.inputs.shape)} and the explained inputs {tuple(inputs.shape)}: give both in "
            "one shape."
        )
    world = World(training.inputs, labels, inputs, targets)
    return replace(world, targets=class_numbers(targets, classes_of(world), "the training set"))


def measure_test(test: ExampleTest, case: Case, explainers: Mapping[str, Explainer], advance: Any) -> list[Measured]:
    """One test of all explainers. What cannot be measured has the error in place of values; the others go on."""
    nothing = Outcome(np.empty(0), np.empty(0))
    try:
        prepared = test.prepare(case, advance)
    except InputError as error:
        return [Measured(test.name, label, one.control, nothing, str(error)) for label, one in explainers.items()]
    found = []
    for label, explainer in explainers.items():
        advance(0.0, label)
        try:
            found.append(Measured(test.name, label, explainer.control, prepared.measure(explainer)))
        except Exception as error:
            text = str(error) if isinstance(error, VeracityError) else error_text(error)
            found.append(Measured(test.name, label, explainer.control, nothing, text))
    return found + [Measured(test.name, name, True, outcome) for name, outcome in prepared.references.items()]


def about_test(test: ExampleTest) -> dict[str, Any]:
    """What a test is, as plain data."""
    least, most = (or_none(float(end)) for end in test.bounds)
    said = {"name": test.name, "title": test.title, "definition": test.definition, "reference": test.reference, "unit": test.unit}
    return {**said, "direction": test.direction.value, "least": least, "most": most}
