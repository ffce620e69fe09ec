from __future__ import annotations

import pytest
import torch
from torch import nn

from veracity.core.fingerprint import Hasher, groups_of_bytes, of_bytes, of_model, of_tensor, place_of
from veracity.core.inputs import TensorInputs, samples_on, samples_to_read
from veracity.core.scores import Reading, Reads, RowsOf
from veracity.core.transfer import fetch, send

CPU, GPU = torch.device("cpu"), torch.device("cuda")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def test_a_tensor_that_is_there_stays_as_it_is() -> None:
    x = torch.ones(2)
    assert send(x, CPU) is x
    assert fetch(x)() is x


@needs_gpu
def test_tensors_go_to_a_gpu_and_back_beside_its_work() -> None:
    x = torch.arange(1000.0)
    there = send(x, GPU)
    back = fetch(there)
    there.add_(1.0)
    torch.cuda.synchronize()
    assert torch.equal(send(x, GPU).cpu(), x)
    assert back().shape == x.shape


def test_consecutive_samples_are_read_where_they_are_and_copied_for_use() -> None:
    data = TensorInputs(torch.arange(12.0).reshape(6, 2))
    seen = samples_to_read(data, torch.arange(2, 5)).values
    assert seen.tolist() == [[4, 5], [6, 7], [8, 9]]
    assert seen.data_ptr() == data.tensor[2].data_ptr()
    for index in (torch.arange(2, 5), torch.tensor([5, 0, 0])):
        used = samples_on(data, index, CPU).values
        assert torch.equal(used, data.tensor[index])
        used.add_(1.0)
    assert torch.equal(data.tensor, torch.arange(12.0).reshape(6, 2))


@pytest.mark.parametrize("index", [[0, 2, 1, 3], [1, 1, 2], [3, 2, 1], [0]])
def test_samples_to_read_are_those_that_are_taken(index: list[int]) -> None:
    data = TensorInputs(torch.rand(4, 3))
    assert torch.equal(samples_to_read(data, torch.tensor(index)).values, data.take(torch.tensor(index)).values)


def test_a_row_is_gathered_when_it_is_asked_for() -> None:
    whole = {Reads.INPUT: torch.arange(6.0).reshape(3, 2), Reads.SCORES: torch.arange(3.0)[:, None]}
    rows = RowsOf(whole, torch.tensor([2, 0, 2]))
    reading = Reading(torch.zeros(3, dtype=torch.long), rows)
    assert reading.shape == torch.Size([2])
    assert rows.gathered == {}
    assert reading.scores.flatten().tolist() == [2, 0, 2]
    assert list(rows.gathered) == [Reads.SCORES]
    assert reading.scores is reading.scores
    assert (len(rows), Reads.INPUT in rows, Reads.FIELD in rows, set(rows)) == (2, True, False, set(whole))


def test_bytes_in_one_row_hash_like_their_tensors() -> None:
    tensors = [torch.rand(3, 2), torch.tensor(5), torch.rand(4, dtype=torch.float64), torch.arange(7, dtype=torch.int8)]
    groups = list(groups_of_bytes(tensors, 32))
    assert [len(group) for group in groups] == [2, 1, 1]
    for group in groups:
        parts = torch.cat([one.reshape(-1).view(torch.uint8) for one in group]).split([one.nbytes for one in group])
        assert [of_bytes(one, part) for one, part in zip(group, parts, strict=True)] == [of_tensor(one) for one in group]


def test_nothing_is_read_ahead_from_the_cpu() -> None:
    hasher = Hasher()
    hasher.read_ahead(nn.Linear(2, 2).parameters())
    assert hasher.stored == {}


@needs_gpu
def test_a_model_has_one_hash_on_every_device() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))
    here = of_model(model)
    assert of_model(model.cuda()) == here
    hasher = Hasher()
    hasher.read_ahead(model.parameters())
    assert {place_of(one) for one in model.parameters()} == set(hasher.stored)
