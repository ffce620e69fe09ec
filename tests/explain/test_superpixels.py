from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import exp, factorial, sqrt

import captum.attr
import numpy as np
import pytest
import torch
from captum._utils.models.linear_model import SkLearnRidge
from shift_invariant import context_of, explain
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import SuperpixelLime, SuperpixelShap, superpixels
from veracity.explain.kernel_shap import random_superpixel_coalitions, superpixel_coalitions
from veracity.explain.superpixels import Superpixels, mean_colours, quickshift_segments
from veracity.testing.explainers import ExplainerConformance

QUICKSHIFT = {"kernel_size": 1.0, "max_dist": 3.0, "ratio": 0.2}
BOTH = pytest.mark.parametrize("kind", [SuperpixelLime, SuperpixelShap])


def net() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(100, 3)).double().eval()


def pictures(count: int = 3) -> Tensor:
    """Three-coloured pictures of smooth patches, each with its own number of superpixels."""
    generator = torch.Generator().manual_seed(0)
    coarse = [torch.rand(1, 3, side, side, generator=generator, dtype=torch.float64) for side in (3, 4, 6)[:count]]
    flat = torch.cat([nn.functional.interpolate(part, size=(12, 12), mode="nearest") for part in coarse])
    return flat + 0.2 * torch.rand(flat.shape, generator=generator, dtype=torch.float64)


TARGETS = torch.tensor([0, 2, 1])


