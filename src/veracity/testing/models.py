"""The rules that every model adapter must follow, as tests for pytest.

class TestMyAdapter(ModelConformance):
    def given(self):
        return my_library.load("model.bin")
    def inputs(self):
        return torch.rand(6, 4)
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.registry import MODELS
from veracity.models import as_model, readable_output


class ModelConformance(ABC):
    """The rules for an adapter, one test each. A subclass brings a model of its library and at least four inputs for it."""

    tolerance = 1e-5
    """The largest difference between the scores of a row alone and in a batch."""

    @abstractmethod
    def given(self) -> Any:
        """A model as its library makes it."""

    @abstractmethod
    def inputs(self) -> Tensor:
        """Different inputs (N, ...) for the model."""

    def adapted(self) -> nn.Module:
        """The model as audits use it."""
        return as_model("model", self.given()).eval()

    def scores(self, model: nn.Module, inputs: Tensor) -> Tensor:
        """Scores (N, ...), found in what the model returns as audits do."""
        output = model(inputs)
        return output if isinstance(output, Tensor) else readable_output(model, output)[1]

    def test_the_adapter_is_found(self) -> None:
        """`as_model` finds an adapter that gives the model a title."""
        model = self.adapted()
        assert isinstance(model, tuple(MODELS.values())), f"{type(self.given()).__name__} was not adapted, but is a {type(model).__name__}"
        assert getattr(model, "title", ""), "the adapter gives the model no title"

    def test_one_row_of_scores_per_input(self) -> None:
        """Scores are finite floating-point numbers, one row for each input, and do not depend on the rest of the batch."""
        model, inputs = self.adapted(), self.inputs()
        with torch.no_grad():
            together = self.scores(model, inputs)
            alone = torch.cat([self.scores(model, inputs[row : row + 1]) for row in range(len(inputs))])
        assert together.is_floating_point(), f"scores must be floating-point numbers, not {together.dtype}"
        assert len(together) == len(inputs), f"{len(inputs)} inputs gave {len(together)} rows of scores"
        assert bool(together.isfinite().all()), "a score is NaN or infinite"
        assert float((together - alone).abs().max()) <= self.tolerance, "the scores of an input depend on the rest of the batch"

    def test_inputs_come_back_untouched(self) -> None:
        """The model does not write into its inputs."""
        model, inputs = self.adapted(), self.inputs()
        before = inputs.clone()
        with torch.no_grad():
            model(inputs)
        assert torch.equal(inputs, before), "the model changed its inputs"

    def test_abilities_are_true(self) -> None:
        """An adapter that declares gradients or weights has them; one that does not says so in a sentence."""
        model: Any = self.adapted()
        leaf = self.inputs().clone().requires_grad_()
        assert model.weights == any(True for _ in model.parameters()), "weights= does not say whether there are parameters"
        with torch.enable_grad():
            scores = self.scores(model, leaf).sum()
            if model.gradients:
                assert torch.autograd.grad(scores, leaf)[0].abs().sum() > 0, "gradients=True, but the gradient is zero"
                return
            refusal = ""
            try:
                torch.autograd.grad(scores, leaf)
            except InputError as error:
                refusal = str(error)
            assert model.title in refusal, "gradients=False, but asking for one is not refused with a sentence that names the model"

    def test_the_key_stays(self) -> None:
        """The same model has the same key before and after use, and when it is adapted again."""
        model = self.adapted()
        before = fingerprint.of_model(model)
        with torch.no_grad():
            model(self.inputs())
        assert fingerprint.of_model(model) == before, "using the model changed its key"
        assert fingerprint.of_model(as_model("model", self.given()).eval()) == before, "adapting the model again changed its key"

    def test_it_travels_to_workers(self) -> None:
        """A copy that went through pickle, as for a worker process, gives the same scores."""
        model, inputs = self.adapted(), self.inputs()
        copy = pickle.loads(pickle.dumps(model))
        with torch.no_grad():
            assert torch.equal(self.scores(copy, inputs), self.scores(model, inputs)), "a pickled copy gives other scores"
