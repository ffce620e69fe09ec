from __future__ import annotations

from importlib.resources import files as resources

import pytest
import torch
from torch import Tensor, nn

from veracity.core.errors import SpecError
from veracity.orbits.layouts import RotationOrbit
from veracity.orbits.statistics import equivariance_gap
from veracity.orbits.tasks.classification import Classification
from veracity.perturb import Rotation
from veracity_papers.data import files
from veracity_papers.data.mnist import mnist
from veracity_papers.zoo.orbit_digits import (
    LAYER,
    NAMES,
    RotationAveraged,
    build,
    digit_cnn,
    pretrained,
    random_rotation,
)
from veracity_papers.zoo.storage import facts

HERE = files.locate("mnist/t10k-images-idx3-ubyte.gz") is not None
real = pytest.mark.skipif(not HERE, reason="needs MNIST's test images")


def test_all_three_have_the_same_layers() -> None:
    sizes = {name: {key.removeprefix("network."): value.shape for key, value in build(name).state_dict().items()} for name in NAMES}
    assert sizes["plain"] == sizes["augmented"] == sizes["averaged"]
    assert sum(parameter.numel() for parameter in build("plain").parameters()) == 400 + 32 + 4608 + 64 + 9216 + 64 + 15_690
    assert isinstance(build("averaged"), RotationAveraged)


@pytest.mark.parametrize(("side", "maps"), [(28, 7), (14, 4), (13, 4)])
def test_the_last_maps_are_a_quarter_of_the_image(side: int, maps: int) -> None:
    net, seen = digit_cnn(side, width=4).eval(), list[Tensor]()
    net.get_submodule(LAYER).register_forward_hook(lambda module, given, output: seen.append(output))
    assert net(torch.zeros(2, 1, side, side)).shape == (2, 10)
    assert seen[0].shape == (2, 8, maps, maps)


def test_an_augmentation_turns_every_image_by_its_own_angle() -> None:
    x = torch.rand(200, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    before = torch.random.get_rng_state()
    found = random_rotation(x, torch.Generator().manual_seed(5))
    angles = torch.rand(200, 1, generator=torch.Generator().manual_seed(5), dtype=torch.float64) * 2 * torch.pi
    assert torch.equal(found, Rotation().act(angles, x))
    assert int(torch.histc(angles, bins=4, min=0, max=2 * torch.pi).min()) > 30
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_unknown_name_is_one_sentence() -> None:
    with pytest.raises(SpecError, match=r"Unknown network for turned digits .avereged.\. Did you mean .averaged."):
        pretrained("avereged")


def test_the_shipped_weights_are_small_and_know_their_score() -> None:
    folder = resources("veracity_papers.zoo") / "weights"
    sizes = [len((folder / f"orbit-mnist-{name}.safetensors").read_bytes()) for name in NAMES]
    assert max(sizes) <= 150_000
    assert all(0.9 < float(facts(f"orbit-mnist-{name}")["test_accuracy"]) <= 1 for name in NAMES)


@torch.no_grad()
def along(model: nn.Module, x: Tensor, step: float) -> Tensor:
    """Class probabilities (N, K, 10) along the orbit of every image."""
    orbit = RotationOrbit(step=step).fit(x.shape[1:])
    elements = orbit.elements
    moved = orbit.space.act(elements.repeat(len(x), 1), x.repeat_interleave(len(elements), dim=0))
    return Classification().read(model(moved)).reshape(len(x), len(elements), -1)


def some(digit: int | None, count: int) -> tuple[Tensor, Tensor]:
    x, y = mnist("test")
    chosen = torch.arange(0, len(y), len(y) // count)[:count] if digit is None else (y == digit).nonzero().squeeze(1)[:count]
    return x[chosen], y[chosen]


@real
def test_rotations_disturb_the_three_much_less_and_hardly() -> None:
    x, _ = some(None, 60)
    gaps = {}
    for name in NAMES:
        found = along(pretrained(name), x, step=40.0)
        distances = Classification().apart(found.flatten(0, 1), found[:, :1].expand_as(found).flatten(0, 1)).reshape(found.shape[:2])
        gaps[name] = equivariance_gap(distances, identity=0)
    assert gaps["plain"].low > gaps["augmented"].high
    assert gaps["augmented"].value > 1.3 * gaps["averaged"].value
    assert gaps["plain"].value > 0.4


@real
def test_a_one_is_symmetric_and_a_six_becomes_a_nine() -> None:
    # Figures 4 and 5: upside down a "1" is a "1" again, lying it is none; a "6" is read as a "9".
    ones = along(pretrained("plain"), some(1, 40)[0], step=10.0)[:, :, 1].mean(dim=0)
    assert ones[18] > 0.7
    assert ones[[9, 27]].max() < 0.3
    both = torch.stack((ones, ones.roll(18)))
    assert torch.corrcoef(both)[0, 1] > 0.9
    sixes = along(pretrained("plain"), some(6, 40)[0], step=180.0).argmax(dim=2)
    assert (sixes[:, 0] == 6).float().mean() > 0.9
    assert (sixes[:, 1] == 9).float().mean() > 0.5
