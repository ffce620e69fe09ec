"""The public facade: say what to audit, run it into a folder, read the result."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.component import encode_setting
from veracity.core.errors import InputError, Note
from veracity.core.explainers import Explainer
from veracity.core.failures import failures_of
from veracity.core.inputs import Inputs
from veracity.core.models import as_device, to_device
from veracity.core.scores import Defaults
from veracity.core.settings import Count, Inside, Whole, check_fields
from veracity.core.spaces import InputSpace
from veracity.core.targets import Outputs, Target, as_target
from veracity.core.training import Checkpoint, CrossTrained, Training
from veracity.core.walks import Walk
from veracity.engine.admission import admit, check_ready, first_budget
from veracity.engine.calibration import Strengths, calibrate_all, known_strengths
from veracity.engine.crosstrain.folds import (
    FoldModels,
    accuracy_notes,
    check_stability,
    every_module,
    fold_records,
    load_folds,
    missing_folds,
    on_device,
    require_folds,
    train_folds,
    with_fold_fingerprint,
)
from veracity.engine.executors import Executor, as_executor, check_main
from veracity.engine.forecast import Forecast, Preliminaries, forecast
from veracity.engine.learning import learn_all, pending_lessons
from veracity.engine.loop import JobRunner
from veracity.engine.materials import as_checkpoints, as_training, check_needs, check_training
from veracity.engine.memory import Budget
from veracity.engine.plan import Job, plan
from veracity.engine.prepare import AuditPlan, check_classes, check_requests, reader_notes
from veracity.engine.problem import AuditedModel, Problem
from veracity.engine.progress import LATE, CountingBudget, bar, telling, watching
from veracity.engine.resolve import (
    Scores,
    all_scores,
    as_about,
    as_inputs,
    as_labels,
    as_models,
    as_outputs,
    as_space,
    as_tensor,
    as_walk,
    as_whole,
    check_asked,
    check_given,
    labelled,
    prepare_explainer,
)
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.mending import mend
from veracity.engine.trial import try_explainers
from veracity.results import Result


def calibrate_plan(prepared: AuditPlan, store: RunFolder, progress: bool) -> tuple[AuditPlan, Strengths]:
    """The audit planned again, once the strength of every perturbation that depends on the model is known; and those strengths.

    Raises if none of the scores that were asked for could be measured.
    """
    found = calibrate_all(prepared.problem, prepared.budgets, store, progress)
    asked = [(job.model, cell.request.space) for job in prepared.jobs for cell in job.cells if cell.name in prepared.scores.asked]
    if found.failures and all(found.failure(model, space) for model, space in asked):
        raise InputError(next(iter(found.failures.values())))
    return replace(plan_with(found.sigmas, prepared), calibrations=tuple(found.records)), found


def plan_with(sigmas: Mapping[tuple[str, str], float], prepared: AuditPlan) -> AuditPlan:
    """The audit planned again with the strengths that were found."""
    problem = replace(prepared.problem, calibrations=sigmas)
    return replace(prepared, problem=problem, jobs=plan(problem, prepared.budgets) if sigmas else prepared.jobs)


def drop_failed_paths(jobs: list[Job], strengths: Strengths, store: RunFolder) -> list[Job]:
    """Jobs without the cells whose path has no end, which are recorded."""
    reasons = {cell.key: strengths.failure(job.model, cell.request.space) for job in jobs for cell in job.cells}
    failed = {key: reason for key, reason in reasons.items() if reason is not None}
    for key, reason in failed.items():
        store.write_failure(key, reason)
    return [job for job in (job.without(set(failed)) for job in jobs) if job.cells]


def model_on(name: str, model: nn.Module | CrossTrained, where: torch.device, device: str) -> nn.Module | CrossTrained:
    """A model on a device; copied there if it is elsewhere."""
    return on_device(model, device) if isinstance(model, CrossTrained) else to_device(name, model, where)


@contextmanager
def resume_hint(folder: str | Path) -> Iterator[None]:
    """An interruption says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Stopped. Run the same call again to resume from {folder}.") from None


def cross_trained(audit: Audit) -> dict[str, CrossTrained]:
    """The models that are trained for each fold of the data, by name."""
    return {name: model for name, model in as_models(audit.models).items() if isinstance(model, CrossTrained)}