def few(count: int, pieces: int) -> Tensor:
    """Columns as superpixels: (count, 12, 12) with this many."""
    return (torch.arange(12) * pieces // 12).expand(count, 12, 12).clone()


def given(kind: type[Superpixels], segments: Tensor, **settings: object) -> Superpixels:
    return kind(fixed_segments=True, segments=segments, **settings)  # type: ignore[arg-type]


def played(model: nn.Module, x: Tensor, target: int, segments: Tensor, kept: set[int] | frozenset[int], baseline: float | None) -> float:
    """The score with these superpixels kept and each other one painted over, the slow way."""
    painted = x.clone()
    for piece in segments.unique().tolist():
        if piece not in kept:
            for channel in range(len(x)):
                inside = x[channel][segments == piece]
                painted[channel][segments == piece] = inside.mean() if baseline is None else baseline
    with torch.no_grad():
        return float(model(painted[None])[0, target])


@pytest.mark.parametrize("baseline", [None, 0.0, 0.7])
def test_lime_is_scikit_learns_ridge_on_the_same_masks(baseline: float | None) -> None:
    model, x, context = net(), pictures(), context_of(3, batch=7)
    explainer = SuperpixelLime(samples=50, baseline=baseline)
    found = explainer.explain(model, x, TARGETS, context)
    segments = quickshift_segments(x, **QUICKSHIFT)
    counts = segments.flatten(1).amax(1) + 1
    assert len(counts.unique()) == 3, "the test wants padding"
    for row in range(3):
        count = int(counts[row])
        masks = explainer.masks(counts[[row]], context.draws[torch.tensor([row])])[0]
        assert bool(masks[0].all())
        scores = [played(model, x[row], int(TARGETS[row]), segments[row], set(np.flatnonzero(mask)), baseline) for mask in masks.numpy()]
        weights = [exp(-((1 - sqrt(int(mask.sum()) / count)) ** 2) / (2 * 0.25**2)) for mask in masks]
        fitted = Ridge(alpha=1.0).fit(masks.numpy(), scores, sample_weight=weights).coef_
        torch.testing.assert_close(found[row], torch.tensor(fitted)[segments[row]].expand_as(x[row]))


def test_captums_lime_on_the_same_masks() -> None:
    model, x, segments = net(), pictures(1), few(1, 6)
    explainer = given(SuperpixelLime, segments, samples=60, baseline=0.0)
    assert isinstance(explainer, SuperpixelLime)
    masks = explainer.masks(torch.tensor([6]), context_of(1).draws)[0].long()

    def one(*_: object, **__: object):  # type: ignore[no-untyped-def] # a generator, as Captum wants it
        yield from masks.unsqueeze(1)

    def kernel(_original: Tensor, _perturbed: Tensor, mask: Tensor, **__: object) -> float:
        return exp(-((1 - sqrt(float(mask.sum()) / 6)) ** 2) / (2 * 0.25**2))

    theirs = captum.attr.Lime(model, interpretable_model=SkLearnRidge(alpha=1.0), similarity_func=kernel, perturb_func=one).attribute(
        x, target=TARGETS[:1], feature_mask=segments[:, None], n_samples=60, perturbations_per_eval=20
    )
    torch.testing.assert_close(explain(explainer, model, x, TARGETS[:1]).float(), theirs, rtol=1e-4, atol=1e-5)


def brute_force(model: nn.Module, x: Tensor, target: int, segments: Tensor, players: int, baseline: float | None) -> list[float]:
    """Shapley values by their definition."""
    value = {
        frozenset(s): played(model, x, target, segments, frozenset(s), baseline)
        for size in range(players + 1)
        for s in combinations(range(players), size)
    }
    found = []
    for player in range(players):
        others = [other for other in range(players) if other != player]
        total = 0.0
        for size in range(players):
            weight = factorial(size) * factorial(players - size - 1) / factorial(players)
            total += sum(weight * (value[frozenset(s) | {player}] - value[frozenset(s)]) for s in combinations(others, size))
        found.append(total)
    return found


@pytest.mark.parametrize("baseline", [None, 0.5])
def test_few_superpixels_have_exact_shapley_values(baseline: float | None) -> None:
    """Two, five and one superpixels in one batch, all coalitions of each: the values of the definition, whatever the draw."""
    model, x = net(), pictures()
    segments = torch.cat([few(1, 2), few(1, 5), few(1, 1)])
    explainer = given(SuperpixelShap, segments, samples=40, baseline=baseline)
    found = explain(explainer, model, x, TARGETS)
    for row, players in enumerate((2, 5, 1)):
        truth = torch.tensor(brute_force(model, x[row], int(TARGETS[row]), segments[row], players, baseline), dtype=torch.float64)
        torch.testing.assert_close(found[row], truth[segments[row]].expand_as(x[row]))
    torch.testing.assert_close(found, explain(explainer, model, x, TARGETS, draw=5), rtol=0, atol=0)


def test_samples_come_close_to_exact_values() -> None:
    """Eight superpixels: 254 coalitions are exact, and 200 random ones miss them by less than a tenth."""
    model, x, segments = net(), pictures(), few(3, 8)
    exact = explain(given(SuperpixelShap, segments, samples=256), model, x, TARGETS)
    truth = torch.tensor(brute_force(model, x[0], 0, segments[0], 8, None), dtype=torch.float64)
    torch.testing.assert_close(exact[0, 0, 0], truth[segments[0, 0]])
    errors = [
        float((explain(given(SuperpixelShap, segments, samples=n), model, x, TARGETS) - exact).norm() / exact.norm()) for n in (20, 200)
    ]
    assert errors[1] < min(0.1, errors[0])


@pytest.mark.parametrize("samples", [3, 10, 50])
def test_shapley_values_add_up_with_any_number_of_samples(samples: int) -> None:
    model, x, segments = net(), pictures(), quickshift_segments(pictures(), **QUICKSHIFT)
    found = explain(SuperpixelShap(samples=samples, baseline=0.0), model, x, TARGETS)
    gap = (model(x) - model(torch.zeros_like(x))).gather(1, TARGETS[:, None]).squeeze(1).detach()
    for row in range(3):
        pieces = [float(found[row, 0][segments[row] == piece][0]) for piece in segments[row].unique()]
        assert sum(pieces) == pytest.approx(float(gap[row]), abs=1e-8)


def test_coalitions_have_the_kernels_sizes_and_do_not_see_other_rows() -> None:
    counts = torch.tensor([6, 11, 2])
    draws = context_of(3).draws
    masks = random_superpixel_coalitions(draws, counts, samples=20_000)
    assert not masks[0, :, 6:].any()
    assert torch.equal(masks[0, ::2, :6], ~masks[0, 1::2, :6])
    share = torch.bincount(masks[0].sum(1), minlength=7)[1:6] / 20_000
    expected = torch.tensor([1 / (k * (6 - k)) for k in range(1, 6)])
    torch.testing.assert_close(share, (expected / expected.sum()).float(), rtol=0, atol=0.015)
    assert set(masks[2].sum(1).tolist()) == {1}
    assert torch.equal(random_superpixel_coalitions(draws[:1], counts[:1], samples=20_000)[0], masks[0, :, :6])


def test_which_coalitions_are_counted_out() -> None:
    """With 14 samples all of 4 players' fit and those of 5 do not; what is left over weighs nothing."""
    masks, weights = superpixel_coalitions(context_of(3).draws, torch.tensor([4, 5, 3]), samples=14)
    assert len(masks[0, :, :4].unique(dim=0)) == 14
    assert weights[1].tolist() == [1.0] * 14
    assert (weights[2] > 0).tolist() == [True] * 6 + [False] * 8


@BOTH
def test_a_linear_score_is_found(kind: type[Superpixels]) -> None:
    """f = Σ w x: a superpixel's coefficient is the sum of w x inside it, minus w times what replaces it."""
    model, segments = nn.Sequential(nn.Flatten(), nn.Linear(432, 2)).double(), few(3, 12)
    x = pictures()
    settings = {"ridge": 1e-9} if kind is SuperpixelLime else {}
    found = explain(given(kind, segments, samples=150, **settings), model, x, torch.tensor([0, 1, 0]))
    gains = model[1].weight[torch.tensor([0, 1, 0])].reshape(3, 3, 12, 12).detach() * (x - mean_colours(x, segments))
    torch.testing.assert_close(found[:, 0], gains.sum((1, 2))[:, None].expand(3, 12, 12), rtol=1e-5, atol=1e-6)


@BOTH
def test_the_superpixels_are_redone_or_kept(kind: type[Superpixels]) -> None:
    """A moved picture has its own superpixels; prepared ones belong to the sample's number, whatever the row."""
    model, x = net(), pictures()
    moved = x.roll(2, 3)
    free, fixed = kind(), kind(fixed_segments=True).prepare(x)
    assert fixed.segments is not None
    assert torch.equal(fixed.segments, quickshift_segments(x, **QUICKSHIFT))
    assert free.prepare(x) is free
    assert fixed.prepare(moved) is fixed
    redone, kept = explain(free, model, moved, TARGETS), explain(fixed, model, moved, TARGETS)
    torch.testing.assert_close(explain(free, model, x, TARGETS), explain(fixed, model, x, TARGETS), rtol=0, atol=0)
    torch.testing.assert_close(kept, explain(given(kind, quickshift_segments(x, **QUICKSHIFT)), model, moved, TARGETS), rtol=0, atol=0)
    torch.testing.assert_close(
        redone, explain(given(kind, quickshift_segments(moved, **QUICKSHIFT)), model, moved, TARGETS), rtol=0, atol=0
    )
    assert not torch.allclose(redone, kept)
    back = torch.tensor([2, 0])
    context = Context(Draws.of(0, back), 512)
    torch.testing.assert_close(fixed.explain(model, moved[back], TARGETS[back], context), kept[back])
    (own,) = (replace(fixed, segments=None).spec()["segments"],)
    assert (own, fixed.spec()["segments"]["shape"]) == (None, [3, 12, 12])


@BOTH
def test_blocks_of_rows_change_nothing(kind: type[Superpixels], monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = net(), pictures()
    whole = explain(kind(samples=20), model, x, TARGETS)
    monkeypatch.setattr(superpixels, "MASK_ENTRIES", 1)
    torch.testing.assert_close(explain(kind(samples=20), model, x, TARGETS), whole)


def test_mean_colours_by_hand() -> None:
    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[0.0, 8.0], [0.0, 0.0]]]])
    found = mean_colours(x, torch.tensor([[[0, 0], [1, 2]]]))
    assert found.tolist() == [[[[1.5, 1.5], [3.0, 4.0]], [[4.0, 4.0], [0.0, 0.0]]]]


