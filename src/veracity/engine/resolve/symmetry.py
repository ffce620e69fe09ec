"""The symmetry of an audit and the walk over it, checked on the inputs."""

from __future__ import annotations

from typing import Any

import torch

from veracity.core.errors import InputError, SpecError
from veracity.core.fingerprint.origin import in_this_package
from veracity.core.graphs import GraphGates
from veracity.core.inputs import Inputs, Signals, whole, words_of
from veracity.core.randomness import Draws
from veracity.core.registry import GROUPS, WALKS
from veracity.core.settings import short_repr
from veracity.core.spaces import GraphSpace, InputSpace, Representation
from veracity.core.walks import Walk
from veracity.perturb import Group, TokenPermutations
from veracity.walk import Exhaustive, MonteCarlo

EXHAUSTIVE_UP_TO = 512


def as_space(symmetry: Any, inputs: Inputs) -> InputSpace | None:
    """The symmetry, fitted to the inputs and checked on them."""
    if symmetry is None:
        return None
    space = GROUPS.build(symmetry)
    if not isinstance(space, InputSpace):
        raise InputError(f"The symmetry must be a space that acts on inputs, such as CyclicShift(axes=(-1,)), not {short_repr(symmetry)}.")
    fitted = space.fit(inputs.shape)
    check_structure(fitted, inputs)
    if isinstance(fitted, Group) and not in_this_package(type(fitted)):
        check_group(fitted, inputs)
    return fitted


def check_group(group: Group, inputs: Inputs) -> None:
    """Raise if a group from outside breaks the rules of a group on a few random elements: composition and inverse."""
    x = inputs.take(torch.arange(8) % inputs.size()).values.double()
    g, h = (group.decode(Draws.of(0, torch.arange(8)).normal(group.latents, stream=name)) for name in ("g", "h"))
    if group.representation is Representation.APPROXIMATE:
        return
    for what, one, other in (
        ("compose(g, h) is not g after h", group.act(group.compose(g, h), x), group.act(g, group.act(h, x))),
        ("inverse(g) does not undo g", group.act(group.inverse(g), group.act(g, x)), x),
    ):
        if not torch.allclose(one, other, rtol=1e-4, atol=1e-6):
            raise InputError(f"The symmetry '{group.name}' does not act as a group: {what}.")


def check_structure(space: InputSpace, inputs: Inputs) -> None:
    """Raise if a space moves the nodes of graphs and leaves their edges behind."""
    signals = inputs.take(torch.zeros(8, dtype=torch.long))
    if isinstance(space, GraphSpace) and not signals.structure:
        raise InputError(f"The symmetry '{space.name}' acts on graphs: for the rows of plain tensors use Permutations(axis=-2).")
    if isinstance(space, TokenPermutations):
        if words_of(inputs, 0) is None:
            raise InputError(f"The symmetry '{space.name}' acts on texts: for the rows of plain tensors use Permutations(axis=-2).")
        return
    if not signals.structure:
        return
    graphs = isinstance(whole(inputs), GraphGates)
    if signals.present is not None and (graphs or not isinstance(space, GraphSpace)) and space.moves_frame:
        what, fix = (
            ("graph", "explain node features, with inputs=GraphInputs.of(graphs)") if graphs else ("text", "use TokenPermutations()")
        )
        rest = "edges and nodes" if graphs else "words"
        raise InputError(f"The symmetry '{space.name}' would move the gates of a {what} and leave its {rest} in place: {fix}.")
    marked = torch.arange(inputs.shape[0]) == torch.arange(8)[:, None] % inputs.shape[0]
    values = marked.double().reshape(8, -1, *[1] * (len(inputs.shape) - 1)).expand(8, *inputs.shape)
    probe = Signals(values, signals.structure)
    moved = space.move(space.decode(Draws.of(0, torch.arange(8)).normal(space.latents, stream="structure")), probe)
    still = all(torch.equal(one, other) for one, other in zip(moved.structure, probe.structure, strict=True))
    if still and not torch.equal((moved.values.abs() > 1e-9).flatten(2).any(2), marked):
        raise InputError(f"The symmetry '{space.name}' moves the nodes of a graph without their edges: use NodePermutations().")


def as_walk(walk: Any, space: InputSpace | None) -> Walk:
    """The given walk; by default all of a small space and fifty draws from a large one."""
    if walk is not None:
        built = WALKS.build(walk)
        if not isinstance(built, Walk):
            raise SpecError(f"A walk is a Walk, a name or a table with a name, not {short_repr(walk)}.")
        return built
    small = space is not None and space.order is not None and space.order <= EXHAUSTIVE_UP_TO
    return Exhaustive() if small else MonteCarlo(draws=50)
