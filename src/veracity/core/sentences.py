"""Every sentence that a result can say about its data, with what it needs: with less, it is not said.

docs/report-sentences.md is this table on a page. A sentence about data is added here, and said by `tell` (plain text) or by
`veracity.report.wording.say` (a page).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

COUNTED = {
    "accuracies": ("fold with a known accuracy", "folds with known accuracies"),
    "agreements": ("explainer with a value, an interval and a self-agreement", "explainers with a value, an interval and a self-agreement"),
    "alike": ("distance in S=", "distances in S="),
    "apart": ("paired difference that leaves zero out", "paired differences that leave zero out"),
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
    "facts": ("fact that was asked to be trusted", "facts that were asked to be trusted"),
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
"""What is counted, in the singular and the plural."""


@dataclass(frozen=True)
class Sentence:
    """A sentence with places for its parts, and the smallest counts with which it is said."""

    template: str
    needs: Mapping[str, int]

    @property
    def words(self) -> str:
        """What it needs, in words.

        >>> Sentence("{} is ahead of {}.", {"explainers": 2, "apart": 1}).words
        'at least 2 explainers with a value, at least 1 paired difference that leaves zero out'
        """
        return ", ".join(f"at least {least} {COUNTED[what][least > 1]}" for what, least in self.needs.items())


def needs(template: str, **counts: int) -> Sentence:
    """A sentence and what it needs."""
    return Sentence(template, counts)


SENTENCES = {
    # --- how far a run has come
    "run.running": needs("Running: {}.", writers=1),
    "run.unfinished": needs("Unfinished: {}, and nothing is running. Run the same command to go on{}", left=1),
    "run.failures": needs("Finished; {} failed: {}. Run the same command to try again{}", failures=1),
    "run.done": needs("Finished: {} measured.", cells=1),
    "run.snapshot": needs("This file is a snapshot of {}.", open=1),
    # --- an order of explainers
    "order.single": needs("By {}{}, {} scores {}.", explainers=1),
    "order.ahead": needs("By {}{}, {} is ahead of every other explainer: {}.{}", explainers=2, apart=1),
    "order.behind": needs("By {}{}, {} is behind every other explainer: {}.", explainers=2, apart=1),
    "order.first": needs("By {}{}, {} comes first with {}{}, but cannot be told from {}.{}", explainers=2, apart=1),
    "order.pairs": needs(" Of {}, {} can be told apart.", paired=2, apart=1),
    "order.level": needs("By {}{}, {} cannot be told apart: none of their paired differences is certain.", explainers=2, paired=1),
    "order.unpaired": needs("By {}{}, {} cannot be told apart: they have no paired differences.", explainers=2),
    "order.bounds": needs("By {}{}, {} cannot be told apart: every {} is {}.", explainers=2),
    "order.few": needs("With only {}, {} cannot be told apart by {}{}.", explainers=2),
    "order.units": needs("{} is in the map's own units: it compares samples and models, not explainers.", explainers=2),
    # --- the answer of one score
    "answer.none": needs("No explainer has a value of {}.", asked=1),
    "answer.pending": needs("Not measured yet: {}.", pending=1),
    "answer.respect": needs("{} the symmetry. To respect it, the {} interval of {} must lie at or above {}.", intervals=1),
    "answer.untold": needs(
        "No explainer has an interval of {}, so nobody can tell whether the symmetry is respected: measure more samples.", explainers=1
    ),
    "answer.models": needs("Under the transforms, {}.", invariances=1),
    "answer.undefined": needs("Model invariance is undefined.", undefined=1),
    "answer.unmeasured": needs("Model invariance is not measured yet.", pending=1),
    "answer.failed": needs("Model invariance failed.", failures=1),
    "remark.reacts": needs(
        "The model itself reacts to the transforms, so an explanation that changes may be right: a low score alone is no fault.",
        invariances=1,
    ),
    "remark.noise": needs(
        "The interval reaches to within {} of the agreement with itself, which speaks of noise rather than asymmetry: {}.", agreements=1
    ),
    "remark.random": needs("Not clearly better than the random control: {}.", randoms=1),
    "remark.unseen": needs(
        "All samples are equal, which is no certainty; so much of the population may differ unseen, at most: {}.", equal=1
    ),
    "remark.silent": needs("Where an explanation does not respond at all, its score is undefined: {}.", silent=1),
    "chance.share": needs("Of the explainers, {} do better than chance, which is what {}{}.", chances=1),
    "chance.blind": needs("Without looking at the model, controls score no worse than some explainers: {}.", controls=1, intervals=1),
    "chance.null": needs("A deterministic explanation that has nothing to do with the model scores {}, not 0.", nulls=1),
    # --- many scores at once
    "leaders.one": needs("By {}{}, {} is ahead of every other explainer.", explainers=2, apart=1),
    "leaders.many": needs("{} {}, {}.", explainers=2, apart=1, measured=2),
    "leaders.none": needs("{} {}, no explainer is ahead of every other one in any.", explainers=2, measured=2),
    "assumed.hold": needs("What the scores assume of the models holds on more than nine of ten samples, for every score.", assumed=1),
    "assumed.fail": needs("{} a score assumes of the model fails often for {}.", assumed=1),
    "assumed.untold": needs("{}; on no sample could that be told.", assumed=1),
    "assumed.all": needs("{}; on all {} samples it {}.", samples=1),
    "assumed.some": needs("{}; on {} of {} samples it {} not.", samples=1),
    "assumed.label": needs("{} assumes {}; it holds on {} of {} samples.", samples=1),
    "assumed.label_untold": needs("{} assumes {}; on no sample could that be told.", assumed=1),
    # --- figures
    "search.moved": needs("{}: over the last quarter of the evaluations, the middle seed of {} moved most, by {}.", records=8),
    "search.still": needs("{}: over the last quarter of the evaluations, no middle seed moved by more than {}.", records=8),
    "convergence.width": needs("After {} per sample, the widest {} interval over draws is that of {} on {}: {}.", widths=2),
    "convergence.single": needs("After {} per sample, the {} interval over draws of {} on {} is {}.", widths=1),
    "convergence.bound": needs(
        "Whatever the values are, Hoeffding's inequality promises an error of at most {} for {} and {}.", widths=1, bounds=1
    ),
    "relaxation": needs("{} {} the symmetry on {}, at or above {}. Of these fall short: {}.", kept=1, invariances=2),
    "training": needs("From step {} to step {} {}.", steps=2),
    "calibration": needs("Predictions fall to chance: {}.", calibrations=1),
    "calibration.above": needs("Of {}, {}.", calibrations=1),
    "sensitivity.range": needs(
        "Pearson's correlation r over samples lies between {} and {}. The closer to {}, the more the two say the same.", correlations=2
    ),
    "sensitivity.single": needs(
        "Pearson's correlation r over samples is {}. The closer to {}, the more the two say the same.", correlations=1
    ),
    "alignment.furthest": needs(
        "From the first level to the last, the explanations of {}{} move furthest: from {} to {}.", curves=2, levels=2
    ),
    "alignment.single": needs("From the first level to the last, the explanations of {}{} move from {} to {}.", curves=1, levels=2),
    "alignment.random": needs("Random ones go from {} to {}.", curves=1, levels=2),
    "scatter.overlap": needs(
        "Where the clouds of two levels overlap, the strength of the perturbation does not tell what it does.", curves=1, levels=2
    ),
    "curves.early": needs("Once {} % of the input is masked, {} is{} {}.", curves=1, levels=2),
    "learnt.all": needs("All {} can be trusted.", facts=2),
    "learnt.one": needs("It can be trusted.", facts=1),
    "learnt.some": needs("Of {}, {} cannot be trusted and {} no part.", facts=1),
    "advice.robust": needs("Nothing needs to be done about {}: {} the symmetry.", robust=1),
    # --- stability
    "stable.same_empty": needs("{} is empty{}, so {} is undefined: no pair of models {} with a distance.", lost=1),
    "stable.differ_empty": needs("{} is empty{}, so {} is undefined: {}.", lost=1, alike=1),
    "stable.equal": needs("{} is undefined{} for {}: distances that are all equal leave no threshold.", lost=1, alike=1),
    "stable.few": needs("{} holds no more than {}{}, so {} rests on little.", explainers=1, differ=1),
    "stable.signal": needs("{} {}{} is above what permuted labels score (p at most {}{}).", tested=1),
    "stable.no_signal": needs(
        "By {}{}, {} {} indistinguishable from no signal: permuted labels score as high (p at least {}{}).", tested=1
    ),
    "stable.blind": needs("{} {}{} at a model: stability alone is no truth.", controls=1),
    "stable.published": needs("The order of these {} explainers{} and the published one have a rank correlation of {}.", published=3),
    "stable.floor": needs(
        "With distances of at most 1, {} cannot fall below {}, as some published figures do: compare orders, not values.", published=1
    ),
    "stable.undefined": needs("Pairs without a distance, since a constant map has no ranks, are counted and left out: {}.", undefined=1),
    "stable.histograms": needs("Explanations are consistent as far as the two histograms lie apart, {} to the left.", alike=1, differ=1),
    "stable.selection": needs(
        "A method is worth choosing as far as it lies to the upper right; high alone, it may be stable and false.", explainers=2
    ),
    "folds.unknown": needs("{}: the accuracies of its {} are not known, so nobody can say whether they are comparable.", folds=1),
    "folds.comparable": needs("{}: its {} have comparable accuracies, {}, {}.", accuracies=2),
    "folds.apart": needs(
        "{}: the accuracies of its {} are not comparable, {}, {} where the method asks for {} at most: explanations may differ because "
        "the models do. With as few samples as {} per fold, chance alone moves an accuracy by up to {} points.",
        accuracies=2,
    ),
    # --- robustness
    "spent.one": needs("{}.", evaluated=1),
    "spent.each": needs("{} for each of {}, {} in all.", evaluated=2),
    "spent.some": needs("{}: {}.", evaluated=2),
    # --- studies
    "meta.apart": needs("Of {}, under {}, {} ({} of 1) is more consistent than {} ({}).", scores=2),
    "meta.level": needs("Of {}, under {}, none can be told from another: their spreads over iterations overlap.", scores=2),
    "meta.untold": needs("The spread over iterations is not known, so scores cannot be told apart: run more iterations.", measured=2),
    "damage.follows": needs("{} follows the damage of {} on {}{}{}.", damaged=1),
    "damage.untold": needs("Whether {} follows the damage of {} cannot be told: no explainer has a value for enough seeds.", measured=1),
    "distances.test": needs("{}: of {}, {}.", distances=1),
    "distances.all": needs("All tests are passed by {}.", distances=1),
    "distances.none": needs("No distance passes all tests.", distances=1),
    "scan.undefined": needs("The invariance is undefined on every sample.", undefined=1),
    "scan.empty": needs(
        "Outputs of different inputs are as alike, so any symmetry is kept: the model does not react to its input.", samples=1
    ),
    "scan.broken": needs("Not kept: outputs of moved inputs agree by {:.3f} on average and {:.3f} on the worst sample{}{}.", samples=1),
    "scan.first": needs("{}; it has {}, and no kept symmetry has more.", samples=1),
    "scan.tied": needs("{}; it has {} like {}: the order of the two means nothing.", samples=1),
    "scan.fewer": needs("{}; it has {}, fewer than {}.", samples=1),
    "scan.null": needs("Outputs of different inputs agree by {:.3f}.", samples=1),
    # --- advice
    "flowchart.undefined": needs("There is no score to judge by.", undefined=1),
    "flowchart.untold": needs("The score has no interval, so nobody can tell whether it respects the symmetry.", samples=1),
    "flowchart.robust": needs("It respects the symmetry.", intervals=1),
    "flowchart.model": needs(
        "No guarantee holds for a model that is only nearly invariant, and nothing follows from how nearly.", intervals=1
    ),
    "flowchart.baseline": needs("Equivariance needs a baseline that the symmetry leaves in place (Propositions D.6 and D.8).", intervals=1),
    "flowchart.noise": needs("On the same input it disagrees with itself by as much, so the symmetry takes nothing away.", agreements=1),
    "flowchart.layer": needs("What is read from a layer is invariant only if the layer is (Propositions D.12 and D.14).", intervals=1),
    "flowchart.representation": needs(
        "Only the plain gradient follows a symmetry that mixes features (Corollary D.5 against Proposition D.6).", intervals=1
    ),
    "flowchart.unknown": needs("Every assumption that was measured holds, and still it is not robust.", intervals=1),
    "advice.after": needs("after it: {:.3f} -> {:.3f}{}.", samples=1),
    "advice.not_after": needs("after it: not measured.", intervals=1),
    "advice.measured": needs("measured: {}.", asked=1),
    # --- tables in a terminal and in plain text
    "table.silent": needs("No response: {}.", silent=1),
    "table.constant": needs("No distance, since maps are constant: {}.", undefined=1),
    "table.undefined": needs("Undefined, since {}: {}.", lost=1),
    "table.caveat": needs("{} is necessary, not sufficient: {} has it too.", explainers=1),
    "failed": needs("{} failed{}: {}", failures=1),
    "table.units": needs("In each map's own units, in the run's order: it compares samples and models, not explainers.", explainers=1),
    "page.complete": needs("Nothing was undefined, nothing failed, and there is nothing to note.", measured=1),
}
"""Every sentence by its key."""


def told(key: str, **found: int) -> str:
    """The template of a sentence, or "" if less was found than it needs; `found` counts just what the table asks for."""
    sentence = SENTENCES[key]
    if set(found) != set(sentence.needs):
        raise TypeError(f"The sentence '{key}' needs the counts {', '.join(sentence.needs)}, not {', '.join(found) or 'none'}.")
    return sentence.template if all(found[what] >= least for what, least in sentence.needs.items()) else ""


def tell(key: str, *parts: object, **found: int) -> str:
    """A sentence as plain text, or "" if less was found than it needs.

    >>> tell("order.single", "equivariance", "", "saliency", "0.5", explainers=1)
    'By equivariance, saliency scores 0.5.'
    >>> tell("order.single", "equivariance", "", "saliency", "0.5", explainers=0)
    ''
    """
    return told(key, **found).format(*parts)