def test_segmentation_ignores_each_pictures_own_range() -> None:
    x = pictures()
    torch.testing.assert_close(quickshift_segments(5 * x - 2, **QUICKSHIFT), quickshift_segments(x, **QUICKSHIFT))
    grey = x[:, :1]
    torch.testing.assert_close(quickshift_segments(grey, **QUICKSHIFT), quickshift_segments(grey.expand(-1, 3, -1, -1), **QUICKSHIFT))
    assert quickshift_segments(torch.ones(2, 2, 7), **QUICKSHIFT).shape == (2, 7)


class TestFixedSegments(ExplainerConformance):
    """With the superpixels of the unperturbed inputs: the rules that can depend on them."""

    test_settings_are_plain_data = test_shape_and_type = test_explanations_are_numbers_and_differ_from_zero = None
    test_other_draws_differ_iff_stochastic = test_cost_is_counted = test_calls_are_full_and_fit = None
    test_leaves_no_trace = test_leaves_no_trace_after_an_error = test_runs_on_an_accelerator = None

    @pytest.fixture(autouse=True, params=[SuperpixelLime, SuperpixelShap])
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.kind = request.param

    def explainer(self) -> Superpixels:
        return self.kind(fixed_segments=True, samples=30, baseline=0.0).prepare(self.inputs())


