"""Whether a model's distortion grows with what is masked: by hand, the slow way, and for models that must or must not."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from masked import DEFAULTS, bare, explained, higher, inputs, linear, measure, pair, reading, value
from veracity.core.errors import SpecError
from veracity.core.registry import SCORES
from veracity.perturb.masks import RandomOrderMasks
from veracity.scores.assumptions import sentence
from veracity.scores.common import as_score
from veracity.scores.faithfulness.curves import PixelFlipping
from veracity.scores.faithfulness.masked import ModelFaithfulness, grows
from veracity.walk import MonteCarlo


def test_by_hand():
    before, after = reading(torch.tensor([[0.0, 0.0]])), reading(torch.tensor([[np.log(3.0), 0.0]]))
    assert ModelFaithfulness().observe(pair(before, after)).tolist() == pytest.approx([np.log(3.0)])
    assert ModelFaithfulness(softmax=True).observe(pair(before, after)).tolist() == pytest.approx([0.25])
    curves = np.array([[[0.0, 1.0, 2.0]], [[0.0, 2.0, 1.81]], [[0.0, 2.0, 1.79]], [[0.0, 0.0, 0.0]], [[np.nan, 1.0, 2.0]]])
    assert grows(curves, 0.1)[:, 0].tolist() == pytest.approx([1.0, 1.0, 0.0, 1.0, np.nan], nan_ok=True)
    assert ModelFaithfulness().reduce(np.array([[1.0, 0.0], [1.0, 1.0], [np.nan, np.nan]])).tolist() == pytest.approx(
        [0.0, 1.0, np.nan], nan_ok=True
    )


def test_a_slow_fall_is_a_fall():
    curve = np.concatenate((np.linspace(0, 1, 100), np.linspace(1, 0, 100)))
    assert np.diff(curve).min() > -0.1
    assert grows(curve, 0.1) == 0.0
    assert grows(curve[::-1].copy(), 0.99) == 0.0
    assert grows(curve, 1.0) == 1.0


@given(st.lists(st.floats(0, 10), min_size=1, max_size=8), st.floats(0, 1))
def test_as_the_words_say(curve, tolerance):
    fine = all(later >= earlier or earlier - later <= tolerance * max(curve) for i, earlier in enumerate(curve) for later in curve[i:])
    assert grows(np.array(curve), tolerance) == float(fine)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=8))
def test_without_tolerance_it_is_monotony(curve):
    assert grows(np.array(curve), 0.0) == float(curve == sorted(curve))


def test_a_linear_model_holds_if_all_it_sees_speaks_for_the_class():
    net, x, target = linear(), inputs(4), torch.tensor([0, 1, 2, 0])
    net.weight.copy_(net.weight.abs())
    assert value(ModelFaithfulness(), net, x, target).tolist() == [1.0] * 4
    net.weight[:, ::2] *= -1.0
    assert value(ModelFaithfulness(walk=MonteCarlo(draws=8)), net, x, target).min() == 0.0


def test_the_distortion_of_every_level_is_kept():
    net, x, target = linear(), inputs(3), torch.tensor([0, 1, 2])
    distortion = measure(ModelFaithfulness(features_in_step=2, walk=MonteCarlo(draws=4)), net, x, target)["distortion"]
    assert distortion.shape == (3, 4, 3)
    gone = x.amin(1, keepdim=True).expand_as(x)
    whole = (net(x) - net(gone)).gather(1, target[:, None]).abs().numpy()
    np.testing.assert_allclose(distortion[:, :, -1], whole.repeat(4, axis=1))
    assert len(np.unique(distortion[0, :, 0].round(9))) > 1


def test_what_it_asks_for():
    (request,) = ModelFaithfulness(features_in_step=28, perturb_baseline="mean").requests(bare((1, 28, 28)), DEFAULTS)
    assert request.space == RandomOrderMasks(features=28, baseline="mean").fit(torch.Size((1, 28, 28)))
    assert request.walk == MonteCarlo(draws=1)
    (request,) = ModelFaithfulness(features_in_step=0.2, patch_size=4).requests(bare((1, 28, 28)), DEFAULTS)
    assert request.space.levels == 5
    (request,) = ModelFaithfulness(patch_size=None).requests(bare((1, 28, 28)), DEFAULTS)
    assert request.space == RandomOrderMasks(features=1, patch=4).fit(torch.Size((1, 28, 28)))
    assert ModelFaithfulness(patch_size=None).for_subject(bare((1, 28, 28))).patch_size == 4
    assert not ModelFaithfulness().requests(explained((1, 28, 28)), DEFAULTS)
    for wrong in (1.5, 0, "a", None):
        with pytest.raises(SpecError, match=f"a whole number of at least 1 or a number above 0 and at most 1, not {wrong!r}"):
            ModelFaithfulness(features_in_step=wrong)
    with pytest.raises(SpecError, match="'patch_size' of score 'model_faithfulness'"):
        ModelFaithfulness(patch_size=0)


def test_how_to_read_it():
    score = ModelFaithfulness(features_in_step=28, tolerance=0.2)
    assert higher(score)
    assert score.bounds == (0.0, 1.0)
    assert as_score(score.about()["spec"]) == score
    assert "model_faithfulness" in set(SCORES)
    said = sentence(PixelFlipping(), PixelFlipping().assumption, holds=52, n=64)
    assert said == (
        "pixel_flipping assumes that the output of the model moves further from its original value the more of the input "
        "is masked; on 12 of 64 samples it "
        "does not: there, compare explainers with each other and with random ones, not with the best possible value."
    )
