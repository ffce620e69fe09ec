from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import veracity
from veracity.core.errors import InputError, Note, SpecError
from veracity.explain import KernelShap
from veracity.inputs import SeveralInputs
from veracity.models import as_model


def parts(rows: int = 6) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    return {
        "image": torch.rand(rows, 1, 4, 4, generator=draw),
        "table": torch.rand(rows, 3, generator=draw),
        "kind": torch.arange(rows) % 2,
    }


class Network(nn.Module):
    """A linear function of three inputs, so that attributions are known."""

    def __init__(self) -> None:
        super().__init__()
        self.pixels, self.columns = nn.Parameter(torch.arange(16.0)), nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))

    def forward(self, image: Tensor, table: Tensor, kind: Tensor) -> Tensor:
        score = image.flatten(1) @ self.pixels + (1 + kind) * (table @ self.columns)
        return torch.stack([score, torch.zeros_like(score)], dim=1)


def test_all_parts_reach_the_model() -> None:
    given = parts()
    for explain in (None, "image", "table", ("table", "image")):
        inputs = SeveralInputs(given, explain)
        signals = inputs.take(torch.arange(6))
        assert torch.allclose(signals.through(inputs.adapt(Network())), Network()(**given))


def test_parts_without_names_come_in_their_order() -> None:
    given = {f"input_{number}": part for number, part in enumerate(parts().values())}
    inputs = SeveralInputs(given)
    assert torch.allclose(inputs.take(torch.arange(6)).through(inputs.adapt(Network())), Network()(**parts()))


@pytest.mark.parametrize("explain", ["image", "table", None])
def test_attributions_of_a_linear_model_are_its_terms(explain: Any, tmp_path: Path) -> None:
    given = parts()
    names = ["input_x_gradient", "integrated_gradients", "feature_ablation", "kernel_shap"]
    audit = veracity.Audit(
        models=Network(),
        inputs=SeveralInputs(given, explain),
        explainers={name: KernelShap(patch=1, samples=400) if name == "kernel_shap" else name for name in names},
        scores=["complexity"],
        target=0,
        outputs="raw",
        controls=False,
        companions=False,
    )
    result = audit.run(tmp_path / "run", progress=False)
    terms = {"image": given["image"].flatten(1) * torch.arange(16.0)}
    terms["table"] = given["table"] * torch.tensor([1.0, -2.0, 3.0]) * (1 + given["kind"][:, None])
    expected = terms[explain] if explain else torch.cat(list(terms.values()), dim=1)
    for name in names:
        assert torch.allclose(result.explanations("model", name).flatten(1), expected, atol=1e-4), name


@pytest.mark.parametrize(
    ("explain", "sentence"),
    [
        ("pixels", "Unknown part of the inputs 'pixels'"),
        ("kind", "The part 'kind' holds int64, which cannot be explained by small changes"),
    ],
)
def test_parts_that_cannot_be_explained(explain: str, sentence: str) -> None:
    with pytest.raises((InputError, SpecError), match=sentence):
        SeveralInputs(parts(), explain)


def test_no_part_in_floating_point() -> None:
    with pytest.raises(InputError, match="None of the parts kind is in floating point"):
        SeveralInputs({"kind": torch.arange(3)})


def test_a_function_and_a_module_get_parts_by_their_names() -> None:
    given = {"image": torch.full((2, 3), 2.0), "age": torch.full((2, 1), 10.0)}

    def older(age: Tensor, image: Tensor) -> Tensor:
        return torch.cat([10 * age, image.sum(1, keepdim=True)], dim=1)

    def named(**both: Tensor) -> Tensor:
        return older(both["age"], both["image"])

    def arrays(age: Any, **others: Any) -> Any:
        return np.concatenate([10 * age, others["image"].sum(1, keepdims=True)], axis=1)

    class More(nn.Module):
        def forward(self, age: Tensor, **others: Tensor) -> Tensor:
            return torch.cat([others["image"].sum(1, keepdim=True), age], dim=1)

    inputs = SeveralInputs(given)
    signals = inputs.take(torch.arange(2))
    for function in (older, named, arrays):
        assert signals.through(inputs.adapt(as_model("f", function))).tolist() == [[100.0, 6.0]] * 2
    assert signals.through(inputs.adapt(More())).tolist() == [[6.0, 10.0]] * 2


