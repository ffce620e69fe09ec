"""The batteries must be able to fail: each broken space below breaks the one test that is about it."""

from dataclasses import dataclass

import pytest
import torch

from veracity.core.spaces import Representation
from veracity.perturb import CyclicShift, FiniteGroup, Mirror, WindowShift
from veracity.testing import GroupConformance


@dataclass(frozen=True, kw_only=True)
class WrongOrder(CyclicShift):
    @property
    def order(self):
        return super().order + 1


@dataclass(frozen=True, kw_only=True)
class WrongInverse(CyclicShift):
    def inverse(self, g):
        return g


@dataclass(frozen=True, kw_only=True)
class WrongCompose(CyclicShift):
    def compose(self, g, h):
        return super().compose(g, 2 * h)


@dataclass(frozen=True, kw_only=True)
class Outside(CyclicShift):
    def compose(self, g, h):
        return g + h


@dataclass(frozen=True, kw_only=True)
class WrongIdentity(CyclicShift):
    def identity(self, n):
        return torch.ones(n, 1, dtype=torch.int64)


@dataclass(frozen=True, kw_only=True)
class NotFirst(CyclicShift):
    def unrank(self, index):
        return super().unrank(index + 1)


@dataclass(frozen=True, kw_only=True)
class Detached(CyclicShift):
    def act(self, elements, x):
        return super().act(elements, x.detach()) + 0 * x


@dataclass(frozen=True, kw_only=True)
class InPlace(CyclicShift):
    def act(self, elements, x):
        return x.copy_(super().act(elements, x.clone()))


@dataclass(frozen=True, kw_only=True)
class FirstForAll(CyclicShift):
    def act(self, elements, x):
        return super().act(elements[:1].expand_as(elements), x)


@dataclass(frozen=True, kw_only=True)
class OnTheProcessor(CyclicShift):
    def act(self, elements, x):
        return x + elements[:, :, None].to(x.dtype) * 0 + torch.zeros(x.shape)


@dataclass(frozen=True, kw_only=True)
class SinglePrecision(CyclicShift):
    def act(self, elements, x):
        return super().act(elements, x.float())


@dataclass(frozen=True, kw_only=True)
class Scaling(Mirror):
    def act(self, elements, x):
        return x * (1 + elements[:, :, None].to(x))


@dataclass(frozen=True, kw_only=True)
class OrthogonalScaling(Scaling):
    representation = Representation.ORTHOGONAL


@dataclass(frozen=True, kw_only=True)
class Adding(Mirror):
    def act(self, elements, x):
        return x + elements[:, :, None].to(x)


@dataclass(frozen=True, kw_only=True)
class Reckless(CyclicShift):
    def decode(self, latent):
        return torch.randint(0, self.order, (len(latent), 1))


@dataclass(frozen=True, kw_only=True)
class Noisy(CyclicShift):
    def act(self, elements, x):
        return super().act(elements, x) + 0 * torch.rand(1).item()


@dataclass(frozen=True, kw_only=True)
class Lossy(CyclicShift):
    representation = Representation.APPROXIMATE

    def compose(self, g, h):
        return super().compose(g, h + 1)


class Battery(GroupConformance):
    def __init__(self, group):
        self.broken = group

    def space(self):
        return self.broken

    def inputs(self):
        return torch.arange(8 * 2 * 7.0).reshape(8, 2, 7) - 50


@pytest.mark.parametrize(
    ("group", "test"),
    [
        (WrongOrder(), "test_elements_can_be_counted"),
        (WrongInverse(), "test_inverse_undoes"),
        (WrongCompose(), "test_action_respects_composition"),
        (WrongCompose(), "test_composition_is_associative"),
        (Outside(), "test_group_is_closed"),
        (WrongIdentity(), "test_identity_changes_nothing"),
        (NotFirst(), "test_identity_changes_nothing"),
        (WrongIdentity(), "test_number_zero_is_the_identity"),
        (Detached(), "test_action_is_differentiable"),
        (InPlace(), "test_action_changes_nothing_in_place"),
        (FirstForAll(), "test_action_on_a_batch_is_the_action_on_each"),
        (OnTheProcessor(), "test_action_runs_where_the_inputs_are"),
        (SinglePrecision(), "test_action_keeps_shape_and_type"),
        (Scaling(), "test_representation_is_what_it_says"),
        (OrthogonalScaling(), "test_representation_is_what_it_says"),
        (Adding(), "test_action_is_linear"),
        (Reckless(), "test_decode_works_row_by_row"),
        (Noisy(), "test_no_randomness_of_its_own"),
        (Lossy(), "test_action_respects_composition"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_broken_group_fails(group, test):
    with torch.random.fork_rng(), pytest.raises((AssertionError, RuntimeError)):
        getattr(Battery(group), test)()
    getattr(Battery(CyclicShift()), test)()


def test_what_is_no_group_is_refused():
    with pytest.raises(AssertionError, match="WindowShift is not a Group"):
        Battery(WindowShift(margin=1, axes=(-1,))).group()
    assert isinstance(Battery(CyclicShift()).group(), FiniteGroup)
