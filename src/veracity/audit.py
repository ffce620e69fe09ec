"""The public facade: say what to audit, run it into a folder, read the result."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.component import encode_setting, hashing_once
from veracity.core.errors import InputError, Note, unknown, warn
from veracity.core.explainers import Explainer
from veracity.core.failures import failures_of
from veracity.core.features import Features, features_of
from veracity.core.inputs import FirstSamples, Inputs, SelectedSamples, TensorInputs, is_streamed
from veracity.core.models import PRECISIONS, as_device, device_of, in_precision, to_device
from veracity.core.scores import Defaults
from veracity.core.settings import Count, Inside, Whole, check_fields
from veracity.core.spaces import InputSpace
from veracity.core.targets import Outputs, Target, as_target
from veracity.core.training import Checkpoint, CrossTrained, Training
from veracity.core.walks import Walk
from veracity.engine.admission import admit, check_ready, check_training, first_pass
from veracity.engine.crosstrain.folds import FoldModels, accuracy_notes, check_stability, every_module, fold_records, on_device
from veracity.engine.crosstrain.training import FoldTraining
from veracity.engine.defaults import choose
from veracity.engine.executors import Executor, as_executor, check_main
from veracity.engine.forecast import Forecast, Outlook, forecast
from veracity.engine.loop import JobRunner
from veracity.engine.memory import Budget, gpu_limit
from veracity.engine.plan import Job, fitting_block, plan, unfinished
from veracity.engine.precision import check_resolution, strict_plan, strict_records
from veracity.engine.preliminaries import (
    Lessons,
    Preliminaries,
    Strengths,
    calibrate_all,
    known_strengths,
    learn_all,
    pending_lessons,
    skip_impossible,
)
from veracity.engine.prepare import AuditPlan, check_classes, check_probabilities, check_requests, meanings_of, reader_notes
from veracity.engine.problem import AuditedModel, Problem
from veracity.engine.progress import LATE, JobProgress, bar, weight
from veracity.engine.resolve import (
    Scores,
    SelectedMasks,
    all_scores,
    as_about,
    as_checkpoints,
    as_data,
    as_labels,
    as_models,
    as_outputs,
    as_reference,
    as_space,
    as_training,
    as_truth,
    as_walk,
    as_whole,
    check_asked,
    check_given,
    check_needs,
    class_names,
    labelled,
    named_labels,
    of_own_lengths,
    prepare_explainer,
    usual_rows,
    with_own_controls,
)
from veracity.engine.sharing import check_same_plan, run_share
from veracity.engine.store import RunFolder
from veracity.engine.store.answers import answer_notes
from veracity.engine.store.manifest import MANIFEST, Kind
from veracity.engine.store.shards import Member, Share, living
from veracity.engine.stored_rows import known_block, known_rows, remember_rows, rows_key
from veracity.engine.trial import try_explainers
from veracity.inputs import DatasetInputs, split_labels
from veracity.inputs.labels import Split
from veracity.inputs.several import required_names
from veracity.inputs.truth import BoxMasks
from veracity.inputs.units import Groups, Units, as_groups, as_units, without_column
from veracity.results import Result
from veracity.scores.presets import listed_scores


@dataclass(frozen=True)
class AuditSetup:
    """The settings of an audit as components and tensors, before any model is checked."""

    inputs: Inputs
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
    features: Features | None = None
    truth: Tensor | BoxMasks | None = None


def with_strengths(prepared: AuditPlan, sigmas: Mapping[tuple[str, str], float]) -> AuditPlan:
    """The audit planned again with calibrated strengths."""
    problem = replace(prepared.problem, calibrations=sigmas)
    return replace(prepared, problem=problem, jobs=plan(problem, prepared.budgets) if sigmas else prepared.jobs)


def load_folds(trainings: Mapping[str, FoldTraining], store: RunFolder | None) -> dict[str, FoldModels]:
    """The stored models of folds, or untrained networks, as far as somebody can build those."""
    found = {name: training.load(store) for name, training in trainings.items()}
    return {name: models for name, models in found.items() if models is not None}


def rehearse(audit: Audit, settings: Mapping[str, Any], store: RunFolder, progress: bool) -> AuditPlan | None:
    """Check an audit with cross-trained models before anything is written; None if models must be trained or loaded first.

    Untrained networks stand in for models that must be trained, so that a mistake shows before the training.
    """
    audit.resolve(**{name: value for name, value in settings.items() if name not in ("rows", "block")})
    trainings = audit.fold_trainings()
    if not any(training.missing(store) for training in trainings.values()):
        if all(training.given.models for training in trainings.values()):
            return audit.prepare(**settings, trained=load_folds(trainings, store), progress=progress)
        return None
    networks = load_folds(trainings, store)
    if set(networks) == set(trainings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Note)
            audit.prepare(**settings, trained=networks, rehearsal=True, progress=progress)
    return None


@dataclass(frozen=True)
class BegunRun:
    """A run whose manifest is written: the plan, strengths and lessons, and the jobs that are left with what runs them."""

    prepared: AuditPlan
    strengths: Strengths
    lessons: Lessons
    left: list[Job]
    runner: JobRunner


FEW, FEW_BYTES = 8192, 1 << 28
"""How many samples a forecast looks at, and how many bytes they may have."""
STRICT = "strict"
"""The folder of samples that were measured again in float32."""


F = TypeVar("F", bound=Callable[..., Any])


def in_own_precision(method: F) -> F:
    """A method of an audit, within the audit's precision, and within the memory of a GPU that it is given."""

    @wraps(method)
    def inside(self: Audit, *args: Any, **settings: Any) -> Any:
        with in_precision(self.precision), gpu_limit(self.modules.values(), settings.get("memory")):
            return method(self, *args, **settings)

    return cast(F, inside)


