"""Metrics of Quantus by their names and arguments."""

from __future__ import annotations

import ast
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import Size, nn

from small import series_inputs, small_net
from veracity.core.aliases import QUANTUS
from veracity.core.errors import InputError, SpecError
from veracity.core.registry import SCORES
from veracity.models import as_model
from veracity.perturb import Ball
from veracity.quantus import METRICS, Plan, evaluate, planned
from veracity.walk import MonteCarlo

PAGE = Path(__file__).parents[1] / "docs" / "from-quantus.md"


METRICS_OF_QUANTUS = (
    *("FaithfulnessCorrelation", "FaithfulnessEstimate", "PixelFlipping", "RegionPerturbation", "Monotonicity", "MonotonicityCorrelation"),
    *("Selectivity", "SensitivityN", "IROF", "ROAD", "Infidelity", "Sufficiency"),
    *("Continuity", "LocalLipschitzEstimate", "MaxSensitivity", "AvgSensitivity", "Consistency"),
    *("RelativeInputStability", "RelativeOutputStability", "RelativeRepresentationStability"),
    *("PointingGame", "TopKIntersection", "RelevanceMassAccuracy", "RelevanceRankAccuracy", "AttributionLocalisation", "AUC", "Focus"),
    *("Sparseness", "Complexity", "EffectiveComplexity"),
    *("MPRT", "SmoothMPRT", "EfficientMPRT", "RandomLogit"),
    *("Completeness", "NonSensitivity", "InputInvariance"),
)
"""The classes of the metrics of Quantus 0.6.0."""
SMALL: dict[str, dict[str, Any]] = {
    "FaithfulnessCorrelation": {"subset_size": 20, "nr_runs": 4},
    "FaithfulnessEstimate": {"features_in_step": 32},
    "PixelFlipping": {"features_in_step": 32},
    "Monotonicity": {"features_in_step": 32},
    "MonotonicityCorrelation": {"features_in_step": 32, "nr_samples": 2},
    "NonSensitivity": {"features_in_step": 32},
    "SensitivityN": {"features_in_step": 100},
    "ROAD": {"percentages": [10, 50]},
    "Continuity": {"nr_steps": 3},
    "TopKIntersection": {"k": 20},
    "SmoothMPRT": {"nr_samples": 2},
    **{name: {"nr_samples": 2} for name in ("LocalLipschitzEstimate", "MaxSensitivity", "AvgSensitivity")},
    **{f"Relative{what}Stability": {"nr_samples": 2} for what in ("Input", "Output", "Representation")},
}


def plan(name: str, again: bool = True, masks: bool = False, **arguments: Any) -> Plan:
    return planned(name, {"name": name, **arguments}, Size((1, 16, 16)), again, True, None, masks)


