"""What every input space, and every group, must hold: a battery for pytest.

class TestMyGroup(GroupConformance):
    def space(self):
        return MyGroup()

    def inputs(self):
        return torch.randn(6, 3, 8, 8)
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from veracity.core.randomness import Draws
from veracity.core.spaces import FiniteSpace, InputSpace, Representation
from veracity.perturb.groups.base import Group

COUNTABLE = 4096


class SpaceConformance(ABC):
    """The battery for an input space; a subclass says which space, and gives a few float32 inputs with different entries."""

    tolerance = 1e-5
    """How far two results may lie apart where the action computes; permutations must agree to the bit."""

    @abstractmethod
    def space(self) -> InputSpace:
        """The space under test; it is fitted to the inputs here."""

    @abstractmethod
    def inputs(self) -> Tensor:
        """Inputs (N, ...), at least two."""

    def devices(self) -> list[torch.device]:
        """Where the action must run with elements from the CPU; `meta` finds misplaced tensors without an accelerator."""
        return [torch.device("meta"), *([torch.device("cuda")] if torch.cuda.is_available() else [])]

    def fitted(self) -> InputSpace:
        """The space, fitted to the inputs' shape."""
        return self.space().fit(self.inputs().shape[1:])

    def draw(self, purpose: str) -> Tensor:
        """A random element for each input, always the same for the same purpose."""
        space = self.fitted()
        return space.decode(Draws.of(0, torch.arange(len(self.inputs()))).normal(space.latents, stream=purpose))

    def assert_same_signals(self, one: Tensor, other: Tensor) -> None:
        """Equal to the bit for permutations, within the tolerance otherwise."""
        exact = self.fitted().representation is Representation.PERMUTATION
        slack = 0.0 if exact else self.tolerance
        torch.testing.assert_close(one, other, rtol=slack, atol=slack)

    def test_settings_are_plain_data(self) -> None:
        """The space can be written down, before and after it is fitted."""
        for space in (self.space(), self.fitted()):
            assert json.loads(json.dumps(space.spec()))["name"] == space.name

    def test_fitting_twice_changes_nothing(self) -> None:
        """A fitted space is fitted."""
        assert self.fitted().fit(self.inputs().shape[1:]) == self.fitted()

    def test_decode_works_row_by_row(self) -> None:
        """N latents make N elements (N, p), none of which depends on its neighbours."""
        space, count = self.fitted(), len(self.inputs())
        latent = Draws.of(1, torch.arange(count)).normal(space.latents, stream="decode")
        elements = space.decode(latent)
        assert elements.shape == (count, elements.shape[-1]), f"decode gave shape {tuple(elements.shape)} for {count} latents"
        assert torch.equal(elements, torch.cat([space.decode(row[None]) for row in latent]))

    def test_no_randomness_of_its_own(self) -> None:
        """The global random state stays as it was."""
        before = torch.get_rng_state()
        self.fitted().act(self.draw("g"), self.inputs())
        assert torch.equal(torch.get_rng_state(), before), "the space draws from the global random state"

    def test_action_keeps_shape_and_type(self) -> None:
        """A signal comes back as the same kind of tensor."""
        for dtype in (torch.float32, torch.float64):
            x = self.inputs().to(dtype)
            moved = self.fitted().act(self.draw("g"), x)
            assert (moved.shape, moved.dtype, moved.device) == (x.shape, x.dtype, x.device)

    def test_action_runs_where_the_inputs_are(self) -> None:
        """Elements come from the CPU; the action brings them to the inputs."""
        for device in self.devices():
            x = self.inputs().to(device)
            assert self.fitted().act(self.draw("g"), x).device.type == device.type

    def test_action_on_a_batch_is_the_action_on_each(self) -> None:
        """N elements act on N inputs in one call, each on its own."""
        space, g, x = self.fitted(), self.draw("g"), self.inputs()
        one_by_one = torch.cat([space.act(g[[row]], x[[row]]) for row in range(len(x))])
        self.assert_same_signals(space.act(g, x), one_by_one)

    def test_action_of_nothing_is_nothing(self) -> None:
        """An empty batch stays empty."""
        x = self.inputs()[:0]
        assert self.fitted().act(self.draw("g")[:0], x).shape == x.shape

    def test_action_leaves_its_input_alone(self) -> None:
        """Nothing is changed in place."""
        x, g = self.inputs(), self.draw("g")
        kept, elements = x.clone(), g.clone()
        self.fitted().act(g, x)
        assert torch.equal(x, kept), "the action changed its inputs"
        assert torch.equal(g, elements), "the action changed its elements"

    def test_action_is_linear(self) -> None:
        """rho[g] (2 x - 3 y) = 2 rho[g] x - 3 rho[g] y."""
        space, g, x = self.fitted(), self.draw("g"), self.inputs().double()
        y = x.flip(0)
        torch.testing.assert_close(space.act(g, 2 * x - 3 * y), 2 * space.act(g, x) - 3 * space.act(g, y), rtol=1e-9, atol=1e-9)

    def test_action_is_differentiable(self) -> None:
        """The gradient of <w, rho[g] x> is the adjoint: its product with any v is <w, rho[g] v>."""
        space, g, x = self.fitted(), self.draw("g"), self.inputs().double().requires_grad_()
        w = Draws.of(2, torch.arange(len(x))).normal(*x.shape[1:], stream="w")
        v = Draws.of(2, torch.arange(len(x))).normal(*x.shape[1:], stream="v")
        (gradient,) = torch.autograd.grad((w * space.act(g, x)).sum(), x)
        torch.testing.assert_close((gradient * v).sum(), (w * space.act(g, v)).sum(), rtol=1e-9, atol=1e-9)

    def test_representation_is_what_it_says(self) -> None:
        """A permutation keeps the values, an orthogonal action the length."""
        space, x = self.fitted(), self.inputs()
        moved = space.act(self.draw("g"), x)
        if space.representation is Representation.PERMUTATION:
            assert torch.equal(moved.flatten(1).sort(dim=1).values, x.flatten(1).sort(dim=1).values), "the values changed"
        if space.representation is Representation.ORTHOGONAL:
            torch.testing.assert_close(moved.flatten(1).norm(dim=1), x.flatten(1).norm(dim=1))

    def test_elements_can_be_counted(self) -> None:
        """A finite space has `order` elements, by number and by random draw."""
        space = self.fitted()
        assert (space.order is None) == (not isinstance(space, FiniteSpace)), "the order of a finite space is a number"
        if isinstance(space, FiniteSpace) and space.order <= COUNTABLE:
            elements = space.enumerate()
            assert len(elements) == distinct(elements) == space.order
            index = torch.arange(space.order).flip(0)
            assert torch.equal(space.unrank(index), elements.flip(0))
            assert distinct(torch.cat((elements, self.draw("g")))) == space.order, "a drawn element is not among the counted ones"


