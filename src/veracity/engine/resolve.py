"""From what users write to what the engine runs: names become components, tensors become inputs, mistakes become sentences.

From what users give for training examples, concepts and checkpoints to what explainers get.
"""

from __future__ import annotations

import json
import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError, Note, SpecError
from veracity.core.explainers import Explainer, Frame, GivenMaps, InputObserver, Need, maps_only
from veracity.core.fingerprint.origin import in_this_package
from veracity.core.inputs import Inputs, Signals, TensorInputs
from veracity.core.models import unwrap, weight_type
from veracity.core.randomness import Draws
from veracity.core.registry import GROUPS, MEASURES, SCORES, WALKS
from veracity.core.scores import Reads, Score, reads_after
from veracity.core.settings import Within, check_value, short_repr
from veracity.core.spaces import GraphSpace, InputSpace, Representation
from veracity.core.targets import Outputs
from veracity.core.training import Checkpoint, CrossTrained, Training, check_checkpoint
from veracity.core.walks import Walk
from veracity.engine.store.manifest import Spec, check
from veracity.engine.store.records import DEEPEST, UNPRINTABLE, depth
from veracity.explain import CONTROLS, Precomputed, as_explainer
from veracity.inputs.convert import as_inputs, as_number_tensor
from veracity.inputs.text import is_text, texts_for
from veracity.models import as_model
from veracity.perturb import Group
from veracity.scores import ActionFloor, SelfAgreement, SymmetryScore
from veracity.scores.common import as_score
from veracity.scores.presets import listed_scores
from veracity.walk import Exhaustive, MonteCarlo

EXHAUSTIVE_UP_TO = 512
USUAL = 10_000
"""How many training rows say what usual values are."""
LISTED = Sequence[Any] | Mapping[Any, Any]
NUMBER = "pass numbers, and for a class its place among the model's outputs, from 0"


def as_models(models: Any) -> dict[str, nn.Module | CrossTrained]:
    """Models by name, each as a module or a CrossTrained."""
    named = dict(models) if isinstance(models, Mapping) else {"model": models}
    if not named:
        raise InputError("There is no model to audit: pass models={'name': module}.")
    check_labels("model", named)
    return {name: with_modules(name, one) if isinstance(one, CrossTrained) else as_model(name, one) for name, one in named.items()}


def with_modules(name: str, crossed: CrossTrained) -> CrossTrained:
    """A cross-trained model whose given models, if any, are modules."""
    if not isinstance(crossed.models, (list, tuple)) or all(isinstance(one, nn.Module) for one in crossed.models):
        return crossed
    return replace(crossed, models=[as_model(name, one) for one in crossed.models])


def as_data(inputs: Any, models: Mapping[str, nn.Module | CrossTrained]) -> Inputs:
    """The data set, in the floating-point type of the models' weights if they all have one; a conversion is said."""
    first = next((model for model in models.values() if isinstance(model, nn.Module)), None)
    tokens = isinstance(inputs, Tensor) and inputs.ndim == 2 and inputs.dtype is torch.int64
    read = is_text(inputs) or (tokens and first is not None and hasattr(unwrap(first), "get_input_embeddings"))
    found = texts_for(first, inputs) if first is not None and read else as_inputs(inputs)
    kinds = {weight_type(model) if isinstance(model, nn.Module) else None for model in models.values()}
    if not isinstance(found, TensorInputs) or len(kinds) != 1 or None in kinds or found.tensor.dtype in kinds:
        return found
    (kind,) = kinds
    before, after = (str(one).removeprefix("torch.") for one in (found.tensor.dtype, kind))
    warnings.warn(f"The inputs are {before} and were converted to {after}, the type of the model's weights.", Note, stacklevel=4)
    return TensorInputs(found.tensor.to(kind))


def as_tensor(value: Any, what: str) -> Tensor | None:
    """A tensor from an array, a list, a table or a tensor."""
    return None if value is None else as_number_tensor(value, what, NUMBER)


def as_reference(value: Any, inputs: Inputs) -> Tensor | None:
    """The reference set as a tensor; a DataFrame beside a table is coded like the table."""
    encode = getattr(inputs, "encode", None)
    return encode(value) if encode is not None and hasattr(value, "columns") else as_tensor(value, "reference")


