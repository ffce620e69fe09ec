"""Global explanations inside audits: what theory says about GEF, one lesson per copy of the model, and no dependence on batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from veracity import Audit, Channel, Neuron
from veracity.core.errors import InputError
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.engine.perturbation import weights
from veracity.explain import DeepViz, Fourier, GlobalExplainer, Maco, NaturalActivation, Symmetrised, TopK
from veracity.perturb import Rotations
from veracity.results import Result
from veracity.scores import GEF, FastGEF

SIDE, CLASSES = 8, 4


def small_net(*, linear: bool = False) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if linear:
            return nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, CLASSES, bias=False)).eval()
        layers = [nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(4 * (SIDE // 2) ** 2, CLASSES)).eval()


@pytest.fixture
def passes() -> Iterator[list[int]]:
    """The rows of every differentiated pass of every model."""
    seen: list[int] = []

    def count(module: nn.Module, args: tuple[Any, ...]) -> None:
        if isinstance(module, nn.Conv2d) and args[0].requires_grad:
            seen.append(len(args[0]))

    handle = register_module_forward_pre_hook(count)
    yield seen
    handle.remove()


def images(count: int = 24) -> tuple[Tensor, Tensor]:
    return Draws.of(1, torch.arange(count)).normal(1, SIDE, SIDE, stream="x").float(), torch.arange(count) % CLASSES


def run(folder: Path, explainers: Any, scores: Any, count: int = 24, **settings: Any) -> Result:
    x, y = images(count)
    model = settings.pop("model", None) or small_net()
    batch = settings.pop("batch", None)
    shared = {"target": "label", "controls": False, "companions": False, **settings}
    audit = Audit(models={"net": model}, inputs=x, targets=y, explainers=explainers, scores=scores, **shared)
    return audit.run(folder, progress=False, batch=batch)


@dataclass(frozen=True, kw_only=True)
class Weights(GlobalExplainer):
    """The weights of a linear model's class."""

    name = "weights"

    def explain_classes(self, model: nn.Module, classes: Tensor, draws: Draws, like: Tensor, context: Context) -> Mapping[str, Tensor]:
        (layer,) = (module for module in model.modules() if isinstance(module, nn.Linear))
        return {"weights": layer.weight.detach()[classes.to(layer.weight.device)]}

    def read(self, learnt: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        return learnt["weights"][rows].reshape(-1, 1, SIDE, SIDE)


def test_the_weights_of_a_linear_model_score_1(tmp_path: Path) -> None:
    """A.1.3: with one direction per path, both distortions grow with the strength."""
    scores = {"gef": GEF(draws=3, sigma=0.5), "fast_gef": FastGEF(draws=3, sigma=0.5)}
    found = run(tmp_path / "run", {"weights": Weights()}, scores, model=small_net(linear=True)).table()
    assert found["value"].tolist() == [1.0, 1.0]
    assert found["undefined"].tolist() == [0, 0]
    assert set(found["frame"]) == {"global"}


def test_no_steps_score_0_with_independent_starts_and_are_no_response_with_common_ones(tmp_path: Path) -> None:
    """Samples of a class share their image, so the standard error is over draws and classes."""
    kinds = (Fourier, Maco, DeepViz)
    result = run(
        tmp_path / "run", {kind.name: kind(steps=0, common=False) for kind in kinds}, {"fast_gef": FastGEF(draws=15, sigma=1.0)}, CLASSES
    )
    values = np.stack([FastGEF().values(one.measured) for one in result.series])
    assert values.shape == (3, CLASSES, 15)
    assert abs(values.mean()) <= 2 * values.std() / np.sqrt(values.size)
    assert result.table()["no_response"].tolist() == [0, 0, 0]
    common = run(tmp_path / "common", {kind.name: kind(steps=0) for kind in kinds}, {"fast_gef": FastGEF(draws=2, sigma=1.0)}, CLASSES)
    assert common.table()["value"].isna().all()
    assert common.table()[["no_response", "undefined"]].to_numpy().tolist() == [[CLASSES, CLASSES]] * 3


def test_each_class_is_explained_once_per_copy_and_three_settings_cost_one_trajectory(tmp_path: Path, passes: list[int]) -> None:
    """Five levels of one draw and the model itself: six trajectories of six steps for four classes, in blocks of 64 of 130 samples."""
    settings: dict[str, Any] = {"scores": {"fast_gef": FastGEF(draws=1, sigma=1.0)}, "count": 130}
    shared = run(tmp_path / "shared", {f"fourier-{one.steps}": one for one in Fourier().at(2, 4, 6)}, **settings)
    assert sum(passes) == 6 * CLASSES * 6 + 3  # and a trial of each explainer
    alone = run(tmp_path / "alone", {"fourier-4": Fourier(steps=4)}, **settings)
    assert sum(passes) == 6 * CLASSES * (6 + 4) + 4
    values = [result.samples("fast_gef").query("explainer == 'fourier-4'")["value"].to_numpy() for result in (shared, alone)]
    assert np.array_equal(*values)


def test_a_forecast_counts_the_lessons_about_all_copies() -> None:
    x, y = images(130)
    explainers = {f"fourier-{one.steps}": one for one in Fourier().at(2, 4, 6)}
    settings: dict[str, Any] = {"scores": {"fast_gef": FastGEF(draws=1, sigma=1.0)}, "controls": False, "companions": False}
    audit = Audit(models={"net": small_net()}, inputs=x, targets=y, target="label", explainers=explainers, **settings)
    assert audit.forecast().backward == 6 * CLASSES * 6


def test_results_do_not_depend_on_the_batch_and_resume_without_a_pass(tmp_path: Path, passes: list[int]) -> None:
    explainers = {"fourier": Fourier(steps=5), "deep": DeepViz(steps=5, common=False)}
    tables = [run(tmp_path / str(batch), explainers, {"fast_gef": FastGEF(draws=2, sigma=1.0)}, batch=batch) for batch in (None, 7)]
    values = [result.samples("fast_gef")["value"].to_numpy() for result in tables]
    np.testing.assert_allclose(*values, atol=1e-9)
    passes.clear()
    run(tmp_path / "None", explainers, {"fast_gef": FastGEF(draws=2, sigma=1.0)})
    assert passes == [1, 1]  # the trial of each explainer


def test_natural_activation_names_the_examples_with_the_largest_scores(tmp_path: Path) -> None:
    x, y = images(40)
    net = small_net()
    result = run(
        tmp_path / "run", {"natural": NaturalActivation(k=3)}, {"fast_gef": FastGEF(draws=2, sigma=1.0)}, training=(x, y), model=net
    )
    maps = result.explanations("net", "natural").numpy()
    scores = net(x).detach()
    for row, target in zip(maps, images()[1], strict=True):
        assert set(np.flatnonzero(row)) == set(scores[:, target].topk(3).indices.tolist())
        assert row.sum() == 3
    assert set(result.table()["frame"]) == {"training set"}


def test_a_unit_and_a_channel_can_be_visualised(tmp_path: Path) -> None:
    """The distortion over a channel's map is the distance of the maps."""
    for name, target in (("unit", Neuron(layer="3", unit=5)), ("channel", Channel(layer="1", channel=2))):
        result = run(
            tmp_path / name, {"fourier": Fourier(steps=4)}, {"fast_gef": FastGEF(draws=2, sigma=1.0, outputs="all")}, 6, target=target
        )
        assert result.table()["value"].notna().all()
    x, net = images(6)[0], small_net()
    view = Channel(layer="1", channel=2).view(net)
    maps, other = (net[:2](part)[:, 2].flatten(1) for part in (x, x.flip(0)))
    torch.testing.assert_close((view(x) - view(x.flip(0))).norm(dim=1), (maps - other).norm(dim=1))
    torch.testing.assert_close(view(x)[:, 0], maps.mean(1) * SIDE)
    with pytest.raises(Exception, match=r"The channel must lie between 0 and 3, because the layer '1' has 4 channels; found 7"):
        Channel(layer="1", channel=7).view(net)(x)


@pytest.mark.parametrize("kind", [Fourier, Maco, DeepViz])
def test_a_model_without_gradients_is_refused_before_the_run(kind: Any) -> None:
    x, y = images(4)
    made = {"models": {"f": lambda rows: np.tanh(np.asarray(rows)).reshape(len(rows), -1)[:, :CLASSES]}, "inputs": x.numpy(), "targets": y}
    with pytest.raises(InputError, match="has no gradients: choose an explainer that only needs outputs"):
        Audit(**made, explainers=[kind(steps=1)], scores=["invariance"], symmetry=Rotations(), target="label", controls=False).prepare()


@pytest.mark.parametrize("batch", [1, CLASSES - 1, CLASSES, 2 * CLASSES])
def test_a_batch_of_fewer_rows_than_classes_learns_one_copy_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(weights, "GAINING", frozenset({"cpu"}))
    monkeypatch.setattr(weights, "LEARNT_TOGETHER", 2)
    result = run(tmp_path, {"fourier": Fourier(steps=2)}, {"fast_gef": FastGEF(draws=1, sigma=1.0)}, batch=batch)
    assert result.failures().empty
    assert result.table()["value"].notna().all()


def test_restarts_averaged_over_a_symmetry_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    """The first transform reads the lesson, and the others start anew, whichever of them share a call."""
    one = Symmetrised(explainer=Fourier(steps=2, common=False), space=Rotations())
    scores = {"fast_gef": FastGEF(draws=1, sigma=1.0)}
    whole, parts = (run(tmp_path / str(batch), {"mean": one}, scores, 6, batch=batch) for batch in (None, 1))
    for name in ("model", "explanation"):
        np.testing.assert_allclose(whole.series[0].measured[name], parts.series[0].measured[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("around", [lambda one: TopK(explainer=one), lambda one: Symmetrised(explainer=one, space=Rotations())])
def test_explainers_around_another_one_let_it_see_the_inputs_and_cost_its_lessons(tmp_path: Path, around: Any) -> None:
    one = Maco(steps=2)
    result = run(tmp_path, {"around": around(one), "alone": one}, {"fast_gef": FastGEF(draws=1, sigma=1.0)}, 8)
    assert result.failures().empty
    around_it, alone = result.series
    if isinstance(around(one), Symmetrised):  # a global image is the same for every transform
        np.testing.assert_allclose(around_it.measured["explanation"], alone.measured["explanation"], rtol=1e-4, atol=1e-6)
    assert around(one).lesson_cost(torch.Size([1, SIDE, SIDE]), 3) == one.lesson_cost(torch.Size([1, SIDE, SIDE]), 3)
    assert around(one).shown == (one.shown if isinstance(around(one), Symmetrised) else None)


@pytest.mark.parametrize("target", ["label", Neuron(layer="3", unit=5)])
def test_copies_are_learnt_about_together_where_a_device_gains_by_it(
    tmp_path: Path, passes: list[int], monkeypatch: pytest.MonkeyPatch, target: Any
) -> None:
    """The five copies of a path go in one call per step, and the numbers are those of one copy after the other."""
    explainers = {"fourier": Fourier(steps=3), "restarted": Fourier(steps=3, common=False), "deep": DeepViz(steps=3)}
    scores = {"fast_gef": FastGEF(draws=1, sigma=1.0)}
    alone = run(tmp_path / "alone", explainers, scores, target=target)
    calls = len(passes)
    monkeypatch.setattr(weights, "GAINING", frozenset({"cpu"}))
    monkeypatch.setattr(weights, "LEARNT_TOGETHER", 10_000)
    passes.clear()
    run(tmp_path / "large", explainers, scores, target=target)
    assert len(passes) == calls  # a call has no room for many copies, so that one copy keeps the device busy
    monkeypatch.setattr(weights, "LEARNT_TOGETHER", 2)
    passes.clear()
    together = run(tmp_path / "together", explainers, scores, target=target)
    assert len(passes) < calls / 2
    for one, other in zip(alone.series, together.series, strict=True):
        for name in ("model", "explanation"):
            np.testing.assert_allclose(one.measured[name], other.measured[name], rtol=2e-2, atol=1e-3)
