from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from shift_invariant import Digits, context_of
from sklearn.datasets import load_digits
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Context, Cost, Explainer, Frame, Learner, Need
from veracity.core.graphs import GraphInputs, OnGraphs
from veracity.core.inputs import TensorInputs
from veracity.core.randomness import Draws
from veracity.core.training import Training
from veracity.explain import GradientShap, IntegratedGradients, RandomGaussian, Saliency, as_explainer
from veracity.explain.concepts.activations import CAV
from veracity.explain.passes import gradients
from veracity.explain.symmetrised import Symmetrised, item_draws, smallest_draws, symmetrised_family
from veracity.measure import categorical_agreement
from veracity.perturb import CyclicShift, Dihedral, NodePermutations, Permutations, Rotation, WindowShift
from veracity.testing.explainers import ExplainerConformance


@dataclass(frozen=True, kw_only=True)
class Ramp(Explainer):
    """A gradient with more weight on late entries, so that it moves along with nothing."""

    name = "ramp"

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1, backward=1)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        weight = torch.linspace(0.0, 1.0, inputs[0].numel(), dtype=inputs.dtype).reshape(inputs.shape[1:])
        return weight * gradients(model, inputs, targets)


@dataclass(frozen=True, kw_only=True)
class FirstPixels(Learner):
    """The first two numbers of the input, as if they were concepts; it learns what they are called."""

    name = "first_pixels"
    frame = Frame.CONCEPTS

    def cost(self, shape: Size) -> Cost:
        return Cost()

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.TRAINING})

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        return {"scale": torch.tensor(2.0)}

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        return [{"scale": float(learnt["scale"])}]

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return inputs.flatten(1)[:, :2] * context.learnt.get("scale", 1.0)


def model_of(numbers: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Flatten(), nn.Linear(numbers, 16), nn.Tanh(), nn.Linear(16, 3)).eval()


def images(count: int = 4, side: int = 5) -> tuple[nn.Module, Tensor, Tensor]:
    x = Draws.of(0, torch.arange(count)).normal(2, side, side, stream="images").float()
    return model_of(2 * side * side), x, torch.arange(count) % 3


GROUPS = [CyclicShift(axes=(-2, -1)), CyclicShift(axes=(-1,)), Dihedral()]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group.spec()))
class TestWholeGroup:
    def test_maps_move_along(self, group: Any) -> None:
        """e_equi(g x) = g e_equi(x) for every g, around an explainer that is far from it."""
        (model, x, targets), space = images(), group.fit(Size([2, 5, 5]))
        for explainer, exact in ((Ramp(), False), (Symmetrised(explainer=Ramp(), space=group), True)):
            found = explainer.explain(model, x, targets, context_of(len(x)))
            worst = 0.0
            for element in space.enumerate():
                elements = element.repeat(len(x), 1)
                moved = explainer.explain(model, space.act(elements, x), targets, context_of(len(x)))
                worst = max(worst, float((moved - space.act(elements, found)).abs().max() / found.abs().max()))
            assert (worst < 1e-5) is exact
            assert worst < 1e-5 or worst > 0.1

    def test_others_stay(self, group: Any) -> None:
        """e_inv(g x) = e_inv(x) for every g."""
        (model, x, targets), space = images(), group.fit(Size([2, 5, 5]))
        for explainer, exact in ((FirstPixels(), False), (Symmetrised(explainer=FirstPixels(), space=group), True)):
            found = explainer.explain(model, x, targets, context_of(len(x)))
            worst = 0.0
            for element in space.enumerate():
                moved = explainer.explain(model, space.act(element.repeat(len(x), 1), x), targets, context_of(len(x)))
                worst = max(worst, float((moved - found).abs().max() / found.abs().max()))
            assert (worst < 1e-5) is exact
            assert worst < 1e-5 or worst > 0.1

    def test_against_a_loop(self, group: Any) -> None:
        (model, x, targets), space = images(), group.fit(Size([2, 5, 5]))
        maps = torch.zeros_like(x)
        for element in space.enumerate():
            for row in range(len(x)):
                g = element[None]
                one = Ramp().explain(model, space.act(g, x[[row]]), targets[[row]], context_of(1))
                maps[row] += space.act(space.inverse(g), one)[0] / space.order
        found = Symmetrised(explainer=Ramp(), space=group).explain(model, x, targets, context_of(len(x)))
        torch.testing.assert_close(found, maps, rtol=1e-4, atol=1e-6)

    def test_as_many_draws_as_elements_are_the_whole_group(self, group: Any) -> None:
        (model, x, targets), order = images(), group.fit(Size([2, 5, 5])).order
        exact = Symmetrised(explainer=Ramp(), space=group)
        every = Symmetrised(explainer=Ramp(), space=group, draws=order)
        expected = exact.explain(model, x, targets, context_of(len(x)))
        torch.testing.assert_close(every.explain(model, x, targets, context_of(len(x), draw=3)), expected, rtol=1e-5, atol=1e-7)
        assert every.specialise(model, x, targets) == exact
        assert replace(every, draws=order - 1).specialise(model, x, targets).draws == order - 1


