"""All orbits in one picture: individual plots as vectors, brought to two dimensions, one embedding for all models.

Reference: Zhao et al., Evaluating machine learning models with NERO, section 2.4.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veracity.core.errors import InputError, missing_extra, unknown
from veracity.orbits.statistics import Array, rows

METHODS = ("pca", "ica", "isomap", "tsne", "umap")
SLOW = frozenset({"isomap", "tsne", "umap"})
MOST = 1000
"""How many samples of a model a slow method takes."""
FEWEST = 5
WIDTH = 50
"""How many principal components a slow method sees."""
NEIGHBOURS = {"isomap": 10, "umap": 15}
PERPLEXITY = 30.0
START = 1e-4
VANISHES = 1e-12


def embed(values: ArrayLike, method: str = "pca", seed: int = 0, models: int = 1, most: int = MOST) -> NDArray[np.float32]:
    """Points (models * samples, 2) of individual plots (models * samples, K), one model's rows after the other's.

    All models share one embedding, so that equal plots are equal points. An element undefined for all rows is left out, another
    undefined value takes its column's mean, and a row without any value is NaN. PCA and ICA take every row; Isomap, t-SNE and UMAP
    a seeded choice of `most` samples, the same for every model, and the rest is NaN. Fewer than five different plots are shown by
    PCA, whatever the method. Signs are fixed by the longest component of each axis, and everything random follows from the seed.

    >>> embed([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]).round(3).tolist()
    [[-5.0, 0.0], [0.0, 0.0], [5.0, 0.0]]
    """
    x = rows(values)
    if method not in METHODS:
        raise unknown("method of dimension reduction", str(method), METHODS)
    if models < 1 or len(x) % models:
        raise InputError(f"{len(x)} plots cannot belong to {models} models with equally many samples each.")
    chosen = np.isfinite(x).any(axis=1) & (subset(len(x) // models, models, most, seed) if method in SLOW else True)
    found = np.full((len(x), 2), np.nan, dtype=np.float32)
    if chosen.any():
        found[chosen] = reduce(impute(x[chosen]), method, seed)
    return found


def subset(samples: int, models: int, most: int, seed: int) -> NDArray[np.bool_]:
    """Which rows a slow method takes, (models * samples,): the same samples of every model."""
    taken = np.zeros(samples, dtype=np.bool_)
    taken[np.random.default_rng(seed).permutation(samples)[:most]] = True
    return np.tile(taken, models)


def impute(x: Array) -> Array:
    """Rows (n, K) without the columns that hold nothing; what else is missing takes its column's mean."""
    there = np.isfinite(x)
    x, there = x[:, there.any(axis=0)], there[:, there.any(axis=0)]
    mean = np.where(there, x, 0.0).sum(axis=0) / there.sum(axis=0)
    return np.where(there, x, mean)


def reduce(x: Array, method: str, seed: int) -> Array:
    """Points (n, 2) of complete rows (n, K)."""
    scores = principal(x, WIDTH)
    flat = scores[:, :2]
    if method == "pca" or len(np.unique(flat, axis=0)) < FEWEST or not (flat[:, 1] != 0).any():
        return flat
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return upright(estimator(method, scores, seed).fit_transform(flat if method == "ica" else scores))


def estimator(method: str, scores: Array, seed: int) -> Any:
    """What brings principal components (n, width) to two dimensions; t-SNE and UMAP begin at the first two of them."""
    neighbours, flat = min(NEIGHBOURS.get(method, 0), len(scores) - 1), scores[:, :2]
    if method == "ica":
        from sklearn.decomposition import FastICA

        return FastICA(n_components=2, whiten="unit-variance", random_state=seed, max_iter=1000)
    if method == "isomap":
        from sklearn.manifold import Isomap

        return Isomap(n_neighbors=neighbours, eigen_solver="dense")
    if method == "tsne":
        from sklearn.manifold import TSNE

        begin = (flat * (START / scores[:, 0].std())).astype(np.float32)
        return TSNE(init=begin, perplexity=min(PERPLEXITY, (len(scores) - 1) / 3), random_state=seed)
    try:
        from umap import UMAP
    except ImportError as error:
        raise missing_extra("umap-learn", "umap") from error
    begin = (10.0 * flat / np.abs(flat).max()).astype(np.float32)
    return UMAP(n_neighbors=neighbours, init=begin, random_state=seed, n_jobs=1)


def principal(x: Array, width: int = 2) -> Array:
    """The first principal components' scores (n, width) of rows (n, K), zero where there are no more; largest variance first.

    Each axis points to where its largest loading is positive, so that the signs are the data's and not the algorithm's.
    """
    x = x - x[0]
    x = x - x.mean(axis=0)
    tall = len(x) >= x.shape[1]
    variance, vectors = np.linalg.eigh(x.T @ x if tall else x @ x.T)
    order = np.argsort(variance)[::-1][:width]
    there = variance[order] > VANISHES * max(float(variance.max(initial=0.0)), VANISHES)
    axes = vectors[:, order[there]] if tall else x.T @ vectors[:, order[there]] / np.sqrt(variance[order[there]])
    return np.pad(x @ upright(axes), ((0, 0), (0, width - int(there.sum()))))


def upright(axes: Array) -> Array:
    """Columns (n, k) with the sign that makes their largest entry positive."""
    axes = np.asarray(axes, dtype=np.float64)
    if axes.size == 0:
        return axes
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return axes * np.where(largest < 0, -1.0, 1.0)