class GroupConformance(SpaceConformance):
    """The battery for a group: its axioms, and that the action respects them."""

    floor = 1.0
    """The least cosine of g (h x) and (g h) x that an approximate action must reach on the inputs."""

    def group(self) -> Group:
        """The fitted space, which must be a group."""
        space = self.fitted()
        assert isinstance(space, Group), f"{type(space).__name__} is not a Group"
        return space

    def assert_same_elements(self, one: Tensor, other: Tensor) -> None:
        """Equal to the bit; a group with real elements says here when two of them are the same."""
        assert torch.equal(one, other), f"elements differ: {one.tolist()} and {other.tolist()}"

    def test_composition_is_associative(self) -> None:
        """(g h) k = g (h k)."""
        group, g, h, k = self.group(), self.draw("g"), self.draw("h"), self.draw("k")
        self.assert_same_elements(group.compose(group.compose(g, h), k), group.compose(g, group.compose(h, k)))

    def test_identity_changes_nothing(self) -> None:
        """e g = g e = g, and e moves no input."""
        group, g, x = self.group(), self.draw("g"), self.inputs()
        e = group.identity(len(x))
        self.assert_same_elements(group.compose(e, g), g)
        self.assert_same_elements(group.compose(g, e), g)
        self.assert_same_signals(group.act(e, x), x)

    def test_inverse_undoes(self) -> None:
        """g g^-1 = g^-1 g = e."""
        group, g = self.group(), self.draw("g")
        e = group.identity(len(g))
        self.assert_same_elements(group.compose(g, group.inverse(g)), e)
        self.assert_same_elements(group.compose(group.inverse(g), g), e)

    def test_action_respects_composition(self) -> None:
        """rho[g h] x = rho[g] rho[h] x: exactly, or with at least the floor's cosine where the action interpolates."""
        group, g, h, x = self.group(), self.draw("g"), self.draw("h"), self.inputs()
        at_once, in_turn = group.act(group.compose(g, h), x), group.act(g, group.act(h, x))
        if group.representation is Representation.APPROXIMATE:
            cosine = torch.cosine_similarity(at_once.flatten(1), in_turn.flatten(1))
            assert bool((cosine >= self.floor).all()), f"cosines {cosine.tolist()} fall below the floor {self.floor}"
        else:
            self.assert_same_signals(at_once, in_turn)

    def test_number_zero_is_the_identity(self) -> None:
        """Where elements are numbered, the identity comes first."""
        group = self.group()
        if isinstance(group, FiniteSpace) and group.order <= COUNTABLE:
            self.assert_same_elements(group.unrank(torch.tensor([0])), group.identity(1))

    def test_composition_stays_inside(self) -> None:
        """Products and inverses of counted elements are counted elements."""
        group = self.group()
        if isinstance(group, FiniteSpace) and group.order <= COUNTABLE:
            elements = group.enumerate()
            made = (group.compose(elements, elements.flip(0)), group.compose(elements, elements.roll(1, 0)), group.inverse(elements))
            assert distinct(torch.cat((elements, *made))) == group.order


def distinct(elements: Tensor) -> int:
    """How many different rows there are."""
    return len(set(map(tuple, elements.tolist())))
