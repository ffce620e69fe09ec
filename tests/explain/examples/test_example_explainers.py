"""What every explainer by training examples must hold: errors in one sentence, nothing touched, nothing owed to the batch."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from example_nets import context_of, explained, images, labels, lessons, slow_curvature, slow_gradients, small_cnn, states, training_set
from torch import Tensor, nn
from torch.nn.functional import linear, normalize
from torch.nn.utils.parametrize import register_parametrization

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Explainer, Frame, Need
from veracity.core.graphs import GraphInputs, OnGraphs
from veracity.core.inputs import TensorInputs
from veracity.core.models import LayerScores
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.targets import Custom, Neuron, Outputs
from veracity.core.training import Checkpoint, Training
from veracity.explain.controls import RandomExamples, RandomMixture
from veracity.explain.examples.influence import InfluenceFunctions
from veracity.explain.examples.representation import RepresentationSimilarity, SimplEx
from veracity.explain.examples.tracin import TracIn
from veracity.testing.explainers import no_trace

LOSS = [InfluenceFunctions(), InfluenceFunctions(layer="dense"), InfluenceFunctions(layer="conv2"), TracIn(), TracIn(layer="conv1")]
SHOWN = [SimplEx(), SimplEx(layer="conv2"), RepresentationSimilarity(), RepresentationSimilarity(layer="pool")]
ALL = [*LOSS, *SHOWN, RandomExamples(), RandomMixture()]


def named(explainer: Explainer) -> str:
    return f"{explainer.name}-{getattr(explainer, 'layer', None)}"


def past(count: int = 12) -> Training:
    return training_set(count, checkpoints=tuple(Checkpoint(state, 0.1) for state in states((3, 4))))


@pytest.mark.parametrize("explainer", ALL, ids=named)
class TestEvery:
    def test_declares_itself(self, explainer: Explainer) -> None:
        assert (explainer.frame, explainer.structured) == (Frame.TRAINING, True)
        assert Need.TRAINING in explainer.needs
        assert EXPLAINERS.build(json.loads(json.dumps(explainer.spec()))) == explainer
        assert explainer.reference or explainer.control

    def test_one_number_for_each_example(self, explainer: Explainer) -> None:
        found = explained(explainer, small_cnn(), images(5, 2), labels(5), past())
        assert found.shape == (5, 12)
        assert bool(found.isfinite().all())
        assert bool((found != 0).any(1).all())
        assert explainer.signed or bool((found >= 0).all())
        assert not found.requires_grad

    def test_the_batch_changes_nothing(self, explainer: Explainer) -> None:
        whole = explained(explainer, small_cnn(), images(9, 2), labels(9), past())
        for batch in (1, 7):
            found = explained(explainer, small_cnn(), images(9, 2), labels(9), past(), batch=batch)
            torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5 * float(whole.abs().max()))

    def test_leaves_no_trace(self, explainer: Explainer) -> None:
        model, x, y, context = small_cnn(), images(4, 2), labels(4), context_of(4, past())
        with no_trace(model, x), torch.no_grad():
            explainer.check(model, x, y, context)
            learnt = lessons(explainer, model, context)
            explainer.explain(model, x, y, Context(context.draws, 512, learnt=learnt, training=context.training))

    def test_learns_plain_tensors(self, explainer: Explainer) -> None:
        for value in lessons(explainer, small_cnn(), context_of(4, past())).values():
            assert isinstance(value, Tensor)
            assert not value.requires_grad

    def test_costs_what_it_says(self, explainer: Explainer) -> None:
        if explainer in LOSS and getattr(explainer, "layer", None) in {"conv1", "conv2"}:
            pytest.skip("rows under vmap cannot be counted by a hook")
        model, x, y, context = small_cnn(), images(4, 2), labels(4), context_of(4, past())
        learnt = lessons(explainer, model, context)
        settled = explainer.specialise(model, x, y, context)
        rows = {"forward": 0, "backward": 0}

        def count(_module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            rows["forward"] += len(args[0])
            if output.grad_fn is not None:
                output.register_hook(lambda gradient: rows.update(backward=rows["backward"] + len(gradient)))

        model.register_forward_hook(count)
        settled.explain(model, x, y, Context(context.draws, 512, learnt=learnt, training=context.training))
        cost = settled.cost(x.shape[1:])
        assert rows == {"forward": 4 * cost.forward, "backward": 4 * cost.backward}


@pytest.mark.parametrize("explainer", [InfluenceFunctions(), TracIn(), SimplEx(), RepresentationSimilarity()], ids=named)
class TestMistakes:
    def test_no_training_set(self, explainer: Explainer) -> None:
        with pytest.raises(InputError, match=f"{explainer.name} needs training examples: pass"):
            explainer.check(small_cnn(), images(2), labels(2), BARE)

    def test_nothing_learnt(self, explainer: Explainer) -> None:
        with pytest.raises(InputError, match=f"{explainer.name} must learn about the model first"):
            explainer.explain(small_cnn(), images(2), labels(2), context_of(2, past()))


@pytest.mark.parametrize("kind", [InfluenceFunctions, TracIn, SimplEx, RepresentationSimilarity])
def test_a_layer_that_does_not_exist(kind: type[Explainer]) -> None:
    with pytest.raises(InputError, match=r"The model has no layer 'conv_2'\. Did you mean 'conv2'\?"):
        kind(layer="conv_2").check(small_cnn(), images(2), labels(2), context_of(2, past()))


@pytest.mark.parametrize("explainer", [InfluenceFunctions(), TracIn()], ids=named)
class TestLosses:
    def test_a_single_class(self, explainer: Explainer) -> None:
        training = Training(TensorInputs(images(6)), torch.full((6,), 2), checkpoints=past().checkpoints)
        with pytest.raises(InputError, match=f"All 6 training examples have class 2: {explainer.name} needs at least two"):
            explainer.check(small_cnn(), images(2), labels(2), context_of(2, training))
        with pytest.raises(InputError, match="at least two classes"):
            explainer.learn(small_cnn(), context_of(2, training))

    def test_labels_that_the_model_does_not_know(self, explainer: Explainer) -> None:
        training = Training(TensorInputs(images(6)), torch.arange(6), checkpoints=past().checkpoints)
        with pytest.raises(InputError, match="The label of training example 4 is 4, but the model has 4 classes, numbered 0 to 3"):
            explainer.check(small_cnn(), images(2), labels(2), context_of(2, training))

    @pytest.mark.parametrize("target", [Neuron(layer="dense", unit=1), Custom(function=lambda output: output[:, 0])])
    def test_a_target_that_is_no_class(self, explainer: Explainer, target: Neuron | Custom) -> None:
        model = small_cnn()
        view = target.view(model)
        with pytest.raises(InputError, match="explains the loss of a class: the target must be 'predicted', 'label' or a class number"):
            explainer.check(view, images(2), labels(2), context_of(2, past().seen_by(view, model)))

    def test_outputs_without_a_loss(self, explainer: Explainer) -> None:
        training = Training(TensorInputs(images(4)), torch.tensor([0, 1, 0, 1]))
        states = {classes: (Checkpoint(small_cnn(classes=classes).state_dict()),) for classes in (1, 4)}
        for classes, outputs in ((1, Outputs.LOGITS), (4, Outputs.RAW)):
            given = Training(training.inputs, training.labels, checkpoints=states[classes])
            with pytest.raises(InputError, match=f"one column per class.*but the model gives {outputs.value} of shape"):
                explainer.check(small_cnn(classes=classes), images(2), labels(2), context_of(2, given, outputs=outputs))

    def test_a_layer_without_parameters(self, explainer: Explainer) -> None:
        with pytest.raises(InputError, match="The layer 'pool' has no parameters: choose"):
            type(explainer)(layer="pool").check(small_cnn(), images(2), labels(2), context_of(2, past()))

    def test_a_layer_beside_the_way(self, explainer: Explainer) -> None:
        model = Forked()
        training = Training(TensorInputs(images(6)), labels(6), checkpoints=(Checkpoint(model.state_dict()),))
        with pytest.raises(InputError, match="output does not depend differentiably on its layer 'aside'"):
            type(explainer)(layer="aside").check(model, images(2), labels(2), context_of(2, training))


class Forked(nn.Module):
    """A model whose last layer to run is not on the way to the output, and which holds parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.head, self.aside = nn.Linear(36, 4), nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.aside(x.flatten(1))
        output: Tensor = self.head(x.flatten(1) * self.scale)
        return output


