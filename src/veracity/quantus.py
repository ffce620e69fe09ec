"""For users of Quantus: its metrics by their names and arguments, measured by our scores, in our table.

Quantus itself is not needed. Settings that are not given have the values that Quantus 0.6.0 gives them. What has no counterpart is named
in the answer, metric by metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Size, Tensor, nn

from veracity.core.aliases import SAME, squeezed
from veracity.core.errors import InputError, SpecError, VeracityError
from veracity.core.explainers import Explainer
from veracity.core.registry import EXPLAINERS, SCORES
from veracity.core.scores import Defaults, Reads, Score, Subject, reads_after, reads_before
from veracity.core.settings import short_repr
from veracity.explain import Foreign, Saliency, as_explainer
from veracity.explain.foreign import display_name
from veracity.explain.shap_calls import is_explanation
from veracity.explain.wrapper import computed
from veracity.inputs import as_inputs
from veracity.inputs.tiles import tile_masks
from veracity.perturb import Ball
from veracity.results import Result
from veracity.scores import Focus
from veracity.scoring import as_maps, score
from veracity.walk import MonteCarlo

Translation = Callable[[Any], Mapping[str, Any]]


def same(name: str) -> Translation:
    """An argument that is a setting of ours under this name."""
    return lambda value: {name: value}


def walk(value: Any) -> Mapping[str, Any]:
    """A number of draws."""
    return {"walk": MonteCarlo(draws=value)}


def uniform(value: Any) -> Mapping[str, Any]:
    """Uniform noise between -value and value."""
    return {"space": Ball(radius=value)}


def absolute(value: Any) -> Mapping[str, Any]:
    """Whether magnitudes are compared."""
    return {"absolute": bool(value)}


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How a metric of Quantus becomes a score.

    takes     arguments that have a counterpart, each with its translation
    given     the values that Quantus gives to arguments, if they differ from ours
    settings  settings of ours that no argument changes
    differs   what still differs from Quantus
    """

    takes: Mapping[str, Translation] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    differs: str = ""