def test_by_hand() -> None:
    """Shifts of (1, 2, 3, 6): the mean of a pixel is 3; of the map "its first number, at its place", all numbers over four."""
    x, shifts = torch.tensor([[1.0, 2.0, 3.0, 6.0]]), CyclicShift(axes=(-1,))
    targets, model = torch.zeros(1, dtype=torch.long), model_of(4)
    inv = Symmetrised(explainer=FirstPixels(), space=shifts).explain(model, x, targets, context_of(1))
    torch.testing.assert_close(inv, torch.tensor([[3.0, 3.0]]))

    @dataclass(frozen=True, kw_only=True)
    class First(FirstPixels):
        frame = Frame.INPUT

        def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
            return inputs * torch.tensor([1.0, 0.0, 0.0, 0.0])

    equi = Symmetrised(explainer=First(), space=shifts).explain(model, x, targets, context_of(1))
    torch.testing.assert_close(equi, x / 4)


class TestDraws:
    def test_are_distinct_and_grow_by_prefix(self) -> None:
        """With the identity as explainer and all numbers different, each shift shows as one of the values."""
        x, space = torch.arange(6.0).repeat(50, 1), CyclicShift(axes=(-1,))
        seen: list[Tensor] = []

        @dataclass(frozen=True, kw_only=True)
        class Watch(FirstPixels):
            def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
                seen.append(torch.stack((context.draws.sample, inputs[:, 0].long()), dim=1))
                return inputs[:, :1]

        def firsts(draws: int, draw: int = 0) -> Tensor:
            seen.clear()
            Symmetrised(explainer=Watch(), space=space, draws=draws).explain(
                model_of(6), x, torch.zeros(50).long(), context_of(50, draw=draw)
            )
            table = torch.cat(seen)
            return torch.stack([table[table[:, 0] == row, 1] for row in range(50)])

        four = firsts(4)
        assert four.shape == (50, 4)
        assert all(len(row.unique()) == 4 for row in four)
        assert len(four.unique(dim=0)) > 20, "samples must have elements of their own"
        assert not torch.equal(four, firsts(4, draw=1))
        assert torch.equal(firsts(6)[:, :4], four)
        counts = torch.bincount(four.flatten(), minlength=6)
        assert counts.sum() == 200
        assert counts.min() > 15

    def test_large_and_endless_groups_are_drawn_from(self) -> None:
        x = Draws.of(0, torch.arange(3)).normal(1, 12, 12, stream="x").float()
        model, targets = model_of(144), torch.zeros(3, dtype=torch.long)
        for space in (Rotation(), Permutations(axis=-1)):
            explainer = Symmetrised(explainer=Ramp(), space=space, draws=5)
            found = explainer.explain(model, x, targets, context_of(3))
            assert found.shape == x.shape
            assert torch.equal(found, explainer.explain(model, x, targets, context_of(3)))
            assert not torch.equal(found, explainer.explain(model, x, targets, context_of(3, draw=1)))

    def test_more_draws_are_more_invariant(self) -> None:
        """Two independent means of N of 25 values differ less and less, on average over samples, and not at all for N = 25."""
        x = Draws.of(0, torch.arange(200)).normal(1, 5, 5, stream="x").float()
        targets, model = torch.zeros(200, dtype=torch.long), model_of(25)
        apart = []
        for draws in (1, 2, 4, 8, 16, 25):
            explainer = Symmetrised(explainer=FirstPixels(), space=CyclicShift(axes=(-2, -1)), draws=draws)
            one, other = (explainer.explain(model, x, targets, context_of(200, draw=draw)) for draw in (0, 1))
            apart.append(float((one - other).abs().mean()))
        assert apart == sorted(apart, reverse=True)
        assert apart[-1] < 1e-6
        assert apart[0] > 2 * apart[2]


