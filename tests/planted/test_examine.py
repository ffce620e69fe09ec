"""Explainers on planted tasks: known failures show, a perfect explainer passes, a random one does not; mistakes are one sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Size, Tensor, nn

import veracity
from veracity.core.errors import InputError, SpecError, StoreError
from veracity.core.explainers import Context, Cost, Explainer
from veracity.explain import GradCam, Gradient, Lime, Occlusion, as_explainer
from veracity.planted import Examination, Verdict, tables
from veracity.planted.suite import MODALITIES, built_in, run_task, verdict
from veracity.statistics.intervals import Interval


def found(modality: str, task: str, explainers: object, samples: int = 8) -> dict[str, Verdict]:
    """The verdicts about some explainers on one task."""
    from veracity.planted.suite import asked_for

    chosen = next(one for one in MODALITIES[modality] if one.name == task)
    findings, reasons = run_task(chosen, modality, asked_for(explainers), samples, 0)
    assert not reasons
    return {one.explainer: one.verdict for one in findings}


def test_gradients_saturate() -> None:
    verdicts = found("tables", "saturated", ["gradient", "saliency", "integrated_gradients"])
    assert verdicts == {"gradient": Verdict.FAILS, "saliency": Verdict.FAILS, "integrated_gradients": Verdict.PASS}


def test_guided_backprop_does_not_see_the_weights_that_cancel() -> None:
    verdicts = found("images", "inhibited", ["guided_backprop", "gradient"])
    assert verdicts == {"guided_backprop": Verdict.FAILS, "gradient": Verdict.PASS}


def test_occlusion_needs_the_right_window() -> None:
    named = {"right": Occlusion(window=5), "small": Occlusion(window=1), "large": Occlusion(window=13)}
    assert found("images", "clipped", named) == {"right": Verdict.PASS, "small": Verdict.FAILS, "large": Verdict.FAILS}


def test_grad_cam_needs_the_right_layer() -> None:
    assert found("images", "glyphs", {"last": GradCam(), "first": GradCam(layer="first")}) == {"last": Verdict.PASS, "first": Verdict.FAILS}


def test_lime_disagrees_with_itself() -> None:
    assert found("images", "repeat", {"lime": Lime(patch=2)}, samples=6) == {"lime": Verdict.FAILS}


def test_kernel_shap_leaves_the_data_where_columns_are_correlated() -> None:
    verdicts = found("tables", "correlated", ["kernel_shap", "gradient"], samples=32)
    assert verdicts == {"kernel_shap": Verdict.FAILS, "gradient": Verdict.PASS}


@dataclass(frozen=True, kw_only=True)
class Exact(Explainer):
    """Weight times value: right about every linear table."""

    name = "exact"

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1, backward=1)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        x = inputs.detach().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(model(x).gather(1, targets[:, None]).sum(), x)
        return slope * x.detach()


def test_an_explainer_of_your_own() -> None:
    assert found("tables", "additive", [Exact()]) == {"exact": Verdict.PASS}


@cache
def small() -> Examination:
    return veracity.examine(["integrated_gradients", "partition_shap", "random_gaussian"], modality=("graphs", "texts"), samples=6)


def test_an_examination_says_what_does_not_fit() -> None:
    assert small().modalities == ["texts", "graphs"]
    assert small().find("graphs", "motif", "partition_shap") is None
    assert "not graphs" in small().skipped["graphs", "partition_shap"]
    assert "| `integrated_gradients` | ✓1 |" in str(small())


def test_a_random_map_passes_nothing() -> None:
    mine = [one for one in small().findings if one.explainer == "random_gaussian"]
    assert len(mine) == 10
    assert {one.verdict for one in mine} <= {Verdict.FAILS, Verdict.UNTOLD}
    assert sum(one.verdict is Verdict.FAILS for one in mine) >= 6


def test_the_values_are_those_of_the_score_by_hand() -> None:
    task = next(one for one in MODALITIES["tables"] if one.name == "unused")
    planted = task.plant(8, 0)
    maps = (planted.inputs * torch.tensor([2.0, 1.0, 0, 0, 0, 0, 0, 0])).abs()
    slow = []
    for row in maps.tolist():
        pairs = [(inside > outside) + 0.5 * (inside == outside) for inside in row[:2] for outside in row[2:]]
        slow.append(sum(pairs) / len(pairs))
    ((finding,), _) = run_task(task, "tables", {"input_x_gradient": built_in()["input_x_gradient"]}, 8, 0)
    assert finding.value == pytest.approx(np.mean(slow))


def test_the_same_seed_gives_the_same_numbers_and_another_one_others() -> None:
    task = next(one for one in MODALITIES["images"] if one.name == "shortcut")
    lime = {"lime": built_in()["lime"]}
    one, again, other = (run_task(task, "images", lime, 4, seed)[0] for seed in (3, 3, 4))
    assert one == again
    assert one[0].value != other[0].value


def test_files(tmp_path: Path) -> None:
    table, page, drawn = small().save(tmp_path / "deep" / "folder")
    read = pd.read_csv(table)
    assert len(read) == len(small().findings)
    assert set(read["verdict"]) <= {one.value for one in Verdict}
    assert page.read_text(encoding="utf-8").startswith("# Planted truth")
    assert '<section id="graphs">' in drawn.read_text(encoding="utf-8")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="choose another folder"):
        small().save(tmp_path / "file" / "x")


def test_verdicts() -> None:
    def at(low: float, high: float, over: float = 0.1, undefined: int = 0) -> Verdict:
        gain = Interval(value=over, low=over - 0.01, high=over + 0.01, n=10)
        return verdict(Interval(value=(low + high) / 2, low=low, high=high, n=10), gain, 0.6, undefined, 10)

    assert at(0.6, 0.8) is Verdict.PASS
    assert at(0.59, 0.8) is Verdict.UNTOLD
    assert at(0.4, 0.59) is Verdict.FAILS
    assert at(0.6, 0.8, over=0.0) is Verdict.UNTOLD
    assert at(0.9, 0.95, undefined=6) is Verdict.FAILS
    assert at(np.nan, np.nan) is Verdict.UNTOLD


def broken(model: object, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """An explainer with a mistake."""
    raise ValueError("there is a mistake")


def broken_for_some(model: object, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """An explainer with a mistake that a trial on the first samples of *interaction* does not show."""
    if bool((inputs[:, 7] > 1.1).any()):
        raise ValueError("there is a mistake")
    return inputs


def test_an_explainer_that_fails_on_some_samples_is_left_out_with_the_reason() -> None:
    task = next(one for one in tables.TASKS if one.name == "interaction")
    findings, reasons = run_task(task, "tables", {"own": as_explainer(broken_for_some), "gradient": Gradient()}, 32, 0)
    assert [one.explainer for one in findings] == ["gradient"]
    assert reasons["own"].startswith("it failed on the task 'interaction': ")
    assert "there is a mistake" in reasons["own"]


def half_empty(model: object, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The right columns of *and* in every other row, and nothing in the others."""
    return inputs * (torch.arange(len(inputs)) % 2)[:, None] * (torch.arange(inputs.shape[1]) < 2)


