from __future__ import annotations

import base64
import dataclasses
import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from report_runs import digit_pairs, series_run
from veracity.report.figures.gallery import draw_gallery, gallery_data, gallery_notes
from veracity.report.figures.images import (
    MOMENTS,
    NEGATIVE,
    POSITIVE,
    colour_png,
    draw_series,
    grey_png,
    reach,
    series_data,
    shrink,
    signed_png,
    to_array,
)
from veracity.results import WorstPair


def uniform(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))


def decoded(source: str, mode: str) -> np.ndarray:
    head, data = source.split(",", 1)
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert(mode)).astype(int)


def test_signed_maps_are_two_hues_about_a_clear_zero() -> None:
    pixels = decoded(signed_png(np.array([[-2.0, -1.0, 0.0], [1.0, 2.0, 9.0]]), 2.0), "RGBA")
    assert pixels[..., 3].tolist() == [[255, 129, 0], [129, 255, 255]]
    assert pixels[0, 0, :3].tolist() == list(NEGATIVE)
    assert pixels[1, 0, :3].tolist() == list(POSITIVE)
    assert pixels[1, 2].tolist() == [*POSITIVE, 255]


def test_maps_without_a_value_show_a_hole() -> None:
    pixels = decoded(signed_png(np.array([[np.nan, np.inf, 1.0]]), 1.0), "RGBA")
    assert pixels[0, 0].tolist() == pixels[0, 1].tolist() == [128, 128, 128, 90]


def test_inputs_are_light_where_values_are_large_or_in_their_own_colours() -> None:
    assert decoded(grey_png(np.array([[0.0, 0.5, 1.0]]), 0.0, 1.0), "L").tolist() == [[0, 128, 255]]
    red = np.array([[[1.0]], [[0.0]], [[0.5]]])
    assert decoded(colour_png(red, 0.0, 1.0), "RGB").tolist() == [[[255, 0, 128]]]
    assert decoded(grey_png(np.full((1, 2), 3.0), 3.0, 3.0), "L").tolist() == [[0, 0]]


def test_one_bright_pixel_does_not_hide_the_rest() -> None:
    values = np.ones(1000)
    values[0] = 50.0
    assert reach(values) == 1.0
    sparse = np.zeros(1000)
    sparse[0] = -3.0
    assert reach(sparse) == 3.0
    assert reach(np.zeros(4)) == reach(np.full(4, np.nan)) == 1.0


def test_shrinking_averages_blocks() -> None:
    image = np.random.default_rng(0).normal(size=(7, 10, 3))
    small = shrink(image, limit=4)
    assert small.shape == (3, 4, 3)
    for row in range(3):
        for column in range(4):
            block = image[3 * row : 3 * row + 3, 3 * column : 3 * column + 3]
            assert small[row, column] == pytest.approx(block.mean(axis=(0, 1)))
    assert shrink(image, limit=10) is image


def test_tensors_of_any_kind_become_arrays() -> None:
    assert to_array(torch.tensor([1.5], dtype=torch.bfloat16, requires_grad=True)).tolist() == [1.5]


ORDER = {"m": ["saliency", "lime", "feature_permutation"], "n": ["lime"], "o": ["lime"]}


def test_the_gallery_shows_the_worst_explainers_first() -> None:
    pairs = digit_pairs(["m", "n"])
    data = gallery_data([*pairs, dataclasses.replace(pairs[1], value=-1.0)], ORDER, each=2)
    assert [(model, [item.explainer for item in items]) for model, items in data.models] == [("m", ["saliency", "lime"]), ("n", ["lime"])]
    assert data.exhibits[1].value == pairs[1].value
    assert gallery_notes(data) == []


def test_a_card_holds_five_pictures_in_their_order() -> None:
    data = gallery_data(digit_pairs(["m"]), {"m": ["lime"]})
    drawn = draw_gallery(data.exhibits)
    tree = ElementTree.fromstring(close_images(str(drawn)))
    assert [item.get("class") for item in tree.iter("figure")] == ["input", "explanation", "moved", "expected", "found"]
    sources = [item.get("src") or "" for item in tree.iter("img")]
    expected = data.exhibits[0]
    scale = reach(expected.explanation, expected.expected, expected.found)
    assert sources[1] == signed_png(expected.explanation[0], scale)
    assert sources[4] == signed_png(expected.found[0], scale)
    assert sources[2] == grey_png(expected.moved[0], 0.0, 1.0)


