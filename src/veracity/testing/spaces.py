"""The rules that every input space, and every group, must follow, as tests for pytest.

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

MOST_ELEMENTS = 4096  # of a space that is enumerated


class SpaceConformance(ABC):
    """The rules for an input space, one test each. A subclass names the space, and gives float32 inputs with different entries."""

    tolerance = 1e-5
    """The largest difference between two results of an action that computes. Permutations must agree exactly."""

    @abstractmethod
    def space(self) -> InputSpace:
        """The space under test. It is fitted to the inputs."""

    @abstractmethod
    def inputs(self) -> Tensor:
        """Inputs (N, ...), at least two."""

    def devices(self) -> list[torch.device]:
        """Devices on which the action must run with elements from the CPU. `meta` finds misplaced tensors without a GPU."""
        return [torch.device("meta"), *([torch.device("cuda")] if torch.cuda.is_available() else [])]

    def fitted(self) -> InputSpace:
        """The space, fitted to the inputs' shape."""
        return self.space().fit(self.inputs().shape[1:])

    def draw(self, purpose: str) -> Tensor:
        """One random element per input, always the same for the same purpose."""
        space = self.fitted()
        return space.decode(Draws.of(0, torch.arange(len(self.inputs()))).normal(space.latents, stream=purpose))

    def assert_same_signals(self, one: Tensor, other: Tensor) -> None:
        """Exactly equal for permutations, within the tolerance otherwise."""
        exact = self.fitted().representation is Representation.PERMUTATION
        slack = 0.0 if exact else self.tolerance
        torch.testing.assert_close(one, other, rtol=slack, atol=slack)

    def test_settings_are_plain_data(self) -> None:
        """`spec` is JSON with the space's name, before and after the space is fitted."""
        for space in (self.space(), self.fitted()):
            spec = json.loads(json.dumps(space.spec()))
            assert spec["name"] == space.name, f"the spec {spec} does not hold the name {space.name!r}"

    def test_fitting_twice_changes_nothing(self) -> None:
        """`fit` returns a fitted space unchanged."""
        again = self.fitted().fit(self.inputs().shape[1:])
        assert again == self.fitted(), f"fitting {self.fitted()} again gave {again}"

    def test_decode_works_row_by_row(self) -> None:
        """N latents give N elements (N, p), and no element depends on the other latents."""
        space, count = self.fitted(), len(self.inputs())
        latent = Draws.of(1, torch.arange(count)).normal(space.latents, stream="decode")
        elements = space.decode(latent)
        assert elements.shape == (count, elements.shape[-1]), f"decode gave shape {tuple(elements.shape)} for {count} latents"
        one_by_one = torch.cat([space.decode(row[None]) for row in latent])
        assert torch.equal(elements, one_by_one), "an element depends on the other latents of the batch"

    def test_no_randomness_of_its_own(self) -> None:
        """The action does not draw from the global random state."""
        before = torch.get_rng_state()
        self.fitted().act(self.draw("g"), self.inputs())
        assert torch.equal(torch.get_rng_state(), before), "the space draws from the global random state"

    def test_action_keeps_shape_and_type(self) -> None:
        """The action keeps the inputs' shape, type and device."""
        for dtype in (torch.float32, torch.float64):
            x = self.inputs().to(dtype)
            moved = self.fitted().act(self.draw("g"), x)
            found, expected = ((y.shape, y.dtype, y.device) for y in (moved, x))
            assert found == expected, f"the action turned {expected} into {found}"

    def test_action_runs_where_the_inputs_are(self) -> None:
        """The action takes elements on the CPU to the inputs' device."""
        for device in self.devices():
            found = self.fitted().act(self.draw("g"), self.inputs().to(device)).device
            assert found.type == device.type, f"inputs on {device} gave a result on {found}"

    def test_action_on_a_batch_is_the_action_on_each(self) -> None:
        """N elements act on N inputs in one call, each on its own input."""
        space, g, x = self.fitted(), self.draw("g"), self.inputs()
        one_by_one = torch.cat([space.act(g[[row]], x[[row]]) for row in range(len(x))])
        self.assert_same_signals(space.act(g, x), one_by_one)

    def test_action_accepts_an_empty_batch(self) -> None:
        """An empty batch stays empty, with its shape."""
        x = self.inputs()[:0]
        shape = self.fitted().act(self.draw("g")[:0], x).shape
        assert shape == x.shape, f"an empty batch of shape {tuple(x.shape)} became {tuple(shape)}"

    def test_action_changes_nothing_in_place(self) -> None:
        """Inputs and elements stay as they were."""
        x, g = self.inputs(), self.draw("g")
        inputs, elements = x.clone(), g.clone()
        self.fitted().act(g, x)
        assert torch.equal(x, inputs), "the action changed its inputs"
        assert torch.equal(g, elements), "the action changed its elements"

    def test_action_is_linear(self) -> None:
        """rho[g] (2 x - 3 y) = 2 rho[g] x - 3 rho[g] y."""
        space, g, x = self.fitted(), self.draw("g"), self.inputs().double()
        y = x.flip(0)
        torch.testing.assert_close(space.act(g, 2 * x - 3 * y), 2 * space.act(g, x) - 3 * space.act(g, y), rtol=1e-9, atol=1e-9)

    def test_action_is_differentiable(self) -> None:
        """The gradient of <w, rho[g] x> is the adjoint: its product with any v is <w, rho[g] v>."""
        space, g, x = self.fitted(), self.draw("g"), self.inputs().double().requires_grad_()
        w = Draws.of(2, torch.arange(len(x))).normal(*x.shape[1:], stream="w").double()
        v = Draws.of(2, torch.arange(len(x))).normal(*x.shape[1:], stream="v").double()
        (gradient,) = torch.autograd.grad((w * space.act(g, x)).sum(), x)
        torch.testing.assert_close((gradient * v).sum(), (w * space.act(g, v)).sum(), rtol=1e-9, atol=1e-9)

    def test_representation_is_what_it_says(self) -> None:
        """A permutation keeps the values of an input, an orthogonal action keeps its length."""
        space, x = self.fitted(), self.inputs()
        moved = space.act(self.draw("g"), x)
        if space.representation is Representation.PERMUTATION:
            assert torch.equal(moved.flatten(1).sort(dim=1).values, x.flatten(1).sort(dim=1).values), (
                "the space declares a permutation, but the values changed"
            )
        if space.representation is Representation.ORTHOGONAL:
            torch.testing.assert_close(moved.flatten(1).norm(dim=1), x.flatten(1).norm(dim=1))

    def test_elements_can_be_counted(self) -> None:
        """A finite space has `order` distinct elements; `unrank` and `decode` give no others."""
        space = self.fitted()
        assert (space.order is None) == (not isinstance(space, FiniteSpace)), (
            "order must be a number for a finite space, and None otherwise"
        )
        if isinstance(space, FiniteSpace) and space.order <= MOST_ELEMENTS:
            elements = space.enumerate()
            counts = len(elements), distinct(elements)
            assert counts == (space.order, space.order), f"{counts} elements and distinct elements, but the order is {space.order}"
            index = torch.arange(space.order).flip(0)
            assert torch.equal(space.unrank(index), elements.flip(0)), "unrank and enumerate disagree"
            assert distinct(torch.cat((elements, self.draw("g")))) == space.order, "decode gave an element that enumerate does not"


