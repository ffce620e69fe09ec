from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orbit_run import CLASSES, HOSTILE, evaluation
from veracity import OrbitResult
from veracity.cli import main
from veracity.core.errors import InputError
from veracity.report.interactive import answers, offline
from veracity.report.interactive.offline import spread_sample
from veracity.report.interactive.packed import plain, unpack

HELD = re.compile(r'<script type="application/json" id="payload">(.*?)</script>', re.DOTALL)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> OrbitResult:
    return evaluation(explainers=()).run(tmp_path_factory.mktemp("offline") / "run", progress=False)


@pytest.fixture(scope="module")
def page(result: OrbitResult) -> str:
    return offline.render_offline(result)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with one reduction, where reductions are not what is looked at."""
    monkeypatch.setattr(offline, "METHODS", ("pca",))


def payload(page: str) -> dict[str, Any]:
    (held,) = HELD.findall(page)
    found: dict[str, Any] = json.loads(held)
    return found


def data(page: str, path: str) -> bytes:
    return base64.b64decode(payload(page)[path]["base64"])


def test_the_file_answers_as_the_server_does(page: str, result: OrbitResult) -> None:
    found = payload(page)
    assert found["/api/index"]["json"]["runs"][0]["path"] == "run", "and says nothing of the folders above"
    about = found["/api/runs/0"]["json"]
    served = json.loads(json.dumps(plain(answers.meta(result, "0"))))
    for name in served:
        if name not in ("reductions", "live"):
            assert about[name] == served[name], name
    assert (about["live"], about["samples"], about["of"], about["numbers"]) == (False, 12, 12, None)
    for model in result.models:
        for metric in ("accuracy", "confidence"):
            for reference in ("truth", "consensus"):
                path = f"/api/runs/0/values?metric={metric}&model={model.replace(' ', '+')}&reference={reference}"
                assert data(page, path) == answers.values(result, model, metric, reference)
    assert data(page, "/api/runs/0/thumbnails") == answers.thumbnails(result)
    path = "/api/runs/0/reduction?method=tsne&metric=confidence&reference=truth"
    assert data(page, path) == answers.reduction(result, "tsne", "confidence", "truth")


def test_it_holds_the_moved_inputs_of_every_sample(page: str, result: OrbitResult) -> None:
    for number in (0, 11):
        header, arrays = unpack(data(page, f"/api/runs/0/samples/{number}"))
        plainly, kept = unpack(answers.sample(result, number))
        assert header == plainly
        assert arrays["frames"].shape == (8, 8, 8, 1)
        np.testing.assert_array_equal(arrays["frames"][0], arrays["input"])
        np.testing.assert_array_equal(arrays["frames"][2][..., 0], np.rot90(arrays["input"][..., 0]))
        assert set(arrays) - set(kept) == {"frames"}
        for name, array in kept.items():
            np.testing.assert_array_equal(arrays[name], array)


def test_the_reductions_it_lists_are_those_it_holds(page: str) -> None:
    found = payload(page)
    listed = found["/api/runs/0"]["json"]["reductions"]
    assert listed == ["pca", "ica", "isomap", "tsne"]
    assert sum("/reduction?" in path for path in found) == len(listed) * 2 * 2


def test_a_hostile_class_name_is_inert(page: str) -> None:
    assert payload(page)["/api/runs/0"]["json"]["classes"] == list(CLASSES)
    assert HOSTILE not in page
    assert "alert(1)" in page, "as text of the payload"
    (held,) = HELD.findall(page)
    assert "<" not in held


@pytest.mark.usefixtures("quick")
def test_a_hostile_title_and_model_name_are_inert(tmp_path: Path) -> None:
    made = evaluation(samples=2, explainers=(), title=f"{HOSTILE}<!--")
    renamed = evaluation(samples=2, explainers=(), title=f"{HOSTILE}<!--", models={HOSTILE: made.models["seed 0"]})
    written = offline.render_offline(renamed.run(tmp_path / "run", progress=False))
    assert HOSTILE not in written
    assert payload(written)["/api/runs/0"]["json"]["title"] == f"{HOSTILE}<!--"
    assert written.count("<script") == 2


def test_its_policy_allows_its_own_script_and_style_and_no_request(page: str) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "connect" not in policy
    for tag, text in (("script", page.rpartition('<script type="module">')[2].partition("</script>")[0]),
                      ("style", page.partition("<style>")[2].partition("</style>")[0])):  # fmt: skip
        assert text
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_it_refers_to_nothing_outside(page: str) -> None:
    shell = HELD.sub("", page)
    markup = re.sub(r"<(script|style)\b[^>]*>.*?</\1>", "", shell, flags=re.DOTALL)
    assert not re.findall(r"(?:src|href)=\"(?!data:)[^\"]*\"", markup)
    style = shell.partition("<style>")[2].partition("</style>")[0]
    assert "@import" not in style
    assert not re.findall(r"url\((?!\"?data:)", style)


@pytest.mark.usefixtures("quick")
def test_fewer_samples_are_a_stratified_choice_and_the_page_says_so(result: OrbitResult) -> None:
    written = offline.render_offline(result, samples=5)
    about = payload(written)["/api/runs/0"]["json"]
    numbers = about["numbers"]
    assert (about["samples"], about["of"], len(numbers)) == (5, 12, 5)
    assert about["notes"][0].startswith("This file holds 5 of 12 samples, chosen at random, in the proportions of the classes.")
    assert about["labels"] == [int(result.labels[number]) for number in numbers]  # type: ignore[index]
    assert about["table"] == json.loads(json.dumps(plain(answers.meta(result, "0"))["table"])), "the table stays that of all samples"
    values = np.frombuffer(data(written, "/api/runs/0/values?metric=confidence&model=seed+0&reference=truth"), "<f4").reshape(5, 8)
    np.testing.assert_array_equal(values, result.values("seed 0", "confidence")[numbers])
    for place in (0, 4):
        header, arrays = unpack(data(written, f"/api/runs/0/samples/{place}"))
        assert header["sample"] == place
        np.testing.assert_array_equal(arrays["input"], result.picture(numbers[place])["input"])
    assert "/api/runs/0/samples/5" not in payload(written)
    assert offline.render_offline(result, samples=5) == written, "the choice follows from the seed"


@pytest.mark.usefixtures("quick")
def test_without_a_number_as_many_samples_as_fit(result: OrbitResult, monkeypatch: pytest.MonkeyPatch) -> None:
    one = len(base64.b64encode(answers.sample(result, 0, frames=True)))
    monkeypatch.setattr(offline, "SIZE", 6 * one)
    held = payload(offline.render_offline(result))["/api/runs/0"]["json"]["samples"]
    assert 3 <= held <= 5, "curves and small pictures take their part"
    monkeypatch.setattr(offline, "SIZE", 1)
    assert payload(offline.render_offline(result))["/api/runs/0"]["json"]["samples"] == 1


@pytest.mark.parametrize("samples", [0, -3, True, 2.5])
def test_a_file_of_no_samples_is_refused(result: OrbitResult, samples: Any) -> None:
    with pytest.raises(InputError, match="A file holds one sample or more"):
        offline.render_offline(result, samples)


def test_a_choice_has_the_proportions_of_the_classes_for_every_size() -> None:
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 3], [400, 300, 200, 100]))
    for count in (10, 50, 333, 1000, 2000):
        found = spread_sample(labels, 1000, count)
        assert len(set(found.tolist())) == min(count, 1000)
        assert (np.diff(found) > 0).all()
        share = np.bincount(labels[found], minlength=4)
        assert np.abs(share - min(count, 1000) * np.array([0.4, 0.3, 0.2, 0.1])).max() <= 1
    assert spread_sample(labels, 1000, 50, seed=1).tolist() != spread_sample(labels, 1000, 50, seed=0).tolist()
    assert len(spread_sample(None, 1000, 7)) == 7


@pytest.mark.usefixtures("quick")
def test_the_command_writes_the_file_and_prints_the_table(result: OrbitResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "view.html"
    for arguments in (["report", result.path, "--out", str(target), "--samples", "4"], ["show", result.path]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code in (None, 0)
    said = capsys.readouterr().out
    assert f"{target} written" in said.replace("\n", "")
    assert payload(target.read_text(encoding="utf-8"))["/api/runs/0"]["json"]["samples"] == 4
    for words in ("Turned digits", "confidence against the consensus", "equivariance gap", "consensus against truth"):
        assert words in said
    gap = result.gap()["value"]
    assert f"{gap.iloc[0]:.3f}" in said
    assert max(map(len, said.splitlines()[1:])) <= 80


def test_the_table_as_json_is_one_object_a_line(result: OrbitResult, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["show", result.path, "--format", "json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["metric"] for row in rows] == result.table()["metric"].tolist()
