"""The group protocol: a group of one's own in one small class, draws that are uniform, and the floor."""

from dataclasses import dataclass

import pytest
import torch
from scipy import stats

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.core.spaces import FiniteSpace, Representation
from veracity.perturb import (
    CyclicShift,
    Dihedral,
    FiniteGroup,
    Flips,
    Mirror,
    PermutationAction,
    Permutations,
    Product,
    Rotation,
    Rotations,
    WindowShift,
    floor,
)
from veracity.perturb.groups.base import check_order, describe
from veracity.testing import GroupConformance


@dataclass(frozen=True, kw_only=True)
class SignFlip(FiniteGroup):
    """The sign of one channel."""

    name = "sign_flip"
    representation = Representation.ORTHOGONAL
    channel: int = 0

    @property
    def order(self):
        return 2

    def compose(self, g, h):
        return g ^ h

    def inverse(self, g):
        return g

    def act(self, elements, x):
        sign = torch.ones(x.shape[:2], dtype=x.dtype, device=x.device)
        sign[:, self.channel] = 1 - 2 * elements[:, 0].to(sign)
        return x * sign.reshape(*x.shape[:2], *[1] * (x.ndim - 2))


@dataclass(frozen=True, kw_only=True)
class BlockTurn(PermutationAction, FiniteGroup):
    """Blocks of an axis, handed round; `source` instead of `act`."""

    name = "block_turn"
    axes: tuple[int, ...] = (-1,)
    blocks: int = 3

    @property
    def order(self):
        return self.blocks

    def compose(self, g, h):
        return (g + h) % self.blocks

    def inverse(self, g):
        return -g % self.blocks

    def source(self, elements, sizes):
        return (torch.arange(sizes[0], device=elements.device) - elements * (sizes[0] // self.blocks)) % sizes[0]


class TestSignFlip(GroupConformance):
    def space(self):
        return SignFlip(channel=1)

    def inputs(self):
        return torch.arange(8 * 3 * 5.0).reshape(8, 3, 5) - 30


class TestBlockTurn(GroupConformance):
    def space(self):
        return BlockTurn(blocks=4)

    def inputs(self):
        return torch.arange(8 * 12.0).reshape(8, 12)


def test_custom_groups_by_hand():
    flipped = SignFlip().act(torch.tensor([[0], [1]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert flipped.tolist() == [[1, 2], [-3, 4]]
    assert SignFlip().enumerate().tolist() == [[0], [1]]
    assert SignFlip().identity(2).tolist() == [[0], [0]]
    assert BlockTurn().act(torch.tensor([[1]]), torch.tensor([[1, 2, 3, 4, 5, 6]])).tolist() == [[5, 6, 1, 2, 3, 4]]


SMALL = [
    CyclicShift(axes=(-1,), sizes=(7,)),
    CyclicShift(axes=(-2, -1), sizes=(3, 5)),
    WindowShift(margin=2),
    Dihedral(),
    Rotations(),
    Flips(),
    Mirror(),
    Permutations(size=4),
    Product(factors=(CyclicShift(axes=(-1,)), Mirror(axis=-2))).fit(torch.Size([2, 5])),
    Product(factors=(Permutations(axis=-2), Mirror(axis=-1))).fit(torch.Size([3, 2])),
    SignFlip(),
]


@pytest.mark.parametrize("space", SMALL, ids=describe)
def test_normal_latents_decode_to_uniform_elements(space):
    """Chi-square over all elements: 200 expected in each, and each one is hit."""
    assert isinstance(space, FiniteSpace)
    rank = {tuple(element): number for number, element in enumerate(space.enumerate().tolist())}
    latent = Draws.of(3, torch.arange(200 * space.order)).normal(space.latents, stream="uniform")
    drawn = torch.tensor([rank[tuple(element)] for element in space.decode(latent).tolist()])
    counts = drawn.bincount(minlength=space.order)
    assert len(counts) == space.order
    assert stats.chisquare(counts.numpy()).pvalue > 0.001


@pytest.mark.parametrize("space", SMALL, ids=describe)
def test_extreme_latents_stay_inside(space):
    ranks = set(map(tuple, space.enumerate().tolist()))
    drawn = space.decode(torch.tensor([[-40.0], [40.0]]).expand(2, space.latents))
    assert set(map(tuple, drawn.tolist())) <= ranks


def test_angles_are_uniform():
    angles = Rotation().decode(Draws.of(4, torch.arange(2000)).normal(1, stream="uniform"))[:, 0]
    assert stats.kstest(angles.numpy(), stats.uniform(0, 2 * torch.pi).cdf).pvalue > 0.001


def test_the_floor_of_an_exact_action_is_the_measure_of_equal_signals():
    x = torch.arange(3 * 16.0).reshape(3, 1, 4, 4)
    values = floor(Dihedral(), x, torch.tensor([[1], [5], [7]]), lambda a, b: (a - b).flatten(1).abs().sum(dim=1))
    assert values.tolist() == [0, 0, 0]


def test_elements_must_pair_with_inputs():
    with pytest.raises(
        InputError, match=r"Mirror\(axis=-1\) needs one element for each of 2 inputs, shape \(2, p\), but got shape \(3, 1\)"
    ):
        Mirror().act(torch.zeros(3, 1, dtype=torch.int64), torch.zeros(2, 4))
    with pytest.raises(InputError, match="one element for each of 2 inputs"):
        Rotation().act(torch.zeros(2), torch.zeros(2, 4, 4))
    with pytest.raises(InputError, match="one element for each of 2 inputs"):
        SMALL[8].act(torch.zeros(1, 2, dtype=torch.int64), torch.zeros(2, 2, 5))


def test_an_unfitted_space_says_so():
    with pytest.raises(SpecError, match="The space 'cyclic_shift' does not know the inputs' size yet: call fit"):
        _ = CyclicShift().order
    with pytest.raises(SpecError, match="The space 'permutations' does not know the inputs' size yet"):
        _ = Permutations(axis=-2).latents


def test_only_so_many_elements_are_numbered():
    assert check_order(Permutations(size=12)) == 479_001_600
    with pytest.raises(SpecError, match=r"Permutations\(size=13\) has too many elements to number \(a count of 10 digits\)"):
        check_order(Permutations(size=13))
