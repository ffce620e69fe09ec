from __future__ import annotations

import pandas as pd
import pytest
import torch
from torch import Size

from veracity.core.errors import SpecError
from veracity.explain.maps import apart, in_shape, map_tensor


@pytest.mark.parametrize("given", [(2, 5, 4), (2, 1, 5, 4), (2, 5, 4, 1), (2, 3, 1, 1), (2, 3, 5, 4), (2, 5, 1), (2, 4), (2, 3, 5), (2,)])
def test_maps_are_repeated_as_broadcasting_would(given: tuple[int, ...]) -> None:
    maps, found = torch.rand(given), in_shape(torch.rand(given), Size((3, 5, 4)))
    fits = given in [(2, 5, 4), (2, 1, 5, 4), (2, 5, 4, 1), (2, 3, 1, 1), (2, 3, 5, 4)]
    assert (found is not None) == fits
    if given in [(2, 5, 4), (2, 5, 4, 1)]:
        expected = maps.reshape(2, 1, 5, 4).expand(2, 3, 5, 4)
        assert torch.equal(torch.as_tensor(in_shape(maps, Size((3, 5, 4)))), expected)


def test_features_of_a_vector_are_never_made_up() -> None:
    assert in_shape(torch.ones(2, 3), Size((4,))) is None
    assert in_shape(torch.ones(2), Size((4,))) is None


def test_distances() -> None:
    base = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert apart(base, base + 1e-7) == pytest.approx(1.0)  # a row of zeros has no size but the other's
    assert apart(base[:1], base[:1] * (1 + 1e-7)) == 0.0
    assert apart(base, base[:, :1]) == 0.0
    assert apart(base[:1], torch.tensor([[torch.nan, 4.0]])) == pytest.approx(0.6)


def test_maps_of_objects_are_called_so() -> None:
    with pytest.raises(SpecError, match=r"not one of type object: pass maps.astype\(float\)"):
        map_tensor(pd.DataFrame([[1.0, 2.0]], dtype=object))
