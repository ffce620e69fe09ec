"""What a model's outputs are, so that they can be read as probabilities."""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor

SINGLE = "the single output is read as a logit, sigmoid(output); if it is not one, pass outputs='raw' or 'probabilities'."
UNSUMMED = "the outputs lie between 0 and 1 but do not sum to 1, and are read as probabilities; if they are logits, say so with outputs=..."


class Outputs(Enum):
    """Logits, probabilities, or numbers of another kind."""

    LOGITS = "logits"
    PROBABILITIES = "probabilities"
    RAW = "raw"

    def read(self, output: Tensor) -> Tensor:
        """Probabilities (N, K) where there are any, else the outputs as they are, flattened; one logit or probability is that of yes.

        >>> Outputs.PROBABILITIES.read(torch.tensor([[0.25]]))
        tensor([[0.7500, 0.2500]])
        """
        output = output if output.ndim > 1 else output.unsqueeze(1)
        if self is not Outputs.RAW and output.shape[1] == 1:
            yes = torch.sigmoid(output) if self is Outputs.LOGITS else output
            return torch.cat((1 - yes, yes), dim=1).flatten(1)
        return (torch.softmax(output, dim=1) if self is Outputs.LOGITS else output).flatten(1)

    @staticmethod
    def detect(output: Tensor) -> Outputs:
        """Several numbers a sample that all lie in [0, 1] are probabilities, other (N, K) outputs logits."""
        if output.ndim != 2:
            return Outputs.RAW
        unit = bool(((output >= 0) & (output <= 1)).all())
        return Outputs.PROBABILITIES if unit and output.shape[1] > 1 else Outputs.LOGITS

    def doubt(self, output: Tensor) -> str | None:
        """What a reader must know where outputs (N, K) were recognised, and could be something else.

        >>> Outputs.PROBABILITIES.doubt(torch.tensor([[0.3, 0.7]])) is None
        True
        """
        if self is Outputs.LOGITS and output.ndim == 2 and output.shape[1] == 1:
            return SINGLE
        summed = output.ndim == 2 and bool(((output.double().sum(dim=1) - 1.0).abs() < 1e-3).all())
        return UNSUMMED if self is Outputs.PROBABILITIES and not summed else None
