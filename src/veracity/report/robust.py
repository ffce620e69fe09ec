"""The figures of robustness: searches, rare events, radii and adversarial explanations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from veracity.report.figures.adversaries import AdversariesData, Kept, Subject, adversaries_data, draw_adversaries
from veracity.report.figures.chart import legend
from veracity.report.figures.dots import ARROW, dots_data, draw_dots
from veracity.report.figures.profile import draw_profiles, profile_data
from veracity.report.figures.rarity import draw_rarity, rarity_data
from veracity.report.figures.search import draw_search, search_data, search_sentences
from veracity.report.hunted import hunted
from veracity.report.plot import Plot, sign, signs
from veracity.report.reading import Reading
from veracity.report.view import WorstPair
from veracity.report.wording import compact
from veracity.scores.robustness.base import Misinterpretation, SearchScore
from veracity.scores.robustness.probability import Rare
from veracity.scores.robustness.worst import Sol

SEED = sign('<line class="seed" x1="-12" x2="12"/>', "one seed")
MIDDLE = sign('<line class="curve" x1="-12" x2="12"/><circle class="dot" r="4.2"/>', "the middle seed")
EVENTS = {True: "F-hat", False: "F-tilde"}
BESIDE = ("name", "walk", "threshold", "common_draws")
"""Settings that two scores of the same place may differ in."""


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Adversarial explanations, drawn by model, with how to read them."""

    note: str
    signed: bool
    models: tuple[tuple[str, Markup], ...]


def robust_plots(reading: Reading, label: str, frames: Mapping[str, str]) -> list[Plot]:
    """Every figure of one robustness score of explanations, or with no `frames` of models; none of another score."""
    score = hunted(reading.manifest, label)
    if score is None:
        return []
    frames = {name: frames[name] for name in explainers(reading) if name in frames}
    made = [dots_plot(reading, label, frames), rarity_plot(reading, label, score, frames)] if isinstance(score, Rare) else []
    return [plot for plot in (*made, None if made else search_plot(reading, label, score, frames)) if plot is not None]


def search_plot(reading: Reading, label: str, score: SearchScore, frames: Mapping[str, str]) -> Plot | None:
    """The worst point so far against evaluations."""
    series = [one for one in reading.run.series if one.score == label]
    data = search_data(score, series, reading.models, list(frames))
    if not data.panels:
        return None
    free = " A seed without a feasible point counts as harmless, so that the middle begins where half of the seeds have one."
    note = f"Across: evaluations of one seed. Up: {data.up}.{free if isinstance(score, Misinterpretation) else ''}"
    return Plot(
        title="How the search went",
        sentences=tuple(search_sentences(data)),
        note=note,
        keys=legend(list(frames) or reading.models) + signs(SEED, MIDDLE),
        drawing=draw_search(data),
    )


def rarity_plot(reading: Reading, label: str, score: SearchScore, frames: Mapping[str, str]) -> Plot | None:
    """ln P against the threshold, level by level."""
    series = [one for one in reading.run.series if one.score == label]
    data = rarity_data(score, series, reading.models, list(frames))
    if not data.panels:
        return None
    note = (
        f"Across: {data.across} that a random point close by has to get past. Up: ln P of doing so, as the product of the levels "
        "passed so far. A seed's first level stands for all milder thresholds; the middle ends where half of the seeds were given up."
    )
    keys = signs(SEED, MIDDLE, sign('<line class="reference" x1="-12" x2="12"/>', "the event"))
    return Plot(
        title="Probability against rarity",
        sentences=(),
        note=note,
        keys=legend(list(frames) or reading.models) + keys,
        drawing=draw_rarity(data),
    )


def dots_plot(reading: Reading, label: str, frames: Mapping[str, str]) -> Plot | None:
    """ln P of every sample with its interval."""
    data = dots_data(reading.run.samples(label), reading.models, frames or {"": ""}, reading.confidence)
    if not data.subjects:
        return None
    keys = signs(
        sign('<line class="ends" y1="-7" y2="7"/><circle class="dot" r="4.2"/>', f"ln P with its {reading.level} interval"),
        sign(f'<path class="arrow" d="{ARROW}"/>', "censored: at most this"),
        sign(f'<path class="arrow stuck" d="{ARROW}"/>', "stuck: the walk found no further point"),
    )
    return Plot(
        title="Sample by sample",
        sentences=(),
        note="Across: the number of the sample. Up: ln P. The interval of a sample is that of other random walks.",
        keys=legend(reading.models) + keys,
        drawing=draw_dots(data),
    )


