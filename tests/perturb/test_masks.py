"""Masks without an order: random subsets, and everything."""

import math
from itertools import combinations

import pytest
import torch
from scipy.stats import chisquare
from torch import Size

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import GROUPS
from veracity.perturb import FullMask, RandomMasks
from veracity.perturb.masks import filling
from veracity.testing import SpaceConformance


class MaskConformance(SpaceConformance):
    """The battery, with elements as a walk makes them: drawn, brought to a level, and made concrete."""

    def inputs(self):
        return torch.rand(5, 2, 3, 4, generator=torch.Generator().manual_seed(0)) - 0.3

    def explanations(self):
        return None

    def draw(self, purpose):
        space, x = self.fitted(), self.inputs()
        level = torch.arange(len(x)) % space.levels
        return space.steer(space.at(super().draw(purpose), level), space.guide(x, self.explanations()))

    def test_masks_cover_the_sample(self):
        masks, x = self.draw("g"), self.inputs()
        assert masks.dtype == torch.bool
        assert masks.shape == x.flatten(1).shape
        moved = self.fitted().act(masks, x).flatten(1)
        assert torch.equal(moved[~masks], x.flatten(1)[~masks])


class TestRandomMasks(MaskConformance):
    def space(self):
        return RandomMasks(size=5, baseline=0.0)


class TestRandomPatches(MaskConformance):
    def space(self):
        return RandomMasks(size=0.5, baseline="mean", patch=2)


class TestFullMask(MaskConformance):
    def space(self):
        return FullMask(baseline="mean")

    def test_elements_can_be_counted(self):
        space = self.fitted()
        assert space.order == 1
        assert space.enumerate().tolist() == [[True]]
        assert torch.equal(space.decode(torch.randn(4, 1, generator=torch.Generator())), torch.ones(4, 1, dtype=torch.bool))


def drawn(space, count, stream="test"):
    return space.decode(Draws.of(0, torch.arange(count)).normal(space.latents, stream=stream))


def test_a_subset_by_hand():
    space = RandomMasks(size=2, baseline=9.0).fit(Size([4]))
    masks = space.decode(torch.tensor([[0.5, -1.0, 2.0, 0.1], [-3.0, -1.0, -2.0, 0.0]]))
    assert masks.tolist() == [[False, True, False, True], [True, False, True, False]]
    found = space.act(masks, torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]))
    assert found.tolist() == [[1, 9, 3, 9], [9, 6, 9, 8]]


def test_patches_hide_all_their_channels():
    space = RandomMasks(size=1, patch=2, baseline=0.0).fit(Size([2, 2, 3]))
    masks = space.decode(torch.tensor([[0.4, -0.4]]))
    assert masks.tolist() == [[False, True]]
    found = space.act(masks, torch.ones(1, 2, 2, 3))
    assert found.tolist() == [[[[1, 1, 0], [1, 1, 0]], [[1, 1, 0], [1, 1, 0]]]]
    concrete = space.steer(masks, space.guide(torch.ones(1, 2, 2, 3), None))
    assert torch.equal(space.act(concrete, torch.ones(1, 2, 2, 3)), found)


def test_every_subset_is_as_likely():
    masks = drawn(RandomMasks(size=2).fit(Size([5])), 20_000)
    assert bool((masks.sum(1) == 2).all())
    subsets = [torch.tensor([unit in chosen for unit in range(5)]) for chosen in combinations(range(5), 2)]
    counts = [int((masks == subset).all(1).sum()) for subset in subsets]
    assert sum(counts) == 20_000
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(("size", "count"), [(1, 1), (3, 3), (24, 24), (0.5, 12), (0.26, 6), (0.001, 1), (0.999, 24)])
def test_sizes(size, count):
    space = RandomMasks(size=size).fit(Size([2, 3, 4]))
    assert space.count == count
    assert bool((drawn(space, 10).sum(1) == count).all())
    assert RandomMasks(**{key: value for key, value in space.spec().items() if key not in ("name", "shape")}).fit(Size([2, 3, 4])) == space


def test_baselines_belong_to_the_sample():
    x = torch.tensor([[[1.0, 2.0], [3.0, 6.0]], [[-1.0, 0.0], [0.0, 5.0]]])
    everything = FullMask().fit(Size([2, 2])).enumerate().expand(2, 1)
    for baseline, first, second in [("black", 1.0, -1.0), ("white", 6.0, 5.0), ("mean", 3.0, 1.0), (0.25, 0.25, 0.25), (2, 2.0, 2.0)]:
        found = FullMask(baseline=baseline).fit(Size([2, 2])).act(everything, x)
        assert torch.equal(found, torch.tensor([first, second])[:, None, None].expand(2, 2, 2))
    assert filling(1.5, x.double()).dtype == torch.float64


def test_memory_follows_the_units():
    """Drawn elements hold units, however large the sample; entries come into being where the masks are made concrete."""
    space = RandomMasks(size=4, patch=32).fit(Size([3, 224, 224]))
    assert (space.latents, drawn(space, 7).shape) == (49, (7, 49))


def test_misuse_is_refused():
    assert "random_masks" not in set(GROUPS)
    with pytest.raises(SpecError, match=r"^The space 'random_masks' does not know the inputs' shape yet: call fit\(shape\)"):
        _ = RandomMasks(size=2).latents
    with pytest.raises(SpecError, match="Did you mean 'black'"):
        RandomMasks(size=2, baseline="blak").fit(Size([3]))
    for baseline in (math.nan, math.inf, None, True):
        with pytest.raises(SpecError, match=r"'baseline' of space 'full_mask' must be a (finite )?number, text or a tensor, not"):
            FullMask(baseline=baseline).fit(Size([3]))
    for size in (0, -1, 1.5, 0.0, 1.0, math.nan, True, "2", None):
        with pytest.raises(
            SpecError, match=r"^The size of random masks must be a whole number, such as 224, or a share, such as 0\.2, not|'size' of space"
        ):
            RandomMasks(size=size).fit(Size([300]))
    with pytest.raises(
        InputError, match=r"^Random masks of 224 units do not fit a sample of 64: use a smaller size, or a share such as 0\.2\.$"
    ):
        RandomMasks(size=224).fit(Size([1, 8, 8]))
    fitted = RandomMasks(size=2).fit(Size([2, 2]))
    with pytest.raises(InputError, match=r"made for samples of shape \(2, 2\), but one sample has shape \(5,\)"):
        fitted.fit(Size([5]))
    with pytest.raises(
        InputError, match=r"^Inputs of shape \(2, 2, 2\) need masks of shape \(2, 4\), but the space 'random_masks' got \(2, 3\)\.$"
    ):
        fitted.act(torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, 2, 2))
    with pytest.raises(InputError, match=r"acts by masks of True and False, not by torch\.int64"):
        fitted.act(torch.zeros(2, 4, dtype=torch.int64), torch.zeros(2, 2, 2))
