"""Every sentence that a result can say about its data, with the counts that it needs: with less data, it is not said.

docs/report-sentences.md shows this table as a page. Add a new sentence about data here; `tell` says it as plain text and
`veracity.report.wording.say` on a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

COUNT_WORDS = {
    "accuracies": ("fold with a known accuracy", "folds with known accuracies"),
    "agreements": ("explainer with a value, an interval and a self-agreement", "explainers with a value, an interval and a self-agreement"),
    "alike": ("distance in S=", "distances in S="),
    "apart": ("paired difference that excludes zero", "paired differences that exclude zero"),
    "asked": ("explainer that was asked for", "explainers that were asked for"),
    "assumed": ("assumption that was measured", "assumptions that were measured"),
    "bounds": ("score with a finite range and all of its draws", "scores with a finite range and all of their draws"),
    "calibrations": ("calibration that reached chance", "calibrations that reached chance"),
    "cells": ("planned cell", "planned cells"),
    "chances": ("explainer with an interval or a p-value, and a known chance level", "explainers with an interval and a chance level"),
    "controls": ("control with a value and an interval", "controls with a value and an interval"),
    "correlations": ("correlation over three samples or more", "correlations over three samples or more"),
    "curves": ("explainer with a curve", "explainers with a curve"),
    "damaged": ("explainer with three seeds that have a value at every level", "explainers with three such seeds"),
    "differ": ("distance in S!=", "distances in S!="),
    "distances": ("distance with a verdict", "distances with a verdict"),
    "equal": ("explainer whose samples are all equal", "explainers whose samples are all equal"),
    "evaluated": ("row of a search", "rows of a search"),
    "explainers": ("explainer with a value", "explainers with a value"),
    "facts": ("fact whose reliability was tested", "facts whose reliability was tested"),
    "failures": ("failure", "failures"),
    "folds": ("fold", "folds"),
    "intervals": ("explainer with an interval", "explainers with an interval"),
    "invariances": ("model with an interval of its invariance", "models with an interval of their invariance"),
    "kept": ("explainer that respects the symmetry on the most invariant model", "such explainers"),
    "left": ("pending cell", "pending cells"),
    "levels": ("level", "levels"),
    "lost": ("explainer without a value", "explainers without a value"),
    "measured": ("score that was measured", "scores that were measured"),
    "nulls": ("known null", "known nulls"),
    "open": ("run that is running or unfinished", "runs that are running or unfinished"),
    "paired": ("pair of explainers with a paired difference", "pairs of explainers with a paired difference"),
    "pending": ("pending row", "pending rows"),
    "published": ("explainer with a value and a published figure", "explainers with a value and a published figure"),
    "randoms": ("explainer with an interval and a random control", "explainers with an interval and a random control"),
    "records": ("record of the search", "records of the search"),
    "robust": ("explainer whose interval lies at or above the mark", "explainers whose intervals lie at or above the mark"),
    "samples": ("sample with a value", "samples with a value"),
    "scores": ("score with a meta-consistency and its spread", "scores with a meta-consistency and its spread"),
    "silent": ("explainer that does not respond on some sample", "explainers that do not respond on some sample"),
    "steps": ("step of the training with a value", "steps of the training with a value"),
    "tested": ("explainer with a p-value", "explainers with a p-value"),
    "undefined": ("undefined value", "undefined values"),
    "widths": ("explainer with an interval over draws", "explainers with an interval over draws"),
    "writers": ("process that is measuring", "processes that are measuring"),
}
"""The name of each count in singular and plural."""


@dataclass(frozen=True)
class Sentence:
    """A template with places for its parts, and the smallest counts that it needs."""

    template: str
    needs: Mapping[str, int]

    @property
    def words(self) -> str:
        """The counts that it needs, in words.

        >>> Sentence("{} is ahead of {}.", {"explainers": 2, "apart": 1}).words
        'at least 2 explainers with a value, at least 1 paired difference that excludes zero'
        """
        return ", ".join(f"at least {least} {COUNT_WORDS[what][least > 1]}" for what, least in self.needs.items())


def sentence(template: str, **counts: int) -> Sentence:
    """A template with the smallest counts that it needs."""
    return Sentence(template, counts)


SENTENCES = {
    # --- how far a run has come
    "run.running": sentence("Running: {}.", writers=1),
    "run.unfinished": sentence("Unfinished: {}, and nothing is running. Run the same command to continue{}", left=1),
    "run.failures": sentence("Finished; {} failed: {}. Run the same command to try again{}", failures=1),
    "run.done": sentence("Finished: {} measured.", cells=1),
    "run.snapshot": sentence("This file is a snapshot of {}.", open=1),
    # --- an order of explainers
    "order.single": sentence("By {}{}, {} scores {}.", explainers=1),
    "order.ahead": sentence("By {}{}, {} is ahead of every other explainer: {}.{}", explainers=2, apart=1),
    "order.behind": sentence("By {}{}, {} is behind every other explainer: {}.", explainers=2, apart=1),
    "order.first": sentence("By {}{}, {} comes first with {}{}, but cannot be told apart from {}.{}", explainers=2, apart=1),
    "order.pairs": sentence(" Of {}, {} can be told apart.", paired=2, apart=1),
    "order.level": sentence("By {}{}, {} cannot be told apart: none of their paired differences excludes zero.", explainers=2, paired=1),
    "order.unpaired": sentence("By {}{}, {} cannot be told apart: they have no paired differences.", explainers=2),
    "order.bounds": sentence("By {}{}, {} cannot be told apart: every {} is {}.", explainers=2),
    "order.few": sentence("With only {}, {} cannot be told apart by {}{}.", explainers=2),
    "order.units": sentence("{} has the units of the map, so it compares samples and models, not explainers.", explainers=2),
    # --- the answer of one score
    "answer.none": sentence("No explainer has a value of {}.", asked=1),
    "answer.pending": sentence("Not measured yet: {}.", pending=1),
    "answer.respect": sentence("{} the symmetry. An explainer respects it if its {} interval of {} lies at or above {}.", intervals=1),
    "answer.untold": sentence(
        "No explainer has an interval of {}, so it is unknown whether they respect the symmetry: measure more samples.", explainers=1
    ),
    "answer.models": sentence("Under the transforms, {}.", invariances=1),
    "answer.undefined": sentence("Model invariance is undefined.", undefined=1),
    "answer.unmeasured": sentence("Model invariance is not measured yet.", pending=1),
    "answer.failed": sentence("Model invariance failed.", failures=1),
    "remark.reacts": sentence(
        "The model itself reacts to the transforms, so a changed explanation may be correct: a low score alone is not a fault.",
        invariances=1,
    ),
    "remark.noise": sentence(
        "The interval comes within {} of the explainer's agreement with itself, which points to noise, not asymmetry: {}.", agreements=1
    ),
    "remark.random": sentence("Not clearly better than the random control: {}.", randoms=1),
    "remark.unseen": sentence(
        "All samples have the same value, but other samples may differ. At most this share of the population does: {}.", equal=1
    ),
    "remark.silent": sentence("The score is undefined on samples whose explanation does not respond at all: {}.", silent=1),
    "chance.share": sentence("Of the explainers, {} do better than chance, which is what {}{}.", chances=1),
    "chance.blind": sentence("Controls that never look at the model score no worse than some explainers: {}.", controls=1, intervals=1),
    "chance.null": sentence("A deterministic explanation that is unrelated to the model scores {}, not 0.", nulls=1),
    # --- many scores at once
    "leaders.one": sentence("By {}{}, {} is ahead of every other explainer.", explainers=2, apart=1),
    "leaders.many": sentence("{} {}, {}.", explainers=2, apart=1, measured=2),
    "leaders.none": sentence("{} {}, no explainer is ahead of every other one in any.", explainers=2, measured=2),
    "assumed.hold": sentence("The assumptions of every score hold on more than nine of ten samples.", assumed=1),
    "assumed.fail": sentence("{} a score assumes about the model often fails for {}.", assumed=1),
    "assumed.untold": sentence("{}; this could not be checked on any sample.", assumed=1),
    "assumed.all": sentence("{}; on all {} samples it {}.", samples=1),
    "assumed.some": sentence("{}; on {} of {} samples it {} not.", samples=1),
    "assumed.label": sentence("{} assumes {}; it holds on {} of {} samples.", samples=1),
    "assumed.label_untold": sentence("{} assumes {}; this could not be checked on any sample.", assumed=1),
    # --- figures
    "search.moved": sentence("{}: over the last quarter of the evaluations, the middle seed of {} moved most, by {}.", records=8),
    "search.still": sentence("{}: over the last quarter of the evaluations, no middle seed moved by more than {}.", records=8),
    "convergence.width": sentence("After {} per sample, the widest {} interval over draws is that of {} on {}: {}.", widths=2),
    "convergence.single": sentence("After {} per sample, the {} interval over draws of {} on {} is {}.", widths=1),
    "convergence.bound": sentence(
        "Whatever the values are, Hoeffding's inequality promises an error of at most {} for {} and {}.", widths=1, bounds=1
    ),
    "relaxation": sentence("{} {} the symmetry on {}, at or above {}. On other models, these do not: {}.", kept=1, invariances=2),
    "training": sentence("From step {} to step {}, {}.", steps=2),
    "calibration": sentence("Predictions fall to chance: {}.", calibrations=1),
    "calibration.above": sentence("Of {}, {}.", calibrations=1),
    "sensitivity.range": sentence(
        "Pearson's correlation r over samples lies between {} and {}. The closer it is to {}, the more the two scores agree.",
        correlations=2,
    ),
    "sensitivity.single": sentence(
        "Pearson's correlation r over samples is {}. The closer it is to {}, the more the two scores agree.", correlations=1
    ),
    "alignment.furthest": sentence(
        "From the first level to the last, the explanations of {}{} move furthest: from {} to {}.", curves=2, levels=2
    ),
    "alignment.single": sentence("From the first level to the last, the explanations of {}{} move from {} to {}.", curves=1, levels=2),
    "alignment.random": sentence("Random explanations go from {} to {}.", curves=1, levels=2),
    "scatter.overlap": sentence(
        "If the clouds of two levels overlap, the strength of the perturbation does not determine its effect.", curves=1, levels=2
    ),
    "curves.early": sentence("Once {} % of the input is masked, {} is{} {}.", curves=1, levels=2),
    "learnt.all": sentence("All {} can be trusted.", facts=2),
    "learnt.one": sentence("It can be trusted.", facts=1),
    "learnt.some": sentence("Of {}, {} cannot be trusted and {} not used.", facts=1),
    "advice.robust": sentence("No change is needed for {}: {} the symmetry.", robust=1),
    # --- stability
    "stable.same_empty": sentence("{} is empty{}, so {} is undefined: no pair of models that {} has a distance.", lost=1),
    "stable.differ_empty": sentence("{} is empty{}, so {} is undefined: {}.", lost=1, alike=1),
    "stable.equal": sentence("{} is undefined{} for {}: all distances are equal, so there is no threshold.", lost=1, alike=1),
    "stable.few": sentence("{} holds at most {}{}, so {} is based on few distances.", explainers=1, differ=1),
    "stable.signal": sentence("{} {}{} is above the score of permuted labels (p at most {}{}).", tested=1),
    "stable.no_signal": sentence(
        "By {}{}, {} {} indistinguishable from no signal: permuted labels score as high (p at least {}{}).", tested=1
    ),
    "stable.blind": sentence("{} {}{} at a model: a stable explanation may still be wrong.", controls=1),
    "stable.published": sentence("The order of these {} explainers{} and the published order have a rank correlation of {}.", published=3),
    "stable.floor": sentence(
        "With distances of at most 1, {} cannot be below {}, but some published values are: compare orders, not values.", published=1
    ),
    "stable.undefined": sentence("Pairs without a distance are left out, because a constant map has no ranks: {}.", undefined=1),
    "stable.histograms": sentence(
        "Explanations are more consistent the further the histogram of {} lies to the left of the other.", alike=1, differ=1
    ),
    "stable.selection": sentence("Good methods lie at the upper right. A method that is only high may be stable and wrong.", explainers=2),
    "folds.unknown": sentence("{}: the accuracies of its {} are unknown, so they cannot be compared.", folds=1),
    "folds.comparable": sentence("{}: its {} have comparable accuracies, {}, {}.", accuracies=2),
    "folds.apart": sentence(
        "{}: the accuracies of its {} are not comparable: {}, {}, but the method allows at most {}. Explanations may differ because the "
        "models do. With only {} samples per fold, chance alone changes an accuracy by up to {} points.",
        accuracies=2,
    ),
    # --- robustness
    "spent.one": sentence("{}.", evaluated=1),
    "spent.each": sentence("{} for each of {}, {} in all.", evaluated=2),
    "spent.some": sentence("{}: {}.", evaluated=2),
    # --- studies
    "meta.apart": sentence("Of {}, under {}, {} ({} of 1) is more consistent than {} ({}).", scores=2),
    "meta.level": sentence("Of {}, under {}, no two can be told apart: their spreads over iterations overlap.", scores=2),
    "meta.untold": sentence("The spread over iterations is unknown, so scores cannot be told apart: run more iterations.", measured=2),
    "damage.follows": sentence("{} follows the damage of {} for {}{}{}.", damaged=1),
    "damage.untold": sentence("It is unknown whether {} follows the damage of {}: no explainer has values for enough seeds.", measured=1),
    "distances.test": sentence("{}: of {}, {}.", distances=1),
    "distances.all": sentence("These distances pass all tests: {}.", distances=1),
    "distances.none": sentence("No distance passes all tests.", distances=1),
    "scan.undefined": sentence("The invariance is undefined on every sample.", undefined=1),
    "scan.empty": sentence(
        "Outputs for different inputs are just as similar, so every symmetry is kept: the model does not react to its input.", samples=1
    ),
    "scan.broken": sentence(
        "Not kept: outputs for transformed inputs agree by {:.3f} on average and {:.3f} on the worst sample{}{}.", samples=1
    ),
    "scan.first": sentence("{}; it has {}, and no kept symmetry has more.", samples=1),
    "scan.tied": sentence("{}; it has {} like {}: the order of the two means nothing.", samples=1),
    "scan.fewer": sentence("{}; it has {}, fewer than {}.", samples=1),
    "scan.null": sentence("Outputs for different inputs agree by {:.3f}.", samples=1),
    # --- advice
    "flowchart.undefined": sentence("The score is undefined.", undefined=1),
    "flowchart.untold": sentence("The score has no interval, so it is unknown whether the explainer respects the symmetry.", samples=1),
    "flowchart.robust": sentence("It respects the symmetry.", intervals=1),
    "flowchart.model": sentence("No guarantee holds for a model that is only nearly invariant, however small its deviation.", intervals=1),
    "flowchart.baseline": sentence(
        "Equivariance needs a baseline that the symmetry leaves in place (Propositions D.6 and D.8).", intervals=1
    ),
    "flowchart.noise": sentence(
        "It disagrees with itself just as much on the same input, so the cause is noise, not asymmetry.", agreements=1
    ),
    "flowchart.layer": sentence(
        "An explanation that reads a layer is invariant only if the layer is (Propositions D.12 and D.14).", intervals=1
    ),
    "flowchart.representation": sentence(
        "Only the plain gradient follows a symmetry that mixes features (Corollary D.5 against Proposition D.6).", intervals=1
    ),
    "flowchart.unknown": sentence("Every measured assumption holds, but the explainer is still not robust.", intervals=1),
    "advice.after": sentence("after it: {:.3f} -> {:.3f}{}.", samples=1),
    "advice.not_after": sentence("after it: not measured.", intervals=1),
    "advice.measured": sentence("measured: {}.", asked=1),
    # --- tables in a terminal and in plain text
    "table.silent": sentence("No response: {}.", silent=1),
    "table.constant": sentence("No distance, because maps are constant: {}.", undefined=1),
    "table.undefined": sentence("Undefined, because {}: {}.", lost=1),
    "table.caveat": sentence("{} is necessary, but not sufficient: {} has it too.", explainers=1),
    "failed": sentence("{} failed{}: {}", failures=1),
    "table.units": sentence("In the units of each map, in the run's order: compares samples and models, not explainers.", explainers=1),
    "page.complete": sentence("No value is undefined, nothing failed, and there are no notes.", measured=1),
}
"""Every sentence by its key."""


def template_for(key: str, **found: int) -> str:
    """The template of a sentence, or "" if a count in `found` is too small; `found` must hold exactly the counts of the table."""
    sentence = SENTENCES[key]
    if set(found) != set(sentence.needs):
        raise TypeError(f"The sentence '{key}' needs the counts {', '.join(sentence.needs)}, not {', '.join(found) or 'none'}.")
    return sentence.template if all(found[what] >= least for what, least in sentence.needs.items()) else ""


def tell(key: str, *parts: object, **found: int) -> str:
    """A sentence as plain text, or "" if a count in `found` is too small.

    >>> tell("order.single", "equivariance", "", "saliency", "0.5", explainers=1)
    'By equivariance, saliency scores 0.5.'
    >>> tell("order.single", "equivariance", "", "saliency", "0.5", explainers=0)
    ''
    """
    return template_for(key, **found).format(*parts)