class TwoBranches(nn.Module):
    """A shared linear layer that runs twice, and a head that is registered first."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.shared = nn.Linear(4, 3), nn.Linear(18, 4)

    def forward(self, x: Tensor) -> Tensor:
        one, two = x.flatten(1).chunk(2, dim=1)
        output: Tensor = self.head(self.shared(one).tanh() + self.shared(two))
        return output


def test_the_last_layer_is_the_last_to_run() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, forked = TwoBranches().eval(), Forked().eval()
    x, y, training = images(3, 2), labels(3, 3), Training(TensorInputs(images(9)), labels(9, 3))
    found, head = (explained(InfluenceFunctions(layer=layer), model, x, y, training) for layer in (None, "head"))
    torch.testing.assert_close(found, head, rtol=0, atol=0)
    similar = explained(RepresentationSimilarity(), forked, x, y, training)
    torch.testing.assert_close(similar, x.flatten(1) @ images(9).flatten(1).T)


def test_a_linear_layer_that_runs_twice_has_no_outer_product() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = TwoBranches().eval()
    training = Training(TensorInputs(images(9)), labels(9, 3), checkpoints=(Checkpoint(model.state_dict(), 1.0),))
    x, y = images(3, 2), labels(3, 3)
    found = explained(TracIn(layer="shared"), model, x, y, training)
    expected = slow_gradients(model, model.shared, x, y) @ slow_gradients(model, model.shared, images(9), labels(9, 3)).T
    torch.testing.assert_close(found, expected.double(), rtol=1e-4, atol=1e-5)


class Reuses(nn.Module):
    """A model that overwrites what its last layer was given."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(36, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = x.flatten(1).clone()
        output: Tensor = self.head(h)
        h.zero_()
        return output


