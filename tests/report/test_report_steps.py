from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from report_pages import EVIL, EVIL_TOO

from report_runs import Observed, calibration, stored
from veracity.report.figures.calibration import calibration_data, calibration_sentences, draw_calibration
from veracity.report.figures.curves import CurveFigure, curves_data, curves_sentences, draw_curves, over_draws
from veracity.report.reading import read
from veracity.scores.common import Curve
from veracity.scores.faithfulness.curves import Deletion, Insertion, PixelFlipping, RegionPerturbation
from veracity.scores.randomisation import MPRT


def text(markup: object) -> str:
    return re.sub(r"<[^>]*>", "", str(markup))


# --- where a curve runs


def test_levels_lie_at_the_share_of_the_input_that_was_masked() -> None:
    assert PixelFlipping(features_in_step=2).curve((5,), 3).places.tolist() == [0.4, 0.8, 1.0]
    assert Deletion(steps=4).curve((8,), 5).places.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert RegionPerturbation(patch_size=2, regions_evaluation=3).curve((1, 4, 4), 3).places.tolist() == [0.25, 0.5, 0.75]
    assert MPRT().curve((1, 4, 4), 3).places.tolist() == [1.0, 2.0, 3.0]


def test_words_and_bounds_are_the_scores() -> None:
    flipping, raw = PixelFlipping().curve((5,), 5), PixelFlipping(softmax=False).curve((5,), 5)
    assert (flipping.up, flipping.bounds, flipping.masking) == ("the mean probability of the explained class", (0.0, 1.0), True)
    assert (raw.up, raw.bounds) == ("the mean score of the explained class", (-math.inf, math.inf))
    assert Insertion(steps=4).curve((8,), 5).across == "the share of the input that is inserted"
    assert not Insertion(steps=4).curve((8,), 5).masking
    regions = RegionPerturbation(patch_size=2).curve((1, 4, 4), 4)
    assert "mean drop of" in regions.up
    assert (regions.bounds, regions.masking) == ((-1.0, 1.0), False)
    assert MPRT().curve((5,), 4).bounds == (-1.0, 1.0)


def test_masks_that_do_not_fit_the_shape_are_spaced_evenly() -> None:
    assert PixelFlipping().curve((5,), 4).places.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert RegionPerturbation().curve((5,), 4).places.tolist() == [0.25, 0.5, 0.75, 1.0]


def test_curves_are_means_over_draws() -> None:
    values = np.array([[[1.0, 2.0], [3.0, math.nan]], [[0.0, 0.0], [1.0, 1.0]]])
    assert over_draws(values).tolist() == [[2.0, 2.0], [0.5, 0.5]]


@pytest.mark.parametrize(("levels", "drawn"), [(1, False), (4, True)])
def test_a_curve_needs_levels(tmp_path: Path, levels: int, drawn: bool) -> None:
    tables = {"prediction": np.linspace(0.9, 0.1, levels) * np.ones((3, 1, 1))}
    run = stored(tmp_path, {"flip": PixelFlipping()}, [Observed(model="net", explainer="a", score="flip", values=tables)])
    assert (CurveFigure().data(read(run), "flip") is not None) is drawn


# --- faithfulness curves

SHARES = Curve(quantity="p", places=np.array([0.1, 0.5, 1.0]), across="masked", up="the mean probability", bounds=(0.0, 1.0), masking=True)
FALLING = {
    ("net", "a"): np.array([[0.5, 0.2, 0.1], [0.7, 0.2, 0.1]]),
    ("net", "b"): np.array([[0.9, 0.8, 0.1], [0.9, 0.6, 0.1]]),
    ("net", "random_gaussian"): np.array([[1.0, 0.9, 0.1], [0.98, 0.9, 0.1]]),
    ("net", "short"): np.array([[1.0, 0.9]]),
}