def gradient(model: nn.Module, inputs: np.ndarray, targets: np.ndarray, **settings: Any) -> np.ndarray:
    leaf = torch.as_tensor(inputs).requires_grad_()
    chosen = model(leaf).gather(1, torch.as_tensor(targets)[:, None])
    return torch.autograd.grad(chosen.sum(), leaf)[0].numpy()


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S):
        exec(compile(block, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    assert "FaithfulnessCorrelation" in said
    assert "'PointingGame': 'it compares maps with the ground truth: pass s_batch=" in said


def test_labels_may_be_the_names_of_classes() -> None:
    x = np.random.default_rng(0).normal(size=(12, 3))
    y = np.where(x[:, 0] > 0, "yes", "no")
    forest = RandomForestClassifier(2, random_state=0).fit(x, y)
    tables = [evaluate(["PixelFlipping"], forest, x, labels, abs(x), controls=False).table() for labels in (y, list(y))]
    by_number = evaluate(["PixelFlipping"], lambda rows: forest.predict_proba(rows), x, (y == "yes") * 1, abs(x), controls=False).table()
    assert tables[0]["value"].tolist() == tables[1]["value"].tolist() == pytest.approx(by_number["value"].tolist())


def test_every_metric_is_translated_or_named() -> None:
    assert set(QUANTUS.values()) == set(METRICS) <= set(SCORES)
    for name in QUANTUS:
        assert plan(name, masks=True, **SMALL.get(name, {})).score is not None, name
    assert plan("NoSuchMetric").missing.startswith("it is not a metric of Quantus")


@pytest.mark.parametrize("name", ["MaxSensitivity", "Max-Sensitivity", "max sensitivity", "max_sensitivity"])
def test_arguments_become_settings_and_the_rest_is_quantus_default(name: str) -> None:
    score: Any = plan(name, nr_samples=7).score
    assert (score.walk, score.radius, score.relative) == (MonteCarlo(draws=7), 0.2, True)


def test_what_changes_and_what_does_not() -> None:
    stable: Any = plan("RelativeInputStability").score
    assert (stable.floor, stable.space, stable.walk) == (0.0, Ball(radius=0.2), MonteCarlo(draws=200))
    assert plan("MaxSensitivity", perturb_func=print, norm_numerator=1).unused == ("perturb_func", "norm_numerator")
    for name in ("Infidelity", "Continuity", "LocalLipschitzEstimate"):
        assert plan(name, normalise=True).unused == ("normalise",), name
        assert plan(name, normalise=False).unused == (), name
    assert plan("Sparseness", normalise=True, disable_warnings=True).unused == ()
    assert plan("PixelFlipping", abs=True).magnitudes
    assert not plan("MPRT", abs=True).magnitudes
    assert "explain_func" in plan("MPRT", again=False).missing
    assert "leaves nothing to choose" in plan("FaithfulnessCorrelation", subset_size=1000).missing


def test_predictions_are_those_that_quantus_reads() -> None:
    estimate: Any = plan("FaithfulnessEstimate").score
    subsets: Any = plan("SensitivityN").score
    assert (estimate.softmax, subsets.softmax) == (False, None)
    assert planned("SensitivityN", {"name": "SensitivityN"}, Size((1, 16, 16)), True, True, False).score.softmax is False  # type: ignore[union-attr]


def test_an_object_of_quantus_is_read() -> None:
    class FaithfulnessCorrelation:  # as Quantus stores its arguments
        def __init__(self) -> None:
            self.nr_runs, self.subset_size, self.abs = 12, 9, False
            self.perturb_func = partial(print, perturb_baseline="white")

    score: Any = planned("mine", FaithfulnessCorrelation(), Size((1, 16, 16)), True, True, None).score
    assert (score.nr_runs, score.subset_size, score.perturb_baseline) == (12, 9, "white")


def test_maps_and_a_function_give_the_same_as_our_gradient() -> None:
    net, x, y = small_net(), series_inputs(4), torch.tensor([0, 1, 2, 0])
    maps = gradient(net, x.numpy(), y.numpy())
    metrics = {"Sparseness": None, "MaxSensitivity": {"nr_samples": 3}, "PixelFlipping": {"abs": True}, "PointingGame": {}}
    both = evaluate(metrics, net, x, y.numpy(), maps, explain_func=gradient, controls=False)
    alone = evaluate(metrics, net, x, y.numpy(), explain_func=gradient, controls=False)
    ours = evaluate(metrics, net, x, y.numpy(), xai_methods={"gradient": {}}, controls=False)
    value = {row.score: row.value for row in both.table().itertuples()}
    assert value == pytest.approx({row.score: row.value for row in alone.table().itertuples()})
    for name in ("Sparseness", "MaxSensitivity"):
        assert value[name] == pytest.approx(ours.table().set_index("score").loc[name, "value"], rel=1e-4)
    assert ours.unused["PixelFlipping"] == ("abs",)
    assert list(both.missing) == ["PointingGame"]
    assert len(both.samples("PixelFlipping")) == 4
    assert "PointingGame: not measured" in str(both)
    with pytest.raises(SpecError, match="'PointingGame' was not measured"):
        both.samples("PointingGame")


def test_settings_of_a_method_are_used() -> None:
    def found(**settings: Any) -> float:
        (value,) = evaluate(
            "Sparseness", small_net(), series_inputs(4), [0, 1, 2, 0], xai_methods={"IG": settings}, controls=False
        ).table()["value"]
        return float(value)

    few, theirs = found(method="IntegratedGradients", steps=2), {"xai_lib": "captum", "xai_lib_kwargs": {"n_steps": 2}}
    assert few != found(method="IntegratedGradients")
    assert few == found(method="IntegratedGradients", **theirs)
    with pytest.raises(SpecError, match="Unknown setting of explainer 'integrated_gradients' 'stepz'"):
        found(method="IntegratedGradients", stepz=2)


def test_nothing_to_evaluate() -> None:
    with pytest.raises(InputError, match="There is nothing to evaluate"):
        evaluate(["Sparseness"], small_net(), series_inputs(2), [0, 1])
    with pytest.raises(SpecError, match="The metrics are names"):
        evaluate(3, small_net(), series_inputs(2), [0, 1], torch.zeros(2, 1, 12))


def test_an_explanation_of_shap_counts_as_maps() -> None:
    import shap

    x = np.random.default_rng(0).normal(size=(12, 3))
    forest = RandomForestClassifier(2, random_state=0).fit(x, x[:, 0] > 0)
    y, found = (x[:, 0] > 0) * 1, shap.TreeExplainer(forest)(x)
    maps = found.values[np.arange(12), :, y]
    model = as_model("forest", forest)
    values = [evaluate(["Sparseness"], model, x, y == 1, one, controls=False).table()["value"].item() for one in (found, maps)]
    assert values[0] == pytest.approx(values[1])
    with pytest.raises(InputError, match="There is no y_batch"):
        evaluate(["Sparseness"], model, x, None, maps)


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_all_37_metrics_run() -> None:
    assert len(set(METRICS_OF_QUANTUS)) == 37
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    x = torch.rand(4, 1, 16, 16, generator=torch.Generator().manual_seed(1))
    metrics = {name: SMALL.get(name, {}) for name in METRICS_OF_QUANTUS}
    tiles = np.array([[1, 0, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    given: dict[str, Any] = {"s_batch": x.numpy() > 0.5, "custom_batch": tiles, "explain_func": gradient, "controls": False}
    answer = evaluate(metrics, net, x, net(x).argmax(1).numpy(), **given)
    table = answer.table().set_index("score")
    assert set(table.index) == set(METRICS_OF_QUANTUS)
    assert answer.missing == {}
    defined = table["n"] > 0
    assert set(table.index[~defined]) <= {"Consistency"}  # no two of four maps are the same
    for result in answer.results:
        assert result.failures().empty


def test_every_metric_is_compared_with_quantus() -> None:
    """`make peers` needs Quantus, so the rows are read from the source: equal, or a fault."""
    compared = set[str]()
    for path in (Path(__file__).parents[1] / "benchmarks" / "peers").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for row in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(row, ast.Call) and isinstance(row.func, ast.Name) and row.func.id in ("equal", "fault"):
                    names = row.args[:1] if row.func.id == "equal" else row.args
                    compared |= {ast.literal_eval(name) for name in names}
    assert compared == set(METRICS_OF_QUANTUS)


def test_all_but_0_is_inside_a_mask_and_k_fits_into_it() -> None:
    x, maps = torch.rand(2, 3, 28, 28), torch.rand(2, 28, 28)
    net = nn.Sequential(nn.Flatten(), nn.Linear(2352, 2)).eval()
    masks = np.zeros((2, 28, 28), dtype=np.uint8)
    masks[:, :9] = 1
    metrics = ["Sparseness", "AUC", "TopKIntersection"]
    found, same = (evaluate(metrics, net, x, [0, 1], maps, s_batch=one, controls=False) for one in (masks * 255, masks))
    assert list(found.missing) == ["TopKIntersection"]
    assert "k=1000 is more than the 784 positions" in found.missing["TopKIntersection"]
    assert found.samples("AUC")["value"].tolist() == same.samples("AUC")["value"].tolist()
    assert found.samples("Sparseness")["value"].notna().all()
    full = np.repeat(masks[:, None], 3, axis=1)
    assert evaluate("TopKIntersection", net, x, [0, 1], maps, s_batch=full, controls=False).table()["n"].tolist() == [2]
    gaps = evaluate("AUC", net, x, [0, 1], maps, s_batch=[None, masks[1] * 255], controls=False).samples("AUC")["value"]
    assert gaps.isna().tolist() == [True, False]


def test_focus_takes_its_tiles_and_the_others_their_masks() -> None:
    x, maps = torch.rand(2, 1, 4, 4), torch.zeros(2, 1, 4, 4)
    maps[:, 0, 0, 0], maps[:, 0, 3, 3] = 3.0, 1.0
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).eval()
    masks = torch.zeros(2, 4, 4)
    masks[:, 3, 3] = 1.0
    metrics = ["Focus", "RelevanceMassAccuracy"]
    found = evaluate(metrics, net, x, [0, 1], maps, s_batch=masks, custom_batch=[[1, 0, 0, 0], [0, 1, 1, 0]], controls=False)
    assert found.samples("Focus")["value"].tolist() == [0.75, 0.0]
    assert found.samples("RelevanceMassAccuracy")["value"].tolist() == [0.25, 0.25]
    none = evaluate(metrics, net, x, [0, 1], maps, controls=False)
    assert "custom_batch=" in none.missing["Focus"]
    assert "s_batch=" in none.missing["RelevanceMassAccuracy"]
