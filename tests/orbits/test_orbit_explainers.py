from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from orbit_small import detection, digits_like, images, labels
from veracity import Audit
from veracity.core.errors import InputError, Note
from veracity.core.explainers import Context, Cost, Explainer
from veracity.explain import Precomputed, SmoothGrad
from veracity.orbits import GroupOrbit, Live, OrbitResult
from veracity.perturb import CyclicShift, Dihedral
from veracity.scores import Equivariance
from veracity.trainers.training import initialised
from veracity.walk import Exhaustive

EXPLAINERS = {"saliency": "saliency", "input_x_gradient": "input_x_gradient", "smooth_grad": SmoothGrad(draws=4)}


def curved(seed: int) -> nn.Module:
    return initialised(lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3)), seed).eval()


@pytest.mark.parametrize("space", [Dihedral(), CyclicShift(axes=(-1,))], ids=["d4", "shifts"])
def test_equivariance_along_the_orbit_is_the_audits_score_over_all_elements(tmp_path: Path, space: object) -> None:
    models, x = {"a": curved(0), "b": curved(1)}, images(3)
    result = digits_like(models=models, inputs=x, targets=None, orbit=GroupOrbit(space=space), explainers=EXPLAINERS, labels=[0, 1, 2]).run(
        tmp_path / "orbits", progress=False
    )
    audit = Audit(
        models=models,
        inputs=x,
        explainers=EXPLAINERS,
        scores={"equivariance": Equivariance()},
        symmetry=space,
        walk=Exhaustive(),
        controls=False,
        companions=False,
    ).run(tmp_path / "audit", progress=False)
    draws = audit.draws("equivariance")
    table = audit.table().set_index(["model", "explainer"])["value"]
    mine = result.table().set_index(["model", "metric"])["value"]
    for model in models:
        for explainer in EXPLAINERS:
            along = result.values(model, f"equivariance: {explainer}")
            assert np.allclose(along, draws[model, explainer], atol=1e-6)
            assert mine[model, f"equivariance: {explainer}"] == pytest.approx(table[model, explainer], abs=1e-6)
    assert result.explainers == tuple(EXPLAINERS)
    assert np.ptp(result.values("a", "equivariance: saliency")) > 0.01


def test_an_explanation_agrees_with_itself_where_nothing_moves(tmp_path: Path) -> None:
    result = digits_like(models={"a": curved(0)}, explainers={"grad": "gradient"}).run(tmp_path, progress=False)
    assert np.allclose(result.values("a", "equivariance: grad")[:, result.identity], 1.0, atol=1e-6)
    assert np.array_equal(result.values("a", "equivariance: grad", "consensus"), result.values("a", "equivariance: grad"))
    row = result.table().set_index("metric").loc["equivariance: grad"]
    assert row["reference"] == ""


def test_numbers_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    settings = {"models": {"a": curved(0)}, "explainers": {"smooth_grad": SmoothGrad(draws=4)}}
    first, second = (digits_like(**settings).run(tmp_path / str(batch), batch=batch, progress=False) for batch in (3, 64))
    assert np.allclose(first.values("a", "equivariance: smooth_grad"), second.values("a", "equivariance: smooth_grad"), atol=1e-5)


def test_another_explainer_leaves_the_metrics_alone(tmp_path: Path) -> None:
    digits_like(models={"a": curved(0)}, explainers=["saliency"]).run(tmp_path, progress=False)
    before = {path.name for path in (tmp_path / "orbits").iterdir()}
    digits_like(models={"a": curved(0)}, explainers=["saliency", "gradient"]).run(tmp_path, progress=False)
    after = {path.name for path in (tmp_path / "orbits").iterdir()}
    assert before < after
    assert len(after) == len(before) + 1


def test_the_true_class_can_be_explained(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval()
    evaluation = digits_like(models={"a": net}, explainers={"grad": "gradient"}, target="label")
    evaluation.run(tmp_path, progress=False)
    found = Live(evaluation, tmp_path)
    for sample in range(3):
        expected = net[1].weight[sample].detach().reshape(4, 4).numpy()
        assert np.allclose(found.answer(sample, [0.0], "grad").attributions["a"], expected, atol=1e-6)
    with pytest.raises(InputError, match="The target 'label' needs targets"):
        digits_like(models={"a": net}, targets=None, explainers=["gradient"], target="label").prepare()


class Failing(Explainer):
    name = "failing"

    def cost(self, shape: torch.Size) -> Cost:
        return Cost(forward=1)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        raise ValueError("no map today")


def test_what_an_explainer_throws_is_a_record_and_the_rest_goes_on(tmp_path: Path) -> None:
    evaluation = digits_like(models={"a": curved(0)}, explainers=[Failing(), "gradient"])
    with pytest.warns(Note, match="a failed for failing: ValueError: no map today"):
        result = evaluation.run(tmp_path, progress=False)
    assert np.isnan(result.values("a", "equivariance: failing")).all()
    assert np.isfinite(result.values("a", "equivariance: gradient")).all()
    assert result.failures()["explainer"].tolist() == ["failing"]
    assert "a failed for failing: ValueError: no map today" in str(OrbitResult(tmp_path))


def test_one_sample_that_an_explainer_throws_on_costs_that_sample(tmp_path: Path) -> None:
    calls: list[int] = []

    def picky(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        calls.append(len(inputs))
        if len(calls) > 3 and (inputs.flatten(1).amax(1) == peak).any():
            raise ValueError("too bright")
        return inputs

    x = images(6)
    x[4, 0, 1, 1] = peak = 7.0
    evaluation = digits_like(models={"a": curved(0)}, inputs=x, targets=labels(6), explainers=[picky])
    with pytest.warns(Note, match=r"a failed for picky \(1 of 6 samples\): ValueError: too bright"):
        result = evaluation.run(tmp_path, progress=False)
    lost = np.isnan(result.values("a", "equivariance: picky")).all(axis=1)
    assert lost.tolist() == [False, False, False, False, True, False]
    assert result.failures()["samples_failed"].tolist() == [1]
    peak = 8.0
    again = evaluation.run(tmp_path, progress=False)
    assert np.isfinite(again.values("a", "equivariance: picky")).all()
    assert again.failures().empty


def test_explainers_that_cannot_follow_an_orbit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be followed along 'crop_orbit'"):
        detection(explainers=["saliency"]).run(tmp_path, progress=False)
    with pytest.raises(InputError, match="'tracin' explains by training set"):
        digits_like(explainers=["tracin"]).run(tmp_path, progress=False)


def test_maps_without_their_explainer_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'stored' is maps without their explainer, and moved inputs are explained anew: leave it out"):
        digits_like(explainers={"stored": Precomputed(maps=images())}).run(tmp_path, progress=False)