class GroupConformance(SpaceConformance):
    """The rules for a group: its axioms, and an action that respects them."""

    floor = 1.0
    """The smallest cosine of g (h x) and (g h) x that an approximate action may have on the inputs."""

    def group(self) -> Group:
        """The fitted space; fails unless it is a group."""
        space = self.fitted()
        assert isinstance(space, Group), f"{type(space).__name__} is not a Group"
        return space

    def assert_same_elements(self, one: Tensor, other: Tensor) -> None:
        """Exactly equal. A group with real elements overrides this."""
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
        """rho[g h] x = rho[g] rho[h] x: exactly, or with a cosine of at least `floor` for approximate actions."""
        group, g, h, x = self.group(), self.draw("g"), self.draw("h"), self.inputs()
        at_once, in_turn = group.act(group.compose(g, h), x), group.act(g, group.act(h, x))
        if group.representation is Representation.APPROXIMATE:
            cosine = torch.cosine_similarity(at_once.flatten(1), in_turn.flatten(1))
            assert bool((cosine >= self.floor).all()), f"cosines {cosine.tolist()} fall below the floor {self.floor}"
        else:
            self.assert_same_signals(at_once, in_turn)

    def test_number_zero_is_the_identity(self) -> None:
        """Element number zero of a finite group is the identity."""
        group = self.group()
        if isinstance(group, FiniteSpace) and group.order <= MOST_ELEMENTS:
            self.assert_same_elements(group.unrank(torch.tensor([0])), group.identity(1))

    def test_group_is_closed(self) -> None:
        """Products and inverses of a finite group's elements are elements."""
        group = self.group()
        if isinstance(group, FiniteSpace) and group.order <= MOST_ELEMENTS:
            elements = group.enumerate()
            found = (group.compose(elements, elements.flip(0)), group.compose(elements, elements.roll(1, 0)), group.inverse(elements))
            assert distinct(torch.cat((elements, *found))) == group.order, "a product or an inverse is not an element of the group"


def distinct(elements: Tensor) -> int:
    """The number of distinct rows."""
    return len(set(map(tuple, elements.tolist())))
