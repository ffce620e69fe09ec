"""Objects of Captum, pytorch-grad-cam and PyG, maps as they come, and importances."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import captum.attr
import numpy as np
import pandas as pd
import pytest
import torch
from shift_invariant import explain
from torch import Tensor, nn
from torch.nn.functional import interpolate

from veracity import Audit
from veracity.core.errors import InputError, Note
from veracity.core.explainers import Context
from veracity.core.graphs import GraphInputs
from veracity.core.inputs import TensorInputs
from veracity.core.randomness import Draws
from veracity.core.training import Training
from veracity.explain import CaptumMethod, Function, GradCam, IntegratedGradients, PermutationImportance, Precomputed, as_explainer


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.head = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.conv2(self.conv1(x).relu()).relu().mean((2, 3)))
        return scores


@pytest.fixture
def net() -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Net().eval()


X, TARGETS = torch.randn(4, 2, 8, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0])


class Cam:
    """The signature of pytorch-grad-cam, and Grad-CAM written out."""

    def __init__(self, model: nn.Module, target_layers: list[nn.Module], reshape_transform: Any = None) -> None:
        self.model, self.target_layers, self.reshape_transform = model, target_layers, reshape_transform

    def __call__(self, input_tensor: Tensor, targets: Any = None, aug_smooth: bool = False, eigen_smooth: bool = False) -> Any:
        seen: list[Tensor] = []
        handle = self.target_layers[0].register_forward_hook(lambda module, given, output: seen.append(output))
        outputs = self.model(input_tensor)
        handle.remove()
        (slope,) = torch.autograd.grad(sum(target(output) for target, output in zip(targets, outputs, strict=True)), seen[0])
        maps = (slope.mean((2, 3), keepdim=True) * seen[0]).sum(1, keepdim=True).relu()
        return interpolate(maps, input_tensor.shape[2:], mode="bilinear", align_corners=False)[:, 0].detach().numpy()


def test_a_cam_object_gives_its_maps_and_is_made_again_for_copies(net: Net) -> None:
    cam, other = Cam(net, [net.conv2]), Net().eval()
    torch.testing.assert_close(explain(as_explainer(cam), net, X, TARGETS), torch.tensor(cam(X, chosen()))[:, None].expand_as(X))
    again = Cam(other, [other.conv2])
    torch.testing.assert_close(explain(as_explainer(cam), other, X, TARGETS), torch.tensor(again(X, chosen()))[:, None].expand_as(X))
    assert as_explainer(cam).spec() == as_explainer(again).spec() != as_explainer(Cam(net, [net.conv1])).spec()
    with pytest.raises(InputError, match="cam looks at layers of another model than the audited one"):
        as_explainer(Cam(net, [nn.Conv2d(1, 1, 1)])).check(nn.Sequential(net), X, TARGETS)


class ChannelCam(Cam):
    """Takes the channels up to one, times a factor that may be set later."""

    def __init__(self, model: nn.Module, target_layers: list[nn.Module], reshape_transform: Any = None, channels: int = 6) -> None:
        super().__init__(model, target_layers, reshape_transform)
        self.channels, self.factor = channels, 1.0

    def __call__(self, input_tensor: Tensor, targets: Any = None, aug_smooth: bool = False, eigen_smooth: bool = False) -> Any:
        return super().__call__(input_tensor[:, : self.channels].repeat(1, 2 // self.channels, 1, 1), targets) * self.factor


def test_a_cam_object_keeps_its_settings_on_copies(net: Net) -> None:
    cam, other = ChannelCam(net, [net.conv2], channels=1), Net().eval()
    cam.factor = 3.0
    again = ChannelCam(other, [other.conv2], channels=1)
    want = 3 * torch.tensor(again(X, chosen()))[:, None].expand_as(X)
    torch.testing.assert_close(explain(as_explainer(cam), other, X, TARGETS), want)
    keys = [as_explainer(one).spec()["cam"]["code"] for one in (cam, again, ChannelCam(net, [net.conv2], channels=2))]
    assert len(set(keys)) == 3


def chosen() -> list[Any]:
    return [lambda output, place=int(target): output[place] for target in TARGETS]


def test_layers_by_name(net: Net) -> None:
    method = CaptumMethod(attribution=captum.attr.LayerGradCam, layer="conv2")
    theirs = captum.attr.LayerGradCam(net, net.conv2).attribute(X, target=TARGETS)
    want = captum.attr.LayerAttribution.interpolate(theirs, (8, 8), "bilinear")
    torch.testing.assert_close(explain(method, net, X, TARGETS), want.expand_as(X))
    inner = captum.attr.LayerIntegratedGradients(net, net.conv1).attribute(X, target=TARGETS, n_steps=5)
    summed = explain(
        CaptumMethod(attribution=captum.attr.LayerIntegratedGradients, layer="conv1", settings={"n_steps": 5}), net, X, TARGETS
    )
    torch.testing.assert_close(summed, inner.sum(1, keepdim=True).expand_as(X))
    assert explain(CaptumMethod(attribution=captum.attr.LayerActivation, layer="conv1"), net, X, TARGETS).shape == X.shape
    assert explain(CaptumMethod(attribution=captum.attr.GuidedGradCam, layer="conv2"), net, X, TARGETS).shape == X.shape


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (CaptumMethod(attribution=captum.attr.LayerGradCam, layer="conv3"), "no layer 'conv3'. Did you mean 'conv2'"),
        (CaptumMethod(attribution=captum.attr.LayerActivation, layer="head"), "have no place in an input of shape"),
        (CaptumMethod(attribution=captum.attr.LayerGradCam), "layer_grad_cam needs a layer: pass CaptumMethod"),
        (captum.attr.Saliency(Net()), "made for another model than the audited one: pass the class captum.attr.Saliency"),
        (captum.attr.Saliency(lambda x: x), "was made for function and not for a torch.nn.Module"),
    ],
    ids=["unknown", "axes", "none", "other model", "function"],
)
def test_refusals(net: Net, method: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        as_explainer(method).check(net, X, TARGETS)


def test_captum_objects_follow_the_model(net: Net) -> None:
    other = Net().eval()
    for made, again in (
        (captum.attr.IntegratedGradients(net, multiply_by_inputs=False), captum.attr.IntegratedGradients(other, multiply_by_inputs=False)),
        (captum.attr.DeepLift(net), captum.attr.DeepLift(other)),
        (captum.attr.GuidedGradCam(net, net.conv2), captum.attr.GuidedGradCam(other, other.conv2)),
    ):
        explainer = as_explainer(made)
        assert not explainer.check(net, X, TARGETS)
        torch.testing.assert_close(explain(explainer, net, X, TARGETS), made.attribute(X, target=TARGETS))
        torch.testing.assert_close(explain(explainer, other, X, TARGETS), again.attribute(X, target=TARGETS))
    noisy = as_explainer(captum.attr.NoiseTunnel(captum.attr.Saliency(net)))
    assert "draws from the global random state" in noisy.check(net, X, TARGETS)[0]


def audited(net: Net, maps: Any, folder: Path, inputs: Any = X) -> list[Any]:
    result = Audit(models=net, inputs=inputs, explainers={"maps": maps}, scores=["pixel_flipping"], controls=False).run(
        folder, progress=False
    )
    return result.table()["value"].tolist()


def test_maps_as_they_come(net: Net, tmp_path: Path) -> None:
    maps = torch.rand(4, 8, 8, generator=torch.Generator().manual_seed(1))
    full = audited(net, maps[:, None].expand_as(X).contiguous(), tmp_path / "full")
    for number, given in enumerate((maps, maps.numpy(), maps[:, None], {"model": maps}, Precomputed(maps=maps.numpy()))):
        assert audited(net, given, tmp_path / str(number)) == full
    for given, sentence in (
        (maps[:, :7], "each, but an input has shape"),
        (maps[:3], "has 3 maps for 4 inputs"),
        ({"other": maps}, "has maps of other, but none of model 'model'"),
    ):
        with pytest.raises(InputError, match=sentence):
            audited(net, given, tmp_path / "bad")


def test_tables_of_maps_keep_their_order() -> None:
    maps = pd.DataFrame(np.eye(2), columns=["age", "pay"], index=["a", "b"])
    given = as_explainer(maps)
    assert isinstance(given, Precomputed)
    given.check_order(("age", "pay"), ["a", "b"])
    assert given.given.tolist() == [[1, 0], [0, 1]]
    for names, rows, sentence in (
        (("pay", "age"), ["a", "b"], "another order than the inputs: place 0 is 'age' and not 'pay'"),
        (("age", "job"), ["a", "b"], "other features than the inputs: 'pay'"),
        (("age", "pay"), ["b", "a"], "Row 0 of the explanations is called 'a', and row 0 of the inputs 'b'"),
    ):
        with pytest.raises(InputError, match=sentence):
            given.check_order(names, rows)


def test_importances() -> None:
    linear = nn.Linear(2, 2, bias=False)
    linear.weight.data = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    labels, rows = linear(x).argmax(1), torch.arange(2)
    context = Context(Draws.of(0, torch.arange(0)), 64, training=Training(TensorInputs(x), labels))
    learnt = PermutationImportance().learn(linear, context)["importances"]
    assert learnt[1] == 0
    assert 0.3 < learnt[0] < 0.7  # shuffled, the sign agrees by chance
    found = PermutationImportance().explain(linear, x[:2], labels[:2], Context(Draws.of(0, rows), 64, learnt={"importances": learnt}))
    assert torch.equal(found[0], found[1])
    given = as_explainer({"importances_mean": np.array([0.5, 0.0]), "importances": np.zeros((2, 3))})
    assert explain(given, linear, x[:2], labels[:2]).tolist() == [[0.5, 0.0], [0.5, 0.0]]
    with pytest.raises(InputError, match="importances are 2 numbers"):
        given.check(nn.Linear(3, 2), torch.zeros(2, 3), labels[:2])


def test_the_cost_of_foreign_code_is_the_seconds_of_a_row(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("veracity.explain.foreign.time", SimpleNamespace(perf_counter=lambda: now))

    def slow(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        nonlocal now
        now += 1 + 2 * len(inputs)  # a call takes a second, and each of its rows two
        return inputs

    found = Function(function=slow).specialise(net, X, TARGETS)
    assert found.cost(X.shape[1:]).seconds == 2


@pytest.mark.parametrize("edges", [None, "object"])
def test_masks_of_edges_leave_the_network_alone(edges: str | None, tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data
    from torch_geometric.explain import Explainer, GNNExplainer
    from torch_geometric.nn import GCNConv, global_mean_pool

    class Graphs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(3, 2)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            scores: Tensor = global_mean_pool(self.conv(x, edge_index), batch)
            return scores

    model, graphs = Graphs().eval(), [Data(x=torch.randn(4, 3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]])) for _ in range(2)]
    before = set(vars(model.conv))
    config = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}
    made = Explainer(model, GNNExplainer(epochs=2), "model", config, node_mask_type="attributes", edge_mask_type=edges)
    with pytest.warns(Note, match="global random state"):
        result = Audit(models=model, inputs=graphs, explainers=[made], scores=["sparseness"], controls=False).run(tmp_path, progress=False)
    assert result.failures().empty
    assert set(vars(model.conv)) == before


def test_pyg_explainers() -> None:
    geometric = pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data
    from torch_geometric.explain import CaptumExplainer, Explainer
    from torch_geometric.nn import GCNConv, global_mean_pool

    class Graphs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = GCNConv(3, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            scores: Tensor = self.head(global_mean_pool(self.conv(x, edge_index).relu(), batch))
            return scores

    assert geometric
    model, inputs = Graphs().eval(), GraphInputs.of([Data(x=torch.randn(n, 3), edge_index=torch.randint(0, n, (2, 2 * n))) for n in (4, 5)])
    config = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}
    made = Explainer(model, CaptumExplainer("IntegratedGradients"), "model", config, node_mask_type="attributes")
    x, targets = inputs.take(torch.arange(2)), torch.tensor([1, 0])
    context = Context(Draws.of(0, torch.arange(2)), 64, x.structure)
    found = as_explainer(made).explain(inputs.adapt(model), x.values, targets, context)
    mine = IntegratedGradients(steps=50).explain(inputs.adapt(model), x.values, targets, context)
    torch.testing.assert_close(found, mine, atol=1e-4, rtol=1e-2)
    assert bool((found[~x.structure[0]] == 0).all())
    with pytest.raises(InputError, match="pass graphs as inputs"):
        as_explainer(made).check(nn.Linear(3, 2), torch.zeros(2, 3), targets)


def test_grad_cam_of_captum_is_ours(net: Net) -> None:
    theirs = explain(
        CaptumMethod(attribution=captum.attr.LayerGradCam, layer="conv1", settings={"relu_attributions": True}), net, X, TARGETS
    )
    torch.testing.assert_close(theirs, explain(GradCam(layer="conv1"), net, X, TARGETS))