def closing_data(method: F) -> F:
    """A method of an audit, after which no thread or process reads ahead."""

    @wraps(method)
    def inside(self: Audit, *args: Any, **settings: Any) -> Any:
        try:
            return method(self, *args, **settings)
        finally:
            data = vars(self).get("data")
            if isinstance(data, DatasetInputs) and "reader" in vars(data):
                data.reader.close()

    return cast(F, inside)


DATA = ("models", "inputs", "targets", "truth", "units", "by")
RESOLVED = (*DATA, "explainers", "scores", "reference", "concepts", "checkpoints", "outputs", "about")
"""Settings that `resolve` checks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """What to audit: models, data, explainers, the symmetry they should respect, and the scores to measure.

    models       {"name": model}, or one model: a torch module, a function on arrays, a fitted estimator or Pipeline, an XGBoost or LightGBM
                 model, the path of an ONNX file, a transformers pipeline; a CrossTrained is trained once for each fold of the data
    inputs       an array (samples, ...), a DataFrame, a list of samples, arrays by name, graphs (PyG's Data in a list, or Batch), an Inputs
                 such as TextInputs, TableInputs, ImageInputs, EdgeInputs; or a dataset, which is read by blocks (see DatasetInputs)
    targets      class numbers (samples,), needed only for target="label" and for the accuracy; any numbers if the model does not classify;
                 0 or 1 for each of several labels (samples, K); the class of every pixel (samples, H, W)
    explainers   names, Explainers, Captum classes, functions (model, inputs, targets) -> maps; a list or {"label": ...}; by default
                 some that fit the models, if the scores need any
    symmetry     the space of transforms for scores given by name, for example CyclicShift(axes=(-1,))
    scores       names or Score objects; a list or {"label": ...}; the name of a preset, such as "faithfulness"; by default equivariance
                 and model_invariance with a symmetry, else the preset "quick" as far as it fits
    walk         how to explore the symmetry; all of it up to 512 elements, else 50 random ones, unless given
    target       which output is explained: "predicted", "label", a class number, Segmentation(index=...), Token(position=..., id=...),
                 another Target, or a function of the output
    controls     whether the controls (random, constant, edges; for features of a layer a random encoder, raw activations and principal
                 components) stand beside the explainers
    companions   whether self-agreement and what the scores assume of the models are measured along
    reference    samples for explainers that need some, and for the reference values of a table's columns (else those of `training`)
    training     (examples, labels) for explanations by examples and by concepts
    concepts     {"name": which training examples show it}: a set of labels, a mask, or a function (examples, labels) -> mask
    examples     how many of the training examples, the first ones, explanations by example refer to; all by default
    checkpoints  {"model": [...]} in the order of the training: state dicts, files, or either with its learning rate in a pair
    truth        masks (samples, H, W) of the positions that maps should point to, True and False or 1 and 0, for scores of localisation; of
                 the shape of the inputs, or without channels; samples with None in a list, or with an empty mask, are undefined;
                 or veracity.inputs.Boxes of images, or veracity.inputs.RelevantFeatures of a table;
                 of EdgeInputs, NodeInputs and TextInputs a list with one True or False for each edge, node, or word of a sample
    units        which samples belong together, such as the images of a patient: one label per sample, {"patient": labels}, or the name of a
                 column of the table of inputs. Intervals, differences and gates are then about other units; values stay the same
    by           subgroups for `result.table(by=...)` and for a card: one label per sample, {"sex": labels, ...}, or the name of a column;
                 samples with None are in no group
    precision    "float32", or "tf32" for products and convolutions on a GPU: faster, coarser, and checked on 16 samples in float32
    outputs      "logits", "probabilities", "multilabel" (a logit for each label) or "raw" (values of a regression) if the outputs should
                 not be recognised by themselves
    """

    models: Any
    inputs: Any
    targets: Any = None
    explainers: Any = None
    symmetry: Any = None
    scores: Any = None
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
    truth: Any = None
    units: Any = None
    by: Any = None
    precision: str = "float32"
    seed: Whole = 0
    confidence: Inside = 0.95
    title: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the plain settings; `resolve` checks names and data."""
        check_fields(self, "the audit", others=RESOLVED)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)

    @cached_property
    def modules(self) -> dict[str, nn.Module | CrossTrained]:
        """The models by name, as modules."""
        return as_models(self.models)

    @cached_property
    def given(self) -> Split:
        """The inputs, apart from the labels that they may hold."""
        needed = [required_names(model) for model in self.modules.values() if isinstance(model, nn.Module)]
        names = {name for one in needed if len(one) > 1 for name in one}  # a single input has any name
        return split_labels(without_column(self.inputs, self.units), names, known=self.targets is not None)

    def split_quietly(self) -> None:
        """Take the labels from the inputs without a note, which the run said that began the folder."""
        _ = self.modules  # whose notes are still said
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Note)
            _ = self.given

    @cached_property
    def data(self) -> Inputs:
        """The inputs as a data set."""
        return as_data(self.given.samples, self.modules, self.training, self.reference)

    @cached_property
    def labels(self) -> Tensor | None:
        """The targets as one number per sample; those beside the inputs if none are given."""
        given = self.targets
        if given is None:  # converted data were read apart from the given ones
            given = self.data.labels() if isinstance(self.data, DatasetInputs) and self.data.labelled else self.given.labels
        return as_labels(given, self.data.size(), class_names(self.modules, given))

    @cached_property
    def masks(self) -> Tensor | BoxMasks | None:
        """The ground truth as booleans (samples, ...), with the axes of a sample; None if there is none."""
        return as_truth(of_own_lengths(self.truth, self.data), self.data.shape, self.data.size(), lambda: features_of(self.data))

    @cached_property
    def grouping(self) -> Units | None:
        """Which samples belong together; None if each stands alone."""
        return as_units(self.units, self.data.size(), self.inputs)

    @cached_property
    def subgroups(self) -> tuple[Groups, ...]:
        """The subgroups of the samples, by name."""
        return as_groups(self.by, self.data.size(), self.inputs)

    def people(self, rows: Any = slice(None)) -> dict[str, Any]:
        """The units and subgroups of some samples, as settings of an audit of these samples."""
        units = self.grouping
        return {"units": None if units is None else units.take(rows), "by": tuple(one.take(rows) for one in self.subgroups) or None}

    @property
    def late_labels(self) -> bool:
        """Whether labels are read with the samples, when a model sees these for the first time."""
        crossed = any(isinstance(model, CrossTrained) for model in self.modules.values())
        return isinstance(self.data, DatasetInputs) and self.data.labelled and self.targets is None and not crossed

    @closing_data
    @hashing_once()
    @in_own_precision
    def run(
        self,
        folder: str | Path,
        *,
        workers: int = 1,
        on: Executor | str | None = None,
        batch: int | None = None,
        memory: int | None = None,
        shard: str | None = None,
        progress: bool = True,
    ) -> Result:
        """Measure what the folder does not hold yet, and return the result.

        `on` is the executor that runs the jobs, such as `veracity.Ray()`; without one, they run in this process for one worker and in
        worker processes for more. A `shard` such as "3/16" does its share of the jobs, beside others on the same folder; "auto" does
        what is free, until all is done.
        """
        check_main()
        store = RunFolder(str(folder))
        store.check_writable(Kind.AUDIT)
        if shard is None:
            store.check_alone()  # before anything is read or checked, which can take long
        if store.files.exists(MANIFEST):
            self.split_quietly()
        if self.complete is not self:
            given: dict[str, Any] = {"workers": workers, "on": on, "batch": batch, "memory": memory, "shard": shard}
            return self.complete.run(folder, **given, progress=progress)
        chosen, share = as_executor(on, workers), None if shard is None else Share.of(shard)
        chosen.check()
        settings: dict[str, Any] = {"workers": workers, "batch": batch, "memory": memory}
        try:
            if share is not None:
                begun, undefined = self.run_shard(share, store, settings, chosen, progress)
            else:
                ready = self.look(store, settings, progress)
                with store.writing():
                    begun = self.begin(ready, store, settings, progress)
                    with bar("auditing", sum(weight(job.cost) for job in begun.left), progress) as advance:
                        chosen.run(begun.left, begun.runner, JobProgress(advance))
                    undefined = self.conclude(store, begun)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"Stopped. Run the same call again to resume from {folder}.") from None
        result = Result(str(folder))
        if undefined is None:
            return result
        for text in (*begun.lessons.warnings(), *(f"{note['explainer']}: {note['text']}" for note in undefined)):
            warn(text)
        for failure in failures_of(result.failures().to_dict("records")) if store.has_failures() else ():
            warn(str(failure))
        return result

    def look(self, store: RunFolder, settings: dict[str, Any], progress: bool) -> AuditPlan | None:
        """Check everything that can fail before anything is written; None if models must be trained or loaded first."""
        settings |= {"rows": known_rows(store), "block": known_block(store)}
        crossed = any(isinstance(model, CrossTrained) for model in self.modules.values())
        return rehearse(self, settings, store, progress) if crossed else self.prepare(**settings, progress=progress)

    def begin(self, ready: AuditPlan | None, store: RunFolder, settings: Mapping[str, Any], progress: bool, alone: bool = True) -> BegunRun:
        """Train, calibrate, learn and write the manifest, as far as that is not done; beside other shards, only what they have not done."""
        if alone:
            with bar("checking stored files", store.count(), progress) as advance:
                store.repair(advance)
        prepared = ready or self.prepare(**settings, trained=self.cross_train(store, progress), progress=progress)
        prepared.check_same_data(store)
        remember_rows(store, prepared.measured)
        strengths = calibrate_all(prepared.problem, prepared.budgets, store, progress)
        asked = [(job, cell) for job in prepared.jobs for cell in job.cells if cell.name in prepared.scores.asked]
        strengths.check((job.model, cell.request.space) for job, cell in asked)
        prepared = replace(with_strengths(prepared, strengths.sigmas), calibrations=tuple(strengths.records))
        if self.precision != "float32":
            check_resolution(prepared.jobs, self.data)
        lessons = learn_all(prepared.problem, prepared.budgets, store, progress)
        told = replace(prepared, facts=tuple(lessons.facts), meanings=meanings_of(prepared.problem, prepared.budgets))
        if alone:
            store.write_manifest(told.manifest(store))
        else:
            check_same_plan(store.manifest(), told.manifest(store), store.root)
        left = skip_impossible(unfinished(prepared.jobs, store.finished() - store.incomplete()), strengths, lessons, store)
        memory = settings["memory"]
        runner = JobRunner(prepared.problem, store.place, prepared.budgets, None if memory is None else memory // settings["workers"])
        return BegunRun(prepared, strengths, lessons, left, runner)

    def conclude(self, store: RunFolder, begun: BegunRun) -> list[dict[str, str]]:
        """What can be said only when everything is measured: it is added to the manifest. Returns notes on undefined answers."""
        if undefined := answer_notes(store, begun.prepared.problem.explainers):
            store.write_manifest({**store.manifest(), "notes": [*begun.prepared.notes, *undefined]})
        if self.precision != "float32":
            self.check_strictly(store, begun.prepared, begun.strengths)
        store.pack(entry for job in begun.prepared.jobs for entry in begun.prepared.entries(job))
        return undefined

    def run_shard(
        self, share: Share, store: RunFolder, settings: dict[str, Any], executor: Executor, progress: bool
    ) -> tuple[BegunRun, list[dict[str, str]] | None]:
        """Plan in turn with other shards, and measure beside them; the shard that finds everything settled concludes the run.

        The first one checks, trains and plans while the others wait; they check their models at once, when its plan is stored.
        """
        member = Member.new(store.place, share)
        with ExitStack() as life:
            with ExitStack() as turn:
                planned = bool(store.manifest_before(Kind.AUDIT))
                if not planned:
                    turn.enter_context(store.writing(str(share)))
                    if planned := bool(store.manifest_before(Kind.AUDIT)):
                        turn.close()
                ready = self.look(store, settings, progress)
                if planned:
                    turn.enter_context(store.writing(str(share)))
                others = living(store.files)
                if note := share.beside(others.values()):
                    warn(note)
                begun = self.begin(ready, store, settings, progress, alone=not others)
                heart = life.enter_context(member.beating())
            with bar("auditing", sum(weight(job.cost) for job in begun.left), progress) as advance:
                run_share(begun.prepared.jobs, begun.left, begun.runner, executor, JobProgress(advance), member, heart)
        if store.progress(store.manifest()).pending:
            return begun, None
        with store.writing(str(share)):
            undefined = self.conclude(store, begun)
            store.write_manifest({**store.manifest(), "concluded": True})
            return begun, undefined

    def check_strictly(self, store: RunFolder, prepared: AuditPlan, strengths: Strengths) -> None:
        """Measure the first samples again in float32, with the same draws and strengths, and note the differences in the manifest."""
        strict, folder = strict_plan(prepared), RunFolder(f"{store.root}/{STRICT}")
        with in_precision("float32"), folder.writing():
            folder.repair()
            lessons = learn_all(strict.problem, strict.budgets, folder, progress=False)
            folder.write_manifest(strict.manifest(folder))
            left = skip_impossible(unfinished(strict.jobs, folder.finished() - folder.incomplete()), strengths, lessons, folder)
            as_executor(None, 1).run(left, JobRunner(strict.problem, folder.root, strict.budgets), JobProgress(lambda *_steps: None))
        found = strict_records(Result(store.root), Result(folder.root))
        store.write_manifest({**store.manifest(), "strict": found})

    @cached_property
    def complete(self) -> Audit:
        """The audit with explainers, scores and samples chosen where none are given; itself if nothing is to be chosen.

        With models and inputs alone, it takes at most 64 random samples, so that a run takes less than a minute. A warning says what was
        chosen, and so does the manifest.
        """
        if self.explainers is not None and self.scores is not None:
            return self
        given: dict[str, Any] = {"explainers": self.explainers, "scores": self.scores, "symmetry": self.symmetry is not None}
        choice = choose(self.modules, self.data, **given, seed=self.seed, target=as_target(self.target))
        changes: dict[str, Any] = {"models": self.modules, "inputs": self.data, "explainers": choice.explainers, "scores": choice.scores}
        changes |= self.people(slice(None) if choice.rows is None else choice.rows)
        if not self.late_labels:
            changes["targets"] = None if self.labels is None else named_labels(self.labels, class_names(self.modules))
        if choice.rows is not None:
            changes["truth"] = None if self.masks is None else SelectedMasks(self.masks[choice.rows.to(self.masks.device)])
            whole = self.data.tensor if isinstance(self.data, TensorInputs) else None
            changes["inputs"] = SelectedSamples(self.data, choice.rows) if whole is None else whole[choice.rows.to(whole.device)]
            if isinstance(self.data, DatasetInputs):
                changes["inputs"] = self.data.take(choice.rows).values
            if isinstance(self.data, DatasetInputs) and self.late_labels:
                changes["targets"] = self.data.labels_at(choice.rows)
            else:
                changes["targets"] = None if self.labels is None else named_labels(self.labels[choice.rows], class_names(self.modules))
        if choice.sentence:
            changes["about"] = {**as_about(self.about), "chosen": choice.sentence}
            warn(choice.sentence)
        return replace(self, **changes)

    def on(self, device: str) -> Audit:
        """The same audit with its models on a device; a model that is elsewhere is copied there."""
        where, models = as_device(device), self.modules
        moved = {
            name: on_device(model, device) if isinstance(model, CrossTrained) else to_device(name, model, where)
            for name, model in models.items()
        }
        return replace(self, models=moved)

    def fold_trainings(self) -> dict[str, FoldTraining]:
        """How every cross-trained model is trained, by name."""
        crossed = {name: model for name, model in self.modules.items() if isinstance(model, CrossTrained)}
        labels = self.labels if crossed else None
        if crossed and labels is not None and labels.ndim > 1:
            raise InputError(f"Cross-training needs one class number per sample, but the targets have the shape {tuple(labels.shape)}.")
        return {name: FoldTraining(model, self.data, labels, name) for name, model in crossed.items()}

    def cross_train(self, store: RunFolder, progress: bool) -> dict[str, FoldModels]:
        """The models of all folds of all cross-trained models, from the folder or trained now.

        If a single model could not be rehearsed, because its network is unknown, its first trained model is checked in the place of all.
        """
        trainings = self.fold_trainings()
        unknown = len(trainings) == 1 and not load_folds(trainings, store)

        def look(first: FoldModels) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Note)
                self.prepare(trained=dict.fromkeys(trainings, first), rehearsal=True)

        return {name: training.train(store, progress, look if unknown else None) for name, training in trainings.items()}

    @closing_data
    @in_own_precision
    def forecast(
        self,
        folder: str | Path | None = None,
        *,
        workers: int = 1,
        batch: int | None = None,
        memory: int | None = None,
        progress: bool = True,
    ) -> Forecast:
        """What a run would cost: passes, seconds, memory, disk. Nothing is written into the folder.

        Some cells of every model are run in a temporary folder, and so are calibration and learning. Strengths that the folder holds are
        used, so that cells which depend on them are known. Of many samples, the first ones are looked at, unless the folder holds cells.
        """
        if self.complete is not self:
            return self.complete.forecast(folder, workers=workers, batch=batch, memory=memory, progress=progress)
        store, size = None if folder is None else RunFolder(str(folder)), self.data.size()
        begun = time.perf_counter()
        some = self if store is not None and store.finished() else self.beginning()
        reading = (time.perf_counter() - begun) / some.data.size() if is_streamed(self.data) else 0.0
        trainings = some.fold_trainings()
        trained = load_folds(trainings, store)
        settings: dict[str, Any] = {
            "workers": workers,
            "batch": batch,
            "memory": memory,
            "rows": None if store is None else known_rows(store),
            "block": None if store is None else known_block(store),
        }
        begun = time.perf_counter()
        prepared = some.prepare(**settings, trained=trained, rehearsal=True, progress=progress)
        spent = time.perf_counter() - begun
        if some is not self:
            problem = replace(prepared.problem, block=fitting_block(prepared.problem, prepared.budgets, size))
            prepared = replace(prepared, problem=problem, jobs=plan(problem, prepared.budgets))
        sigmas, missing = known_strengths(prepared.problem, store)
        prepared = with_strengths(prepared, sigmas)
        untrained = sum(training.missing(store) for training in trainings.values())
        ahead = Preliminaries(missing, pending_lessons(prepared.problem, store), untrained)
        finished = set() if store is None else store.finished()
        outlook = Outlook(prepared.problem, prepared.jobs, prepared.budgets, ahead, store, size, spent, 0.0 if some is self else reading)
        return forecast(outlook, finished, workers)

    def beginning(self) -> Audit:
        """The audit on the first samples, if there are many; itself if there are not, or if a model is trained on all."""
        row = self.data.take(torch.zeros(1, dtype=torch.long)).nbytes
        some = max(64, min(FEW, FEW_BYTES // row))
        if self.data.size() <= 2 * some or any(isinstance(model, CrossTrained) for model in self.modules.values()):
            return self
        masks, people = None if self.masks is None else SelectedMasks(self.masks[:some]), self.people(slice(some))
        if isinstance(self.data, DatasetInputs):
            values, labels = self.data.first(some)
            given = labels if self.targets is None else self.labels_of_first(some)
            return replace(self, models=self.modules, inputs=values, targets=given, truth=masks, **people)
        first = FirstSamples(self.data, some)
        return replace(self, models=self.modules, inputs=first, targets=self.labels_of_first(some), truth=masks, **people)

    def labels_of_first(self, count: int) -> Any:
        """The targets of the first samples, as a user would give them."""
        return None if self.labels is None else named_labels(self.labels[:count], class_names(self.modules))

    @hashing_once()
    @in_own_precision
    def prepare(
        self,
        *,
        workers: int = 1,
        batch: int | None = None,
        memory: int | None = None,
        trained: Mapping[str, FoldModels] | None = None,
        rehearsal: bool = False,
        progress: bool = False,
        rows: Mapping[str, int] | None = None,
        block: int | None = None,
    ) -> AuditPlan:
        """Resolve every name, check every model, and plan; raises if anything cannot work.

        `trained` holds the models of folds by the name of their cross-trained model; a `rehearsal` says nothing about their predictions.
        `rows` are the rows per call of models for which they were measured before, and `block` the samples per block of a run that began.
        """
        if self.complete is not self:
            return self.complete.prepare(
                workers=workers, batch=batch, memory=memory, trained=trained, rehearsal=rehearsal, progress=progress, rows=rows, block=block
            )
        one = self.resolve(workers=workers, batch=batch, memory=memory)
        inputs = one.inputs
        budgets: dict[str, Budget] = {}
        measured: dict[str, int] = {}
        models: dict[str, AuditedModel] = {}
        accuracies: dict[str, float | None] = {}
        folds: dict[str, FoldModels] = {}
        for name in (name for name, model in one.models.items() if isinstance(model, CrossTrained)):
            if trained is None or name not in trained:
                raise InputError(
                    f"The model '{name}' is cross-trained and not trained yet: pass CrossTrained(build=...), which makes its network, or a "
                    "torch.nn.Module that is trained."
                )
            folds[name] = trained[name]
        every = list(every_module(one.models, folds))
        with bar("looking at the models", len(every) * inputs.size(), progress, after=LATE) as advance:
            for name, label, fold, given in every:
                check_ready(name, given)
                advance(0, f"looking at {name}")
                if self.precision != "float32" and device_of(given).type != "cuda":
                    where = device_of(given).type.upper()
                    raise InputError(
                        f"precision='{self.precision}' needs a GPU, but model '{name}' is on the {where}: leave it out, or move the model "
                        "with audit.on('cuda')."
                    )
                key = rows_key(name, given, inputs, memory, workers) if batch is None else None
                at_once = (rows or {}).get(key or "") if batch is None else batch
                module, budgets[name] = first_pass(name, inputs.adapt(given), inputs, memory, at_once, workers)
                measured |= {} if key is None else {key: budgets[name].rows}
                check_training(name, module, one.training, one.explainers)
                model, accuracies[label] = admit(name, module, inputs, lambda: self.labels, one.target, one.outputs, budgets[name], advance)
                known = folds[label].fingerprints[fold.fold] if fold and folds[label].fingerprints else model.fingerprint
                known = known if self.precision == "float32" else fingerprint.of_json([known, self.precision])
                models[name] = replace(model, fingerprint=known, checkpoints=one.checkpoints.get(label, ()), place=fold)
        records, labels = fold_records(models, folds, accuracies), self.labels
        defaults = Defaults(one.space, one.walk)
        scores = all_scores(self.scores, self.companions, not any(model.uncertain for model in models.values()))
        name, first = next(iter(models.items()))
        explainers, nulls = (
            with_own_controls(one.explainers, first.module, inputs, one.seed, budgets[name]) if self.controls else (one.explainers, {})
        )
        problem = Problem(models, inputs, explainers, scores.named, one.target, defaults, one.seed, one.training, self.examples)
        problem = replace(problem, features=one.features, precision=self.precision, nulls=nulls, truth=one.truth)
        check_classes(problem, labels)
        readings = check_probabilities(problem, one.scores.named)
        with bar("trying explainers", len(every) * len(explainers), progress, after=LATE) as advance:
            problem, notes = try_explainers(problem, budgets, advance)
        problem = replace(problem, block=block or fitting_block(problem, budgets))
        with bar("planning", len(every) * inputs.size(), progress, after=LATE) as advance:
            jobs = plan(problem, budgets, advance)
        check_requests(problem, jobs, scores.asked)
        if self.precision != "float32":
            check_resolution(jobs, inputs)
        notes += [] if rehearsal else readings + reader_notes(problem, jobs) + accuracy_notes(records)
        people: dict[str, Any] = {"units": self.grouping, "groups": self.subgroups}
        return AuditPlan(
            self.spec(), self.title, problem, jobs, budgets, accuracies, notes, scores, records, labels=labels, measured=measured, **people
        )

    def resolve(self, *, workers: int = 1, batch: int | None = None, memory: int | None = None) -> AuditSetup:
        """All settings as components and tensors; raises on mistakes that need no model to be found."""
        if self.complete is not self:
            return self.complete.resolve(workers=workers, batch=batch, memory=memory)
        for what, value in (("batch", batch), ("workers", workers), ("memory", memory)):
            if value is not None:
                as_whole(value, what, least=1)
        models, inputs = self.modules, self.data
        labels, _ = None if self.late_labels else self.labels, (self.grouping, self.subgroups)
        reference = as_reference(self.reference, inputs)
        training = as_training(self.training, self.concepts, class_names(models), inputs)
        features = features_of(inputs, usual_rows(training, inputs) if reference is None else reference)
        space = as_space(self.symmetry, inputs)
        structured = bool(inputs.take(torch.zeros(1, dtype=torch.long)).structure)
        named = labelled(self.explainers, self.controls, structured)
        known = features if features is not None and features.named else None
        bound = {label: one.bind(reference, space).over(known) for label, one in named.items()}
        explainers = {label: prepare_explainer(inputs, one, training) for label, one in bound.items()}
        check_given(explainers, inputs, models)
        scores = all_scores(self.scores, self.companions)
        truth = self.masks
        check_asked(scores.named, scores.asked, space, explainers, truth is not None)
        target, outputs = as_target(self.target), as_outputs(self.outputs)
        checkpoints = as_checkpoints(self.checkpoints, {name: one for name, one in models.items() if isinstance(one, nn.Module)})
        check_needs(explainers, training, checkpoints, list(models))
        check_stability(scores, models, labels)
        walk = as_walk(self.walk, space)
        given = (inputs, space, explainers, scores, target, outputs, models, training, checkpoints, walk, self.seed)
        return AuditSetup(*given, features, truth)

    def spec(self) -> dict[str, Any]:
        """The audit as plain data."""
        if self.complete is not self:
            return self.complete.spec()
        models = self.modules
        crossed = {name: model.spec() for name, model in models.items() if isinstance(model, CrossTrained)}
        found = {
            "models": list(models),
            **({"cross_trained": crossed} if crossed else {}),
            "explainers": {label: one.spec() for label, one in labelled(self.explainers, self.controls).items() if not one.control},
            "symmetry": encode_setting(self.symmetry),
            "scores": encode_setting(listed_scores(self.scores)),
            "walk": encode_setting(self.walk),
            "target": encode_setting(self.target),
            "controls": self.controls,
            "companions": self.companions,
            "outputs": self.outputs,
            **({} if self.masks is None else {"truth": encode_setting(self.masks)}),
            **({"precision": self.precision} if self.precision != "float32" else {}),
            "reference": encode_setting(as_reference(self.reference, self.data)),
            "concepts": sorted(self.concepts or {}),
            "examples": self.examples,
            "seed": self.seed,
            "confidence": self.confidence,
        }
        return {**found, **as_about(self.about, found)}
