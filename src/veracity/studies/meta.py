"""Meta-evaluation: can a score be trusted? It is repeated on perturbed subjects, and must tell minor from disruptive perturbations.

Two tests of Hedström et al. (appendix A.3 of the GEF paper): the input perturbation test adds uniform noise to the inputs and uses the
explanations of the unperturbed ones; the model perturbation test scales the weights and explains the new model. The unperturbed subject
is measured once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from itertools import product, starmap
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.explainers import Explainer, GivenMaps, maps_only
from veracity.core.inputs import Inputs, TensorInputs, is_streamed
from veracity.core.measures import Direction
from veracity.core.models import as_device, evaluating, to_device
from veracity.core.randomness import Draws
from veracity.core.scores import Defaults, Reads, Score, Subject
from veracity.core.settings import Count, Whole, check_fields, short_repr
from veracity.core.targets import Outputs
from veracity.engine.admission import take
from veracity.engine.memory import Budget
from veracity.engine.resolve import all_scores, labelled
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Count as Number
from veracity.engine.store.manifest import Kind, Part
from veracity.engine.store.study import findings
from veracity.explain import Precomputed
from veracity.inputs import as_inputs
from veracity.perturb import ParameterScaling, UniformNoise
from veracity.perturb.weights.copies import ScratchModel, key, parameters_of
from veracity.results import Result
from veracity.scores.faithfulness.masked import settled
from veracity.statistics.intervals import mean_interval, unseen_share
from veracity.studies.consistency import inter_consistency, intra_consistency, left_out, meta_consistency
from veracity.studies.result import StudyResult, gate_rows, records, write_study
from veracity.walk import MonteCarlo

TESTS = ("ipt", "mpt")
TOGETHER = "both"
KINDS = ("minor", "disruptive")
PARTS = ["iac_nr", "iac_ar", "iec_nr", "iec_ar"]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Trial:
    """One perturbed subject: which test, how strong, and its number."""

    test: str
    kind: str
    iteration: int
    number: int

    @property
    def name(self) -> str:
        """The trial's folder."""
        return f"{self.test}-{self.kind}-{self.iteration}-{self.number}"


class Consistency(Part):
    """The consistencies of one score in one test and iteration."""

    score: str
    test: str
    iteration: Number
    iac_nr: float | None
    iac_ar: float | None
    iec_nr: float | None
    iec_ar: float | None
    mc: float | None
    left_out: Number


class PublishedConsistency(Part):
    """A figure to compare with."""

    score: str
    test: str = TOGETHER
    value: float


class Findings(Part):
    """What the folder of a meta-evaluation keeps."""

    rows: list[Consistency]
    published: list[PublishedConsistency]


@dataclass(frozen=True)
class MetaResult(StudyResult):
    """Consistencies of every score, test and iteration."""

    kind: ClassVar[Kind] = Kind.META
    rows: pd.DataFrame
    published: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def read(cls, folder: RunFolder, manifest: Mapping[str, Any]) -> Self:
        """The consistencies that a folder holds."""
        found = findings(folder, Findings)
        rows = pd.DataFrame(found["rows"], columns=list(Consistency.model_fields)).astype(dict.fromkeys([*PARTS, "mc"], float))
        return cls(rows, tuple(found["published"]), title=manifest.get("title"), path=folder.root)

    def findings(self) -> dict[str, Any]:
        """One record per score, test and iteration."""
        return {"rows": records(self.rows), "published": [dict(entry) for entry in self.published]}

    def requirements(self) -> pd.DataFrame:
        """The meta-consistency `mc` of every score and test, with its t interval over iterations."""
        found = []
        for (score, test), rows in self.by_test():
            mean = mean_interval(rows["mc"].to_numpy(dtype=np.float64))
            alike = unseen_share(mean.n) if mean.low == mean.high else np.nan
            found.append({"model": score, "explainer": test, "score": "mc", **asdict(mean), "unseen": alike})
        return gate_rows(found)

    def table(self) -> pd.DataFrame:
        """One row per score and test, and one for both tests: means over iterations, and the spread of MC over them."""
        found = [{"score": score, "test": test, **summary(rows)} for (score, test), rows in self.by_test()]
        known = {(entry["score"], entry.get("test", TOGETHER)): entry["value"] for entry in self.published}
        if known:
            found = [{**row, "published": known.get((row["score"], row["test"]), float("nan"))} for row in found]
        return pd.DataFrame(found)

    def __str__(self) -> str:
        return str(self.table().to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep=""))

    def by_test(self) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
        """The iterations of every score and test, then those of both tests together."""
        for (score, test), rows in self.rows.groupby(["score", "test"], sort=False):
            yield (str(score), str(test)), rows
        for score, rows in self.rows.groupby("score", sort=False):
            if rows["test"].nunique() > 1:
                yield (str(score), TOGETHER), mean_of_tests(rows)


