"""What a run with weights, masks and other samples in it must not confuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from small import series_inputs, small_net, training_series
from veracity import Audit
from veracity.core.errors import Note, SpecError
from veracity.core.measures import Direction, Measure
from veracity.engine.perturbation import weights
from veracity.engine.store import RunFolder
from veracity.explain import SmoothGrad
from veracity.measure import cosine
from veracity.results import Result
from veracity.scores import FastGEF, RandomLogit, Sufficiency


def audit(**settings: Any) -> Audit:
    given: dict[str, Any] = {"models": small_net(), "inputs": series_inputs(6), "explainers": ["gradient"], "controls": False}
    return Audit(**{**given, "companions": False, **settings})


def test_other_samples_are_part_of_what_sufficiency_depends_on(tmp_path: Path) -> None:
    x, other = series_inputs(70), series_inputs(70)
    other[64:] = series_inputs(6, seed=9)
    scores = [Sufficiency(threshold=0.3)]
    audit(inputs=x, scores=scores).run(tmp_path / "one", progress=False)
    again = audit(inputs=other, scores=scores).run(tmp_path / "one", progress=False)
    fresh = audit(inputs=other, scores=scores).run(tmp_path / "two", progress=False)
    found, expected = (run.draws("sufficiency")["model", "gradient"] for run in (again, fresh))
    assert np.allclose(found, expected, equal_nan=True)
    first = {cell["key"] for cell in Result(tmp_path / "one").manifest["cells"]}
    assert len(RunFolder(str(tmp_path / "one")).finished() - first) == 2  # both blocks were measured anew


def test_levels_beyond_sixteen_bits_come_back(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    folder.write_cell("key", np.zeros(1, int), np.zeros(1, int), np.array([40_000]), {"value": np.ones(1)})
    assert folder.read_cell("key")["level"].to_pylist() == [40_000]


class OneScore(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x)[:, :1]
        return out


def test_a_score_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    scores = [RandomLogit(), "sparseness", "local_lipschitz", FastGEF(sigma=1.0, draws=2)]
    with pytest.warns(Note, match="at least 2 outputs"):
        result = audit(models=OneScore(), scores=scores, outputs="logits").run(tmp_path, progress=False)
    assert set(result.failures()["score"]) == {"random_logit"}
    assert np.isfinite(result.table().set_index("score")["value"].drop("random_logit")).all()


def test_a_model_without_a_path_leaves_the_others_alone(tmp_path: Path) -> None:
    class Stuck(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: Tensor) -> Tensor:
            return torch.sigmoid(self.net(x)) + torch.tensor([5.0, 0.0, 0.0])

    models = {"good": nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2)).eval(), "stuck": Stuck()}
    with pytest.warns(Note, match="hardly change up to sigma"):
        result = audit(models=models, scores=[FastGEF(draws=2), "sparseness"], outputs="logits").run(tmp_path, progress=False)
    assert result.failures()[["model", "score"]].to_numpy().tolist() == [["stuck", "fast_gef"]]
    assert len(result.manifest["calibrations"]) == 1


def test_a_random_explainer_is_not_blamed_for_its_own_noise(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).eval()
    explainers = {"smooth": SmoothGrad(draws=2), "plain": "gradient"}
    table = audit(models=model, explainers=explainers, scores=[FastGEF(sigma=0.5)], outputs="logits").run(tmp_path, progress=False).table()
    assert table["value"].tolist() == pytest.approx([1.0, 1.0])


def test_a_model_that_cannot_be_mapped_over_its_weights_is_looped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.net(x)
            return out * 2 if bool((out > 0).any()) else out

    settings: dict[str, Any] = {"models": Branching(), "scores": [FastGEF(sigma=1.0, draws=2)], "outputs": "logits"}
    looped = audit(**settings).run(tmp_path / "looped", progress=False)
    monkeypatch.setattr(weights, "GAINING", frozenset({"cpu"}))
    stacked = audit(**settings).run(tmp_path / "stacked", progress=False)
    assert stacked.failures().empty
    assert np.array_equal(looped.series[0].values, stacked.series[0].values)


def test_controls_by_example_depend_on_the_examples(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"explainers": ["random_examples"], "training": training_series(), "scores": ["self_agreement"]}
    audit(**settings, examples=10).run(tmp_path / "one", progress=False)
    again = audit(**settings, examples=25).run(tmp_path / "one", progress=False)
    fresh = audit(**settings, examples=25).run(tmp_path / "two", progress=False)
    assert np.array_equal(again.series[0].values, fresh.series[0].values)


def test_weights_do_not_reach_stored_checkpoints(tmp_path: Path) -> None:
    net = small_net()
    settings: dict[str, Any] = {"models": {"net": net}, "training": training_series(), "checkpoints": {"net": [net.state_dict()]}}
    result = audit(**settings, explainers=["tracin", "gradient"], scores=[FastGEF(sigma=1.0)]).run(tmp_path, progress=False)
    assert set(result.table()["explainer"]) == {"gradient"}


def test_likeness_is_no_distance_and_a_measure_must_be_known_to_readers(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="grows with likeness"):
        audit(scores=[FastGEF(measure=cosine)]).prepare()
    mine = Measure(name="mine", function=lambda a, b: (a - b).flatten(1).norm(dim=1), direction=Direction.LOWER, range=(0.0, 9.0))
    with pytest.raises(SpecError, match="'mine' of score 'fast_gef' is not registered"):
        audit(scores=[FastGEF(measure=mine)]).prepare()


def test_what_the_outputs_are_is_part_of_a_calibration(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2)).eval()
    one = audit(models=net, scores=[FastGEF(draws=2)])
    replace(one, outputs="logits").run(tmp_path, progress=False)
    replace(one, outputs="raw").run(tmp_path, progress=False)
    assert len(list((tmp_path / "calibrations").iterdir())) == 2


def test_broken_explanations_have_no_score(tmp_path: Path) -> None:
    maps = torch.rand(6, 1, 12)
    maps[1, 0, 3], maps[4] = torch.nan, torch.inf
    scores = ["pixel_flipping", "insertion", "complexity", "faithfulness_correlation"]
    with pytest.warns(Note, match="NaN or infinity"):
        result = audit(explainers={"maps": maps}, scores=scores, outputs="logits").run(tmp_path, progress=False)
    assert result.table()["undefined"].tolist() == [2, 2, 2, 2]
    assert np.isfinite(result.table()["value"]).all()


def test_features_of_a_vector_stand_alone(tmp_path: Path) -> None:
    model = nn.Linear(10, 3).eval()
    x = torch.randn(4, 10, generator=torch.Generator().manual_seed(0))
    explainers, scores = ["kernel_shap", "lime", "occlusion"], ["infidelity", "complexity"]
    result = audit(models=model, inputs=x, explainers=explainers, scores=scores, outputs="logits").run(tmp_path, progress=False)
    assert result.failures().empty
    with torch.no_grad():
        slope = model.weight[model(x).argmax(1)] * x
    assert torch.allclose(result.explanations("model", "occlusion"), slope, atol=1e-5)
    text = str(result)
    assert "infidelity ↓" in text


def test_the_printed_table_says_what_failed_and_what_is_assumed(tmp_path: Path) -> None:
    scores = [RandomLogit(), "relative_input_stability"]
    with pytest.warns(Note, match="at least 2 outputs"):
        result = audit(models=OneScore(), scores=scores, outputs="logits", companions=True).run(tmp_path, progress=False)
    text = str(result)
    assert "model / random_logit failed for gradient" in text
    assert text.count("Another class") == 1
    assert "relative_input_stability assumes a stable model" in text
