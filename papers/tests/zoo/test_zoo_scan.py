from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from veracity import GraphInputs, TokenInputs, scan
from veracity.studies.symmetry_scan import Verdict
from veracity_papers.zoo import d4
from veracity_papers.zoo.symmetry import BAG, DEEP_SETS, ECG, GNN


@pytest.mark.parametrize("modality", ["series", "points", "tokens", "graphs", "images"])
def test_the_zoo_is_recognised(modality: str) -> None:
    """Each trained network's own symmetry comes first, on inputs of its kind."""
    generator = torch.Generator().manual_seed(0)
    model: nn.Module
    inputs: Any
    if modality == "series":
        time, start = torch.linspace(0, 6, 180), 6 * torch.rand(6, 1, generator=generator)
        beats = torch.exp(-20 * (time - start).square()) + 0.3 * torch.sin(torch.arange(1, 7)[:, None] * time)
        model, inputs, right = ECG["all-cnn"].pretrained(), beats[:, None], "cyclic_shift"
    elif modality == "points":
        clouds = torch.randn(6, 64, 3, generator=generator) * torch.rand(6, 1, 3, generator=generator)
        model, inputs, right = DEEP_SETS.pretrained(), clouds, "permutations"
    elif modality == "tokens":
        ids = torch.randint(0, 1000, (6, 128), generator=generator)
        model, inputs, right = BAG.pretrained(), TokenInputs(ids, vocabulary=1000), "permutations"
    elif modality == "graphs":
        pytest.importorskip("torch_geometric")
        mask = torch.arange(9) < torch.tensor([[5], [9], [7], [6], [8], [4]])
        atoms = torch.eye(14)[torch.randint(0, 14, (6, 9), generator=generator)] * mask[..., None]
        edges = (torch.rand(6, 16, 2, generator=generator) * mask.sum(1)[:, None, None]).long()
        model, inputs, right = GNN.pretrained(), GraphInputs(atoms, mask, edges), "node_permutations"
    else:
        model, inputs, right = d4.NETWORKS["d4"].pretrained(), torch.rand(4, 3, 32, 32, generator=generator), "d4"
    found = scan(model, inputs, samples=6, draws=3, progress=False).rows[0]
    assert (found.space.name, found.verdict) == (right, Verdict.KEPT)
    if modality in ("points", "tokens"):
        assert found.space.axis == -2  # type: ignore[attr-defined]