@dataclass(frozen=True)
class AuditSetup:
    """What an audit is about, before any model is looked at."""

    inputs: Inputs
    labels: Tensor | None
    space: InputSpace | None
    explainers: dict[str, Explainer]
    scores: Scores
    target: Target
    outputs: Outputs | None
    models: dict[str, nn.Module | CrossTrained]
    training: Training | None
    checkpoints: Mapping[str, tuple[Checkpoint, ...]]
    walk: Walk
    seed: int


def load_all_folds(audit: Audit, store: RunFolder | None) -> dict[str, FoldModels]:
    """The folds' models of every cross-trained model as they lie in the folder, or untrained networks, as far as they are known."""
    inputs = as_inputs(audit.inputs)
    labels = as_labels(audit.targets, inputs.size())
    found = {name: load_folds(model, inputs, labels, store, name) for name, model in cross_trained(audit).items()}
    return {name: one for name, one in found.items() if one is not None}


def count_missing_folds(audit: Audit, store: RunFolder | None) -> int:
    """How many folds' models of cross-trained models are not in the folder."""
    inputs = as_inputs(audit.inputs)
    labels = as_labels(audit.targets, inputs.size())
    return sum(missing_folds(model, inputs, labels, store, name) for name, model in cross_trained(audit).items())


def rehearse(audit: Audit, settings: Mapping[str, Any], store: RunFolder, progress: bool) -> AuditPlan | None:
    """The audit, looked at before anything is written; None if its models must be trained first.

    Then it is looked at with untrained networks, so that a mistake does not come to light only after the training; where nobody
    knows them, at least everything that needs no model is.
    """
    models = cross_trained(audit)
    if not models:
        return audit.prepare(**settings, progress=progress)
    audit.resolve(**settings)
    inputs = as_inputs(audit.inputs)
    labels = as_labels(audit.targets, inputs.size())
    if not any(missing_folds(model, inputs, labels, store, name) for name, model in models.items()):
        if all(model.models for model in models.values()):
            return audit.prepare(**settings, trained=load_all_folds(audit, store), progress=progress)
        return None
    stands = load_all_folds(audit, store)
    if set(stands) == set(models):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Note)
            audit.prepare(**settings, trained=stands, rehearsal=True, progress=progress)
    return None