MASKED = {"perturb_baseline": same("perturb_baseline"), "softmax": same("softmax")}
BALL = {"nr_samples": walk, "lower_bound": same("radius")}
STABLE = {"nr_samples": walk, "upper_bound": uniform, "eps_min": same("eps_min")}
ONE_COPY = "one randomised copy of the model, as in Quantus; five are more reliable"
ONE_SIDED = "Quantus adds noise from 0.02 to 0.2 only, here it is from -0.2 to 0.2; draws that change the class are left out"
METRICS = {
    "faithfulness_correlation": Metric(
        takes={"nr_runs": same("nr_runs"), "subset_size": same("subset_size"), **MASKED}, given={"subset_size": 224}
    ),
    "faithfulness_estimate": Metric(takes={"features_in_step": same("features_in_step"), **MASKED}, given={"softmax": False}),
    "monotonicity": Metric(
        takes={"features_in_step": same("features_in_step"), **MASKED},
        given={"abs": True},
        differs="features are added to the baseline; Quantus adds none, so every map gets 1",
    ),
    "selectivity": Metric(
        takes={"patch_size": same("patch_size"), **MASKED}, differs="the mean height of the curve from the whole input on, not the curve"
    ),
    "sensitivity_n": Metric(
        takes={"features_in_step": same("features_in_step"), "n_max_percentage": same("n_max_percentage"), **MASKED},
        given={"softmax": None},
        differs="random subsets of each size, correlated per sample; Quantus masks by relevance and correlates over samples",
    ),
    "monotonicity_correlation": Metric(
        takes={"nr_samples": same("nr_samples"), "features_in_step": same("features_in_step"), "abs": lambda value: {}, **MASKED},
        given={"nr_samples": 100},
        differs="values are uniform in the range of the data, or from a table's columns; in Quantus from 0 to 1",
    ),
    "non_sensitivity": Metric(
        takes={"eps": same("eps"), "features_in_step": same("features_in_step"), "abs": lambda value: {}, **MASKED},
        given={"perturb_baseline": "black"},
        differs="the share of wrong features, not their number; eps is a share of the largest attribution",
    ),
    "effective_complexity": Metric(
        takes={"abs": lambda value: {}},
        differs="the share of features that the prediction needs, as in the paper; Quantus counts attributions above eps",
    ),
    "irof": Metric(
        takes=MASKED, differs="the area as a share, from the whole input on; in Quantus it grows with the number of superpixels"
    ),
    "road": Metric(
        takes={"percentages": lambda given: {"percentages": tuple(map(float, given))}, "noise": same("noise")},
        given={"percentages": range(1, 100, 2)},
        differs="the mean over the percentages, not the accuracy at each",
    ),
    "continuity": Metric(
        takes={"nr_steps": same("nr_steps"), "perturb_baseline": same("perturb_baseline")},
        given={"abs": True},
        settings={"relative": False},
        differs="the same number of distances, evenly spaced and never 0",
    ),
    "consistency": Metric(
        given={"abs": True}, differs="the five largest entries with their signs; Quantus takes the signs of the first five entries"
    ),
    "input_invariance": Metric(
        takes={"input_shift": same("input_shift")},
        differs="the model that takes the shift away is exact, also where the first layer pads, and the first pixel is shifted too",
    ),
    "pixel_flipping": Metric(
        takes={"features_in_step": same("features_in_step"), **MASKED},
        settings={"dx": 1.0},
        differs="the area under each curve, as with return_auc_per_sample=True",
    ),
    "region_perturbation": Metric(
        takes={"patch_size": same("patch_size"), "order": same("order"), "regions_evaluation": same("regions_evaluation"), **MASKED},
        differs="the mean drop over the curve, not the curve",
    ),
    "infidelity": Metric(
        takes={"n_perturb_samples": same("n_perturb_samples"), "perturb_patch_sizes": lambda sizes: {"patch_size": min(sizes)}, **MASKED},
        differs="every draw masks its own patches; in Quantus they accumulate",
    ),
    "sufficiency": Metric(
        takes={"threshold": same("threshold"), "abs": same("abs")},
        given={"abs": True},
        differs="distances are not standardised over the batch",
    ),
    "completeness": Metric(
        takes=MASKED, given={"perturb_baseline": "black"}, differs="the size of the gap; Quantus says whether two floats are equal"
    ),
    "max_sensitivity": Metric(takes=BALL, given={"nr_samples": 200, "lower_bound": 0.2}),
    "avg_sensitivity": Metric(takes=BALL, given={"nr_samples": 200, "lower_bound": 0.2}),
    "local_lipschitz": Metric(
        takes={"nr_samples": walk, "perturb_std": same("sigma")},
        given={"nr_samples": 200, "perturb_std": 0.1},
        settings={"relative": False},
    ),
    **dict.fromkeys(
        ("relative_input_stability", "relative_output_stability"),
        Metric(takes=STABLE, given={"nr_samples": 200, "upper_bound": 0.2}, settings={"floor": 0.0}, differs=ONE_SIDED),
    ),
    "relative_representation_stability": Metric(
        takes={**STABLE, "layer_names": lambda names: {"layer": names[0] if isinstance(names, (list, tuple)) else names}},
        given={"nr_samples": 200, "upper_bound": 0.2},
        settings={"floor": 0.0},
        differs=f"one layer, by default the last but one; {ONE_SIDED}",
    ),
    "sparseness": Metric(takes={"abs": lambda value: {}}),
    "complexity": Metric(takes={"abs": lambda value: {}}),
    "mprt": Metric(
        takes={
            "layer_order": same("layer_order"),
            "abs": absolute,
            "return_last_correlation": lambda last: {"layers": "last" if last else "mean"},
            "return_average_correlation": lambda value: {},
        },
        given={"abs": True},
        settings={"walk": MonteCarlo(draws=1)},
        differs=f"the mean over randomised layers; Quantus counts the unchanged model as a layer; {ONE_COPY}",
    ),
    "smooth_mprt": Metric(
        takes={
            "layer_order": same("layer_order"),
            "nr_samples": same("nr_samples"),
            "noise_magnitude": same("noise_magnitude"),
            "abs": absolute,
        },
        given={"nr_samples": 50, "noise_magnitude": 0.1, "abs": True},
        settings={"walk": MonteCarlo(draws=1)},
        differs=f"noise in the input's units, not as a share of its range; {ONE_COPY}",
    ),
    "efficient_mprt": Metric(
        takes={"complexity_func_kwargs": lambda given: {key: value for key, value in given.items() if key == "n_bins"}},
        settings={"walk": MonteCarlo(draws=1)},
        differs=ONE_COPY,
    ),
    "random_logit": Metric(
        settings={"measure": "ssim"}, differs="the structural similarity of the maps as images; Quantus compares flattened maps"
    ),
    "pointing_game": Metric(differs="of equal largest values the share inside counts; an empty mask is undefined"),
    "top_k_intersection": Metric(takes={"k": same("k"), "concept_influence": same("concept_influence")}, given={"k": 1000}),
    "relevance_rank_accuracy": Metric(),
    "relevance_mass_accuracy": Metric(differs="positive relevance alone; in Quantus signs may cancel"),
    "attribution_localisation": Metric(
        takes={"weighted": same("weighted"), "max_size": same("max_size"), "positive_attributions": lambda value: {}},
        given={"abs": True},
        differs="weighted divides by the size of the mask, as in the paper; Quantus multiplies",
    ),
    "auc": Metric(),
    "focus": Metric(),
}
"""What is known about each score that stands for a metric."""
CAPTUM_SETTINGS = {"n_steps": "steps", "baselines": "baseline"}
"""Arguments of Captum that Quantus passes on in xai_lib_kwargs, and our names for them."""
WINDOW = 7
"""The side of the window that Quantus uses for structural similarity."""
SILENT = {
    *("disable_warnings", "display_progressbar", "aggregate_func", "return_aggregate", "default_plot_func", "num_classes", "seed"),
    *("return_auc_per_sample", "return_sample_correlation", "normalise_func", "normalise_func_kwargs", "skip_layers", "name"),
}
"""Arguments that are about printing, averaging and seeds: they change nothing that the table does not say anyway."""


