from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from interval_oracles import skewed_mean
from orbit_small import digits_like, images, labels
from veracity import OrbitResult
from veracity.core.errors import InputError, SpecError
from veracity.engine.store.files import Files
from veracity.orbits import RotationOrbit
from veracity.orbits.statistics import mean_along, summary

HIGHER = {"low": 0.0, "high": 1.0, "higher_is_better": True}


@pytest.fixture
def result(tmp_path: Path) -> OrbitResult:
    evaluation = digits_like(
        inputs=images(70), targets=labels(70), orbit=RotationOrbit(step=90.0), title="Turned", notes=["Beware."], about={"recipe": "none"}
    )
    return evaluation.run(tmp_path / "run", progress=False)


def test_the_mean_along_an_orbit_against_the_slow_way() -> None:
    values = np.random.default_rng(0).random((9, 5))
    values[2, 1] = np.nan
    found = mean_along(values, 0.9)
    for element in range(5):
        x = values[:, element][np.isfinite(values[:, element])]
        low, high = skewed_mean(x, 0.9)
        assert found.loc[element].tolist() == pytest.approx([x.mean(), low, high, len(x)])
    nothing = mean_along(np.full((3, 1), np.nan))
    assert np.isnan(nothing[["value", "low", "high"]].to_numpy()).all()
    assert nothing["n"][0] == 0
    same = mean_along(np.full((3, 1), 0.25))
    assert same.loc[0].tolist() == [0.25, 0.25, 0.25, 3]


def test_intervals_are_cut_to_the_bounds_of_the_metric() -> None:
    values = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert mean_along(values, bounds=(0.0, 1.0))["high"].tolist() == [1.0, 1.0]
    found = summary(values, HIGHER, 0, ("0°", "90°"), 0.95)
    assert found["high"] == 1.0
    assert (found["identity"], found["worst"], found["worst_at"]) == (1.0, pytest.approx(2 / 3), "90°")
    assert found["spread"] == pytest.approx(1 / 3)
    assert summary(values, {**HIGHER, "higher_is_better": False}, 0, ("0°", "90°"), 0.95)["worst_at"] == "0°"
    empty = summary(np.full((2, 2), np.nan), HIGHER, 0, ("0°", "90°"), 0.95)
    assert (empty["undefined"], empty["worst_at"]) == (4, "")
    level = summary(np.array([[0.4, 0.4 + 1e-8]] * 2), HIGHER, 0, ("0°", "90°"), 0.95)
    assert (round(level["worst"], 6), level["worst_at"]) == (0.4, "")
    assert np.isnan(empty["spread"])


@pytest.mark.parametrize("subset", [1, "one", np.arange(1, 70, 3), np.arange(70) % 3 == 1])
def test_a_class_is_chosen_as_plain_numpy_would(result: OrbitResult, subset: object) -> None:
    found = result.aggregate("b", "confidence", subset=subset)
    values = result.values("b", "confidence")[labels(70).numpy() == 1].astype(np.float64)
    assert found["angle"].tolist() == [0.0, 90.0, 180.0, 270.0]
    assert np.allclose(found["value"], values.mean(axis=0))
    low, high = np.array([skewed_mean(column) for column in values.T.astype(np.float64)]).T
    assert np.allclose(found["low"], np.maximum(low, 0.0))
    assert np.allclose(found["high"], np.minimum(high, 1.0))
    assert set(found["n"]) == {23}


def test_all_samples_and_single_ones(result: OrbitResult) -> None:
    whole = result.aggregate("a", "accuracy", reference="consensus")
    assert np.allclose(whole["value"], result.values("a", "accuracy", "consensus").mean(axis=0))
    one = result.individual(65, "confidence")
    assert list(one.columns) == ["angle", "a", "b"]
    assert np.allclose(one["b"], result.values("b", "confidence")[65])


def test_the_table_says_what_the_values_say(result: OrbitResult) -> None:
    row = result.table().set_index(["model", "metric", "reference"]).loc["a", "confidence", "truth"]
    values = result.values("a", "confidence").astype(np.float64)
    along = values.mean(axis=0)
    assert row["value"] == pytest.approx(values.mean())
    assert row["identity"] == pytest.approx(along[0])
    assert row["worst"] == pytest.approx(along.min())
    assert row["worst_at"] == ["0°", "90°", "180°", "270°"][along.argmin()]
    assert (row["low"], row["high"]) == pytest.approx(skewed_mean(values.mean(axis=1)))
    assert np.isnan(row["unseen"])
    distances = result.distances("a").astype(np.float64)[:, 1:].mean(axis=1)
    assert row["gap"] == pytest.approx(distances.mean())
    assert len(result.table()) == 8


def test_intervals_of_gaps_and_correlations_are_cut_to_what_can_be(tmp_path: Path) -> None:
    few = digits_like(inputs=images(2), targets=labels(2)).run(tmp_path / "few", progress=False)
    gap, agreed = few.gap(), few.agreement().dropna(subset=["low"])
    assert (gap["low"] >= 0.0).all()
    assert (gap["high"] <= 1.0).all()
    assert 0.0 in gap["low"].tolist()
    assert agreed["low"].min() >= -1.0
    assert agreed["high"].max() <= 1.0


def test_the_text_holds_table_agreement_and_notes(result: OrbitResult) -> None:
    text = str(result)
    assert "accuracy ↑" in text
    assert "consensus against truth, correlation along the orbit:" in text
    assert text.endswith("Beware.")