@BOTH
def test_misuse_raises(kind: type[Superpixels], monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = net(), pictures()
    name = kind.name
    for wrong, sentence in (
        (kind(baseline=torch.zeros(5)), f"The baseline of {name} has shape"),
        (kind(segments=few(3, 2)), f"{name} has segments, but fixed_segments is off"),
        (given(kind, few(3, 2)[:, 1:]), f"segments of {name} must be whole numbers"),
        (given(kind, few(3, 2).float()), f"segments of {name} must be whole numbers"),
    ):
        with pytest.raises((SpecError, InputError), match=sentence):
            wrong.check(model, x, TARGETS)
    with pytest.raises(InputError, match="needs images"):
        kind().check(nn.Linear(4, 2), torch.zeros(2, 4), TARGETS)
    with pytest.raises(InputError, match=r"call prepare\(inputs\) first or give segments"):
        explain(kind(fixed_segments=True), model, x, TARGETS)
    with pytest.raises(InputError, match="has segments of 2 inputs, but sample 2 is explained"):
        explain(given(kind, few(2, 3)), model, x, TARGETS)
    (note,) = given(kind, few(3, 12), samples=5).check(model, x, TARGETS)
    assert note.startswith(f"{name} fits 12 superpixels of the first input to 5 samples, fewer than one each")
    (note,) = given(kind, few(3, 4)).check(model, few(3, 4).double()[:, None].expand(-1, 3, -1, -1), TARGETS)
    assert note.startswith("The superpixels of the first input are so even that their mean colours hide only 0.0%")
    assert kind().check(model, x, TARGETS) == ()
    monkeypatch.setattr(superpixels, "find_spec", lambda _: None)
    with pytest.raises(SpecError, match=r"needs scikit-image, which is not installed: pip install 'veracity\[superpixels\]'"):
        kind().check(model, x, TARGETS)


def test_settings_of_one_alone_are_reported() -> None:
    with pytest.raises(SpecError, match="'ridge' of explainer 'superpixel_lime' must be a positive number, not 0"):
        SuperpixelLime(ridge=0)
    with pytest.raises(SpecError, match="samples of superpixel_shap must be at least 3, since two are the input and the baseline, not 2"):
        SuperpixelShap(samples=2).check(net(), pictures(), TARGETS)
