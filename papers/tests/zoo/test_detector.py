from __future__ import annotations

import math

import pytest
import torch

from veracity.core.errors import InputError, SpecError
from veracity.trainers.training import initialised
from veracity_papers.data import files
from veracity_papers.data.scenes import scenes
from veracity_papers.zoo.detector import DATA, JITTERS, Detector, Placed, build, peaks, pretrained
from veracity_papers.zoo.storage import facts
from veracity_papers.zoo.train_detector import (
    REACH,
    cell_batches,
    digit_batches,
    evaluate,
    fit,
    loss,
    overlap,
    random_flips,
    shift_boxes,
    targets,
)

real = pytest.mark.skipif(files.locate("mnist/t10k-images-idx3-ubyte.gz") is None, reason="needs MNIST")


def test_a_peak_becomes_a_box() -> None:
    heat, sizes, offsets = torch.zeros(1, 2, 4, 4), torch.zeros(1, 2, 4, 4), torch.zeros(1, 2, 4, 4)
    heat[0, 1, 1, 2] = 0.75
    sizes[0, :, 1, 2] = torch.tensor([0.25, 0.5]).log()
    offsets[0, :, 1, 2] = torch.tensor([0.25, -0.5])
    # The cell's middle is (20, 12); a quarter of a cell to the right and half a cell up is (22, 8); the box is 8 wide and 16 high.
    found = peaks(heat, sizes, offsets, side=32, top=3, least=0.05)
    assert found[0, 0].tolist() == pytest.approx([18.0, 0.0, 26.0, 16.0, 0.75, 1.0])
    assert found[0, 1:].isnan().all()