def usual_rows(training: Any, inputs: Inputs) -> Tensor | None:
    """Rows of the training set that say what usual values of a table's columns are; None if it holds no rows of that table."""
    given = training.inputs if isinstance(training, Training) else training[0] if isinstance(training, (tuple, list)) else None
    if given is None or len(inputs.shape) != 1:
        return None
    encode, frame = getattr(inputs, "encode", None), getattr(given, "frame", given)
    try:
        if encode is not None and hasattr(frame, "columns"):
            rows: Tensor = encode(frame)
            return rows
        known = as_inputs(given)
    except InputError:  # such as a level that the audited rows do not have
        return None
    return known.take(torch.arange(min(known.size(), USUAL))).values if known.shape == inputs.shape else None


def as_whole(value: Any, what: str, least: int) -> int:
    """A whole number that is large enough."""
    found: int = check_value(value, Annotated[int, Within(least=least)], what)
    return found


def as_about(about: Any, taken: Container[str] = ()) -> dict[str, Any]:
    """Further entries of the manifest: plain data, under names that the run does not use itself."""
    if not isinstance(about, Mapping):
        raise SpecError(f"about= is a mapping from names to plain data, not {type(about).__name__}.")
    found = {str(name): value for name, value in about.items()}
    for name, value in found.items():
        if name in taken:
            raise SpecError(f"about[{name!r}] would replace what the run itself records under that name: choose another one.")
        try:
            if depth(json.dumps(value, allow_nan=False).encode()) > DEEPEST // 2:
                raise ValueError("it is nested too deeply")
        except (TypeError, ValueError, RecursionError):
            raise SpecError(
                f"about[{name!r}] must be plain data that JSON can write, such as text, numbers and lists of them, not {short_repr(value)}."
            ) from None
    try:
        check(Spec, found)
    except ValueError as error:
        raise SpecError(f"about= is read by the report, which cannot use this: {error}.") from None
    return found


def as_labels(targets: Any, size: int, classes: Sequence[Any] | None = None) -> Tensor | None:
    """Labels on the CPU: one per sample, one for each of its labels (N, K), or a map of them (N, H, W).

    `classes` are the labels that a classifier was fitted on, if they are not 0, 1, ...
    """
    found = as_tensor(class_places(targets, classes), "targets")
    if found is None:
        return None
    labels = found.cpu()
    if labels.ndim < 1 or len(labels) != size:
        raise InputError(f"The targets must have one entry for each of the {size} inputs, not the shape {tuple(labels.shape)}.")
    return labels


def class_places(labels: Any, classes: Sequence[Any] | None) -> Any:
    """Labels as their places among the classes of a classifier; as they are if it has none, or if there are no labels."""
    if classes is None or labels is None:
        return labels
    place = {label: number for number, label in enumerate(classes)}
    given = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels).ravel().tolist()
    unseen = next((label for label in given if label not in place), None)
    if unseen is not None:
        known = ", ".join(map(str, classes))[:200]
        raise InputError(f"The target {unseen!r} is none of the classes that the model was fitted on: {known}.")
    return [place[label] for label in given]


def class_names(models: Mapping[str, nn.Module | CrossTrained]) -> list[Any] | None:
    """The labels of the models' outputs if the models name them, agree, and do not just count from 0."""
    found = [getattr(model, "classes", None) for model in models.values()]
    if not found or found[0] is None or any(one != found[0] for one in found):
        return None
    names: list[Any] = list(found[0])
    return None if names == list(range(len(names))) else names


def named_labels(labels: Tensor, names: Sequence[Any] | None) -> Any:
    """Class numbers as the labels that `as_labels` takes for them."""
    return labels if names is None else [names[number] for number in labels.tolist()]


def as_space(symmetry: Any, inputs: Inputs) -> InputSpace | None:
    """The symmetry, fitted to the inputs and checked on them."""
    if symmetry is None:
        return None
    space = GROUPS.build(symmetry)
    if not isinstance(space, InputSpace):
        raise InputError(f"The symmetry must be a space that acts on inputs, such as CyclicShift(axes=(-1,)), not {short_repr(symmetry)}.")
    fitted = space.fit(inputs.shape)
    check_structure(fitted, inputs)
    if isinstance(fitted, Group) and not in_this_package(type(fitted)):
        check_group(fitted, inputs)
    return fitted


