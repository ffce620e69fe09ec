"""One embedding of all orbits: joint, seeded, with fixed signs."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from veracity.core.errors import InputError, SpecError
from veracity.orbits.reduction import METHODS, embed

NAN = float("nan")
FAST = ("pca", "ica", "isomap", "tsne")


def plots(count=40, length=12, seed=0):
    """Two families of curves along the orbit, with a little noise."""
    rng = np.random.default_rng(seed)
    angle = np.linspace(0, 2 * np.pi, length, endpoint=False)
    first, second = rng.random((2, count, 1))
    return 2.0 * first * np.cos(angle) + second * np.sin(angle) + 0.01 * rng.standard_normal((count, length))


def test_pca_is_that_of_the_singular_values():
    x = plots()
    centred = x - x.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    found = embed(x)
    assert found.dtype == np.float32
    assert np.allclose(np.abs(found), np.abs(left[:, :2] * values[:2]), atol=1e-5)
    few = plots(6, 20)
    left, values, _ = np.linalg.svd(few - few.mean(axis=0), full_matrices=False)
    assert np.allclose(np.abs(embed(few)), np.abs(left[:, :2] * values[:2]), atol=1e-5)


@pytest.mark.parametrize("shape", [(40, 12), (8, 30)])
def test_the_signs_of_pca_are_the_datas(shape):
    """The same points whatever the order of rows, and mirrored with the data: nothing is left to the algorithm."""
    x = plots(*shape)
    order = np.random.default_rng(3).permutation(len(x))
    assert np.allclose(embed(x)[order], embed(x[order]), atol=1e-5)
    axes = np.linalg.lstsq(embed(x), x - x.mean(axis=0), rcond=None)[0]
    assert (np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1) > 0).all()


@pytest.mark.parametrize("method", FAST)
def test_the_same_seed_gives_the_same_points_and_no_global_state_is_touched(method):
    x = plots()
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = embed(x, method, seed=4)
    assert np.array_equal(first, embed(x, method, seed=4))
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert first.shape == (40, 2)
    assert np.isfinite(first).all()
    assert np.linalg.matrix_rank(first - first.mean(axis=0)) == 2


@pytest.mark.parametrize("method", ["pca", "ica", "isomap"])
def test_equal_plots_of_two_models_are_one_point(method):
    x = plots(20)
    found = embed(np.concatenate((x, x)), method, models=2)
    assert np.allclose(found[:20], found[20:], atol=1e-4)


@pytest.mark.parametrize("method", ["pca", "ica", "isomap", "tsne"])
def test_neighbours_stay_neighbours(method):
    """Two bundles far apart: every point's nearest neighbour is of its own bundle."""
    x = plots(40)
    x[20:] += 10.0
    found = embed(x, method).astype(np.float64)
    away = np.linalg.norm(found[:, None] - found[None], axis=2) + np.diag(np.full(40, np.inf))
    assert ((away.argmin(axis=1) < 20) == (np.arange(40) < 20)).mean() >= 0.95


def test_ica_finds_independent_sources():
    """Two uniform sources, mixed: each comes back up to sign and order."""
    rng = np.random.default_rng(0)
    sources = rng.uniform(-1, 1, (2000, 2))
    found = embed(sources @ rng.standard_normal((2, 8)), "ica")
    strength = np.abs(np.corrcoef(found.T, sources.T)[:2, 2:])
    assert (strength.max(axis=1) > 0.98).all()
    assert set(strength.argmax(axis=1)) == {0, 1}


def test_isomap_unrolls_what_is_bent():
    """Along an arc that nearly closes, the first coordinate is the way along it; PCA cannot see that."""
    along = np.linspace(0.0, 1.7 * np.pi, 80)
    x = np.stack((np.cos(along), np.sin(along), np.zeros(80)), axis=1)
    assert np.abs(np.corrcoef(embed(x, "isomap")[:, 0], along)[0, 1]) > 0.99
    assert np.abs(np.corrcoef(embed(x, "pca")[:, 0], along)[0, 1]) < 0.95


@pytest.mark.parametrize("method", METHODS)
def test_constant_or_few_plots_are_no_mistake(method):
    assert np.array_equal(embed(np.full((7, 4), 0.3), method), np.zeros((7, 2)))
    assert np.array_equal(embed([[0.5, 0.1]], method), np.zeros((1, 2)))
    assert np.allclose(embed([[0.0, 0.0], [3.0, 4.0]], method), [[-2.5, 0.0], [2.5, 0.0]], atol=1e-6)
    assert embed(np.empty((0, 4)), method).shape == (0, 2)
    line = np.outer(np.arange(8.0), np.ones(3))
    assert np.array_equal(embed(line, method), embed(line))


def test_undefined_values_are_left_out_or_filled():
    x = plots(10)
    holes = np.column_stack((x, np.full(10, NAN)))
    assert np.allclose(embed(holes), embed(x), atol=1e-6)
    holes[3] = NAN
    found = embed(holes)
    assert np.isnan(found[3]).all()
    assert np.allclose(np.delete(found, 3, axis=0), embed(np.delete(x, 3, axis=0)), atol=1e-6)
    holes[4, 0] = NAN
    filled = np.delete(x, 3, axis=0)
    filled[3, 0] = np.delete(filled[:, 0], 3).mean()
    assert np.allclose(np.delete(embed(holes), 3, axis=0), embed(filled), atol=1e-6)
    assert np.isnan(embed(np.full((3, 4), NAN))).all()


def test_slow_methods_take_the_same_seeded_samples_of_every_model():
    x = np.concatenate((plots(30), plots(30, seed=1)))
    found = embed(x, "isomap", seed=2, models=2, most=12)
    there = np.isfinite(found).all(axis=1).reshape(2, 30)
    assert there.sum(axis=1).tolist() == [12, 12]
    assert np.array_equal(there[0], there[1])
    assert np.array_equal(found, embed(x, "isomap", seed=2, models=2, most=12), equal_nan=True)
    assert not np.array_equal(there, np.isfinite(embed(x, "isomap", seed=3, models=2, most=12)).all(axis=1).reshape(2, 30))
    assert np.isfinite(embed(x, "pca", models=2, most=12)).all()


def test_umap_is_asked_for_what_it_should_do(monkeypatch):
    """With a stand-in: seeded, in one thread, begun at the principal components."""
    asked = {}

    class Umap:
        def __init__(self, **settings):
            asked.update(settings)

        def fit_transform(self, scores):
            asked["scores"] = scores
            return scores[:, :2].astype(np.float32)

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Umap, __spec__=object()))
    x = plots(9)
    embed(x, "umap", seed=5)
    assert (asked["random_state"], asked["n_jobs"], asked["n_neighbors"]) == (5, 1, 8)
    assert np.abs(asked["init"]).max() == pytest.approx(10.0)
    assert np.allclose(asked["scores"][:, :2], embed(x), atol=1e-5)


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(SpecError, match=r"veracity\[umap\]"):
        embed(plots(), "umap")
    assert np.isfinite(embed(plots())).all()


def test_mistakes_are_told():
    with pytest.raises(SpecError, match="Did you mean 'tsne'"):
        embed(plots(), "t-sne")
    with pytest.raises(InputError, match="40 plots cannot belong to 3 models"):
        embed(plots(), models=3)
    with pytest.raises(InputError, match=r"\(samples, elements\)"):
        embed(np.zeros((2, 3, 4)))
