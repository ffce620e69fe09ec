"""Owen values on a balanced tree: against all orders that follow the tree, against shap's PartitionExplainer, and on texts."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shift_invariant import Digits, explain
from torch import nn

from text_models import TEXTS, text_model, tokenizer
from veracity.core.errors import SpecError
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import PartitionShap
from veracity.explain.partition_shap import owen_values, splits
from veracity.inputs import TextInputs


def network(features, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, 3)).double()


def orders(low, high):
    """Every order of the features in which those of a node come one after the other."""
    if high - low == 1:
        return [[low]]
    middle = low + (high - low + 1) // 2
    both = product(orders(low, middle), orders(middle, high))
    return [order for first, second in both for order in (first + second, second + first)]


def by_orders(value, features):
    """The mean contribution of every feature over those orders, by their definition."""
    found, every = np.zeros(features), orders(0, features)
    for order in every:
        mask, before = np.zeros(features, dtype=bool), value(np.zeros(features, dtype=bool))
        for one in order:
            mask[one] = True
            found[one] += value(mask.copy()) - before
            before = value(mask.copy())
    return found / len(every)


def tree_of(features):
    """The same tree in the format of SciPy's linkage: the two parts of each node, a distance and a size."""
    rows = []

    def node(low, high):
        if high - low == 1:
            return low
        middle = low + (high - low + 1) // 2
        parts = node(low, middle), node(middle, high)
        rows.append([*parts, high - low, high - low])
        return features + len(rows) - 1

    node(0, features)
    return np.array(rows, dtype=float)


@pytest.mark.parametrize("features", [1, 2, 3, 5, 6, 7])
def test_a_whole_tree_gives_the_mean_over_all_orders_that_follow_it(features):
    model, x = network(features), torch.randn(2, features, generator=torch.Generator().manual_seed(1)).double()
    found = explain(PartitionShap(), model, x, torch.tensor([2, 0]))

    def value(row, target):
        return lambda mask: model(torch.from_numpy(mask) * x[row : row + 1])[0, target].item()

    for row, target in enumerate((2, 0)):
        assert found[row].numpy() == pytest.approx(by_orders(value(row, target), features), abs=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("evaluations", [4, 8, 14, 20, 100])
def test_six_tokens_are_shaps(evaluations):
    """At every budget, not only where the tree is whole: the same nodes are split."""
    shap = pytest.importorskip("shap")
    inputs = TextInputs(["a dull film with no heart"], tokenizer())
    model, x = inputs.adapt(text_model().double()), inputs.take(torch.arange(1))
    gates = x.values.double()
    targets, context = torch.tensor([1]), Context(Draws.of(0, torch.arange(1)), 64, x.structure, present=x.present)
    ours = PartitionShap(evaluations=evaluations).explain(model, gates, targets, context)

    def score(masks):
        rows = torch.as_tensor(np.asarray(masks), dtype=torch.float64)
        with torch.no_grad():
            return model(rows, *(part.expand(len(rows), -1) for part in x.structure))[:, 1].numpy()

    masker = shap.maskers.Partition(np.zeros((1, 6)), clustering=tree_of(6))
    theirs = shap.PartitionExplainer(score, masker)(gates.numpy(), max_evals=evaluations, batch_size=2, silent=True)
    assert gates.shape == (1, 6)
    assert ours[0].numpy() == pytest.approx(theirs.values[0], abs=1e-12)
    assert float(ours.abs().max()) > 1e-3


@settings(max_examples=30, deadline=None)
@given(features=st.integers(1, 12), evaluations=st.integers(4, 200), seed=st.integers(0, 99))
def test_values_always_add_up_within_the_budget(features, evaluations, seed):
    game, asked = torch.randn(2**features, generator=torch.Generator().manual_seed(seed)).double(), []
    counts = torch.tensor([features, max(1, features - 2)])

    def score(rows, masks):
        asked.extend(rows.tolist())
        return game[(masks.long() << torch.arange(features)).sum(1)]

    found = owen_values(score, counts, features, evaluations)
    for row, count in enumerate(counts.tolist()):
        assert float(found[row].sum()) == pytest.approx(float(game[2**count - 1] - game[0]), abs=1e-9)
        assert not found[row, count:].any()
        assert asked.count(row) == 2 + 2 * min(splits(count), (evaluations - 2) // 2)


def test_a_node_that_is_not_split_shares_its_value():
    """By hand: v = 8 if features 0 and 1 are there, plus 1 for feature 3; one split of four features."""

    def score(rows, masks):
        return 8.0 * (masks[:, 0] & masks[:, 1]) + masks[:, 3].double()

    one, three = (owen_values(score, torch.tensor([4]), 4, evaluations)[0].tolist() for evaluations in (4, 8))
    assert one == [4.0, 4.0, 0.5, 0.5]
    assert three == [4.0, 4.0, 0.5, 0.5]  # both splits go to the first half, whose value is larger
    assert owen_values(score, torch.tensor([4]), 4, 12)[0].tolist() == [4.0, 4.0, 0.0, 1.0]


def test_neither_the_batch_nor_longer_texts_change_a_map():
    inputs = TextInputs(TEXTS, tokenizer())
    model = inputs.adapt(text_model().double())
    maps = []
    for index, batch in ((torch.arange(4), 64), (torch.arange(4), 3), *((torch.tensor([row]), 64) for row in range(4))):
        x = inputs.take(index)
        context = Context(Draws.of(0, index), batch, x.structure, present=x.present)
        maps.append(PartitionShap(evaluations=20).explain(model, x.values.double(), torch.ones_like(index), context))
        assert not maps[-1][~x.present].any()
    torch.testing.assert_close(maps[0], maps[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(maps[0], torch.cat(maps[2:]), rtol=0, atol=1e-12)


def test_patches_of_an_image_and_groups_of_a_table(digits: Digits):
    x, targets = digits.inputs[:2], digits.targets[:2]
    maps = explain(PartitionShap(patch=6), digits.model, x, targets)
    assert all(
        len(maps[row, 0, rows, columns].unique()) == 1 for row in (0, 1) for rows in (slice(6), slice(6, 12)) for columns in (slice(6),)
    )
    model, table = network(3), torch.randn(2, 3).double()
    grouped = explain(PartitionShap(groups=torch.tensor([0, 1, 1])), model, table, torch.tensor([0, 1]))
    assert torch.equal(grouped[:, 1], grouped[:, 2])
    gap = (model(table) - model(torch.zeros_like(table)))[torch.arange(2), torch.arange(2)]
    torch.testing.assert_close(grouped.sum(1), gap)
    assert PartitionShap(evaluations=7).cost(torch.Size((9,))).forward == 6


def test_scores_that_are_not_numbers_end_it_too():
    found = owen_values(lambda rows, masks: torch.full((len(rows),), torch.nan).double(), torch.tensor([5]), 5, 20)
    assert bool(found.isnan().all())


def test_a_budget_without_a_split_is_refused():
    with pytest.raises(SpecError, match="'evaluations' of explainer 'partition_shap' must be a whole number of at least 4, not 3"):
        PartitionShap(evaluations=3)
