"""Orbit evaluations of models that depend on their batch, or run out of memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from orbit_small import digits_like, images, linear
from veracity.core.errors import ChangedModelError, InputError
from veracity.core.explainers import Context, Cost, Explainer


class Hungry(nn.Module):
    """A model whose allocator really refuses more than a number of rows."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.net, self.most = linear(), most

    def forward(self, x: Tensor) -> Tensor:
        torch.empty(1 if len(x) <= self.most else 2**50, dtype=torch.uint8)
        out: Tensor = self.net(x)
        return out


def test_running_out_of_memory_halves_the_batch(tmp_path: Path) -> None:
    found = digits_like(models={"a": Hungry(3)}, explainers=["gradient"]).run(tmp_path / "hungry", batch=16, progress=False)
    expected = digits_like(models={"a": linear()}, explainers=["gradient"]).run(tmp_path / "fed", progress=False)
    assert found.failures().empty
    for metric in ("confidence", "equivariance: gradient"):
        assert np.allclose(found.values("a", metric), expected.values("a", metric), atol=1e-6)


class Centred(nn.Module):
    """Subtracts a share of the batch's mean."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.net, self.share = linear(), share

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x - self.share * x.mean(0))
        return out


def test_outputs_that_depend_on_the_batch_are_told_once(tmp_path: Path) -> None:
    evaluation = digits_like(models={"a": Centred(0.005)}, inputs=images(seed=3), explainers=["gradient"])
    with pytest.warns(UserWarning, match="when other inputs are in the batch"):
        result = evaluation.run(tmp_path, progress=False)
    assert str(result.notes).count("when other inputs are in the batch") == 1
    with pytest.raises(InputError, match=r"an input when other inputs are in the batch \(its outputs change by"):
        digits_like(models={"a": Centred(1.0)}).run(tmp_path / "follows", progress=False)


class Scales(Explainer):
    """Changes the model that it explains."""

    name = "scales"

    def cost(self, shape: torch.Size) -> Cost:
        return Cost(forward=1)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        with torch.no_grad():
            next(model.parameters()).mul_(2)
        return inputs.clone()


def test_an_explainer_that_changes_the_model_is_refused(tmp_path: Path) -> None:
    net = linear()
    before = net[1].weight.clone()
    with pytest.raises(ChangedModelError, match="On model 'a': scales changes the model that it explains"):
        digits_like(models={"a": net}, explainers=[Scales()]).run(tmp_path, progress=False)
    assert torch.equal(net[1].weight, before)
