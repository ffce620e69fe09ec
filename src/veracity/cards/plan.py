"""What a card measures: the explainers that fit, the scores that can be measured, and as many samples as the budget allows.

The number of samples follows from counted operations and never from a clock, so that the same call makes the same choice and goes on
with its own folder. Samples stand in a fixed random order, of which a larger budget takes more.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.cards.checks import OWN, RANKS
from veracity.cards.decide import FEWEST
from veracity.core.errors import InputError, Note, SpecError, VeracityError
from veracity.core.explainers import Explainer, Frame, GivenMaps, Inquirer
from veracity.core.inputs import SelectedSamples, TensorInputs, whole
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.scores import Score
from veracity.core.settings import short_repr
from veracity.core.targets import as_target
from veracity.core.wording import count as of
from veracity.core.wording import duration
from veracity.engine.defaults import SECONDS, look
from veracity.engine.progress import weight
from veracity.engine.resolve import class_names, labelled, named_labels
from veracity.explain.wrapper import Wrapper
from veracity.inputs import DatasetInputs, TextInputs
from veracity.measure import spearman
from veracity.perturb import GaussianNoise
from veracity.scores.faithfulness.curves import Deletion, Insertion
from veracity.scores.gef import FastGEF
from veracity.scores.randomisation import MPRT, RandomLogit
from veracity.scores.rare_events import LnPHat
from veracity.scores.robustness import SolHat
from veracity.scores.sensitivity import AvgSensitivity, RelativeInputStability
from veracity.scores.symmetry import SelfAgreement
from veracity.walk import Genetic, GradientSearch, MonteCarlo, Strongest, SubsetSimulation

AUTO = "auto"
SIZES = (1024, 512, 256, 128, 64, 32, 16)
"""Numbers of samples that a card chooses from."""
WANTED = 32
"""Explainers that are chosen are left out until so many samples fit."""
KNOWN = ("input_x_gradient", "gradient", "saliency", "grad_cam")
"""Of explainers that cost the same, these stay longest: most people use them."""
SEARCHED = 16
"""Samples around which question 4 searches."""
BEFORE_SEARCH = 256
"""The search of question 4 comes after so many samples, or all there are, and before more, so that a larger budget never takes fewer."""
STEPS = 20
"""Steps of deletion and insertion."""
COPIES, NOISES, REPEATS, CLASSES = 8, 5, 8, 2
"""Randomised copies of the model, draws of noise, repeats of a random explainer, and other classes, per sample."""
LEVELS = 5
"""Levels of Fast-GEF along each of its paths."""
ALONG = 8
"""Transforms per sample of a symmetry that is asked for."""
MAPS_OF = {"mprt": COPIES, "random_logit": CLASSES, "fast_gef": COPIES * LEVELS, "avg_sensitivity": NOISES}
"""Maps per sample that a score asks for, if it asks for more than one and shares them with no score before it."""
CURVES = ("deletion", "insertion")
"""Scores that mask an input step by step."""
SAME_MAPS = {"relative_input_stability": "avg_sensitivity", OWN: RANKS}
"""Scores that share all of their maps with another one."""
NOISE, RADIUS = 0.01, 0.1
"""The noise of question 2 and the radius of question 4, as shares of the standard deviation of the inputs."""
SEEN = 256
"""Samples from which that standard deviation is computed."""
EVERY_LAYER = 10**6
"""More layers than a model has: all of them are randomised in one step."""
HASTE = 0.3
"""The share of the time that goes into passes; the rest goes into comparisons, files and the explainers' own work."""
UNKNOWN_SPEED = 1e4
"""Rows per second of a model whose operations could not be counted."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(budget: Any) -> float:
    """A budget in seconds: a number, or a text such as "90s", "10m" or "2h".

    >>> seconds_of("10m"), seconds_of(90), seconds_of("1.5h")
    (600.0, 90.0, 5400.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", budget) if isinstance(budget, str) else None
    plain = float(budget) if isinstance(budget, (int, float)) and not isinstance(budget, bool) else 0.0
    seconds = float(found[1]) * UNITS.get(found[2], 1.0) if found else plain
    if not 0.0 < seconds < math.inf:
        raise SpecError(f"A budget is a time such as '90s', '10m' or '2h', or a number of seconds, not {short_repr(budget)}.")
    return seconds


def written(seconds: float) -> str:
    """A budget as a user would type it, rounded up.

    >>> written(59.2), written(61), written(7000)
    ('60s', '2m', '2h')
    """
    unit = "s" if seconds <= 60 else "m" if seconds <= 3600 else "h"
    return f"{math.ceil(seconds / UNITS[unit])}{unit}"


@dataclass(frozen=True)
class Plan:
    """What a card measures: the audit of the chosen samples without scores, the scores of question 0 to 2, and what was left out.

    Explainers are `unfit` for the model or too `costly`, and scores `unmeasured`, each with the reason. `costs` are about the passes per
    sample that each score of an explainer takes. `rows` are the chosen samples of `size`, `scale` is the standard deviation of the
    inputs, 0 if they do not vary, and `seconds` is about what the samples that come before question 4 take, which `searches` within the
    budget and takes about `seconds_to_search`.
    """

    audit: Audit
    scores: Mapping[str, Score]
    unfit: Mapping[str, str]
    costly: Mapping[str, str]
    unmeasured: Mapping[str, str]
    costs: Mapping[str, Mapping[str, int]]
    rows: Tensor
    size: int
    scale: float
    seconds: float
    searches: bool
    seconds_to_search: float

    @property
    def shares(self) -> dict[str, dict[str, float]]:
        """About which share of all passes per sample each score of an explainer takes, by explainer."""
        total = sum(sum(each.values()) for each in self.costs.values())
        alike = {label: {**each, **{name: each.get(other, 0) for name, other in SAME_MAPS.items()}} for label, each in self.costs.items()}
        return {label: {name: cost / total for name, cost in each.items() if name} for label, each in alike.items()}


def plan(audit: Audit, budget: Any, samples: int | None = None) -> Plan:
    """Choose explainers, scores and samples for an audit of one model within a budget."""
    seconds, size = seconds_of(budget), audit.data.size()
    if size < FEWEST:
        raise InputError(f"A card needs at least {FEWEST} samples to say anything, not {size}.")
    order = order_of(audit)
    scale = scale_of(audit, order[:SEEN])
    few = on_rows(audit, order[: min(4, size)])
    auto = isinstance(audit.explainers, str) and audit.explainers == AUTO
    explainers, unfit = fitting(few) if auto else (given(audit), {})
    scores, unmeasured = measurable(replace(few, explainers=explainers), scores_of(scale))
    speed = rows_per_second(audit)
    shape = audit.data.shape
    costs = {label: passes(one, weight(one.cost(shape)), scores) for label, one in explainers.items()}
    totals = {label: sum(each.values()) for label, each in costs.items()}
    count, costly = affordable(totals, seconds * speed, size, samples, auto, seconds, speed)
    kept = {label: one for label, one in explainers.items() if label not in costly}
    searching = sum(weight(one.cost(shape)) for one in kept.values()) * evaluations_of_search() * min(SEARCHED, count) / speed
    each = sum(totals[label] for label in kept) / speed
    least = min(size, BEFORE_SEARCH) if samples is None else min(WANTED, count)
    searches = scale > 0 and least * each + searching <= seconds
    if searches and samples is None:
        count = affordable({label: totals[label] for label in kept}, (seconds - searching) * speed, size, None, False, seconds, speed)[0]
    elif scale > 0 and samples is None:
        count = min(count, least)
    rows = order[:count]
    return Plan(
        audit=replace(on_rows(audit, rows), explainers=kept),
        scores=scores,
        unfit=unfit,
        costly=costly,
        unmeasured=unmeasured,
        costs={label: costs[label] for label in kept},
        rows=rows,
        size=size,
        scale=scale,
        seconds=least * each,
        searches=searches,
        seconds_to_search=searching,
    )


def order_of(audit: Audit) -> Tensor:
    """The numbers of all samples in the fixed random order in which cards take them."""
    return Draws.of(audit.seed, torch.arange(audit.data.size())).normal(1, stream="card samples")[:, 0].argsort()


def scores_of(scale: float) -> dict[str, Score]:
    """The scores of questions 0 to 2, by label; those of noise only if the inputs vary.

    Randomised models and other classes are compared with fresh random numbers of the explainer, as its agreement with itself is.
    """
    found: dict[str, Score] = {
        RANKS: SelfAgreement(measure=spearman, repeats=REPEATS),
        "mprt": MPRT(layers="last", layers_in_step=EVERY_LAYER, walk=MonteCarlo(draws=COPIES), common_draws=False),
        "random_logit": RandomLogit(walk=MonteCarlo(draws=CLASSES), common_draws=False),
        "deletion": Deletion(steps=STEPS),
        "insertion": Insertion(steps=STEPS),
        "fast_gef": FastGEF(draws=COPIES, steps=LEVELS),
    }
    if scale > 0:
        noise: dict[str, Any] = {"space": GaussianNoise(sigma=NOISE * scale), "walk": MonteCarlo(draws=NOISES)}
        found["avg_sensitivity"] = AvgSensitivity(
            radius=math.sqrt(3.0) * NOISE * scale, **noise
        )  # the ball of the same spread, for the model
        found["relative_input_stability"] = RelativeInputStability(sigma=NOISE * scale, **noise)
    return found


def search_scores(scale: float) -> dict[str, Score]:
    """The scores of question 4, in a ball whose radius is a share of the standard deviation of the inputs."""
    ball: dict[str, Any] = {"radius": RADIUS * scale}
    return {
        "sol_f_hat": SolHat(walk=SEARCH_WALK, **ball),
        "ln_p_f_hat": LnPHat(walk=RARE_WALK, **ball),
    }


SEARCH_WALK = Strongest(searches=(Genetic(population=30, generations=10, elites=5), GradientSearch(population=4, steps=15)))
RARE_WALK = SubsetSimulation(population=50, steps=5, floor=-9.5)
"""The walks of question 4. The floor lies just below the probability of 1 in 10,000 that the rule asks for."""


def evaluations_of_search() -> int:
    """Explanations per sample of question 4; a gradient step costs about three."""
    genetic, gradient = 30 + 10 * 25, 3 * 4 * 15
    return genetic + gradient + RARE_WALK.population * (1 + RARE_WALK.steps * RARE_WALK.levels)


def scale_of(audit: Audit, rows: Tensor) -> float:
    """The standard deviation of all values of some samples, to two digits; 0 if they do not vary or are no numbers to add noise to.

    Columns of a table have units of their own, so it is the median of those of its columns. The gates of a text go from 0 to 1: it is 1.
    """
    if isinstance(whole(audit.data), TextInputs):
        return 1.0
    values = audit.data.take(rows).values
    if not values.is_floating_point():
        return 0.0
    spread = float(values.double().std())
    if values.ndim == 2:
        columns = values.double().std(dim=0)
        spread = float(columns[columns > 0].median()) if bool((columns > 0).any()) else 0.0
    return float(f"{spread:.2g}") if math.isfinite(spread) and spread > 0 else 0.0


def on_rows(audit: Audit, rows: Tensor) -> Audit:
    """The audit on some samples, by their numbers."""
    data = audit.data
    whole = data.tensor if isinstance(data, TensorInputs) else None
    inputs: Any = SelectedSamples(data, rows) if whole is None else whole[rows.to(whole.device)]
    if isinstance(data, DatasetInputs):
        inputs = data.take(rows).values
    labels = audit.labels
    targets = None if labels is None else named_labels(labels[rows.to(labels.device)], class_names(audit.modules))
    return replace(audit, models=audit.modules, inputs=inputs, targets=targets, **audit.people(rows))


def given(audit: Audit) -> dict[str, Explainer]:
    """The explainers that somebody named; raises if there is none."""
    found = {label: one for label, one in labelled(audit.explainers, controls=False).items() if not one.control}
    if not found:
        raise InputError('There is no explainer to make a card of: name some that are no controls, or leave explainers="auto".')
    return found


def fitting(few: Audit) -> tuple[dict[str, Explainer], dict[str, str]]:
    """The explainers of this package that fit the model and its inputs, and why the others do not."""
    kinds = (kind for kind in EXPLAINERS.own().values() if kind.frame is Frame.INPUT and not kind.control)
    every = {kind.name: kind() for kind in kinds if not issubclass(kind, (Wrapper, GivenMaps, Inquirer))}
    fit, unfit = dict[str, Explainer](), dict[str, str]()
    for label, one in sorted(every.items()):
        why = refusal(few, {label: one}, {RANKS: SelfAgreement(measure=spearman)})
        if why:
            unfit[label] = why
        else:
            fit[label] = one
    if not fit:
        first = next(iter(unfit.values()), "there is none")
        raise InputError(
            f"No built-in explainer fits this model and its inputs: {first} Name explainers of your own with explainers=[...]."
        )
    return fit, unfit


def measurable(few: Audit, scores: Mapping[str, Score]) -> tuple[dict[str, Score], dict[str, str]]:
    """The scores that an audit of these explainers accepts, and why it refuses the others."""
    explainers = dict(labelled(few.explainers, controls=False))
    if not refusal(few, explainers, scores):
        return dict(scores), {}
    alone = refusal(few, explainers, {RANKS: scores[RANKS]})
    if alone:
        raise InputError(alone)
    reasons = {label: refusal(few, explainers, {label: one}) for label, one in scores.items()}
    return {label: one for label, one in scores.items() if not reasons[label]}, {label: why for label, why in reasons.items() if why}


def refusal(few: Audit, explainers: Mapping[str, Explainer], scores: Mapping[str, Score]) -> str:
    """Why an audit cannot start; "" if it can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        try:
            replace(few, explainers=explainers, scores=scores, controls=False, companions=False).prepare()
        except VeracityError as error:
            (name, *_) = few.modules
            return str(error).removeprefix(f"On model '{name}': ")
        except ImportError as error:
            return f"{error.name or 'a library'} is not installed."
    return ""


def rows_per_second(audit: Audit) -> float:
    """How many rows a modest machine passes through the model in a second, from its counted operations."""
    ((name, model),) = audit.modules.items()
    sight = look(audit.data, name, model, as_target(audit.target)) if isinstance(model, nn.Module) else None
    return HASTE * (UNKNOWN_SPEED if sight is None else sight.rows / SECONDS)


def passes(explainer: Explainer, cost: int, scores: Collection[str]) -> dict[str, int]:
    """About how many forward passes each score of an explainer takes per sample, and "" what all of them share."""
    maps = {
        "": 2,
        "symmetry": ALONG,
        RANKS: REPEATS if explainer.stochastic else 1,
        **{name: count for name, count in MAPS_OF.items() if name in scores},
    }
    curves = {name: STEPS + 1 for name in CURVES if name in scores}
    return {name: count * max(1, cost) for name, count in maps.items()} | curves


def affordable(
    costs: Mapping[str, int], allowed: float, size: int, samples: int | None, auto: bool, seconds: float, speed: float
) -> tuple[int, dict[str, str]]:
    """How many samples the allowed passes are enough for, and which explainers cost too much, with the reason.

    Of explainers that were named, none is left out; of chosen ones the most expensive, until 32 samples fit, or as many as were asked for.

    >>> affordable({"attn_lrp": 9, "gradient": 9, "lime": 900}, 500, 32, None, True, 1.0, 100.0)[1].keys()
    dict_keys(['lime', 'attn_lrp'])
    """
    costly: dict[str, str] = {}
    left = dict(sorted(costs.items(), key=lambda item: (item[1], KNOWN.index(item[0]) if item[0] in KNOWN else len(KNOWN))))
    sizes = [one for one in SIZES if one < size]
    sizes = [size, *sizes] if size <= SIZES[0] else sizes
    wanted = min(WANTED if samples is None else samples, size)
    while auto and len(left) > 1 and wanted * sum(left.values()) > allowed:
        label, cost = left.popitem()
        costly[label] = f"it does not fit into the budget beside the others, and takes about {duration(wanted * cost / speed)}"
    if samples is not None:
        return wanted, costly
    total = sum(left.values())
    fits = [one for one in sizes if one * total <= allowed]
    if not fits:
        least = min(sizes[-1], size)
        raise InputError(
            f"A budget of {seconds:.3g} s is too small: {least} samples of {of(len(left), 'explainer')} take about "
            f"{duration(least * total / speed)}. Give a budget of {written(least * total / speed)}, name fewer "
            "explainers, or set the number of samples, which counts whatever the budget."
        )
    return fits[0], costly
