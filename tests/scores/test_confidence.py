"""Average drop, average increase and average gain: the input masked by its own map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from masked import DEFAULTS, bare, explained, inputs, linear, measure, small_mlp, value
from text_models import text_model, tokenizer
from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.features import Features
from veracity.core.measures import Direction
from veracity.core.scores import Measured, Score
from veracity.inputs import TextInputs
from veracity.perturb.saliency_mask import SaliencyMask
from veracity.scores import AverageDrop, AverageGain, AverageIncrease
from veracity.scores.common import as_score
from veracity.testing import ScoreConformance

ALL = (AverageDrop, AverageIncrease, AverageGain)


def test_by_hand() -> None:
    measured = Measured(
        {"confidence": np.array([0.8, 0.5, 0.5, 1.0]).reshape(4, 1, 1), "masked": np.array([0.2, 0.75, 0.5, 0.9]).reshape(4, 1, 1)}
    )
    assert AverageDrop().values(measured)[:, 0].tolist() == pytest.approx([0.75, 0.0, 0.0, 0.1])
    assert AverageIncrease().values(measured)[:, 0].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert AverageGain().values(measured)[:, 0].tolist() == pytest.approx([0.0, 0.5, 0.0, np.nan], nan_ok=True)


@pytest.mark.parametrize(("baseline", "fill"), [(None, 0.0), (0.5, 0.5), ("white", None)])
def test_image_by_image(baseline: Any, fill: float | None) -> None:
    x, maps, net, target = inputs(5, 2, 3, 4), inputs(5, 2, 3, 4, seed=2) - 0.5, small_mlp(24), torch.tensor([0, 2, 1, 1, 0])
    found = {kind: value(kind(softmax=True, perturb_baseline=baseline), net, x, target, maps) for kind in ALL}
    for i in range(5):
        saliency = maps[i, 0] + maps[i, 1]
        gate = (saliency - saliency.min()) / (saliency.max() - saliency.min())
        base = float(x[i].max()) if fill is None else fill
        masked = torch.zeros_like(x[i])
        for channel in range(2):
            for row in range(3):
                for column in range(4):
                    own = x[i, channel, row, column]
                    masked[channel, row, column] = base + gate[row, column] * (own - base)
        p, o = (net(one[None]).softmax(1)[0, target[i]].item() for one in (x[i], masked))
        assert found[AverageDrop][i] == pytest.approx(max(0.0, p - o) / p)
        assert found[AverageIncrease][i] == float(o > p)
        assert found[AverageGain][i] == pytest.approx(max(0.0, o - p) / (1 - p))


@given(st.floats(0.01, 100.0), st.floats(-5.0, 5.0))
@settings(max_examples=20, deadline=None)
def test_scale_and_place_of_a_map_do_not_matter(scale: float, place: float) -> None:
    x, maps, net, target = inputs(3, 1, 3, 3), inputs(3, 1, 3, 3, seed=2), small_mlp(9), torch.tensor([0, 2, 1])
    for kind in ALL:
        plain = value(kind(), net, x, target, maps)
        np.testing.assert_allclose(value(kind(), net, x, target, scale * maps + place), plain, atol=1e-9)
        drop, gain = value(AverageDrop(), net, x, target, maps), value(AverageGain(), net, x, target, maps)
        assert (np.minimum(drop, gain) == 0).all()


def test_the_right_map_beats_the_wrong_one() -> None:
    net, x, target = linear(4), torch.ones(2, 4, dtype=torch.float64), torch.zeros(2, dtype=torch.long)
    net.weight.copy_(torch.zeros(3, 4))
    net.weight[0] = torch.tensor([3.0, -3.0, 0.0, 0.0])
    right, wrong = torch.tensor([[1.0, 0.0, 0.5, 0.5]] * 2), torch.tensor([[0.0, 1.0, 0.5, 0.5]] * 2)
    assert (value(AverageDrop(), net, x, target, right) == 0).all()
    assert (value(AverageDrop(), net, x, target, wrong) > 0.5).all()
    assert (value(AverageIncrease(), net, x, target, right) == 1).all()
    assert (value(AverageGain(), net, x, target, right) > 0.5).all()


def test_what_is_undefined() -> None:
    net, x, target = small_mlp(6), inputs(3, 6), torch.tensor([0, 2, 1])
    for kind in ALL:
        constant = measure(kind(), net, x, target, torch.full((3, 6), 2.5, dtype=torch.float64))
        assert np.isnan(kind().values(constant)).all()
        assert kind().no_response(constant).all()
        assert not kind().no_response(measure(kind(), net, x, target, inputs(3, 6, seed=2))).any()
    negative = Measured({"confidence": np.full((1, 1, 1), -2.0), "masked": np.zeros((1, 1, 1))})
    assert np.isnan(AverageDrop(softmax=False).values(negative)).all()
    assert np.isnan(AverageGain(softmax=False).values(negative)).all()
    assert AverageIncrease(softmax=False).values(negative).item() == 1.0


def test_one_gate_per_feature_of_a_table() -> None:
    table = Features.measured(
        torch.tensor([[1.0, 1.0, 0.0], [3.0, 0.0, 1.0], [5.0, 0.0, 1.0]]), groups=torch.tensor([0, 1, 1]), names=["a", "b"]
    )
    space = SaliencyMask(baseline="reference").fit(torch.Size([3])).over(table)
    x = torch.tensor([[9.0, 1.0, 0.0]])
    gates = space.steer(space.enumerate(), space.guide(x, torch.tensor([[2.0, 4.0, -4.0]])))
    assert gates.tolist() == [[1.0, 0.0, 0.0]]
    assert space.act(gates, x).tolist() == [[9.0, 0.0, 1.0]]


def test_texts_of_different_lengths(tmp_path: Path) -> None:
    texts = ["a fine film", "a dull film with no heart at all", "dull"]
    result = Audit(
        models=text_model(), inputs=TextInputs(texts, tokenizer()), explainers=["gradient"], scores=["average_drop"], controls=False
    ).run(tmp_path, progress=False)
    assert result.failures().empty
    assert result.samples("average_drop")["value"].isna().tolist() == [False, False, True]  # one word: a constant map


def test_a_regression_has_no_missing_confidence(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 1)).eval()
    given: dict[str, Any] = {
        "models": net,
        "inputs": torch.rand(4, 1, 4, 4),
        "explainers": ["gradient"],
        "outputs": "raw",
        "controls": False,
    }
    table = Audit(**given, scores=["average_gain", "average_increase"]).run(tmp_path, progress=False).table().set_index("score")
    assert table["undefined"].tolist() == [4, 0]


def test_the_three_share_their_passes(tmp_path: Path) -> None:
    rows: list[int] = []

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))

        def forward(self, x: Tensor) -> Tensor:
            rows.append(len(x))
            found: Tensor = self.net(x)
            return found

    def spent(scores: list[str], folder: str) -> int:
        rows.clear()
        audit = Audit(
            models=Counting().eval(),
            inputs=torch.rand(4, 1, 4, 4),
            explainers=["gradient"],
            scores=scores,
            controls=False,
            companions=False,
        )
        audit.run(tmp_path / folder, progress=False)
        return sum(rows)

    assert spent(["average_drop", "average_increase", "average_gain"], "all") == spent(["average_drop"], "one")


def test_how_to_read_them() -> None:
    assert [kind().direction for kind in ALL] == [Direction.LOWER, Direction.HIGHER, Direction.HIGHER]
    assert [kind().bounds for kind in ALL] == [(0.0, 1.0)] * 3
    assert AverageDrop(softmax=False).bounds == (0.0, np.inf)
    for kind in ALL:
        assert kind.reference
        assert not kind().requests(bare((1, 6, 6)), DEFAULTS)
        assert len(kind().requests(explained((1, 6, 6)), DEFAULTS)) == 1
        assert as_score(kind().about()["spec"]) == kind()
        assert kind().null is None
        assert kind().assumption is None


def test_bad_settings_are_told() -> None:
    with pytest.raises(SpecError, match="Unknown baseline of the space 'saliency_mask' 'grey'"):
        AverageDrop(perturb_baseline="grey").requests(explained((1, 6, 6)), DEFAULTS)
    with pytest.raises(InputError, match="The baseline of the space 'saliency_mask' has shape"):
        AverageDrop(perturb_baseline=(1.0, 2.0)).requests(explained((1, 6, 6)), DEFAULTS)
    with pytest.raises(SpecError, match="The setting 'softmax' of score 'average_gain'"):
        AverageGain(softmax="yes")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="masks by an explanation, and there is none: give explainers"):
        SaliencyMask().fit(torch.Size([3])).guide(torch.zeros(1, 3), None)


class TestAverageDrop(ScoreConformance):
    def score(self) -> Score:
        return AverageDrop()


class TestAverageIncrease(ScoreConformance):
    def score(self) -> Score:
        return AverageIncrease()


class TestAverageGain(ScoreConformance):
    def score(self) -> Score:
        return AverageGain()
