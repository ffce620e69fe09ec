"""The nearest point of a ball: by hand, against slow oracles, and by what a projection must hold."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

from veracity.perturb.ball import onto_l1, onto_l2, onto_linf

PROJECTIONS = {"linf": onto_linf, "l2": onto_l2, "l1": onto_l1}
NORMS = {"linf": lambda z: z.abs().amax(1), "l2": lambda z: z.norm(dim=1), "l1": lambda z: z.abs().sum(1)}

vectors = (
    st.integers(1, 7)
    .flatmap(lambda size: st.lists(st.lists(st.floats(-4, 4), min_size=size, max_size=size), min_size=1, max_size=4))
    .map(lambda values: torch.tensor(values, dtype=torch.float64))
)
radii = st.floats(0.05, 5.0)


def slow_l1(z, radius):
    """One vector at a time: the shrinkage t at which the sizes add up to the radius, by bisection."""
    rows = []
    for row in z.numpy():
        sizes = np.abs(row)
        shrinkage = 0.0
        if sizes.sum() > radius:
            shrinkage = brentq(lambda t, sizes=sizes: np.maximum(sizes - t, 0).sum() - radius, 0.0, sizes.max(), xtol=1e-14)
        rows.append(np.sign(row) * np.maximum(sizes - shrinkage, 0))
    return torch.from_numpy(np.array(rows))


def test_by_hand():
    z = torch.tensor([[3.0, -4.0], [0.3, 0.4], [1.0, 0.0]])
    assert torch.equal(onto_linf(z, 1.0), torch.tensor([[1.0, -1.0], [0.3, 0.4], [1.0, 0.0]]))
    torch.testing.assert_close(onto_l2(z, 1.0), torch.tensor([[0.6, -0.8], [0.3, 0.4], [1.0, 0.0]]))
    torch.testing.assert_close(onto_l1(z, 2.0), torch.tensor([[0.5, -1.5], [0.3, 0.4], [1.0, 0.0]]))
    torch.testing.assert_close(onto_l1(torch.tensor([[9.0, 1.0, -1.0]]), 2.0), torch.tensor([[2.0, 0.0, 0.0]]))


@settings(max_examples=100, deadline=None)
@given(z=vectors, radius=radii)
def test_l1_agrees_with_bisection(z, radius):
    torch.testing.assert_close(onto_l1(z, radius), slow_l1(z, radius), rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", PROJECTIONS)
def test_agrees_with_a_general_optimiser(norm):
    """min |p - z|^2 inside the ball, entries split into their positive and negative parts so that l1 is smooth."""
    constraint = {"linf": lambda p: 0.7 - p[:5] - p[5:], "l2": lambda p: 0.49 - (p**2).sum(), "l1": lambda p: 0.7 - p.sum()}[norm]
    z = torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for row, found in zip(z.numpy(), PROJECTIONS[norm](z, 0.7).numpy(), strict=True):
        best = minimize(
            lambda p, row=row: ((p[:5] - p[5:] - row) ** 2).sum(),
            np.full(10, 0.01),
            bounds=[(0, None)] * 10,
            constraints={"type": "ineq", "fun": constraint},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        np.testing.assert_allclose(found, best.x[:5] - best.x[5:], atol=1e-5)


@pytest.mark.parametrize("norm", PROJECTIONS)
@settings(max_examples=60, deadline=None)
@given(z=vectors, radius=radii, seed=st.integers(0, 99))
def test_what_a_projection_must_hold(norm, z, radius, seed):
    """It is inside, keeps what is inside, does nothing twice, and no point q of the ball lies beyond: <z - p, q - p> <= 0."""
    project, length = PROJECTIONS[norm], NORMS[norm]
    p = project(z, radius)
    assert float(length(p).max()) <= radius * (1 + 1e-12)
    inside = length(z) <= radius
    torch.testing.assert_close(p[inside], z[inside], rtol=0, atol=1e-14)
    torch.testing.assert_close(project(p, radius), p, rtol=0, atol=1e-12)
    q = torch.randn(50, 1, z.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    q = q * radius / length(q.flatten(0, 1)).reshape(50, 1, 1)
    assert float(((z - p) * (q - p)).sum(dim=-1).max()) <= 1e-9


@pytest.mark.parametrize("norm", PROJECTIONS)
def test_precision_slopes_and_extremes(norm):
    project = PROJECTIONS[norm]
    z = torch.randn(6, 3000, generator=torch.Generator().manual_seed(0))
    kept = z.clone()
    found = project(z, 2.0)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), project(z.double(), 2.0), rtol=0, atol=1e-5)
    assert torch.equal(z, kept)
    assert project(z[:0], 2.0).shape == (0, 3000)
    assert torch.equal(project(torch.cat((z, 5 * z)), 2.0), torch.cat((project(z, 2.0), project(5 * z, 2.0))))
    far = project(torch.tensor([[1e30, 0.0, -1e30]]), 1e-3)
    assert bool(far.isfinite().all())
    assert float(NORMS[norm](far)) <= 1e-3 * (1 + 1e-6)
    start = torch.zeros(2, 4, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(project(start, 0.5).sum(), start)
    assert bool(slope.isfinite().all())


def test_slopes_are_those_of_finite_differences():
    z = torch.randn(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    for project in PROJECTIONS.values():
        assert torch.autograd.gradcheck(lambda value, project=project: project(value, 0.6), (z,))
