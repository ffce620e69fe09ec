"""What a run stored of one sample step by step: the numbers of the page are those of the result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_client import client

from family_audits import SAMPLE, families, folds
from veracity.core.scores import Measured
from veracity.results import Result, Series
from veracity.scores import Deletion, MeGe, SolHat
from veracity.scores.faithfulness.curves import area

CURVES = {"deletion": "prediction", "insertion": "prediction", "pixel_flipping": "prediction", "region_perturbation": "drop"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("families")
    families().run(found / "net", progress=False)
    folds().run(found / "folds", progress=False)
    return found


def case_of(folder: Path, score: str, sample: int = SAMPLE) -> dict[str, Any]:
    with client(folder) as server:
        found: dict[str, Any] = server.get(f"/api/runs/0/cases/{sample}", params={"model": "net", "score": score}).json()
        return found


def lines_of(folder: Path, score: str) -> dict[str, dict[str, Any]]:
    return {one["explainer"] + one["title"]: one for one in case_of(folder, score)["course"]["lines"]}


def series_of(folder: Path, score: str, explainer: str = "gradient") -> Series:
    return next(one for one in Result(folder).series if (one.score, one.explainer) == (score, explainer))


@pytest.mark.parametrize("score", CURVES)
def test_a_curve_is_that_of_the_result(folder: Path, score: str) -> None:
    for explainer in ("gradient", "input_x_gradient"):
        one = series_of(folder / "net", score, explainer)
        line = lines_of(folder / "net", score)[explainer]
        assert line["values"] == one.measured[CURVES[score]][SAMPLE, 0].tolist()
        assert line["places"][-1] == pytest.approx(1.0)
        assert len(line["places"]) == len(line["values"])
        assert line["draws"] == []


def test_the_area_under_the_drawn_curve_is_the_samples_value(folder: Path) -> None:
    found = case_of(folder / "net", "deletion")
    (line,) = [one for one in found["course"]["lines"] if one["explainer"] == "gradient"]
    (value,) = [one["value"] for one in found["values"] if (one["explainer"], one["score"]) == ("gradient", "deletion")]
    assert area(np.array(line["values"])) == pytest.approx(value)
    assert line["places"] == Deletion(steps=8).curve((1, 4, 4), 9).places.tolist()
    assert (found["course"]["kind"], found["course"]["up"]) == ("curve", "the probability of the explained class")


def test_random_layers_have_a_line_per_draw_around_their_mean(folder: Path) -> None:
    stored = series_of(folder / "net", "mprt").measured["value"][SAMPLE]
    line = lines_of(folder / "net", "mprt")["gradient"]
    assert stored.shape == (3, 2)
    assert line["draws"] == stored.tolist()
    assert line["values"] == pytest.approx(stored.mean(axis=0))
    assert line["places"] == [1.0, 2.0]


def test_a_search_has_the_best_point_after_each_of_its_steps(folder: Path) -> None:
    measured = series_of(folder / "net", "sol_f_hat").measured
    lines = lines_of(folder / "net", "sol_f_hat")
    for search, title in enumerate(("genetic", "gradient")):
        merit, made = measured["merit"][SAMPLE, search], measured["evaluations"][SAMPLE, search]
        steps = np.isfinite(made)
        line = lines[f"gradient{title}"]
        assert line["places"] == made[steps].tolist()
        known = [value if value is not None else np.nan for value in line["values"]]
        assert known == pytest.approx(SolHat().objective_at(merit[steps]).tolist(), nan_ok=True)
        assert np.all(np.diff(known) <= 0), "the best point never gets better for the explainer"


def test_a_stored_point_is_told_with_its_difference(folder: Path) -> None:
    pairs = {(one.explainer, one.sample): one for one in Result(folder / "net").worst("sol_f_hat", 1000)}
    shown = [(sample, pair) for sample in range(5) for pair in case_of(folder / "net", "sol_f_hat", sample)["pairs"]]
    assert {(pair["explainer"], sample) for sample, pair in shown} == pairs.keys()
    for sample, pair in shown:
        stored = pairs[pair["explainer"], sample]
        assert pair["search"]["largest"] == pytest.approx(float((stored.moved - stored.input).abs().max()))
        assert (pair["search"]["label"], pair["search"]["predicted"]) == (stored.label, stored.predicted)
        assert pair["search"]["label"] == pair["search"]["predicted"], "F-hat keeps the label"
        assert pair["search"]["difference"]["kind"] == pair["search"]["input"]["kind"] == "picture"


def test_folds_have_the_distance_and_the_set_of_every_other_model(folder: Path) -> None:
    one = series_of(folder / "folds", "mege")
    at = int(np.searchsorted(one.samples, SAMPLE))
    only = Measured({name: table[at : at + 1] for name, table in one.measured.quantities.items()})
    distance, member = MeGe().sets(only)
    line = lines_of(folder / "folds", "mege")["gradient"]
    assert line["values"] == distance[0].tolist()
    assert line["sets"] == [{0: "S=", 1: "S\N{NOT EQUAL TO}", -1: ""}[which] for which in member[0].tolist()]


def test_a_score_without_steps_has_no_course(tmp_path: Path) -> None:
    replace(families(), scores=["sparseness"]).run(tmp_path / "run", progress=False)
    assert case_of(tmp_path / "run", "sparseness")["course"] is None
