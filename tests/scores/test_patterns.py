"""Alignment under noise on the input, and models that move ever further away: by hand, by loops, and where theory knows the number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Size, Tensor, nn

from veracity import Audit, Result
from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.scores import Defaults, Measured, Pair, Reading, Reads, Subject
from veracity.explain import Gradient
from veracity.perturb import GaussianNoise
from veracity.scores import InputAlignment, InputGrowth, WeightGrowth
from veracity.scores.gef import FastGEF
from veracity.walk import MonteCarlo

FEATURES = 5
SUBJECT = Subject("net", Gradient(), Size([FEATURES]))
DEFAULTS = Defaults(None, MonteCarlo(draws=1))


def inputs(count: int = 6) -> Tensor:
    return torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(3))


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(FEATURES, 12), nn.Tanh(), nn.Linear(12, 3)).eval()


class Distance(nn.Module):
    """Scores |x_1| and 0: from x_1 = -1 a step to the right first goes away and then comes back."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack((x[:, 0].abs(), torch.zeros(len(x))), dim=1)


def measured(folder: Path, score: Any, **changes: Any) -> Result:
    given: dict[str, Any] = {"models": {"net": network()}, "inputs": inputs(), "explainers": ["gradient"], "companions": False}
    return Audit(**{**given, "controls": False, "scores": {"it": score}, **changes}).run(folder, progress=False)


def noise(sample: int, draw: int, sigma: float) -> Tensor:
    """The noise of the last level that belongs to a sample's draw."""
    space = GaussianNoise(sigma=sigma).fit(Size([FEATURES]))
    return space.sample(Draws(0, torch.tensor([sample]), torch.tensor([draw])))[0].float()


def gradient(model: nn.Module, x: Tensor, target: int) -> Tensor:
    x = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(model(x[None])[0, target], x)
    return found / found.square().mean().sqrt()