@dataclass(frozen=True, kw_only=True)
class QuantusFunction(Foreign):
    """An explain_func of Quantus: function(model, inputs, targets, **settings) -> array."""

    name: ClassVar[str] = computed(lambda self: self.label or display_name(self.function))
    function: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    magnitudes: bool = False

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: tuple[Tensor, ...]) -> Any:
        """Maps of these rows; a channel axis that is missing is put in."""
        given = {"inputs": inputs.detach().cpu().numpy(), "targets": targets.detach().cpu().numpy()}
        found = as_maps(self.function(model=model, **given, **self.settings), inputs.shape[1:], len(inputs), self.name)
        return found.abs() if self.magnitudes else found


@dataclass(frozen=True)
class Plan:
    """What becomes of one metric: its score, or why there is none; whether magnitudes are scored; unused arguments; what differs."""

    metric: str
    score: Score | None = None
    missing: str = ""
    magnitudes: bool = False
    unused: tuple[str, ...] = ()
    differs: str = ""


@dataclass(frozen=True)
class Evaluation:
    """The answer: one row per explanation and metric, what could not be measured, and what was not used."""

    results: tuple[Result, ...]
    plans: tuple[Plan, ...]

    @property
    def missing(self) -> dict[str, str]:
        """Why a metric was not measured, by metric."""
        return {one.metric: one.missing for one in self.plans if one.missing}

    @property
    def unused(self) -> dict[str, tuple[str, ...]]:
        """Arguments without a counterpart, by metric."""
        return {one.metric: one.unused for one in self.plans if one.unused}

    def table(self) -> pd.DataFrame:
        """The table of all runs: one row per explanation and metric, controls included; the column `score` holds the metric."""
        found = [one.table() for one in self.results]
        return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=["explainer", "score", "value", "low", "high"])

    def samples(self, metric: str) -> pd.DataFrame:
        """One row per explanation and sample of a metric."""
        for one in self.results:
            if metric in one.manifest["scores"]:
                return one.samples(metric)
        raise SpecError(f"The metric '{metric}' was not measured: {self.missing.get(metric, 'it was not asked for')}.")

    def __str__(self) -> str:
        """The tables, and a line per metric that is missing or differs."""
        lines = [str(one) for one in self.results]
        lines += [f"{one.metric}: not measured, {one.missing}." for one in self.plans if one.missing]
        lines += [f"{one.metric}: no counterpart for {', '.join(one.unused)}." for one in self.plans if one.unused]
        lines += [f"{one.metric}: {one.differs}." for one in self.plans if one.score is not None and one.differs]
        return "\n".join(lines)


