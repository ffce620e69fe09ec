"""The part of the page about cross-trained models: their folds, the sets S= and S!=, and the choice of a method."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.core.sentences import tell
from veracity.report.figures.chart import legend
from veracity.report.figures.folded import COMPARABLE, Folded, FoldedData, draw_folded, folded_data
from veracity.report.figures.histograms import DIFFER, SAME, SET_COLOURS, draw_histograms, histograms_data
from veracity.report.figures.selection import draw_selection, selection_data
from veracity.report.phrases import piece, say, sentences
from veracity.report.plot import Plot, sign, signs
from veracity.report.reading import Reading
from veracity.report.stable import setting, stable
from veracity.report.view import explanation_scores
from veracity.report.wording import word_of
from veracity.core.wording import count, number
from veracity.scores.stability import MeGe, ReCo, StabilityScore

FIDELITY = ("mu_f", "mu_fidelity", "faithfulness_correlation")
"""Scores of fidelity beside which stability is read, the paper's own first."""
CAVEAT = (
    "Stability is necessary, not sufficient. An explanation that never looks at a model, such as an edge filter, is the same for every "
    "model, and one that is multiplied by the input gains from what all models share. So read MeGe beside fidelity, and ReCo beside "
    "what it scores when labels are permuted."
)


@dataclass(frozen=True, kw_only=True)
class CrossTraining:
    """What is said and drawn of cross-trained models; `caveat` is "" where no stability was measured."""

    caveat: str
    settings: tuple[str, ...]
    counts: tuple[int, ...]
    warnings: tuple[Markup, ...]
    folds: Plot | None
    selection: Plot | None
    histograms: tuple[Plot, ...]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """In how many folds the data were cut, in a word."""
        return [("Folds", " or ".join(map(str, self.counts)))] if self.counts else []

    @property
    def any(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.caveat or self.folds)


def crosstraining(reading: Reading) -> CrossTraining:
    """Everything that the run holds about folds and stability."""
    scores = stability_scores(reading)
    kinds = alike(scores)
    folded = folded_data(reading.run.folds(), reading.models)
    return CrossTraining(
        caveat=CAVEAT if scores else "",
        settings=tuple(dict.fromkeys(setting(scores[labels[0]]) for labels in kinds)),
        counts=tuple(sorted({len(item.folds) for item in folded.models})),
        warnings=tuple(piece("{}", fold_sentence(item)) for item in folded.models if item.spread > COMPARABLE and not item.comparable),
        folds=folds_plot(folded),
        selection=selection_plot(reading, scores),
        histograms=tuple(plot for labels in kinds if (plot := histograms_plot(reading, labels, several=len(kinds) > 1)) is not None),
    )


def stability_scores(reading: Reading) -> dict[str, StabilityScore]:
    """The scores of stability of a run, in its order."""
    return {label: score for label in explanation_scores(reading.rows) if (score := stable(reading.manifest, label)) is not None}


def alike(scores: dict[str, StabilityScore]) -> list[list[str]]:
    """Labels of scores that differ by their name alone, and so share their sets."""
    found: dict[str, list[str]] = {}
    for label, score in scores.items():
        key = json.dumps({name: value for name, value in score.spec().items() if name != "name"}, sort_keys=True, default=str)
        found.setdefault(key, []).append(label)
    return list(found.values())


def folds_plot(data: FoldedData) -> Plot | None:
    """How right each fold's model is about the fold that it never saw."""
    if not data.models:
        return None
    seconds = sum(fold.seconds for item in data.models for fold in item.folds if math.isfinite(fold.seconds))
    spent = f" All trainings took {count(round(seconds), 'second')}." if seconds >= 1 else ""
    return Plot(
        title="Accuracy of every fold",
        sentences=tuple(piece("{}", fold_sentence(item)) for item in data.models),
        note=f"Each dot is a model, held against the fold that it never saw.{spent}",
        keys=signs(sign('<circle class="dot" r="4.2"/>', "one fold"), sign('<line class="population" x1="-12" x2="12"/>', "worst to best")),
        drawing=draw_folded(data) if data.known else Markup(""),
    )


def fold_sentence(item: Folded) -> str:
    """Whether the folds of one model are comparably accurate, as stability takes for granted (section 3.3)."""
    folds, known = count(len(item.folds), "fold"), item.accuracies
    if not math.isfinite(item.spread):
        return tell("folds.unknown", item.model, folds, folds=len(item.folds))
    ends = f"{number(min(known))} to {number(max(known))}"
    apart = f"{100 * item.spread:.1f} points apart"
    if item.comparable:
        return tell("folds.comparable", item.model, folds, ends, apart, accuracies=len(known))
    noise = f"{100 * item.noise:.1f}"
    return tell("folds.apart", item.model, folds, ends, apart, f"{100 * COMPARABLE:g}", item.fewest, noise, accuracies=len(known))


def histograms_plot(reading: Reading, labels: Sequence[str], *, several: bool) -> Plot | None:
    """S= beside S!= of every explainer."""
    label = labels[0]
    frames = {row.explainer: row.frame for row in reading.of(label) if not row.control}
    sets = reading.run.sets(label)
    data = histograms_data(sets, reading.models, frames)
    if not data.panels:
        return None
    alike, differ = (max((int(np.isfinite(both[place]).sum()) for both in sets.values()), default=0) for place in (0, 1))
    whose = f" ({', '.join(word_of(one) for one in labels)})" if several else ""
    keys = signs(
        sign(f'<g class="{SET_COLOURS[0]}"><rect class="area" x="-12" y="-6" width="24" height="12"/></g>', SAME),
        sign(f'<g class="{SET_COLOURS[1]}"><line class="curve" x1="-12" x2="12"/></g>', DIFFER),
        sign('<line class="reference" x1="-12" x2="12"/>', "\N{GREEK SMALL LETTER GAMMA}*, where ReCo cuts"),
    )
    return Plot(
        title=f"Distances in {SAME} and {DIFFER}{whose}",
        sentences=tuple(sentences(say("stable.histograms", SAME, alike=alike, differ=differ))),
        note="Across: the distance between the explanations of two models, in bins that all plots share. Up: the share of each set.",
        keys=keys,
        drawing=draw_histograms(data),
    )


def selection_plot(reading: Reading, scores: dict[str, StabilityScore]) -> Plot | None:
    """MeGe and ReCo against fidelity, where all were measured."""
    labels = explanation_scores(reading.rows)
    fidelity = next((label for kind in FIDELITY for label in labels if reading.name(label) == kind), "")
    chosen = [label for kind in (MeGe, ReCo) for label in [label for label, score in scores.items() if isinstance(score, kind)][:1]]
    data = selection_data(reading.rows, fidelity, chosen, reading.models)
    if not fidelity or not data.panels:
        return None
    return Plot(
        title="Choosing a method",
        sentences=tuple(sentences(say("stable.selection", explainers=max(len(panel.points) for panel in data.panels)))),
        note=(
            f"Across: {word_of(fidelity)}. Up: {' or '.join(word_of(label) for label in chosen)}. Bars are {reading.level} intervals, "
            "each of its own number: whether two explainers differ, their paired differences say."
        ),
        keys=legend(reading.models)
        + signs(
            sign('<line class="ends" x1="-12" x2="12"/><circle class="dot" r="4.2"/>', "explainer"),
            sign('<circle class="ring" r="4.2"/>', "control, which never looks at a model"),
        ),
        drawing=draw_selection(data),
    )