def test_what_a_layer_is_given_is_kept_before_it_is_overwritten() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Reuses().eval()
    plain = nn.Sequential(nn.Flatten(), model.head).eval()
    for explainer in (InfluenceFunctions(), RepresentationSimilarity()):
        found, expected = (explained(explainer, net, images(3, 2), labels(3), training_set()) for net in (model, plain))
        torch.testing.assert_close(found, expected)


class Layered(nn.Module):
    """A graph network without message passing: a linear layer on nodes, a sum over each graph, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.node, self.head = nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        made = self.node(x).relu()
        pooled = made.new_zeros(int(batch.max()) + 1, 5).index_add(0, batch, made)
        output: Tensor = self.head(pooled)
        return output


def graphs(count: int, seed: int = 0) -> GraphInputs:
    mask = torch.arange(4) < 2 + torch.arange(count)[:, None] % 3
    values = torch.randn(count, 4, 3, generator=torch.Generator().manual_seed(seed)) * mask[:, :, None]
    return GraphInputs(values, mask, torch.zeros(count, 1, 2, dtype=torch.long))


def test_graphs_of_mixed_sizes() -> None:
    """The same numbers in a batch as one at a time, and the node-level layer is refused."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Layered().eval()
    model, training, signals = OnGraphs(network), Training(graphs(8), labels(8, 2)), graphs(5, 1).take(torch.arange(5))
    training = Training(training.inputs, training.labels, checkpoints=(Checkpoint(network.state_dict(), 0.5),)).seen_by(model, network)
    y = labels(5, 2)
    for explainer in (InfluenceFunctions(), TracIn(), SimplEx(), SimplEx(layer="head"), RepresentationSimilarity()):
        rows = []
        for part in (slice(0, 5), *(slice(one, one + 1) for one in range(5))):
            some = signals[part]
            context = Context(Draws.of(0, torch.arange(len(some))), 512, structure=some.structure, training=training)
            explainer.check(model, some.values, y[part], context)
            learnt = lessons(explainer, model, context)
            kept = Context(context.draws, 512, structure=some.structure, training=training, learnt=learnt)
            rows.append(explainer.explain(model, some.values, y[part], kept))
        torch.testing.assert_close(rows[0], torch.cat(rows[1:]), rtol=1e-4, atol=1e-5)
        assert rows[0].shape == (5, 8)
    context = Context(Draws.of(0, torch.arange(5)), 512, structure=signals.structure, training=training)
    for explainer in (SimplEx(layer="node"), RepresentationSimilarity(layer="node")):
        with pytest.raises(InputError, match=r"The layer 'node' returns .* rows for .* inputs, .* choose a layer after the pooling"):
            explainer.check(model, signals.values, y, context)
    for explainer in (InfluenceFunctions(layer="node"), TracIn(layer="node")):
        with pytest.raises(InputError, match=r"The layer 'node' does not give one gradient per input, .* after the pooling"):
            explainer.check(model, signals.values, y, context)


