from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from veracity.explain.passes import gradients, in_batches, mean_over_items, pairs, pick, scores, value_table

COUNT = st.integers(1, 12)


class Cubic(nn.Module):
    """Scores (sum of x³, 2 sum of x²)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack((x.pow(3).sum((1, 2)), 2 * x.pow(2).sum((1, 2))), dim=1)


@settings(max_examples=40, deadline=None)
@given(rows=COUNT, items=COUNT, batch=COUNT)
def test_pairs_come_once_in_full_batches(rows: int, items: int, batch: int) -> None:
    chunks = list(pairs(rows, items, batch))
    assert [len(row) for row, _ in chunks[:-1]] == [batch] * (len(chunks) - 1)
    found = [(int(r), int(i)) for row, item in chunks for r, i in zip(row, item, strict=True)]
    assert found == [(r, i) for i in range(items) for r in range(rows)]


@settings(max_examples=40, deadline=None)
@given(rows=COUNT, items=COUNT, batch=COUNT)
def test_table_and_mean_are_the_loop(rows: int, items: int, batch: int) -> None:
    truth = torch.randn(rows, items, generator=torch.Generator().manual_seed(rows * items))
    table = value_table(lambda row, item: truth[row, item], rows, items, batch, torch.device("cpu"))
    assert torch.equal(table, truth)
    mean = mean_over_items(lambda row, item: truth[row, item][:, None], torch.zeros(rows, 1), items, batch)
    torch.testing.assert_close(mean, truth.mean(1, keepdim=True))


def test_scores_and_gradients_by_hand() -> None:
    x, targets = torch.tensor([[[1.0, 2.0]], [[3.0, -1.0]]]), torch.tensor([0, 1])
    assert scores(Cubic(), x, targets).tolist() == [9.0, 20.0]
    assert gradients(Cubic(), x, targets).tolist() == [[[3.0, 12.0]], [[12.0, -4.0]]]


def test_gradients_pass_a_first_layer_that_works_in_place() -> None:
    x = torch.tensor([[1.0, -2.0]])
    assert gradients(nn.Sequential(nn.ReLU(inplace=True)), x, torch.tensor([0])).tolist() == [[1.0, 0.0]]
    assert x.tolist() == [[1.0, -2.0]]


def test_one_target_serves_all_rows() -> None:
    assert pick(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1])).tolist() == [2.0, 4.0]


def test_by_rows_keeps_the_order() -> None:
    x, t = torch.arange(5.0)[:, None], torch.arange(5)
    sizes: list[int] = []

    def double(rows: torch.Tensor, targets: torch.Tensor, _structure: object) -> torch.Tensor:
        sizes.append(len(rows))
        return 2 * rows + targets[:, None]

    assert in_batches(double, x, t, 2).flatten().tolist() == [0, 3, 6, 9, 12]
    assert sizes == [2, 2, 1]
