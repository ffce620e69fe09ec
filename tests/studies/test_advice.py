"""Advice finds what is wrong with a run on a trained, exactly shift-invariant network, and mends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from veracity import Audit
from veracity.core.errors import InputError
from veracity.core.inputs import Signals
from veracity.demo import GlobalMax, all_cnn, digits
from veracity.explain import (
    CAV,
    FeatureAblation,
    FeaturePermutation,
    Gradient,
    GradientShap,
    InputXGradient,
    IntegratedGradients,
    Symmetrised,
)
from veracity.perturb import CyclicShift, Rotations3D, WindowShift
from veracity.results import Result
from veracity.studies.advice import activations, advise, layer_invariance
from veracity.studies.flowchart import Assumption, remedy
from veracity.trainers.training import initialised, train
from veracity.walk import MonteCarlo


@pytest.fixture(scope="module")
def net() -> nn.Module:
    x, y = digits("train", 1)
    return train(initialised(lambda: all_cnn((6, 8, 12), 10, GlobalMax()), seed=0), x[:600], y[:600], epochs=3, rate=1e-2)


def audit(net: nn.Module, **changes: Any) -> Audit:
    x, y = digits("test", 1)
    x_train, y_train = digits("train", 1)
    settings: dict[str, Any] = {
        "models": {"net": net},
        "inputs": x[:6],
        "targets": y[:6],
        "explainers": {"gradient": "gradient", "shap": GradientShap(baselines=x_train[:20]), "cav": CAV(layer="conv3", per_side=40)},
        "symmetry": CyclicShift(axes=(-2, -1)),
        "walk": MonteCarlo(draws=4),
        "scores": ["symmetry", "model_invariance"],
        "training": (x_train[:400], y_train[:400]),
        "concepts": {"round": {0, 6, 8, 9}},
    }
    return Audit(**{**settings, **changes})


def test_gradient_shap_and_cav_on_an_equivariant_layer_are_named_mended_and_measured(net: nn.Module, tmp_path: Path) -> None:
    asked = audit(net)
    asked.run(tmp_path / "run", progress=False)
    found = advise(asked, tmp_path / "run", progress=False)
    first = {one.explainer: one for one in found if "step" not in one.explainer}
    assert first["gradient"].robust
    shap, cav = first["shap"], first["cav"]
    assert (shap.assumption, shap.branch, shap.guideline) == ("the baseline is not invariant", "feature importance", 1)
    assert (cav.assumption, cav.branch, cav.guideline) == ("the layer is not invariant", "concept-based", 3)
    assert "'relu3'" not in cav.change
    assert "'pool'" in cav.change
    assert cav.after == 1.0
    assert cav.before is not None
    assert cav.gain == pytest.approx(1.0 - cav.before)
    assert shap.after is not None
    assert shap.before is not None
    assert shap.after > shap.before + 0.3
    assert shap.gain_low is not None
    assert shap.gain_low > 0
    second = next(one for one in found if one.explainer == "shap, step 1")
    assert second.assumption == "the explainer is merely noisy"
    assert Result(tmp_path / "run").advice()[0]["explainer"] == "gradient"
    assert Result(tmp_path / "run").save_report(tmp_path / "report.html").exists()


def test_a_model_that_is_not_invariant_is_not_mended(tmp_path: Path) -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(100, 10)).eval()
    asked = audit(flat, explainers=["input_x_gradient"])
    asked.run(tmp_path / "run", progress=False)
    (one,) = advise(asked, tmp_path / "run", progress=False)
    assert (one.assumption, one.guideline, one.after) == ("the model is not invariant", 5, None)


def test_a_change_that_costs_too_much_is_proposed_and_not_measured(net: nn.Module, tmp_path: Path) -> None:
    asked = audit(net)
    asked.run(tmp_path / "run", progress=False)
    found = advise(asked, tmp_path / "run", passes=1, progress=False)
    assert all(one.after is None for one in found)
    assert not (tmp_path / "run" / "advice").exists()
    assert any(one.change for one in found)


def test_the_model_is_asked_first_even_if_it_was_not_scored(tmp_path: Path) -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(100, 10)).eval()
    asked = audit(flat, explainers=["input_x_gradient"], scores=["symmetry"])
    asked.run(tmp_path / "run", progress=False)
    assert advise(asked, tmp_path / "run", progress=False)[0].assumption == "the model is not invariant"


def test_an_audit_that_did_not_make_the_run_is_refused(net: nn.Module, tmp_path: Path) -> None:
    asked = audit(net, explainers=["gradient"])
    asked.run(tmp_path / "run", progress=False)
    other = audit(net, explainers=["saliency"], seed=3, inputs=digits("test", 1)[0][6:12])
    with pytest.raises(InputError, match="another audit, with other data and seed and explainers"):
        advise(other, tmp_path / "run")
    with pytest.raises(InputError, match="not str"):
        advise("x", tmp_path / "run")  # type: ignore[arg-type]


def test_layers_before_a_step_in_place() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)).eval()
    seen = activations(net, Signals(torch.randn(3, 4, generator=torch.Generator().manual_seed(0))))
    assert float(seen["0"].min()) < 0


def test_what_advice_needs_is_said(net: nn.Module, tmp_path: Path) -> None:
    asked = audit(net, scores=["self_agreement"], explainers=["gradient"])
    asked.run(tmp_path / "run", progress=False)
    with pytest.raises(InputError, match="Advice needs a run with the score 'symmetry'"):
        advise(asked, tmp_path / "run")


def test_layers_by_their_invariance_in_order(net: nn.Module) -> None:
    x = digits("test", 1)[0][:3]
    space = CyclicShift(axes=(-2, -1)).fit(x.shape[1:])
    rows = torch.arange(3).repeat_interleave(4)
    elements = space.unrank(torch.arange(1, 13) * 7)
    found = layer_invariance(net, Signals(x), space, elements, rows)
    assert list(found) == [name for name, _ in net.named_children()]
    assert found["pool"] == pytest.approx(1.0, abs=1e-6)
    assert found["conv3"] < 0.95

    @torch.no_grad()
    def slow(layer: str) -> float:
        seen: list[Tensor] = []
        handle = net.get_submodule(layer).register_forward_hook(lambda _m, _a, out: seen.append(out.flatten(1)))
        one = [x[row : row + 1] for row in rows]
        pairs = [(net(before), net(space.act(element[None], before))) for before, element in zip(one, elements, strict=True)]
        handle.remove()
        return float(torch.stack([torch.cosine_similarity(*seen[2 * i : 2 * i + 2]) for i in range(len(pairs))]).mean())

    assert found["conv2"] == pytest.approx(slow("conv2"), abs=1e-5)


def test_remedies_by_assumption() -> None:
    space, window = CyclicShift(axes=(-1,)).fit(torch.Size((1, 8))), WindowShift(margin=1)
    layers = {"conv": 0.5, "relu": 0.6, "pool": 1.0, "linear": 1.0}
    x = torch.ones(2, 1, 8)
    assert remedy(GradientShap(baselines=x), Assumption.BASELINE, space, layers).explainer == GradientShap()
    assert remedy(IntegratedGradients(baseline=x[0]), Assumption.BASELINE, space, layers).explainer == IntegratedGradients(baseline=0.0)
    assert remedy(FeaturePermutation(reference_set=x), Assumption.BASELINE, space, layers).explainer == FeatureAblation()
    assert remedy(GradientShap(draws=5), Assumption.NOISE, space, layers).explainer == GradientShap(draws=20)
    assert remedy(GradientShap(draws=256), Assumption.NOISE, space, layers).explainer is None
    assert remedy(CAV(layer="conv"), Assumption.LAYER, space, layers).explainer == CAV(layer="pool")
    averaged = remedy(CAV(layer="conv"), Assumption.LAYER, space, {"conv": 0.5, "relu": 0.6}).explainer
    assert averaged == Symmetrised(explainer=CAV(layer="conv"))
    assert remedy(InputXGradient(), Assumption.REPRESENTATION, Rotations3D(), layers).explainer == Gradient()
    assert remedy(InputXGradient(), Assumption.UNKNOWN, Rotations3D(), layers).explainer == Symmetrised(explainer=InputXGradient(), draws=4)
    assert remedy(InputXGradient(), Assumption.UNKNOWN, window, layers).explainer is None
    few = Symmetrised(explainer="saliency", space=space, draws=2)
    assert remedy(few, Assumption.NOISE, space, layers).explainer == Symmetrised(explainer="saliency", space=space)
    assert remedy(Symmetrised(explainer="saliency", space=space), Assumption.UNKNOWN, space, layers).explainer is None
    assert remedy(Gradient(), Assumption.MODEL, space, layers).explainer is None