def test_a_layer_whose_size_follows_the_input() -> None:
    model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2, 3)).eval()
    training = Training(TensorInputs(torch.randn(4, 1, 9)), labels(4, 3))
    with pytest.raises(InputError, match="The layer '0' has 20 units for an input and 14 for a training example: simplex needs a layer of"):
        SimplEx(layer="0").check(model, torch.randn(2, 1, 12), labels(2, 3), context_of(2, training))


def test_similarity_is_the_inner_product() -> None:
    model, x, training = small_cnn(), images(5, 2), past()
    with torch.no_grad():
        expected = LayerScores(model, "conv2")(x) @ LayerScores(model, "conv2")(training.inputs.tensor).T
    torch.testing.assert_close(explained(RepresentationSimilarity(layer="conv2"), model, x, labels(5), training), expected)


def test_the_random_control_is_gaussian_and_its_own() -> None:
    control, training = RandomExamples(), past(400)
    draws = [
        control.explain(small_cnn(), images(50), labels(50), Context(Draws.of(0, torch.arange(50), draw), 512, training=training))
        for draw in (0, 1)
    ]
    assert draws[0].shape == (50, 400)
    assert draws[0].dtype is torch.float32
    assert abs(float(draws[0].mean())) < 0.03
    assert float(draws[0].std()) == pytest.approx(1, abs=0.03)
    assert abs(float(torch.cosine_similarity(*draws).mean())) < 0.03
    assert control.control
    assert control.stochastic


def test_the_random_mixture_is_uniform_on_the_simplex() -> None:
    """Weights of n examples have the mean 1/n, exceed t with probability (1 - t)^(n - 1), and two draws a cosine near 1/2."""
    control, training = RandomMixture(), past(400)
    rows = torch.arange(200)
    first, again, other = (
        control.explain(small_cnn(), images(200), labels(200), Context(Draws.of(0, rows, draw), 512, training=training)).double()
        for draw in (0, 0, 1)
    )
    assert first.shape == (200, 400)
    assert torch.equal(first, again)
    assert bool((first >= 0).all())
    torch.testing.assert_close(first.sum(1), torch.ones(200).double(), rtol=0, atol=1e-5)
    for t in (0.001, 0.005):
        assert float((first > t).double().mean()) == pytest.approx((1 - t) ** 399, abs=0.01)
    assert float(torch.cosine_similarity(first, other).mean()) == pytest.approx(0.5, abs=0.02)
    assert (control.control, control.stochastic, control.signed, control.frame) == (True, True, False, Frame.TRAINING)


class Cosine(nn.Linear):
    """A linear layer by its parameters, and a cosine classifier by what it computes."""

    def forward(self, x: Tensor) -> Tensor:
        return 5 * linear(normalize(x, dim=1), normalize(self.weight, dim=1), self.bias)


