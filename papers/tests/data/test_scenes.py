from __future__ import annotations

import pytest
import torch

from veracity.core.errors import InputError
from veracity_papers.data.scenes import INK, Boxed, bounding_boxes, clip_boxes, compose, crop, scenes

WINDOW = 32


@pytest.fixture(scope="module")
def made() -> Boxed:
    return scenes(6, source="digits", window=WINDOW, seed=3)


def test_a_scene_is_twice_the_window_and_holds_ink_where_its_boxes_say(made: Boxed) -> None:
    assert made.images.shape == (6, 1, 64, 64)
    assert made.boxes.shape == (6, 13, 5)
    assert float(made.images.min()) >= 0
    assert float(made.images.max()) <= 1
    inked = made.images[:, 0] > INK
    claimed = torch.zeros_like(inked)
    for scene, boxes in enumerate(made.boxes):
        for x0, y0, x1, y1, _ in boxes[~boxes.isnan().any(dim=1)].tolist():
            rows, columns = slice(int(y0) + 16, int(y1) + 16), slice(int(x0) + 16, int(x1) + 16)
            part = inked[scene, rows, columns]
            assert part.any(dim=0)[[0, -1]].all()  # the box hugs its digit on all four sides
            assert part.any(dim=1)[[0, -1]].all()
            claimed[scene, rows, columns] = True
    assert not (inked & ~claimed).any()


def test_the_key_digit_is_centred_and_alone_in_the_unmoved_window(made: Boxed) -> None:
    key = made.boxes[:, 0]
    assert not key.isnan().any()
    assert torch.equal(key[:, 4].long(), made.labels)
    assert ((key[:, :2] + key[:, 2:4]) / 2 - WINDOW / 2).abs().max() <= 1.5
    window = made.images[:, :, 16:48, 16:48].clone()
    for one, box in zip(window, key.long().tolist(), strict=True):
        one[:, box[1] - 1 : box[3] + 1, box[0] - 1 : box[2] + 1] = 0  # what is fainter than ink may stand beside the box
    assert window.max() <= INK


def test_other_digits_have_other_classes_and_lie_in_the_band_around_the_window(made: Boxed) -> None:
    others = made.boxes[:, 1:]
    there = ~others.isnan().any(dim=2)
    assert there.any()
    assert not (others[..., 4] == made.labels[:, None])[there].any()
    beside = ((others[..., :2] >= WINDOW) | (others[..., 2:4] <= 0)).any(dim=2)
    assert beside[there].all()


def test_the_same_seed_gives_the_same_scenes_and_the_global_state_stays() -> None:
    before = torch.get_rng_state()
    one, again, other = (scenes(2, source="digits", window=WINDOW, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.images, again.images)
    assert not torch.equal(one.images, other.images)
    assert torch.equal(before, torch.get_rng_state())


def test_some_scenes_are_taken_by_number(made: Boxed) -> None:
    part = made[torch.tensor([4, 1])]
    assert len(part) == 2
    assert torch.equal(part.images[1], made.images[1])
    assert torch.equal(part.labels, made.labels[[4, 1]])


def test_windows_are_cut_as_slices_are() -> None:
    images = torch.rand(3, 2, 9, 11, generator=torch.Generator().manual_seed(0))
    corners = torch.tensor([[0, 0], [7, 5], [3, 2]])
    slow = torch.stack([image[:, y : y + 4, x : x + 4] for image, (x, y) in zip(images, corners.tolist(), strict=True)])
    assert torch.equal(crop(images, corners, 4), slow)


def test_what_too_little_is_left_of_is_gone() -> None:
    box = torch.tensor([[[-6.0, 2.0, 2.0, 10.0, 1.0]]])  # a quarter of it is seen
    assert not clip_boxes(box, 16, visible=0.2).isnan().any()
    assert clip_boxes(box, 16, visible=0.3).isnan().all()
    assert clip_boxes(box, 16, least=2.5).isnan().all()
    assert clip_boxes(torch.full((1, 1, 5), torch.nan), 16).isnan().all()


def test_a_blank_mask_has_no_box() -> None:
    assert bounding_boxes(torch.zeros(2, 3, 3, dtype=torch.bool)).isnan().all()


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(InputError, match=r"There are no digits named 'letters' .*: choose mnist or digits\."):
        scenes(1, source="letters")
    with pytest.raises(InputError, match=r"a multiple of 4, not 30"):
        compose(torch.zeros(1, 1, 8, 8), torch.zeros(1, dtype=torch.long), 1, window=30, generator=torch.Generator())