def evaluate(
    metrics: Any,
    model: Any,
    x_batch: Any,
    y_batch: Any,
    a_batch: Any = None,
    *,
    explain_func: Callable[..., Any] | None = None,
    explain_func_kwargs: Mapping[str, Any] | None = None,
    xai_methods: Mapping[str, Any] | None = None,
    softmax: bool | None = None,
    s_batch: Any = None,
    custom_batch: Any = None,
    **settings: Any,
) -> Evaluation:
    """Metrics of Quantus on explanations, in our table, with intervals and random maps for comparison.

    metrics       names, {"name": arguments}, or {"label": metric}, where a metric is a metric object of Quantus
    a_batch       maps (samples, ...), a shap.Explanation, or {"label": maps}
    explain_func  function(model, inputs, targets, **explain_func_kwargs) -> maps, in the place of maps or beside them; metrics that
                  explain perturbed inputs or models need it
    xai_methods   as in quantus.evaluate: {"label": maps, a function, or a table of settings for an explainer of that name}
    s_batch       masks (samples, H, W) of the object, for metrics of localisation; all but 0 is inside, as in Quantus
    custom_batch  0 or 1 for each of the four tiles of a mosaic, (samples, 4), for Focus: which ones show the explained class
    settings      further settings of `veracity.score`, such as folder or controls
    """
    if y_batch is None:
        raise InputError("There is no y_batch: pass the class that each map explains, one per sample.")
    inputs = as_inputs(x_batch)
    subjects = explained(a_batch, explain_func, explain_func_kwargs or {}, xai_methods or {}, inputs.shape, inputs.size())
    again = all(explainer is not None for _, explainer in subjects.values())
    positive = all(
        not is_explanation(given) and (explainer is None or isinstance(explainer, QuantusFunction))
        for given, explainer in subjects.values()
    )
    masks, tiles = as_masks(s_batch), custom_batch is not None
    mask = mask_shape(masks, inputs.shape)
    plans = [
        planned(label, given, inputs.shape, again, positive, softmax, masks is not None, tiles, mask) for label, given in entries(metrics)
    ]
    results = []
    folder = settings.pop("folder", None)
    for magnitudes, mosaic in product((False, True), (False, True)):
        chosen = [one for one in plans if one.score is not None and one.magnitudes is magnitudes]
        scores = {one.metric: one.score for one in chosen if one.score is not None and (tiles and isinstance(one.score, Focus)) is mosaic}
        if scores:
            place = None if folder is None else f"{folder}/{'magnitudes' if magnitudes else 'maps'}{'-mosaics' if mosaic else ''}"
            truth = tile_masks(torch.as_tensor(np.asarray(custom_batch)), *inputs.shape[-2:]) if mosaic else masks
            located = any(Reads.TRUTH in reads_before(one) for one in scores.values())
            known = {"truth": truth} if located else {}
            results.append(measured(model, inputs, y_batch, subjects, scores, magnitudes, folder=place, **known, **settings))
    return Evaluation(tuple(results), tuple(plans))


