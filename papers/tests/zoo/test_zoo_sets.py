from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from veracity.core.models import LayerScores
from veracity.trainers.training import initialised
from veracity_papers.zoo.symmetry import DEEP_SETS, deep_sets


def cloud(dtype: torch.dtype = torch.float32, ties: bool = False) -> Tensor:
    x = torch.randn(3, 40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    return torch.cat((x, x), dim=1) if ties else x


def nets() -> dict[str, nn.Module]:
    return {"random": initialised(lambda: deep_sets(5, 32), seed=0).eval(), "trained": DEEP_SETS.pretrained()}


@pytest.mark.parametrize("name", ["random", "trained"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_the_order_of_points_does_not_matter(name: str, dtype: torch.dtype, tolerance: float) -> None:
    net, x = nets()[name].to(dtype), cloud(dtype)
    orders = [torch.randperm(40, generator=torch.Generator().manual_seed(seed)) for seed in range(10)]
    assert all(torch.allclose(net(x[:, order]), net(x), rtol=0, atol=tolerance) for order in orders)
    assert net(x).std(dim=0).max() > 1e-3


def test_moving_the_cloud_does_not_matter_but_its_shape_does() -> None:
    net, x = nets()["random"].double(), cloud(torch.float64)
    assert torch.allclose(net(x + torch.tensor([1.0, -2.0, 3.0])), net(x), atol=1e-10)
    assert not torch.allclose(net(2 * x), net(x), atol=1e-3)


def test_tied_points_share_the_gradient() -> None:
    net, x = nets()["random"], cloud(ties=True).requires_grad_()
    (gradient,) = torch.autograd.grad(net(x)[:, 0].sum(), x)
    assert torch.allclose(gradient[:, :40], gradient[:, 40:], atol=1e-6)
    assert gradient.abs().sum() > 0.1


def test_the_layers_are_what_they_are_called() -> None:
    net, x = nets()["trained"], cloud()
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        inner, outer = (LayerScores(net, layer) for layer in ("equivariant2", DEEP_SETS.invariant))
        assert torch.allclose(outer(x[:, order]), outer(x), atol=1e-5)
        before, after = inner(x).reshape(3, 40, -1), inner(x[:, order]).reshape(3, 40, -1)
    assert torch.allclose(after, before[:, order], atol=1e-5)
    assert not torch.allclose(after, before, atol=1e-2)


def test_the_papers_network_has_its_size() -> None:
    assert sum(p.numel() for p in deep_sets(40).parameters()) == (3 + 1) * 256 + 3 * (256 + 1) * 256 + (256 + 1) * 40
