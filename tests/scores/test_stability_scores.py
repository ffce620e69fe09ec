"""MeGe and ReCo from explanations and predictions: Algorithm 1 written out, and what the scores declare."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Size, Tensor

from veracity.core.errors import SpecError
from veracity.core.measures import Direction
from veracity.core.scores import Defaults, Measured, Pair, Reading, Reads, Subject, reads_after, reads_before
from veracity.explain.controls import RandomUniform
from veracity.explain.gradients import Gradient
from veracity.measure import cosine, l1
from veracity.perturb.folds import Folds
from veracity.scores.common import as_score
from veracity.scores.stability import MeGe, ReCo, ReCoAUC, ReCoKS, StabilityScore
from veracity.walk import Exhaustive, MonteCarlo

SCORES = [MeGe(), ReCo(), ReCoAUC(), ReCoKS()]
DEFAULTS = Defaults(None, MonteCarlo(draws=50))


def world(k: int = 4, samples: int = 24, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Explanations (k, samples, 2, 3) with ties and a constant one, predictions (k, samples), labels and folds (samples,)."""
    generator = torch.Generator().manual_seed(seed)
    maps = torch.randint(0, 5, (k, samples, 2, 3), generator=generator).float()
    maps[0, 2] = 1.0
    labels = torch.randint(0, classes, (samples,), generator=generator)
    wrong = torch.rand(k, samples, generator=generator) < 0.35
    predicted = torch.where(wrong, torch.randint(0, classes, (k, samples), generator=generator), labels)
    return maps, predicted, labels, torch.arange(samples) % k


def algorithm(maps: Tensor, predicted: Tensor, labels: Tensor, folds: Tensor) -> tuple[list[float], list[float]]:
    """Algorithm 1, step by step."""
    k, alike, unlike = len(maps), [], []
    explained = {(i, x): maps[i, x].flatten().tolist() for i in range(k) for x in range(len(labels))}
    answered = {(i, x): int(predicted[i, x]) for i in range(k) for x in range(len(labels))}
    for i in range(k):
        for x in (x for x in range(len(labels)) if folds[x] == i):
            for j in (j for j in range(k) if j != i):
                if len(set(explained[i, x])) == 1 or len(set(explained[j, x])) == 1:
                    continue
                delta = 1 - abs(spearmanr(explained[i, x], explained[j, x])[0])
                right = sum(answered[model, x] == int(labels[x]) for model in (i, j))
                if right == 2:
                    alike.append(delta)
                elif right == 1:
                    unlike.append(delta)
    return alike, unlike


def observed(score: StabilityScore, maps: Tensor, predicted: Tensor, labels: Tensor, folds: Tensor) -> Measured:
    """What a run measures: draw d of a sample in fold i is the model of fold (i + 1 + d) mod k."""
    k, samples = predicted.shape
    rows, draws = (torch.tensor(column) for column in zip(*product(range(samples), range(k - 1)), strict=True))
    other = (folds[rows] + 1 + draws) % k

    def reading(model: Tensor) -> Reading:
        found = predicted[model, rows]
        right = (found == labels[rows]).double()
        return Reading(found, {Reads.EXPLANATION: maps[model, rows], Reads.CORRECT: right, Reads.CLASS: found})

    pair = Pair(reading(folds[rows]), reading(other), draws[:, None], lambda x: x, lambda x: x)
    table = score.observe(pair).numpy().reshape(samples, k - 1, 4)
    return Measured({name: table[:, :, column, None] for column, name in enumerate(score.quantities)})


def whole(score: StabilityScore, measured: Measured) -> float:
    return float(score.pool(measured, np.ones((1, len(measured["distance"]))))[0])


@pytest.mark.parametrize(("k", "seed"), [(2, 0), (4, 1), (5, 2)])
def test_algorithm_1_against_a_literal_one(k: int, seed: int) -> None:
    given = world(k=k, seed=seed)
    alike, unlike = algorithm(*given)
    measured = observed(MeGe(), *given)
    distance, member = MeGe().sets(measured)
    np.testing.assert_allclose(np.sort(distance[member == 0]), np.sort(alike), atol=1e-12)
    np.testing.assert_allclose(np.sort(distance[member == 1]), np.sort(unlike), atol=1e-12)
    assert MeGe().sizes(measured) == (len(alike), len(unlike))
    assert whole(MeGe(), measured) == pytest.approx(1 / (1 + np.mean(alike)))
    merged = sorted({round(d, 9) for d in alike + unlike})[:-1]
    near, far = np.round(alike, 9), np.round(unlike, 9)
    curve = {
        gamma: (near <= gamma).sum() / ((near <= gamma).sum() + (far <= gamma).sum())
        + (far > gamma).sum() / ((near > gamma).sum() + (far > gamma).sum())
        - 1
        for gamma in merged
    }
    assert whole(ReCo(), measured) == pytest.approx(max(curve.values()))
    assert whole(ReCoKS(), measured) == pytest.approx(max([0.0, *((near <= g).mean() - (far <= g).mean() for g in merged)]))
    assert whole(ReCoAUC(), measured) == pytest.approx(np.mean([curve[d] for d in np.concatenate([near, far]) if d in curve]))


