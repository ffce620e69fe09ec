from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import report_runs
from report_runs import Observed, stored
from veracity.core.scores import Score
from veracity.core.walks import Sampling
from veracity.report.figures.chart import Scale, exact_scale, tight_scale
from veracity.report.figures.convergence import DrawKind, convergence_data, convergence_sentences, draw_convergence, random_draws
from veracity.report.figures.invariance import (
    draw_relaxation,
    draw_training,
    relaxation_data,
    relaxation_sentences,
    training_data,
    training_sentences,
)
from veracity.report.figures.panels import Facet, draw_facets
from veracity.report.figures.plane import Plane, Spot, draw_band, draw_paths, draw_plane, draw_spots, label_indices
from veracity.report.figures.sensitivity import draw_sensitivity, sensitivity_data, sensitivity_sentences
from veracity.report.figures.symmetrisation import draw_symmetrisation, positions, reach_text, symmetrisation_data
from veracity.report.reading import read, steps_of
from veracity.report.wording import bare_label, families, relatives
from veracity.results import Row
from veracity.scores import MaxSensitivity, Symmetry
from veracity.walk import Adaptive

PLANE = Plane(across=Scale(0.0, 10.0, (0.0, 5.0, 10.0)), up=Scale(0.0, 1.0, (0.0, 1.0)), height=100)


def row(model: str, explainer: str, value: float, half: float = 0.0, score: str = "symmetry", **changes: Any) -> Row:
    return report_runs.row(explainer, value, half, **{"model": model, "score": score, "n": 1, **changes})


def own(model: str, value: float) -> Row:
    return row(model, "", value, score="model_invariance")


def text(markup: object) -> str:
    return re.sub(r"<[^>]*>", "", str(markup))


# --- axes and planes


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, allow_nan=False) | st.just(math.nan), max_size=6))
def test_a_tight_axis_holds_its_values(values: list[float]) -> None:
    scale = tight_scale(values)
    span = scale.high - scale.low
    assert span > 0
    assert all(scale.low - 1e-6 * span <= value <= scale.high + 1e-6 * span for value in values if math.isfinite(value))
    assert 2 <= len(scale.ticks) <= 9


def test_a_tight_axis_may_be_asked_for_some_width() -> None:
    assert tight_scale([0.9995, 1.0], least=0.02).low == pytest.approx(0.98)
    assert exact_scale(0.0, 500.0).ticks == (0.0, 200.0, 400.0, 500.0)


def test_texts_of_an_axis_keep_clear_of_one_another() -> None:
    assert label_indices([0.0, 3.0, 8.0, 15.1, 100.0]) == [0, 2, 3, 4]
    assert label_indices([]) == []


def test_points_paths_and_bands_stand_where_the_numbers_say() -> None:
    drawn_spot = str(draw_spots([Spot(x=5.0, y=0.25, low=0.0, high=0.5, left=4.0, right=7.0, title="<t>")], 1, PLANE))
    tree = ElementTree.fromstring(drawn_spot)
    assert [(item.get("x1"), item.get("x2"), item.get("y1"), item.get("y2")) for item in tree.iter("line")] == [
        ("50.0%", "50.0%", "100.0", "50.0"),
        ("40.0%", "70.0%", "75.0", "75.0"),
    ]
    assert "&lt;t&gt;" in drawn_spot
    path = str(draw_paths([[(0.0, 1.0), (5.0, math.nan), (5.0, 0.5), (10.0, 0.0)]], "curve", PLANE))
    assert 'd="M0 0M500 50L1000 100"' in path
    band = str(draw_band([(0.0, 0.0), (10.0, 0.25)], [(0.0, 0.5), (10.0, 0.75)], PLANE))
    assert 'd="M0 100L1000 75L1000 25L0 50Z"' in band
    assert draw_band([(0.0, math.nan), (1.0, 0.0)], [(0.0, 0.5), (1.0, 1.0)], PLANE) == ""
    whole = str(draw_plane(PLANE, draw_spots([], 0, PLANE), "<label>"))
    assert "&lt;label&gt;" in whole
    ElementTree.fromstring(whole)


