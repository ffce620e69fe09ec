from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from orbit_small import CLASSES, Brightest, detection, digits_like, flow, images, labels, linear, scenes
from small import NaNs
from veracity import OrbitEvaluation
from veracity.core.errors import InputError, Note, SpecError, StoreError, VeracityError
from veracity.core.measures import Direction
from veracity.orbits import Classification, CropOrbit, Detection, Flow, Regression
from veracity.orbits.tasks.base import Metric
from veracity.orbits.tasks.classification import accuracy


class Restless(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rand(len(x), 3)


SAME = Metric(name="accuracy", function=lambda output, truth: output[:, 0])
LATE = Metric(name="late", function=lambda output, truth: output)

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"models": {}}, "There is no model to evaluate: pass models={'name': module}."),
    "no module": ({"models": {"a": 3}}, "Model 'a' has the type int, which no adapter takes: pass a torch.nn.Module, a function on arrays"),
    "train mode": (
        {"models": {"a": nn.Sequential(nn.Dropout(), linear())}},
        "Model 'a' is in train mode and has Dropout: call model.eval() first.",
    ),
    "NaN": ({"models": {"a": NaNs()}}, "Model 'a' returns NaN or infinity for sample 0 as it is: look at the model or the input."),
    "random": (
        {"models": {"a": Restless()}},
        "Model 'a' gives different outputs for the same input, even in evaluation mode: make it deterministic.",
    ),
    "wrong shape": ({"models": {"a": nn.Linear(5, 3)}}, "Model 'a' cannot take inputs of shape (1, 1, 4, 4) and type float32: "),
    "too many classes": (
        {"models": {"a": linear(classes=5)}},
        "Model 'a': The model gives 5 classes, but 3 are named: pass classes=... to fit it.",
    ),
    "other classes": (
        {"models": {"a": linear(), "b": linear(classes=5)}, "task": Classification()},
        "Model 'b' gives outputs of shape (5,) per sample and model 'a' of (3,): models that are compared must give the same.",
    ),
    "class out of range": (
        {"targets": labels() + 1, "task": Classification()},
        "The target of sample 2 is 3, but model 'a' has 3 classes, numbered 0 to 2 (2 of 6 name no class): "
        "if yours begin with 1, subtract 1.",
    ),
    "length of targets": (
        {"targets": labels(5)},
        "The targets of a classification must be class numbers, one for each of 6 samples, not torch.int64 (5,).",
    ),
    "targets of text": ({"targets": ["cat"] * 6}, "There is text in the targets, such as 'cat': pass numbers, "),
    "model without weights": ({"models": {"a": linear().to("meta")}}, "Model 'a' has no numbers in "),
    "complex outputs": (
        {"models": {"a": lambda x: torch.zeros(len(x), 3) * 1j}},
        "Model 'a': The model must give scores of classes, a tensor of shape (rows, classes), not complex numbers.",
    ),
    "sparse outputs": (
        {"models": {"a": lambda x: torch.zeros(len(x), 3).to_sparse()}},
        "Model 'a': The model must give scores of classes, a tensor of shape (rows, classes), not a sparse tensor.",
    ),
    "no outputs": (
        {"models": {"a": lambda x: torch.zeros(len(x), 0)}, "task": Classification()},
        "Model 'a': The model must give scores of classes, a tensor of shape (rows, classes), not a tensor of shape (",
    ),
    "rows": ({"models": {"a": lambda x: torch.zeros(1, 3)}}, "Model 'a' must give one row for each input, but gave 1 for"),
    "no tensor": (
        {"models": {"a": lambda x: [1]}},
        "Model 'a': The model must give ",
    ),
    "orbit": ({"orbit": "rotation"}, "The orbit is one such as RotationOrbit() or GroupOrbit(space=...), not 'rotation'."),
    "task": ({"task": "classify"}, "The task is one such as Classification() or Detection(...), not 'classify'."),
    "two metrics": (
        {"task": Classification(metrics=(SAME, SAME))},
        "The metrics of a task need names of their own without @ and :, one at least, not ['accuracy', 'accuracy'].",
    ),
    "no metric": (
        {"task": Classification(metrics=())},
        "The metrics of a task need names of their own without @ and :, one at least, not [].",
    ),
    "metric's shape": ({"task": Classification(metrics=(LATE,))}, "The metric 'late' must give one number per row"),
    "a metric that fails": (
        {"task": Classification(metrics=(Metric(name="far", function=lambda p, y: p[:, 99]),))},
        "The metric 'far' failed for outputs (",
    ),
    "bounds": (
        {"task": Classification(metrics=(replace(SAME, bounds=None),))},
        "The metric 'accuracy' needs bounds of two numbers, such as (0.0, math.inf), not None.",
    ),
    "about": (
        {"about": {"x": torch.zeros(1)}},
        "about['x'] must be plain data that JSON can write, such as text, numbers and lists of them, not a tensor of shape (1,).",
    ),
    "about what": ({"about": "digits"}, "about= is a mapping from names to plain data, not str."),
    "labels": ({"labels": [0, 1]}, "The labels must have one entry for each of the 6 inputs, not the shape (2,)."),
    "labels of numbers": ({"labels": torch.rand(6)}, "The labels must be whole numbers from 0, or names, one for each sample."),
    "seed": ({"seed": -1}, "The setting 'seed' of the evaluation must be a whole number of at least 0, not -1."),
    "confidence": ({"confidence": 95}, "The setting 'confidence' of the evaluation must be a number above 0 and below 1, not 95."),
    "picture": ({"picture": "film"}, "A picture is one of image, scene, pair, cloud, series, none, not 'film'."),
    "inputs": ({"inputs": images().long()}, "The inputs must be floating point, not torch.int64"),
    "explainers": ({"explainers": "saliency"}, "The explainers are a list, such as ['saliency'], not one name."),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_one_sentence_and_leaves_no_folder(tmp_path: Path, name: str) -> None:
    settings, sentence = MISTAKES[name]
    with pytest.raises(VeracityError) as caught:
        digits_like(**settings).run(tmp_path / "run", progress=False)
    assert str(caught.value).startswith(sentence)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("metrics", [(accuracy,), SAME, None])
