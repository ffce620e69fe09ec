"""Comprehensiveness, sufficiency of rationales, and the rank correlation with leaving features out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from masked import DEFAULTS, bare, explained, inputs, linear, measure, small_mlp, value
from text_models import text_model, tokenizer
from veracity import Audit
from veracity.core.errors import SpecError
from veracity.core.measures import Direction
from veracity.core.scores import Measured, Score
from veracity.explain import Precomputed
from veracity.inputs import TextInputs
from veracity.perturb.masks import ShareMasks
from veracity.scores import Comprehensiveness, RationaleSufficiency, TauLOO
from veracity.scores.common import as_score
from veracity.scores.faithfulness.masked import ModelFaithfulness
from veracity.testing import ScoreConformance

ALL = (Comprehensiveness, RationaleSufficiency, TauLOO)
BINS = (1, 5, 10, 20, 50)


def test_by_hand() -> None:
    curve = Measured({"drop": np.array([[[0.1, 0.2, 0.3, 0.4, 0.5]]])})
    assert Comprehensiveness().values(curve).item() == RationaleSufficiency().values(curve).item() == pytest.approx(0.3)
    steps = Measured({"attributed": np.array([[[3.0, 1.0, 2.0]]]), "drop": np.array([[[0.5, 0.1, 0.0]]])})
    assert TauLOO().values(steps).item() == pytest.approx(1 / 3)  # two of three pairs are in the same order


@pytest.mark.parametrize("percentages", [BINS, (20,), (0, 30, 90)])
@pytest.mark.parametrize("softmax", [True, False])
def test_feature_by_feature(percentages: tuple[float, ...], softmax: bool) -> None:
    x, maps, net, target = inputs(3, 1, 3, 4), inputs(3, 1, 3, 4, seed=2), small_mlp(12), torch.tensor([0, 2, 1])

    def predicted(one: torch.Tensor, c: int) -> float:
        out = net(one[None])[0]
        return float((out.softmax(0) if softmax else out)[c])

    found = {
        kind: value(kind(percentages=percentages, softmax=softmax), net, x, target, maps)  # type: ignore[call-arg]
        for kind in (Comprehensiveness, RationaleSufficiency)
    }
    for i in range(3):
        order = sorted(range(12), key=lambda place, i=i: -maps[i].flatten()[place].item())  # type: ignore[misc]
        whole, without, alone = predicted(x[i], int(target[i])), 0.0, 0.0
        for percentage in percentages:
            chosen = order[: math.ceil(percentage * 12 / 100)]
            rest = [place for place in range(12) if place not in chosen]
            for places, kind in ((chosen, "without"), (rest, "alone")):
                masked = x[i].clone().flatten()
                masked[places] = x[i].min()
                lost = whole - predicted(masked.reshape(1, 3, 4), int(target[i]))
                without, alone = (without + lost, alone) if kind == "without" else (without, alone + lost)
        assert found[Comprehensiveness][i] == pytest.approx(without / len(percentages))
        assert found[RationaleSufficiency][i] == pytest.approx(alone / len(percentages))


@pytest.mark.parametrize(("features", "baseline"), [(1, "black"), (3, 0.5)])
def test_tau_is_scipys(features: int, baseline: Any) -> None:
    x, maps, net, target = inputs(3, 12), inputs(3, 12, seed=2), small_mlp(12), torch.tensor([0, 2, 1])
    maps[1, :6] = maps[1, 0]  # ties
    found = value(TauLOO(features_in_step=features, perturb_baseline=baseline, softmax=True), net, x, target, maps)
    for i in range(3):
        order = maps[i].argsort(descending=True, stable=True).tolist()
        sums, drops = [], []
        for first in range(0, 12, features):
            moved = x[i].clone()
            moved[order[first : first + features]] = float(x[i].min()) if baseline == "black" else baseline
            sums.append(maps[i][order[first : first + features]].sum().item())
            before, after = (net(one[None]).softmax(1)[0, target[i]].item() for one in (x[i], moved))
            drops.append(before - after)
        assert found[i] == pytest.approx(kendalltau(np.round(sums, 9), np.round(drops, 12)).statistic)


@given(st.floats(0.01, 50.0))
@settings(max_examples=15, deadline=None)
def test_a_linear_model_and_its_contributions(scale: float) -> None:
    net, x = linear(6), inputs(2, 6)
    contribution = net.weight[0] * (x - x.amin(1, keepdim=True))
    target = torch.tensor([0, 0])
    assert value(TauLOO(softmax=False), net, x, target, scale * contribution).tolist() == pytest.approx([1.0, 1.0])
    assert value(TauLOO(softmax=False), net, x, target, -scale * contribution).tolist() == pytest.approx([-1.0, -1.0])
    for other in (-contribution, inputs(2, 6, seed=7)):
        best, worse = (value(Comprehensiveness(softmax=False), net, x, target, maps) for maps in (scale * contribution, other))
        assert (best >= worse - 1e-12).all()
        best, worse = (value(RationaleSufficiency(softmax=False), net, x, target, maps) for maps in (scale * contribution, other))
        assert (best <= worse + 1e-12).all()
    constant = measure(TauLOO(softmax=False), net, x, target, torch.ones_like(x))
    assert np.isnan(TauLOO().values(constant)).all()
    assert TauLOO().no_response(constant).all()


def test_without_and_alone_are_the_two_parts() -> None:
    x, maps = inputs(2, 7), inputs(2, 7, seed=2)
    without, alone = (ShareMasks(percentages=(1, 50), insertion=insertion).fit(torch.Size([7])) for insertion in (False, True))
    for level, count in ((0, 1), (1, 4)):
        one, other = (
            space.steer(space.at(space.enumerate(), torch.tensor([level])).expand(2, 1), space.guide(x, maps)) for space in (without, alone)
        )
        assert one.sum(1).tolist() == [count, count]
        assert torch.equal(one, ~other)


def test_texts_lose_their_own_words(tmp_path: Path) -> None:
    texts = TextInputs(["a fine film", "a dull film with no heart at all"], tokenizer())
    width = texts.shape[0]
    maps = torch.arange(float(width), 0.0, -1.0).expand(2, width).clone()  # the first words are the most relevant ones
    scores = [Comprehensiveness(percentages=(20, 50)), "tau_loo"]
    given: dict[str, Any] = {"models": text_model(), "inputs": texts, "explainers": {"first": Precomputed(maps=maps)}}
    audit = Audit(**given, scores=scores, controls=False, companions=False)
    result = audit.run(tmp_path, progress=False)
    assert result.failures().empty
    assert result.samples("comprehensiveness")["value"].notna().all()
    model = texts.adapt(audit.modules["model"])
    with torch.no_grad():
        for number, size in enumerate((3, 8)):
            one = texts.take(torch.tensor([number]))
            assert int(one.present.sum()) == size  # type: ignore[union-attr]
            whole = model(one.values, *one.structure).softmax(1)[0]
            lost = 0.0
            for percentage in (20, 50):
                gates = one.values.clone()
                gates[0, : math.ceil(size * percentage / 100)] = 0.0
                lost += float(whole.max() - model(gates, *one.structure).softmax(1)[0, whole.argmax()]) / 2
            assert result.samples("comprehensiveness")["value"].tolist()[number] == pytest.approx(lost, abs=1e-6)


def test_how_to_read_them() -> None:
    assert [kind().direction for kind in ALL] == [Direction.HIGHER, Direction.LOWER, Direction.HIGHER]
    assert [kind().bounds for kind in ALL] == [(-1.0, 1.0)] * 3
    assert Comprehensiveness(softmax=False).bounds == (-np.inf, np.inf)
    assert Comprehensiveness().assumption == ModelFaithfulness(features_in_step=0.1, softmax=True)
    assert TauLOO(features_in_step=3, softmax=False).assumption == ModelFaithfulness(features_in_step=3)
    curve = RationaleSufficiency().curve((1, 10, 10), 5)
    assert curve.places.tolist() == pytest.approx([0.01, 0.05, 0.1, 0.2, 0.5])
    assert curve.across == "the share of the input that is kept"
    for kind in ALL:
        assert kind.reference
        assert not kind().requests(bare((1, 6, 6)), DEFAULTS)
        assert len(kind().requests(explained((1, 6, 6)), DEFAULTS)) == 1
        assert as_score(kind().about()["spec"]) == kind()


def test_bad_settings_are_told() -> None:
    for kind in (Comprehensiveness, RationaleSufficiency):
        with pytest.raises(SpecError, match="needs at least one percentage, such as percentages="):
            kind(percentages=()).requests(explained((6,)), DEFAULTS)
        for wrong in ((100,), (-1,), (1, "a"), 5):
            with pytest.raises(SpecError, match=f"The setting 'percentages' of score '{kind.name}'"):
                kind(percentages=wrong)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="The setting 'features_in_step' of score 'tau_loo' must be a whole number"):
        TauLOO(features_in_step=0)


class TestComprehensiveness(ScoreConformance):
    def score(self) -> Score:
        return Comprehensiveness()


class TestRationaleSufficiency(ScoreConformance):
    def score(self) -> Score:
        return RationaleSufficiency()


class TestTauLOO(ScoreConformance):
    def score(self) -> Score:
        return TauLOO(features_in_step=8)
