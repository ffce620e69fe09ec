from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Size, Tensor, nn

from small import series_inputs, small_net
from veracity import Audit
from veracity.core.errors import InputError, SpecError, VeracityError
from veracity.core.scores import Defaults, Measured, Pair, Reading, Reads, Subject
from veracity.explain import Gradient
from veracity.results import Result
from veracity.scores import GEF, FastGEF, PublicFastGEF
from veracity.walk import MonteCarlo


def linear(seed: int = 0, classes: int = 3) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(20, classes)


def points(count: int = 30) -> Tensor:
    return torch.randn(count, 20, generator=torch.Generator().manual_seed(5))


def audited(folder: Path, **settings: Any) -> Result:
    given: dict[str, Any] = {"models": linear(), "inputs": points(), "explainers": ["gradient"], "controls": False, "companions": False}
    return Audit(**{**given, **settings}).run(folder, progress=False)


def test_the_distortions_by_hand() -> None:
    base = Reading(
        torch.tensor([1, 0]),
        {Reads.EXPLANATION: torch.tensor([[3.0, 4.0], [1.0, 0.0]]), Reads.SCORES: torch.tensor([[0.0, 2.0], [1.0, 1.0]])},
    )
    late = Reading(
        torch.tensor([1, 0]),
        {Reads.EXPLANATION: torch.tensor([[3.0, -4.0], [0.0, 2.0]]), Reads.SCORES: torch.tensor([[4.0, 5.0], [1.5, 7.0]])},
    )
    pair = Pair(base, late, torch.zeros(2, 2), lambda x: x, lambda x: x)
    plain = FastGEF(normalise=False).observe(pair)
    assert plain.tolist() == [[3.0, 8.0], [0.5, pytest.approx(5**0.5)]]
    root = 2**0.5  # eq. 21 divides (3, 4) by 5 / sqrt 2
    assert FastGEF().observe(pair)[:, 1].tolist() == pytest.approx([1.6 * root, 2.0])
    assert FastGEF(outputs="all").observe(pair)[:, 0].tolist() == pytest.approx([5.0, 36.25**0.5])
    assert GEF().observe(pair)[:, 1].tolist() == pytest.approx([2 * np.arctan2(0.8, 0.6), np.pi / 2])


def test_the_score_is_the_rank_correlation_over_levels_of_each_path() -> None:
    generator = np.random.default_rng(0)
    model, moved = generator.random((2, 4, 3, 15))
    score = GEF(steps=5, draws=3, segments=3)
    found = score.values(Measured({"model": model, "explanation": moved}))
    for sample in range(4):
        for draw in range(3):
            ends = model[sample, draw, 2::3]
            lengths = [moved[sample, draw, 3 * z : 3 * z + 3].sum() for z in range(5)]
            assert found[sample, draw] == pytest.approx(spearmanr(ends, lengths).statistic)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_linear_model_explained_by_its_weights_is_faithful(tmp_path: Path, seed: int) -> None:
    scores = {"fast": FastGEF(draws=4), "path": GEF(draws=2), "plain": GEF(draws=2, normalise=False, measure="l2")}
    result = audited(tmp_path, models=linear(seed), scores=scores, seed=seed)
    for name in scores:
        values = result.samples(name)["value"]
        assert values.min() == pytest.approx(1.0, abs=1e-6)


def test_independent_noise_is_faithful_once_distortions_are_averaged(tmp_path: Path) -> None:
    scores = {
        "single": FastGEF(independent=True, sigma=1.0),
        "averaged": FastGEF(independent=True, sigma=1.0, draws=100, averaged=True, normalise=False),
    }
    table = audited(tmp_path, inputs=points(24), scores=scores).table().set_index("score")["value"]
    assert table["averaged"] > 0.99
    assert table["single"] < 0.95


