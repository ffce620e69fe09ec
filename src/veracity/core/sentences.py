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


def template(text: str, **counts: int) -> Sentence:
    """A template with the smallest counts that it needs."""
    return Sentence(text, counts)


SENTENCES = {
    # --- how far a run has come
    "run.running": template("Running: {}.", writers=1),
    "run.unfinished": template("Unfinished: {}, and nothing is running. Run the same command to continue{}", left=1),
    "run.failures": template("Finished; {} failed: {}. Run the same command to try again{}", failures=1),
    "run.done": template("Finished: {} measured.", cells=1),
    "run.snapshot": template("This file is a snapshot of {}.", open=1),
    # --- an order of explainers
    "order.single": template("By {}{}, {} scores {}.", explainers=1),
    "order.ahead": template("By {}{}, {} is ahead of every other explainer: {}.{}", explainers=2, apart=1),
    "order.behind": template("By {}{}, {} is behind every other explainer: {}.", explainers=2, apart=1),
    "order.first": template("By {}{}, {} comes first with {}{}, but cannot be told apart from {}.{}", explainers=2, apart=1),
    "order.pairs": template(" Of {}, {} can be told apart.", paired=2, apart=1),
    "order.level": template("By {}{}, {} cannot be told apart: none of their paired differences excludes zero.", explainers=2, paired=1),
    "order.unpaired": template("By {}{}, {} cannot be told apart: they have no paired differences.", explainers=2),
    "order.bounds": template("By {}{}, {} cannot be told apart: every {} is {}.", explainers=2),
    "order.few": template("With only {}, {} cannot be told apart by {}{}.", explainers=2),
    "order.units": template("{} has the units of the map, so it compares samples and models, not explainers.", explainers=2),
    # --- the answer of one score
    "answer.none": template("No explainer has a value of {}.", asked=1),
    "answer.pending": template("Not measured yet: {}.", pending=1),
    "answer.respect": template("{} the symmetry. An explainer respects it if its {} interval of {} lies at or above {}.", intervals=1),
    "answer.untold": template(
        "No explainer has an interval of {}, so it is unknown whether they respect the symmetry: measure more samples.", explainers=1
    ),
    "answer.models": template("Under the transforms, {}.", invariances=1),
    "answer.undefined": template("Model invariance is undefined.", undefined=1),
    "answer.unmeasured": template("Model invariance is not measured yet.", pending=1),
    "answer.failed": template("Model invariance failed.", failures=1),
    "remark.reacts": template(
        "The model itself reacts to the transforms, so a changed explanation may be correct: a low score alone is not a fault.",
        invariances=1,
    ),
    "remark.noise": template(
        "The interval comes within {} of the explainer's agreement with itself, which points to noise, not asymmetry: {}.", agreements=1
    ),
    "remark.random": template("Not clearly better than the random control: {}.", randoms=1),
    "remark.unseen": template(
        "All samples have the same value, but other samples may differ. At most this share of the population does: {}.", equal=1
    ),
    "remark.silent": template("The score is undefined on samples whose explanation does not respond at all: {}.", silent=1),
    "chance.share": template("Of the explainers, {} do better than chance, which is what {}{}.", chances=1),
    "chance.blind": template("Controls that never look at the model score no worse than some explainers: {}.", controls=1, intervals=1),
    "chance.null": template("A deterministic explanation that is unrelated to the model scores {}, not 0.", nulls=1),
    # --- many scores at once
    "leaders.one": template("By {}{}, {} is ahead of every other explainer.", explainers=2, apart=1),
    "leaders.many": template("{} {}, {}.", explainers=2, apart=1, measured=2),
    "leaders.none": template("{} {}, no explainer is ahead of every other one in any.", explainers=2, measured=2),
    "assumed.hold": template("The assumptions of every score hold on more than nine of ten samples.", assumed=1),
    "assumed.fail": template("{} a score assumes about the model often fails for {}.", assumed=1),
    "assumed.untold": template("{}; this could not be checked on any sample.", assumed=1),
    "assumed.all": template("{}; on all {} samples it {}.", samples=1),
    "assumed.some": template("{}; on {} of {} samples it {} not.", samples=1),
    "assumed.label": template("{} assumes {}; it holds on {} of {} samples.", samples=1),
    "assumed.label_untold": template("{} assumes {}; this could not be checked on any sample.", assumed=1),
    # --- figures
    "search.moved": template("{}: over the last quarter of the evaluations, the middle seed of {} moved most, by {}.", records=8),
    "search.still": template("{}: over the last quarter of the evaluations, no middle seed moved by more than {}.", records=8),
    "convergence.width": template("After {} per sample, the widest {} interval over draws is that of {} on {}: {}.", widths=2),
    "convergence.single": template("After {} per sample, the {} interval over draws of {} on {} is {}.", widths=1),
    "convergence.bound": template(
        "Whatever the values are, Hoeffding's inequality promises an error of at most {} for {} and {}.", widths=1, bounds=1
    ),
    "relaxation": template("{} {} the symmetry on {}, at or above {}. On other models, these do not: {}.", kept=1, invariances=2),
    "training": template("From step {} to step {}, {}.", steps=2),
    "calibration": template("Predictions fall to chance: {}.", calibrations=1),
    "calibration.above": template("Of {}, {}.", calibrations=1),
    "sensitivity.range": template(
        "Pearson's correlation r over samples lies between {} and {}. The closer it is to {}, the more the two scores agree.",
        correlations=2,
    ),
    "sensitivity.single": template(
        "Pearson's correlation r over samples is {}. The closer it is to {}, the more the two scores agree.", correlations=1
    ),
    "alignment.furthest": template(
        "From the first level to the last, the explanations of {}{} move furthest: from {} to {}.", curves=2, levels=2
    ),
    "alignment.single": template("From the first level to the last, the explanations of {}{} move from {} to {}.", curves=1, levels=2),
    "alignment.random": template("Random explanations go from {} to {}.", curves=1, levels=2),
    "scatter.overlap": template(
        "If the clouds of two levels overlap, the strength of the perturbation does not determine its effect.", curves=1, levels=2
    ),
    "curves.early": template("Once {} % of the input is masked, {} is{} {}.", curves=1, levels=2),
    "learnt.all": template("All {} can be trusted.", facts=2),
    "learnt.one": template("It can be trusted.", facts=1),
    "learnt.some": template("Of {}, {} cannot be trusted and {} not used.", facts=1),
    "advice.robust": template("No change is needed for {}: {} the symmetry.", robust=1),
    # --- stability
    "stable.same_empty": template("{} is empty{}, so {} is undefined: no pair of models that {} has a distance.", lost=1),
    "stable.differ_empty": template("{} is empty{}, so {} is undefined: {}.", lost=1, alike=1),
    "stable.equal": template("{} is undefined{} for {}: all distances are equal, so there is no threshold.", lost=1, alike=1),
    "stable.few": template("{} holds at most {}{}, so {} is based on few distances.", explainers=1, differ=1),
    "stable.signal": template("{} {}{} is above the score of permuted labels (p at most {}{}).", tested=1),
    "stable.no_signal": template(
        "By {}{}, {} {} indistinguishable from no signal: permuted labels score as high (p at least {}{}).", tested=1
    ),
    "stable.blind": template("{} {}{} at a model: a stable explanation may still be wrong.", controls=1),
    "stable.published": template("The order of these {} explainers{} and the published order have a rank correlation of {}.", published=3),
    "stable.floor": template(
        "With distances of at most 1, {} cannot be below {}, but some published values are: compare orders, not values.", published=1
    ),
    "stable.undefined": template("Pairs without a distance are left out, because a constant map has no ranks: {}.", undefined=1),
    "stable.histograms": template(
        "Explanations are more consistent the further the histogram of {} lies to the left of the other.", alike=1, differ=1
    ),
    "stable.selection": template("Good methods lie at the upper right. A method that is only high may be stable and wrong.", explainers=2),
    "folds.unknown": template("{}: the accuracies of its {} are unknown, so they cannot be compared.", folds=1),
    "folds.comparable": template("{}: its {} have comparable accuracies, {}, {}.", accuracies=2),
    "folds.apart": template(
        "{}: the accuracies of its {} are not comparable: {}, {}, but the method allows at most {}. Explanations may differ because the "
        "models do. With only {} samples per fold, chance alone changes an accuracy by up to {} points.",
        accuracies=2,
    ),
    # --- robustness
    "spent.one": template("{}.", evaluated=1),
    "spent.each": template("{} for each of {}, {} in all.", evaluated=2),
    "spent.some": template("{}: {}.", evaluated=2),
    # --- studies
    "meta.apart": template("Of {}, under {}, {} ({} of 1) is more consistent than {} ({}).", scores=2),
    "meta.level": template("Of {}, under {}, no two can be told apart: their spreads over iterations overlap.", scores=2),
    "meta.untold": template("The spread over iterations is unknown, so scores cannot be told apart: run more iterations.", measured=2),
    "damage.follows": template("{} follows the damage of {} for {}{}{}.", damaged=1),
    "damage.untold": template("It is unknown whether {} follows the damage of {}: no explainer has values for enough seeds.", measured=1),
    "distances.test": template("{}: of {}, {}.", distances=1),
    "distances.all": template("These distances pass all tests: {}.", distances=1),
    "distances.none": template("No distance passes all tests.", distances=1),
    "scan.undefined": template("The invariance is undefined on every sample.", undefined=1),
    "scan.empty": template(
        "Outputs for different inputs are just as similar, so every symmetry is kept: the model does not react to its input.", samples=1
    ),
    "scan.broken": template(
        "Not kept: outputs for transformed inputs agree by {:.3f} on average and {:.3f} on the worst sample{}{}.", samples=1
    ),
    "scan.first": template("{}; it has {}, and no kept symmetry has more.", samples=1),
    "scan.tied": template("{}; it has {} like {}: the order of the two means nothing.", samples=1),
    "scan.fewer": template("{}; it has {}, fewer than {}.", samples=1),
    "scan.null": template("Outputs for different inputs agree by {:.3f}.", samples=1),
    # --- advice
    "flowchart.undefined": template("The score is undefined.", undefined=1),
    "flowchart.untold": template("The score has no interval, so it is unknown whether the explainer respects the symmetry.", samples=1),
    "flowchart.robust": template("It respects the symmetry.", intervals=1),
    "flowchart.model": template("No guarantee holds for a model that is only nearly invariant, however small its deviation.", intervals=1),
    "flowchart.baseline": template(
        "Equivariance needs a baseline that the symmetry leaves in place (Propositions D.6 and D.8).", intervals=1
    ),
    "flowchart.noise": template(
        "It disagrees with itself just as much on the same input, so the cause is noise, not asymmetry.", agreements=1
    ),
    "flowchart.layer": template(
        "An explanation that reads a layer is invariant only if the layer is (Propositions D.12 and D.14).", intervals=1
    ),
    "flowchart.representation": template(
        "Only the plain gradient follows a symmetry that mixes features (Corollary D.5 against Proposition D.6).", intervals=1
    ),
    "flowchart.unknown": template("Every measured assumption holds, but the explainer is still not robust.", intervals=1),
    "advice.after": template("after it: {:.3f} -> {:.3f}{}.", samples=1),
    "advice.not_after": template("after it: not measured.", intervals=1),
    "advice.measured": template("measured: {}.", asked=1),
    # --- tables in a terminal and in plain text
    "table.silent": template("No response: {}.", silent=1),
    "table.constant": template("No distance, because maps are constant: {}.", undefined=1),
    "table.undefined": template("Undefined, because {}: {}.", lost=1),
    "table.caveat": template("{} is necessary, but not sufficient: {} has it too.", explainers=1),
    "failed": template("{} failed{}: {}", failures=1),
    "table.units": template("In the units of each map, in the run's order: compares samples and models, not explainers.", explainers=1),
    "page.complete": template("No value is undefined, nothing failed, and there are no notes.", measured=1),
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