def cosine_head() -> nn.Linear:
    return Cosine(36, 4)


def hooked_head() -> nn.Linear:
    head = nn.Linear(36, 4)
    head.register_forward_hook(lambda _module, _args, output: output.tanh())
    return head


def pre_hooked_head() -> nn.Linear:
    head = nn.Linear(36, 4)
    head.register_forward_pre_hook(lambda _module, args: (args[0].tanh(),))
    return head


def replaced_head() -> nn.Linear:
    head = nn.Linear(36, 4)
    head.forward = lambda x: linear(x, head.weight.tanh(), head.bias)  # type: ignore[method-assign]
    return head


def parametrised_head() -> nn.Linear:
    head = nn.Linear(36, 4)
    register_parametrization(head, "weight", nn.Tanh())
    return head


@pytest.mark.parametrize("head", [cosine_head, hooked_head, pre_hooked_head, replaced_head, parametrised_head])
@pytest.mark.parametrize("between", [nn.Identity, nn.Tanh])
def test_linear_by_name_alone(head: Callable[[], nn.Linear], between: type[nn.Module]) -> None:
    """A layer that is a linear one and computes something else has the gradients of what it computes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), between(), head()).eval()
    x, y, training = images(3, 2), labels(3), training_set(9)
    training = Training(training.inputs, training.labels, checkpoints=(Checkpoint(model.state_dict(), 1.0),))
    ours, theirs = slow_gradients(model, model[2], x, y), slow_gradients(model, model[2], images(9, 1), labels(9))
    torch.testing.assert_close(explained(TracIn(layer="2"), model, x, y, training), (ours @ theirs.T).double(), rtol=1e-4, atol=1e-4)


class Tied(nn.Module):
    """Two layers with one weight, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(36, 36, bias=False), nn.Linear(36, 36, bias=False), nn.Linear(36, 4)
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(self.two(self.one(x.flatten(1)).tanh()).tanh())
        return output


def tied() -> Tied:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Tied().eval()


@pytest.mark.parametrize("layer", [None, "head", "one", "two"])
def test_tied_weights(layer: str | None) -> None:
    """A gradient in a weight that two layers share goes through both of them; checkpoints name it twice."""
    model, x, y = tied(), images(3, 2), labels(3)
    state = {name: 0.5 * value for name, value in model.state_dict().items()}
    training = Training(TensorInputs(images(9)), labels(9), checkpoints=(Checkpoint(state, 1.0),))
    found = explained(TracIn(layer=layer), model, x, y, training)
    other = tied()
    other.load_state_dict(state)
    part = other.get_submodule(layer or "head")
    expected = slow_gradients(other, part, x, y) @ slow_gradients(other, part, images(9), labels(9)).T
    torch.testing.assert_close(found, expected.double(), rtol=1e-4, atol=1e-5)
    assert model.one.weight is model.two.weight


def test_influence_through_tied_weights() -> None:
    model, x, y, training = tied(), images(3, 2), labels(3), Training(TensorInputs(images(5)), labels(5))
    found = explained(InfluenceFunctions(layer="two", l2=0.1), model, x, y, training)
    curvature = slow_curvature(model, model.two, images(5), 0.1).double()
    past = slow_gradients(model, model.two, images(5), labels(5)).double()
    expected = slow_gradients(model, model.two, x, y).double() @ torch.linalg.solve(curvature, past.T)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


def test_a_checkpoint_that_unties_weights() -> None:
    model = tied()
    state = dict(model.state_dict()) | {"two.weight": torch.zeros(36, 36)}
    training = Training(TensorInputs(images(9)), labels(9), checkpoints=(Checkpoint(model.state_dict()), Checkpoint(state)))
    with pytest.raises(InputError, match=r"Checkpoint 1 has different values for 'one\.weight' and 'two\.weight', which are one tensor"):
        TracIn().check(model, images(2), labels(2), context_of(2, training))