def test_many_plots_fold_away_kind_by_kind() -> None:
    empty = draw_plane(PLANE, draw_spots([], 0, PLANE), "")
    facets = [Facet(title=f"<{place}>", frame=frame, drawing=empty) for frame in ("concepts", "input") for place in range(5)]
    html = str(draw_facets(facets, shown=3))
    assert re.findall(r'<p class="minor kind">(.*?)</p>', html) == ["Feature maps", "Concepts"]
    assert html.count("<summary>2 more plots</summary>") == 2
    assert html.count('<figure class="facet"') == 10
    assert "&lt;4&gt;" in html
    assert "minor kind" not in str(draw_facets(facets[:2]))


# --- explanations made symmetric (Figure 4)

INNER = {"name": "cav", "layer": "conv3"}
SPECS = {
    "cav, 4": {"name": "symmetrised", "explainer": INNER, "space": None, "draws": 4},
    "cav, all": {"name": "symmetrised", "explainer": INNER, "space": None, "draws": None},
    "plain cav": INNER,
    "cav, 1": {"name": "symmetrised", "explainer": INNER, "space": None, "draws": 1},
    "cav elsewhere": {"name": "cav", "layer": "dense1"},
    "saliency, 2": {"name": "symmetrised", "explainer": "saliency", "space": None, "draws": 2},
}


def test_families_share_what_is_inside() -> None:
    assert sorted(families(SPECS).values(), key=len) == [{2: "saliency, 2"}, {4: "cav, 4", None: "cav, all", 1: "cav, 1"}]
    assert bare_label(INNER, SPECS) == "plain cav"
    assert bare_label({"name": "cav"}, SPECS) == ""
    assert bare_label({"name": "lime"}, {"mine": {"name": "lime", "draws": 9}}) == "mine"
    assert set(relatives(SPECS)) == {("plain cav", "cav, 4", "cav, all", "cav, 1"), ("saliency, 2",)}
    apart = {"a": {"name": "symmetrised", "explainer": INNER, "space": {"name": "d4"}, "draws": 1}, "b": SPECS["cav, 1"]}
    assert len(families(apart)) == 2


def symmetrised() -> list[Row]:
    found = {"plain cav": 0.6, "cav, 1": 0.7, "cav, 4": 0.995, "cav, all": 1.0, "saliency, 2": 0.9, "cav elsewhere": 1.0}
    halves = {"cav, 4": 0.004, "cav, all": 0.0}
    return [row("m", name, value, halves.get(name, 0.05), frame="concepts") for name, value in found.items()]


def test_the_curve_runs_from_the_bare_explainer_to_the_whole_group() -> None:
    data = symmetrisation_data([*symmetrised(), row("n", "cav, 1", 0.5, 0.1)], "symmetry", ["m", "n"], SPECS)
    (family,) = data.families
    assert family.title == "plain cav"
    assert [(step.draws, step.explainer) for step in family.steps] == [(0, "plain cav"), (1, "cav, 1"), (4, "cav, 4"), (None, "cav, all")]
    assert [step.results[0].value for step in family.steps if step.results[0]] == [0.6, 0.7, 0.995, 1.0]
    assert data.places == (0, 1, 4, None)
    assert reach_text(family, 0, 0.99) == "0.99 is reached with 4 transforms"
    assert reach_text(family, 1, 0.99) == "0.99 is not reached with 1 transform"


def test_the_smallest_number_is_the_first_whose_lower_end_reaches_the_mark() -> None:
    rows = {item.explainer: item for item in symmetrised()}
    wide = [row("m", "cav, 4", 0.995, 0.006, frame="concepts") if name == "cav, 4" else item for name, item in rows.items()]
    (family,) = symmetrisation_data(wide, "symmetry", ["m"], SPECS).families
    assert reach_text(family, 0, 0.99) == "0.99 is reached over the whole group"
    bare = [row("m", "plain cav", 1.0, 0.0, frame="concepts"), *(item for name, item in rows.items() if name != "plain cav")]
    (family,) = symmetrisation_data(bare, "symmetry", ["m"], SPECS).families
    assert reach_text(family, 0, 0.99) == "0.99 is reached without any transform"
    undefined = [row("m", name, 0.9, math.nan) for name in ("cav, 1", "cav, all")]
    assert (
        reach_text(symmetrisation_data(undefined, "symmetry", ["m"], SPECS).families[0], 0, 0.99)
        == "0.99 is not reached with the whole group"
    )