def test_metrics_are_metrics(metrics: Any) -> None:
    with pytest.raises(SpecError, match="The setting 'metrics' of task 'classification' must be a list of Metric objects, not "):
        Classification(metrics=metrics)


@pytest.mark.parametrize(
    ("evaluation", "sentence"),
    [
        (
            lambda: detection(task=Detection(window=16)),
            "The task has a window of 16 pixels and the orbit one of 8: give both the same.",
        ),
        (lambda: detection(orbit=CropOrbit(window=8, reach=8, step=2)), "Crop(window=8, reach=8) needs scenes of at least 24 x 24 pixels"),
        (lambda: detection(targets=torch.zeros(3, 1, 4)), "The targets of a detection must be boxes x0 y0 x1 y1 class of shape"),
        (
            lambda: detection(targets=scenes()[1] + torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0])),
            "The classes of boxes must be whole numbers from 0, below 2; found 2.",
        ),
        (lambda: detection(targets=scenes()[1][..., [2, 1, 0, 3, 4]]), "Sample 0 has a box without area: x0 < x1 and y0 < y1"),
        (lambda: detection(models={"a": Brightest(kind=-1.0)}), "Model 'a': The detector gives the class -1"),
        (
            lambda: detection(models={"a": Brightest(kind=2.0)}),
            "Model 'a': The detector gives the class 2, but there are only 2: pass Detection(",
        ),
        (lambda: detection(models={"a": lambda x: x}), "Model 'a': The detector must give a tensor (rows, detections, 6)"),
        (lambda: detection(models={"a": Brightest(kind=float("inf"))}), "Model 'a' returns NaN or infinity for sample 0 as it is"),
        (
            lambda: flow(targets=torch.zeros(3, 2, 4, 4)),
            "The targets have shape (2, 4, 4) per sample, but model 'gradient' gives (2, 8, 8)",
        ),
        (lambda: flow(inputs=torch.zeros(3, 2, 8, 6)), "FlowOrbit() needs pairs of square frames"),
        (lambda: flow(task=Regression(), targets=torch.zeros(3, 1)), "The targets have shape (1,) per sample"),
        (lambda: flow(models={"a": lambda x: x[:, :1]}, task=Flow()), "Model 'a': Vector fields have shape (rows, 2, height, width)"),
        (lambda: digits_like(inputs=torch.rand(3, 1, 4, 5), targets=labels(3)), "Dihedral(axes=(-2, -1)) needs square inputs"),
    ],
)
def test_what_does_not_belong_together_is_one_sentence(tmp_path: Path, evaluation: Any, sentence: str) -> None:
    with pytest.raises((InputError, SpecError)) as caught:
        evaluation().run(tmp_path / "run", progress=False)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("setting", ["batch", "memory", "workers"])
