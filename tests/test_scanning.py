"""The scan names the symmetry that a network was built with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from small import series_inputs, small_net
from veracity import Dihedral, GraphInputs, TokenInputs, scan
from veracity.core.errors import InputError, Note
from veracity.interpret.scan import Verdict
from veracity.zoo import bag, cifar, graph, series, sets


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


@pytest.mark.parametrize("modality", ["series", "points", "tokens", "graphs", "images"])
def test_the_zoo_is_recognised(modality: str) -> None:
    """Each trained network's own symmetry comes first, on inputs of its kind."""
    generator = torch.Generator().manual_seed(0)
    model: nn.Module
    inputs: Any
    if modality == "series":
        time, start = torch.linspace(0, 6, 180), 6 * torch.rand(6, 1, generator=generator)
        beats = torch.exp(-20 * (time - start).square()) + 0.3 * torch.sin(torch.arange(1, 7)[:, None] * time)
        model, inputs, right = series.pretrained("all-cnn"), beats[:, None], "cyclic_shift"
    elif modality == "points":
        clouds = torch.randn(6, 64, 3, generator=generator) * torch.rand(6, 1, 3, generator=generator)
        model, inputs, right = sets.pretrained(), clouds, "permutations"
    elif modality == "tokens":
        ids = torch.randint(0, 1000, (6, 128), generator=generator)
        model, inputs, right = bag.pretrained(), TokenInputs(ids, vocabulary=1000), "permutations"
    elif modality == "graphs":
        pytest.importorskip("torch_geometric")
        mask = torch.arange(9) < torch.tensor([[5], [9], [7], [6], [8], [4]])
        atoms = torch.eye(14)[torch.randint(0, 14, (6, 9), generator=generator)] * mask[..., None]
        edges = (torch.rand(6, 16, 2, generator=generator) * mask.sum(1)[:, None, None]).long()
        model, inputs, right = graph.pretrained(), GraphInputs(atoms, mask, edges), "node_permutations"
    else:
        model, inputs, right = cifar.pretrained("d4"), torch.rand(4, 3, 32, 32, generator=generator), "d4"
    found = scan(model, inputs, samples=6, draws=3, progress=False).rows[0]
    assert (found.space.name, found.verdict) == (right, Verdict.KEPT)
    if modality in ("points", "tokens"):
        assert found.space.axis == -2  # type: ignore[attr-defined]