def test_the_bare_explainer_stands_before_one_draw_and_off_the_curve() -> None:
    assert positions((0, 1, 3, 7, None)) == {0: 0.0, 1: 1.0, 3: 2.0, 7: 3.0, None: 4.0}
    html = str(draw_symmetrisation(symmetrisation_data(symmetrised(), "symmetry", ["m"], SPECS)))
    assert html.count('class="dot"') == 4
    (path,) = re.findall(r'class="curve" d="([^"]*)"', html)
    assert len(re.findall("[ML]", path)) == 3
    assert re.findall(r'text-anchor="middle">(.*?)<', html) == ["none", "1", "4", "all"]


def test_a_family_of_one_is_no_curve_and_a_distance_has_no_mark() -> None:
    assert symmetrisation_data([row("m", "saliency, 2", 0.9)], "symmetry", ["m"], SPECS).families == ()
    assert symmetrisation_data(symmetrised(), "symmetry", ["m"], ["cav"]).families == ()
    data = symmetrisation_data([row("m", name, 0.9, direction="lower") for name in ("cav, 1", "cav, 4")], "symmetry", ["m"], SPECS)
    assert not data.judged
    assert "reached" not in str(draw_symmetrisation(data))


def test_families_with_one_name_are_told_apart() -> None:
    specs = {
        f"{layer}, {draws}": {"name": "symmetrised", "explainer": {"name": "cav", "layer": layer}, "draws": draws}
        for layer in "ab"
        for draws in (1, 2)
    }
    data = symmetrisation_data([row("m", label, 0.5) for label in specs], "symmetry", ["m"], specs)
    assert [item.title for item in data.families] == ["cav (a, 2)", "cav (b, 2)"]


# --- models that are less invariant (Figure 5)


def relaxed() -> list[Row]:
    rows = [own("exact", 1.0), own("near", 0.97), own("far", 0.6)]
    for name, values in {"ig": (1.0, 0.5, 0.2), "loss": (1.0, 0.995, 0.99), "shap": (0.4, 0.3, 0.1)}.items():
        rows += [row(model, name, value, 0.001) for model, value in zip(("exact", "near", "far"), values, strict=True)]
    return rows


ORDER = ("loss", "ig", "shap", "constant")


def test_every_explainer_meets_the_models_in_the_order_of_their_invariance() -> None:
    rows = [*relaxed(), *(row(model, "constant", 1.0, control=True) for model in ("exact", "near", "far"))]
    data = relaxation_data(rows, "symmetry", ["exact", "near", "far"], ORDER)
    assert [label for label, _, _ in data.explainers] == ["loss", "ig", "shap"]
    assert [(item.model, item.own.value, item.result.value) for item in data.explainers[1][2]] == [
        (2, 0.6, 0.2),
        (1, 0.97, 0.5),
        (0, 1.0, 1.0),
    ]
    assert (data.across.low, data.across.high) == (0.6, 1.0)


def test_what_holds_on_the_invariant_model_and_not_elsewhere_is_counted() -> None:
    models = ["exact", "near", "far"]
    data = relaxation_data(relaxed(), "symmetry", models, ORDER)
    assert [text(sentence) for sentence in relaxation_sentences(data, models)] == [
        "2 explainers respect the symmetry on exact, at or above 0.99. On other models, these do not: 1 of 2 on near (its own "
        "invariance is 0.970) and 1 of 2 on far (its own invariance is 0.600)."
    ]
    html = str(draw_relaxation(data, models))
    assert html.count('class="dot"') == 9
    assert html.count('class="ends"') == 2 * 9


def test_models_alike_in_invariance_show_nothing() -> None:
    rows = [own("a", 1.0), own("b", 0.9999), row("a", "ig", 1.0), row("b", "ig", 0.2)]
    assert relaxation_data(rows, "symmetry", ["a", "b"], ["ig"]).explainers == ()
    assert relaxation_data(relaxed(), "symmetry", ["exact", "near", "far"], ORDER, without={"near", "far"}).explainers == ()
    assert relaxation_sentences(relaxation_data(rows, "symmetry", ["a", "b"], ["ig"]), ["a", "b"]) == []


# --- during training (Figure 3d)


def test_steps_are_read_in_order_and_need_two() -> None:
    assert steps_of({"b": 20, "a": 5, "gone": 7}, ["a", "b"]) == {"a": 5.0, "b": 20.0}
    assert steps_of({"b": 20}, ["a", "b"]) == {}
    assert steps_of({"b": 20, "a": 20}, ["a", "b"]) == {}
    assert steps_of({"b": 20, "a": "late"}, ["a", "b"]) == {}
    assert steps_of(None, ["a"]) == {}


