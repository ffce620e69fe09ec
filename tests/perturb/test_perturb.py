"""What the package registers, and how a group is named in a file."""

import pytest
import torch

from veracity.core.errors import SpecError
from veracity.core.registry import GROUPS
from veracity.core.spaces import InputSpace, Representation
from veracity.perturb import CyclicShift, Dihedral, Mirror, WindowShift


def test_registered_groups():
    assert set(GROUPS) >= {"c4", "cyclic_shift", "d4", "flips", "mirror", "permutations", "product", "so2", "window_shift"}
    assert "redraw" not in set(GROUPS)


@pytest.mark.parametrize("name", list(GROUPS))
def test_what_a_listing_reads(name):
    group = GROUPS[name]
    assert issubclass(group, InputSpace)
    assert group.name == name
    assert len(group.summary()) > 20
    assert isinstance(group.representation, Representation)
    assert isinstance(GROUPS.build(name), group)


def test_groups_from_a_file():
    assert GROUPS.build({"name": "cyclic_shift", "axes": [-2, -1]}) == CyclicShift(axes=(-2, -1))
    assert GROUPS.build({"name": "window_shift", "margin": 3}) == WindowShift(margin=3)
    assert GROUPS.build("d4") == Dihedral()
    fitted = CyclicShift(axes=(-1,)).fit(torch.Size([5]))
    assert GROUPS.build(fitted.spec()) == fitted
    assert GROUPS.build(Mirror(axis=-2).spec()) == Mirror(axis=-2)
    with pytest.raises(SpecError, match="Did you mean 'margin'"):
        GROUPS.build({"name": "window_shift", "margn": 3})
