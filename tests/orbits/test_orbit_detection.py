import pytest
import torch

from veracity.core.errors import InputError
from veracity.orbits.tasks.detection import Detection, confidence, iou, iou_confidence, majority_class, precision, recall
from veracity.perturb import Crop

NAN = float("nan")
NONE = [NAN] * 6
SPACE = Crop(window=16, reach=8)


def still(count):
    return torch.zeros(count, 2, dtype=torch.int64)


def rows(*boxes):
    return torch.tensor([list(boxes)])


def test_the_most_confident_detection_of_the_key_class_is_judged():
    """A better placed one with a lower score, and a more confident one of another class, do not count."""
    truth = rows([0.0, 0.0, 4.0, 4.0, 3.0])
    output = rows([8.0, 8.0, 9.0, 9.0, 0.95, 1.0], [0.0, 0.0, 4.0, 2.0, 0.9, 3.0], [0.0, 0.0, 4.0, 4.0, 0.8, 3.0])
    assert iou(output, truth).item() == 0.5
    assert confidence(output, truth).item() == pytest.approx(0.9)
    assert iou_confidence(output, truth).item() == pytest.approx(0.45)


def test_a_missed_object_is_zero_and_an_absent_one_undefined():
    missed, absent = rows([0.0, 0.0, 4.0, 4.0, 3.0]), rows([NAN] * 5, [1.0, 1.0, 2.0, 2.0, 3.0])
    other = rows([0.0, 0.0, 4.0, 4.0, 0.9, 1.0], NONE)
    for metric in (iou, confidence, iou_confidence, recall):
        assert metric(other, missed).item() == 0.0
        assert metric(rows(NONE), missed).item() == 0.0
        assert metric(other, absent).isnan().item()
    assert precision(other, missed).isnan().item()
    assert precision(other, absent).isnan().item()


def test_precision_and_recall_of_the_key_class():
    truth = rows([0.0, 0.0, 4.0, 4.0, 3.0], [8.0, 8.0, 12.0, 12.0, 3.0], [4.0, 0.0, 6.0, 2.0, 1.0], [12.0, 0.0, 14.0, 2.0, 3.0], [NAN] * 5)
    output = rows(
        [0.0, 0.0, 4.0, 4.0, 0.9, 3.0],  # finds the first
        [0.0, 0.0, 4.0, 3.9, 0.8, 3.0],  # finds it again: wrong
        [8.0, 8.0, 12.0, 11.0, 0.7, 3.0],  # finds the second
        [4.0, 0.0, 6.0, 2.0, 0.6, 1.0],  # another class: not counted
        [12.0, 0.0, 14.0, 2.0, 0.4, 3.0],  # not sure enough
    )
    assert precision(output, truth).item() == pytest.approx(2 / 3)
    assert recall(output, truth).item() == pytest.approx(2 / 3)


def test_the_truth_moves_against_the_window_and_is_cut_off():
    task = Detection(window=16)
    y = torch.tensor([[[6.0, 6.0, 10.0, 10.0, 3.0], [20.0, 0.0, 24.0, 4.0, 1.0]]]).expand(4, 2, 5)
    elements = torch.tensor([[0, 0], [8, 0], [-8, 8], [8, -1]])
    moved = task.truth(SPACE, elements, y)
    assert moved[:, 0].tolist() == [[6, 6, 10, 10, 3], [0, 6, 2, 10, 3], [14, 0, 16, 2, 3], [0, 7, 2, 11, 3]]
    assert moved[0, 1].isnan().all()
    assert moved[1, 1].tolist() == [12.0, 0.0, 16.0, 4.0, 1.0]
    assert task.whole(SPACE, elements, y).tolist() == [True, False, False, False]
    gone = task.truth(SPACE, torch.tensor([[8, 0]]), torch.tensor([[[2.0, 2.0, 8.0, 8.0, 3.0]]]))
    assert gone.isnan().all()


def test_consensus_boxes_leave_missing_detections_out_and_count_them():
    """The mean of [4 4 8 8] and [6 4 10 8]; zero boxes in the place of the missing ones would halve it."""
    outputs = torch.tensor([[[[4.0, 4.0, 8.0, 8.0, 0.5, 3.0], NONE], [NONE, NONE], [[6.0, 4.0, 10.0, 8.0, 0.75, 3.0], NONE], [NONE, NONE]]])
    found, missing = Detection().consensus(SPACE, still(4), outputs)
    assert found[0].tolist() == [5.0, 4.0, 9.0, 8.0, 0.625, 3.0]
    assert missing.tolist() == [2]
    assert Detection().as_truth(found)[0].tolist() == [[5.0, 4.0, 9.0, 8.0, 3.0]]


def test_a_consensus_of_no_detection_at_all_is_undefined():
    found, missing = Detection().consensus(SPACE, still(3), torch.full((1, 3, 2, 6), NAN))
    assert found.isnan().all()
    assert missing.tolist() == [3]
    assert iou(rows([0.0, 0.0, 4.0, 4.0, 0.5, 3.0]), Detection().as_truth(found)).isnan().all()