def test_curves_over_the_steps() -> None:
    steps = {"a": 0.0, "b": 100.0, "c": 1000.0}
    rows = [own("a", 1.0), own("b", 0.99), own("c", 0.98), row("a", "ig", 1.0), row("b", "ig", 0.8), row("c", "ig", 0.4)]
    rows += [row("a", "cav", 0.9), row("c", "cav", 0.8), row("b", "lone", 0.5), row("a", "still", 1.0, control=True)]
    data = training_data(rows, "symmetry", steps, ["ig", "cav", "lone", "still"])
    assert data.steps == (0.0, 100.0, 1000.0)
    assert [item.value for item in data.own if item] == [1.0, 0.99, 0.98]
    assert [label for label, _, _ in data.explainers] == ["ig", "cav"]
    assert [item and item.value for item in data.explainers[1][2]] == [0.9, None, 0.8]
    assert [text(sentence) for sentence in training_sentences(data)] == [
        "From step 0 to step 1000, the model's invariance goes from 1.000 to 0.980; ig changes most, from 1.000 to 0.400."
    ]
    html = str(draw_training(data))
    assert html.count('class="dot"') == 5
    assert html.count('class="reference"') == 2
    ElementTree.fromstring(f"<div>{html}</div>")


# --- enough draws (Figure 7)

VALUES = np.array([[1.0, 0.5, 0.0, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5, 0.5]])
COSINE = DrawKind(sampling=Sampling(), bounds=(-1.0, 1.0))


def test_running_means_and_hoeffdings_error_by_hand() -> None:
    data = convergence_data({("m", "shap"): VALUES}, {("m", "shap"): COSINE}, ["m"], {"shap": "input"})
    ((label, frame, (found,)),) = data.explainers
    assert (label, frame, found.samples) == ("shap", "input", 2)
    assert found.draws.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert found.value == pytest.approx([0.75, 0.625, 0.5, 0.5, 0.5])
    assert found.bound == pytest.approx([2 * math.sqrt(math.log(40) / (4 * m)) for m in range(1, 6)])
    variances = np.array([VALUES[0].var(ddof=1) / 5, 0.0])
    half = 2.776445 * math.sqrt(variances.sum()) / 2  # t with the 4 degrees of freedom of the one sample that varies
    assert found.width == pytest.approx(2 * half, rel=1e-5)
    said = [text(sentence) for sentence in convergence_sentences(data, "95 %")]
    assert said[0] == "After 5 draws per sample, the 95 % interval over draws of shap on m is 0.281 to 0.719."
    assert said[1] == "Whatever the values are, Hoeffding's inequality promises an error of at most 0.859 for 2 samples and 5 draws."
    html = str(draw_convergence(data))
    assert [html.count(f'class="{css}"') for css in ("band", "curve", "bound")] == [1, 1, 1]
    ElementTree.fromstring(f"<div>{html}</div>")


def test_what_has_settled_or_has_too_few_draws_is_left_out() -> None:
    kinds = {("m", name): COSINE for name in ("exact", "few", "undefined", "shap")}
    draws = {
        ("m", "exact"): np.full((3, 9), 0.9995),
        ("m", "few"): np.full((3, 4), 0.5),
        ("m", "undefined"): np.full((3, 9), np.nan),
        ("m", "unknown"): VALUES,
        ("m", "shap"): VALUES,
    }
    frames = dict.fromkeys((*(name for _, name in draws),), "input")
    data = convergence_data(draws, kinds, ["m", "n"], frames)
    assert [label for label, _, _ in data.explainers] == ["shap"]


def test_hoeffding_does_not_speak_of_undefined_or_unbounded_values() -> None:
    holes = VALUES.copy()
    holes[0, 1] = np.nan
    loose = DrawKind(sampling=Sampling(), bounds=(-math.inf, math.inf))
    for values, kind in ((holes, COSINE), (VALUES, loose)):
        data = convergence_data({("m", "a"): values}, {("m", "a"): kind}, ["m"], {"a": "input"})
        assert np.isnan(data.explainers[0][2][0].bound).all()
        assert len(convergence_sentences(data, "95 %")) == 1
        assert 'class="bound" d=""' in str(draw_convergence(data))