def test_a_map_that_says_nothing_counts_as_0() -> None:
    exact = veracity.examine({"half": half_empty}, modality="tables", samples=8).find("tables", "additive", "half")
    assert exact is not None
    assert (exact.undefined, exact.n) == (4, 8)
    assert exact.value < 0.5


def test_reasons_are_those_of_the_built_in_settings() -> None:
    asked = {"gradient": half_empty, "saliency": "saliency"}
    given = veracity.examine(asked, modality="tables", samples=8)
    mine, known = given.find("tables", "saturated", "gradient"), given.find("tables", "saturated", "saliency")
    assert mine is not None
    assert known is not None
    assert mine.why == ""
    assert known.why.startswith("the output is flat")


@pytest.mark.parametrize(
    ("given", "settings", "sentence"),
    [
        ("gradeint", {}, "Unknown explainer 'gradeint'. Did you mean 'gradient'"),
        ("no_such_module:Thing", {}, "Cannot import 'no_such_module' for 'no_such_module:Thing'"),
        ("math:pie", {}, "Unknown name in math: 'pie'. Did you mean 'pi'"),
        ("gradient", {"modality": "sounds"}, "Unknown modality 'sounds'"),
        ("gradient", {"modality": ()}, "There is no modality to examine"),
        ("cav", {}, "'cav' explains by its concepts, and planted tasks know which parts of an input matter"),
        ([], {}, "There is no explainer to examine"),
        ("gradient", {"samples": 2}, "samples must be a whole number of at least 4, not 2"),
        ("gradient", {"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ("gradient", {"modality": 5}, "modality is a name or a list of names"),
        ({"random map": "gradient"}, {}, "The label 'random map' is that of the null"),
        ({"own": broken}, {"modality": "tables", "samples": 4}, "'own' explains none of the planted tables: broken failed on"),
        (torch.zeros(4, 8), {}, "'precomputed' has maps of other samples"),
        ("grad_cam", {"modality": "graphs"}, "'grad_cam' explains none of the planted graphs: grad_cam explains plain tensors only"),
        ("tree_shap", {"modality": ["texts", "graphs"]}, "'tree_shap' explains none of the planted texts or graphs"),
    ],
)
def test_mistakes_are_one_sentence(given: object, settings: dict[str, object], sentence: str) -> None:
    with pytest.raises((InputError, SpecError), match=re.escape(sentence)) as caught:
        veracity.examine(given, **settings)
    assert "\n" not in str(caught.value)


def test_all_built_in_explainers_of_inputs_are_examined() -> None:
    from veracity.core.explainers import Frame
    from veracity.core.registry import EXPLAINERS

    left_out = {kind.name for kind in EXPLAINERS.own().values() if kind.frame is Frame.INPUT and not kind.control} - set(built_in())
    assert left_out <= {"precomputed", "symmetrised", "top_k", "llm_x"}
