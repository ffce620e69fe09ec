"""Another class: never the target, every other one as likely."""

import pytest
import torch
from scipy.stats import chisquare

from veracity.core.errors import InputError
from veracity.core.randomness import Draws
from veracity.perturb import OtherClass


def drawn(count):
    space = OtherClass()
    return space.decode(Draws.of(0, torch.arange(count)).normal(space.latents, stream="test"))


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_every_other_class_is_as_likely(classes):
    targets = torch.arange(6000) % classes
    other = OtherClass().retarget(drawn(6000), targets, classes)
    assert other.dtype == torch.int64
    assert not bool((other == targets).any())
    assert int(other.min()) >= 0
    assert int(other.max()) < classes
    counts = torch.bincount((other - targets) % classes, minlength=classes)[1:]
    assert counts.sum() == 6000
    assert classes == 2 or chisquare(counts.numpy()).pvalue > 1e-3


def test_by_hand():
    elements = torch.tensor([[0.0], [0.49], [0.51], [1.0]], dtype=torch.float64)
    assert OtherClass().retarget(elements, torch.tensor([0, 1, 1, 2]), 3).tolist() == [1, 2, 0, 1]


def test_rows_are_their_own():
    elements, targets = drawn(20), torch.arange(20) % 5
    together = OtherClass().retarget(elements, targets, 5)
    alone = torch.cat([OtherClass().retarget(elements[[row]], targets[[row]], 5) for row in range(20)])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("classes", [0, 1])
def test_a_single_output_has_no_other(classes):
    with pytest.raises(
        InputError, match=f"^Another class than the target needs at least 2 outputs, but the model has {classes}: leave out"
    ):
        OtherClass().retarget(drawn(1), torch.tensor([0]), classes)