RESOLVED = ("model", "inputs", "explainers", "scores", "tests", "input_noise", "weight_noise", "reference", "outputs")
"""What a meta-evaluation looks at when it resolves names and data."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MetaEvaluation:
    """What to meta-evaluate: scores, on a model, data and at least two explainers.

    tests          "ipt" (inputs perturbed) and "mpt" (weights perturbed)
    iterations     how often everything is repeated; the spread of MC is over them
    perturbations  perturbed subjects of each kind in one iteration
    input_noise    half-widths of the uniform noise on inputs, minor and disruptive
    weight_noise   standard deviations of the factors on weights, minor and disruptive
    published      figures to stand beside ours: records with score, test and value
    """

    model: nn.Module
    inputs: Tensor | Inputs
    explainers: Sequence[Any] | Mapping[str, Any]
    scores: Sequence[Any] | Mapping[str, Any]
    tests: Sequence[str] = TESTS
    iterations: Count = 3
    perturbations: Count = 5
    input_noise: tuple[float, float] = (0.001, 5.0)
    weight_noise: tuple[float, float] = (0.001, 2.0)
    reference: Tensor | None = None
    outputs: str | None = None
    seed: Whole = 0
    title: str | None = None
    published: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        """Check every plain setting; `check` looks at names and data."""
        check_fields(self, "the meta-evaluation", others=RESOLVED)

    def run(self, folder: str | Path, *, workers: int = 1, batch: int | None = None, progress: bool = True) -> MetaResult:
        """Measure what the folder does not hold yet: the unperturbed subject once, then every perturbed one."""
        self.check()
        root = str(folder)
        settings: dict[str, Any] = {"workers": workers, "batch": batch, "progress": False}
        trials = list(self.trials())
        names = ["base", *(trial.name for trial in trials)]
        about: dict[str, Any] = {"title": self.title, "settings": {"seed": self.seed}}
        with write_study(Kind.META, root, names, doing="meta-evaluating", progress=progress, **about) as (written, advance):
            advance(0, "unperturbed")
            base = self.audit().run(f"{root}/base", **settings)
            before = Unperturbed(self, base)
            advance(1, "unperturbed")
            after: dict[Trial, Outcome] = {}
            for trial in trials:
                advance(0, trial.name)
                after[trial] = before.repeat(trial, root, settings)
                advance(1, trial.name)
            rows = pd.DataFrame(list(self.consistencies(before, after)))
            found = MetaResult(rows, tuple(self.published), title=self.title, path=root)
            written.conclude(found.findings())
        return found

    def on(self, device: str) -> MetaEvaluation:
        """The same meta-evaluation with its model on a device, copied there if it is elsewhere."""
        return replace(self, model=to_device("model", self.model, as_device(device)))

    def audit(self, **changes: Any) -> Audit:
        """The audit of the unperturbed subject, with changes."""
        plain = {"models": self.model, "inputs": self.inputs, "explainers": self.explainers, "scores": self.scores}
        fixed = {"reference": self.reference, "outputs": self.outputs, "seed": self.seed, "controls": False, "companions": False}
        return Audit(**{**plain, **fixed, **changes})

    def trials(self) -> Iterator[Trial]:
        """Every perturbed subject."""
        return starmap(Trial, product(self.tests, KINDS, range(self.iterations), range(self.perturbations)))

    def check(self) -> None:
        """Raise on settings that cannot work."""
        if isinstance(self.tests, str):
            raise SpecError(f"The tests are a list, such as ['{self.tests}'], not one name.")
        if not self.tests:
            raise SpecError("There is no test to run: pass tests=['ipt', 'mpt'], or one of them.")
        for test in self.tests:
            if test not in TESTS:
                raise unknown("test of a meta-evaluation", str(test), TESTS)
        check_strengths("input_noise", self.input_noise)
        check_strengths("weight_noise", self.weight_noise)
        if len(labelled(self.explainers, controls=False)) < 2:
            raise InputError("A single explainer always ranks first, so meta-evaluation says nothing: pass at least two explainers.")
        for label, score in all_scores(self.scores, companions=False).named.items():
            if score.reads is not Reads.EXPLANATION:
                raise InputError(f"The score '{label}' is about the model only, but meta-evaluation ranks explainers: leave it out.")
            if score.in_map_units:
                raise InputError(
                    f"The score '{label}' is in the map's own units, and meta-evaluation ranks explainers: give it relative=True or "
                    "scaled=True if it has such a form, or leave it out."
                )
        if isinstance(self.model, Mapping) or not isinstance(self.model, nn.Module):
            raise InputError(f"A meta-evaluation is of one torch.nn.Module, not {type(self.model).__name__}.")
        given = as_inputs(self.inputs)
        if not (isinstance(given, TensorInputs) or is_streamed(given)) and "ipt" in self.tests:
            raise InputError("The input perturbation test adds noise to plain tensors: for other inputs pass tests=['mpt'].")
        if given.size() < 2:
            raise InputError("Intra-consistency compares scores over samples, which one sample does not allow: pass at least two.")
        if "mpt" in self.tests:
            parameters_of(self.model)
            fixed = [label for label, one in labelled(self.explainers, controls=False).items() if maps_only(one)]
            if fixed:
                raise InputError(
                    f"The model perturbation test explains a new model, but '{fixed[0]}' is maps without their explainer: "
                    "give Precomputed(maps=..., explainer=...), or pass tests=['ipt']."
                )

    def consistencies(self, before: Unperturbed, after: Mapping[Trial, Outcome]) -> Iterator[dict[str, Any]]:
        """Eq. 20 and its parts, one row per score, test and iteration."""
        for (score, direction), test, iteration in product(before.directions.items(), self.tests, range(self.iterations)):
            base, missing = before.scores[score], 0
            parts: dict[str, float] = {}
            for kind, what in zip(KINDS, ("nr", "ar"), strict=True):
                some = [one for trial, one in after.items() if (trial.test, trial.kind, trial.iteration) == (test, kind, iteration)]
                scores, kept = np.stack([one.scores[score] for one in some]), np.stack([one.kept for one in some])
                disruptive = kind == "disruptive"
                parts[f"iac_{what}"] = intra_consistency(base, scores, disruptive=disruptive, kept=kept)
                parts[f"iec_{what}"] = inter_consistency(base, scores, direction=direction, disruptive=disruptive, kept=kept)
                missing += left_out(base, scores, kept=kept) + base.size * sum(one.lost for one in some)
            mc = meta_consistency(*(parts[name] for name in PARTS))
            yield {"score": score, "test": test, "iteration": iteration, **parts, "mc": mc, "left_out": missing}


@dataclass(frozen=True)
class Outcome:
    """Scores (methods, samples) of one perturbed subject by name, and which samples count (samples,).

    A subject is lost if its outputs are not finite: nothing can be measured on it.
    """

    scores: dict[str, Array]
    kept: NDArray[np.bool_]
    lost: bool = False


class Unperturbed:
    """The unperturbed subject: its scores, explanations, predictions, and the strengths of its paths."""

    def __init__(self, meta: MetaEvaluation, base: Result) -> None:
        if len(base.failures()):
            first = base.failures().iloc[0]
            raise InputError(f"'{first['score']}' of {first['explainer']} could not be measured: {first['error']}")
        self.meta, self.inputs = meta, as_inputs(meta.inputs)
        self.explainers = labelled(meta.explainers, controls=False)
        subject = Subject("model", next(iter(self.explainers.values())), self.inputs.shape)
        scores = all_scores(meta.scores, companions=False).named
        specs = base.manifest["score_specs"]
        read = {label: settled(score, specs[label]["spec"].get("softmax") is not False) for label, score in scores.items()}
        self.named = {label: with_strength(score, subject, base) for label, score in read.items()}
        self.directions = {one.score: Direction(one.direction) for one in base.series}
        self.scores = {label: by_method(base, label, list(self.explainers), self.inputs.size()) for label in self.directions}
        self.given = {label: stored_maps(base, label, one) for label, one in self.explainers.items()} if "ipt" in meta.tests else {}
        self.kind = Outputs(base.manifest["models"]["model"]["outputs"])
        output = outputs(meta.model, self.inputs)
        self.targets, self.predicted = output.argmax(1), self.kind.read(output).argmax(1)

    def repeat(self, trial: Trial, root: str, settings: Mapping[str, Any]) -> Outcome:
        """The scores of one perturbed subject."""
        draw = trial.iteration * self.meta.perturbations + trial.number
        fixed = {"scores": self.named, "targets": self.targets, "target": "label", "outputs": self.kind.value}
        if trial.test == "ipt":
            inputs = TensorInputs(self.noisy(self.meta.input_noise[KINDS.index(trial.kind)], draw, trial.kind))
            audit = self.meta.audit(inputs=inputs, explainers=self.given, **fixed)
            now = outputs(self.meta.model, inputs)
        else:
            model = scaled_copy(self.meta.model, self.meta.weight_noise[KINDS.index(trial.kind)], draw, trial.kind, self.meta.seed)
            audit = self.meta.audit(
                models=model, explainers={label: inner_explainer(one) for label, one in self.explainers.items()}, **fixed
            )
            now = outputs(model, self.inputs)
        if not bool(now.isfinite().all()):
            nowhere = {label: np.full_like(scores, np.nan) for label, scores in self.scores.items()}
            return Outcome(nowhere, np.zeros(len(now), dtype=bool), lost=True)
        result = audit.run(f"{root}/{trial.name}", **settings)
        same = (self.kind.read(now).argmax(1) == self.predicted).numpy()
        scores = {label: by_method(result, label, list(self.explainers), self.inputs.size()) for label in self.directions}
        return Outcome(scores, same if trial.kind == "minor" else ~same)

    def noisy(self, radius: float, draw: int, kind: str) -> Tensor:
        """The inputs with uniform noise."""
        samples = torch.arange(self.inputs.size())
        x = self.inputs.take(samples).values
        space = UniformNoise(radius=radius).fit(x.shape[1:])
        element = space.decode(Draws.of(self.meta.seed, samples, draw).normal(space.latents, stream=f"meta-evaluation {kind}"))
        return space.act(element, x)


def check_strengths(what: str, given: Any) -> None:
    """Raise unless these are two positive numbers, for minor and disruptive perturbations."""
    listed = given if isinstance(given, (tuple, list)) else ()
    numbers = [one for one in listed if isinstance(one, (int, float)) and not isinstance(one, bool) and 0 < one < math.inf]
    if not len(listed) == len(numbers) == len(KINDS):
        raise SpecError(
            f"The setting '{what}' is two positive numbers, minor and disruptive, such as (0.001, 5.0), not {short_repr(given)}."
        )


def stored_maps(base: Result, label: str, explainer: Explainer) -> Explainer:
    """The explanations of the unperturbed inputs, for use with any inputs; the explainer itself if there are none.

    There are none if all scores use averages over noise, which are made around the given inputs.
    """
    if isinstance(explainer, GivenMaps):
        return explainer
    blocks = {int(cell["start"]): cell["base"] for cell in base.manifest["cells"] if cell["explainer"] == label}
    kept = [base.folder.read_tensors("explanations", blocks[start]) for start in sorted(blocks)]
    maps = [block["explanation"] for block in kept if block is not None]
    return Precomputed(maps=torch.cat(maps), explainer=explainer) if len(maps) == len(kept) else explainer


def inner_explainer(explainer: Explainer) -> Explainer:
    """The explainer behind given explanations."""
    inner = explainer.explainer if isinstance(explainer, Precomputed) else None
    return explainer if inner is None else inner


def with_strength(score: Score, subject: Subject, base: Result) -> Score:
    """A score with the strength that was calibrated on the unperturbed subject, for use on the perturbed ones."""
    if getattr(score, "sigma", 0.0) is not None:
        return score
    walked = {request.space.name for request in score.requests(subject, Defaults(None, MonteCarlo(draws=1)))}
    found = {record["sigma"] for record in base.manifest.get("calibrations") or [] if record["space"] in walked}
    if len(found) > 1:
        raise SpecError(f"The score '{score.name}' leaves its strength open, and several were found: give it a sigma.")
    return replace(score, **{"sigma": found.pop()}) if found else score


def scaled_copy(model: nn.Module, sigma: float, draw: int, kind: str, seed: int) -> nn.Module:
    """A copy of the model whose weights are multiplied by N(1, sigma^2).

    Its direction comes from a separate random stream, so scores that perturb weights, such as GEF, never draw it.
    """
    copies = ScratchModel(model, key("meta-evaluation", seed, kind))
    return deepcopy(copies.become(copies.weights(ParameterScaling(sigma=sigma, steps=1), [(draw, 0)]), 0))


def by_method(result: Result, score: str, methods: Sequence[str], samples: int) -> Array:
    """A score of every method and sample, (methods, samples); NaN if it could not be measured."""
    table = result.samples(score).pivot(index="explainer", columns="sample", values="value")
    return table.reindex(index=list(methods), columns=range(samples)).to_numpy(dtype=np.float64)


@torch.no_grad()
def outputs(model: nn.Module, inputs: Inputs) -> Tensor:
    """The model's outputs for every input, on the CPU."""
    parts: list[Tensor] = []
    with evaluating(inputs.adapt(model)) as adapted:
        Budget(256).spend(inputs.size(), 1, lambda part: parts.append(take(inputs, part, model).through(adapted).cpu()))
    return torch.cat(parts)


def mean_of_tests(rows: pd.DataFrame) -> pd.DataFrame:
    """The means of both tests in each iteration, NaN if one is undefined, and the sum of what both left out."""
    found = [{**part[[*PARTS, "mc"]].mean(skipna=False), "left_out": part["left_out"].sum()} for _, part in rows.groupby("iteration")]
    return pd.DataFrame(found)


def summary(rows: pd.DataFrame) -> dict[str, float]:
    """Means over iterations, and the standard deviation of MC."""
    spread = float(rows["mc"].std(ddof=1)) if len(rows) > 1 else float("nan")
    means = {name: float(rows[name].mean()) for name in PARTS}
    return {"mc": float(rows["mc"].mean()), "sd": spread, **means, "left_out": float(rows["left_out"].sum())}