def test_both_distortions_and_their_correlation_by_loops(tmp_path: Path) -> None:
    steps, draws, sigma, model = 4, 3, 0.8, network()
    (one,) = measured(tmp_path, InputAlignment(steps=steps, draws=draws, sigma=sigma)).series
    for sample, x in enumerate(inputs()):
        target = int(model(x[None]).argmax())
        for draw in range(draws):
            moved = [x + (level + 1) / steps * noise(sample, draw, sigma) for level in range(steps)]
            d_f = [float((model(other[None]) - model(x[None])).detach()[0, target].abs()) for other in moved]
            d_phi = [float((gradient(model, other, target) - gradient(model, x, target)).norm()) for other in moved]
            np.testing.assert_allclose(one.measured["model"][sample, draw], d_f, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(one.measured["explanation"][sample, draw], d_phi, rtol=1e-4, atol=1e-5)
            assert one.values[sample, draw] == pytest.approx(spearmanr(d_f, d_phi).statistic)
    assert one.per_sample == pytest.approx(one.values.mean(axis=1))


def test_what_is_observed_by_hand() -> None:
    def reading(explanation: list[float], scores: list[float]) -> Reading:
        return Reading(torch.tensor([1]), {Reads.EXPLANATION: torch.tensor([explanation]), Reads.SCORES: torch.tensor([scores])})

    pair = Pair(reading([1.0, 1.0], [0.0, 3.0]), reading([2.0, -2.0], [5.0, 2.5]), torch.zeros(1, 2), lambda x: x, lambda x: x)
    assert InputAlignment().observe(pair).tolist() == [[0.5, 2.0]]
    assert InputAlignment(normalise=False).observe(pair)[0, 1] == pytest.approx(10**0.5)
    assert InputGrowth().observe(pair).tolist() == [0.5]


def test_contributions_to_a_linear_model_follow_it_exactly(tmp_path: Path) -> None:
    score = InputAlignment(sigma=2.0, draws=3, normalise=False)
    (one,) = measured(tmp_path, score, models={"net": nn.Linear(FEATURES, 3).eval()}, explainers=["input_x_gradient"]).series
    np.testing.assert_allclose(one.values, 1.0)
    assert one.measured["model"].shape == (6, 3, 10)


def test_controls_are_unrelated_or_do_not_respond(tmp_path: Path) -> None:
    x = torch.randn(120, 1, 5, FEATURES, generator=torch.Generator().manual_seed(4))
    net = nn.Sequential(nn.Flatten(), nn.Linear(5 * FEATURES, 3)).eval()
    score = InputAlignment(sigma=1.0, draws=3)
    result = measured(tmp_path, score, models={"net": net}, inputs=x, controls=True)
    table = result.table().set_index("explainer")
    for control in ("random_uniform", "random_gaussian"):
        assert table.loc[control, "low"] < 0 < table.loc[control, "high"]
        assert abs(table.loc[control, "value"]) < 0.06
    assert table.loc[["constant_map", "gradient"], "no_response"].tolist() == [120, 120]
    assert table.loc["edge_filter", "value"] > 0.9


def test_a_sample_does_not_mind_the_others(tmp_path: Path) -> None:
    score = InputAlignment(sigma=0.8, draws=2, steps=5)
    (all_of_them,) = measured(tmp_path / "all", score).series
    (some,) = measured(tmp_path / "some", score, inputs=inputs()[:2]).series
    np.testing.assert_allclose(some.measured["explanation"], all_of_them.measured["explanation"][:2], rtol=1e-5)


def test_a_strength_that_is_not_given_is_found(tmp_path: Path) -> None:
    model = nn.Linear(FEATURES, 2, bias=False).eval()
    with torch.no_grad():
        model.weight.copy_(torch.stack((torch.ones(FEATURES), -torch.ones(FEATURES))))
    result = measured(tmp_path, InputAlignment(draws=1, steps=3), models={"net": model}, explainers=["input_x_gradient"])
    (found,) = result.manifest["calibrations"]
    assert found["space"] == "gaussian_noise"
    assert found["agreement"] <= 0.55 < dict(found["curve"])[0.5]


@pytest.mark.parametrize("settings", [{"segments": 2}, {"first": 0.001}])
def test_a_straight_way_has_no_segments(settings: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="'input_alignment' goes straight"):
        InputAlignment(**settings).requests(SUBJECT, DEFAULTS)


def test_its_settings_are_those_of_fast_gef() -> None:
    for settings, said in (({"steps": 2}, "at least 3"), ({"correlation": "kendall"}, "kendall"), ({"outputs": "none"}, "none")):
        for kind in (InputAlignment, FastGEF):
            with pytest.raises(SpecError, match=said):
                kind(**settings).requests(SUBJECT, DEFAULTS)
    (request,) = InputAlignment(sigma=0.5, independent=True, draws=7).requests(SUBJECT, DEFAULTS)
    assert request.space == GaussianNoise(sigma=0.5, levels=10, independent=True, size=FEATURES)
    assert request.walk == MonteCarlo(draws=7)
    assert InputAlignment().requests(Subject("net", None, Size([FEATURES])), DEFAULTS) == ()


def test_a_linear_model_moves_ever_further_away(tmp_path: Path) -> None:
    scores = {"noise": InputGrowth(sigma=3.0, tolerance=0.0), "weights": WeightGrowth(sigma=3.0, tolerance=0.0, steps=6)}
    result = measured(tmp_path, None, models={"net": nn.Linear(FEATURES, 3).eval()}, scores=scores, explainers=())
    assert {one.score: one.values.tolist() for one in result.series} == {"noise": [[1.0] * 5] * 6, "weights": [[1.0] * 5] * 6}
    assert (result.table()["explainer"] == "").all()


def test_growth_by_loops_where_a_model_comes_back(tmp_path: Path) -> None:
    x = torch.zeros(8, FEATURES)
    x[:, 0] = -1.0
    score = InputGrowth(sigma=1.5, steps=5, walk=MonteCarlo(draws=4))
    (one,) = measured(tmp_path, score, models={"net": Distance()}, inputs=x, explainers=()).series
    found = np.zeros((8, 4))
    for sample in range(8):
        for draw in range(4):
            away = [abs(abs(-1 + (level + 1) / 5 * float(noise(sample, draw, 1.5)[0])) - 1) for level in range(5)]
            np.testing.assert_allclose(one.measured["distortion"][sample, draw], away, atol=1e-6)
            found[sample, draw] = all(away[j] - away[i] <= 0.1 * max(away) for j in range(5) for i in range(j, 5))
    np.testing.assert_array_equal(one.values, found)
    assert 0 < found.mean() < 1
    np.testing.assert_allclose(one.per_sample, found.mean(axis=1))


def test_growth_by_hand() -> None:
    found = Measured({"distortion": np.array([[[0.0, 1.0, 0.95], [0.0, 1.0, 0.5]], [[0.1, 0.2, 0.3], [0.0, np.nan, 1.0]]])})
    for score in (InputGrowth(), WeightGrowth()):
        values = score.values(found)
        np.testing.assert_array_equal(values, [[1.0, 0.0], [1.0, np.nan]])
        np.testing.assert_array_equal(score.reduce(values), [0.5, 1.0])


def test_a_run_of_them_is_read_back(tmp_path: Path) -> None:
    scores = {"align": InputAlignment(sigma=1.0, draws=2), "noise": InputGrowth(sigma=1.0), "weights": WeightGrowth(sigma=1.0)}
    table = measured(tmp_path, None, scores=scores).table()
    again = Result(tmp_path).table()
    assert again["score"].tolist() == ["noise", "weights", "align"]
    assert again["value"].tolist() == table["value"].tolist()
    assert again["direction"].tolist() == ["higher"] * 3
