"""SO(3) on points: quaternions against SciPy, Haar measure, what an orthogonal action guarantees, and the cube's 24 turns."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation as Oracle
from scipy.stats import ks_2samp, kstest

from veracity.core.errors import InputError
from veracity.core.randomness import Draws
from veracity.core.spaces import Representation
from veracity.perturb import CubeRotations, Product, Rotations3D
from veracity.perturb.groups.rotations import cube, matrices
from veracity.testing import GroupConformance


def cloud(count=6, points=5, dtype=torch.float32):
    return torch.randn(count, points, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)


def drawn(count, stream="test"):
    group = Rotations3D()
    return group.decode(Draws.of(0, torch.arange(count)).normal(group.latents, stream=stream))


def as_scipy(quaternions):
    """SciPy writes the real part last."""
    return Oracle.from_quat(quaternions[:, [1, 2, 3, 0]].numpy())


def flat(x):
    return x.flatten(1)


class TestRotations3D(GroupConformance):
    def space(self):
        return Rotations3D()

    def inputs(self):
        return cloud()

    def assert_same_elements(self, one, other):
        """q and -q are the same rotation."""
        torch.testing.assert_close(matrices(one), matrices(other), rtol=0, atol=1e-12)


class TestGridOfPoints(TestRotations3D):
    def inputs(self):
        return cloud(4, 24).reshape(4, 2, 3, 4, 3)


class TestCubeRotations(GroupConformance):
    tolerance = 0.0

    def space(self):
        return CubeRotations()

    def inputs(self):
        return cloud(24)


def test_quarter_turns_by_hand():
    """About z, x goes to y; first about x, then about z, is another turn than the other way round."""
    half = math.sqrt(0.5)
    group, about_x, about_z = Rotations3D(), torch.tensor([[half, half, 0.0, 0.0]]), torch.tensor([[half, 0.0, 0.0, half]])
    axes = torch.eye(3)[None]
    turned = group.act(about_z, axes)[0]
    torch.testing.assert_close(turned, torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), rtol=0, atol=1e-6)
    torch.testing.assert_close(group.act(group.compose(about_z, about_x), axes)[0, 1], torch.tensor([0.0, 0.0, 1.0]), rtol=0, atol=1e-6)
    torch.testing.assert_close(group.act(group.compose(about_x, about_z), axes)[0, 1], torch.tensor([-1.0, 0.0, 0.0]), rtol=0, atol=1e-6)


def test_against_scipy():
    g, h, x = drawn(50), drawn(50, "other"), cloud(50, 7, torch.float64)
    expected = np.stack([turn.apply(points) for turn, points in zip(as_scipy(g), x.numpy(), strict=True)])
    np.testing.assert_allclose(Rotations3D().act(g, x).numpy(), expected, atol=1e-12)
    composed = Rotations3D().compose(g, h)
    np.testing.assert_allclose(matrices(composed).numpy(), (as_scipy(g) * as_scipy(h)).as_matrix(), atol=1e-12)
    np.testing.assert_allclose(matrices(Rotations3D().inverse(g)).numpy(), as_scipy(g).inv().as_matrix(), atol=1e-12)


def test_draws_are_uniform():
    """Haar measure: rotations average to zero, and the angle has the distribution (angle - sin angle) / pi, as SciPy's draws."""
    turns = matrices(drawn(20_000))
    assert float(turns.mean(dim=0).abs().max()) < 0.02
    traces = turns.diagonal(dim1=1, dim2=2).sum(dim=1).numpy()
    angles = np.arccos(np.clip((traces - 1) / 2, -1, 1))
    assert kstest(angles, lambda angle: (angle - np.sin(angle)) / np.pi).pvalue > 1e-3
    other = Oracle.random(20_000, np.random.default_rng(0)).as_matrix().trace(axis1=1, axis2=2)
    assert ks_2samp(traces, other).pvalue > 1e-3
    fixed = matrices(drawn(1, "fixed"))
    moved = (fixed @ turns).diagonal(dim1=1, dim2=2).sum(dim=1).numpy()
    assert ks_2samp(moved, other).pvalue > 1e-3


def test_a_latent_without_direction_is_the_identity():
    assert torch.equal(Rotations3D().decode(torch.zeros(2, 4)), Rotations3D().identity(2))


def test_gradients_turn_along_and_input_x_gradient_does_not():
    """Corollary D.5 against Proposition D.6, for a smooth function of distances between points."""
    x, group, g = cloud(8, 6, torch.float64), Rotations3D(), drawn(8)
    weights = torch.rand(6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def gradient(points):
        points = points.clone().requires_grad_()
        apart = (points[:, :, None] - points[:, None]).square().sum(dim=3)
        return torch.autograd.grad((weights * torch.exp(-apart)).sum(), points)[0]

    here, there, y = gradient(x), gradient(group.act(g, x)), group.act(g, x)
    torch.testing.assert_close(there, group.act(g, here), rtol=0, atol=1e-12)
    product = torch.cosine_similarity(flat(y * there), flat(group.act(g, x * here)))
    absolute = torch.cosine_similarity(flat(there.abs()), flat(group.act(g, here.abs())))
    assert float(product.min()) < 0.5
    assert float(absolute.min()) < 0.5


def test_the_cube_is_a_part_of_so3():
    """Determinant 1, orthogonal, all different, identity first; the fourth power of a quarter turn is the identity."""
    turns = cube()
    assert turns.shape == (24, 3, 3)
    assert torch.equal(turns[0], torch.eye(3, dtype=torch.float64))
    assert torch.equal(turns @ turns.mT, torch.eye(3, dtype=torch.float64).expand(24, 3, 3))
    torch.testing.assert_close(torch.linalg.det(turns), torch.ones(24, dtype=torch.float64))
    assert len({tuple(turn.flatten().tolist()) for turn in turns}) == 24
    group, g = CubeRotations(), CubeRotations().enumerate()
    square = group.compose(g, g)
    order_four = (group.compose(square, square) == 0) & (square != 0)
    assert int(order_four.sum()) == 6
    assert torch.equal(cube()[group.compose(g, g.flip(0))[:, 0]], cube() @ cube().flip(0))


def test_a_product_with_another_group():
    both = Product(factors=({"name": "permutations", "axis": -2}, {"name": "so3"})).fit(torch.Size([4, 3]))
    assert both.representation is Representation.ORTHOGONAL
    assert both.order is None
    assert both.latents == 8


@pytest.mark.parametrize("group", [Rotations3D(), CubeRotations()])
def test_inputs_without_coordinates_are_refused(group):
    with pytest.raises(InputError, match=r"needs the 3 coordinates of a point along the last axis, .* shape \(3, 50\): bring the inputs"):
        group.fit(torch.Size([3, 50]))
    with pytest.raises(InputError, match=r"needs the 3 coordinates"):
        group.act(group.identity(2), torch.zeros(2, 4))
