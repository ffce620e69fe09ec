"""Metrics of Quantus by their names and arguments."""

from __future__ import annotations

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
from veracity.core.aliases import ABSENT, QUANTUS
from veracity.core.errors import InputError, SpecError
from veracity.core.registry import SCORES
from veracity.models import as_model
from veracity.perturb import Ball
from veracity.quantus import METRICS, Plan, evaluate, planned
from veracity.walk import MonteCarlo

PAGE = Path(__file__).parents[1] / "docs" / "from-quantus.md"


def plan(name: str, again: bool = True, **arguments: Any) -> Plan:
    return planned(name, {"name": name, **arguments}, Size((1, 16, 16)), again, True, None)


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
    assert "'ROAD': \"there is no score for it yet" in said


def test_labels_may_be_the_names_of_classes() -> None:
    x = np.random.default_rng(0).normal(size=(12, 3))
    y = np.where(x[:, 0] > 0, "yes", "no")
    forest = RandomForestClassifier(2, random_state=0).fit(x, y)
    tables = [evaluate(["PixelFlipping"], forest, x, labels, abs(x), controls=False).table() for labels in (y, list(y))]
    by_number = evaluate(["PixelFlipping"], lambda rows: forest.predict_proba(rows), x, (y == "yes") * 1, abs(x), controls=False).table()
    assert tables[0]["value"].tolist() == tables[1]["value"].tolist() == pytest.approx(by_number["value"].tolist())


def test_every_metric_is_translated_or_named() -> None:
    assert set(QUANTUS.values()) == set(METRICS) <= set(SCORES)
    assert {score for score in ABSENT.values() if score} <= set(SCORES)
    for name in QUANTUS:
        size: dict[str, Any] = {"subset_size": 20} if name == "FaithfulnessCorrelation" else {}
        assert plan(name, **size).score is not None, name
    assert all(plan(name).missing.startswith("there is no score for it yet") for name in ABSENT)
    assert plan("NoSuchMetric").missing.startswith("it is not a metric of Quantus")


@pytest.mark.parametrize("name", ["MaxSensitivity", "Max-Sensitivity", "max sensitivity", "max_sensitivity"])
def test_arguments_become_settings_and_the_rest_is_quantus_default(name: str) -> None:
    score: Any = plan(name, nr_samples=7).score
    assert (score.walk, score.radius, score.relative) == (MonteCarlo(draws=7), 0.2, True)


def test_what_changes_and_what_does_not() -> None:
    stable: Any = plan("RelativeInputStability").score
    assert (stable.floor, stable.space, stable.walk) == (0.0, Ball(radius=0.2), MonteCarlo(draws=200))
    assert plan("MaxSensitivity", perturb_func=print, norm_numerator=1).unused == ("perturb_func", "norm_numerator")
    assert plan("Infidelity", normalise=True).unused == ("normalise",)
    assert plan("Sparseness", normalise=True, disable_warnings=True).unused == ()
    assert plan("PixelFlipping", abs=True).magnitudes
    assert not plan("MPRT", abs=True).magnitudes
    assert "explain_func" in plan("MPRT", again=False).missing
    assert "leaves nothing to choose" in plan("FaithfulnessCorrelation", subset_size=1000).missing


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
    metrics = {"Sparseness": None, "MaxSensitivity": {"nr_samples": 3}, "PixelFlipping": {"abs": True}, "ROAD": {}}
    both = evaluate(metrics, net, x, y.numpy(), maps, explain_func=gradient, controls=False)
    alone = evaluate(metrics, net, x, y.numpy(), explain_func=gradient, controls=False)
    ours = evaluate(metrics, net, x, y.numpy(), xai_methods={"gradient": {}}, controls=False)
    value = {row.score: row.value for row in both.table().itertuples()}
    assert value == pytest.approx({row.score: row.value for row in alone.table().itertuples()})
    for name in ("Sparseness", "MaxSensitivity"):
        assert value[name] == pytest.approx(ours.table().set_index("score").loc[name, "value"], rel=1e-4)
    assert ours.unused["PixelFlipping"] == ("abs",)
    assert list(both.missing) == ["ROAD"]
    assert len(both.samples("PixelFlipping")) == 4
    assert "ROAD: not measured" in str(both)
    with pytest.raises(SpecError, match="'ROAD' was not measured"):
        both.samples("ROAD")


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
