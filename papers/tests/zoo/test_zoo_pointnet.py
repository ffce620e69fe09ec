from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, linear

from veracity.core.errors import InputError
from veracity.orbits import OrbitEvaluation
from veracity.orbits.grids import GroupOrbit
from veracity.orbits.tasks.classification import Classification
from veracity.perturb import Permutations, Rotations3D
from veracity.trainers.training import accuracy, initialised
from veracity_papers.data import files
from veracity_papers.data.modelnet import CLASSES, modelnet
from veracity_papers.zoo import pointnet
from veracity_papers.zoo.pointnet import Among, PointNet
from veracity_papers.zoo.symmetry import DEEP_SETS

SHAPES = files.locate("modelnet/modelnet10_voxels32_chair_monitor.npz") is not None
PUBLIC = files.locate(f"weights/{pointnet.FILE}") is not None
shapes = pytest.mark.skipif(not SHAPES, reason="needs ModelNet's shapes")
public = pytest.mark.skipif(not (SHAPES and PUBLIC), reason="needs ModelNet's shapes and the public weights of PointNet")


def clouds(count: int = 4, points: int = 20) -> Tensor:
    return torch.randn(count, points, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def net() -> PointNet:
    """A network whose normalisations have seen something."""
    made = initialised(lambda: PointNet(5, (8, 6), (7, 4)), seed=0).double()
    made(clouds(50))
    return made.eval()


def test_every_point_goes_the_same_way_and_the_largest_features_are_kept() -> None:
    made, x = net(), clouds()
    state = made.state_dict()

    def layer(given: Tensor, weights: str, norm: str) -> Tensor:
        found = linear(given, state[f"{weights}.weight"].flatten(1), state[f"{weights}.bias"])
        held = [state[f"{norm}.{key}"] for key in ("running_mean", "running_var", "weight", "bias")]
        return batch_norm(found, *held).relu()

    for cloud, expected in zip(x, made(x), strict=True):
        points = [layer(layer(point[None], "shared.0", "shared_norms.0"), "shared.1", "shared_norms.1") for point in cloud]
        found = torch.stack(points).amax(dim=0)
        found = layer(layer(found, "dense.0.0", "dense.0.1"), "dense.1.0", "dense.1.1")
        assert torch.allclose(linear(found, state["last.weight"], state["last.bias"])[0], expected, atol=1e-10)


def test_tied_points_share_the_gradient() -> None:
    x = clouds().repeat(1, 2, 1).requires_grad_()
    (gradient,) = torch.autograd.grad(net()(x)[:, 0].sum(), x)
    assert torch.allclose(gradient[:, :20], gradient[:, 20:], atol=1e-12)
    assert gradient.abs().sum() > 1e-3


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_orbits_of_set_models_are_flat_under_permutations_and_not_under_rotations(tmp_path: Path) -> None:
    models: dict[str, nn.Module] = {"pointnet": pointnet.NETWORKS["plain"].pretrained(), "deep sets": DEEP_SETS.pretrained()}
    for space, flat in ((Permutations(axis=-2), True), (Rotations3D(), False)):
        evaluation = OrbitEvaluation(
            models=models,
            inputs=clouds().float() / 3.0,
            targets=torch.tensor([0, 1, 2, 0]),
            orbit=GroupOrbit(space=space, draws=16),
            task=Classification(classes=CLASSES),
        )
        gaps = evaluation.run(tmp_path / space.name, progress=False).gap()["value"]
        assert (gaps <= 1e-5).all() if flat else (gaps > 1e-3).all()


def test_an_augmentation_turns_clouds_as_a_whole() -> None:
    x = clouds(300)
    before = torch.random.get_rng_state()
    found = pointnet.random_turn(x, torch.Generator().manual_seed(3))
    assert torch.allclose(torch.cdist(found, found), torch.cdist(x, x), atol=1e-9)
    assert torch.equal(found, pointnet.random_turn(x, torch.Generator().manual_seed(3)))
    up = pointnet.random_turn(torch.tensor([[[0.0, 0.0, 1.0]]]).repeat(2000, 1, 1), torch.Generator().manual_seed(0))
    assert up.mean(dim=(0, 1)).abs().max() < 0.05  # every direction comes up
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_is_wrong_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"sees clouds \(samples, points, coordinates\), not a tensor of shape \(20, 3\)"):
        net()(clouds()[0])


def test_public_weights_are_read_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = initialised(lambda: PointNet(40, pointnet.PUBLIC_WIDTHS, pointnet.PUBLIC_HIDDEN), seed=2)
    path = tmp_path / "weights" / pointnet.FILE
    path.parent.mkdir(parents=True)
    theirs = {
        key.replace("shared.", "feature_model.conv").replace("shared_norms.", "bn"): value for key, value in wide.state_dict().items()
    }
    torch.save(theirs, path)
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    x = clouds(2).float()
    found = pointnet.public()
    assert isinstance(found, Among)
    assert not found.network.training
    with torch.no_grad():
        assert torch.equal(found(x), wide.eval()(x)[:, [3, 8, 22]])


@cache
def some() -> tuple[Tensor, Tensor]:
    """Test shapes and their labels, read once."""
    test = modelnet("test").some(100)
    return test.inputs.take(torch.arange(100)).values, test.labels


@shapes
def test_the_plain_network_knows_upright_shapes_alone() -> None:
    x, y = some()
    turned = pointnet.random_turn(x, torch.Generator().manual_seed(0))
    right = {name: [accuracy(network.pretrained(), one, y) for one in (x, turned)] for name, network in pointnet.NETWORKS.items()}
    assert right["plain"][0] > 0.97
    assert right["plain"][1] < 0.5
    assert min(right["augmented"]) > 0.9


@public
def test_the_public_network_tells_the_three_classes_apart() -> None:
    # Over all 295 test shapes 295 are right; here over 30.
    x, y = some()
    assert accuracy(pointnet.public(), x[:30], y[:30]) == 1.0