def profile_plot(reading: Reading) -> Plot | None:
    """Worst cases and probabilities against the radius, where several scores differ by it alone."""
    data = profile_data(scores_of(reading), reading.rows, reading.models, explainers(reading))
    if not data:
        return None
    return Plot(
        title="How it grows with the radius",
        sentences=(),
        note=(
            f"Across: the radius. Up: the mean over samples, or of ln P the median, with its {reading.level} interval; a median of fewer "
            "than six samples has none. An arrow stands where the median is only known to lie at or below."
        ),
        keys=legend(explainers(reading)) + signs(sign(f'<path class="arrow" d="{ARROW}"/>', "at most this")),
        drawing=draw_profiles(data),
    )


def scores_of(reading: Reading) -> dict[str, SearchScore]:
    """The robustness scores of a run, in its order."""
    labels = dict.fromkeys(row.score for row in reading.rows)
    return {label: score for label in labels if (score := hunted(reading.manifest, label)) is not None}


def explainers(reading: Reading) -> list[str]:
    """The explainers that robustness was asked of, without controls, in the run's order."""
    return list(dict.fromkeys(row.explainer for row in reading.rows if row.hunted and row.explainer and not row.control))


def adversaries(reading: Reading) -> Gallery | None:
    """Seeds, and the most deceptive points found around them; of several places, those where most events were asked for."""
    places: dict[str, dict[bool, str]] = {}
    scores = scores_of(reading)
    for label, score in sorted(scores.items(), key=lambda item: not isinstance(item[1], Sol)):
        if isinstance(score, Misinterpretation):
            key = json.dumps({name: value for name, value in score.spec().items() if name not in BESIDE}, sort_keys=True, default=str)
            places.setdefault(key, {}).setdefault(score.kept, label)
    best = max(places.values(), key=len, default={})
    events = {EVENTS[kept]: kept_of(reading, best[kept]) for kept in (True, False) if kept in best}
    if not events:
        return None
    score = scores[next(iter(best.values()))]
    names = [row.explainer for row in reading.rows if row.score in best.values() and row.frame == "input" and not row.control]
    share = score.compare.name != "pearson"
    signed = isinstance(score, Misinterpretation) and score.signed
    groups = reading.groups(next(iter(best.values())))
    data = adversaries_data(events, reading.models, list(dict.fromkeys(names)), signed=signed, share=share, groups=groups)
    drawn = tuple((model, draw_adversaries(items, data)) for model, items in data.models)
    return Gallery(note=gallery_note(score, data, len(places)), signed=signed, models=drawn) if drawn else None


def gallery_note(score: SearchScore, data: AdversariesData, places: int) -> str:
    """How to read the pictures."""
    where = f"within {compact(score.radius)} of the seed" if score.space is None else "in the space around the seed"
    said = [f"The worst points found {where}: F-hat keeps the label and changes the map, F-tilde changes the label and keeps the map."]
    said += ["The seeds are those for which most was kept; of several radii and settings one is shown."] if places > 1 else []
    kind = "Maps are signed" if data.signed else "Maps are shown as they are compared, in absolute value"
    scale = "those of a row share one scale" if data.share else "each on a scale of its own, since a correlation has none"
    return " ".join([*said, f"{kind}, summed over channels, {scale}."])


def kept_of(reading: Reading, label: str) -> Kept:
    """What the run keeps of one event."""
    found = reading.run.worst(label, 1_000_000)
    frame = reading.run.samples(label)
    vain = [row for row in frame.to_dict("records") if row.get("infeasible") is True]
    none = frozenset((str(row["model"]), str(row["explainer"]), int(row["sample"])) for row in vain)
    return Kept(pairs={(one.model, one.explainer, one.sample): one for one in found}, labels=labels_of(found), none=none)


def labels_of(found: Sequence[WorstPair]) -> dict[Subject, tuple[int, int]]:
    """The class of each kept seed, and of the point found beside it, where they were kept."""
    return {
        (one.model, one.explainer, one.sample): (one.label, one.predicted)
        for one in found
        if one.label is not None and one.predicted is not None
    }


def robust_caveat(reading: Reading) -> str:
    """What robustness does not say; "" where it was not asked of explanations."""
    if not any(isinstance(score, Misinterpretation) for score in scores_of(reading).values()):
        return ""
    return (
        "A map that never changes is immune to F-hat and helpless against F-tilde; a random map the other way round. Neither says "
        "anything of the model. So read both together, and beside them how robust the prediction itself is. A worst case is what a "
        "search found, and more evaluations can only make it worse."
    )
