from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from small import series_inputs, small_net
from veracity import Audit
from veracity.core.scores import Reads
from veracity.core.spaces import WeightSpace
from veracity.engine.memory import Memory
from veracity.engine.perturbation import weights
from veracity.engine.perturbation.weights import compared_with
from veracity.perturb import LayerRandomisation, ParameterScaling
from veracity.perturb.weights import FreshScaling
from veracity.perturb.weights.copies import ScratchModel
from veracity.scores import GEF, FastGEF


def test_a_copy_has_the_elements_weights_and_the_original_keeps_its_own() -> None:
    model = small_net()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    copies = ScratchModel(model, seed=3)
    space = ParameterScaling(sigma=1.0, steps=2)
    weights = copies.weights(space, [(0, 0), (1, 1)])
    scratch = copies.become(weights, 1)
    for name, value in space.parameters(model, 1, 1, seed=3).items():
        assert torch.equal(dict(scratch.named_parameters())[name], value)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_a_later_element_leaves_alone_is_the_models_own_again() -> None:
    model = small_net()
    copies = ScratchModel(model, seed=0)
    space = LayerRandomisation(direction="top_down").of(model)
    copies.become(copies.weights(ParameterScaling(sigma=1.0, steps=1), [(0, 0)]), 0)
    scratch = copies.become(copies.weights(space, [(0, 0)]), 0)
    last = str(len(model) - 1)  # type: ignore[arg-type]
    for name, value in scratch.named_parameters():
        same = torch.equal(value, dict(model.named_parameters())[name])
        assert same != name.startswith(last)


def compared(space: WeightSpace, levels: Iterable[int], last: float) -> list[float]:
    """What copies at these levels are compared with, if the explanation at level l is l + 1, and the base is 0."""
    base, leading, found = torch.zeros(1, 1), torch.full((1, 1), last), list[float]()
    for level in levels:
        before, leading = compared_with(space, level, base, leading, torch.full((1, 1), level + 1.0))
        found.append(before.item())
    return [*found, leading.item()]


def test_a_path_goes_on_from_the_level_before_and_starts_again_from_the_base() -> None:
    space = ParameterScaling(sigma=1.0, steps=2, segments=2)
    assert compared(space, range(4), last=9.0) == [0, 1, 0, 3, 4]
    assert compared(space, (1, 2), last=9.0) == [9, 0, 3]


def test_repeats_are_compared_with_the_look_that_they_repeat() -> None:
    space = FreshScaling(sigma=1.0, steps=1, segments=2, repeats=2)
    assert compared(space, range(space.levels), last=9.0)[:-1] == [0, 1, 1, 0, 4, 4, 0]
    leading = compared(space, (0, 1), last=9.0)[-1]
    assert compared(space, range(2, space.levels), last=leading)[:-1] == [1, 0, 4, 4, 0]


@pytest.mark.parametrize("explainer", ["gradient", "saliency", "input_x_gradient", "integrated_gradients"])
def test_stacked_and_looped_weights_distort_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, explainer: str) -> None:
    given = {"models": small_net(), "inputs": series_inputs(5), "explainers": [explainer], "controls": False, "companions": False}
    audit = Audit(**given, scores=[FastGEF(draws=2, sigma=1.0)])
    looped = audit.run(tmp_path / "looped", progress=False)
    monkeypatch.setattr(weights, "GAINING", frozenset({"cpu"}))
    monkeypatch.setattr(weights, "STACKED", 2)
    counted: list[int] = []
    explained = weights.explain_stacked
    monkeypatch.setattr(weights, "explain_stacked", lambda *args: counted.append(len(args[3])) or explained(*args))
    stacked = audit.run(tmp_path / "stacked", progress=False)
    assert sum(counted) == 10
    for one, other in zip(looped.series, stacked.series, strict=True):
        for quantity in ("model", "explanation"):
            assert np.allclose(one.measured[quantity], other.measured[quantity], rtol=1e-5)


def test_a_calibrated_path_is_found_once_and_is_the_same_stacked_and_looped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    given = {"models": model, "inputs": series_inputs(20), "controls": False, "companions": False, "outputs": "logits"}
    audit = Audit(**given, explainers=["gradient", "saliency"], scores=[FastGEF(draws=2), GEF(draws=2)])
    looped = audit.run(tmp_path / "looped", progress=False)
    monkeypatch.setattr(weights, "GAINING", frozenset({"cpu"}))
    monkeypatch.setattr(weights, "STACKED", 2)
    stacked = audit.run(tmp_path / "stacked", progress=False)
    assert len(looped.manifest["calibrations"]) == 1
    assert looped.manifest["calibrations"] == stacked.manifest["calibrations"]
    for one, other in zip(looped.series, stacked.series, strict=True):
        for quantity in ("model", "explanation"):
            assert np.allclose(one.measured[quantity], other.measured[quantity], rtol=1e-5, atol=1e-7, equal_nan=True)


def test_explainers_share_the_outputs_of_a_copy(tmp_path: Path) -> None:
    counting = Counting()
    given = {"models": counting, "inputs": series_inputs(4), "controls": False, "companions": False, "scores": [FastGEF(sigma=1.0)]}
    Audit(**given, explainers=["gradient"]).run(tmp_path / "one", progress=False)
    one, Counting.calls = Counting.calls, 0
    Audit(**given, explainers=["gradient", "random_uniform", "random_gaussian"]).run(tmp_path / "three", progress=False)
    assert Counting.calls - one < 10  # a trial of each explainer, and no pass for its copies


class Counting(nn.Module):
    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Counting.calls += 1
        out: torch.Tensor = self.net(x)
        return out


def test_memory_is_bounded_and_computes_what_is_missing_alone() -> None:
    memory = Memory(limit=100)
    asked: list[frozenset[Reads]] = []

    def compute(missing: frozenset[Reads]) -> dict[Reads, torch.Tensor]:
        asked.append(missing)
        return {one: torch.zeros(10) for one in missing}

    memory.recall("a", frozenset({Reads.OUTPUT}), compute)
    memory.recall("a", frozenset({Reads.OUTPUT, Reads.SCORES}), compute)
    assert asked == [{Reads.OUTPUT}, {Reads.SCORES}]
    memory.recall("b", frozenset({Reads.OUTPUT}), compute)
    assert memory.held <= 100
    assert list(memory.kept) == ["b"]


def test_memory_keeps_what_fits_of_outputs_that_are_asked_for_in_turns() -> None:
    """Dropping the oldest of three, of which two fit, would compute each of them anew in every turn."""
    memory, asked = Memory[Reads](limit=80), list[str]()

    def turn(scope: str, keys: str) -> list[str]:
        asked.clear()
        for key in keys:
            memory.recall(key, frozenset({Reads.OUTPUT}), lambda _, key=key: asked.append(key) or {Reads.OUTPUT: torch.zeros(10)}, scope)
        assert memory.held <= 80
        return list(asked)

    assert turn("first", "abc") == ["a", "b", "c"]
    assert turn("first", "abc") == ["c"]
    assert turn("second", "def") == ["d", "e", "f"]
    assert turn("second", "def") == ["f"]
    assert sorted(memory.kept) == sorted(memory.scopes) == ["d", "e"]