def check_group(group: Group, inputs: Inputs) -> None:
    """Raise if a group from outside does not compose or undo as it acts, on a few random elements."""
    x = inputs.take(torch.arange(8) % inputs.size()).values.double()
    g, h = (group.decode(Draws.of(0, torch.arange(8)).normal(group.latents, stream=name)) for name in ("g", "h"))
    if group.representation is Representation.APPROXIMATE:
        return
    for what, one, other in (
        ("compose(g, h) is not g after h", group.act(group.compose(g, h), x), group.act(g, group.act(h, x))),
        ("inverse(g) does not undo g", group.act(group.inverse(g), group.act(g, x)), x),
    ):
        if not torch.allclose(one, other, rtol=1e-4, atol=1e-6):
            raise InputError(f"The symmetry '{group.name}' is no group as it acts: {what}.")


def check_structure(space: InputSpace, inputs: Inputs) -> None:
    """Raise if a space moves the nodes of graphs and leaves their edges behind."""
    signals = inputs.take(torch.zeros(8, dtype=torch.long))
    if isinstance(space, GraphSpace) and not signals.structure:
        raise InputError(f"The symmetry '{space.name}' acts on graphs: for the rows of plain tensors use Permutations(axis=-2).")
    if not signals.structure:
        return
    if signals.present is not None and not isinstance(space, GraphSpace) and space.moves_frame:
        raise InputError(f"The symmetry '{space.name}' would move the gates of a text and leave its words in place: leave `symmetry` out.")
    marked = torch.arange(inputs.shape[0]) == torch.arange(8)[:, None] % inputs.shape[0]
    values = marked.double().reshape(8, -1, *[1] * (len(inputs.shape) - 1)).expand(8, *inputs.shape)
    probe = Signals(values, signals.structure)
    moved = space.move(space.decode(Draws.of(0, torch.arange(8)).normal(space.latents, stream="structure")), probe)
    still = all(torch.equal(one, other) for one, other in zip(moved.structure, probe.structure, strict=True))
    if still and not torch.equal((moved.values.abs() > 1e-9).flatten(2).any(2), marked):
        raise InputError(f"The symmetry '{space.name}' moves the nodes of a graph without their edges: use NodePermutations().")


def as_walk(walk: Any, space: InputSpace | None) -> Walk:
    """The given walk; by default all of a small space and fifty draws from a large one."""
    if walk is not None:
        built = WALKS.build(walk)
        if not isinstance(built, Walk):
            raise SpecError(f"A walk is a Walk, a name or a table with a name, not {short_repr(walk)}.")
        return built
    small = space is not None and space.order is not None and space.order <= EXHAUSTIVE_UP_TO
    return Exhaustive() if small else MonteCarlo(draws=50)


def as_outputs(outputs: str | None) -> Outputs | None:
    """What the outputs are, if the user said it."""
    known = [kind.value for kind in Outputs]
    if outputs is not None and outputs not in known:
        raise SpecError(f"The outputs are one of {', '.join(known)}, not '{outputs}'.")
    return None if outputs is None else Outputs(outputs)


def labelled(explainers: Sequence[Any] | Mapping[str, Any], controls: bool, structured: bool = False) -> dict[str, Explainer]:
    """Explainers under unique labels: their name, with their settings where two share it; then the controls of their frames."""
    if isinstance(explainers, str):
        raise SpecError(f"The explainers are a list, such as ['{explainers}'], not one name.")
    explainers = check_value(explainers, LISTED, "The setting 'explainers'")
    if isinstance(explainers, Mapping):
        check_labels("explainer", explainers)
        named = {label: as_explainer(one) for label, one in explainers.items()}
    else:
        built = [as_explainer(one) for one in explainers]
        shared = Counter(one.name for one in built)
        labels = unique_labels([one.name if shared[one.name] == 1 else with_settings(one) for one in built], built)
        named = dict(zip(labels, built, strict=True))
    for label, one in named.items():
        if label in RESERVED and one.spec() != RESERVED[label]().spec():
            raise SpecError(
                f"The label '{label}' of the explainer '{one.name}' is the name of a control: choose another one, "
                "with explainers={'label': ...}."
            )
    explained = list(named.values())
    for control in (kind() for kind in CONTROLS) if controls else ():
        if any(fair(control, one) for one in explained) and (control.structured or not structured):
            named.setdefault(control.name, control)
    return named


RESERVED = {kind.name: kind for kind in CONTROLS}
"""The names of controls, which no other explainer may have: it would take the place of the null."""


def check_labels(what: str, labels: Iterable[Any]) -> None:
    """Raise unless every label is a word."""
    for label in labels:
        if not isinstance(label, str) or not label.strip():
            raise SpecError(f"A label in {what}s={{'label': ...}} must be a word, not {short_repr(label)}.")
        if UNPRINTABLE.search(label):
            raise SpecError(f"A label in {what}s={{'label': ...}} must be text that can be printed, not {short_repr(label)}.")


