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


def greedy(value, features, budget):
    """The same values the slow way: one node after the other, the largest first, the oldest of equal ones."""
    empty = frozenset()
    nodes, found = [(0, features, empty, value(empty), value(frozenset(range(features))), 1.0)], np.zeros(features)
    for _ in range(budget):
        sizes = [abs(weight * (within - without)) if high - low > 1 else -1.0 for low, high, _, without, within, weight in nodes]
        if max(sizes) < 0:
            break
        low, high, context, without, within, weight = nodes.pop(int(np.argmax(sizes)))
        middle = low + (high - low + 1) // 2
        one, other = context | set(range(low, middle)), context | set(range(middle, high))
        first, second = value(one), value(other)
        nodes += [(low, middle, context, without, first, weight / 2), (middle, high, context, without, second, weight / 2)]
        nodes += [(low, middle, other, second, within, weight / 2), (middle, high, one, first, within, weight / 2)]
    for low, high, _, without, within, weight in nodes:
        found[low:high] += weight * (within - without) / (high - low)
    return found


@settings(max_examples=40, deadline=None)
@given(
    features=st.integers(1, 10),
    evaluations=st.integers(4, 120),
    seed=st.integers(0, 99),
    ahead=st.sampled_from([1, 2, 3, 8, 32]),
    coarse=st.booleans(),
)
def test_evaluations_ahead_change_no_split(features, evaluations, seed, ahead, coarse):
    """Games with many equal values (`coarse`) too; at most ahead - 1 nodes of an input are evaluated and not split."""
    game, asked = torch.randn(2**features, generator=torch.Generator().manual_seed(seed)).double(), []
    game = game.round() if coarse else game
    counts, budget = torch.tensor([features, max(1, features - 3)]), (evaluations - 2) // 2

    def score(rows, masks):
        asked.extend(zip(rows.tolist(), map(tuple, masks.tolist()), strict=True))
        return game[(masks.long() << torch.arange(features)).sum(1)]

    found = owen_values(score, counts, features, evaluations, ahead)
    assert torch.equal(found, owen_values(score, counts, features, evaluations))
    del asked[:]
    owen_values(score, counts, features, evaluations, ahead)
    for row, count in enumerate(counts.tolist()):
        slow = greedy(lambda present: float(game[sum(1 << one for one in present)]), count, budget)
        assert found[row, :count].numpy() == pytest.approx(slow, abs=1e-12)
        used, made = 2 + 2 * min(splits(count), budget), sum(one == row for one, _ in asked)
        assert used <= made <= used + 2 * (ahead - 1)
        assert made == used or splits(count) > budget


def test_evaluations_ahead_need_few_calls():
    """A sum with interactions of 64 features: 250 calls become fewer than 60, with 3 % more evaluations at most."""
    generator, calls = torch.Generator().manual_seed(0), []
    own, mixed, ends = (torch.randn(*shape, generator=generator).double() for shape in ((64,), (64, 16), (16,)))

    def score(rows, masks):
        calls.append(len(rows))
        return masks.double() @ own + torch.tanh(masks.double() @ mixed / 3 + rows[:, None] / 9) @ ends

    counts, made, found = torch.arange(33, 65), [], []
    for ahead in (1, 32):
        del calls[:]
        found.append(owen_values(score, counts, 64, 500, ahead))
        made.append((len(calls), sum(calls)))
    assert torch.equal(*found)
    assert made[0] == (250, 32 * 500)
    assert made[1][0] < 60
    assert made[1][1] < 1.03 * 32 * 500


@pytest.mark.parametrize(("batch", "calls"), [(10_000, 60), (4, 250)])
def test_nodes_are_evaluated_ahead_only_where_it_pays_and_fits(batch, calls, monkeypatch):
    """A device of the kind of a GPU; a call of four rows has no room for more than one node of two inputs."""
    model, x, rows = network(40), torch.randn(2, 40, generator=torch.Generator().manual_seed(1)).double(), []
    handle = model.register_forward_pre_hook(lambda _model, args: rows.append(len(args[0])))

    def maps():
        return PartitionShap().explain(model, x, torch.tensor([2, 0]), Context(Draws.of(0, torch.arange(2)), batch))

    one_by_one, before = maps(), len(rows)
    monkeypatch.setattr("veracity.explain.partition_shap.AHEAD", {"cpu": 32})
    torch.testing.assert_close(maps(), one_by_one, rtol=0, atol=1e-12)
    handle.remove()
    assert before == 250
    assert len(rows) - before <= calls
    assert max(rows) <= batch


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


@pytest.mark.parametrize("ahead", [1, 8])
@pytest.mark.parametrize("features", [5, 12])
def test_scores_that_are_not_numbers_end_it_too(features, ahead):
    found = owen_values(lambda rows, masks: torch.full((len(rows),), torch.nan).double(), torch.tensor([features]), features, 40, ahead)
    assert bool(found.isnan().all())


def test_a_budget_without_a_split_is_refused():
    with pytest.raises(SpecError, match="'evaluations' of explainer 'partition_shap' must be a whole number of at least 4, not 3"):
        PartitionShap(evaluations=3)