class TestRandomInside:
    def test_each_element_has_fresh_numbers(self) -> None:
        """The mean of M independent standard normal maps has variance 1 / M."""
        model, x, targets = images(200)
        found = Symmetrised(explainer=RandomGaussian(), space=Dihedral()).explain(model, x, targets, context_of(200))
        assert abs(float(found.var()) * 8 - 1) < 0.05

    def test_draws_of_pairs_never_meet(self) -> None:
        draws = Draws.of(0, torch.zeros(300, dtype=torch.long))
        base = replace(draws, draw=torch.arange(300))
        row, item = (part.flatten() for part in torch.meshgrid(torch.arange(300), torch.arange(441), indexing="ij"))
        assert len(item_draws(base, row, item).draw.unique()) == 300 * 441

    def test_chunks_change_nothing(self) -> None:
        model, x, targets = images()
        for draws in (None, 3):
            explainer = Symmetrised(explainer=GradientShap(draws=3), space=Dihedral(), draws=draws)
            whole = explainer.explain(model, x, targets, context_of(len(x)))
            torch.testing.assert_close(explainer.explain(model, x, targets, context_of(len(x), batch=4)), whole, rtol=1e-5, atol=1e-6)
            context = context_of(len(x))
            alone = explainer.explain(model, x[[2]], targets[[2]], replace(context, draws=context.draws[2:3]))
            torch.testing.assert_close(alone, whole[[2]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("batch", "most"), [(1, 1), (20, 2), (35, 3), (1000, 32)])
def test_calls_hold_as_many_explanations_as_fit(batch: int, most: int) -> None:
    """Ten model rows for each explanation, 32 explanations in all."""
    model, x, targets = images()
    seen: list[int] = []

    @dataclass(frozen=True, kw_only=True)
    class Costly(FirstPixels):
        def cost(self, shape: Size) -> Cost:
            return Cost(forward=10, backward=3)

        def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
            seen.append(len(inputs))
            return inputs.flatten(1)[:, :1]

    Symmetrised(explainer=Costly(), space=Dihedral()).explain(model, x, targets, context_of(4, batch=batch))
    assert (sum(seen), max(seen), len(seen)) == (32, most, -(-32 // most))


def test_says_what_the_inner_one_says() -> None:
    inner = FirstPixels()
    made = Symmetrised(explainer=inner, space=Dihedral())
    assert (made.frame, made.categorical, made.structured, made.control) == (Frame.CONCEPTS, False, False, False)
    assert made.needs == {Need.TRAINING}
    assert not made.stochastic
    assert replace(made, draws=3).stochastic
    assert Symmetrised(explainer=RandomGaussian(), space=Dihedral()).stochastic
    assert Symmetrised(explainer=RandomGaussian(), space=Dihedral()).control
    assert not Symmetrised(explainer=Saliency(), space=Dihedral()).signed
    assert Symmetrised(explainer=CAV(layer="0"), space=Dihedral()).categorical
    model, x, targets = images()
    context = context_of(len(x))
    known = made.learn(model, context)
    assert made.facts(known, context) == [{"scale": 2.0}]
    once = made.explain(model, x, targets, context)
    torch.testing.assert_close(made.explain(model, x, targets, replace(context, learnt=known)), 2 * once)
    assert Symmetrised(explainer=IntegratedGradients(steps=20), space=Dihedral()).cost(x.shape[1:]) == Cost(160, 160)
    assert Symmetrised(explainer=Ramp(), space=CyclicShift(axes=(-1,)), draws=3).cost(x.shape[1:]) == Cost(3, 3)


def test_is_written_down_and_built_again() -> None:
    table = {
        "name": "symmetrised",
        "explainer": {"name": "integrated_gradients", "steps": 8},
        "space": {"name": "cyclic_shift", "axes": [-1]},
    }
    built = as_explainer({**table, "draws": 2})
    model, x, targets = images()
    same = Symmetrised(explainer=IntegratedGradients(steps=8), space=CyclicShift(axes=(-1,)), draws=2)
    expected = same.explain(model, x, targets, context_of(len(x)))
    assert torch.equal(built.explain(model, x, targets, context_of(len(x))), expected)
    again = as_explainer(json.loads(json.dumps(same.spec())))
    assert torch.equal(again.explain(model, x, targets, context_of(len(x))), expected)


def test_takes_the_audits_symmetry_and_reference() -> None:
    model, x, targets = images()
    inner = as_explainer("feature_permutation")
    bound = Symmetrised(explainer=inner).bind(x, Dihedral())
    assert bound.explain(model, x, targets, context_of(len(x))).shape == x.shape
    own = Symmetrised(explainer=Ramp(), space=CyclicShift(axes=(-1,))).bind(None, Dihedral())
    assert own.space == CyclicShift(axes=(-1,))


def test_misuse_is_one_sentence() -> None:
    model, x, targets = images()

    def check(**settings: Any) -> Any:
        return Symmetrised(**settings).check(model, x, targets)

    with pytest.raises(SpecError, match="symmetrised needs an explainer"):
        check(space=Dihedral())
    with pytest.raises(SpecError, match="symmetrised needs a symmetry"):
        check(explainer="saliency")
    with pytest.raises(SpecError, match="Did you mean 'saliency'"):
        check(explainer="salience", space=Dihedral())
    with pytest.raises(SpecError, match="cannot average the maps of saliency over window_shift, which is not a group"):
        check(explainer="saliency", space=WindowShift(margin=1))
    with pytest.raises(SpecError, match="cannot draw 9 elements of d4, which has 8"):
        check(explainer="saliency", space=Dihedral(), draws=9)
    with pytest.raises(SpecError, match="'draws' of explainer 'symmetrised' must be a whole number of at least 1 or None, not 0"):
        check(explainer="saliency", space=Dihedral(), draws=0)
    for space in (Rotation(), Permutations(axis=-1)):
        wide = torch.zeros(1, 1, 12, 12)
        with pytest.raises(SpecError, match=f"cannot average over all of {space.name}, which cannot be enumerated: pass draws"):
            Symmetrised(explainer="saliency", space=space).check(model_of(144), wide, targets[:1])
    with pytest.raises(InputError, match="needs square inputs"):
        check(explainer="saliency", space=Dihedral(axes=(-3, -1)))
    with pytest.raises(InputError, match="The model has no layer"):
        check(explainer={"name": "grad_cam", "layer": "nowhere"}, space=Dihedral())


def test_a_set_of_transforms_will_do_outside_the_inputs_frame() -> None:
    model = model_of(2 * 49)
    x = nn.functional.pad(images()[1], (1, 1, 1, 1))
    targets = torch.zeros(4, dtype=torch.long)
    explainer = Symmetrised(explainer=FirstPixels(), space=WindowShift(margin=1))
    (note,) = explainer.check(model, x, targets)
    assert "window_shift, which is not a group: the mean is not exactly invariant" in note
    expected = torch.stack([x.roll((i, j), (-2, -1)).flatten(1)[:, :2] for i in (-1, 0, 1) for j in (-1, 0, 1)]).mean(0)
    torch.testing.assert_close(explainer.explain(model, x, targets, context_of(4)), expected)


class Nodes(nn.Module):
    """A graph network: each node hears its neighbours, the graph is the sum."""

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        heard = x.index_add(0, edge_index[1], x[edge_index[0]])
        pooled = x.new_zeros(int(batch.max()) + 1, x.shape[1]).index_add(0, batch, heard.tanh())
        return torch.cat((pooled, pooled.square()), dim=1)


@dataclass(frozen=True, kw_only=True)
class NodeRamp(Explainer):
    """A graph's gradient, weighted by the slot's number."""

    name = "node_ramp"
    structured = True

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1, backward=1)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return torch.arange(inputs.shape[1])[:, None] * gradients(model, inputs, targets, context.structure)


def test_structure_is_carried_along() -> None:
    """Graphs of three and four nodes: equivariant under all 24 orders of the slots only if mask and edges move with them."""
    values = Draws.of(0, torch.arange(2)).normal(4, 2, stream="nodes").float()
    values[0, 3] = 0
    graphs = GraphInputs(
        values, torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]).bool(), torch.tensor([[[0, 1], [1, 2], [-1, -1]], [[0, 3], [3, 2], [1, 0]]])
    )
    signals, model, targets = graphs.take(torch.arange(2)), OnGraphs(Nodes()), torch.tensor([0, 3])
    space = NodePermutations().fit(graphs.shape)

    def explained(explainer: Explainer, element: Tensor) -> Tensor:
        moved = space.move(element, signals)
        return explainer.explain(model, moved.values, targets, replace(context_of(2), structure=moved.structure))

    made = Symmetrised(explainer=NodeRamp(), space=NodePermutations())
    assert made.structured
    for explainer, exact in ((NodeRamp(), False), (made, True)):
        found = explained(explainer, space.identity(2))
        apart = [
            float((explained(explainer, element.repeat(2, 1)) - space.act(element.repeat(2, 1), found)).abs().max())
            for element in space.enumerate()[::5]
        ]
        assert (max(apart) < 1e-5) is exact


