from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.onnx_files import small_network
from veracity.core.errors import InputError
from veracity.models import as_model, readable_output


def test_a_function_of_tensors_keeps_its_gradients() -> None:
    model = as_model("f", lambda x: x @ torch.tensor([[1.0], [2.0]]))
    x = torch.zeros(3, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x).sum(), x)
    assert gradient.tolist() == [[1.0, 2.0]] * 3


def test_a_function_of_arrays_answers_arrays_and_refuses_gradients() -> None:
    model = as_model("f", lambda x: np.tanh(x @ np.ones((2, 1))))
    x = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    scores = model(x)
    assert scores.tolist() == pytest.approx(np.full((3, 1), np.tanh(2.0)))
    with pytest.raises(InputError, match="The function 'lambda' has no gradients: choose an explainer that only needs outputs"):
        scores.sum().backward()


def test_a_function_of_tensors_without_gradient_is_called_with_tensors() -> None:
    network = small_network()

    @torch.no_grad()
    def predict(x: Tensor) -> Tensor:
        found: Tensor = network(x)
        return found

    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(as_model("f", predict)(x), network(x))


def test_an_error_of_the_function_is_its_own() -> None:
    def broken(x: Any) -> Any:
        raise ValueError("the service is down")

    with pytest.raises(ValueError, match="the service is down"):
        as_model("f", broken)(torch.zeros(2, 2))


def test_names_of_classes_are_no_scores() -> None:
    with pytest.raises(InputError, match="returns <U3 and not numbers: pass the method that returns scores"):
        as_model("f", lambda x: np.array(["cat"] * len(x)))(torch.zeros(2, 2))


def test_what_no_adapter_takes() -> None:
    with pytest.raises(InputError, match=r"Model 'mine' has the type int, which no adapter takes: pass a torch.nn.Module, a function"):
        as_model("mine", 3)


class Returning(nn.Module):
    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> Any:
        return self.make(x)


class Output:
    def __init__(self, logits: Tensor) -> None:
        self.loss, self.logits = logits.sum(), logits


@pytest.mark.parametrize(
    "make",
    [
        lambda x: 2 * x,
        lambda x: {"loss": x.sum(), "logits": 2 * x},
        lambda x: {"scores": 2 * x, "mask": x > 0},
        lambda x: (2 * x, x.sum()),
        lambda x: Output(2 * x),
        lambda x: {"anything": 2 * x},
    ],
)
def test_scores_are_found_in_structured_outputs(make: Any) -> None:
    x = torch.ones(1, 2)
    model = Returning(make)
    assert readable_output(model, model(x))[0](torch.ones(3, 2)).tolist() == [[2.0, 2.0]] * 3


def test_one_number_per_row_becomes_a_column() -> None:
    for make in (lambda x: x.sum(1), lambda x: {"logits": x.sum(1)}):
        model = Returning(make)
        assert readable_output(model, model(torch.ones(1, 2)))[0](torch.ones(3, 2)).shape == (3, 1)


def test_an_output_with_two_candidates_stays() -> None:
    model = Returning(lambda x: {"one": x, "other": x})
    assert readable_output(model, model(torch.ones(1, 2)))[0] is model
