from __future__ import annotations

import pytest
import torch

from veracity.core.errors import SpecError
from veracity.explain.ablation import as_row, check_baseline


def test_a_baseline_takes_the_inputs_type_and_shape() -> None:
    inputs = torch.zeros(4, 2, 3, dtype=torch.float64)
    assert as_row(1.5, inputs).shape == (1, 2, 3)
    assert as_row(1.5, inputs).dtype == torch.float64
    assert as_row(torch.tensor([1.0, 2.0, 3.0]), inputs).tolist() == [[[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]]


def test_misfits_are_named() -> None:
    shape = torch.Size((2, 3))
    check_baseline("lime", 0.0, shape)
    check_baseline("lime", torch.zeros(1, 3), shape)
    for wrong in (torch.zeros(2), torch.zeros(4, 2, 3)):
        with pytest.raises(SpecError, match=r"The baseline of lime has shape .* one input has shape \(2, 3\)"):
            check_baseline("lime", wrong, shape)
