from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veracity import Audit


class Named(nn.Module):
    """A network with an attribute that estimators have too."""

    def __init__(self, classes: object) -> None:
        super().__init__()
        self.classes = classes
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x)
        return scores


@pytest.mark.parametrize("classes", [3, np.array([0, 1, 2]), ["a", "b", "c"]], ids=["count", "array", "names"])
def test_classes_of_a_users_network_are_its_own_business(classes: object) -> None:
    audit = Audit(
        models=Named(classes).eval(), inputs=torch.rand(5, 4), targets=[0, 1, 2, 0, 1], explainers=["saliency"], scores=["sparseness"]
    )
    assert audit.prepare().accuracies["model"] is not None
