"""The rules that every kind of data set must follow, as tests for pytest.

class TestMyInputs(InputsConformance):
    def inputs(self):
        return MyInputs(...)
    def model(self):
        return my_network
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import nn

from veracity.core.inputs import Inputs


class InputsConformance(ABC):
    """The rules for a data set, one test each. A subclass brings at least three samples and a model for them."""

    tolerance = 1e-5
    """The largest difference between the scores of a sample alone and in a batch."""

    @abstractmethod
    def inputs(self) -> Inputs:
        """A data set of different samples."""

    @abstractmethod
    def model(self) -> nn.Module:
        """A model for the samples, in evaluation mode."""

    def test_samples_have_the_shape(self) -> None:
        """`take` gives floating-point values (N, *shape), and structure with one row per sample."""
        inputs = self.inputs()
        signals = inputs.take(torch.arange(inputs.size()))
        expected = (inputs.size(), *inputs.shape)
        assert tuple(signals.values.shape) == expected, f"values have shape {tuple(signals.values.shape)}, expected {expected}"
        assert signals.values.is_floating_point(), f"values must be floating-point numbers, not {signals.values.dtype}"
        assert all(len(part) == inputs.size() for part in signals.structure), "structure must have one row per sample"

    def test_samples_are_taken_by_index(self) -> None:
        """A sample is the same whichever others are taken with it, in any order and twice."""
        inputs = self.inputs()
        every, some = inputs.take(torch.arange(inputs.size())), inputs.take(torch.tensor([2, 0, 2]))
        for whole, part in zip((every.values, *every.structure), (some.values, *some.structure), strict=True):
            assert torch.equal(whole[torch.tensor([2, 0, 2])], part), "taking samples 2, 0, 2 gives other samples"

    def test_what_is_taken_is_a_copy(self) -> None:
        """Writing into taken values does not change the data set."""
        inputs = self.inputs()
        before = inputs.take(torch.tensor([0])).values.clone()
        inputs.take(torch.tensor([0])).values.add_(1.0)
        assert torch.equal(inputs.take(torch.tensor([0])).values, before), "writing into taken values changed the data set"

    def test_the_key_follows_the_content(self) -> None:
        """The same data set has the same key."""
        assert self.inputs().fingerprint() == self.inputs().fingerprint(), "the same data set has two keys"

    def test_the_adapted_model_takes_the_samples(self) -> None:
        """The adapted model gives one row per sample, the same alone and in a batch, and keeps gradients of a network."""
        inputs = self.inputs()
        model = inputs.adapt(self.model()).eval()
        signals = inputs.take(torch.arange(inputs.size()))
        with torch.no_grad():
            together = signals.through(model)
            alone = torch.cat([signals[torch.tensor([row])].through(model) for row in range(len(signals))])
        assert len(together) == inputs.size(), f"{inputs.size()} samples gave {len(together)} rows"
        assert float((together - alone).abs().max()) <= self.tolerance, "the scores of a sample depend on the rest of the batch"
