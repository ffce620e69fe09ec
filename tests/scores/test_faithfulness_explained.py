"""What is read of the model and of the explanation when the input is masked."""

import math

import pytest
import torch

from masked import DEFAULTS, bare, explained, reading
from veracity.core.errors import InputError
from veracity.core.explainers import Frame
from veracity.core.scores import Reading, Reads, Subject
from veracity.core.targets import Outputs
from veracity.explain.gradients import Saliency
from veracity.scores import PixelFlipping
from veracity.scores.faithfulness.masked import attributed, over_entries, prediction


def test_a_prediction_is_the_explained_score_or_its_probability():
    read = reading(torch.tensor([[0.0, math.log(3.0)], [math.log(4.0), 0.0]]), torch.tensor([1, 1]))
    assert prediction(read, softmax=False).tolist() == pytest.approx([math.log(3.0), 0.0])
    assert prediction(read, softmax=True).tolist() == pytest.approx([0.75, 0.2])
    assert prediction(read, softmax=True).dtype is torch.float64


def test_models_that_give_probabilities_are_not_squashed_twice():
    read = reading(torch.tensor([[0.25, 0.75]]), torch.tensor([1]), Outputs.PROBABILITIES)
    assert prediction(read, softmax=True).item() == 0.75


def test_a_single_logit_is_the_probability_of_yes():
    assert prediction(reading(torch.tensor([[math.log(4.0)]])), softmax=True).item() == pytest.approx(0.8)


def test_a_single_probability_is_that_of_yes():
    scores = torch.tensor([[0.25], [0.9]])
    assert Outputs.PROBABILITIES.read(scores).tolist() == [pytest.approx([0.75, 0.25]), pytest.approx([0.1, 0.9])]
    assert prediction(reading(scores, kind=Outputs.PROBABILITIES), softmax=True).tolist() == pytest.approx([0.25, 0.9])


@pytest.mark.parametrize("scores", [torch.tensor([[0.2, 6.63]]), torch.tensor([[0.7]]), torch.tensor([[-3.0]])])
def test_raw_outputs_are_not_taken_for_probabilities(scores):
    with pytest.raises(InputError, match="softmax=True needs probabilities, but the model's outputs are not probabilities"):
        prediction(reading(scores, kind=Outputs.RAW), softmax=True)


@pytest.mark.parametrize("kind", [Outputs.LOGITS, Outputs.PROBABILITIES])
def test_rows_without_numbers_have_no_probability_and_spoil_no_other(kind):
    for scores in (torch.tensor([[0.5, 0.5], [math.nan, math.nan]]), torch.tensor([[0.0], [math.nan]])):
        first, second = prediction(reading(scores, kind=kind), softmax=True).tolist()
        assert first == kind.read(scores)[0, 1]
        assert math.isnan(second)


def test_probabilities_in_half_precision_are_those_of_their_scores():
    scores = torch.randn(50, 10, generator=torch.Generator().manual_seed(0)) * 5
    read = Reading(torch.zeros(50, dtype=torch.long), {Reads.SCORES: scores, Reads.OUTPUT: scores.softmax(1).bfloat16()})
    assert prediction(read, softmax=True).tolist() == pytest.approx(scores.softmax(1)[:, 0].tolist(), rel=0.01)


def test_what_is_no_class_has_no_probability():
    output = torch.tensor([[0.2, 0.8]])
    for scores in (torch.tensor([[5.0]]), torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.0, 3.0]])):
        read = Reading(torch.tensor([0]), {Reads.SCORES: scores, Reads.OUTPUT: output})
        assert prediction(read, softmax=False).item() == scores[0, 0]
        with pytest.raises(InputError, match="softmax=False"):
            prediction(read, softmax=True)


def test_sums_over_masked_entries():
    masks = torch.tensor([[True, False, True], [False, False, False]])
    assert attributed(torch.tensor([[0.5, 9.0, -2.0], [1.0, 2.0, 3.0]]), masks).tolist() == [-1.5, 0.0]


def test_a_constant_explanation_sums_to_exactly_the_same_for_every_subset():
    masks = torch.stack([torch.randperm(500, generator=torch.Generator().manual_seed(seed)) < 71 for seed in range(50)])
    constant = torch.full((50, 500), 0.1, dtype=torch.float64)
    assert len(set(attributed(constant, masks).tolist())) == 1
    assert len(set(torch.where(masks, constant, 0.0).sum(dim=1).tolist())) > 1


def test_one_map_counts_for_every_channel():
    x = torch.zeros(2, 3, 2, 2)
    wide = over_entries(torch.arange(8.0).reshape(2, 1, 2, 2), x.shape[1:])
    assert wide[1].tolist() == [4.0, 5.0, 6.0, 7.0] * 3
    for shape in ((2, 2, 2), (2, 2, 2, 2), (2, 3, 2, 1, 1)):
        with pytest.raises(InputError, match=r"each entry of inputs of shape \(3, 2, 2\)"):
            over_entries(torch.zeros(shape), x.shape[1:])


def test_only_maps_over_the_input_can_be_masked():
    class ByExample(Saliency):
        frame = Frame.TRAINING

    class ByClass(Saliency):
        categorical = True

    score, shape = PixelFlipping(), torch.Size([4])
    assert score.requests(explained((4,)), DEFAULTS)
    assert not score.requests(bare((4,)), DEFAULTS)
    assert not any(score.requests(Subject("net", explainer(), shape), DEFAULTS) for explainer in (ByExample, ByClass))