def concept_context(count: int) -> Context:
    data = load_digits()
    padded = nn.functional.pad(torch.tensor(data.images[:1500], dtype=torch.float32)[:, None] / 16, (2, 2, 2, 2))
    labels = torch.tensor(data.target[:1500])
    concepts = {"loop": torch.isin(labels, torch.tensor([0, 6, 8, 9])), "stroke": torch.isin(labels, torch.tensor([1, 4, 7]))}
    return replace(context_of(count), training=Training(TensorInputs(padded), labels, concepts))


def test_bits_of_an_equivariant_layer_become_invariant_fractions(digits: Digits) -> None:
    """Figure 4: the invariance of CAV on a convolution grows with the number of draws, to one for the whole group."""
    shifts, x, targets = CyclicShift(axes=(-2, -1)), digits.inputs[:12], digits.targets[:12]
    cav = CAV(layer="4")
    context = concept_context(12)
    context = replace(context, learnt=cav.learn(digits.model, context))
    invariance = {}
    for label, explainer in symmetrised_family(cav, [1, 8, 64, None], shifts).items():
        space = shifts.fit(x.shape[1:])
        before = explainer.explain(digits.model, x, targets, context)
        scores = []
        for number in range(2):
            other = replace(context, draws=Draws.of(0, torch.arange(12), number + 1))
            element = space.decode(torch.randn(12, space.latents, generator=torch.Generator().manual_seed(number), dtype=torch.float64))
            after = explainer.explain(digits.model, space.act(element, x), targets, other)
            scores.append(categorical_agreement(after, before))
        invariance[label] = float(torch.stack(scores).mean())
        assert bool(((before >= 0) & (before <= 1)).all())
    values = list(invariance.values())
    assert values == sorted(values)
    assert values[0] < 0.9
    assert values[-1] > 1 - 1e-5
    fractions = symmetrised_family(cav, [None], shifts)["cav, whole group"].explain(digits.model, x, targets, context)
    assert bool(((fractions > 0.01) & (fractions < 0.99)).any())


