"""Orders of the words of a text: by hand, as a group, and against the tokenizer on the reordered text."""

from dataclasses import dataclass, field

import pytest
import torch

from text_models import TEXTS, text_model, tokenizer
from veracity.core.explainers import Context, Cost, Explainer
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws
from veracity.explain import Symmetrised
from veracity.inputs import TextInputs
from veracity.perturb import TokenPermutations


def drawn(count, size, seed=0):
    return TokenPermutations().fit(torch.Size([size])).decode(Draws.of(seed, torch.arange(count)).normal(size, stream="orders"))


def test_a_moved_text_is_the_text_in_another_order():
    """The pieces of a word stay together, and its gate goes with it."""
    inputs = TextInputs(["a finely film", "not very dull at all"], tokenizer(), unit="word")
    group, x = TokenPermutations().fit(inputs.shape), inputs.take(torch.arange(2))
    gates = Signals(x.values * torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]), x.structure, x.present)
    element = group.steer(torch.tensor([[4, 2, 0, 3, 1], [1, 4, 0, 3, 2]]), group.guide(x.values, None))
    assert element.tolist() == [[2, 0, 1, 3, 4], [1, 4, 0, 3, 2]]
    moved = group.move(element, gates)
    again = TextInputs(["film a finely", "very all not at dull"], tokenizer(), unit="word").take(torch.arange(2))
    for one, other in zip(moved.structure, again.structure, strict=True):
        assert torch.equal(one, other)
    torch.testing.assert_close(moved.values, torch.tensor([[0.3, 0.1, 0.2, 0.0, 0.0], [0.2, 0.5, 0.1, 0.4, 0.3]]))
    assert torch.equal(moved.present, x.present)


def test_it_is_an_action_of_a_group():
    inputs = TextInputs(TEXTS, tokenizer())
    group, x = TokenPermutations().fit(inputs.shape), inputs.take(torch.arange(4))
    guide = group.guide(x.values, None)
    g, h = (group.steer(drawn(4, inputs.shape[0], seed), guide) for seed in (0, 1))
    for one, other in (
        (group.move(group.compose(g, h), x), group.move(g, group.move(h, x))),
        (group.move(group.inverse(g), group.move(g, x)), x),
        (group.move(group.identity(4), x), x),
    ):
        assert torch.equal(one.values, other.values)
        assert all(torch.equal(a, b) for a, b in zip(one.structure, other.structure, strict=True))
    assert torch.equal(group.steer(g, guide), g)
    raw = drawn(4, inputs.shape[0])  # not steered: words must not get lost behind the end of a short text
    assert torch.equal(group.move(raw, x).values, x.values)
    assert torch.equal(group.move(raw, x).structure[0], group.move(g, x).structure[0])


@dataclass(frozen=True, kw_only=True)
class Recorder(Explainer):
    """Explains a text by its gates, and remembers the texts."""

    name = "recorder"
    structured = True
    seen: list = field(default_factory=list)

    def cost(self, shape):
        return Cost()

    def explain(self, model, inputs, targets, context):
        self.seen.extend(zip(context.structure[0].tolist(), inputs.tolist(), strict=True))
        return inputs


def test_words_behind_a_closed_gate_are_moved_too():
    """All orders of the three words that exist, each word with its gate, and every map comes back to its word."""
    inputs, recorder = TextInputs(["a fine film", "a dull film at all"], tokenizer()), Recorder()
    x, gates = inputs.take(torch.tensor([0])), torch.tensor([[1.0, 0.0, 0.5, 0.0, 0.0]])
    context = Context(Draws.of(0, torch.arange(1)), 8, x.structure, present=x.present)
    one = Symmetrised(explainer=recorder, space=TokenPermutations())
    found = one.explain(inputs.adapt(text_model()), gates, torch.zeros(1, dtype=torch.long), context)
    torch.testing.assert_close(found, gates)
    (own,) = x.structure[0].tolist()
    gate_of = dict(zip(own[1:4], gates[0].tolist(), strict=False))
    assert len({tuple(ids) for ids, _ in recorder.seen}) == 6
    assert all([gate_of[token] for token in ids[1:4]] == moved[:3] for ids, moved in recorder.seen)


def test_all_orders_of_a_short_text_are_equally_likely():
    group = TokenPermutations().fit(torch.Size([6]))
    guide = torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]]).expand(6000, -1) != 0
    own = group.steer(drawn(6000, 6), guide)
    assert torch.equal(own[:, 3:], torch.tensor([3, 4, 5]).expand(6000, -1))
    orders, counts = own[:, :3].unique(dim=0, return_counts=True)
    assert len(orders) == 6
    assert ((counts - 1000).abs() < 4 * (6000 * 5 / 36) ** 0.5).all()


@pytest.mark.parametrize("positions", [True, False])
def test_an_encoder_feels_the_order_by_its_positions_alone(positions):
    model, inputs = text_model().double(), TextInputs(TEXTS, tokenizer())
    if not positions:
        model.distilbert.embeddings.position_embeddings.weight.data.zero_()
    group, x, view = TokenPermutations().fit(inputs.shape), inputs.take(torch.arange(4)), inputs.adapt(model)
    moved = group.move(group.steer(drawn(4, inputs.shape[0]), group.guide(x.values, None)), x)
    with torch.no_grad():
        gap = (view(moved.values, *moved.structure) - view(x.values, *x.structure)).abs().amax(1)
    assert bool((gap[[0, 2, 3]] > 1e-3).all()) == positions
    assert float(gap[1]) == 0.0  # "dull" has one order
