import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from veracity.core.errors import InputError
from veracity.core.targets import Outputs
from veracity.orbits.tasks.classification import Classification, accuracy, confidence
from veracity.perturb import CyclicShift


def test_confidence_is_the_softmax_probability_of_the_true_class():
    """Never the logits stretched to [0, 1]: ln 3 against 0 is 3 : 1, whatever the others."""
    logits = torch.tensor([[3.0, 1.0]]).log()
    found = Classification().read(logits)
    assert found[0].tolist() == pytest.approx([0.75, 0.25])
    assert confidence(found, torch.tensor([0])).item() == pytest.approx(0.75)
    shifted = Classification().read(logits + 100.0)
    assert torch.allclose(found, shifted, atol=1e-5)


def test_outputs_are_guessed_once():
    """A later batch whose logits all lie in [0, 1] is still read as logits."""
    task = Classification().fit(torch.tensor([[2.0, -1.0]]))
    assert task.outputs is Outputs.LOGITS
    assert task.read(torch.tensor([[0.5, 0.5]]))[0].tolist() == [0.5, 0.5]
    assert task.read(torch.tensor([[1.0, 0.0]]))[0, 0].item() == pytest.approx(0.7311, abs=1e-4)
    given = Classification(outputs=Outputs.PROBABILITIES)
    assert given.fit(torch.tensor([[2.0, -1.0]])) is given


def test_the_classes_named_must_be_those_given():
    with pytest.raises(InputError, match="gives 3 classes, but 2 are named"):
        Classification(classes=("no", "yes")).read(torch.rand(4, 3))
    yes = Classification(classes=("no", "yes")).read(torch.tensor([0.0, 2.0]))
    assert yes[:, 1].tolist() == pytest.approx([0.5, 0.8808], abs=1e-4)
    with pytest.raises(InputError, match=r"not a tensor of shape \(4, 3, 2\)"):
        Classification().read(torch.rand(4, 3, 2))


def test_accuracy_by_hand():
    output = torch.tensor([[0.1, 0.9], [0.8, 0.2], [float("nan"), 1.0], [0.8, 0.2]])
    found = accuracy(output, torch.tensor([1, 1, 1, -1]))
    assert found[:2].tolist() == [1.0, 0.0]
    assert found[2:].isnan().all()
    assert confidence(output, torch.tensor([1, 1, 1, -1]))[3].isnan()


def test_class_numbers_are_never_averaged():
    """Classes 0 and 2 in turn: their mean number would be class 1, which nobody predicts."""
    outputs = torch.tensor([[[0.8, 0.0, 0.2], [0.1, 0.0, 0.9]]])
    task = Classification()
    consensus, missing = task.consensus(CyclicShift(sizes=(2,)), torch.arange(2)[:, None], outputs)
    assert consensus[0].tolist() == pytest.approx([0.45, 0.0, 0.55])
    assert task.as_truth(consensus).tolist() == [2]
    assert missing.tolist() == [0]


def test_a_consensus_of_nothing_is_no_class():
    task = Classification()
    consensus, missing = task.consensus(CyclicShift(sizes=(3,)), torch.arange(3)[:, None], torch.full((1, 3, 2), float("nan")))
    assert missing.tolist() == [3]
    assert task.as_truth(consensus).tolist() == [-1]
    assert confidence(torch.rand(1, 2), task.as_truth(consensus)).isnan().all()


@settings(max_examples=30, deadline=None)
@given(arrays("float64", (4, 5), elements=st.floats(-5, 5)), arrays("float64", (4, 5), elements=st.floats(-5, 5)))
def test_total_variation_is_the_largest_difference_of_any_event(a, b):
    """Against all 2^5 sets of classes."""
    a, b = torch.from_numpy(a).softmax(dim=1), torch.from_numpy(b).softmax(dim=1)
    events = torch.tensor([[number >> bit & 1 for bit in range(5)] for number in range(32)]).double()
    expected = ((a - b) @ events.T).abs().amax(dim=1)
    found = Classification().apart(a, b)
    assert torch.allclose(found, expected, atol=1e-9)
    assert torch.equal(found, Classification().apart(b, a))


@pytest.mark.parametrize("truth", [[0.0, 1.0], [[0], [1]], [0], [0, -2], [0, 2]])
def test_targets_are_class_numbers(truth):
    with pytest.raises(InputError, match=r"class numbers|has 2 classes, numbered 0 to 1"):
        Classification(classes=("no", "yes")).check(torch.tensor(truth), 2)


def test_a_sample_may_lack_its_class():
    assert Classification(classes=("no", "yes")).check(torch.tensor([-1, 1], dtype=torch.int32), 2).tolist() == [-1, 1]