def fair(control: Explainer, explainer: Explainer) -> bool:
    """Whether a control can be compared with an explainer: same frame, and same kind of numbers."""
    if control.frame is not explainer.frame or control.frame is Frame.INPUT:
        return control.frame is explainer.frame
    return control.categorical == explainer.categorical and (control.categorical or control.signed == explainer.signed)


def unique_labels(labels: list[str], explainers: list[Explainer]) -> list[str]:
    """Labels with a number where two differ in code alone; two explainers that are the same in everything are refused."""
    keys = [fingerprint.of_json(one.spec()) for one in explainers]
    for label, key in zip(labels, keys, strict=True):
        if keys.count(key) > 1:
            raise SpecError(f"Two explainers are the same, '{label}': name them apart with explainers={{'label': ...}}.")
    seen: Counter[str] = Counter()
    numbered = []
    for label in labels:
        seen[label] += 1
        numbered.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
    return numbered


def with_settings(explainer: Explainer) -> str:
    """A name with the settings that differ from their defaults."""
    parts = []
    for item in fields(explainer):
        value = getattr(explainer, item.name)
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        if callable(value) or item.name in ("random", "label"):
            continue
        if isinstance(value, Tensor) or value != default:
            parts.append(f"{item.name}={'tensor' if isinstance(value, Tensor) else value}")
    return f"{explainer.name}({', '.join(parts)})" if parts else explainer.name


@dataclass(frozen=True)
class Scores:
    """All scores by label, which of them were requested, and which model score checks the assumption of which score."""

    named: dict[str, Score]
    asked: tuple[str, ...]
    assumptions: dict[str, str]


def all_scores(scores: Any, companions: bool = True) -> Scores:
    """The requested scores and their companions: self-agreement, the floor of the action, and the assumptions about models."""
    scores = listed_scores(scores)
    given = scores if isinstance(scores, Mapping) else None
    built = [as_score(score) for score in (scores if given is None else given.values())]
    if not built:
        raise SpecError("There is no score to measure: pass scores=['equivariance', ...].")
    labels = [score.name for score in built] if given is None else [str(label) for label in given]
    named = dict(zip(labels, built, strict=True))
    if len(named) < len(built):
        raise SpecError("Two scores have the same name: label them apart with scores={'label': ...}.")
    check_labels("score", labels)
    for label, score in named.items():
        if label in SCORES and score.name != label:
            raise SpecError(f"The label '{label}' of the score '{score.name}' is the name of another score: choose another label.")
    for score in built:
        if "own" in (score.about()["reduce"], score.about()["values"]) and score.name not in SCORES:
            raise SpecError(
                f"The score '{score.name}' reduces its draws in a way of its own: register it with SCORES.add, so that runs can be read."
            )
        if score.about()["values"] == "own" and score.measure is not None and score.measure.name not in MEASURES:
            raise SpecError(
                f"The measure '{score.measure.name}' of score '{score.name}' is not registered: make it with @measure(...), so that "
                "runs can be read."
            )
    asked = list(named)
    if not companions:
        return Scores(named, tuple(asked), {})
    about_maps = [score for score in built if score.reads is Reads.EXPLANATION]
    alike = next((score.measure for score in about_maps if "self_agreement" in score.beside), None)
    symmetric = next((score for score in built if isinstance(score, SymmetryScore)), None)
    if about_maps and "self_agreement" not in named:
        named["self_agreement"] = SelfAgreement(measure=alike)
    if symmetric is not None and "action_floor" not in named:
        named["action_floor"] = ActionFloor(space=symmetric.space, walk=symmetric.walk)
        asked.append("action_floor")
    return Scores(named, tuple(asked), add_assumptions(named))


def add_assumptions(named: dict[str, Score]) -> dict[str, str]:
    """Which label checks the assumption of which score; missing scores of the model are added."""
    holds: dict[str, str] = {}
    for label, score in list(named.items()):
        model = score.assumption
        if model is None:
            continue
        same = next((other for other, one in named.items() if one.spec() == model.spec()), None)
        holds[label] = same or (model.name if model.name not in named else f"{model.name} of {label}")
        named.setdefault(holds[label], model)
    return holds


