"""Sparseness and complexity of an explanation, for which nothing is perturbed."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from masked import DEFAULTS, bare, explained, higher, inputs, pair, reading
from veracity.core.errors import InputError
from veracity.core.features import Features
from veracity.core.registry import SCORES
from veracity.core.scores import Measured, Reading, Subject, reads_after
from veracity.explain.gradients import Saliency
from veracity.scores.common import as_score
from veracity.scores.faithfulness.content import Complexity, Sparseness

NOTHING = Reading(torch.zeros(3, dtype=torch.long), {})


def observe(score, maps):
    return score.observe(pair(reading(None, explanation=maps), NOTHING)).tolist()


def test_by_hand():
    maps = torch.tensor([[[0.0, 0.0, 0.0, -2.0]], [[1.0, -1.0, 1.0, 1.0]], [[0.0, 0.0, 0.0, 0.0]]])
    assert observe(Sparseness(), maps) == pytest.approx([0.75, 0.0, np.nan], nan_ok=True)
    assert observe(Complexity(), maps) == pytest.approx([0.0, np.log(4.0), np.nan], nan_ok=True)
    assert Complexity().values(Measured({"value": np.array([[[0.5]]])})).tolist() == [[0.5]]


def test_as_the_definitions_read():
    maps = inputs(3, 2, 3, 3) - 0.5
    for i, (uneven, mixed) in enumerate(zip(observe(Sparseness(), maps), observe(Complexity(), maps), strict=True)):
        size = maps[i].abs().flatten().numpy()
        gaps = sum(abs(a - b) for a in size for b in size)
        assert uneven == pytest.approx(gaps / (2 * len(size) * size.sum()))
        assert mixed == pytest.approx(entropy(size / size.sum()))


def test_the_columns_of_one_feature_count_together():
    features = Features.measured(torch.tensor([[30.0, 0.0, 1.0], [41.0, 1.0, 0.0]]), groups=torch.tensor([0, 1, 1]))
    maps = torch.tensor([[1.0, 1.0, -1.0], [1.0, 3.0, -2.0], [0.0, 1.0, -1.0]])  # sums (1, 0), (1, 1) and (0, 0)
    subject = Subject("net", Saliency(), torch.Size([3]), features=features)
    assert observe(Sparseness().for_subject(subject), maps) == pytest.approx([0.5, 0.0, np.nan], nan_ok=True)
    assert observe(Complexity().for_subject(subject), maps) == pytest.approx([0.0, np.log(2.0), np.nan], nan_ok=True)
    assert Sparseness().for_subject(subject).spec() != Sparseness().spec()
    plain = Subject("net", Saliency(), torch.Size([3]), features=Features.measured(torch.eye(3)))
    assert Sparseness().for_subject(plain).spec() == Sparseness().spec()


def test_they_cost_no_pass_and_need_numbers():
    class ByClass(Saliency):
        categorical = True

    for score in (Sparseness(), Complexity()):
        (request,) = score.requests(explained((1, 4)), DEFAULTS)
        assert request.walk.length(request.space) == 1
        assert reads_after(score) == frozenset()
        assert not score.requests(bare((1, 4)), DEFAULTS)
        assert not score.requests(Subject("net", ByClass(), torch.Size([4])), DEFAULTS)


def test_how_to_read_them():
    assert higher(Sparseness())
    assert not higher(Complexity())
    assert Sparseness().bounds == (0.0, 1.0)
    assert Complexity().bounds == (0.0, np.inf)
    for score in (Sparseness(), Complexity()):
        assert as_score(score.about()["spec"]) == score
        assert score.name in set(SCORES)
        assert score.assumption is None


def test_groups_of_another_length_are_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"The setting 'groups' of 'complexity' names the feature of 3 values, but a map has 2"):
        Complexity(groups=(0, 0, 1)).by_feature(torch.ones(1, 2))