def test_what_was_run_is_described(result: OrbitResult) -> None:
    again = OrbitResult(result.path)
    assert (again.samples, again.shape, again.models, again.kind) == (70, (1, 4, 4), ("a", "b"), "classification")
    assert (again.layout, again.identity, again.elements) == ("polar", 0, ("0°", "90°", "180°", "270°"))
    assert again.manifest["kind"] == "orbits"
    assert again.manifest["title"] == "Turned"
    assert again.manifest["about"] == {"recipe": "none"}
    assert again.metrics[1] == {
        "name": "confidence",
        "label": "confidence",
        "consensus_label": "confidence in the consensus",
        "unit": "",
        "low": 0.0,
        "high": 1.0,
        "higher_is_better": True,
        "references": ["truth", "consensus"],
        "explainer": None,
    }
    assert again.axes[0]["period"] == 360.0
    assert again.labels.tolist() == labels(70).tolist()
    assert len(again.manifest["cells"]) == 4


def test_all_models_share_one_plane_which_is_kept(result: OrbitResult, monkeypatch: pytest.MonkeyPatch) -> None:
    points = result.reduce("confidence", "pca")
    assert points.shape == (2, 70, 2)
    values = np.concatenate([result.values(model, "confidence") for model in ("a", "b")]).astype(np.float64)
    centred = values - values.mean(axis=0)
    variances = np.linalg.svd(centred, compute_uv=False)[:2] ** 2
    assert np.allclose((points.reshape(-1, 2).astype(np.float64) ** 2).sum(axis=0), variances, rtol=1e-4)
    monkeypatch.setattr("veracity.orbits.result.embed", lambda *given: pytest.fail("it was kept"))
    assert np.array_equal(OrbitResult(result.path).reduce("confidence", "pca"), points)


def test_a_folder_that_cannot_be_written_is_read_all_the_same(result: OrbitResult, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: object, **settings: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "makedirs", refused)
    assert result.reduce("accuracy", "pca").shape == (2, 70, 2)
    assert not Files(result.path).exists("reductions")


def test_names_that_are_none_get_the_nearest_one(result: OrbitResult) -> None:
    with pytest.raises(SpecError, match=r"Unknown metric 'confidense'. Did you mean 'confidence'\?"):
        result.values("a", "confidense")
    with pytest.raises(SpecError, match="Unknown model 'c'"):
        result.values("c", "confidence")
    with pytest.raises(SpecError, match=r"Unknown reference 'thruth'. Did you mean 'truth'\?"):
        result.values("a", "confidence", "thruth")
    with pytest.raises(SpecError, match="Unknown method of dimension reduction 'pcaa'"):
        result.reduce("confidence", "pcaa")
    with pytest.raises(SpecError, match=r"Unknown group 'tow'. Did you mean 'two'\?"):
        result.aggregate("a", "confidence", subset="tow")


@pytest.mark.parametrize("subset", [[], [70], [-1], [0.5], np.zeros(70, dtype=bool), True])
def test_a_subset_that_is_none_gets_a_sentence(result: OrbitResult, subset: object) -> None:
    with pytest.raises(InputError, match="A subset is a label, a group's name, or numbers of samples from 0 to 69"):
        result.aggregate("a", "confidence", subset=subset)


def test_a_label_or_sample_that_is_none_gets_a_sentence(result: OrbitResult, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No sample has the label 5; there are 0, 1, 2\."):
        result.aggregate("a", "confidence", subset=5)
    with pytest.raises(InputError, match="A sample is known by its number from 0 to 69, not 70"):
        result.picture(70)
    blind = digits_like(targets=None).run(tmp_path / "blind", progress=False)
    with pytest.raises(InputError, match="No targets were given to this evaluation: ask for reference='consensus'"):
        blind.values("a", "confidence")
    with pytest.raises(InputError, match="The samples have no labels"):
        blind.aggregate("a", "confidence", subset=1, reference="consensus")


def test_columns_are_read_one_by_one_where_they_are_many(result: OrbitResult, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = result.values("a", "confidence", "consensus")
    monkeypatch.setattr("veracity.orbits.result.TOGETHER", 1)
    other = OrbitResult(result.path)
    assert np.array_equal(other.values("a", "confidence", "consensus"), expected)
    assert list(other._known) == [("a", "confidence@consensus")]
    with pytest.raises(ValueError, match="read-only"):
        expected[0, 0] = 1.0


def test_an_orbit_that_cannot_be_made_again_has_no_frames(tmp_path: Path) -> None:
    class Own(RotationOrbit):
        name = "own_orbit"

    own = digits_like(orbit=Own(step=90.0)).run(tmp_path / "own", progress=False)
    assert own.frames(0) is None
    assert own.elements == ("0°", "90°", "180°", "270°")


def test_the_evaluation_is_served_with_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, ...]] = []
    monkeypatch.setattr("veracity.serve", lambda *given, **settings: seen.append((*given, settings)), raising=False)
    evaluation = digits_like()
    evaluation.serve("runs/digits", port=8123)
    assert seen == [(evaluation, "runs/digits", {"port": 8123})]


def test_moved_inputs_beyond_all_measure_are_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits_like().run(tmp_path / "run", progress=False)
    result = OrbitResult(tmp_path / "run")
    frames = result.frames(0)
    assert frames is not None
    monkeypatch.setattr("veracity.orbits.result.MOST_FRAMES", frames.size - 1)
    assert result.frames(0) is None
