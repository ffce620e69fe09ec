"""Targets of outputs with a class per pixel or point, and with a token after every position."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import veracity
from veracity.core.dense_targets import Segmentation, Token, label_map, most_frequent, target_for
from veracity.core.errors import InputError
from veracity.core.targets import Class, Custom, Label, Predicted
from veracity.models import Converted


class Returns(nn.Module):
    """Returns the same outputs (N, ...), whatever the inputs."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output

    def forward(self, x: Tensor, *structure: Tensor) -> Tensor:
        return self.output


MAPS = torch.tensor([[[[3.0, 3.0], [3.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]], [[9.0, -9.0], [1.0, 0.5]]]])
"""One image of 2 x 2: three classes, whose largest scores are class 2, 0, 0, 1."""
X = torch.zeros(1, 1)


def chosen(target: Segmentation, output: Tensor, labels: Tensor | None = None) -> list[int]:
    model = Returns(output)
    found: list[int] = target.choose_by(target.decisions(model)(X), target.view(model)(X), labels).tolist()
    return found


def test_a_class_is_the_mean_of_its_scores_over_all_pixels_by_hand() -> None:
    assert Segmentation().view(Returns(MAPS))(X).tolist() == [[2.25, 0.25, 0.375]]


def test_a_region_keeps_its_pixels_alone_and_may_weigh_them() -> None:
    left = torch.tensor([[True, False], [True, False]])
    assert Segmentation(region=left).view(Returns(MAPS))(X).tolist() == [[3.0, 0.0, 5.0]]
    assert Segmentation(region=torch.tensor([[3.0, 1.0], [0.0, 0.0]])).view(Returns(MAPS))(X).tolist() == [[3.0, 0.0, 4.5]]
    with pytest.raises(InputError, match=r"must have the shape \(2, 2\) of the output and count some pixels.*shape \(3, 2\)"):
        Segmentation(region=torch.ones(3, 2)).view(Returns(MAPS))(X)
    with pytest.raises(InputError, match="counts 0"):
        Segmentation(region=torch.zeros(2, 2)).view(Returns(MAPS))(X)


