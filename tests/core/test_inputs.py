from __future__ import annotations

import pytest
import torch

from veracity.core.errors import InputError
from veracity.core.inputs import TensorInputs, TokenInputs


def test_samples_are_taken_by_number() -> None:
    inputs = TensorInputs(torch.arange(12.0).reshape(4, 3))
    assert inputs.size() == 4
    assert inputs.shape == (3,)
    assert inputs.take(torch.tensor([2, 0])).values.tolist() == [[6.0, 7.0, 8.0], [0.0, 1.0, 2.0]]


def test_the_fingerprint_follows_the_content() -> None:
    x = torch.rand(3, 2, generator=torch.Generator().manual_seed(0))
    assert TensorInputs(x).fingerprint() == TensorInputs(x.clone()).fingerprint()
    assert TensorInputs(x).fingerprint() != TensorInputs(x + 1e-6).fingerprint()
    assert TensorInputs(x).fingerprint() != TensorInputs(x.reshape(2, 3)).fingerprint()


@pytest.mark.parametrize(
    ("tensor", "sentence"),
    [
        (torch.zeros(3), r"shape \(samples, ...\)"),
        (torch.zeros(0, 3), "at least one sample"),
        (torch.zeros(2, 3, dtype=torch.uint8), "floating point"),
        (torch.tensor([[1.0], [torch.nan]]), "1 of 2 inputs hold NaN or infinity; the first is sample 1"),
    ],
)
def test_bad_inputs_are_one_sentence(tensor: torch.Tensor, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        TensorInputs(tensor)


IDS = torch.tensor([[2, 0, -1], [1, 1, 1]])


def test_tokens_are_one_hot_and_padding_is_nothing() -> None:
    tokens = TokenInputs(IDS, vocabulary=3)
    values = tokens.take(torch.tensor([1, 0])).values
    assert (tokens.size(), tuple(tokens.shape)) == (2, (3, 3))
    assert values[0].tolist() == [[0, 1, 0]] * 3
    assert values[1].tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]
    assert IDS.tolist() == [[2, 0, -1], [1, 1, 1]]


def test_the_hash_follows_content_and_vocabulary() -> None:
    one = TokenInputs(IDS, vocabulary=3).fingerprint()
    assert one == TokenInputs(IDS.clone(), vocabulary=3).fingerprint()
    assert len({one, TokenInputs(IDS, vocabulary=4).fingerprint(), TokenInputs(IDS.flip(0), vocabulary=3).fingerprint()}) == 3


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.zeros(2, 3), "whole numbers of shape"),
        (torch.zeros(0, 3, dtype=torch.long), "at least one sample"),
        (torch.tensor([[3]]), "found 3"),
        (torch.tensor([[-2]]), "found -2"),
    ],
)
def test_tokens_that_are_none(ids: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TokenInputs(ids, vocabulary=3)