def test_settings_of_a_run_are_whole_numbers(tmp_path: Path, setting: str) -> None:
    with pytest.raises(SpecError, match=f"{setting} must be a whole number of at least 1, not 0"):
        digits_like().run(tmp_path / "run", progress=False, **{setting: 0})


def test_a_run_needs_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="A run needs a folder to write to, such as run"):
        digits_like().run(None, progress=False)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_run_needs_a_folder_that_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file is a file: a run needs a folder"):
        digits_like().run(tmp_path / "file", progress=False)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"direction": "lowr"}, "Unknown direction of the metric 'far' 'lowr'. Did you mean 'lower'?"),
        ({"function": 3}, "The metric 'far' needs a function of outputs and truth, not 3."),
    ],
)
def test_a_metric_is_looked_at_when_it_is_made(settings: Any, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        Metric(**{"name": "far", "function": accuracy, **settings})
    assert str(caught.value) == sentence


def test_a_direction_may_be_given_by_its_name() -> None:
    assert Metric(name="far", function=accuracy, direction="lower").direction is Direction.LOWER  # type: ignore[arg-type]


def test_a_sample_without_a_class_can_be_explained_unless_its_label_is(tmp_path: Path) -> None:
    evaluation = digits_like(targets=labels() - (torch.arange(6) == 3).long(), explainers={"grad": "gradient"})
    assert not len(evaluation.run(tmp_path / "predicted", progress=False).failures())
    with pytest.raises(InputError, match="The target of sample 3 is -1, but model 'a' has 3 classes, numbered 0 to 2"):
        replace(evaluation, target="label").run(tmp_path / "label", progress=False)


def test_uniform_logits_are_not_passed_off_as_probabilities_in_silence(tmp_path: Path) -> None:
    evaluation = digits_like(models={"flat": lambda x: torch.zeros(len(x), 3)})
    with pytest.warns(Note, match="flat / outputs: the outputs lie between 0 and 1 but do not sum to 1"):
        result = evaluation.run(tmp_path, progress=False)
    assert any("do not sum to 1" in note for note in result.notes)


def test_one_note_is_not_many_letters(tmp_path: Path) -> None:
    assert digits_like(notes="hello").run(tmp_path, progress=False).notes == ["hello"]


def test_models_go_to_a_device_by_name() -> None:
    assert set(digits_like().on("cpu").models) == {"a", "b"}
    with pytest.raises(InputError, match="The device 'nowhere' cannot be used here"):
        digits_like().on("nowhere")


def test_the_evaluation_is_plain_data() -> None:
    spec = digits_like(explainers={"grad": "gradient"}).spec()
    assert spec["models"] == ["a", "b"]
    assert spec["orbit"]["name"] == "group_orbit"
    assert spec["task"]["classes"] == list(CLASSES)
    assert spec["explainers"]["grad"]["name"] == "gradient"
    assert isinstance(digits_like(), OrbitEvaluation)
