"""SimplEx and the nearest points of hulls: against SciPy's solvers, the conditions of the minimum, and hulls seen by eye."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from example_nets import context_of, explained, images, labels, small_cnn, training_set
from scipy.optimize import minimize, nnls
from torch import Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.inputs import Signals, TensorInputs
from veracity.core.models import LayerScores
from veracity.core.training import Training
from veracity.explain.examples import convex_hull
from veracity.explain.examples.convex_hull import nearest
from veracity.explain.examples.representation import RepresentationSimilarity, SimplEx


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def solved(vertices: Tensor, targets: Tensor, ridge: float = 1e-6, tolerance: float = 1e-12) -> Tensor:
    return nearest(vertices, targets, ridge, tolerance)


def assert_minimal(vertices: Tensor, targets: Tensor, weights: Tensor, ridge: float, gap: float) -> None:
    """Feasible, and the gradient is the same on the support and nowhere lower (Karush, Kuhn, Tucker)."""
    assert bool((weights >= 0).all())
    torch.testing.assert_close(weights.sum(1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=1e-12)
    gradient = (weights @ vertices - targets) @ vertices.T + ridge * weights
    level = (weights * gradient).sum(1, keepdim=True)
    allowed = gap * (1 + targets.square().sum(1, keepdim=True))
    assert bool((level - gradient <= allowed).all())
    assert bool(((gradient - level).abs() <= 10 * allowed)[weights > 1e-6].all())


def by_slsqp(vertices: Tensor, target: Tensor, ridge: float) -> np.ndarray:
    x, t = vertices.numpy(), target.numpy()

    def value(w: np.ndarray) -> float:
        return float(((w @ x - t) ** 2).sum() + ridge * (w**2).sum()) / 2

    found = minimize(
        value,
        np.full(len(x), 1 / len(x)),
        jac=lambda w: x @ (w @ x - t) + ridge * w,
        bounds=[(0, 1)] * len(x),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones_like(w)},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert found.success or found.status == 8, "status 8: no step lowers the objective further"
    return np.asarray(found.x)


def by_nnls(vertices: Tensor, target: Tensor, ridge: float) -> np.ndarray:
    """Nonnegative least squares with Σ w = 1 as a heavy row, and the ridge as rows."""
    count, heavy = len(vertices), 1e5
    rows = np.concatenate((vertices.numpy().T, np.sqrt(ridge) * np.eye(count), np.full((1, count), heavy)))
    return np.asarray(nnls(rows, np.concatenate((target.numpy(), np.zeros(count), [heavy])))[0])


@pytest.mark.parametrize(("count", "features"), [(6, 3), (15, 4), (12, 20)])
def test_against_scipy(count: int, features: int) -> None:
    vertices, targets = normal(count, features), normal(8, features, seed=1)
    found = solved(vertices, targets, ridge=1e-3)
    for row, target in zip(found, targets, strict=True):
        np.testing.assert_allclose(row, by_slsqp(vertices, target, 1e-3), atol=2e-5)
        np.testing.assert_allclose(row, by_nnls(vertices, target, 1e-3), atol=1e-6)


def test_a_triangle_by_hand() -> None:
    """Inside, beyond an edge, beyond a corner, and on a corner."""
    corners = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 2.0], [3.0, -5.0], [9.0, -1.0], [0.0, 4.0]], dtype=torch.float64)
    expected = torch.tensor([[0.25, 0.25, 0.5], [0.25, 0.75, 0], [0, 1, 0], [0, 0, 1]], dtype=torch.float64)
    torch.testing.assert_close(solved(corners, targets, ridge=1e-9), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("count", "features", "ridge"), [(100, 32, 1e-6), (300, 400, 1e-6), (300, 2, 1e-6), (300, 2, 1e-2), (400, 1, 1e-4), (1, 3, 1e-6)]
)
def test_the_conditions_of_a_minimum(count: int, features: int, ridge: float) -> None:
    """Few features and many vertices: targets deep inside, where hundreds of weights are positive."""
    vertices = normal(count, features) / features**0.5
    targets = torch.cat((normal(20, features, seed=1) / features**0.5, 5 * normal(5, features, seed=2), vertices[:1]))
    assert_minimal(vertices, targets, solved(vertices, targets, ridge), ridge, 1e-12)


def test_badly_conditioned_features_and_twins() -> None:
    """Scales from 1 to 1e-8, and vertices that occur twice, which must share their weight."""
    vertices = normal(150, 20) * torch.logspace(0, -8, 20, dtype=torch.float64)
    vertices = torch.cat((vertices, vertices[:30]))
    targets = 0.7 * vertices[:40] + 0.3 * vertices[60:100]
    found = solved(vertices, targets)
    assert_minimal(vertices, targets, found, 1e-6, 1e-12)
    torch.testing.assert_close(found[:, :30], found[:, 150:], rtol=0, atol=1e-7)


def test_all_vertices_the_same() -> None:
    torch.testing.assert_close(solved(torch.zeros(5, 3).double(), normal(2, 3)), torch.full((2, 5), 0.2).double())


def test_neighbours_in_the_batch_change_nothing() -> None:
    vertices, targets = normal(60, 6), torch.cat((normal(6, 6, seed=1), 0.1 * normal(6, 6, seed=2)))
    alone = torch.cat([solved(vertices, row[None]) for row in targets])
    torch.testing.assert_close(solved(vertices, targets), alone, rtol=0, atol=1e-9)
    torch.testing.assert_close(solved(vertices, targets), solved(vertices, targets), rtol=0, atol=0)


def rectified(seed: int, count: int, units: int = 8) -> Tensor:
    """Representations after a ReLU, scaled as SimplEx does: many lie on faces of fewer dimensions than there are features."""
    made = (normal(200 + count, 6, seed=seed) @ normal(6, units, seed=100 + seed) + normal(units, seed=200 + seed)).relu()
    made = made - made[:200].mean(0)
    return made / made[:200].square().sum(1).mean().sqrt()


def test_more_vertices_on_a_face_than_features() -> None:
    most = 0
    for seed in (0, 19, 20, 33, 35):
        points = rectified(seed, 64)
        found = solved(points[:200], points[200:])
        assert_minimal(points[:200], points[200:], found, 1e-6, 1e-12)
        most = max(most, int((found > 0).sum(1).max()))
    assert most > 8


def test_vertices_in_a_plane_and_targets_beside_it() -> None:
    """Twenty features of which vertices span three: the ridge is all that the other seventeen have."""
    vertices, targets = normal(300, 3) @ normal(3, 20, seed=1), normal(40, 20, seed=2)
    found = solved(vertices, targets)
    assert_minimal(vertices, targets, found, 1e-6, 1e-12)
    flat = torch.linalg.qr(vertices.T[:, :3])[0]
    torch.testing.assert_close(found, solved(vertices @ flat, targets @ flat), rtol=0, atol=1e-6)


def test_a_tolerance_below_rounding_ends_at_rounding() -> None:
    vertices, targets = normal(8, 5), normal(9, 5, seed=1)
    assert_minimal(vertices, targets, solved(vertices, targets, tolerance=1e-30), 1e-6, 1e-13)
    points = rectified(1, 64)
    assert_minimal(points[:200], points[200:], solved(points[:200], points[200:], tolerance=1e-30), 1e-6, 1e-13)


def test_a_row_that_stays_too_far_is_undefined_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no allowance for rounding, rows that cannot end exactly are NaN, and others (a lone nearest corner) are not."""
    monkeypatch.setattr(convex_hull, "ROUNDING_ERRORS", 0.0)
    vertices = normal(60, 6)
    targets = torch.cat((0.1 * normal(20, 6, seed=1), 1e6 * vertices[:1]))
    found = solved(vertices, targets, tolerance=1e-30)
    gone = found.isnan().any(1)
    assert torch.equal(gone, found.isnan().all(1))
    assert int(gone.sum()) > 0
    assert float(found[-1].amax()) == 1
    torch.testing.assert_close(found[~gone].sum(1), torch.ones(int((~gone).sum())).double())


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf])
def test_targets_that_are_not_finite(odd: float) -> None:
    vertices, targets = normal(30, 4), normal(5, 4, seed=1)
    expected = solved(vertices, targets)
    targets[[1, 3], 2] = odd
    found = solved(vertices, targets)
    assert found[[1, 3]].isnan().all()
    torch.testing.assert_close(found[[0, 2, 4]], expected[[0, 2, 4]], rtol=0, atol=1e-12)
    assert solved(vertices, targets[[1]]).isnan().all()


