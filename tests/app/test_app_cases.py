"""What the server answers about the samples of an audit: the numbers of `Result`, page by page, and one sentence for what cannot be had."""

from __future__ import annotations

import html
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from app_client import client
from starlette.testclient import TestClient

from orbit_small import digits_like
from report_runs import MODELS, digit_pairs, digits_run, faithful_run, stable_run
from veracity import report
from veracity.app import answers as application_answers
from veracity.engine.store import RunFolder
from veracity.results import Result
from veracity.results.cases import sample_pairs, sample_values
from veracity.results.words import assumptions

BASE = "/api/runs/digits"
GRAD_CAM = {"model": "all-cnn", "explainer": "grad_cam", "score": "equivariance"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("cases")
    pairs = [replace(pair, sample=pair.sample % 30) for pair in digit_pairs(list(MODELS))]
    digits_run(found / "digits", samples=30, pairs=pairs)
    faithful_run(found / "faithful", ("fast_gef", "pixel_flipping", "max_sensitivity"), samples=6, draws=3)
    stable_run(found / "stable", samples=8)
    return found


@pytest.fixture(scope="module")
def served(folder: Path) -> TestClient:
    return client(folder)


def values_of(run: Result, model: str, explainer: str, score: str) -> dict[int, float]:
    table = run.samples(score)
    mine = table[(table["model"] == model) & (table["explainer"] == explainer)]
    return dict(zip(mine["sample"], mine["value"], strict=True))


@pytest.mark.parametrize("name", ["digits", "faithful", "stable"])
def test_one_sample_has_the_values_of_the_result(folder: Path, name: str) -> None:
    run = Result(folder / name)
    whole = {score: run.samples(score).set_index(["model", "explainer", "sample"]) for score in run.manifest["scores"]}
    known = {score: table["value"] for score, table in whole.items()}
    model = next(iter(run.manifest["models"]))
    found = sample_values(run, model, 5)
    assert len(found) == sum(len(values.loc[[model]].index.unique("explainer")) for values in known.values())
    for one in found:
        assert one.value == pytest.approx(known[one.score][model, one.explainer, 5], nan_ok=True)
        row = whole[one.score].loc[(model, one.explainer, 5)]
        assert (one.draws, one.undefined) == (row["draws"], row["undefined"])


def test_a_sample_beside_one_that_was_asked_for_is_answered_without_its_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, fresh, model = Result(folder / "digits"), Result(folder / "digits"), next(iter(MODELS))
    paired = [number for number in range(30) if sample_pairs(fresh, model, "equivariance", number)]
    wanted = {number: str(sample_values(fresh, model, number)) for number in (0, 29)}
    sample_values(run, model, 5)
    assert not sample_pairs(run, model, "equivariance", next(number for number in range(30) if number not in paired))
    read: list[str] = []
    monkeypatch.setattr(RunFolder, "read_cell", lambda folder, key, form: read.append(key))
    monkeypatch.setattr(RunFolder, "read_tensors", lambda folder, kind, key: read.append(key))
    assert {number: str(sample_values(run, model, number)) for number in wanted} == wanted
    assert not any(sample_pairs(run, model, "equivariance", number) for number in range(30) if number not in paired)
    assert read == []
    sample_pairs(run, model, "equivariance", paired[0])
    assert read != []


@pytest.mark.parametrize("name", ["digits", "faithful", "stable"])
def test_every_score_has_words_and_they_are_those_of_the_report(served: TestClient, folder: Path, name: str) -> None:
    run = Result(folder / name)
    page = " ".join(re.sub(r"<[^>]*>", "", html.unescape(report.render(run))).split())
    for score in run.manifest["scores"]:
        found = served.get(f"/api/runs/{name}/words", params={"score": score}).json()
        assert found["definition"] in page
        for sentence in (*found["answer"], *(one["text"] for one in found["assumptions"])):
            assert sentence.removesuffix(" …") in page
        known = assumptions(run, [score], list(run.manifest["models"]))
        assert [one["fails"] for one in found["assumptions"]] == [one.holds < one.n for one in known]


@pytest.mark.parametrize("name", ["digits", "faithful"])
def test_ranks_count_the_explainers_that_are_ahead_by_paired_differences(served: TestClient, folder: Path, name: str) -> None:
    run, found = Result(folder / name), served.get(f"/api/runs/{name}/ranks").json()
    directions = {one.score: one.direction.value for one in run.series}
    assert list(found) == list(run.manifest["models"])
    pairs = told = 0
    for model, score in [(name, score) for name in found for score in found[name] if not run.in_map_units(score)]:
        wanted: dict[str, list[int]] = {}
        for row in run.differences(score).query("model == @model and not control and low == low").to_dict("records"):
            pairs += 1
            for one in ("first", "second"):
                wanted.setdefault(row[one], [1, 1])[1] += 1
            if row["differs"]:
                told += 1
                first_ahead = (row["low"] > 0) == (directions[score] == "higher")
                wanted[row["second" if first_ahead else "first"]][0] += 1
                wanted[row["first" if first_ahead else "second"]][1] -= 1
        ranks = found[model][score]["ranks"]
        assert {name: [one["first"], one["last"]] for name, one in ranks.items()} == wanted
        frames = {one.explainer: one.frame for one in run.series if (one.model, one.score) == (model, score)}
        assert {name: one["kind"] for name, one in ranks.items()} == {name: frames[name] for name in wanted}
        assert (found[model][score]["why"] == "") is bool(wanted)
    assert 0 < told < pairs, "some explainers can be told apart, and others cannot"


def test_a_run_without_explanations_has_no_ranks(served: TestClient, tmp_path: Path) -> None:
    digits_like(title="Squares").run(tmp_path / "squares", progress=False)
    found = client(tmp_path).get("/api/runs/squares/ranks")
    assert (found.status_code, found.json()["error"]) == (
        404,
        "The run 'squares' has no scores of explanations: it is one of the kind 'orbits'.",
    )


def test_words_of_a_score_that_is_not_there_are_one_sentence(served: TestClient) -> None:
    found = served.get(f"{BASE}/words", params={"score": "equivarianc"})
    assert (found.status_code, found.json()["error"]) == (404, "Unknown score of this run 'equivarianc'. Did you mean 'equivariance'?")


def test_a_spread_and_its_csv_hold_every_sample(served: TestClient, folder: Path) -> None:
    known = values_of(Result(folder / "digits"), **GRAD_CAM)
    defined = {sample: value for sample, value in known.items() if math.isfinite(value)}
    found = served.get(f"{BASE}/spread", params=GRAD_CAM).json()
    assert dict(zip(found["samples"], found["values"], strict=True)) == defined
    assert (found["n"], found["undefined"], sum(found["counts"])) == (len(defined), 7, len(defined))
    assert found["quartiles"][2] == pytest.approx(np.median(list(defined.values())))
    lines = served.get(f"{BASE}/spread.csv", params=GRAD_CAM).text.splitlines()
    assert lines[0] == "model,explainer,score,sample,value"
    assert {int(line.split(",")[3]): line.split(",")[4] for line in lines[1:]} == {
        sample: repr(value) if math.isfinite(value) else "" for sample, value in known.items()
    }


def test_the_values_of_samples_by_mege_are_distances_and_the_largest_is_worst(served: TestClient, folder: Path) -> None:
    run = Result(folder / "stable")
    model, base = next(iter(run.manifest["models"])), "/api/runs/stable"
    known = values_of(run, model, "saliency", "mege")
    of_sample = {one["name"]: one["of_sample"] for one in served.get(base).json()["scores"]}
    assert of_sample["mege"] == {"title": "MeGe: mean distance", "direction": "lower"}
    assert of_sample["mu_fidelity"] is None
    found = served.get(f"{base}/cases", params={"model": model, "explainer": "saliency", "score": "mege"}).json()["cases"]
    told = [one["value"] for one in found if one["value"] is not None]
    assert told == sorted((value for value in known.values() if math.isfinite(value)), reverse=True)
    assert len(set(told)) > 1


def test_samples_come_in_order_and_page_by_page(served: TestClient, folder: Path) -> None:
    known = {sample: value for sample, value in values_of(Result(folder / "digits"), **GRAD_CAM).items() if math.isfinite(value)}
    worst = sorted(known, key=lambda sample: known[sample])

    def page(**asked: object) -> tuple[int, list[int]]:
        found = served.get(f"{BASE}/cases", params={**GRAD_CAM, "count": 4, **asked}).json()
        return found["total"], [one["sample"] for one in found["cases"]]

    values = [known[sample] for sample in page()[1]]
    assert values == sorted(known.values())[:4]
    assert page(order="best")[1][0] == max(known, key=lambda sample: known[sample])
    assert page(order="number", start=8) == (30, [8, 9, 10, 11])
    assert page(order="number", around=17)[1] == [16, 17, 18, 19]
    assert worst[9] in page(around=worst[9])[1]
    total, samples = page(only="undefined")
    assert total == 7
    assert not set(samples) & set(known)


def test_a_stored_pair_is_drawn_with_what_was_expected(served: TestClient, folder: Path) -> None:
    pair = Result(folder / "digits").worst("equivariance")[0]
    sample = pair.sample
    asked = {"model": pair.model, "score": "equivariance"}
    found = served.get(f"{BASE}/cases/{sample}", params=asked).json()
    mine = next(one for one in found["pairs"] if one["explainer"] == pair.explainer)
    assert mine["value"] == pytest.approx(pair.value)
    assert [mine[part]["kind"] for part in ("moved", "expected", "found")] == ["picture"] * 3
    assert found["input"]["kind"] == "picture"
    assert {one["explainer"] for one in found["values"]} >= {"saliency", "lime", "random_uniform", ""}
    missing = served.get(f"{BASE}/cases/{sample}/explanation", params={**asked, "explainer": "lime"}).json()
    assert missing == {"explainer": "lime", "drawing": None}, "a run without explanations says so"


@pytest.mark.parametrize(
    ("path", "asked", "status", "sentence"),
    [
        ("cases/30", GRAD_CAM, 404, "There is no sample 30: this run has the samples 0 to 29."),
        ("cases/x", GRAD_CAM, 422, "The address is incomplete, or a part of it has the wrong form: check sample."),
        ("cases/0", {"model": "b", "score": "equivariance"}, 404, "Unknown model of this run 'b'."),
        ("cases", {**GRAD_CAM, "order": "odd"}, 404, "Unknown order of samples 'odd'. Known: best, number, worst."),
        ("cases", {**GRAD_CAM, "only": "wrong:"}, 404, "Unknown choice of samples 'wrong:'."),
        ("cases", {**GRAD_CAM, "count": 100_000}, 404, "A page has 1 to 200 samples and starts at 0 or later."),
        ("cases/0/explanation", {**GRAD_CAM, "explainer": "lim"}, 404, "Unknown explainer of this run 'lim'. Did you mean 'lime'?"),
        ("spread", {**GRAD_CAM, "explainer": "grad_can"}, 404, "Unknown row of this run 'all-cnn / grad_can / equivariance'."),
    ],
)
def test_a_bad_question_gets_one_sentence(served: TestClient, path: str, asked: dict[str, object], status: int, sentence: str) -> None:
    found = served.get(f"{BASE}/{path}?{urlencode(asked)}")
    assert found.status_code == status
    assert found.json()["error"].startswith(sentence)


def test_a_large_audit_opens_before_its_numbers_are_derived(served: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = served.get(BASE).json()
    monkeypatch.setattr(application_answers, "LARGE", 29)
    early = served.get(BASE).json()
    subjects = [[(row["model"], row["explainer"], row["score"]) for row in found["table"]] for found in (early, whole)]
    assert subjects[0] == subjects[1]
    assert early["partial"]
    assert all("value" not in row for row in early["table"])
    assert served.get(BASE, params={"whole": True}).json() == whole


def test_a_run_that_is_deleted_meanwhile_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    for name in ("gone", "here"):
        shutil.copytree(folder / "digits", tmp_path / name)
    served = client(tmp_path)
    assert served.get("/api/runs/gone/spread", params=GRAD_CAM).status_code == 200
    shutil.rmtree(tmp_path / "gone")
    for path in ("spread", "spread.csv", "cases", "cases/0", "cases/0/explanation"):
        found = served.get(f"/api/runs/gone/{path}", params=GRAD_CAM)
        assert (found.status_code, found.json()["error"][:28]) == (404, "There is no run 'gone' here:")
    assert served.get("/api/runs/here/spread", params=GRAD_CAM).status_code == 200
