"""What the server answers about selections of samples, about two scores at once, and small drawings: the numbers of `Result`."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from app_client import client
from starlette.testclient import TestClient
from torch import nn

from orbit_small import images, labels, linear
from report_runs import MODELS, digit_pairs, digits_run, stable_run
from text_models import TEXTS, text_model, tokenizer
from veracity import Audit
from veracity.inputs import TextInputs
from veracity.perturb import CyclicShift, Dihedral
from veracity.report.interactive import plane as planes
from veracity.report.interactive.plane import points
from veracity.results import Lasso, Listed, Result, Within
from veracity.walk import Exhaustive, MonteCarlo

BASE = "/api/runs/digits"
SUBJECT = {"model": "all-cnn", "explainer": "grad_cam"}
SCORED = {**SUBJECT, "score": "equivariance"}
SIZE = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("selection")
    pairs = [replace(pair, sample=pair.sample % SIZE) for pair in digit_pairs(list(MODELS))]
    digits_run(found / "digits", samples=SIZE, pairs=pairs)
    return found


@pytest.fixture(scope="module")
def served(folder: Path) -> TestClient:
    return client(folder)


@pytest.fixture(scope="module")
def run(folder: Path) -> Result:
    return Result(folder / "digits")


def values(run: Result, score: str, explainer: str = "grad_cam") -> dict[int, float]:
    table = run.samples(score)
    mine = table[(table["model"] == "all-cnn") & (table["explainer"] == explainer)]
    return dict(zip(mine["sample"], mine["value"], strict=True))


def other_score(run: Result) -> str:
    """A further score of the explainer, or one of the model itself."""
    return next(
        one.score for one in run.series if one.model == "all-cnn" and one.explainer in ("grad_cam", "") and one.score != "equivariance"
    )


def half(run: Result) -> Within:
    """The better half."""
    middle = float(np.nanmedian(list(values(run, "equivariance").values())))
    return Within(**SUBJECT, bounds={"equivariance": (middle, None)})


def test_every_answer_keeps_to_the_selection(served: TestClient, run: Result) -> None:
    part, x = half(run), values(run, "equivariance")
    chosen = part.samples(run).tolist()
    asked: dict[str, Any] = {**SCORED, "pick": part.text}
    about = served.get(f"{BASE}/selection", params={"pick": part.text}).json()
    assert (about["n"], about["total"]) == (len(chosen), SIZE)
    assert eval(about["parts"][0]["python"], {"Within": Within}) == part
    assert about["parts"][0]["words"].startswith("Equivariance at least ")
    spread = served.get(f"{BASE}/spread", params=asked).json()
    assert spread["chosen"]["n"] == sum(spread["chosen"]["counts"]) == len(chosen)
    assert [one for one, marked in zip(spread["samples"], spread["chosen"]["marked"], strict=True) if marked] == chosen
    assert spread["chosen"]["quartiles"][2] == pytest.approx(np.median([x[one] for one in chosen]))
    lines = list(csv.DictReader(io.StringIO(served.get(f"{BASE}/spread.csv", params=asked).text)))
    assert {int(line["sample"]) for line in lines} == set(range(SIZE)), "the plot shows all samples too"
    assert {int(line["sample"]): float(line["value"]) for line in lines if line["selected"] == "true"} == {one: x[one] for one in chosen}
    page = served.get(f"{BASE}/cases", params={**asked, "count": 200}).json()
    assert [one["sample"] for one in page["cases"]] == sorted(chosen, key=lambda one: x[one])
    for sample in (chosen[0], next(one for one in range(SIZE) if one not in chosen)):
        case = served.get(f"{BASE}/cases/{sample}", params={"model": "all-cnn", "score": "equivariance", "pick": part.text}).json()
        assert case["chosen"] is (sample in chosen)
    several = served.get(f"{BASE}/selection", params={"pick": [part.text, Listed(ranges=((0, 9),)).text]}).json()
    assert several["n"] == len([one for one in chosen if one < 10])


def test_values_on_a_selection_are_those_of_a_group(served: TestClient, run: Result) -> None:
    part = half(run)
    chosen = set(part.samples(run).tolist())
    table = run.table(by={"picked": ["in" if sample in chosen else "out" for sample in range(SIZE)]})
    mine = table[(table["group"] == "in") & (table["model"] == "all-cnn") & (table["score"] == "equivariance")].set_index("explainer")
    found = served.get(f"{BASE}/selection/values", params={"model": "all-cnn", "score": "equivariance", "pick": part.text}).json()
    assert len(found) == len(mine)
    for one in found:
        expected = mine.loc[one["explainer"], "value"]
        assert one["value"] is None if math.isnan(expected) else one["value"] == expected
        assert one["n"] == mine.loc[one["explainer"], "n"]


def test_pooled_scores_are_those_of_the_selection_and_stay_those_of_the_run(tmp_path: Path) -> None:
    known = stable_run(tmp_path / "run", samples=24)
    model = next(iter(known.manifest["models"]))
    whole = {one.explainer: one.value for one in known.table().query("score == 'mege'").itertuples()}
    groups = known.table(by={"picked": ["in" if sample < 12 else "out" for sample in range(24)]})
    part = {one.explainer: one.value for one in groups.query("score == 'mege' and group == 'in'").itertuples()}
    server = client(tmp_path)
    for picks, wanted in ((["samples*0-11"], part), ([], whole), (["samples*0-11"], part)):
        asked = {"model": model, "score": "mege", "pick": picks}
        found = server.get("/api/runs/run/selection/values", params=asked).json()
        assert found
        for one in found:
            assert one["value"] == pytest.approx(wanted[one["explainer"]])
    assert any(whole[name] != pytest.approx(value) for name, value in part.items())


def test_a_selection_as_csv_has_every_score_of_the_explainer_and_its_model(served: TestClient, run: Result) -> None:
    part = Listed(ranges=((3, 5), (11, 11)))
    text = served.get(f"{BASE}/selection.csv", params={**SUBJECT, "pick": part.text}).text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [int(row["sample"]) for row in rows] == [3, 4, 5, 11]
    shown = [
        one for one in run.series if one.score in run.manifest["scores"] and one.model == "all-cnn" and one.explainer in ("grad_cam", "")
    ]
    for one in shown:
        known = values(run, one.score, one.explainer)
        assert [row[one.score] for row in rows] == [repr(known[n]) if math.isfinite(known[n]) else "" for n in (3, 4, 5, 11)]


def test_samples_can_be_sorted_by_another_score(served: TestClient, run: Result) -> None:
    by = other_score(run)
    explainer = next(
        one.explainer for one in run.series if one.model == "all-cnn" and one.score == by and one.explainer in ("grad_cam", "")
    )
    known, x = values(run, by, explainer), values(run, "equivariance")
    found = served.get(f"{BASE}/cases", params={**SCORED, "by": by, "order": "best", "count": 200}).json()["cases"]
    assert {one["sample"]: one["by"] for one in found} == {
        sample: value if math.isfinite(value) else None for sample, value in known.items()
    }
    assert {one["sample"]: one["value"] for one in found} == {
        sample: value if math.isfinite(value) else None for sample, value in x.items()
    }
    ordered = [one["by"] for one in found if one["by"] is not None]
    assert ordered in (sorted(ordered), sorted(ordered, reverse=True))


def test_of_many_samples_always_the_same_are_drawn(served: TestClient, run: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    by = other_score(run)
    asked = {**SUBJECT, "x": "equivariance", "y": by}
    whole = served.get(f"{BASE}/plane", params=asked).json()
    assert len(whole["samples"]) == whole["n"] <= whole["total"] == SIZE
    x = values(run, "equivariance")
    assert whole["x"] == [x[sample] for sample in whole["samples"]]
    assert whole["ends"][0] == [min(whole["x"]), max(whole["x"])]
    monkeypatch.setattr(planes.subset, "__defaults__", (8,))
    few = points(run, "all-cnn", "grad_cam", "equivariance", by, None)
    turned = points(run, "all-cnn", "grad_cam", by, "equivariance", np.arange(10))
    assert len(few["samples"]) == 8
    assert few["samples"] == turned["samples"]
    assert (few["n"], few["ends"], few["chosen"]) == (whole["n"], whole["ends"], None)
    marked = [turned["samples"][place] for place in turned["chosen"]["marked"]]
    assert marked == [one for one in turned["samples"] if one < 10]
    assert turned["chosen"]["n"] == len([one for one in whole["samples"] if one < 10])
    around = ((-99.0, -99.0), (99.0, -99.0), (99.0, 99.0), (-99.0, 99.0))
    lasso = Lasso(**SUBJECT, x="equivariance", y=by, corners=around)
    assert served.get(f"{BASE}/selection", params={"pick": lasso.text}).json()["n"] == whole["n"], "a lasso selects among all samples"


@pytest.mark.parametrize(
    ("path", "asked", "status", "sentence"),
    [
        ("selection", {"pick": "nonsense"}, 404, "A selection is a text such as"),
        ("selection", {"pick": ["samples*1"] * 17}, 404, "A selection has at most 16 parts, not 17."),
        ("spread", {**SCORED, "pick": "range*all-cnn*lim*equivariance**"}, 404, "Unknown row of this run 'all-cnn / lim / equivariance'."),
        ("plane", {**SUBJECT, "x": "equivariance", "y": "odd"}, 404, "Unknown row of this run 'all-cnn / grad_cam / odd'."),
        ("small", {**SUBJECT, "sample": 30}, 404, "There is no sample 30"),
        ("small", {**SUBJECT, "sample": 3, "kind": "maps"}, 404, "Unknown kind of thumbnails 'maps'."),
        ("small", {**SUBJECT, "sample": list(range(30)) * 2}, 404, "At most 48 thumbnails are made at once, not 60."),
        ("small/inputs", {"model": "all-cnn", "sample": 3}, 404, "To see draws, steps and inputs beyond the stored ones, start the server"),
    ],
)
def test_a_bad_question_gets_one_sentence(served: TestClient, path: str, asked: dict[str, Any], status: int, sentence: str) -> None:
    found = served.get(f"{BASE}/{path}", params=asked)
    assert found.status_code == status
    assert found.json()["error"].startswith(sentence)


def test_inputs_that_a_run_kept_are_small_drawings(served: TestClient, run: Result) -> None:
    kept = {pair.sample for pair in run.worst("equivariance", 100)}
    found = served.get(f"{BASE}/small", params={**SUBJECT, "sample": list(range(SIZE))}).json()
    assert not found["table"]
    assert {one["sample"] for one in found["drawings"] if one["drawing"]} == kept
    assert {one["drawing"]["kind"] for one in found["drawings"] if one["drawing"]} == {"picture"}


def test_all_inputs_are_drawn_where_the_audit_is_at_hand(tmp_path: Path) -> None:
    def audit(seed: int) -> Audit:
        return Audit(
            models={"one": linear(0)}, inputs=images(40, seed), targets=labels(40), symmetry=Dihedral(), walk=Exhaustive(), controls=False,
            explainers=["saliency"], scores=["equivariance"],
        )  # fmt: skip

    audit(0).run(tmp_path, progress=False)
    asked: dict[str, Any] = {"model": "one", "sample": [7, 39]}
    with client(tmp_path, audit(0)) as served:
        found = served.get("/api/runs/0/small/inputs", params=asked).json()["drawings"]
        assert [(one["sample"], one["drawing"]["kind"]) for one in found] == [(7, "picture"), (39, "picture")]
        assert found[0]["drawing"]["src"] != found[1]["drawing"]["src"]
        maps = served.get("/api/runs/0/small", params={**asked, "explainer": "saliency", "kind": "explanations"}).json()["drawings"]
        assert [one["drawing"]["kind"] for one in maps] == ["picture", "picture"]
    with client(tmp_path, audit(5)) as served:
        refused = served.get("/api/runs/0/small/inputs", params=asked)
        assert refused.json()["error"].startswith("The audit at hand is not the one that made this run"), (
            "other inputs are not shown as the run's"
        )


def test_texts_are_drawn_by_their_first_words_and_models_may_disagree(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    models = {"one": text_model(0), "two": text_model(3)}
    texts = [
        *TEXTS,
        "no heart at all",
        "a film with heart",
        "very fine at heart",
        "not a film with a fine heart or any heart at all then a dull film",
    ]
    audit = Audit(
        models=models, inputs=TextInputs(texts, tokenizer()), targets=torch.tensor([1, 0] * 4), scores=["sparseness", "complexity"],
        explainers=["input_x_gradient"], controls=False, companions=False,
    )  # fmt: skip
    audit.run(tmp_path, progress=False)
    run = Result(tmp_path)
    predicted = [run.manifest["models"][model]["classes"]["predicted"] for model in models]
    different = [number for number, (first, second) in enumerate(zip(*predicted, strict=True)) if first != second]
    subject = {"model": "one", "explainer": "input_x_gradient", "score": "sparseness"}
    with client(tmp_path) as served:
        assert {"wrong", "disagree"} <= set(served.get("/api/runs/0").json()["choices"]["one"])
        found = served.get("/api/runs/0/cases", params={**subject, "only": "disagree", "order": "number"}).json()
        assert [one["sample"] for one in found["cases"]] == different
        wanted = {**subject, "sample": list(range(len(texts)))}
        words = [one["drawing"]["words"] for one in served.get("/api/runs/0/small", params=wanted).json()["drawings"]]
        assert words[0] == texts[0].split()
        assert words[-1] == [*run.manifest["data"]["words"][-1][:12], "\N{HORIZONTAL ELLIPSIS}"]
        maps = served.get("/api/runs/0/small", params={**wanted, "kind": "explanations"}).json()["drawings"]
        assert [one["drawing"]["words"] for one in maps] == words


def test_series_are_lines_and_rows_of_a_table_have_no_picture(tmp_path: Path) -> None:
    given: dict[str, Any] = {"explainers": ["gradient"], "scores": ["equivariance", "sparseness"], "controls": False, "companions": False}
    series = torch.rand(8, 1, 200, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Flatten(), nn.Linear(200, 16), nn.Tanh(), nn.Linear(16, 3)).eval()
    Audit(models={"net": net}, inputs=series, symmetry=CyclicShift(axes=(-1,)), walk=MonteCarlo(draws=2), **given).run(
        tmp_path / "series", progress=False
    )
    frame = pd.DataFrame({"height": np.linspace(1.5, 2, 8), "weight": np.linspace(50, 90, 8)})
    Audit(models={"net": nn.Linear(2, 2)}, inputs=frame, **{**given, "scores": ["sparseness"]}).run(tmp_path / "table", progress=False)
    with client(tmp_path) as served:
        kept = {pair.sample for pair in Result(tmp_path / "series").worst("equivariance", 8)}
        drawings = served.get("/api/runs/series/small", params={"model": "net", "sample": list(range(8))}).json()["drawings"]
        assert {one["sample"]: len(one["drawing"]["rows"][0]) for one in drawings if one["drawing"]} == dict.fromkeys(kept, 80)
        found = served.get("/api/runs/table/small", params={"model": "net", "sample": [0, 7]}).json()
        assert found == {"table": True, "drawings": [{"sample": 0, "drawing": None}, {"sample": 7, "drawing": None}]}