def test_peaks_are_the_local_maxima_in_order() -> None:
    heat = torch.rand(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    found = peaks(heat, torch.full((2, 2, 6, 6), -2.0), torch.zeros(2, 2, 6, 6), side=48, top=5, least=0.5)
    for row, boxes in zip(heat, found, strict=True):
        slow = []
        for number in range(3):
            for y in range(6):
                for x in range(6):
                    around = row[number, max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
                    if row[number, y, x] == around.max() and row[number, y, x] >= 0.5:
                        slow.append((float(row[number, y, x]), number, 8 * x + 4, 8 * y + 4))
        for box, (score, number, x, y) in zip(boxes.tolist(), sorted(slow, reverse=True)[:5], strict=True):
            half = 24 * math.exp(-2.0)
            expected = [max(x - half, 0), max(y - half, 0), min(x + half, 48), min(y + half, 48), score, number]
            assert box == pytest.approx(expected, abs=1e-4)


def test_it_knows_where_it_looks() -> None:
    placed = Placed()(torch.zeros(2, 1, 3, 5))
    assert placed.shape == (2, 3, 3, 5)
    assert placed[1, 1, 0].tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert placed[1, 2, :, 0].tolist() == [-1.0, 0.0, 1.0]


def test_rows_do_not_depend_on_each_other() -> None:
    model = initialised(lambda: Detector(1, 3, widths=(4, 4, 8), least=0.0), seed=0).eval()
    x = torch.rand(3, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    assert model(x).shape == (3, 10, 6)
    assert torch.allclose(model(x)[1:2], model(x[1:2]), atol=1e-5)


def test_heat_is_one_at_the_objects_and_falls_off() -> None:
    cell, size = torch.tensor([[[2, 1], [0, 3]]]), torch.tensor([[[6.0, 3.0], [6.0, 6.0]]])
    heat = targets(cell, size, torch.tensor([[1, 0]]), torch.tensor([[True, False]]), 2, 4)
    assert heat[0, 0].max() == 0  # the object that is not there leaves no trace
    assert float(heat[0, 1, 1, 2]) == 1.0
    assert float(heat[0, 1, 1, 3]) == pytest.approx(math.exp(-0.5))  # six cells wide: a deviation of one cell
    assert float(heat[0, 1, 2, 2]) == pytest.approx(math.exp(-2.0))


class Known(Detector):
    """A detector whose maps are given."""

    def maps(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.given


def test_the_loss_of_right_maps_is_nearly_zero_and_grows_with_every_mistake() -> None:
    box = torch.tensor([[[4.0, 10.0, 12.0, 26.0, 1.0], [-30.0, 0.0, -20.0, 9.0, 0.0]]])  # the second is out of sight
    heat, sizes, offsets = torch.full((1, 2, 4, 4), -12.0), torch.zeros(1, 2, 4, 4), torch.zeros(1, 2, 4, 4)
    heat[0, 1, 2, 1] = 12.0
    sizes[0, :, 2, 1] = torch.tensor([0.25, 0.5]).log()
    offsets[0, :, 2, 1] = torch.tensor([-0.5, -0.25])  # the centre (8, 18) is cell (1, 2.25), whose middle is (1.5, 2.5)
    model = Known(1, 2, widths=(2, 2, 4))
    x = torch.zeros(1, 1, 32, 32)
    model.given = (heat, sizes, offsets)
    assert float(loss(model, x, box)) < 1e-4
    model.given = (heat, sizes + 0.5, offsets)
    assert float(loss(model, x, box)) == pytest.approx(1.0, abs=1e-3)
    model.given = (heat.flip(1), sizes, offsets)
    assert float(loss(model, x, box)) > 10


def test_boxes_turn_and_shift_with_their_windows() -> None:
    x = torch.zeros(8, 1, 16, 16)
    x[:, 0, 2:7, 9:12] = 1.0
    boxes = torch.tensor([[[9.0, 2.0, 12.0, 7.0, 4.0]]]).repeat(8, 1, 1)
    seen, objects = random_flips(x, boxes, torch.Generator().manual_seed(0))
    assert len({tuple(one.flatten().tolist()) for one in objects}) > 3
    for picture, (x0, y0, x1, y1, number) in zip(seen, objects[:, 0].tolist(), strict=True):
        assert number == 4.0
        assert float(picture[0, int(y0) : int(y1), int(x0) : int(x1)].sum()) == 15.0
    assert shift_boxes(boxes[:1], torch.tensor([[2, -1]]))[0, 0].tolist() == [7.0, 3.0, 10.0, 8.0, 4.0]


def test_the_overlap_is_that_of_the_surest_box_of_the_class() -> None:
    truth = torch.tensor([[0.0, 0.0, 4.0, 4.0, 3.0]]).repeat(2, 1)
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0, 0.9, 7.0], [0.0, 0.0, 4.0, 2.0, 0.8, 3.0], [0.0, 0.0, 4.0, 4.0, 0.7, 3.0]])
    wrong = torch.full((3, 6), torch.nan)
    assert overlap(torch.stack((boxes, wrong)), truth).tolist() == [0.5, 0.0]


@pytest.mark.parametrize("jitter", [0.0, 1.0])
def test_jitter_is_how_far_the_key_object_strays(jitter: float) -> None:
    images = torch.zeros(1, 1, 8, 8)
    images[..., 2:6, 2:6] = 1.0
    windows, boxes = next(digit_batches(jitter, torch.Generator().manual_seed(0), 24, images, torch.zeros(1, dtype=torch.long), 32))
    key = boxes[:, 0]
    away = (key[:, :2] + key[:, 2:4]) / 2 - 16
    assert windows.shape == (24, 1, 32, 32)
    assert away.abs().max() <= 16 * jitter + 1
    assert away.abs().max() >= 12 * jitter
    inside = (key[:, :2] >= 0).all(dim=1) & (key[:, 2:4] <= 32).all(dim=1)
    for picture, (x0, y0, x1, y1, _) in zip(windows[inside], key[inside].tolist(), strict=True):
        assert picture[0, int(y0) : int(y1), int(x0) : int(x1)].mean() > 0.6


def test_cells_stray_only_as_far_as_the_photograph_goes() -> None:
    photo = torch.zeros(1, 3, 240, 320, dtype=torch.uint8)
    photo[..., 70:90, 225:245] = 200
    boxes = torch.tensor([[[225.0, 70.0, 245.0, 90.0, 1.0], [100.0, 100.0, 115.0, 115.0, 2.0]]])
    photo[..., 100:115, 100:115] = 200
    windows, objects = next(cell_batches(1.0, torch.Generator().manual_seed(0), 64, photo, boxes))
    assert windows.shape == (64, 3, 128, 128)
    white = objects[:, 0]
    near = (white[:, :2] >= 0).all(dim=1) & (white[:, 2:4] <= 128).all(dim=1)
    assert 16 < int(near.sum()) < 48  # half of the windows are about the platelet
    for picture, (x0, y0, x1, y1, _) in zip(windows[near], white[near].tolist(), strict=True):
        assert picture[:, int(y0) : int(y1), int(x0) : int(x1)].min() > 0.6


def test_training_lowers_the_loss_and_repeats_itself() -> None:
    images = torch.zeros(1, 1, 8, 8)
    images[..., 1:7, 2:6] = 1.0
    label = torch.zeros(1, dtype=torch.long)
    heard: list[float] = []
    states = []
    for steps in (16, 2, 2):
        model = initialised(lambda: Detector(1, 1, widths=(4, 4, 6)), seed=0)
        batches = digit_batches(0.0, torch.Generator().manual_seed(0), 4, images, label, 32)
        heard.append(float(loss(model, *next(batches)).detach()))
        states.append(fit(model, batches, steps, rate=2e-2, report=lambda step, error: heard.append(error)).state_dict())
    assert heard[1] < heard[0] / 2
    assert all(torch.equal(states[1][key], states[2][key]) for key in states[1])


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(InputError, match=r"square windows whose side is a multiple of 8, not a batch of \(1, 1, 30, 30\)"):
        build("digits")(torch.zeros(1, 1, 30, 30))
    with pytest.raises(SpecError, match=r"Unknown detection data 'digit'. Did you mean 'digits'\?"):
        build("digit")
    with pytest.raises(InputError, match="ships no weights named 'detector-digits-33'"):
        pretrained("digits", 33)


@pytest.mark.parametrize("data", list(DATA))
def test_every_jitter_is_shipped_and_more_of_it_carries_further(data: str) -> None:
    known = {jitter: facts(f"detector-{data}-{jitter}") for jitter in JITTERS}
    assert all(known[jitter]["jitter"] == str(jitter) for jitter in JITTERS)
    shifted = [float(known[jitter]["iou_shifted"]) for jitter in JITTERS]
    assert shifted == sorted(shifted)


@real
def test_only_the_detector_trained_with_jitter_follows_a_digit() -> None:
    data = scenes(4, seed=5)
    still, following = (evaluate(pretrained("digits", jitter), data, REACH["digits"], 32) for jitter in (0, 100))
    assert still["iou_centre"] > 0.7
    assert following["iou_centre"] > 0.7
    assert following["iou_shifted"] > still["iou_shifted"] + 0.2