def test_the_class_is_the_most_frequent_one_beside_the_background() -> None:
    crowded = torch.zeros(1, 3, 2, 3)
    for place, kind in enumerate((0, 0, 0, 2, 2, 1)):
        crowded[0, kind, place // 3, place % 3] = 1.0
    assert chosen(Segmentation(), crowded) == [2]
    assert chosen(Segmentation(background=None), crowded) == [0]
    assert chosen(Segmentation(background=2), crowded) == [0]
    assert chosen(Segmentation(index=1), crowded) == [1]
    assert chosen(Segmentation(region=torch.tensor([[1, 0, 0], [0, 0, 1]])), crowded) == [1]
    assert chosen(Segmentation(), torch.zeros(1, 3, 2, 2)) == [0], "nothing but background"
    assert chosen(Segmentation(), torch.zeros(1, 1, 2, 2)) == [0], "a single map"


def test_the_labels_may_name_the_class_and_void_pixels_do_not_count() -> None:
    labels = torch.tensor([[[255, 255], [255, 1]]])
    assert chosen(Segmentation(labelled=True), MAPS, labels) == [1]
    with pytest.raises(InputError, match=r"^A segmentation model has one label per pixel, 4 per sample.*\(1,\): pass label maps"):
        chosen(Segmentation(labelled=True), MAPS, torch.tensor([1]))
    with pytest.raises(InputError, match="needs targets"):
        chosen(Segmentation(labelled=True), MAPS)
    with pytest.raises(InputError, match="whole numbers, the class of every pixel"):
        label_map(torch.full((1, 2, 2), 0.5), torch.zeros(1, 4, 3))


def test_classes_may_come_last_as_for_points() -> None:
    points = MAPS.flatten(2).transpose(1, 2)
    target = Segmentation(axis=-1)
    assert target.view(Returns(points))(X).tolist() == [[2.25, 0.25, 0.375]]
    assert torch.equal(target.decisions(Returns(points))(X), points)
    assert chosen(target, points) == chosen(Segmentation(), MAPS)


def test_wrong_targets_are_one_sentence() -> None:
    with pytest.raises(
        InputError, match=r"^Segmentation\(axis=1\) needs a score for every class and pixel.*shape \(3,\): pass another target"
    ):
        Segmentation().view(Returns(torch.zeros(1, 3)))(X)
    with pytest.raises(InputError, match=r"The class of the segmentation must lie between 0 and 2.*found 7"):
        chosen(Segmentation(index=7), MAPS)
    with pytest.raises(InputError, match=r"^Token\(\.\.\.\) needs the scores of every token.*shape \(3,\)"):
        Token().view(Returns(torch.zeros(1, 3)))(X)
    with pytest.raises(InputError, match="The position 5 is outside of a text with 4 positions"):
        Token(position=5).view(Returns(torch.zeros(1, 4, 9)))(X)
    with pytest.raises(InputError, match=r"The token must lie between 0 and 8.*found 9"):
        Token(id=9).choose(torch.zeros(1, 9), None)


def test_a_token_is_read_after_its_position() -> None:
    output = torch.arange(24.0).reshape(1, 4, 6)
    assert Token().view(Returns(output))(X).tolist() == [[18.0, 19.0, 20.0, 21.0, 22.0, 23.0]]
    assert Token(position=1).view(Returns(output))(X)[0, 0] == 6.0
    scores = torch.tensor([[0.0, 2.0, 1.0]])
    assert Token().choose(scores, None).tolist() == [1]
    assert Token(id=2).choose(scores, None).tolist() == [2]
    assert Token(labelled=True).choose(scores, torch.tensor([2])).tolist() == [2]


class PaddedTexts(Returns):
    def real_positions(self, x: Tensor, mask: Tensor) -> Tensor:
        return mask.bool()


def test_positions_count_from_the_end_of_each_text_without_its_padding() -> None:
    output = torch.arange(2 * 4 * 3.0).reshape(2, 4, 3)
    model, mask = PaddedTexts(output), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    assert torch.equal(Token().view(model)(torch.zeros(2, 1), mask), torch.stack((output[0, 1], output[1, 3])))
    assert torch.equal(Token(position=-2).view(model)(torch.zeros(2, 1), mask), torch.stack((output[0, 0], output[1, 2])))
    assert torch.equal(Token(position=2).view(model)(torch.zeros(2, 1), mask), output[:, 2])
    converted = Converted(model, torch.float64)
    assert torch.equal(Token().view(converted)(torch.zeros(2, 1), mask), torch.stack((output[0, 1], output[1, 3])))


def test_names_and_numbers_mean_what_the_output_needs() -> None:
    pixels, tokens, row = torch.zeros(1, 3, 4, 4), torch.zeros(1, 5, 9), torch.zeros(1, 3)
    assert target_for(Predicted(), pixels) == Segmentation()
    assert target_for(Label(), pixels) == Segmentation(labelled=True)
    assert target_for(Class(index=2), tokens) == Token(id=2)
    assert target_for(Class(index=2), row) == Class(index=2)
    own = Custom(function=torch.sum)
    assert target_for(own, pixels) is own
    assert veracity.Segmentation is Segmentation
    assert veracity.Token is Token


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(-1, 4), min_size=6, max_size=6), min_size=1, max_size=3), st.sampled_from([None, 0, 2]))
def test_the_most_frequent_class_as_counted_the_slow_way(rows: list[list[int]], avoided: int | None) -> None:
    for row, found in zip(rows, most_frequent(torch.tensor(rows), 4, avoided).tolist(), strict=True):
        counts = {kind: sum(1 for one in row if one == kind) for kind in range(4) if kind != avoided}
        best = max(counts.values())
        expected = min(kind for kind, count in counts.items() if count == best) if best or avoided is None else avoided
        assert found == expected