@pytest.mark.parametrize(
    ("score", "sampling", "spec", "kept"),
    [
        (Symmetry(), {}, {"walk": {"name": "monte_carlo"}}, True),
        (Symmetry(), {}, {}, True),
        (MaxSensitivity(), {}, {}, False),
        (Symmetry(), {}, {"walk": {"name": "exhaustive"}}, False),
        (Symmetry(walk=Adaptive()), {}, {"walk": {"name": "monte_carlo"}}, False),
        (Symmetry(), {"nested": False}, {"walk": {"name": "monte_carlo"}}, False),
        (Symmetry(), {"anytime": 0.95}, {}, False),
    ],
)
def test_only_random_draws_of_a_mean_can_be_cut_short(
    tmp_path: Path, score: Score, sampling: dict[str, Any], spec: dict[str, Any], kept: bool
) -> None:
    observed = [Observed(model="m", explainer="a", score="own", values=np.full((2, 3), 0.5))]
    run = stored(tmp_path, {"own": score}, observed, sampling={**report_runs.NESTED, **sampling}, spec=spec)
    found = random_draws(read(run), "own")
    assert found == ({("m", "a"): DrawKind(sampling=Sampling(), bounds=(-1.0, 1.0))} if kept else {})


# --- sensitivity against symmetry (Figure 8)


def samples(label: str, values: list[float], model: str = "m", start: int = 0) -> pd.DataFrame:
    return pd.DataFrame(
        [{"model": model, "explainer": label, "sample": start + place, "value": value} for place, value in enumerate(values)]
    )


def test_samples_are_matched_and_correlated() -> None:
    sensitivity = pd.concat([samples("ig", [1.0, 2.0, 3.0, 4.0, 9.0]), samples("constant", [0.0, 0.0])])
    symmetry = pd.concat([samples("ig", [7.0, 0.1, 0.2, 0.9, 0.4], start=-1), samples("constant", [1.0, 1.0])])
    symmetry.loc[symmetry["value"] == 0.9, "value"] = np.nan
    data = sensitivity_data(sensitivity, symmetry, "symmetry", ["m"], {"ig": "input", "constant": "input"})
    ((label, _, (cloud,)),) = data.explainers
    assert label == "ig"
    assert cloud.sensitivity.tolist() == [1.0, 2.0, 4.0]
    assert cloud.symmetry.tolist() == [0.1, 0.2, 0.4]
    assert cloud.r.value == pytest.approx(1.0)
    assert cloud.r.n == 3
    html = str(draw_sensitivity(data))
    assert re.findall(r'class="points" d="([^"]*)"', html) == ["M250 135h0M500 120h0M1000 90h0"]
    assert "r = 1.00, n = 3" in html


def test_rounding_does_not_correlate() -> None:
    sensitivity, symmetry = samples("ig", [1.0, 2.0, 3.0]), samples("ig", [1.0, 1.0 - 1e-7, 1.0 - 2e-7])
    assert sensitivity_data(sensitivity, symmetry, "symmetry", ["m"], {"ig": "input"}).explainers == ()
    both = pd.concat([sensitivity, samples("ig", [1.0, 2.0, 3.0], "n")])
    varied = pd.concat([symmetry, samples("ig", [0.9, 0.5, 0.6], "n")])
    data = sensitivity_data(both, varied, "symmetry", ["m", "n"], {"ig": "input"})
    first, second = data.explainers[0][2]
    assert math.isnan(first.r.value)
    assert second.r.value == pytest.approx(np.corrcoef([1, 2, 3], [0.9, 0.5, 0.6])[0, 1])
    assert "the samples do not differ, n = 3" in str(draw_sensitivity(data))
    assert text(sensitivity_sentences(data)[0]).startswith("Pearson's correlation r over samples is \N{MINUS SIGN}0.72.")


def test_very_many_samples_are_thinned_for_the_drawing_alone() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(size=2000)
    data = sensitivity_data(samples("ig", list(x)), samples("ig", list(1 - x / 2)), "symmetry", ["m"], {"ig": "input"})
    assert data.explainers[0][2][0].r.n == 2000
    (path,) = re.findall(r'class="points" d="([^"]*)"', str(draw_sensitivity(data)))
    assert path.count("M") == 300
