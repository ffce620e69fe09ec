from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from orbit_small import detection, digits_like, flow, images, labels, linear
from veracity.core.errors import InputError, SpecError
from veracity.orbits import Live, RotationOrbit


def test_on_the_grid_live_answers_are_what_the_run_holds(tmp_path: Path) -> None:
    evaluation = digits_like(orbit=RotationOrbit(step=30.0))
    result = evaluation.run(tmp_path, progress=False)
    live = Live(evaluation, tmp_path)
    for element in (0, 5, 11):
        found = live.answer(2, result.coordinates[element].tolist())
        for model in result.models:
            for reference in ("truth", "consensus"):
                assert found.metrics[model]["confidence"][reference] == pytest.approx(
                    float(result.values(model, "confidence", reference)[2, element]), abs=1e-6
                )
            assert np.allclose(found.outputs[model], result.outputs(model, 2)["outputs"][element], atol=1e-3)
        assert (
            np.array_equal(found.input, result.frames(2)[element]) or np.abs(found.input.astype(int) - result.frames(2)[element]).max() <= 1
        )


def test_models_that_take_long_answer_in_parts_of_their_own(tmp_path: Path) -> None:
    evaluation = digits_like(orbit=RotationOrbit(step=90.0))
    evaluation.run(tmp_path, progress=False)
    live = Live(evaluation, tmp_path)
    models = list(evaluation.models)
    whole = live.answer(1, [45.0])
    assert live.parts() == [models], "the first answer says nothing about the next ones"
    live.seconds = {(models[0], None): 0.3, **{(name, None): 0.01 for name in models[1:]}}
    assert live.parts() == [models[1:], models[:1]], "the fastest first, and fast ones together"
    parts = [live.answer(1, [45.0], models=names) for names in live.parts()]
    assert [list(part.metrics) for part in parts] == [models[1:], models[:1]]
    assert {name: value for part in parts for name, value in part.metrics.items()} == whole.metrics
    assert all(np.array_equal(part.outputs[name], whole.outputs[name]) for part in parts for name in part.outputs)


def test_between_the_grid_the_models_are_asked(tmp_path: Path) -> None:
    evaluation = digits_like(orbit=RotationOrbit(step=90.0))
    evaluation.run(tmp_path, progress=False)
    found = Live(evaluation, tmp_path).answer(1, [45.0])
    moved = evaluation.orbit.space.act(torch.tensor([[torch.pi / 4]], dtype=torch.float64), images()[1:2])
    expected = evaluation.models["a"](moved).softmax(dim=1)[0].detach().numpy()
    assert np.allclose(found.outputs["a"], expected, atol=1e-6)
    assert found.label == "45°"
    assert found.at == (45.0,)
    assert found.metrics["a"]["confidence"]["truth"] == pytest.approx(expected[1], abs=1e-6)


def test_detections_and_flows_answer_too(tmp_path: Path) -> None:
    boxes, field = detection(), flow()
    seen, turned = boxes.run(tmp_path / "boxes", progress=False), field.run(tmp_path / "flow", progress=False)
    found = Live(boxes, tmp_path / "boxes").answer(0, [2.0, -2.0])
    element = [tuple(at) for at in seen.coordinates].index((2.0, -2.0))
    assert found.outputs["brightest"].shape == (2, 6)
    assert found.metrics["brightest"]["iou"] == {
        reference: pytest.approx(float(seen.values("brightest", "iou", reference)[0, element])) for reference in ("truth", "consensus")
    }
    assert found.input is None
    one = Live(field, tmp_path / "flow").answer(1, [1.0, 1.0, 1.0])
    assert np.allclose(one.errors["still"], turned.outputs("still", 1)["errors"][13], atol=1e-3)
    assert np.allclose(one.quiver["still"], turned.outputs("still", 1)["quiver"][13], atol=1e-3)
    assert one.metrics["still"]["rmse"]["consensus"] == pytest.approx(float(turned.values("still", "rmse", "consensus")[1, 13]), abs=1e-3)


def test_attributions_are_of_the_moved_input_for_the_class_of_the_unmoved_one(tmp_path: Path) -> None:
    evaluation = digits_like(models={"a": linear(0)}, explainers=["gradient"], orbit=RotationOrbit(step=90.0))
    evaluation.run(tmp_path, progress=False)
    live = Live(evaluation, tmp_path)
    assert tuple(live.plan.explainers) == ("gradient",)
    chosen = int(evaluation.models["a"](images()[3:4]).argmax())
    found = live.answer(3, [90.0], explainer="gradient").attributions["a"]
    assert np.allclose(found, evaluation.models["a"][1].weight[chosen].detach().reshape(4, 4).numpy(), atol=1e-6)
    assert live.answer(3, [90.0]).attributions == {}


