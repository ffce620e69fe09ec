"""What a run is about, resolved and checked; worker processes get a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import SpecError
from veracity.core.explainers import Answers, Context, Cost, Explainer, Finisher, Frame, learner, source_of
from veracity.core.features import Features
from veracity.core.inputs import Inputs, Signals, samples_to_read
from veracity.core.models import device_of, unwrap, weighted_layers
from veracity.core.randomness import Draws
from veracity.core.scores import Defaults, Score, Subject
from veracity.core.spaces import FeatureSpace, InputSpace, RangedSpace, SampleSpace, Space, StrengthPath, WeightSpace, open_end
from veracity.core.targets import Outputs, Target
from veracity.core.training import Checkpoint, Training
from veracity.inputs.truth import BoxMasks
from veracity.perturb.embeddings import EmbeddingNoise
from veracity.perturb.lengths import within_samples
from veracity.perturb.refits import Refits
from veracity.perturb.weights import RowWeightSpace


@dataclass(frozen=True)
class AuditedModel:
    """A model, the kind of its outputs with a doubt about that, the explained output per sample, and its checkpoints.

    correct    which samples (samples,) it classifies correctly, if labels are known
    classes    the number of outputs per sample, if they are one row of numbers
    predicted  the largest of those outputs (samples,)
    place      for the model of a fold: its place among the models of all folds
    mixing     how far outputs depend on the other inputs of a batch, as a share; should be 0
    target     which output is explained, for outputs of this shape; None is the target of the audit
    uncertain  what a probability of the explained score would need, as the end of a sentence; "" if there is one
    first      its outputs for every sample, as computed at the start; None if they are too large, or if something else is explained
    """

    module: nn.Module
    fingerprint: str
    outputs: Outputs
    targets: Tensor
    doubt: str | None = None
    checkpoints: tuple[Checkpoint, ...] = ()
    correct: Tensor | None = None
    classes: int | None = None
    predicted: Tensor | None = None
    place: FoldPlace | None = None
    mixing: float = 0.0
    target: Target | None = None
    uncertain: str = ""
    first: FirstOutputs | None = None

    def read(self, x: Signals) -> Tensor:
        """Probabilities (N, K), or raw outputs, as scores read them."""
        deciding = self.module if self.target is None else self.target.decisions(self.module)
        output = x.through(deciding)
        return self.outputs.read(output) if deciding is self.module else self.outputs.read_decisions(output)


@dataclass(frozen=True)
class FirstOutputs:
    """The outputs (samples, K) of a model for all samples, on the CPU, from calls of `rows` consecutive samples on a device.

    The last digits of an output may depend on what else is in the batch. So a block takes its outputs from here only if it consists of
    whole calls: then they depend neither on the other blocks nor on what was measured before.
    """

    outputs: Tensor
    rows: int
    device: torch.device

    def of(self, samples: Sequence[int], device: torch.device) -> Tensor | None:
        """Those of consecutive samples (N, K) that make up whole calls on this device; else None.

        >>> first = FirstOutputs(torch.arange(5.0)[:, None], 2, torch.device("cpu"))
        >>> first.of(range(2, 5), torch.device("cpu")).flatten(), first.of(range(1, 4), torch.device("cpu"))
        (tensor([2., 3., 4.]), None)
        """
        if not isinstance(samples, range) or samples.step != 1 or device != self.device:
            return None
        whole = samples.start % self.rows == 0 and (samples.stop % self.rows == 0 or samples.stop == len(self.outputs))
        return self.outputs[samples.start : samples.stop] if whole else None


@dataclass(frozen=True)
class FoldPlace:
    """The model of a fold: the name of its cross-trained model, its fold, the names of the models of all folds, and its samples.

    It was not trained on those samples, and is audited on no others.
    """

    label: str
    fold: int
    siblings: tuple[str, ...]
    samples: Tensor


@dataclass(frozen=True)
class Problem:
    """Models, data, explainers and scores by label, what the models learnt from, and the seed of every random number.

    `mixing` names the explainers whose rows depend on each other. `features` says what the values of a table mean. `nulls` has the
    label of the control that is fair to an explainer, where that depends on more than its frame and sign. `block` is the number of samples
    per block, the same for the whole life of a run folder; None if it does not matter. `truth` are masks (samples, ...), if any are known.
    """

    models: dict[str, AuditedModel]
    inputs: Inputs
    explainers: dict[str, Explainer]
    scores: dict[str, Score]
    target: Target
    defaults: Defaults
    seed: int
    training: Training | None = None
    examples: int | None = None
    calibrations: Mapping[tuple[str, str], float] = field(default_factory=dict)
    mixing: frozenset[str] = frozenset()
    features: Features | None = None
    precision: str = "float32"
    nulls: Mapping[str, str] = field(default_factory=dict)
    block: int | None = None
    truth: Tensor | BoxMasks | None = None

    def subject(self, name: str, explainer: Explainer | None) -> Subject:
        """One model and one explainer of it, as scores see them."""
        model = self.models[name]
        folds = len(model.place.siblings) if model.place else 0
        mask = None if self.truth is None else self.truth.shape[1:]
        return Subject(name, explainer, self.inputs.shape, weighted_layers(model.module), folds, self.features, self.floor, mask)

    def depends_on_batch(self, name: str, label: str) -> bool:
        """Whether numbers of a model, or of an explainer of it, depend on how inputs are batched."""
        explainer = self.explainers.get(label)
        return self.models[name].mixing > 0 or label in self.mixing or (explainer is not None and explainer.batch_dependent)

    @cached_property
    def shared_sources(self) -> dict[str, str]:
        """A hash of the source of each explainer whose source others have too, by label; not of those that learn or need examples."""
        plain = {label: one for label, one in self.explainers.items() if not one.needs and learner(one) is None}
        changed = {type(source_of(one)) for one in plain.values() if isinstance(one, Finisher)}
        sources = {label: source for label, one in plain.items() if type(source := source_of(one)) in changed}
        found = {label: fingerprint.of_json(source.spec()) for label, source in sources.items()}
        return {label: key for label, key in found.items() if list(found.values()).count(key) > 1}

    def label(self, name: str) -> str:
        """The name of a model in results; all models of folds have the name of their cross-trained model."""
        place = self.models[name].place
        return name if place is None else place.label

    def correct(self, label: str) -> Tensor | None:
        """Which samples (samples,) a model classifies correctly; for a cross-trained one, by the model that did not see the sample."""
        parts = [model for name, model in self.models.items() if self.label(name) == label]
        found = parts[0].correct
        for model in parts:
            if found is None or model.correct is None or model.place is None:
                continue
            found = found.index_copy(0, model.place.samples, model.correct[model.place.samples])
        return found

    def sibling(self, name: str, element: int) -> str:
        """The model that is `element` + 1 folds further on."""
        place = self.models[name].place
        if place is None:
            raise SpecError(f"The model '{name}' is not cross-trained: it has no other folds.")
        return place.siblings[(place.fold + 1 + element) % len(place.siblings)]

    def view(self, name: str, module: nn.Module | None = None) -> nn.Module:
        """A model, or a copy of it with other weights, as a function from inputs to the explained scores."""
        return self.target_of(name).view(self.models[name].module if module is None else module)

    def target_of(self, name: str) -> Target:
        """The target, as it is meant for the outputs of a model."""
        return self.models[name].target or self.target

    def training_of(self, name: str, explainer: Explainer, copy: nn.Module | None = None) -> Training | None:
        """What a model learnt from, as an explainer gets it: explanations by example refer to the first `examples` alone.

        The model's own checkpoints come under their names in the view.
        """
        model, training = self.models[name], self.training
        if training is None or not explainer.needs:
            return None
        if explainer.frame is Frame.TRAINING and self.examples is not None:
            training = training.first(self.examples)
        module = model.module if copy is None else copy
        return replace(training, checkpoints=model.checkpoints).seen_by(self.view(name, module), unwrap(module))

    def space_for(self, name: str, space: Space, *, searched: bool = False) -> Space:
        """A space fitted to one model and to the lengths of the samples, with the calibrated strength; searches see padded samples."""
        fitted = self.fitted(name, space)
        end = open_end(fitted, 1.0)
        sigma = None if end is None else self.calibrations.get((name, fingerprint.of_json(end.spec())))
        strong = fitted.with_strength(sigma) if sigma is not None and isinstance(fitted, StrengthPath) else fitted
        return within_samples(strong, self.floor, self.padded and not searched) if isinstance(strong, InputSpace) else strong

    def fitted(self, name: str, space: Space) -> Space:
        """A space with everything that it gets from one model and the data."""
        fitted = space.of(self.models[name].module) if isinstance(space, (WeightSpace, RowWeightSpace, EmbeddingNoise)) else space
        if isinstance(fitted, Refits):
            fitted = fitted.of(self.models[name].module, None if self.training is None else self.training.fingerprint())
        if isinstance(fitted, FeatureSpace) and self.features is not None:
            fitted = fitted.over(self.features)
        if isinstance(fitted, RangedSpace) and fitted.needs_range:
            fitted = fitted.within(*self.span)
        if isinstance(fitted, SampleSpace):
            content = fingerprint.of_json([self.inputs.fingerprint(), self.models[name].targets.tolist()])
            fitted = fitted.among(self.inputs.size(), content)
        return fitted

    @cached_property
    def padded(self) -> bool:
        """Whether samples have different lengths, so that some values do not exist."""
        return self.inputs.take(torch.zeros(1, dtype=torch.long)).present is not None

    @property
    def floor(self) -> float | None:
        """The value that stands for "not there", if the inputs know one."""
        return getattr(self.inputs, "floor", None)

    @cached_property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest value of the inputs."""
        if (own := getattr(self.inputs, "span", None)) is not None:
            low, high = own()
            return float(low), float(high)
        parts = [torch.aminmax(samples_to_read(self.inputs, part).values) for part in torch.arange(self.inputs.size()).split(256)]
        return min(float(part.min) for part in parts), max(float(part.max) for part in parts)

    def context(
        self,
        name: str,
        draws: Draws,
        batch: int,
        structure: tuple[Tensor, ...] = (),
        learnt: Mapping[str, Tensor] | None = None,
        training: Training | None = None,
        present: Tensor | None = None,
        original: Tensor | None = None,
        answers: Answers | None = None,
    ) -> Context:
        """What an explainer of this model gets."""
        where, outputs = device_of(self.models[name].module), self.models[name].outputs
        return Context(
            draws.to(where),
            batch,
            structure,
            learnt or {},
            training,
            outputs,
            present,
            original=original,
            inputs=self.inputs,
            answers=answers,
        )

    def lesson_context(
        self,
        name: str,
        explainer: Explainer,
        batch: int,
        copies: Sequence[int] = (0,),
        training: Training | None = None,
        classes: Tensor | None = None,
    ) -> Context:
        """What an explainer gets to learn about a model, or about perturbed copies, whose numbers begin with 1.

        Its draws have one row per copy and class if it learns by class: by default for the classes that the audit explains.
        """
        learns_by_class = (one := learner(explainer)) is not None and one.by_class
        chosen = (self.classes(name) if classes is None else classes.unique()) if learns_by_class else torch.arange(0)
        number = torch.tensor(copies, device=chosen.device).repeat_interleave(len(chosen))
        context = self.context(name, Draws(self.seed, chosen.repeat(len(copies)), number), batch, training=training)
        first = self.inputs.take(torch.zeros(1, dtype=torch.long)) if learns_by_class else None
        return context if first is None else replace(context, example=first.values.to(device_of(self.models[name].module)))

    def lesson_cost(self, name: str, explainer: Explainer | None) -> Cost:
        """The passes of one lesson, besides those of training examples."""
        one = learner(explainer)
        return Cost() if one is None else one.lesson.lesson_cost(self.inputs.shape, len(self.classes(name)))

    def classes(self, name: str) -> Tensor:
        """The distinct scores of a model that the audit explains, in order."""
        found: Tensor = self.models[name].targets.unique()
        return found.cpu()

    def training_key(self, name: str, explainer: Explainer | None) -> str:
        """A hash of the training examples that an explainer gets; empty if it gets none."""
        training = None if explainer is None else self.training_of(name, explainer)
        return "" if training is None else training.fingerprint()

    def learnt_key(self, name: str, label: str) -> str:
        """A hash of everything that a lesson depends on; empty if the explainer learns nothing."""
        explainer = learner(self.explainers[label])
        if explainer is None:
            return ""
        model, training = self.models[name], self.training_of(name, explainer)
        from_what = training.fingerprint() if training is not None else ""
        parts = [model.fingerprint, model.outputs.value, self.target.spec(), explainer.lesson.spec(), from_what, self.seed]
        return fingerprint.of_json([*parts, self.classes(name).tolist(), list(self.inputs.shape)] if explainer.by_class else parts)
