"""The scan names the symmetry that a network was built with."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from small import series_inputs, small_net
from veracity import scan
from veracity.core.errors import InputError, Note
from veracity.perturb import Dihedral
from veracity.studies.symmetry_scan import Verdict


def names(model: nn.Module, inputs: Tensor) -> list[str]:
    return [row.space.name for row in scan(model, inputs, draws=6, progress=False).rows]


def test_a_shift_invariant_network_over_series() -> None:
    found = scan(small_net(), series_inputs(5), progress=False)
    assert (found.rows[0].space.name, found.rows[0].verdict) == ("cyclic_shift", Verdict.KEPT)
    assert [row.verdict for row in found.rows if row.space.name == "mirror"] == [Verdict.BROKEN]
    table = found.table()
    assert table["invariance"].iloc[0] == pytest.approx(1.0)
    assert table["low"].iloc[-1] <= table["invariance"].iloc[-1] <= table["high"].iloc[-1]


def test_a_set_network_and_a_d4_one() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 5, 3, generator=generator)
    weight = torch.randn(3, 4, generator=generator)

    class Sets(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x @ weight).amax(1) * 3

    class Radial(nn.Module):
        """The same kernel in all eight orientations, then the largest answer anywhere."""

        def forward(self, x: Tensor) -> Tensor:
            kernels = Dihedral().act(torch.arange(8)[:, None], torch.linspace(-1, 2, 9).reshape(1, 1, 3, 3).expand(8, -1, -1, -1))
            answers = nn.functional.conv2d(x, kernels, padding=1)
            return torch.stack([answers.amax((1, 2, 3)), answers.amin((1, 2, 3)), answers.std((1, 2, 3))], 1)

    assert names(Sets(), x)[0] == "permutations"
    assert names(Radial(), torch.randn(6, 1, 7, 7, generator=generator))[0] == "d4"


def test_a_constant_model_is_not_praised() -> None:
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ones(len(x), 3)

    with pytest.warns(Note, match="do not sum to 1") as told:
        found = scan(Constant(), series_inputs(4), progress=False)
    assert {row.verdict for row in found.rows} == {Verdict.EMPTY}
    assert len(told) == 1


def test_an_input_that_nothing_moves() -> None:
    with pytest.raises(InputError, match="No catalogued symmetry moves"):
        scan(small_net(), torch.zeros(3, 1, 12), progress=False)