def test_mean_curves_and_their_intervals_stay_within_the_bounds() -> None:
    data = curves_data(FALLING, SHARES, ["net"], {"a": "input", "b": "input", "short": "input"}, ["random_gaussian"])
    assert [label for label, _, _ in data.explainers] == ["a", "b"]
    (curve,) = data.explainers[0][2]
    assert curve.value == pytest.approx([0.6, 0.2, 0.1])
    assert (curve.low[0], curve.high[0]) == (0.0, 1.0)  # t with one degree of freedom reaches far
    assert curve.low[1] == pytest.approx(0.2)
    assert data.up.high == 1.0
    assert (data.across.low, data.across.high) == (0.0, 1.0)


def test_the_sentence_compares_early_on() -> None:
    data = curves_data(FALLING, SHARES, ["net"], {"a": "input", "b": "input"}, ["random_gaussian"])
    assert [text(item) for item in curves_sentences(data)] == [
        "Once 10 % of the input is masked, the mean probability is 0.600 by the order of a, 0.900 by the order of b and 0.990 in "
        "random order."
    ]
    inserted = curves_data(FALLING, Curve(quantity="p", places=SHARES.places, across="", up=""), ["net"], {"a": "input"})
    assert curves_sentences(inserted) == []
    late = Curve(quantity="p", places=np.array([0.5, 0.7, 1.0]), across="", up="", masking=True)
    assert curves_sentences(curves_data(FALLING, late, ["net"], {"a": "input"})) == []


def test_the_drawing_goes_through_the_means() -> None:
    data = curves_data(FALLING, SHARES, ["net"], {"a": "input", "b": "input"}, ["random_gaussian"])
    tree = ElementTree.fromstring(f"<div>{draw_curves(data)}</div>")
    paths = [(item.get("class"), item.get("d")) for item in tree.iter("path")]
    assert ("curve", "M100 60L500 120L1000 135") in paths
    assert ("bound", "M100 1.5L500 15L1000 135") in paths
    assert sum(css == "behind" for css, _ in paths) == 2


def test_of_very_many_levels_some_are_drawn() -> None:
    many = Curve(quantity="p", places=np.arange(1, 785) / 784, across="", up="")
    data = curves_data({("net", "a"): np.ones((3, 784))}, many, ["net"], {"a": "input"})
    assert len(data.places) == 60
    assert data.places[[0, -1]].tolist() == [1 / 784, 1.0]


# --- calibration


def test_a_calibration_is_drawn_with_its_chance_and_its_end() -> None:
    data = calibration_data([calibration("net"), calibration("gone")], ["net"])
    assert len(data.found) == 1
    tree = ElementTree.fromstring(f"<div>{draw_calibration(data)}</div>")
    paths = {item.get("class"): item.get("d") for item in tree.iter("path")}
    assert paths["reference"] == "M0 135L1000 135"
    assert paths["equal"] == "M0 133.5L1000 133.5"
    assert paths["curve"] == f"M0 15L500 75L{round(500 * math.log2(3), 1):g} 134.2L1000 135"
    assert "sigma 1.5, 40 draws; chance 0.100 + 0.010" in text(draw_calibration(data))


def test_a_calibration_in_words() -> None:
    data = calibration_data([calibration("a"), calibration("b", sigma=1.25)], ["a", "b"])
    assert [text(item) for item in calibration_sentences(data)] == [
        "Predictions fall to chance: those of a at 1.500 (10.5 % are kept) and those of b at 1.250 (10.5 % are kept)."
    ]
    assert calibration_sentences(calibration_data([], ["a"])) == []


def test_names_in_curves_and_calibrations_are_escaped() -> None:
    one = {**calibration(EVIL), "space": EVIL_TOO}
    data = curves_data({(EVIL, EVIL_TOO): FALLING["net", "a"]}, SHARES, [EVIL], {EVIL_TOO: EVIL})
    for drawn in (draw_calibration(calibration_data([one], [EVIL])), draw_curves(data), "".join(curves_sentences(data))):
        assert "<script" not in drawn
        assert "<img" not in drawn
        ElementTree.fromstring(f"<div>{drawn}</div>")