class Pair(nn.Module):
    def forward(self, left: Tensor, right: Tensor, scale: float = 1.0) -> Tensor:
        return torch.cat([left, right[:, :1] * scale], dim=1)


@pytest.mark.parametrize("model", [Pair(), lambda left, right: left + right], ids=["module", "function"])
@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("right", "Left"), "The inputs are called right, Left, but the model takes left, right.* and does not know Left: give the arrays"),
        (("r", "l"), "does not know r, l: .* or pass a tuple of arrays in its order"),
    ],
)
def test_names_that_the_model_does_not_have(model: Any, names: tuple[str, ...], sentence: str) -> None:
    given = {name: torch.rand(2, 2) for name in names}
    with pytest.raises(InputError, match=sentence):
        veracity.Audit(models=model, inputs=given, explainers=["lime"], scores=["sparseness"]).prepare()


def test_any_number_of_inputs_come_in_their_order() -> None:
    class Sum(nn.Module):
        def forward(self, *all_of_them: Tensor) -> Tensor:
            return all_of_them[0] - all_of_them[1]

    inputs = SeveralInputs({"a": torch.full((2, 1), 3.0), "b": torch.ones(2, 1)})
    for model in (Sum(), as_model("f", lambda *both: both[0] - both[1])):
        assert inputs.take(torch.arange(2)).through(inputs.adapt(model)).tolist() == [[2.0]] * 2


def test_parts_of_other_shapes_are_named() -> None:
    given = {"left": torch.rand(2, 2), "right": torch.rand(2, 2, 2, 2)}
    with pytest.raises(InputError, match=r"cannot take inputs of shape \(1, 2\) \(left\), \(1, 2, 2, 2\) \(right\) and type float32"):
        veracity.Audit(models=Pair(), inputs=given, explainers=["lime"], scores=["sparseness"]).prepare()


def test_each_part_keeps_its_type() -> None:
    kinds = {"a": torch.float32, "b": torch.float64, "c": torch.float32}
    inputs = SeveralInputs({name: torch.full((2, 1), 0.1, dtype=kind) for name, kind in kinds.items()})
    seen: list[torch.dtype] = []

    class Look(nn.Module):
        def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
            seen.extend(part.dtype for part in (a, b, c))
            return a + b + c

    signals = inputs.take(torch.arange(2))
    signals.through(inputs.adapt(Look()))
    assert signals.values.dtype is torch.float64
    assert seen == list(kinds.values())


@pytest.mark.parametrize("explain", [None, "image"])
def test_parts_get_the_type_of_the_weights(explain: str | None) -> None:
    net, given = Network(), parts()
    double = {name: part.double() if part.is_floating_point() else part for name, part in given.items()}
    inputs = SeveralInputs(double, explain)
    assert torch.equal(inputs.take(torch.arange(6)).through(inputs.adapt(net)), net(**given))
    audits: dict[str, Any] = {"scores": ["sparseness"], "explainers": ["gradient"], "controls": False, "companions": False}
    audit = veracity.Audit(models=net, inputs=inputs, **audits)
    with pytest.warns(Note, match="The inputs are float64 and were converted to float32, the type of the model's weights"):
        audit.prepare()
    assert audit.data.fingerprint() == SeveralInputs(given, explain).fingerprint()
    veracity.Audit(models={"net": net, "double": Network().double()}, inputs=inputs, **audits).prepare()  # each in its own type


def test_a_run_says_how_much_each_part_gets(tmp_path: Path) -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([1.0, -1.0]))

        def forward(self, image: Tensor, table: Tensor) -> Tensor:
            both = image.flatten(1).sum(1) * self.weight[0] + (table * torch.tensor([8.0, -8.0, 0.0])).sum(1)
            return torch.stack([both, -both], dim=1)

    given = {name: part for name, part in parts().items() if name != "kind"}
    audit = veracity.Audit(models=Weighted(), inputs=given, explainers=["gradient"], scores=["sparseness"], controls=False)
    result = audit.run(tmp_path / "run", progress=False)
    assert result.manifest["data"]["parts"] == [{"name": "image", "shape": [1, 4, 4]}, {"name": "table", "shape": [3]}]
    assert dict(zip(result.attributions()["feature"], result.attributions()["share"], strict=True)) == {"image": 0.5, "table": 0.5}
    page = result.save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h2>Parts</h2>" in page
    assert "6: image (1 \N{MULTIPLICATION SIGN} 4 \N{MULTIPLICATION SIGN} 4) and table (3)" in page