def test_random_maps_score_nothing_and_fixed_ones_do_not_respond(tmp_path: Path) -> None:
    explainers = ["random_gaussian", "constant_map", "edge_filter"]
    scores = {"fast": FastGEF(draws=20, sigma=1.0), "path": GEF(draws=20, sigma=1.0, segments=2)}
    result = audited(tmp_path, inputs=points(120), explainers=explainers, scores=scores)
    table = result.table().set_index(["explainer", "score"])
    for score in scores:
        row = table.loc[("random_gaussian", score)]
        assert abs(row["value"]) < 0.05
        assert row["low"] < 0 < row["high"]
        for fixed in ("constant_map", "edge_filter"):
            row = table.loc[(fixed, score)]
            assert np.isnan(row["value"])
            assert row["undefined"] == row["no_response"] == 120


def test_a_sample_does_not_depend_on_its_batch_mates(tmp_path: Path) -> None:
    given = {
        "models": small_net(),
        "explainers": ["gradient", {"name": "smooth_grad", "draws": 5}],
        "scores": [FastGEF(sigma=1.0, draws=2), GEF(sigma=1.0, draws=2)],
    }
    whole = audited(tmp_path / "whole", inputs=series_inputs(6), **given)
    few = audited(tmp_path / "few", inputs=series_inputs(6)[:2], **given)
    for score in ("fast_gef", "gef"):
        for key, values in few.draws(score).items():
            assert np.allclose(values, whole.draws(score)[key][:2], atol=1e-9, equal_nan=True)


def test_the_public_variant_has_a_null_of_its_own(tmp_path: Path) -> None:
    assert FastGEF().null is None
    assert PublicFastGEF().null == 0.5
    pairs = np.random.default_rng(1).random((2, 4000, 5))
    pairs[:, :, 0] = -1.0  # both rank the first level lowest
    found = PublicFastGEF(draws=1).values(Measured({"model": pairs[0][:, None], "explanation": pairs[1][:, None]}))
    assert found.mean() == pytest.approx(0.5, abs=0.02)
    assert audited(tmp_path, scores=[PublicFastGEF(sigma=1.0)]).table()["null"].tolist() == [0.5]


def test_the_path_is_found_once_and_belongs_to_one_model_and_data_set(tmp_path: Path) -> None:
    result = audited(tmp_path, models={"one": linear(0), "other": linear(1, classes=2)}, scores=[FastGEF(), GEF()])
    one, other = result.manifest["calibrations"]
    assert (one["model"], other["model"]) == ("one", "other")
    assert one["sigma"] != other["sigma"]
    assert one["draws"] >= 40
    assert one["agreement"] <= one["chance"] + one["tolerance"]
    assert len(list((tmp_path / "calibrations").iterdir())) == 2
    audited(tmp_path, models={"one": linear(0), "other": linear(1, classes=2)}, inputs=points(29), scores=[FastGEF(), GEF()])
    assert len(list((tmp_path / "calibrations").iterdir())) == 4


class Stubborn(nn.Module):
    """Always the same class, whatever its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = linear()

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.inner(x)) + torch.tensor([9.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"models": Stubborn()}, "chance"),
        ({"models": nn.Flatten()}, "no parameters"),
        ({"explainers": {"maps": torch.ones(30, 20)}}, "without their explainer"),
        ({"scores": [FastGEF(steps=2)]}, "at least 3"),
        ({"scores": [FastGEF(correlation="kendal")]}, "correlation"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(VeracityError, match=sentence) as caught:
        audited(tmp_path, **{"scores": [FastGEF()], **settings})
    assert "\n" not in str(caught.value)


def test_chance_that_is_never_reached_comes_with_the_curve(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"On model .model.: .* 1 at 64"):
        audited(tmp_path, models=Stubborn(), scores=[FastGEF()])


def test_it_asks_for_every_explanation_and_for_no_bare_model() -> None:
    defaults = Defaults(None, MonteCarlo())
    assert FastGEF().requests(Subject("net", None, Size((8,))), defaults) == ()
    (request,) = GEF().requests(Subject("net", Gradient(), Size((8,))), defaults)
    assert (request.space.levels, request.space.nested) == (25, False)
    with pytest.raises(SpecError):
        FastGEF(outputs="some").requests(Subject("net", Gradient(), Size((8,))), defaults)