def check_asked(scores: Mapping[str, Score], asked: Sequence[str], space: InputSpace | None, explainers: Mapping[str, Explainer]) -> None:
    """Raise if a requested score lacks explainers or a symmetry."""
    for name in asked:
        score = scores[name]
        if score.reads is Reads.EXPLANATION and not explainers:
            raise SpecError(f"The score '{name}' needs explainers: pass explainers=['saliency', ...].")
        maps_alone = [label for label, one in explainers.items() if maps_only(one)]
        if Reads.EXPLANATION in reads_after(score) and maps_alone:
            raise InputError(
                f"The score '{name}' explains perturbed inputs or models anew, and '{maps_alone[0]}' is maps without their explainer: "
                "give Precomputed(maps=..., explainer=...), or choose scores of the maps alone, such as pixel_flipping."
            )
        if isinstance(score, SymmetryScore) and score.space is None and space is None and name != "action_floor":
            raise InputError(f"The score '{name}' needs a symmetry: pass Audit(symmetry=...), for example CyclicShift(axes=(-1,)).")


def prepare_explainer(inputs: Inputs, explainer: Explainer) -> Explainer:
    """The explainer, after it has seen all inputs if it needs them."""
    if not isinstance(explainer, InputObserver):
        return explainer
    if isinstance(explainer, Precomputed):
        check_given({explainer.name: explainer}, inputs, ())  # a table's names are gone once the maps are numbers
    return explainer.prepare(inputs.take(torch.arange(inputs.size())).values)


def check_given(explainers: Mapping[str, Explainer], inputs: Inputs, models: Iterable[str]) -> None:
    """Raise unless there is one precomputed map per input, in their order, for each model."""
    names, frame = getattr(inputs, "names", None), getattr(inputs, "frame", None)
    for label, one in explainers.items():
        if isinstance(one, GivenMaps) and len(one.given) != inputs.size():
            raise InputError(
                f"'{label}' has {len(one.given)} maps for {inputs.size()} inputs: give one map for each input, in their order."
            )
        if not isinstance(one, Precomputed):
            continue
        one.check_order(None if callable(names) else names, None if frame is None else list(frame.index))
        absent = [name for name in models if "" not in one.sets and name not in one.sets]
        if absent:
            raise InputError(
                f"'{label}' has maps of {', '.join(one.sets)}, but none of model '{absent[0]}': give one set of maps per model."
            )


NEEDED = {
    Need.TRAINING: "training examples: pass Audit(training=(inputs, labels))",
    Need.CONCEPTS: "concepts: pass Audit(training=(inputs, labels), concepts={'name': {labels that show it}})",
    Need.CHECKPOINTS: "the model's checkpoints: pass Audit(checkpoints={'model': [state_dict, ...]})",
}


def as_training(training: Any, concepts: Any, classes: Sequence[Any] | None = None) -> Training | None:
    """Training examples and their labels as a pair or a Training, with the concepts that they show."""
    if concepts is not None and not isinstance(concepts, Mapping):
        raise InputError(f"The concepts are {{'name': which training examples show it}}, not {type(concepts).__name__}.")
    if training is None:
        if concepts:
            raise InputError("Concepts need examples to learn them from: pass training=(inputs, labels) beside concepts=...")
        return None
    found = training if isinstance(training, Training) else from_pair(training, classes)
    given = {**found.concepts, **(concepts or {})}
    return replace(found, concepts={name: as_concept(name, one, found) for name, one in given.items()})


def from_pair(training: Any, classes: Sequence[Any] | None = None) -> Training:
    """Training examples from (inputs, labels); `classes` as in `as_labels`."""
    if not isinstance(training, Sequence) or isinstance(training, str) or len(training) != 2:
        raise InputError(f"The training set is a pair (inputs, labels) or a Training, not {type(training).__name__}.")
    inputs = as_inputs(training[0])
    labels = as_tensor(class_places(training[1], classes), "training labels")
    if labels is None:
        raise InputError("The training set needs labels: pass training=(inputs, labels).")
    whole = labels.cpu() if labels.is_floating_point() and not bool((labels == labels.round()).all()) else labels.cpu().long()
    return Training(inputs, whole)


def as_concept(name: str, given: Any, training: Training) -> Tensor:
    """Which training examples show a concept, from labels, a mask, or a function of (examples, labels)."""
    size = training.inputs.size()
    wanted = (
        f"The concept '{name}' is a set of labels (whole numbers), a function of (examples, labels), or one True or False for each of "
        f"the {size} training examples, not "
    )
    if isinstance(given, (set, frozenset)):
        if not all(isinstance(label, int) and not isinstance(label, bool) for label in given):
            raise InputError(f"{wanted}{short_repr(given)}.")
        mask = torch.isin(training.labels, torch.tensor(sorted(given), dtype=torch.long))
    else:
        found = concept_mask(name, given, training) if callable(given) else given
        try:
            mask = torch.as_tensor(found)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{wanted}{type(found).__name__}.") from error
    if mask.shape != (size,) or mask.dtype is not torch.bool:
        raise InputError(f"{wanted}{mask.dtype} of shape {tuple(mask.shape)}.")
    if not mask.any() or mask.all():
        which = "No" if not mask.any() else "Every"
        raise InputError(f"{which} training example shows the concept '{name}': examples with and without it are needed.")
    return mask.cpu()


