"""Masks that grow: in the order of an explanation, or in a random one."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from test_masks import MaskConformance
from torch import Size

from veracity.core.errors import InputError, SpecError
from veracity.core.randomness import Draws
from veracity.core.spaces import FiniteSpace
from veracity.perturb import OrderedMasks, RandomOrderMasks, RandomSubsets
from veracity.walk import Exhaustive, MonteCarlo


class TestOrderedMasks(MaskConformance):
    def space(self):
        return OrderedMasks(features=5, baseline=0.0)

    def explanations(self):
        return self.inputs().flip(1).square()

    def test_elements_can_be_counted(self):
        space = self.fitted()
        assert isinstance(space, FiniteSpace)
        assert space.order == 1
        assert space.enumerate().shape == (1, 1)


class TestOrderedPatches(TestOrderedMasks):
    def space(self):
        return OrderedMasks(steps=3, patch=2, baseline="mean", insertion=True, origin=True)


class TestRandomOrderMasks(MaskConformance):
    def space(self):
        return RandomOrderMasks(features=2, patch=2, baseline=0.0)


class TestRandomSubsets(MaskConformance):
    def space(self):
        return RandomSubsets(most=0.8, steps=3, baseline=0.0)


@pytest.mark.parametrize(("units", "sizes"), [(2, [1]), (3, [1, 2]), (6, [1, 2, 3, 4]), (19, [1, 3, 4, 6, 7, 9, 10, 12, 13, 15])])
def test_sizes_of_random_subsets_reach_their_share(units, sizes):
    space = RandomSubsets(most=0.8, steps=10).fit(Size([units]))
    assert space.count(torch.arange(space.levels)).tolist() == sizes
    drawn = paths(RandomSubsets(most=0.8, steps=10), torch.zeros(2, units), draws=3)
    assert (drawn.sum(-1) == torch.tensor(sizes)).all()
    fixed = RandomSubsets(most=0.8, features=4).fit(Size([units]))
    assert fixed.count(torch.arange(fixed.levels)).tolist() == [size for size in (4, 8, 12) if size <= 0.8 * units]


def paths(space, x, explanation=None, draws=1, seed=0):
    """Masks (samples, draws, levels, d) as a walk visits them."""
    space = space.fit(x.shape[1:])
    guide = space.guide(x, explanation)
    walker = MonteCarlo(draws=draws).start(space, torch.arange(len(x)), seed, (0.0, 1.0))
    found = torch.zeros(len(x), draws, space.levels, x[0].numel(), dtype=torch.bool)
    while (ask := walker.ask()) is not None:
        found[ask.row, ask.draw, ask.level] = space.steer(ask.element, guide[ask.row])
    return found


def flipped(x, explanation, features, baseline):
    """Pixel flipping the slow way: at each step the next most relevant entries are overwritten."""
    steps = []
    current = x.flatten().numpy().copy()
    order = np.argsort(-explanation.flatten().numpy(), kind="stable")
    for start in range(0, len(order), features):
        current[order[start : start + features]] = baseline
        steps.append(current.copy())
    return torch.from_numpy(np.stack(steps))


def test_an_order_by_hand():
    x, explanation = torch.zeros(1, 4), torch.tensor([[0.3, 0.9, -5.0, 0.9]])
    assert paths(OrderedMasks(features=1), x, explanation)[0, 0].tolist() == [
        [False, True, False, False],
        [False, True, False, True],
        [True, True, False, True],
        [True, True, True, True],
    ]
    assert paths(OrderedMasks(features=3, ascending=True), x, explanation)[0, 0].tolist() == [[True, True, True, False], [True] * 4]
    assert paths(OrderedMasks(features=3, insertion=True, origin=True), x, explanation)[0, 0].tolist() == [
        [True] * 4,
        [False, False, True, False],
        [False] * 4,
    ]


@pytest.mark.parametrize("features", [1, 5, 28, 100])
def test_flipping_is_that_of_a_literal_loop(features):
    x = torch.rand(3, 1, 6, 5, generator=torch.Generator().manual_seed(1))
    explanation = torch.randint(-3, 4, x.shape, generator=torch.Generator().manual_seed(2)).float()
    space = OrderedMasks(features=features, baseline="black").fit(x.shape[1:])
    masks = paths(space, x, explanation)[:, 0]
    assert masks.shape[1] == space.levels == -(-30 // features)
    for row in range(3):
        found = space.act(masks[row], x[row].expand(space.levels, *x.shape[1:]))
        assert torch.equal(found.flatten(1), flipped(x[row], explanation[row], features, x[row].min().item()))


@given(
    units=st.integers(1, 30),
    features=st.none() | st.integers(1, 40),
    steps=st.none() | st.integers(1, 40),
    origin=st.booleans(),
    insertion=st.booleans(),
)
def test_paths_grow_evenly_from_end_to_end(units, features, steps, origin, insertion):
    space = OrderedMasks(features=features, steps=steps, origin=origin, insertion=insertion).fit(Size([units]))
    masks = paths(space, torch.zeros(2, units), torch.stack((torch.arange(units), -torch.arange(units))).float())[:, 0]
    turns = (~masks if insertion else masks).sum(2)
    assert turns.shape[1] == space.levels >= 1 + origin
    assert torch.equal(turns[0], turns[1])
    assert space.count(torch.arange(space.levels)).tolist() == turns[0].tolist()
    counts = ([] if origin else [0]) + turns[0].tolist()
    grown = np.diff(counts)
    assert counts[0] == 0
    assert (grown > 0).all()
    if features is not None:
        assert set(grown[:-1]) <= {features}
        assert grown[-1] <= features
    elif steps is not None:
        assert grown.max() - grown.min() <= 1
    else:
        assert set(grown) == {1}
    if steps is None or features is None:
        assert counts[-1] == units
    else:
        assert len(grown) == min(steps, -(-units // features))
    assert bool((masks[:, 1:] >= masks[:, :-1]).all() if not insertion else (masks[:, 1:] <= masks[:, :-1]).all())


def test_equals_keep_their_order():
    masks = paths(OrderedMasks(features=1), torch.zeros(1, 50), torch.zeros(1, 50))[0, 0]
    assert torch.equal(masks, torch.ones(50, 50, dtype=torch.bool).tril())
    up = paths(OrderedMasks(features=1, ascending=True), torch.zeros(1, 50), torch.zeros(1, 50))[0, 0]
    assert torch.equal(up, masks)


def test_patches_are_ranked_by_their_sum():
    """The right patch has the largest entry, the left one the larger sum over its channels."""
    explanation = torch.tensor([[[[0.5, 0.5, 1.2, -1.0]], [[0.5, 0.5, 0.0, 0.0]]]])
    masks = paths(OrderedMasks(features=1, patch=2), torch.zeros(1, 2, 1, 4), explanation)[0, 0]
    assert masks[0].reshape(2, 1, 4).tolist() == [[[True, True, False, False]], [[True, True, False, False]]]


def test_one_map_for_all_channels():
    x = torch.zeros(2, 3, 2, 2)
    one = torch.tensor([[[[1.0, 4.0], [3.0, 2.0]]], [[[0.0, 0.0], [0.0, 1.0]]]])
    assert torch.equal(paths(OrderedMasks(features=1), x, one), paths(OrderedMasks(features=1), x, one.expand_as(x)))


def test_a_sample_does_not_depend_on_its_neighbours():
    x, explanation = torch.rand(2, 6, 2, 5, 5, generator=torch.Generator().manual_seed(0))
    space = OrderedMasks(features=4, patch=2)
    together = paths(space, x, explanation)
    assert torch.equal(together[3:4], paths(space, x[3:4], explanation[3:4]))


def test_nothing_is_random_about_an_ordered_path():
    space = OrderedMasks(features=2).fit(Size([5]))
    assert MonteCarlo(draws=7).length(space) == 1
    assert MonteCarlo(draws=1).sampling(space).exhaustive
    assert Exhaustive().length(space) == 1


def test_a_random_path_is_one_order_at_all_levels():
    masks = paths(RandomOrderMasks(features=2), torch.zeros(3, 7), draws=4)
    assert masks.sum(3).tolist() == [[[2, 4, 6, 7]] * 4] * 3
    assert bool((masks[:, :, 1:] >= masks[:, :, :-1]).all())
    flat = masks[:, :, 1].reshape(12, 7)
    assert len({tuple(row) for row in flat.tolist()}) > 6


def test_every_order_is_as_likely():
    space = RandomOrderMasks(features=1).fit(Size([4]))
    ranks = space.decode(Draws.of(3, torch.arange(12_000)).normal(4, stream="test"))
    counts = [int((ranks == torch.tensor(order)).all(1).sum()) for order in itertools.permutations(range(4))]
    assert sum(counts) == 12_000
    assert chisquare(counts).pvalue > 1e-3


def test_misuse_is_refused():
    space = OrderedMasks(features=2).fit(Size([3]))
    with pytest.raises(
        InputError, match=r"^The space 'ordered_masks' masks in the order of an explanation, and there is none: give explainers\.$"
    ):
        space.guide(torch.zeros(2, 3), None)
    for shape in [(2, 4), (2, 1, 3), (1, 3), (2,)]:
        with pytest.raises(InputError, match="needs explanations in the input's frame"):
            space.guide(torch.zeros(2, 3), torch.zeros(shape))
    for setting in ("features", "steps"):
        for value in (0, -1, 2.0, True):
            with pytest.raises(
                SpecError, match=f"^The setting '{setting}' of space 'ordered_masks' must be a whole number of at least 1 or None, not"
            ):
                OrderedMasks(**{setting: value}).fit(Size([3]))
    with pytest.raises(InputError, match="use at"):
        space.act(space.enumerate(), torch.zeros(1, 3))