def test_many_threads_get_each_their_own_answer(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    net.train()
    evaluation = digits_like(models={"net": net}, orbit=RotationOrbit(step=90.0))
    evaluation.run(tmp_path, progress=False)
    live, found = Live(evaluation, tmp_path), {}
    expected = {angle: live.answer(0, [float(angle)]).outputs["net"] for angle in range(12)}

    def ask(angle: int) -> None:
        found[angle] = live.answer(0, [float(angle)]).outputs["net"]

    threads = [threading.Thread(target=ask, args=(angle,)) for angle in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(found[angle], expected[angle]) for angle in range(12))
    assert net.training


def test_without_a_run_there_is_no_consensus_and_everything_else(tmp_path: Path) -> None:
    found = Live(digits_like(), tmp_path / "nothing").answer(0, [3.0])
    assert set(found.metrics["a"]["confidence"]) == {"truth"}


@pytest.mark.parametrize(
    "change",
    [
        {"models": {"a": linear(7), "b": linear(8)}},
        {"models": {"a": linear(0)}},
        {"models": {"b": linear(0), "a": linear(1)}},
        {"inputs": images(seed=4)},
        {"targets": (labels() + 1) % 3},
    ],
    ids=["weights", "fewer", "names", "inputs", "truth"],
)
def test_what_is_not_of_the_run_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    digits_like().run(tmp_path, progress=False)
    with pytest.raises(InputError, match="are not those of this run: run the evaluation again"):
        Live(digits_like(**change), tmp_path)


def test_another_explainer_of_the_same_models_is_welcome(tmp_path: Path) -> None:
    digits_like().run(tmp_path, progress=False)
    assert Live(digits_like(explainers=["gradient"]), tmp_path).answer(0, [3.0], "gradient").attributions["a"].shape == (4, 4)


def test_the_true_class_is_the_targets_and_not_the_groups(tmp_path: Path) -> None:
    evaluation = digits_like(labels=["left", "right"] * 3)
    assert digits_like().run(tmp_path / "a", progress=False).truth_classes.tolist() == labels().tolist()
    assert [Live(evaluation, tmp_path / "b").answer(sample, [0.0]).truth_class for sample in range(3)] == [0, 1, 2]
    assert Live(digits_like(targets=None), tmp_path / "b").answer(2, [0.0]).truth_class is None
    assert Live(detection(), tmp_path / "b").answer(0, [0.0, 0.0]).truth_class is None


def test_a_flow_has_errors_against_both_references(tmp_path: Path) -> None:
    evaluation = flow()
    result = evaluation.run(tmp_path, progress=False)
    found, kept = Live(evaluation, tmp_path).answer(1, [1.0, 1.0, 1.0]), result.outputs("still", 1)
    assert np.allclose(found.consensus_errors["still"], kept["consensus_errors"][13], atol=1e-3)
    assert not np.allclose(found.consensus_errors["still"], found.errors["still"], atol=1e-2)


def test_questions_that_make_no_sense_get_a_sentence(tmp_path: Path) -> None:
    live = Live(digits_like(), tmp_path)
    with pytest.raises(InputError, match="a sample is known by its number from 0 to 5, not 6".capitalize()):
        live.answer(6, [0.0])
    with pytest.raises(InputError, match=r"has the coordinates \(element\), not \[1.0, 2.0\]"):
        live.answer(0, [1.0, 2.0])
    with pytest.raises(InputError, match="has the coordinates"):
        live.answer(0, [float("nan")])
    with pytest.raises(SpecError, match="Unknown explainer of this evaluation 'saliency'"):
        live.answer(0, [0.0], explainer="saliency")


def test_the_expected_explanation_is_the_unmoved_one_moved_along(tmp_path: Path) -> None:
    evaluation = digits_like(models={"a": linear(0)}, explainers=["gradient"], orbit=RotationOrbit(step=90.0))
    result = evaluation.run(tmp_path, progress=False)
    found = Live(evaluation, tmp_path).answer(3, [90.0], explainer="gradient")
    target = int(evaluation.models["a"](images()[3:4]).argmax())
    unmoved = evaluation.models["a"][1].weight[target].detach().reshape(1, 4, 4)
    turned = evaluation.orbit.space.act(torch.tensor([[torch.pi / 2]], dtype=torch.float64), unmoved)
    assert np.allclose(found.expected["a"], turned[0].numpy(), atol=1e-5)
    stored = float(result.values("a", "equivariance: gradient")[3, 1])
    assert found.explained["a"] == {"target": target, "agreement": pytest.approx(stored, abs=1e-5)}
