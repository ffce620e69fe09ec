"""The rules that every score of explanations must follow, as tests for pytest.

class TestMyScore(ScoreConformance):
    def score(self):
        return MyScore(draws=3)
"""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.measures import Direction
from veracity.core.randomness import Draws
from veracity.core.scores import Score

EXPLAINERS = ("gradient", "smooth_grad")
"""A deterministic explainer and a random one."""


def gradient_times(factor: float) -> Any:
    """An explainer: the gradient, multiplied."""

    def scaled(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        x = inputs.detach().clone().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(model(x).gather(1, targets[:, None]).sum(), x)
        return factor * gradient

    return scaled


class ScoreConformance(ABC):
    """The rules for a score, one test each. A subclass names the score, and may give another model, other inputs and settings."""

    settings: dict[str, Any] = {}  # noqa: RUF012 - a subclass replaces it
    """Further arguments of `Audit`, such as a symmetry."""

    @abstractmethod
    def score(self) -> Score:
        """The score under test."""

    def model(self) -> nn.Module:
        """A small classifier of the inputs."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, 3)).eval()

    def inputs(self) -> Tensor:
        """Four inputs."""
        return Draws.of(0, torch.arange(4)).normal(1, 8, 8, stream="score conformance").float()

    def measure(self, explainers: Any = EXPLAINERS, batch: int | None = None) -> pd.DataFrame:
        """The values of the score, one row per model, explainer and sample."""
        audit = Audit(
            models=self.model(),
            inputs=self.inputs(),
            explainers=explainers,
            scores=[self.score()],
            controls=False,
            companions=False,
            **self.settings,
        )
        with tempfile.TemporaryDirectory() as folder:
            result = audit.run(folder, batch=batch, progress=False)
            assert result.failures().empty, f"the score fails: {result.failures()['error'].iloc[0]}"
            return result.samples(self.score().name)

    def test_values_lie_in_the_bounds(self) -> None:
        """Every value lies between the score's bounds, and something is defined."""
        low, high = self.score().bounds
        values = self.measure()["value"].to_numpy(float)
        values = values[np.isfinite(values)]
        assert len(values), "the score is undefined for every sample"
        inside = (values >= low - 1e-9) & (values <= high + 1e-9)
        assert inside.all(), f"values from {values.min()} to {values.max()} leave [{low}, {high}]"

    def test_batch_size_does_not_matter(self) -> None:
        """One row at a time gives the same numbers as all rows at once."""
        many, few = (self.measure(batch=batch)["value"].to_numpy(float) for batch in (None, 1))
        np.testing.assert_allclose(few, many, rtol=1e-5, atol=1e-6, err_msg="values depend on the batch size")

    def test_undefined_is_nan(self) -> None:
        """A map of zeros gives a number or NaN, never an error or an infinity."""
        values = self.measure({"zeros": lambda model, inputs, targets: torch.zeros_like(inputs)})["value"].to_numpy(float)
        assert not np.isinf(values).any(), "a map of zeros scores an infinity; return NaN"

    def test_map_units_are_declared(self) -> None:
        """Multiplying maps by 4 changes the value if and only if the score says `in_map_units`."""
        one, four = (self.measure({"scaled": gradient_times(factor)})["value"].to_numpy(float) for factor in (1.0, 4.0))
        same = np.allclose(one, four, rtol=1e-4, atol=1e-5, equal_nan=True)
        declared = self.score().in_map_units
        assert same != declared, f"in_map_units is {declared}, but maps score {one}, and maps times 4 score {four}"

    def test_describes_itself(self) -> None:
        """The score has a name, a first sentence, a direction, ordered bounds, and a spec that JSON can write."""
        score = self.score()
        assert score.name, "the score has no name"
        assert type(score).summary(), "the score's docstring has no first sentence"
        assert isinstance(score.direction, Direction), "direction must be a Direction"
        assert score.bounds[0] < score.bounds[1], f"bounds {score.bounds} are not in order"
        json.dumps(score.spec())