def test_identical_models_give_mege_1_and_no_reco() -> None:
    maps, predicted, labels, folds = world()
    maps, predicted = maps[1:2].expand(4, -1, -1, -1), labels.expand(4, -1)
    measured = observed(MeGe(), maps, predicted, labels, folds)
    assert whole(MeGe(), measured) == pytest.approx(1.0, abs=1e-12)
    assert all(math.isnan(whole(score, measured)) for score in SCORES[1:])


def test_maps_that_follow_the_prediction_separate_the_sets() -> None:
    _, predicted, labels, folds = world(classes=2)
    shown = torch.tensor([[1.0, 2, 3, 4, 5, 6], [4.0, 1, 6, 3, 2, 5]])
    measured = observed(ReCo(), shown[predicted], predicted, labels, folds)
    assert whole(ReCo(), measured) == pytest.approx(1.0)
    assert whole(ReCoKS(), measured) == pytest.approx(1.0)


def test_the_public_way_counts_pairs_that_are_wrong_alike() -> None:
    given = world()
    plain, public = MeGe(), MeGe(pairs="same_prediction")
    measured = observed(plain, *given)
    ours, theirs = plain.sets(measured)[1], public.sets(measured)[1]
    assert ((ours == -1) & (theirs == 0)).any()
    assert sum(public.sizes(measured)) == int(np.isfinite(measured["distance"]).sum()) > sum(plain.sizes(measured))


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
def test_constant_maps_have_no_distance_and_are_remarked(score: StabilityScore) -> None:
    maps, predicted, labels, folds = world()
    maps[int(folds[7]), 7] = 0.0
    measured = observed(score, maps, predicted, labels, folds)
    assert np.isnan(measured["distance"][7]).all()
    assert np.isfinite(measured["right"][7]).all()
    assert np.flatnonzero(score.remarks(measured)["no_distance"]).tolist() == [7]
    assert math.isfinite(whole(score, measured))


def test_values_are_the_distances_that_the_score_looks_at() -> None:
    measured = observed(MeGe(), *world())
    distance, member = MeGe().sets(measured)
    np.testing.assert_array_equal(MeGe().values(measured), np.where(member == 0, distance, np.nan))
    np.testing.assert_array_equal(ReCo().values(measured), np.where(member >= 0, distance, np.nan))


def test_similarities_and_distances_of_ones_own() -> None:
    given = world()
    near, far = observed(MeGe(measure=cosine), *given), observed(MeGe(measure=l1), *given)
    a, b = given[0][0, 0].flatten(), given[0][1, 0].flatten()
    assert near["distance"][0, 0, 0] == pytest.approx(1 - float(torch.nn.functional.cosine_similarity(a, b, dim=0)), abs=1e-6)
    assert far["distance"][0, 0, 0] == pytest.approx(float(l1(a[None], b[None])))


@pytest.mark.parametrize("score", SCORES[1:], ids=lambda score: score.name)
def test_permuted_labels_stay_together_and_the_identity_changes_nothing(score: StabilityScore) -> None:
    measured = observed(score, *world())
    samples = len(measured["distance"])
    orders = np.stack([np.arange(samples), np.roll(np.arange(samples), 5)])
    found = score.permuted(measured, orders)
    moved = {name: values[orders[1]] if name != "distance" else values for name, values in measured.quantities.items()}
    assert found is not None
    assert found.tolist() == pytest.approx([whole(score, measured), whole(score, Measured(moved))])


def test_mege_has_no_permutation_null() -> None:
    measured = observed(MeGe(), *world())
    assert MeGe().permuted(measured, np.arange(24)[None]) is None


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
def test_what_the_scores_declare(score: StabilityScore) -> None:
    read = frozenset({Reads.EXPLANATION, Reads.CORRECT, Reads.CLASS})
    assert (reads_before(score), reads_after(score)) == (read, read)
    assert score.pooled
    assert score.direction is Direction.HIGHER
    assert as_score(score.name) == score
    (request,) = score.requests(Subject("cnn", Gradient(), Size([3]), folds=5), DEFAULTS)
    assert (request.space, request.walk, request.common_draws) == (Folds(k=5), Exhaustive(), True)
    (control,) = score.requests(Subject("cnn", RandomUniform(), Size([3]), folds=5), DEFAULTS)
    assert not control.common_draws
    assert not score.requests(Subject("cnn", Gradient(), Size([3])), DEFAULTS)
    assert not score.requests(Subject("cnn", None, Size([3]), folds=5), DEFAULTS)


def test_mistakes_are_named_before_anything_runs() -> None:
    subject = Subject("cnn", Gradient(), Size([3]), folds=5)
    with pytest.raises(SpecError, match="choice of pairs 'both'"):
        MeGe(pairs="both").requests(subject, DEFAULTS)
    with pytest.raises(SpecError, match="has no measure"):
        ReCo(measure=None).requests(subject, DEFAULTS)
