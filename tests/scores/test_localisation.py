"""Scores of localisation, and the ground truth that they read."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from masked import DEFAULTS, bare, explained, inputs, pair, reading
from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.measures import Direction
from veracity.core.scores import Score
from veracity.scores import (
    AUC,
    AttributionLocalisation,
    Focus,
    PointingGame,
    RelevanceMassAccuracy,
    RelevanceRankAccuracy,
    TopKIntersection,
)
from veracity.scores.common import as_score
from veracity.testing import ScoreConformance

ALL = (PointingGame, TopKIntersection, RelevanceRankAccuracy, RelevanceMassAccuracy, AttributionLocalisation, AUC, Focus)


def rate(score: Score, maps: Any, truth: Any) -> list[float]:
    before = reading(explanation=torch.as_tensor(maps), truth=torch.as_tensor(truth))
    found: list[float] = score.observe(pair(before, before)).tolist()
    return found


def test_by_hand() -> None:
    maps, truth = [[5.0, 3.0, -4.0, 1.0, 0.0, 1.0]], [[True, False, True, True, False, False]]
    by_hand: dict[Score, float] = {
        PointingGame(): 1.0,
        TopKIntersection(k=2): 0.5,
        TopKIntersection(k=3): (1 + 0.5) / 3,  # the two positions of relevance 1 share the last place
        TopKIntersection(k=2, concept_influence=True): 1.0,
        RelevanceRankAccuracy(): (1 + 0.5) / 3,
        RelevanceMassAccuracy(): 0.6,
        AttributionLocalisation(): 0.6,
        AttributionLocalisation(weighted=True): 1.2,
        Focus(): 0.6,
        AUC(): (3 + 0 + 1.5) / 9,
    }
    for score, expected in by_hand.items():
        assert rate(score, maps, truth) == pytest.approx([expected]), score
    assert np.isnan(rate(AttributionLocalisation(max_size=0.4), maps, truth)).all()
    assert rate(AttributionLocalisation(max_size=0.5), maps, truth) == pytest.approx([0.6])


def test_channels_are_added_unless_masks_have_them() -> None:
    maps = torch.tensor([[[[3.0, 0.0]], [[0.0, 4.0]], [[0.0, -3.0]]]])  # (1, 3, 1, 2)
    assert rate(PointingGame(), maps, [[[[True, False]]]]) == [1.0]
    per_entry = torch.zeros(1, 3, 1, 2, dtype=torch.bool)
    per_entry[0, 1, 0, 1] = True
    assert rate(PointingGame(), maps, per_entry) == [1.0]
    assert rate(PointingGame(), maps[:, :1], per_entry) == [0.0]
    with pytest.raises(InputError, match=r"masks of shape \(1, 1, 2\), but the maps have shape \(1, 1, 3\)"):
        rate(PointingGame(), torch.zeros(1, 1, 1, 3), [[[[True, False]]]])


def slow(score: Score, e: np.ndarray, m: np.ndarray) -> float:
    """One map, one position after the other; no two positions are equal."""
    order, inside = np.argsort(-e), m.astype(bool)
    if isinstance(score, PointingGame):
        return float(inside[order[0]])
    if isinstance(score, TopKIntersection):
        return sum(inside[place] for place in order[:4]) / 4
    if isinstance(score, RelevanceRankAccuracy):
        return sum(inside[place] for place in order[: inside.sum()]) / inside.sum()
    if isinstance(score, AUC):
        return float(roc_auc_score(inside, e))
    return sum(max(value, 0.0) for value in e[inside]) / sum(max(value, 0.0) for value in e)


@pytest.mark.parametrize("kind", ALL)
def test_position_by_position(kind: type[Score]) -> None:
    score = TopKIntersection(k=4) if kind is TopKIntersection else kind()
    maps, truth = inputs(6, 2, 3, 4) - 0.5, inputs(6, 1, 3, 4, seed=5) > 0.5
    found = rate(score, maps, truth)
    for i in range(6):
        assert found[i] == pytest.approx(slow(score, maps[i].sum(0).flatten().numpy(), truth[i].flatten().numpy()))


def test_what_is_undefined() -> None:
    empty, full = [[False, False]], [[True, True]]
    for kind in ALL:
        score = TopKIntersection(k=1) if kind is TopKIntersection else kind()
        assert np.isnan(rate(score, [[1.0, 2.0]], empty)).all()
    assert np.isnan(rate(AUC(), [[1.0, 2.0]], full)).all()
    for score in (RelevanceMassAccuracy(), AttributionLocalisation(), Focus()):
        assert np.isnan(rate(score, [[-1.0, 0.0]], full)).all()


def test_a_constant_map_gains_nothing() -> None:
    truth = torch.tensor([[True, False, False, False]])
    constant = torch.ones(1, 4)
    assert rate(PointingGame(), constant, truth) == rate(TopKIntersection(k=2), constant, truth) == [0.25]
    assert rate(RelevanceRankAccuracy(), constant, truth) == rate(RelevanceMassAccuracy(), constant, truth) == [0.25]
    assert rate(AUC(), constant, truth) == [0.5]
    assert rate(AttributionLocalisation(weighted=True), constant, truth) == [1.0]


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3)).eval()


def audit(truth: Any, scores: Any = ("pointing_game", "auc"), **settings: Any) -> Audit:
    given: dict[str, Any] = {"models": network(), "inputs": inputs(4, 3, 6, 6).float(), "explainers": ["gradient"], "controls": False}
    return Audit(**{**given, **settings}, scores=list(scores), truth=truth)


def masks() -> Tensor:
    return inputs(4, 6, 6, seed=9) > 0.6


def test_masks_come_in_several_forms(tmp_path: Path) -> None:
    plain = audit(masks()).run(tmp_path / "plain", progress=False).samples("auc")["value"].tolist()
    for number, form in enumerate(
        (masks().numpy().astype(int), masks()[:, None].float(), masks()[:, None].expand(4, 3, 6, 6), [one.tolist() for one in masks()])
    ):
        found = audit(form).run(tmp_path / str(number), progress=False).samples("auc")["value"].tolist()
        if number != 2:
            assert found == plain
        else:
            assert found != plain  # entry by entry, since these masks have channels
    gradient = network()
    x = inputs(4, 3, 6, 6).float().requires_grad_()
    scores = gradient(x)
    (slope,) = torch.autograd.grad(scores.gather(1, scores.argmax(1, keepdim=True)).sum(), x)
    expected = [roc_auc_score(masks()[i].flatten(), slope[i].sum(0).flatten()) for i in range(4)]
    assert plain == pytest.approx(expected)


def test_samples_without_a_mask_are_undefined_and_counted(tmp_path: Path) -> None:
    some: list[Any] = [masks()[0], None, torch.zeros(6, 6, dtype=torch.bool), masks()[3]]
    result = audit(some).run(tmp_path, progress=False)
    table = result.table().set_index("score")
    assert table["n"].tolist() == [2, 2]
    assert table["undefined"].tolist() == [2, 2]
    assert result.samples("auc")["value"].isna().tolist() == [False, True, True, False]


def test_the_truth_belongs_to_the_key(tmp_path: Path) -> None:
    def keys(truth: Any) -> dict[str, str]:
        wanted = ["sparseness"] if truth is None else ["auc", "sparseness"]
        return {cell.name: cell.key for job in audit(truth, wanted, companions=False).prepare().jobs for cell in job.cells}

    one, same, other = keys(masks()), keys(masks().int()), keys(~masks())
    assert one == same
    assert one["auc"] != other["auc"]
    assert one["sparseness"] == other["sparseness"] == keys(None)["sparseness"]
    first = audit(masks()).run(tmp_path, progress=False).table()["value"].tolist()
    again = audit(~masks()).run(tmp_path, progress=False).table()["value"].tolist()
    assert again != first
    assert audit(masks()).run(tmp_path, progress=False).table()["value"].tolist() == first


def test_a_table_of_columns(tmp_path: Path) -> None:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    truth = torch.zeros(6, 5, dtype=torch.bool)
    truth[:, 2] = True
    net = nn.Linear(5, 2).eval()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, -1.0, 0.0, 0.0]]))
    found = Audit(models=net, inputs=x, explainers=["saliency"], scores=["pointing_game"], truth=truth, controls=False)
    assert found.run(tmp_path, progress=False).table()["value"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("truth", "sentence"),
    [
        (None, r"The score 'pointing_game' compares maps with the ground truth: pass Audit\(truth=\.\.\.\), one mask per input"),
        (masks()[:3], "The truth has 3 masks for 4 inputs: give one mask per input, in their order, and None where there is none"),
        (masks()[:, :5], r"The truth has the shape \(4, 5, 6\), and the inputs \(4, 3, 6, 6\): give masks of shape \(4, 6, 6\) or"),
        (masks().float() * 0.5, "must hold True and False, or 1 and 0, but it holds 0.5"),
        (torch.zeros(4, 6, 6), "Every mask of the truth is empty"),
        ([None] * 4, "The truth holds no mask at all"),
        ([masks()[0], None, masks()[2, :2], masks()[3]], "have different shapes"),
        (3.0, "The truth has one number for 4 inputs"),
        ("masks", "truth"),
    ],
)
def test_bad_truth_is_told(truth: Any, sentence: str) -> None:
    with pytest.raises((InputError, SpecError), match=sentence) as error:
        audit(truth).prepare()
    assert "\n" not in str(error.value)


def test_masks_of_some_samples_may_be_empty() -> None:
    x, net = inputs(20_000, 1, 2, 2).float(), nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval()
    truth = torch.zeros(20_000, 2, 2, dtype=torch.bool)
    truth[-1, 0, 0] = True
    given: dict[str, Any] = {"models": net, "inputs": x, "truth": truth}
    whole = Audit(**given, explainers=["gradient"], scores=["pointing_game"], controls=False, companions=False)
    assert not whole.beginning().masks.any()  # type: ignore[union-attr]
    assert whole.forecast(progress=False).cells
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert Audit(**given).complete.resolve().truth.shape == (64, 1, 2, 2)  # type: ignore[union-attr]


def test_bad_settings_are_told() -> None:
    with pytest.raises(InputError, match="k=37 is more than the 36 positions of a sample: give top_k_intersection a smaller k"):
        audit(masks(), [TopKIntersection(k=37)]).prepare()
    full = masks()[:, None].expand(-1, 3, -1, -1)
    audit(full, [TopKIntersection(k=108)]).prepare()
    with pytest.raises(InputError, match="k=109 is more than the 108 positions"):
        audit(full, [TopKIntersection(k=109)]).prepare()
    with pytest.raises(InputError, match="k=7 is more than the 6 positions"):
        rate(TopKIntersection(k=7), torch.zeros(1, 2, 6), torch.ones(1, 1, 6, dtype=torch.bool))
    with pytest.raises(SpecError, match="The setting 'max_size' of score 'attribution_localisation'"):
        AttributionLocalisation(max_size=0.0)


def test_how_to_read_them() -> None:
    for kind in ALL:
        assert kind().direction is Direction.HIGHER
        assert kind().bounds == (0.0, 1.0)
        assert kind.reference
        assert not kind().requests(bare((1, 6, 6)), DEFAULTS)
        assert len(kind().requests(explained((1, 6, 6)), DEFAULTS)) == 1
        assert as_score(kind().about()["spec"]) == kind()
    assert (AUC().null, AttributionLocalisation(weighted=True).null, TopKIntersection(concept_influence=True).null) == (0.5, 1.0, 1.0)
    assert AttributionLocalisation(weighted=True).bounds == TopKIntersection(concept_influence=True).bounds == (0.0, np.inf)


class Localised(ScoreConformance):
    settings = {"truth": inputs(4, 8, 8, seed=9) > 0.6}  # noqa: RUF012


class TestPointingGame(Localised):
    def score(self) -> Score:
        return PointingGame()


class TestTopKIntersection(Localised):
    def score(self) -> Score:
        return TopKIntersection(k=9)


class TestRelevanceRankAccuracy(Localised):
    def score(self) -> Score:
        return RelevanceRankAccuracy()


class TestRelevanceMassAccuracy(Localised):
    def score(self) -> Score:
        return RelevanceMassAccuracy()


class TestAttributionLocalisation(Localised):
    def score(self) -> Score:
        return AttributionLocalisation(weighted=True)


class TestAUC(Localised):
    def score(self) -> Score:
        return AUC()


class TestFocus(Localised):
    def score(self) -> Score:
        return Focus()
