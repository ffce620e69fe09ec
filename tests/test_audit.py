from __future__ import annotations

import copy
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from captum.attr import DeepLift
from captum.attr import Occlusion as CaptumOcclusion
from torch import Tensor, nn

from small import Detached, NaNs, labelled_series, labels_out_of_range, series_inputs, shifted_mean, small_net, two_channels, with_dropout
from veracity import Audit, Neuron, Result
from veracity.core.errors import InputError, Note, SpecError
from veracity.core.measures import Direction, Measure
from veracity.core.randomness import Draws
from veracity.explain import GradientShap
from veracity.perturb import CyclicShift, Dihedral, FiniteGroup, Rotation, WindowShift
from veracity.results import compared
from veracity.scores import Equivariance
from veracity.trainers.training import initialised
from veracity.walk import Adaptive, Exhaustive, MonteCarlo

STREAM = "walk"
COLUMNS = ["model", "explainer", "score", "value", "low", "high", "n", "undefined", "samples_failed", "self_agreement", "random_control"]


class Returns(nn.Module):
    """A network whose scores become something else."""

    def __init__(self, become: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.net, self.become = small_net(), become

    def forward(self, x: Tensor) -> Any:
        return self.become(self.net(x))


def test_the_readme_call_gives_the_promised_table(x: Tensor, net: nn.Module, tmp_path: Path) -> None:
    with pytest.warns(Note, match="deep_lift.*no rule for 1 of 3"):
        result = Audit(
            models={"all-cnn": net},
            inputs=x,
            explainers=["integrated_gradients", DeepLift, shifted_mean],
            symmetry=CyclicShift(axes=(-1,)),
            scores=["equivariance", "model_invariance"],
        ).run(tmp_path / "run")
    table = result.table()
    assert list(table.columns[: len(COLUMNS)]) == COLUMNS
    by_name = table.set_index(["explainer", "score"])
    assert by_name.loc[("integrated_gradients", "equivariance"), "value"] > 0.9999
    assert by_name.loc[("", "model_invariance"), "value"] > 0.9999
    ramp = torch.linspace(0, 1, 12, dtype=torch.float64)
    expected = np.mean([float(ramp @ ramp.roll(shift) / (ramp @ ramp)) for shift in range(12)])
    assert by_name.loc[("shifted_mean", "equivariance"), "value"] == pytest.approx(expected, abs=1e-6)
    assert by_name.loc[("constant_map", "equivariance"), "value"] == pytest.approx(1.0)
    assert (by_name["n"] == 6).all()
    assert (by_name["undefined"] == 0).all()
    assert result.save_report(tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_batch_sizes_do_not_change_the_numbers(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    fewer = [{"name": "smooth_grad", "draws": 8}, {"name": "lime", "samples": 50}, {"name": "kernel_shap", "samples": 50}]
    audit = make_audit(explainers=[*fewer, "gradient_shap", "occlusion"], walk=MonteCarlo(draws=2))
    small, large = (audit.run(tmp_path / str(batch), batch=batch).table() for batch in (7, 256))
    pd.testing.assert_frame_equal(small, large, atol=1e-6, rtol=0)


def test_the_callers_things_come_back_untouched(make_audit: Callable[..., Audit], x: Tensor, tmp_path: Path) -> None:
    net = small_net().train()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    kept, numpy_state = x.clone(), np.random.get_state()[1].copy()  # noqa: NPY002
    make_audit(models={"net": net}, explainers=["guided_backprop", "lime", shifted_mean]).run(tmp_path)
    assert net.training
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in net.parameters())
    assert not any(module._forward_hooks or module._backward_hooks or module._forward_pre_hooks for module in net.modules())
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    assert torch.equal(x, kept)
    assert not x.requires_grad


def test_a_folder_grows_without_measuring_anything_twice(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    make_audit(explainers=["gradient"]).run(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("cells/*")}
    result = make_audit(explainers=["gradient", "saliency"], scores=["equivariance", "invariance", "model_invariance"]).run(tmp_path)
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert len(list(tmp_path.glob("cells/*"))) > len(times)
    assert set(result.table()["score"]) == {"equivariance", "invariance", "model_invariance"}
    assert {"gradient", "saliency"} < set(result.table()["explainer"])


def test_changed_weights_data_or_seed_are_measured_anew(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    def keys(**settings: Any) -> set[str]:
        return {cell.key for job in make_audit(explainers=["gradient"], **settings).prepare().jobs for cell in job.cells}

    base = keys()
    assert keys() == base
    changes: list[dict[str, Any]] = [
        {"models": {"net": small_net(seed=1)}},
        {"inputs": series_inputs(6, seed=2)},
        {"seed": 1},
        {"target": 0},
    ]
    for change in changes:
        assert not keys(**change) & base, change


def test_exhaustive_is_the_limit_of_monte_carlo_and_adaptive(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    walks = {"all": Exhaustive(), "some": MonteCarlo(draws=6), "adaptive": Adaptive(width=0.2, most=12, block=4)}
    tables = {
        name: make_audit(explainers=[shifted_mean], walk=walk, scores=["equivariance"], controls=False).run(tmp_path / name).table().iloc[0]
        for name, walk in walks.items()
    }
    exact = tables["all"]
    assert exact["draws_low"] == exact["draws_high"] == pytest.approx(exact["value"])
    for name in ("some", "adaptive"):
        assert tables[name]["draws_low"] <= exact["value"] <= tables[name]["draws_high"]
        assert tables[name]["draws"] <= 12


def test_an_interpolated_group_states_its_floor(tmp_path: Path) -> None:
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).eval()
    audit = Audit(models=net, inputs=images, explainers=["gradient"], symmetry=Rotation(), walk=MonteCarlo(draws=4), outputs="logits")
    result = audit.run(tmp_path)
    table = result.table().set_index("score")
    assert 0.3 < table.loc["action_floor", "value"] < 0.999
    literal = []
    for sample in range(3):
        angles = Rotation().decode(Draws(0, torch.full((4,), sample), torch.arange(4)).normal(1, stream=STREAM))
        moved = Rotation().act(angles, images[sample].expand(4, 1, 8, 8))
        probabilities, base = net(moved).softmax(1), net(images[sample : sample + 1]).softmax(1)
        literal.append(float(torch.cosine_similarity(probabilities, base).mean().detach()))
    assert table.loc["model_invariance", "value"] == pytest.approx(np.mean(literal), abs=1e-6)
    # Two model passes a sample and draw would be counted if the floor, which needs none, shared its cells.
    assert audit.forecast().forward == 3 * (1 + 4) + 3 * (1 + 4 + 1)
    exact = Audit(models=net, inputs=images, explainers=["gradient"], symmetry=Dihedral(), outputs="logits").run(tmp_path / "d4").table()
    assert "action_floor" not in set(exact["score"])


@dataclass(frozen=True, kw_only=True)
class Polarity(FiniteGroup):
    """A signal and its negative."""

    name = "polarity"

    @property
    def order(self) -> int:
        return 2

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return (g + h) % 2

    def inverse(self, g: Tensor) -> Tensor:
        return g

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        return x * (1 - 2 * elements.to(x)).reshape(-1, *[1] * (x.ndim - 1))


class Largest(Equivariance):
    name = "largest"

    def reduce(self, values: np.ndarray) -> np.ndarray:
        return np.nanmax(values, axis=1)


def test_groups_and_measures_of_ones_own_need_no_registration(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    gap = Measure(name="gap", function=lambda a, b: (a - b).flatten(1).abs().amax(1), direction=Direction.LOWER, range=(0.0, float("inf")))
    score = Equivariance(space=Polarity(), measure=gap)
    result = make_audit(scores=[score], explainers=[shifted_mean], controls=False).run(tmp_path)
    assert Result(tmp_path).table()["value"].tolist() == [1.0]
    assert result.worst("equivariance", 1)[0].value == 2.0
    with pytest.raises(SpecError, match=r"register it with SCORES\.add"):
        make_audit(scores=[Largest()], explainers=["gradient"]).prepare()


def test_what_is_expected_is_what_the_score_compares_with(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    pair = make_audit(scores=["invariance"], explainers=["gradient"], controls=False).run(tmp_path).worst("invariance", 1)[0]
    assert torch.equal(pair.expected, pair.explanation)
    assert float(torch.cosine_similarity(pair.expected.flatten(), pair.found.flatten(), dim=0)) == pytest.approx(pair.value, abs=1e-5)


def test_a_window_shift_is_checked_on_every_input_and_for_every_score(tmp_path: Path) -> None:
    images = torch.zeros(300, 1, 6, 6)
    images[:, 0, 2:4, 2:4] = 1.0
    images[280, 0, 0, 0] = 1.0
    net = initialised(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 2)), seed=0).eval()
    for settings in ({"symmetry": WindowShift(margin=1)}, {"scores": [Equivariance(space=WindowShift(margin=1))]}):
        with pytest.raises(InputError, match="blank"):
            Audit(models=net, inputs=images, explainers=["gradient"], outputs="logits", **settings).prepare()


def test_a_model_on_another_device_is_a_copy(make_audit: Callable[..., Audit], net: nn.Module) -> None:
    audit = make_audit()
    assert audit.on("cpu").models["net"] is net
    assert next(audit.on("meta").models["net"].parameters()).is_meta
    assert not next(net.parameters()).is_meta


def test_a_random_explainer_has_an_error_even_over_the_whole_group(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    table = make_audit(explainers=["gradient_shap", "gradient"], controls=False).run(tmp_path).table().set_index("explainer")
    assert table.loc["gradient_shap", "draws_low"] < table.loc["gradient_shap", "value"] < table.loc["gradient_shap", "draws_high"]
    assert table.loc["gradient", "draws_low"] == table.loc["gradient", "draws_high"]


def test_other_targets_are_explained(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    for number, target in enumerate((0, Neuron(layer="2", unit=3), lambda output: output[:, 0] - output[:, 1])):
        result = make_audit(target=target, explainers=["gradient"], scores=["equivariance"], controls=False).run(tmp_path / str(number))
        value = result.table()["value"].iloc[0]
        assert (value > 0.9999) == (number != 1)


def test_differences_are_paired_and_simultaneous(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    nets = {"one": small_net(), "two": small_net(seed=3)}
    result = make_audit(models=nets, explainers=["gradient", shifted_mean], outputs="logits").run(tmp_path)
    table = result.differences("equivariance").query("model == 'one'").set_index(["first", "second"])
    row = table.loc[("gradient", "shifted_mean")]
    values = result.samples("equivariance").query("model == 'one'").pivot(index="sample", columns="explainer", values="value")
    assert row["difference"] == pytest.approx((values["gradient"] - values["shifted_mean"]).mean())
    assert (row["differs"], row["status"]) == (False, "same difference everywhere")
    assert table.loc[("gradient", "random_gaussian"), "differs"]
    controls = {one.explainer for one in result.rows if one.control}
    assert table["control"].to_dict() == {pair: bool(controls & set(pair)) for pair in table.index}
    assert not table.loc[("gradient", "shifted_mean"), "control"]
    assert table.loc[("gradient", "random_gaussian"), "control"]
    printed = str(result.differences("equivariance"))
    assert f"{result.differences('equivariance')['difference'][0]:.3f}" in printed
    assert "..." not in printed
    between = result.differences("equivariance", between="models").set_index("explainer")
    assert not between.loc["shifted_mean", "differs"]
    assert between["control"].to_dict() == {name: name in controls for name in between.index}
    alone = result.differences("equivariance", among=["gradient", "shifted_mean"])
    assert "control" not in str(alone)
    with pytest.raises(InputError, match="'explainers' or 'models'"):
        result.differences("equivariance", between="moons")
    with pytest.raises(SpecError, match="Did you mean 'equivariance'"):
        result.samples("equivarianc")
    every = result.samples("equivariance")
    pd.testing.assert_frame_equal(
        result.samples("equivariance", explainer="gradient"), every[every["explainer"] == "gradient"].reset_index(drop=True)
    )
    with pytest.raises(InputError, match="no explainer 'grad'"):
        result.samples("equivariance", explainer="grad")


def test_two_runs_are_compared_by_sample(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    first = make_audit(explainers=["gradient_shap"]).run(tmp_path / "a")
    second = make_audit(explainers={"gradient_shap": GradientShap(draws=50)}).run(tmp_path / "b")
    row = compared(first, second).set_index("explainer").loc["gradient_shap"]
    assert row["paired"]
    assert row["difference"] == pytest.approx(row["after"] - row["before"])
    assert row["difference"] > 0
    other = make_audit(explainers=["gradient_shap"], inputs=series_inputs(9, seed=5)).run(tmp_path / "c")
    assert not compared(first, other)["paired"].any()


def test_the_worst_pairs_are_the_worst(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    result = make_audit(explainers=[shifted_mean]).run(tmp_path)
    worst = next(pair for pair in result.worst("equivariance", 1) if pair.explainer == "shifted_mean")
    series = next(one for one in result.series if one.explainer == "shifted_mean" and one.score == "equivariance")
    assert worst.value == pytest.approx(np.nanmin(series.values))
    shift = int(worst.element[0])
    assert torch.equal(worst.moved, worst.input.roll(shift, -1))
    assert torch.equal(worst.expected, worst.explanation.roll(shift, -1))
    assert torch.equal(worst.found, worst.explanation)


def test_explainers_that_share_a_name_are_told_apart(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    result = make_audit(explainers=[GradientShap(), GradientShap(draws=9)], controls=False).run(tmp_path)
    assert set(result.table()["explainer"]) == {"", "gradient_shap", "gradient_shap(draws=9)"}
    with pytest.raises(SpecError, match="Two explainers are the same"):
        make_audit(explainers=["gradient", "gradient"]).prepare()


def test_undefined_is_counted_and_left_out(tmp_path: Path) -> None:
    x = series_inputs(4)

    def sometimes_zero(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return torch.where(inputs.sum(dim=(1, 2), keepdim=True) > 0, inputs, torch.zeros_like(inputs))

    result = Audit(models=small_net(), inputs=x, explainers=[sometimes_zero], symmetry=CyclicShift(axes=(-1,)), controls=False).run(
        tmp_path
    )
    row = result.table().set_index("explainer").loc["sometimes_zero"]
    zero = int((x.sum(dim=(1, 2)) <= 0).sum())
    assert 0 < zero < 4
    assert (row["n"], row["undefined"], row["undefined_draws"]) == (4 - zero, zero, 12 * zero)
    assert row["value"] == pytest.approx(1.0)


def test_a_forecast_counts_passes_and_writes_nothing(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    audit = make_audit(explainers=["gradient"], controls=False)
    cost = audit.forecast(tmp_path / "run")
    # Model: 6 + 72 outputs. Gradient: 6 + 72 maps, and 6 for self-agreement.
    assert (cost.forward, cost.backward) == (6 + 72 + 6 + 72 + 6, 6 + 72 + 6)
    assert cost.seconds > 0
    assert cost.memory > 0
    assert not (tmp_path / "run").exists()
    audit.run(tmp_path / "run")
    assert audit.forecast(tmp_path / "run").forward == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"models": {"net": NaNs()}}, "returns NaN or infinity for 6 of 6 inputs"),
        ({"models": {"net": two_channels()}}, r"cannot take inputs of shape \(1, 1, 12\)"),
        ({"models": {"net": with_dropout()}}, "in train mode and has Dropout: call model.eval"),
        ({"models": {"net": Detached()}}, "does not depend differentiably"),
        ({"models": {"net": 3}}, r"Model 'net' has the type int, which no adapter takes: pass a torch\.nn\.Module, a function"),
        ({"models": {}}, "no model to audit"),
        ({"targets": labels_out_of_range()[1], "target": "label"}, "The target of sample 2 is 7, but model 'net' has 3 classes"),
        ({"targets": torch.zeros(3, dtype=torch.long)}, "one entry for each of the 6 inputs"),
        ({"symmetry": CyclicShift(axes=(-3, -2, -1))}, "cyclic_shift|CyclicShift"),
        ({"symmetry": "cyclic_shft"}, "Unknown group 'cyclic_shft'. Did you mean 'cyclic_shift'"),
        ({"symmetry": None, "scores": "equivariance"}, "The score 'equivariance' needs a symmetry"),
        ({"scores": "equivarience"}, "Unknown score 'equivarience'. Did you mean 'equivariance'"),
        ({"scores": ["faithfulness"]}, "'faithfulness' is a preset, not a score: pass scores='faithfulness'"),
        ({"scores": ["action_floor"]}, "nothing to measure"),
        ({"scores": ["equivariance"], "explainers": ["representation_similarity"], "training": labelled_series()}, "nothing to measure"),
        ({"explainers": []}, "The score 'equivariance' needs explainers"),
        ({"models": {"a\x01": small_net(), "a\x02": small_net()}}, "A label in models={'label': ...} must be text that can be printed"),
        ({"models": {"net": torch.jit.freeze(torch.jit.script(small_net().eval()))}}, "'net' holds a scripted network"),
        ({"walk": 3}, "A walk is"),
        ({"walk": {"name": "monte_carlo", "draws": 0}}, "The setting 'draws' of walk 'monte_carlo' must be a whole number of at least 1"),
        ({"scores": [{"name": "equivariance", "walk": 3}]}, "The setting 'walk' of score 'equivariance' must be a Walk .*, not 3"),
        ({"about": {"x": torch.zeros(1)}}, r"about\['x'\] must be plain data that JSON can write"),
        ({"about": {"x": float("nan")}}, r"about\['x'\] must be plain data that JSON can write"),
        ({"about": {"x": json.loads("[" * 40 + "]" * 40)}}, r"about\['x'\] must be plain data that JSON can write"),
        ({"about": {"seed": 3}}, r"about\['seed'\] would replace what the run itself records"),
        ({"about": {"published": 3}}, "about= is read by the report, which cannot use this: published: input should be a valid list"),
        ({"scores": 3}, "The setting 'scores' must be a list or a table, not 3"),
        ({"explainers": 0.5}, "The setting 'explainers' must be a list or a table, not 0.5"),
        ({"confidence": "a"}, "The setting 'confidence' of the audit must be a number above 0 and below 1, not 'a'"),
        ({"controls": "no"}, "The setting 'controls' of the audit must be True or False, not 'no'"),
        ({"seed": "a"}, "The setting 'seed' of the audit must be a whole number of at least 0, not 'a'"),
        ({"targets": ["cat"] * 6}, "There is text in the targets, such as 'cat': pass numbers"),
        ({"targets": pd.Series(["cat"] * 6)}, "There is text in the targets, such as 'cat'"),
        ({"targets": np.array([None] * 6)}, "The targets must be a tensor or an array of numbers, not an array of type object"),
        ({"targets": torch.zeros(6).to_sparse()}, r"The targets are a sparse tensor: convert them with \.to_dense\(\)"),
        ({"inputs": np.array([["a", "b"]])}, r"There is text in the inputs, such as 'a': encode .* TextInputs\(texts, tokenizer\)"),
        ({"inputs": np.array([["a", 1.0]], dtype=object)}, "There is text in the inputs, such as 'a'"),
        ({"inputs": ["a film", "a book"]}, r"Texts need the tokenizer of the model: pass inputs=TextInputs\(texts, tokenizer\)"),
        ({"inputs": pd.DataFrame({"age": [1.0], "town": ["Bern"]})}, "Column 'town' holds categories, and this model takes numbers"),
        ({"inputs": pd.DataFrame({"age": [1.0]})}, r"'net' cannot take inputs of shape \(1, 1\) and type float64"),
        ({"inputs": np.zeros((2, 2), dtype="datetime64[s]")}, "an array of numbers, not an array of type datetime64"),
        ({"inputs": [torch.zeros(1, 12), torch.zeros(1, 11)]}, r"sample 0 has \(1, 12\), sample 1 has \(1, 11\): bring them to one shape"),
        ({"inputs": torch.zeros(3, 12).to_sparse()}, r"The inputs are a sparse tensor: convert them with \.to_dense\(\)"),
        ({"inputs": torch.quantize_per_tensor(torch.zeros(3, 12), 0.1, 0, torch.qint8)}, r"quantised tensor: .*\.dequantize\(\)"),
        ({"inputs": torch.zeros(3, 1, 12, device="meta")}, "The inputs are on the device 'meta', which holds no numbers"),
        ({"inputs": torch.zeros(3, 1, 12, dtype=torch.complex64)}, r"real numbers, not torch.complex64: pass torch\.view_as_real"),
        ({"inputs": torch.zeros(3, 0)}, r"at least one sample, not \(3, 0\)"),
        ({"models": {"net": small_net().to("meta")}}, "Model 'net' has no numbers in '0.weight', which is on the device 'meta': load its"),
        ({"models": {"net": nn.Sequential(nn.Flatten(), nn.LazyLinear(3))}}, "Model 'net' has a lazy layer without weights, '1.weight'"),
        (
            {"models": {"net": Returns(lambda scores: scores > 0)}},
            r"must return scores in floating point, not torch\.bool",
        ),
        ({"models": {"net": Returns(lambda scores: scores * 1j)}}, "must return real numbers, .* not torch.complex64"),
        ({"models": {"net": Returns(lambda scores: scores[:, :0])}}, r"at least one for each input, not torch\.float32 of shape \(1, 0\)"),
        ({"models": {"net": Returns(lambda scores: scores.to_sparse())}}, r"a dense tensor, not a sparse one: end it with to_dense\(\)"),
        ({"models": {"net": Returns(lambda scores: None)}}, "one tensor with a row for each input, not None"),
        ({"confidence": 2.0}, "above 0 and below 1, not 2.0"),
        ({"inputs": "x"}, "must be an array, a DataFrame, a list of samples, a dict of arrays, a dataset, graphs or an Inputs, not str"),
        ({"explainers": [CaptumOcclusion]}, r"On model 'net': occlusion failed .*CaptumMethod\(attribution=..., settings="),
        ({"explainers": ["salency"]}, "Unknown explainer 'salency'. Did you mean 'saliency'"),
        ({"explainers": "saliency"}, r"a list, such as \['saliency'\]"),
        ({"explainers": ["feature_permutation"]}, "needs a reference set"),
        ({"scores": ["equivarianc"]}, "Unknown score 'equivarianc'. Did you mean 'equivariance'"),
        ({"scores": []}, "no score to measure"),
        ({"outputs": "logit"}, "one of logits, probabilities, multilabel, raw"),
        ({"walk": "exhaustiv"}, "Unknown walk 'exhaustiv'. Did you mean 'exhaustive'"),
        ({"inputs": torch.zeros(3, 1, 12, dtype=torch.long)}, "floating point"),
    ],
)
def test_bad_input_is_one_sentence(make_audit: Callable[..., Audit], tmp_path: Path, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises((InputError, SpecError), match=sentence) as caught:
        make_audit(**settings).run(tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_an_array_read_backwards_is_an_array(make_audit: Callable[..., Audit]) -> None:
    x = series_inputs(6).numpy()
    found = make_audit(inputs=x[:, :, ::-1], targets=pd.Series([0, 1, 2, 0, 1, 2], index=list("abcdef"))).prepare()
    assert torch.equal(found.problem.inputs.take(torch.arange(6)).values, torch.tensor(x[:, :, ::-1].copy()))
    assert found.accuracies["net"] is not None


def test_an_array_that_cannot_be_written_to_is_copied(make_audit: Callable[..., Audit]) -> None:
    x = series_inputs(6).numpy()
    x.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_audit(inputs=x).prepare()


def test_a_model_without_weights_cannot_go_to_a_device(make_audit: Callable[..., Audit]) -> None:
    with pytest.raises(InputError, match=r"Model 'net' has no numbers in '0\.weight'"):
        make_audit(models={"net": small_net().to("meta")}).on("cpu")


def test_a_device_that_is_not_there_is_one_sentence(make_audit: Callable[..., Audit]) -> None:
    for name in ("cuda:99", "gpu"):
        with pytest.raises(InputError, match=f"The device '{name}' cannot be used here"):
            make_audit().on(name)


def test_a_refused_model_keeps_its_mode(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    model = with_dropout()
    with pytest.raises(InputError, match="train mode"):
        make_audit(models={"net": model}).run(tmp_path)
    assert model.training
    assert model[1].training


@pytest.mark.subprocess
def test_importing_the_package_is_light() -> None:
    code = "import sys, veracity; print([name for name in ('captum', 'torch', 'pandas', 'jinja2', 'PIL', 'typer') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_labels_beside_the_inputs_are_noted_by_the_run_that_begins_a_folder(tmp_path: Path) -> None:
    def labels_noted(folder: Path) -> bool:
        asked = Audit(models=model, inputs={"x": torch.eye(4, 3), "label": torch.zeros(4).long()}, companions=False)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            asked.run(folder, progress=False)
        return any("taken for the labels" in str(one.message) for one in found)

    model = nn.Linear(3, 2)
    assert [labels_noted(tmp_path / name) for name in ("run", "run", "other")] == [True, False, True]


def test_notes_point_at_the_line_that_the_user_wrote(tmp_path: Path) -> None:
    asked = Audit(models=nn.Linear(3, 2), inputs={"x": torch.rand(4, 3), "label": torch.zeros(4).long()}, companions=False)
    with pytest.warns(Note) as found:
        asked.run(tmp_path / "run", progress=False)
    said = " ".join(str(one.message) for one in found)
    assert all(text in said for text in ("taken for the labels", "The audit chose"))
    assert {one.filename for one in found if one.category is Note} == {__file__}