def test_the_consensus_is_about_one_class():
    """Class 1 leads twice, 3 once: without truth it is 1; with it, the key object's, found behind the first place too."""
    one, three = [0.0, 0.0, 2.0, 2.0, 0.9, 1.0], [8.0, 8.0, 12.0, 12.0, 0.6, 3.0]
    outputs = torch.tensor([[[one, three], [one, NONE], [three, NONE]]])
    voted_for, _ = Detection().consensus(SPACE, still(3), outputs)
    assert voted_for[0].tolist() == pytest.approx([0.0, 0.0, 2.0, 2.0, 0.9, 1.0])
    told, missing = Detection().consensus(SPACE, still(3), outputs, torch.tensor([[[8.0, 8.0, 12.0, 12.0, 3.0]]]))
    assert told[0].tolist() == pytest.approx([8.0, 8.0, 12.0, 12.0, 0.6, 3.0])
    assert missing.tolist() == [1]


def test_votes_are_scores_added_up():
    best = torch.tensor(
        [[[0, 0, 1, 1, 0.9, 0], [0, 0, 1, 1, 0.5, 7], [0, 0, 1, 1, 0.5, 7]], [NONE, [0, 0, 1, 1, 0.1, 2], NONE], [NONE] * 3]
    )
    assert majority_class(best)[:2].tolist() == [7.0, 2.0]
    assert majority_class(best)[2].isnan()


def test_distances_are_those_of_what_the_unmoved_output_is_surest_of():
    here = [0.0, 0.0, 4.0, 4.0, 0.9, 3.0]
    half, other = [0.0, 0.0, 4.0, 2.0, 0.8, 3.0], [0.0, 0.0, 4.0, 4.0, 0.9, 1.0]
    a = torch.tensor([[here], [here], [here], [here], [NONE], [NONE]])
    b = torch.tensor([[here], [half], [other], [NONE], [here], [NONE]])
    found = Detection().distance(SPACE, still(6), a, b)
    assert found[:5].tolist() == [0.0, 0.5, 1.0, 1.0, 1.0]
    assert found[5].isnan()
    surer = torch.tensor([[[9.0, 9.0, 10.0, 10.0, 0.95, 1.0], half]])
    assert Detection().distance(SPACE, still(1), surer, torch.tensor([[here]])).tolist() == [0.5]
    assert Detection().distance(SPACE, still(1), torch.tensor([[here]]), surer).tolist() == [1.0]


def test_distances_are_those_of_what_both_windows_show():
    """A box [4 8] x [6 10] in a window of 16 that moves right: whole, half, gone; then a neighbour that has come into view."""
    task = Detection(window=16)
    here, moves = [4.0, 6.0, 8.0, 10.0, 0.9, 3.0], torch.tensor([[3, 0], [6, 0], [6, 0], [8, 0], [6, 0], [8, 0]])
    unmoved = torch.tensor([[here], [here], [here], [here], [here], [NONE]])
    moved = [
        [1.0, 6.0, 5.0, 10.0, 0.9, 3.0],  # moved along
        [0.0, 6.0, 2.0, 10.0, 0.9, 3.0],  # cut off as it should be
        [-2.0, 6.0, 2.0, 8.0, 0.9, 3.0],  # goes on outside of the window, and half as high
        [0.0, 6.0, 2.0, 10.0, 0.9, 3.0],  # nothing of it should be left
        NONE,  # missed, though it is in view
        [12.0, 0.0, 16.0, 4.0, 0.9, 3.0],  # lies outside of the unmoved window
    ]
    found = task.distance(SPACE, moves, torch.tensor(moved)[:, None], unmoved)
    assert found[[0, 1, 2, 4]].tolist() == [0.0, 0.0, 0.5, 1.0]
    assert found[[3, 5]].isnan().all()


def test_each_side_of_the_consensus_is_averaged_where_it_is_seen():
    """A box [4 8] x [6 10]: at dx = 6 its left is cut off, and its right says 7; at dx = -8 only its left is seen."""
    task = Detection(window=16)
    moves = torch.tensor([[0, 0], [6, 0], [-8, 0]])
    outputs = torch.tensor([[[[4.0, 6.0, 8.0, 10.0, 0.9, 3.0]], [[0.0, 6.0, 1.0, 10.0, 0.6, 3.0]], [[12.5, 6.0, 15.5, 10.0, 0.6, 3.0]]]])
    found, missing = task.consensus(SPACE, moves, outputs)
    assert found[0].tolist() == pytest.approx([4.25, 6.0, 7.5, 10.0, 0.7, 3.0])
    assert missing.tolist() == [0]
    never, _ = task.consensus(SPACE, moves[1:2], outputs[:, 1:2])
    assert never[0].tolist() == pytest.approx([6.0, 6.0, 7.0, 10.0, 0.6, 3.0])


def test_reading_ranks_and_keeps_the_top():
    raw = torch.rand(3, 9, 6, generator=torch.Generator().manual_seed(0))
    found = Detection(top=4).read(raw)
    assert torch.equal(found[..., 4], raw[..., 4].sort(dim=1, descending=True).values[:, :4])
    assert Detection(top=12).read(raw)[:, 9:].isnan().all()


def test_targets_are_boxes_with_a_key_object():
    good = torch.tensor([[[0.0, 0.0, 4.0, 4.0, 3.0], [NAN] * 5]], dtype=torch.float64)
    assert Detection().check(good, 1).dtype == torch.float32
    with pytest.raises(InputError, match=r"of shape \(2, objects, 5\), not \(1, 2, 5\)"):
        Detection().check(good, 2)
    with pytest.raises(InputError, match="Sample 0 has no key object"):
        Detection().check(good.flip(1), 1)
    with pytest.raises(InputError, match="x0 y0 x1 y1 class"):
        Detection().check(torch.rand(2, 3, 4), 2)
