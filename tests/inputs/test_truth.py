"""Ground truth as boxes of images and as features of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Size, nn

from masked import inputs
from veracity import Audit
from veracity.core.errors import InputError, VeracityError
from veracity.core.features import Features
from veracity.engine.resolve import as_truth
from veracity.inputs import Boxes, RelevantFeatures, TableInputs
from veracity.inputs.truth import BoxMasks


def test_boxes_by_hand() -> None:
    found = Boxes([[(0, 0, 2, 1), (1, 1, 3, 2)], None, [], (2, 0, 3, 2)]).masks(Size((3, 2, 3)), 4)
    assert found.shape == (4, 1, 2, 3)
    found = found[:]
    assert found.shape == (4, 1, 2, 3)
    assert found[:, 0].int().tolist() == [[[1, 1, 0], [0, 1, 1]], [[0, 0, 0]] * 2, [[0, 0, 0]] * 2, [[0, 0, 1]] * 2]


def test_arrays_of_boxes() -> None:
    nan = np.nan
    array = np.array([[[0, 0, 1, 1], [1, 0, 2, 1]], [[0, 1, 2, 2], [nan] * 4]])
    lists = Boxes([[(0, 0, 1, 1), (1, 0, 2, 1)], [(0, 1, 2, 2)]]).masks(Size((1, 2, 2)), 2)[:]
    for form in (array, torch.from_numpy(array), list(array), [torch.from_numpy(one) for one in array]):
        assert torch.equal(Boxes(form).masks(Size((1, 2, 2)), 2)[:], lists)
    one_each = Boxes(np.array([[0, 0, 1, 1], [0, 1, 2, 2]])).masks(Size((1, 2, 2)), 2)[:]
    assert one_each[:, 0].int().tolist() == [[[1, 0], [0, 0]], [[0, 0], [1, 1]]]


def test_boxes_of_many_large_images_are_held_as_boxes() -> None:
    """As masks, they would take 3,000 x 4,000 x 4,000 bytes, 48 GB."""
    boxes = [[(number, 0, number + 1, 2)] * (number % 3) for number in range(3_000)]
    found = as_truth(Boxes(boxes), Size((3, 4_000, 4_000)), 3_000)
    assert isinstance(found, BoxMasks)
    assert found.shape == (3_000, 1, 4_000, 4_000)
    assert found.pixels.nbytes + found.starts.nbytes < 300_000
    some = found[torch.tensor([2_999, 5, 2_998])]
    assert some.shape == (3, 1, 4_000, 4_000)
    assert some.sum(dim=(1, 2, 3)).tolist() == [2, 2, 2]
    assert some[1, 0, :3, 4:7].int().tolist() == [[0, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert not found[:1].any()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_some_masks_are_those_of_all(counts: list[int], random: Any) -> None:
    boxes = [[(x := random.randrange(4), y := random.randrange(3), x + 1, y + random.randrange(1, 3)) for _ in range(n)] for n in counts]
    found = Boxes(boxes).masks(Size((1, 5, 5)), len(counts))
    index = torch.tensor([random.randrange(len(counts)) for _ in range(4)])
    assert torch.equal(found[index], found[:][index])
    assert torch.equal(found[1:3], found[:][1:3])
    assert found.any() == bool(found[:].any())


def test_other_boxes_are_another_truth() -> None:
    one, moved, split = (
        Boxes(boxes).masks(Size((1, 4, 4)), 2).spec() for boxes in ([[(0, 0, 1, 1)], None], [[(1, 0, 2, 1)], None], [None, [(0, 0, 1, 1)]])
    )
    assert one == Boxes([(0, 0, 1, 1), []]).masks(Size((1, 4, 4)), 2).spec()
    assert len({text["boxes"] for text in (one, moved, split)}) == 3


side = st.floats(0.0, 7.0, allow_nan=False)


@given(st.lists(st.tuples(side, side, st.floats(0.01, 4.0), st.floats(0.01, 4.0)), max_size=3))
def test_a_pixel_is_inside_if_a_box_touches_it(corners: list[tuple[float, float, float, float]]) -> None:
    boxes = [(x, y, min(x + w, 9.0), min(y + h, 8.0)) for x, y, w, h in corners]
    found = Boxes([boxes]).masks(Size((1, 8, 9)), 1)[:][0, 0]
    for row in range(8):
        for column in range(9):
            touched = any(x0 < column + 1 and x1 > column and y0 < row + 1 and y1 > row for x0, y0, x1, y1 in boxes)
            assert bool(found[row, column]) == touched


def table() -> TableInputs:
    rows = {"age": [30.0, 41.0, 25.0, 60.0], "job_cook": [1, 0, 0, 1], "job_clerk": [0, 1, 1, 0], "hours": [40.0, 38.0, 20.0, 0.0]}
    return TableInputs(pd.DataFrame(rows), groups="_")


def test_features_by_hand() -> None:
    known = table().features
    assert known.names == ("age", "job", "hours")
    everywhere = [[0, 1, 1, 0]] * 4
    for form in ("job", ["job"], [1], ("job",), {"job"}, np.array([1]), torch.tensor([1]), pd.Index(["job"])):
        assert RelevantFeatures(form).masks(known, 4).int().tolist() == everywhere, form
    rows = RelevantFeatures([["age", 2], None, [], ("job",)]).masks(known, 4)
    assert rows.int().tolist() == [[1, 0, 0, 1], [0] * 4, [0] * 4, [0, 1, 1, 0]]
    assert RelevantFeatures(np.array([[0, 1], [0, 2]])).masks(known, 2).int().tolist() == [[1, 1, 1, 0], [1, 0, 0, 1]]


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3)).eval()


def images(truth: Any) -> Audit:
    x = inputs(4, 3, 6, 6).float()
    return Audit(models=network(), inputs=x, explainers=["gradient"], controls=False, scores=["pointing_game", "auc"], truth=truth)


def rows(truth: Any) -> Audit:
    net = nn.Linear(4, 2).eval()
    return Audit(models=net, inputs=table(), explainers=["saliency"], controls=False, scores=["pointing_game"], truth=truth)


def test_boxes_score_as_their_masks(tmp_path: Path) -> None:
    boxes = [[(1, 2, 4, 5)], None, [], [(0, 0, 2, 2), (3, 3, 6, 6)]]
    masks = torch.zeros(4, 6, 6, dtype=torch.bool)
    masks[0, 2:5, 1:4] = masks[3, :2, :2] = masks[3, 3:, 3:] = True
    found, same = images(Boxes(boxes)).run(tmp_path / "boxes", progress=False), images(masks).run(tmp_path / "masks", progress=False)
    assert found.samples("auc")["value"].isna().tolist() == [False, True, True, False]
    pd.testing.assert_frame_equal(found.table(), same.table())
    assert found.table()["undefined"].tolist() == [2, 2]


def test_features_score_as_their_masks(tmp_path: Path) -> None:
    net = nn.Linear(4, 2).eval()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, -1.0, 0.0, 0.0]]))
    given: dict[str, Any] = {"models": net, "inputs": table(), "explainers": ["saliency"], "scores": ["pointing_game"], "controls": False}
    hit = Audit(**given, truth=RelevantFeatures(["job"])).run(tmp_path / "job", progress=False)
    assert hit.table()[["value", "n"]].to_numpy().tolist() == [[1.0, 4]]
    some = Audit(**given, truth=RelevantFeatures([["job"], ["age"], None, ["hours", "age"]])).run(tmp_path / "some", progress=False)
    assert some.samples("pointing_game")["value"].tolist()[:2] == [1.0, 0.0]
    assert some.table()[["value", "n", "undefined"]].to_numpy().tolist() == [[pytest.approx(1 / 3), 3, 1]]


def test_columns_without_names_go_by_number(tmp_path: Path) -> None:
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    audit = Audit(models=nn.Linear(3, 2).eval(), inputs=x, explainers=["saliency"], scores=["auc"], truth=RelevantFeatures([0, 2]))
    assert audit.masks is not None
    assert audit.masks.int().tolist() == [[1, 0, 1]] * 5


@pytest.mark.parametrize(
    ("boxes", "sentence"),
    [
        ([None] * 4, "The truth holds no boxes at all: give some for at least one input"),
        ([[]] * 4, "The truth holds no boxes at all"),
        ([[(0, 0, 1, 1)]] * 3, "There are boxes of 3 images for 4 inputs: give one list per image, or None for it"),
        ([[(0, 0, 7, 1)]] * 4, r"The box \(0, 0, 7, 1\) of image 0 does not fit an image of width 6 and height 6"),
        ([None, [(0, -1, 2, 2)], None, None], r"The box \(0, -1, 2, 2\) of image 1 does not fit"),
        ([[(3, 0, 3, 2)]] * 4, r"The box \(3, 0, 3, 2\) of image 0 .* with 0 <= x0 < x1 <= 6"),
        ([[(0, 0, float("nan"), 2)]] * 4, r"The box \(0, 0, nan, 2\) of image 0"),
        ([[(0, 0, 1)]] * 4, r"The boxes of image 0 are .*: give a list of boxes \(x0, y0, x1, y1\), or None"),
        ([["left"]] * 4, "The boxes of image 0 are"),
        ([[(0, 0, 1, 1), (0, 0)]] * 4, "The boxes of image 0 are"),
        (3, r"The truth needs one list of boxes \(x0, y0, x1, y1\) per image, not 3"),
        ("boxes", "The truth needs one list of boxes"),
        ({0: [(0, 0, 1, 1)]}, "The truth needs one list of boxes"),
    ],
)
def test_bad_boxes_are_told(boxes: Any, sentence: str) -> None:
    with pytest.raises(VeracityError, match=sentence) as error:
        images(Boxes(boxes)).prepare()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (["ages"], "Unknown feature of the table 'ages'. Did you mean 'age'?"),
        (["job_cook"], "Unknown feature of the table 'job_cook'"),
        ([3], "The truth names feature 3 of a table with 3: count from 0 to 2, or give names"),
        ([-1], "The truth names feature -1"),
        ([["age"], None], "There are features of 2 rows for 4 inputs: give one list per row"),
        ([["age"], None, "job", [1]], "The truth needs a list of features per row, not 'job'"),
        ([True], "A feature of the truth is a name or a number, not True"),
        ([1.0], "A feature of the truth is a name or a number, not 1.0"),
        ([], "The truth holds no features at all"),
        ([None] * 4, "The truth holds no features at all"),
        (2, "The truth needs a list of names or numbers of features, not 2"),
        (None, "The truth needs a list of names or numbers of features, not None"),
    ],
)
def test_bad_features_are_told(features: Any, sentence: str) -> None:
    with pytest.raises(VeracityError, match=sentence) as error:
        rows(RelevantFeatures(features)).prepare()
    assert "\n" not in str(error.value)


def test_each_form_has_its_inputs() -> None:
    with pytest.raises(InputError, match=r"Boxes are for images .*, but an input has shape \(4,\): pass masks as truth"):
        rows(Boxes([[(0, 0, 1, 1)]] * 4)).prepare()
    with pytest.raises(InputError, match=r"Features as truth are for rows of a table"):
        images(RelevantFeatures([0])).prepare()
    with pytest.raises(InputError, match="Features as truth are for rows of a table"):
        RelevantFeatures([0]).masks(None, 2)
    assert RelevantFeatures([1]).masks(Features.measured(torch.zeros(2, 2)), 2).int().tolist() == [[0, 1]] * 2
