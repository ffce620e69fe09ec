"""Everything a run needs, resolved and checked: what travels to the workers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor, nn

from veracity.core.explainers import Explainer
from veracity.core.inputs import Inputs
from veracity.core.scores import Defaults, Score
from veracity.core.targets import Target


class Outputs(Enum):
    """What a model's outputs are, so that they can be read as probabilities."""

    LOGITS = "logits"
    PROBABILITIES = "probabilities"
    RAW = "raw"

    def read(self, output: Tensor) -> Tensor:
        """Probabilities (N, K) where there are any, else the outputs as they are, flattened."""
        if self is Outputs.LOGITS and output.shape[1] == 1:
            yes = torch.sigmoid(output)
            return torch.cat((1 - yes, yes), dim=1)
        return torch.softmax(output, dim=1) if self is Outputs.LOGITS else output.reshape(len(output), -1)

    @staticmethod
    def detect(output: Tensor) -> Outputs:
        """Several numbers a sample that all lie in [0, 1] are probabilities, other (N, K) outputs logits."""
        if output.ndim != 2:
            return Outputs.RAW
        unit = bool(((output >= 0) & (output <= 1)).all())
        return Outputs.PROBABILITIES if unit and output.shape[1] > 1 else Outputs.LOGITS


@dataclass(frozen=True)
class AuditedModel:
    """A model, what its outputs are (and whether that is a mere guess), and which output of each sample is explained."""

    module: nn.Module
    fingerprint: str
    outputs: Outputs
    targets: Tensor
    guessed: bool = False


@dataclass(frozen=True)
class Problem:
    """Models, data, explainers and scores by label, and the seed that every random number follows from."""

    models: dict[str, AuditedModel]
    inputs: Inputs
    explainers: dict[str, Explainer]
    scores: dict[str, Score]
    target: Target
    defaults: Defaults
    seed: int
