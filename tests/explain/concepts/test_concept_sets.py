from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from veracity.core.errors import InputError
from veracity.core.explainers import BARE
from veracity.core.inputs import TensorInputs
from veracity.core.training import Training
from veracity.explain.concepts import CAV
from veracity.explain.concepts.base import ConceptSet, concept_set, labels_of, split_sizes

MASK = torch.arange(1000) % 3 == 0


def sets_of(training: Training | None) -> list[ConceptSet]:
    return CAV(layer="0", per_side=50).example_sets(replace(BARE, training=training))


def test_sides_are_balanced_distinct_and_right() -> None:
    chosen = concept_set("third", MASK, 50, seed=0)
    assert (len(chosen.fitted), len(chosen.held_out)) == (100, 100)
    assert len(torch.cat((chosen.fitted, chosen.held_out)).unique()) == 200
    for rows in (chosen.fitted, chosen.held_out):
        assert torch.equal(MASK[rows], labels_of(rows))


def test_the_smaller_side_decides() -> None:
    few = torch.zeros(500, dtype=torch.bool)
    few[:10] = True
    chosen = concept_set("few", few, 100, seed=0)
    assert (len(chosen.fitted), len(chosen.held_out)) == (2 * 8, 2 * 2)
    assert len(concept_set("few", ~few, 100, seed=0).fitted) == 16


def test_sizes_never_exceed_what_there_is() -> None:
    for available in range(1, 500, 7):
        fitted, held_out = split_sizes(available, 100)
        assert 1 <= fitted <= 100, f"{fitted} fitted of {available}"
        assert 0 <= held_out <= fitted, f"{held_out} held out of {available}"
        assert fitted + held_out <= available, f"{fitted} and {held_out} of {available}"


def test_the_choice_follows_from_the_seed_and_the_name_alone() -> None:
    first = concept_set("third", MASK, 50, seed=0)
    assert torch.equal(first.fitted, concept_set("third", MASK, 50, seed=0).fitted)
    assert not torch.equal(first.fitted, concept_set("third", MASK, 50, seed=1).fitted)
    assert not torch.equal(first.fitted, concept_set("other", MASK, 50, seed=0).fitted)
    x = TensorInputs(torch.zeros(1000, 1))
    alone = sets_of(Training(x, torch.zeros(1000).long(), {"third": MASK}))
    after = sets_of(Training(x, torch.zeros(1000).long(), {"even": torch.arange(1000) % 2 == 0, "third": MASK}))
    assert torch.equal(alone[0].fitted, after[1].fitted)


def test_choices_are_uniform() -> None:
    mask = torch.arange(8) < 4
    times = torch.zeros(8)
    for seed in range(400):
        times[concept_set("half", mask, 1, seed=seed).fitted] += 1
    assert times.sum() == 800
    assert (times - 100).abs().max() < 45  # five standard deviations of a binomial of 400 with 1/4


@pytest.mark.parametrize(("mask", "who"), [(torch.zeros(9, dtype=torch.bool), "None"), (torch.ones(9, dtype=torch.bool), "All")])
def test_one_sided_concepts_are_refused(mask: torch.Tensor, who: str) -> None:
    with pytest.raises(InputError, match=f"{who} of the 9 training examples show the concept 'thing'"):
        concept_set("thing", mask, 10, seed=0)


def test_missing_examples_and_concepts_are_refused() -> None:
    with pytest.raises(InputError, match="cav needs training examples"):
        sets_of(None)
    with pytest.raises(InputError, match="cav needs concepts"):
        sets_of(Training(TensorInputs(torch.zeros(3, 1)), torch.zeros(3).long()))