RESOLVED = ("models", "inputs", "targets", "explainers", "scores", "reference", "concepts", "checkpoints", "outputs", "about")
"""What an audit looks at when it resolves names and data."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """What to audit: models, data, explainers, the symmetry they should respect, and the scores to measure.

    models       {"name": module}, or one module; a CrossTrained in the place of a module is trained once for each fold of the data
    inputs       a tensor (samples, ...), graphs (PyG's Data in a list, or Batch), or an Inputs such as TokenInputs
    targets      class numbers (samples,), needed only for target="label" and for the accuracy; any numbers if the model does not classify
    explainers   names, Explainers, Captum classes, functions (model, inputs, targets) -> maps; a list or {"label": ...}
    symmetry     the space of transforms for scores given by name, for example CyclicShift(axes=(-1,))
    scores       names or Score objects; a list or {"label": ...}
    walk         how to explore the symmetry; all of it up to 512 elements, else 50 random ones, unless given
    target       which output is explained: "predicted", "label", a class number, a Target, a function of the output
    controls     whether the controls (random, constant, edges) stand beside the explainers
    companions   whether self-agreement and what the scores assume of the models are measured along
    reference    a reference set for explainers that need one
    training     (examples, labels) for explanations by examples and by concepts
    concepts     {"name": which training examples show it}: a set of labels, a mask, or a function (examples, labels) -> mask
    examples     how many of the training examples, the first ones, explanations by example refer to; all by default
    checkpoints  {"model": [...]} in the order of the training: state dicts, files, or either with its learning rate in a pair
    outputs      "logits", "probabilities" or "raw" if the outputs should not be recognised by themselves
    """

    models: Mapping[str, nn.Module | CrossTrained] | nn.Module | CrossTrained
    inputs: Tensor | Inputs | Sequence[Any]
    targets: Tensor | None = None
    explainers: Sequence[Any] | Mapping[str, Any] = ()
    symmetry: Any = None
    scores: Sequence[Any] | Mapping[str, Any] = ("equivariance", "model_invariance")
    walk: Any = None
    target: Any = "predicted"
    controls: bool = True
    companions: bool = True
    reference: Tensor | None = None
    training: Any = None
    concepts: Mapping[str, Any] | None = None
    examples: Count | None = None
    checkpoints: Mapping[str, Sequence[Any]] | None = None
    outputs: str | None = None
    seed: Whole = 0
    confidence: Inside = 0.95
    title: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every plain setting; what names or holds data is looked at by `resolve`, which knows what to do about it."""
        check_fields(self, "the audit", others=RESOLVED)

    def run(
        self,
        folder: str | Path,
        *,
        workers: int = 1,
        executor: Executor | str | None = None,
        batch: int | None = None,
        memory: int | None = None,
        progress: bool = True,
    ) -> Result:
        """Measure what the folder does not hold yet, and return the result.

        An `executor` says where jobs run; without one, in this process for one worker and in worker processes for more.
        """
        check_main()
        chosen = as_executor(executor, workers)
        store = RunFolder(str(folder))
        store.check_writable(Kind.AUDIT)
        settings: dict[str, Any] = {"workers": workers, "batch": batch, "memory": memory}
        ready = rehearse(self, settings, store, progress)
        with resume_hint(folder), store.writing():
            mend(store, progress)
            prepared = ready or self.prepare(**settings, trained=self.cross_train(store, progress), progress=progress)
            prepared, strengths = calibrate_plan(prepared, store, progress)
            lessons = learn_all(prepared.problem, prepared.budgets, store, progress)
            store.write_manifest(replace(prepared, facts=tuple(lessons.facts)).manifest(store))
            finished = store.finished() - store.incomplete()
            left = [job for job in (job.without(finished) for job in prepared.jobs) if job.cells]
            runner = JobRunner(prepared.problem, store.root, prepared.budgets)
            for job in left:
                if (job.model, job.explainer) in lessons.failures:
                    runner.fail(job, lessons.failures[job.model, job.explainer])
            left = [job for job in left if (job.model, job.explainer) not in lessons.failures]
            left = drop_failed_paths(left, strengths, store)
            with watching(left, enabled=progress) as watch:
                chosen.run(left, runner, watch)
        result = Result(str(folder))
        for text in lessons.warnings():
            warnings.warn(text, Note, stacklevel=2)
        for failure in failures_of(result.failures().to_dict("records")):
            warnings.warn(str(failure), Note, stacklevel=2)
        return result

    def on(self, device: str) -> Audit:
        """The same audit with its models on a device; a model that is elsewhere is copied there."""
        where = as_device(device)
        return replace(self, models={name: model_on(name, model, where, device) for name, model in as_models(self.models).items()})

    def cross_train(self, store: RunFolder, progress: bool) -> dict[str, FoldModels]:
        """The models of every fold of every cross-trained model: found in the folder, or trained now.

        Where a single one was not rehearsed, since nobody knows its network, its first model stands in for all.
        """
        models, inputs = cross_trained(self), as_inputs(self.inputs)
        labels = as_labels(self.targets, inputs.size())
        unknown = len(models) == 1 and not load_all_folds(self, store)

        def look(first: FoldModels) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Note)
                self.prepare(trained=dict.fromkeys(models, first), rehearsal=True)

        return {
            name: train_folds(model, inputs, labels, store, progress, name, look if unknown else None) for name, model in models.items()
        }

    def forecast(
        self,
        folder: str | Path | None = None,
        *,
        workers: int = 1,
        batch: int | None = None,
        memory: int | None = None,
        progress: bool = True,
    ) -> Forecast:
        """What a run would cost: passes, seconds, memory. Nothing is written.

        Strengths that the folder holds are applied, so that cells which rest on them are known; what must be calibrated, learnt or
        trained first is counted.
        """
        store = None if folder is None else RunFolder(str(folder))
        trained = load_all_folds(self, store)
        prepared = self.prepare(workers=workers, batch=batch, memory=memory, trained=trained, rehearsal=True, progress=progress)
        sigmas, missing = known_strengths(prepared.problem, store)
        prepared = plan_with(sigmas, prepared)
        ahead = Preliminaries(missing, pending_lessons(prepared.problem, store), count_missing_folds(self, store))
        finished = set() if store is None else store.finished()
        return forecast(prepared.problem, prepared.jobs, finished, prepared.budgets, workers, ahead)

    def prepare(
        self,
        *,
        workers: int = 1,
        batch: int | None = None,
        memory: int | None = None,
        trained: Mapping[str, FoldModels] | None = None,
        rehearsal: bool = False,
        progress: bool = False,
    ) -> AuditPlan:
        """Resolve every name, look at every model, and plan; raises on anything that could not work.

        `trained` holds the folds' models of every cross-trained one; in a `rehearsal` nothing is said of their predictions.
        """
        one = self.resolve(workers=workers, batch=batch, memory=memory)
        inputs, labels = one.inputs, one.labels
        budgets: dict[str, Budget] = {}
        models: dict[str, AuditedModel] = {}
        accuracies: dict[str, float | None] = {}
        folds = {name: require_folds(name, trained) for name, model in one.models.items() if isinstance(model, CrossTrained)}
        every = list(every_module(one.models, folds))
        with bar("looking at the models", len(every) * inputs.size(), progress, after=LATE) as advance:
            for name, label, fold, given in every:
                module = inputs.adapt(given)
                check_ready(name, module)
                advance(0, f"looking at {name}")
                budgets[name] = first_budget(name, module, inputs, memory, batch, workers)
                check_training(name, module, one.training, one.explainers)
                heard = CountingBudget(budgets[name].rows, telling(advance, f"looking at {name}"))
                admitted, accuracies[label] = admit(name, module, inputs, labels, one.target, one.outputs, heard)
                budgets[name] = Budget(heard.rows)
                models[name] = replace(with_fold_fingerprint(admitted, fold, folds), checkpoints=one.checkpoints.get(label, ()), place=fold)
        records = fold_records(models, folds, accuracies)
        defaults = Defaults(one.space, one.walk)
        problem = Problem(models, inputs, one.explainers, one.scores.named, one.target, defaults, one.seed, one.training, self.examples)
        check_classes(problem, labels)
        with bar("trying explainers", len(every) * len(one.explainers), progress, after=LATE) as advance:
            problem, notes = try_explainers(problem, budgets, advance)
        with bar("planning", len(every) * inputs.size(), progress, after=LATE) as advance:
            jobs = plan(problem, budgets, telling(advance, "planning"))
        check_requests(problem, jobs, one.scores.asked)
        notes += [] if rehearsal else reader_notes(problem, jobs) + accuracy_notes(records)
        return AuditPlan(self.spec(), self.title, problem, jobs, budgets, accuracies, notes, one.scores, records)

    def resolve(self, *, workers: int = 1, batch: int | None = None, memory: int | None = None) -> AuditSetup:
        """Everything that was written, as components and tensors; raises on what could not work, whatever the models do."""
        for what, value in (("batch", batch), ("workers", workers), ("memory", memory)):
            if value is not None:
                as_whole(value, what, least=1)
        reference = as_tensor(self.reference, "reference")
        inputs = as_inputs(self.inputs)
        labels = as_labels(self.targets, inputs.size())
        space = as_space(self.symmetry, inputs)
        structured = bool(inputs.take(torch.zeros(1, dtype=torch.long)).structure)
        named = labelled(self.explainers, self.controls, structured)
        explainers = {label: prepare_explainer(inputs, one.bind(reference, space)) for label, one in named.items()}
        check_given(explainers, inputs.size())
        scores = all_scores(self.scores, self.companions)
        check_asked(scores.named, scores.asked, space, explainers)
        target, outputs, models = as_target(self.target), as_outputs(self.outputs), as_models(self.models)
        training = as_training(self.training, self.concepts)
        checkpoints = as_checkpoints(self.checkpoints, {name: one for name, one in models.items() if isinstance(one, nn.Module)})
        check_needs(explainers, training, checkpoints, list(models))
        check_stability(scores, models, labels)
        walk = as_walk(self.walk, space)
        return AuditSetup(inputs, labels, space, explainers, scores, target, outputs, models, training, checkpoints, walk, self.seed)

    def spec(self) -> dict[str, Any]:
        """The audit as plain data."""
        found = {
            "models": list(as_models(self.models)),
            **({"cross_trained": {name: one.spec() for name, one in folds.items()}} if (folds := cross_trained(self)) else {}),
            "explainers": {label: one.spec() for label, one in labelled(self.explainers, self.controls).items() if not one.control},
            "symmetry": encode_setting(self.symmetry),
            "scores": encode_setting(self.scores),
            "walk": encode_setting(self.walk),
            "target": encode_setting(self.target),
            "controls": self.controls,
            "companions": self.companions,
            "outputs": self.outputs,
            "reference": encode_setting(as_tensor(self.reference, "reference")),
            "concepts": sorted(self.concepts or {}),
            "examples": self.examples,
            "seed": self.seed,
            "confidence": self.confidence,
        }
        return {**found, **as_about(self.about, found)}