def test_family_names_and_settings() -> None:
    family = symmetrised_family({"name": "saliency"}, [1, 8, None], Dihedral())
    assert list(family) == ["saliency, 1 draw", "saliency, 8 draws", "saliency, whole group"]
    assert [one.draws for one in family.values()] == [1, 8, None]
    assert {one.space for one in family.values()} == {Dihedral()}


def test_smallest_draws() -> None:
    nan = float("nan")
    curve = [(1, 0.7, 0.6), (2, nan, nan), (4, 0.93, 0.9), (8, 0.95, 0.89), (16, 0.99, 0.98)]
    assert smallest_draws(curve, 0.9) == 4
    assert smallest_draws(curve[::-1], 0.9) == 4
    assert smallest_draws(curve, 0.95) == 16
    assert smallest_draws(curve, 0.99) is None
    assert smallest_draws([], 0.5) is None


class TestConformance(ExplainerConformance):
    @pytest.fixture(autouse=True, params=["drawn", "random"])
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.case = request.param

    def explainer(self) -> Explainer:
        cases = {
            "drawn": Symmetrised(explainer=Saliency(), space=CyclicShift(axes=(-2, -1)), draws=3),
            "random": Symmetrised(explainer=GradientShap(draws=2), space=Dihedral()),
        }
        return cases[self.case]