def concept_mask(name: str, function: Callable[[Any, Tensor], Any], training: Training) -> Any:
    """The result of a concept's function for all examples; it gets their values, or Signals if they have structure."""
    signals = training.inputs.take(torch.arange(training.inputs.size()))
    try:
        return function(signals if signals.structure else signals.values, training.labels)
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"The function of concept '{name}' failed with {type(error).__name__}: {reason}") from error


def as_checkpoints(checkpoints: Any, modules: Mapping[str, nn.Module]) -> dict[str, tuple[Checkpoint, ...]]:
    """Checkpoints by model, each of which must fit it."""
    if checkpoints is not None and not isinstance(checkpoints, Mapping):
        raise InputError(f"The checkpoints are {{'model': [state_dict, ...]}}, not {type(checkpoints).__name__}.")
    given = dict(checkpoints or {})
    for name, listed in given.items():
        if name not in modules:
            raise InputError(f"There are checkpoints for a model '{name}' that is not audited; the models are {', '.join(modules)}.")
        if isinstance(listed, (str, Mapping)) or not isinstance(listed, Sequence):
            raise InputError(f"The checkpoints of model '{name}' are a list, such as [state_dict, ...], not {type(listed).__name__}.")
        rated = [isinstance(one, Checkpoint) or (isinstance(one, (tuple, list)) and len(one) == 2) for one in listed]
        if any(rated) and not all(rated):
            raise InputError(f"Some checkpoints of model '{name}' have a learning rate and some have none: give all of them one, or none.")
    found = {name: tuple(as_checkpoint(one) for one in listed) for name, listed in given.items()}
    for name, checked in found.items():
        for number, one in enumerate(checked):
            check_checkpoint(name, number, one, modules[name])
    return found


def as_checkpoint(given: Any) -> Checkpoint:
    """A checkpoint from a state dict, a file of one, or either with its learning rate."""
    if isinstance(given, Checkpoint):
        return given
    if isinstance(given, (tuple, list)) and len(given) == 2:
        if isinstance(given[1], bool) or not isinstance(given[1], (int, float)) or not given[1] >= 0:
            raise InputError(f"A checkpoint's learning rate is a number of at least 0, not {short_repr(given[1])}.")
        return replace(as_checkpoint(given[0]), rate=float(given[1]))
    state = state_from(Path(given)) if isinstance(given, (str, Path)) else given
    inner = [value for value in state.values() if isinstance(value, Mapping)] if isinstance(state, Mapping) else []
    named = next((part for part in inner if part and all(isinstance(value, Tensor) for value in part.values())), None)
    state = state if named is None else named
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"A checkpoint is a state dict, a file of one, or (state dict, learning rate), not {type(state).__name__}.")
    return Checkpoint({str(key): value.detach() for key, value in state.items()})


def state_from(path: Path) -> Any:
    """What a safetensors file holds, or one of torch's that holds nothing but tensors."""
    if not path.exists():
        raise InputError(f"There is no checkpoint {path}.")
    try:
        return load_file(path) if path.suffix == ".safetensors" else torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(f"The checkpoint {path} holds pickled Python objects: save the weights alone, model.state_dict().") from error
    except Exception as error:
        raise InputError(f"The checkpoint {path} cannot be read as weights: {' '.join(str(error).split())[:120]}") from error


def check_needs(
    explainers: Mapping[str, Explainer], training: Training | None, checkpoints: Mapping[str, Any], models: Sequence[str]
) -> None:
    """Raise if an explainer lacks something that only the audit can bring."""
    for label, explainer in explainers.items():
        for need in sorted(explainer.needs, key=lambda one: one.value):
            here = {
                Need.TRAINING: training is not None,
                Need.CONCEPTS: training is not None and bool(training.concepts),
                Need.CHECKPOINTS: all(checkpoints.get(name) for name in models),
            }[need]
            if not here:
                raise SpecError(f"{label} needs {NEEDED[need]}.")
