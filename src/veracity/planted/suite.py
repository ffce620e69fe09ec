"""`examine`: explainers on all planted tasks, each an audit with its truth, and a verdict for each."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from veracity.audit import Audit
from veracity.core.errors import InputError, Note, SpecError, VeracityError, unknown
from veracity.core.explainers import Explainer, Frame, GivenMaps, Inquirer
from veracity.core.registry import EXPLAINERS
from veracity.engine.resolve import labelled
from veracity.explain import GradCam, Lime, Occlusion, RandomGaussian
from veracity.explain.wrapper import Wrapper
from veracity.inputs import TextInputs
from veracity.measure import cosine
from veracity.planted import graphs, images, series, tables, texts
from veracity.planted.examination import Examination, Finding, Shown, Verdict
from veracity.planted.task import CONTRIBUTIONS, Magnitude, Planted, PlantedTask
from veracity.results import Result
from veracity.scores import SelfAgreement
from veracity.statistics.intervals import Interval, mean_interval, paired_interval
from veracity.trainers.training import as_inputs

MODALITIES: dict[str, tuple[PlantedTask, ...]] = {
    "images": images.TASKS,
    "tables": tables.TASKS,
    "series": series.TASKS,
    "texts": texts.TASKS,
    "graphs": graphs.TASKS,
}
RANDOM = "random map"
"""The null of every task: independent normal numbers."""
MODEL = "planted"
WRONG: dict[str, Explainer] = {
    "occlusion(window=1)": Occlusion(window=1),
    "occlusion(window=13)": Occlusion(window=13),
    "grad_cam(layer=first)": GradCam(layer="first"),
    "lime(patch=2)": Lime(patch=2),
}
"""Settings that are wrong for some planted tasks, examined beside the built-in explainers."""
SAMPLES = {"images": 16, "tables": 32, "series": 16, "texts": 32, "graphs": 32}
FEWEST = 4
"""Samples, below which no interval means anything."""


def examine(
    explainers: Any = None,
    *,
    modality: str | Sequence[str] | None = None,
    samples: int | None = None,
    seed: int = 0,
    report: Callable[[str], None] = lambda what: None,
) -> Examination:
    """Explainers on tasks whose right answer is planted, and where each of them fails.

    explainers  one, a list or {"label": ...}, in any form that `Audit` takes; all built-in ones that explain inputs by default, and some
                of them once more with settings that are wrong for some tasks
    modality    "images", "tables", "series", "texts" or "graphs", or several; all by default
    samples     how many samples each task has; by default 32, and 16 for images and series, whose maps take longest
    report      called with the name of each task before it is run

    >>> found = examine("gradient", modality="graphs", samples=8)
    >>> [(one.task, one.verdict.value) for one in found.findings][1:3]
    [('motif', 'pass'), ('redundant', 'fails')]
    """
    chosen = chosen_modalities(modality)
    if samples is not None and (isinstance(samples, bool) or not isinstance(samples, int) or samples < FEWEST):
        raise SpecError(f"samples must be a whole number of at least {FEWEST}, not {samples!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise SpecError(f"seed must be a whole number of at least 0, not {seed!r}.")
    named = built_in() if explainers is None else asked_for(explainers)
    counts = {name: SAMPLES[name] if samples is None else samples for name in chosen}
    findings: list[Finding] = []
    shown: dict[tuple[str, str], Shown] = {}
    skipped: dict[tuple[str, str], str] = {}
    for name in chosen:
        for task in MODALITIES[name]:
            report(f"{name}: {task.name}")
            made, reasons, sample = run_and_show(task, name, named, counts[name], seed)
            findings += made
            shown |= {} if sample is None else {(name, task.name): sample}
            skipped |= {(name, label): reason for label, reason in reasons.items()}
    seen = {one.explainer for one in findings}
    if explainers is not None:
        for label in named:
            if label not in seen:
                why = next((reason for (_, other), reason in skipped.items() if other == label), "it gave no explanation.")
                raise InputError(f"'{label}' explains none of the planted {' or '.join(chosen)}: {why}")
    labels = [label for label in named if label in seen]
    tasks = [(name, task) for name in chosen for task in MODALITIES[name]]
    return Examination(
        findings=tuple(findings), tasks=tuple(tasks), explainers=tuple(labels), skipped=skipped, samples=counts, seed=seed, shown=shown
    )


def chosen_modalities(given: str | Sequence[str] | None) -> list[str]:
    """The modalities that were asked for; raises if one is unknown."""
    if not (given is None or isinstance(given, (str, Sequence))):
        raise SpecError(f"modality is a name or a list of names, some of {', '.join(MODALITIES)}, not {given!r}.")
    names = list(MODALITIES) if given is None else [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in MODALITIES:
            raise unknown("modality", str(name), MODALITIES)
    if not names:
        raise SpecError(f"There is no modality to examine: choose some of {', '.join(MODALITIES)}.")
    return [name for name in MODALITIES if name in names]


def asked_for(given: Any) -> dict[str, Explainer]:
    """The explainers that somebody named, by label; raises if one says nothing about single values of the input."""
    listed = given if isinstance(given, Mapping) or (isinstance(given, Sequence) and not isinstance(given, str)) else [given]
    if not len(listed):
        raise SpecError("There is no explainer to examine: name some, or leave them out to examine all built-in ones.")
    named = labelled(listed, controls=False)
    if RANDOM in named:
        raise SpecError(f"The label '{RANDOM}' is that of the null: choose another one.")
    for label, one in named.items():
        if one.frame is not Frame.INPUT:
            raise SpecError(
                f"'{label}' explains by its {one.frame.value}, and planted tasks know which parts of an input matter: choose an explainer "
                "of inputs, such as integrated_gradients."
            )
        if isinstance(one, GivenMaps):
            raise SpecError(f"'{label}' has maps of other samples: pass what made them.")
    return named


def built_in() -> dict[str, Explainer]:
    """All explainers of this package that explain inputs on their own, and the settings in `WRONG`."""
    kinds = (kind for kind in EXPLAINERS.own().values() if kind.frame is Frame.INPUT and not kind.control)
    found = {kind.name: kind() for kind in kinds if not issubclass(kind, (Wrapper, GivenMaps, Inquirer))}
    return {**dict(sorted(found.items())), **WRONG}


@cache
def known_specs() -> dict[str, dict[str, Any]]:
    """The settings of the explainers about which failures are known, by label."""
    return {label: one.spec() for label, one in built_in().items()}


def run_task(
    task: PlantedTask, modality: str, explainers: Mapping[str, Explainer], samples: int, seed: int
) -> tuple[list[Finding], dict[str, str]]:
    """The findings about those explainers that fit the task, and why the others do not."""
    findings, reasons, _ = run_and_show(task, modality, explainers, samples, seed)
    return findings, reasons


def run_and_show(
    task: PlantedTask, modality: str, explainers: Mapping[str, Explainer], samples: int, seed: int
) -> tuple[list[Finding], dict[str, str], Shown | None]:
    """The same, and the first sample with the maps of the explainers that fail; None if none fails, or if the task compares two runs."""
    planted = task.plant(samples, seed)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="veracity-") as folder:
        warnings.simplefilter("ignore", Note)
        fitting, reasons = those_that_fit(task, planted, explainers, seed)
        if not fitting:
            return [], reasons, None
        result = audit_of(task, planted, fitting, seed).run(f"{folder}/run", progress=False)
        broken = {str(row["explainer"]): f"it failed on the task '{task.name}': {row['error']}" for _, row in result.failures().iterrows()}
        whole = {label: one for label, one in fitting.items() if label not in broken}
        findings = list(findings_of(task, modality, planted, whole, result))
        failed = [one.explainer for one in findings if one.verdict is Verdict.FAILS and task.score != "self_agreement"]
        maps = {label: result.explanations(MODEL, label)[0] for label in failed}
        return findings, {**reasons, **broken}, first_sample(planted, maps) if maps else None


def first_sample(planted: Planted, maps: Mapping[str, Tensor]) -> Shown:
    """The first planted sample with maps of it."""
    data = as_inputs(planted.inputs)
    words = texts.spelt(data.encoding["input_ids"][0]) if isinstance(data, TextInputs) else ()
    return Shown(input=data.take(torch.zeros(1, dtype=torch.long)).values[0], truth=planted.truth[0], maps=maps, words=words)


def audit_of(task: PlantedTask, planted: Planted, explainers: Mapping[str, Explainer], seed: int) -> Audit:
    """The audit of a task, with a random map beside the explainers."""
    compared = {**explainers, RANDOM: RandomGaussian()}
    if task.magnitude:
        compared = {label: one if one.control and label != RANDOM else Magnitude(explainer=one) for label, one in compared.items()}
    score: Any = {"self_agreement": SelfAgreement(repeats=1), CONTRIBUTIONS: "auc"}.get(task.score, task.score)
    return Audit(
        models={MODEL: planted.model},
        inputs=planted.inputs,
        truth=planted.truth,
        targets=planted.targets,
        target=0 if planted.targets is None else "label",
        outputs="raw" if planted.targets is None else "logits",
        explainers=compared,
        scores={task.score: score},
        controls=False,
        companions=False,
        reference=planted.inputs if planted.reference is None and isinstance(planted.inputs, Tensor) else planted.reference,
        seed=seed,
    )


def those_that_fit(
    task: PlantedTask, planted: Planted, explainers: Mapping[str, Explainer], seed: int
) -> tuple[dict[str, Explainer], dict[str, str]]:
    """The explainers that an audit of this task accepts, and why it refuses each of the others."""
    refused = refusal(task, planted, explainers, seed)
    if not refused:
        return dict(explainers), {}
    reasons = {label: refusal(task, planted, {label: one}, seed) for label, one in explainers.items()} if len(explainers) > 1 else {}
    reasons = reasons or dict.fromkeys(explainers, refused)
    return {label: one for label, one in explainers.items() if not reasons[label]}, {key: text for key, text in reasons.items() if text}


def refusal(task: PlantedTask, planted: Planted, explainers: Mapping[str, Explainer], seed: int) -> str:
    """Why an audit with these explainers cannot start; "" if it can."""
    try:
        audit_of(task, planted, explainers, seed).prepare()
    except VeracityError as error:
        return str(error).removeprefix(f"On model '{MODEL}': ")
    except ImportError as error:
        return f"{error.name or 'a library'} is not installed."
    return ""


def findings_of(
    task: PlantedTask, modality: str, planted: Planted, explainers: Mapping[str, Explainer], result: Result
) -> Iterator[Finding]:
    """One finding per explainer."""
    by_label = values_of(task, planted, result, (*explainers, RANDOM))
    random = by_label[RANDOM]
    for label, one in explainers.items():
        undefined, values = int(np.isnan(by_label[label]).sum()), np.nan_to_num(by_label[label])
        found, over = mean_interval(values, scale=1.0), paired_interval(values, random)
        outcome = verdict(found, over, task.bar, undefined, len(values))
        yield Finding(
            modality=modality,
            task=task.name,
            explainer=label,
            score=task.score,
            value=found.value,
            low=found.low,
            high=found.high,
            n=found.n,
            undefined=undefined,
            random=float(np.nanmean(random)),
            over_random=over.value,
            over_random_low=over.low,
            over_random_high=over.high,
            bar=task.bar,
            verdict=outcome,
            why=task.why.get(label, "") if outcome is Verdict.FAILS and one.spec() == known_specs().get(label) else "",
            accuracy=math.nan if planted.accuracy is None else planted.accuracy,
        )


def values_of(
    task: PlantedTask, planted: Planted, result: Result, labels: Collection[str]
) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """One number per sample for each of these explainers; NaN where a map says nothing."""
    if task.score != CONTRIBUTIONS or planted.contributions is None:
        table = result.samples(task.score)
        return {str(label): rows.sort_values("sample")["value"].to_numpy(np.float64) for label, rows in table.groupby("explainer")}
    exact = planted.contributions
    return {label: cosine(result.explanations(MODEL, label).to(exact), exact).double().numpy() for label in labels}


def verdict(found: Interval, over: Interval, bar: float, undefined: int, samples: int) -> Verdict:
    """Pass if the whole interval reaches the bar and the map is better than a random one; fails if the whole interval misses the bar.

    A map that is undefined on most samples, since it is zero everywhere, fails; on fewer samples it counts as 0.

    >>> clear = Interval(value=0.8, low=0.7, high=0.9, n=9)
    >>> verdict(clear, clear, 0.6, 0, 9), verdict(clear, clear, 0.75, 0, 9), verdict(clear, clear, 0.95, 0, 9)
    (<Verdict.PASS: 'pass'>, <Verdict.UNTOLD: 'cannot tell'>, <Verdict.FAILS: 'fails'>)
    """
    if 2 * undefined > samples:
        return Verdict.FAILS
    if found.low >= bar and over.low > 0.0:
        return Verdict.PASS
    return Verdict.FAILS if found.high < bar else Verdict.UNTOLD