def as_masks(given: Any) -> Any:
    """Masks as booleans, True where a number is not 0; None for a sample without a mask, and what is no number, stay.

    >>> as_masks([[0, 255]]).tolist(), as_masks([None, np.array([0, 2])])
    ([[False, True]], [None, array([False,  True])])
    """
    if given is None or isinstance(given, Tensor):
        return None if given is None else given != 0
    if isinstance(given, (list, tuple)) and any(one is None or isinstance(one, Tensor) for one in given):
        return [as_masks(one) for one in given]
    found = np.asarray(given)
    return found != 0 if found.dtype.kind in "biuf" else given


def mask_shape(masks: Any, shape: Size) -> Size | None:
    """The shape of one mask for inputs of a shape; None if it cannot be told."""
    if not isinstance(masks, (np.ndarray, Tensor)) or masks.ndim < 2:
        return None
    one = Size(masks.shape[1:])
    return Size((1, *one)) if len(shape) > 1 and one == shape[1:] else one


def entries(metrics: Any) -> list[tuple[str, Any]]:
    """Metrics by label, each a table of arguments with a "name", a metric object of Quantus, or a score of ours."""
    if isinstance(metrics, str):
        metrics = [metrics]
    if isinstance(metrics, Mapping):
        filled = [(label, {} if one is None else one) for label, one in metrics.items()]
        return [(str(label), {"name": label, **one} if isinstance(one, Mapping) else one) for label, one in filled]
    if not isinstance(metrics, Iterable):
        raise SpecError(f"The metrics are names, or {{'name': arguments}}, not {short_repr(metrics)}.")
    return [(one, {"name": one}) if isinstance(one, str) else (type(one).__name__, one) for one in metrics]


def explained(
    maps: Any, function: Callable[..., Any] | None, settings: Mapping[str, Any], methods: Mapping[str, Any], shape: Size, size: int
) -> dict[str, tuple[Any, Any]]:
    """What is evaluated, by label: maps, a shap.Explanation or None, and the explainer or None."""
    explainer = None if function is None else QuantusFunction(function=function, settings=dict(settings))
    found: dict[str, tuple[Any, Any]] = {}
    named = {} if maps is None else dict(maps) if isinstance(maps, Mapping) else {"a_batch": maps}
    for label, given in named.items():
        found[str(label)] = (given if is_explanation(given) else as_maps(given, shape, size, str(label)), explainer)
    if maps is None and explainer is not None:
        found[explainer.name] = (None, explainer)
    for label, given in methods.items():
        if callable(given) and not is_explanation(given):
            found[label] = (None, QuantusFunction(function=given, settings={**settings, "method": label}, label=label))
        elif isinstance(given, Mapping):
            found[label] = (None, named_explainer(str(label), given))
        else:
            found[label] = (given if is_explanation(given) else as_maps(given, shape, size, label), explainer)
    if not found:
        raise InputError("There is nothing to evaluate: pass a_batch=maps, explain_func=..., or both.")
    return found


def named_explainer(label: str, given: Mapping[str, Any]) -> Explainer:
    """The explainer of this name, or of given["method"], with the settings that are given to it or to Captum."""
    settings = {key: value for key, value in given.items() if key not in ("method", "xai_lib", "xai_lib_kwargs")}
    settings |= {CAPTUM_SETTINGS.get(key, key): value for key, value in (given.get("xai_lib_kwargs") or {}).items()}
    asked = str(given.get("method", label))
    name = next((one for one in EXPLAINERS if squeezed(one) == squeezed(asked)), None)
    if name is None:
        raise InputError(f"There is no explainer '{asked}' here: pass its maps, or explain_func(model, inputs, targets).")
    return as_explainer({"name": name, **settings})