def close_images(html: str) -> str:
    parts = html.replace("<wbr>", "").split("<img ")
    return parts[0] + "".join("<img " + part.replace(">", "/>", 1) for part in parts[1:])


def pair_of(x: torch.Tensor, e: torch.Tensor) -> WorstPair:
    return WorstPair("m", "lime", 0, 0, [1.0], 0.5, x, x, e, e, e)


def drawn_for(x: torch.Tensor, e: torch.Tensor) -> tuple[str, list[str]]:
    data = gallery_data([pair_of(x, e)], {"m": ["lime"]})
    return str(draw_gallery(data.exhibits)), gallery_notes(data)


def test_many_channels_are_summed_up_and_said_so() -> None:
    x, e = uniform(5, 4, 4), normal(5, 4, 4)
    drawn, notes = drawn_for(x, e)
    total = e.double().numpy().sum(axis=0)
    assert signed_png(total, reach(total, total, total)) in drawn
    assert [note.split()[0] for note in notes] == ["Inputs", "Explanations"]


def test_large_pictures_are_averaged_down_and_said_so() -> None:
    _, notes = drawn_for(uniform(1, 130, 4), normal(1, 130, 4))
    assert notes == ["Pictures of more than 128 pixels a side are averaged down for display."]


def test_explanations_without_a_place_in_the_input_are_drawn_apart() -> None:
    drawn, _ = drawn_for(uniform(3, 4, 4), normal(7))
    assert drawn.count('class="series"') == 3
    assert drawn.count('class="colour"') == 2


def test_shapes_without_a_picture_are_named() -> None:
    drawn, _ = drawn_for(uniform(2, 3, 4, 5), normal(2, 3, 4, 5))
    assert "input of shape 2 \N{MULTIPLICATION SIGN} 3 \N{MULTIPLICATION SIGN} 4 \N{MULTIPLICATION SIGN} 5" in drawn


def test_of_many_channels_of_a_series_the_loudest_are_drawn() -> None:
    x, e = uniform(6, 9), torch.arange(6.0)[:, None] * torch.ones(6, 9)
    drawn, notes = drawn_for(x, e)
    assert drawn.count('class="thread"') == 3 * 4
    assert notes == ["Of more than 4 channels, the 4 with the largest attribution are drawn."]


def test_one_attribution_may_colour_every_channel() -> None:
    drawn, _ = drawn_for(uniform(2, 9), torch.ones(1, 9))
    assert drawn.count('class="positive"') == 3 * 2


def test_series_are_coloured_by_sign_and_size() -> None:
    data = series_data(np.array([[0.0, 1.0, 0.0, 1.0]]), np.array([[2.0, 2.0, -1.0, -1.0]]), low=0.0, high=1.0, scale=2.0, channels=(0,))
    tree = ElementTree.fromstring(str(draw_series(data, "input")))
    parts = [(item.get("class"), item.get("opacity"), item.get("d")) for item in tree.iter("path")]
    assert parts == [
        ("thread", None, "M0.0 50.0L333.3 4.0L666.7 50.0L1000.0 4.0"),
        ("positive", "0.25", "M333.3 4.0L666.7 50.0"),
        ("negative", "0.5", "M666.7 50.0L1000.0 4.0"),
        ("positive", "1.0", "M0.0 50.0L333.3 4.0"),
    ]


def test_long_series_are_thinned_but_keep_their_ends() -> None:
    data = series_data(np.arange(5000.0)[None], np.zeros((1, 5000)), low=0.0, high=4999.0, scale=1.0, channels=(0,))
    assert data.values.shape == (1, MOMENTS)
    assert (data.values[0, 0], data.values[0, -1]) == (0.0, 4999.0)


def test_series_are_shown_with_one_scale(tmp_path: Path) -> None:
    pair = series_run(tmp_path).worst("equivariance")[0]
    drawn = str(draw_gallery(gallery_data([pair], {"ecg-cnn": [pair.explainer]}).exhibits))
    captions = [part.split(" <i>")[0] for part in drawn.split("<figcaption>")[1:]]
    assert captions == ["input by its explanation", "moved input, expected", "moved input, found"]
