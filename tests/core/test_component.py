from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from veracity.core.component import Component, encode_callable, encode_setting
from veracity.explain import GradientShap
from veracity.scores.symmetry import Equivariance


def mine(x: Tensor, scale: float = 1.0) -> Tensor:
    return x * scale


def test_a_spec_is_plain_data_with_every_setting() -> None:
    spec = Equivariance().spec()
    assert json.loads(json.dumps(spec)) == {
        "name": "equivariance",
        "measure": None,
        "space": None,
        "walk": None,
        "common_draws": False,
    }


def test_a_tensor_setting_counts_by_its_content() -> None:
    one, two, other = (GradientShap(baselines=value).spec() for value in (torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(2, 3)))
    assert one == two
    assert one != other


def test_a_function_counts_by_its_source_and_by_what_it_holds() -> None:
    assert encode_callable(mine) == encode_callable(mine)
    assert encode_callable(partial(mine, scale=2.0)) != encode_callable(partial(mine, scale=3.0))

    def scaled(factor: float) -> object:
        return lambda x: x * factor

    assert encode_callable(scaled(2.0)) != encode_callable(scaled(3.0))
    assert encode_callable(scaled(2.0)) == encode_callable(scaled(2.0))


def test_the_summary_is_the_first_sentence() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Thing(Component):
        """One sentence
        over two lines.

        More.
        """

    assert Thing.summary() == "One sentence over two lines."


def test_numbers_of_numpy_are_plain_data() -> None:
    assert encode_setting({"steps": np.int64(3), "rates": (np.float32(0.5), True)}) == {"steps": 3, "rates": [0.5, True]}
    assert type(encode_setting(np.int64(3))) is int
