from __future__ import annotations

import math

import pytest
import torch
from torch import Size

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Explainer, Frame
from veracity.core.scores import Defaults, Pair, Reading, Reads, Subject
from veracity.explain import Saliency, SmoothGrad
from veracity.measure import spearman
from veracity.perturb import CyclicShift, Dihedral, Rotation
from veracity.scores.common import as_score
from veracity.scores.symmetry import ActionFloor, Equivariance, Invariance, ModelInvariance, SelfAgreement
from veracity.walk import Exhaustive, MonteCarlo

SHAPE = Size((1, 4))
SHIFT = Defaults(CyclicShift(axes=(-1,)), Exhaustive())


def pair() -> Pair:
    before = torch.tensor([[[1.0, 0.0, 0.0, 0.0]], [[3.0, 4.0, 0.0, 0.0]]])
    after = torch.tensor([[[0.0, 1.0, 0.0, 0.0]], [[0.0, 4.0, 3.0, 0.0]]])
    kinds = (Reads.EXPLANATION, Reads.OUTPUT, Reads.INPUT)
    readings = [Reading(torch.zeros(2, dtype=torch.long), dict.fromkeys(kinds, value)) for value in (before, after)]
    return Pair(*readings, element=torch.ones(2, 1), move=lambda x: x.roll(1, -1), undo=lambda x: x.roll(-1, -1))


def test_by_hand() -> None:
    assert Equivariance().observe(pair()).tolist() == pytest.approx([1.0, 24 / 25])
    assert Invariance().observe(pair()).tolist() == pytest.approx([0.0, 16 / 25])
    assert ModelInvariance().observe(pair()).tolist() == pytest.approx([0.0, 16 / 25])
    assert SelfAgreement().observe(pair()).tolist() == pytest.approx([0.0, 16 / 25])
    assert ActionFloor().observe(pair()).tolist() == pytest.approx([1.0, 24 / 25])


def test_a_sample_is_the_mean_of_its_defined_draws() -> None:
    values = torch.tensor([[1.0, 0.5, torch.nan], [torch.nan, torch.nan, torch.nan]], dtype=torch.float64).numpy()
    reduced = Equivariance().reduce(values)
    assert reduced[0] == 0.75
    assert math.isnan(reduced[1])


def test_each_score_asks_for_the_subjects_it_is_about() -> None:
    model, maps = Subject("net", None, SHAPE), Subject("net", Saliency(), SHAPE)
    assert [len(score().requests(model, SHIFT)) for score in (Equivariance, Invariance, ModelInvariance)] == [0, 0, 1]
    assert [len(score().requests(maps, SHIFT)) for score in (Equivariance, Invariance, ModelInvariance)] == [1, 1, 0]
    assert Equivariance().requests(maps, SHIFT)[0].space.order == 4


def test_an_explanation_outside_the_inputs_frame_is_held_to_invariance_alone() -> None:
    class ByExample(Saliency):
        frame = Frame.TRAINING

    subject = Subject("net", ByExample(), SHAPE)
    assert isinstance(subject.explainer, Explainer)
    assert not Equivariance().requests(subject, SHIFT)
    assert Invariance().requests(subject, SHIFT)


def test_self_agreement_repeats_what_is_random_and_checks_what_is_not() -> None:
    walks = [SelfAgreement(repeats=5).requests(Subject("net", one, SHAPE), SHIFT)[0].walk for one in (SmoothGrad(), Saliency())]
    assert walks == [MonteCarlo(draws=5), MonteCarlo(draws=1)]


def test_the_floor_is_for_inexact_groups() -> None:
    image = Subject("net", None, Size((1, 8, 8)))
    walk = MonteCarlo(draws=2)
    assert ActionFloor().requests(image, Defaults(Rotation(), walk))
    assert not ActionFloor().requests(image, Defaults(Dihedral(), walk))


def test_without_a_symmetry_the_sentence_says_what_to_pass() -> None:
    with pytest.raises(InputError, match=r"The score 'equivariance' needs a symmetry: pass Audit\(symmetry=...\)"):
        Equivariance().requests(Subject("net", Saliency(), SHAPE), Defaults(None, Exhaustive()))


def test_a_written_score_gets_its_parts_built() -> None:
    written = {"name": "equivariance", "measure": "spearman", "space": {"name": "cyclic_shift", "axes": [-1]}, "walk": "exhaustive"}
    score = as_score(written)
    assert score == Equivariance(measure=spearman, space=CyclicShift(axes=(-1,)), walk=Exhaustive())
    assert as_score(score.spec()) == score
    with pytest.raises(SpecError, match="A score is"):
        as_score(3)