@pytest.mark.parametrize(("count", "features"), [(100, 32), (300, 400), (300, 2)])
def test_the_same_without_room_for_inner_products(count: int, features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vertices, targets = normal(count, features), 0.3 * normal(9, features, seed=1)
    expected = solved(vertices, targets)
    monkeypatch.setattr(convex_hull, "STORED_PRODUCTS", 1)
    torch.testing.assert_close(solved(vertices, targets), expected, rtol=0, atol=1e-8)


def test_defaults_do_on_ordinary_representations() -> None:
    """Blocks of rectified representations, one of them with an input that overflows."""
    for seed in (0, 15):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
        past, x = normal(200, 6, seed=seed).float(), normal(64, 6, seed=50 + seed).float()
        x[5] = torch.inf
        found = explained(SimplEx(), model, x, labels(64, 3), Training(TensorInputs(past), labels(200, 3)))
        fine = torch.arange(64) != 5
        assert found[5].isnan().all()
        torch.testing.assert_close(found[fine].sum(1), torch.ones(63))


def test_mixtures_of_examples_are_found_again() -> None:
    """The last layer is linear, so that a mixture of inputs is a mixture of representations."""
    model = nn.Sequential(nn.Linear(10, 30)).eval()
    past = normal(12, 10).float()
    weights = torch.rand(5, 12, generator=torch.Generator().manual_seed(3)).softmax(1)
    found = explained(SimplEx(layer="0"), model, weights @ past, labels(5), Training(TensorInputs(past), labels(12)))
    features = LayerScores(model, "0")(past).detach()
    torch.testing.assert_close(found @ features, weights @ features, rtol=0, atol=1e-3)
    one = explained(SimplEx(layer="0"), model, past[3:4], labels(1), Training(TensorInputs(past), labels(12)))
    torch.testing.assert_close(one, torch.eye(12)[3:4], rtol=0, atol=1e-4)


@pytest.mark.parametrize("layer", ["pool", "conv2"])
def test_the_nearest_mixture_of_a_layers_outputs(layer: str) -> None:
    model, x, training = small_cnn(), images(4, 2), training_set(9)
    found = explained(SimplEx(layer=layer), model, x, labels(4), training)
    with torch.no_grad():
        past, now = (LayerScores(model, layer)(part).double() for part in (training.inputs.tensor, x))
    spread = float((past - past.mean(0)).square().sum(1).mean())
    for row, target in zip(found, now, strict=True):
        np.testing.assert_allclose(row, by_slsqp(past, target, 1e-6 * spread), atol=1e-4)


def test_units_and_origin_do_not_matter() -> None:
    past, x = normal(20, 4).float(), normal(6, 4, seed=1).float()
    found = []
    for scale, shift in ((1.0, 0.0), (1e-3, 0.0), (64.0, 512.0)):
        model = nn.Sequential(nn.Linear(4, 4)).eval()
        with torch.no_grad():
            model[0].weight.copy_(scale * torch.eye(4))
            model[0].bias.fill_(shift)
        found.append(explained(SimplEx(layer="0"), model, x, labels(6), Training(TensorInputs(past), labels(20))))
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(found[2], found[0], rtol=0, atol=1e-3)


def test_settings_that_make_no_sense() -> None:
    for setting, value in (("ridge", 0), ("tolerance", 0), ("tolerance", "fine")):
        with pytest.raises(SpecError, match=f"'{setting}' of explainer 'simplex' must be a positive number, not {value!r}"):
            SimplEx(layer="pool", **{setting: value})


def test_facts_say_how_large_the_corpus_is_and_how_near_the_mixture() -> None:
    context, explainer = context_of(2, training_set()), SimplEx(layer="pool", ridge=1e-4)
    learnt = explainer.lesson.learn(small_cnn(), context)
    assert explainer.facts(learnt, context) == [{"examples": 12, "units": 6, "ridge": 1e-4, "tolerance": 1e-10}]
    assert RepresentationSimilarity(layer="pool").facts(learnt, context) == [{"examples": 12, "units": 6}]


def test_both_explainers_by_a_layer_learn_its_features_once_and_nothing_else() -> None:
    context, explainer = context_of(2, training_set()), SimplEx(layer="pool", ridge=1e-4)
    assert explainer.lesson == RepresentationSimilarity(layer="pool").lesson
    assert explainer.lesson != SimplEx(layer="conv2").lesson
    learnt = explainer.lesson.learn(small_cnn(), context)
    assert {key: (value.dtype, tuple(value.shape)) for key, value in learnt.items()} == {
        "features": (torch.float32, (12, 6)),
        "place": (torch.int64, ()),
    }


class Halved(SimplEx):
    """SimplEx on half of the units."""

    name = "halved"

    def represent(self, model: nn.Module, signals: Signals, place: Tensor) -> Tensor:
        return super().represent(model, signals, place)[:, ::2]


def test_a_class_with_features_of_its_own_learns_them() -> None:
    explainer, context = Halved(layer="pool"), context_of(2, training_set())
    assert explainer.lesson is explainer
    learnt = explainer.lesson.learn(small_cnn(), context)
    assert learnt["features"].shape == (12, 3)
    found = explainer.explain(small_cnn(), images(2), labels(2), replace(context, learnt=learnt))
    torch.testing.assert_close(found.sum(1), torch.ones(2))