def planned(
    label: str,
    given: Any,
    shape: Size,
    again: bool,
    positive: bool,
    softmax: bool | None,
    masks: bool = False,
    tiles: bool = False,
    mask: Size | None = None,
) -> Plan:
    """The score for a metric and its arguments, or why there is none.

    `again` says whether perturbed inputs can be explained, `positive` whether magnitudes of the maps can be scored, and `masks` and
    `tiles` whether the ground truth is known. `mask` is the shape of one mask.
    """
    if isinstance(given, Score):
        return Plan(label, given)
    name, arguments = (str(given.get("name", label)), given) if isinstance(given, Mapping) else (type(given).__name__, stored(given))
    key = squeezed(name)
    called = SAME.get(key) or next((one for one in SCORES if squeezed(one) == key), None)
    if called is None:
        return Plan(label, missing="it is not a metric of Quantus 0.6.0; see 'veracity ls scores'")
    known_as, own = METRICS.get(called, Metric()), {one.name for one in fields(SCORES[called])}
    asked = {**known_as.given, **({"softmax": softmax} if softmax is not None and "softmax" in own else {})}
    asked |= {key: value for key, value in arguments.items() if value is not None}
    settings, unused = dict(known_as.settings), []
    magnitudes = bool(asked.get("abs", False)) and "abs" not in known_as.takes
    if magnitudes and not positive:
        magnitudes, unused = False, ["abs"]
    for key, value in asked.items():
        if key in known_as.takes:
            settings |= known_as.takes[key](value)
        elif key not in SILENT | {"abs", "normalise"}:
            unused.append(key)
    if settings.get("measure") == "ssim":
        side = min(shape[-2:], default=0)
        settings["measure"] = {"name": "ssim", "size": min(WINDOW, side - 1 + side % 2)} if len(shape) > 2 and side > 2 else "spearman"
    try:
        made = SCORES.build({"name": called, **settings})
        if asked.get("normalise") and made.in_map_units:
            unused.append("normalise")
        subject = Subject("model", Saliency(), shape, layers=("first", "middle", "last"), mask=mask)
        made.for_subject(subject).requests(subject, Defaults(None, MonteCarlo()))
    except VeracityError as error:
        return Plan(label, missing=str(error).rstrip("."), unused=tuple(unused))
    if Reads.EXPLANATION in reads_after(made) and not again:
        return Plan(label, missing="it explains perturbed inputs or models: pass explain_func=...", unused=tuple(unused))
    if Reads.TRUTH in reads_before(made) and not (masks or (tiles and isinstance(made, Focus))):
        wanted = "custom_batch=..., which tiles show the class" if isinstance(made, Focus) else "s_batch=..., one mask per input"
        return Plan(label, missing=f"it compares maps with the ground truth: pass {wanted}", unused=tuple(unused))
    return Plan(label, made, magnitudes=magnitudes, unused=tuple(unused), differs=known_as.differs)


def stored(metric: Any) -> dict[str, Any]:
    """The arguments of a metric object of Quantus, as far as they have a counterpart here."""
    partial = getattr(getattr(metric, "perturb_func", None), "keywords", None) or {}
    known = {key for one in METRICS.values() for key in one.takes} | {"abs", "normalise"}
    return {key: value for key, value in {**vars(metric), **partial}.items() if key in known}


def measured(
    model: Any,
    inputs: Any,
    targets: Any,
    subjects: Mapping[str, tuple[Any, Any]],
    scores: Mapping[str, Score],
    magnitudes: bool,
    **settings: Any,
) -> Result:
    """One run of scores, on maps or on their magnitudes."""
    maps, makers = {}, {}
    labels = targets if isinstance(targets, Tensor) else np.asarray(targets)
    for label, (given, explainer) in subjects.items():
        maker = explainer
        if magnitudes and isinstance(explainer, QuantusFunction):
            maker = QuantusFunction(function=explainer.function, settings=explainer.settings, magnitudes=True, label=explainer.label)
        maps[label] = None if given is None else given.abs() if magnitudes else given
        makers[label] = maker
    return score(model, inputs, maps, labels, scores, explainer=makers, **settings)
