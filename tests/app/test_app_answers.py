from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from app_client import LIVE, client
from starlette.testclient import TestClient

from orbit_run import CLASSES, evaluation, measured, moved
from veracity import Audit, OrbitEvaluation, OrbitResult, __version__
from veracity.core.registry import RECIPES
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.study import study
from veracity.recipe import Recipe
from veracity.report.interactive.packed import unpack


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, OrbitEvaluation]:
    folder = tmp_path_factory.mktemp("orbits") / "run"
    return folder, measured(folder)


@pytest.fixture(scope="module")
def served(run: tuple[Path, OrbitEvaluation]) -> Iterator[TestClient]:
    with client(*run) as found:
        yield found


def test_the_index_lists_the_run_under_its_folders_name(served: TestClient, run: tuple[Path, OrbitEvaluation]) -> None:
    found = served.get("/api/index").json()
    assert found["version"] == __version__
    created = found["runs"][0].pop("created")
    assert created.startswith("20")
    assert found["runs"][0].pop("state") == served.get("/api/runs/0/state").json()
    assert found["runs"][0].pop("data") == OrbitResult(run[0]).manifest["data"]["fingerprint"]
    about = {
        "plane": None,
        "words": "an orbit evaluation",
        "models": ["seed 0", "seed 1"],
        "explainers": ["saliency"],
        "samples": 12,
        "left": None,
    }
    assert found["runs"] == [{"id": "run/", "kind": "orbits", "title": "Turned digits", "path": "run", **about}]


def test_meta_says_everything_that_the_page_needs(served: TestClient, run: tuple[Path, OrbitEvaluation]) -> None:
    found = served.get("/api/runs/0").json()
    assert (found["kind"], found["id"], found["layout"], found["task"], found["live"]) == (
        "orbits",
        "run/",
        "polar",
        "classification",
        True,
    )
    assert found["coordinates"] == [[45.0 * k] for k in range(8)]
    assert found["elements"][1] == "45°"
    assert found["identity"] == 0
    assert found["axes"][0]["period"] == 360.0
    assert found["classes"] == list(CLASSES)
    assert [model["name"] for model in found["models"]] == ["seed 0", "seed 1"]
    assert [metric["name"] for metric in found["metrics"]] == ["accuracy", "confidence", "equivariance: saliency"]
    assert found["metrics"][0]["references"] == ["truth", "consensus"]
    assert found["labels"] == OrbitResult(run[0]).manifest["labels"]
    assert found["input"] == {"kind": "image", "shape": [1, 8, 8], "window": None}
    assert found["thumbnail"] == {"size": 8, "channels": 1}
    assert found["explainers"] == ["saliency"]
    assert found["confidence"] == 0.95
    assert found["reductions"][:4] == ["pca", "ica", "isomap", "tsne"]


def test_tables_are_the_results_own(served: TestClient, run: tuple[Path, OrbitEvaluation]) -> None:
    found, result = served.get("/api/runs/0").json(), OrbitResult(run[0])
    rows = {(row["model"], row["metric"], row["reference"]): row for row in found["table"]}
    assert len(rows) == 2 * 3 * 2, "what does not depend on the reference stands under both"
    for row in result.table().to_dict("records"):
        assert rows[row["model"], row["metric"], row["reference"] or "truth"]["value"] == pytest.approx(row["value"])
    assert [row["value"] for row in found["gaps"]] == pytest.approx(result.gap()["value"].tolist())
    assert {row["model"] for row in found["agreement"]} == {"seed 0", "seed 1"}


def test_values_are_the_stored_numbers_to_the_bit(served: TestClient, run: tuple[Path, OrbitEvaluation]) -> None:
    query = {"metric": "confidence", "model": "seed 1", "reference": "consensus"}
    found = np.frombuffer(served.get("/api/runs/0/values", params=query).content, "<f4").reshape(12, 8)
    np.testing.assert_array_equal(found, OrbitResult(run[0]).values("seed 1", "confidence", "consensus"))


def test_a_reduction_has_a_point_for_every_model_and_sample(served: TestClient, run: tuple[Path, OrbitEvaluation]) -> None:
    query = {"metric": "confidence", "method": "pca", "reference": "truth"}
    found = np.frombuffer(served.get("/api/runs/0/reduction", params=query).content, "<f4").reshape(2, 12, 2)
    np.testing.assert_array_equal(found, OrbitResult(run[0]).reduce("confidence", "pca"))
    assert np.ptp(found) > 0


def test_thumbnails_are_the_digits_themselves_where_they_are_small(served: TestClient, run: tuple[Path, OrbitEvaluation]) -> None:
    found = np.frombuffer(served.get("/api/runs/0/thumbnails").content, np.uint8).reshape(12, 8, 8, 1)
    x = np.asarray(run[1].inputs)
    np.testing.assert_array_equal(found[..., 0], np.round(x[:, 0] * 255))


def test_a_sample_is_packed_with_every_models_outputs(served: TestClient, run: tuple[Path, OrbitEvaluation]) -> None:
    header, arrays = unpack(served.get("/api/runs/0/samples/3").content)
    result = OrbitResult(run[0])
    label = int(result.labels[3])  # type: ignore[index]
    assert header == {"sample": 3, "label": label, "truth_class": label, "missing": {"seed 0": 0, "seed 1": 0}}
    assert arrays["input"].shape == (8, 8, 1)
    assert arrays["outputs/seed 0"].shape == (8, 10)
    assert arrays["outputs/seed 0"].sum(axis=1) == pytest.approx(np.ones(8), abs=2e-3)
    assert arrays["consensus/seed 1"].shape == (10,)
    assert arrays["consensus/seed 1"] == pytest.approx(arrays["outputs/seed 1"].mean(axis=0), abs=1e-3)
    assert "frames" not in arrays, "moved inputs are for files, where no model is at hand"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/runs/7", "There is no run '7' here"),
        ("/api/runs/zero", "There is no run 'zero' here"),
        ("/api/runs/0/values?metric=confidenc&model=seed 0", "Unknown metric 'confidenc'. Did you mean 'confidence'?"),
        ("/api/runs/0/values?metric=confidence&model=seed 2", "Unknown model 'seed 2'."),
        ("/api/runs/0/values?metric=confidence&model=seed 0&reference=thruth", "Unknown reference 'thruth'. Did you mean 'truth'?"),
        ("/api/runs/0/reduction?metric=confidence&method=pcb", "Unknown method of dimension reduction 'pcb'. Did you mean 'pca'?"),
        ("/api/runs/0/samples/12", "There is no sample 12: samples are numbered from 0 to 11."),
        ("/api/runs/0/samples/-1", "There is no sample -1"),
        ("/api/nothing", "There is nothing at this address"),
    ],
)
def test_what_there_is_not_is_a_404_with_a_sentence(served: TestClient, path: str, said: str) -> None:
    found = served.get(path)
    assert found.status_code == 404
    assert said in found.json()["error"]


def test_a_question_without_its_parts_is_answered_by_a_sentence(served: TestClient) -> None:
    for path in ("/api/runs/0/values", "/api/runs/0/samples/one"):
        found = served.get(path)
        assert found.status_code == 422
        assert "The address is incomplete" in found.json()["error"]


def test_only_reading_is_possible(served: TestClient) -> None:
    found = served.post("/api/runs/0", content=b"x" * 1000)
    assert found.status_code == 405
    assert "GET" in found.json()["error"]


def test_dragging_gives_what_the_model_says_of_the_turned_input(served: TestClient, run: tuple[Path, OrbitEvaluation]) -> None:
    with served.websocket_connect(LIVE) as socket:
        socket.send_text(json.dumps({"seq": 5, "sample": 2, "at": [33.0], "explainer": "saliency"}))
        header, arrays = unpack(socket.receive_bytes())
    made = run[1]
    turned = moved(made, 2, 33.0)
    expected = made.models["seed 0"](turned).detach().softmax(dim=1)[0]  # type: ignore[call-overload, index, operator]
    assert arrays["outputs/seed 0"] == pytest.approx(expected.numpy(), abs=1e-6)
    assert arrays["input"].shape == (8, 8, 1)
    assert arrays["input"][..., 0] == pytest.approx(turned[0, 0].clamp(0, 1).numpy() * 255, abs=0.5)
    assert arrays["attribution/seed 1"].shape == (8, 8)
    assert (header["seq"], header["at"], header["label"], header["truth_class"]) == (5, [33.0], "33°", int(made.targets[2]))
    assert header["metrics"]["seed 0"]["confidence"]["truth"] == pytest.approx(float(expected[int(made.targets[2])]), abs=1e-6)
    assert set(header["metrics"]["seed 1"]["accuracy"]) == {"truth", "consensus"}
    assert header["seconds"] > 0


def test_dragging_to_a_place_of_the_grid_gives_the_stored_number(served: TestClient, run: tuple[Path, OrbitEvaluation]) -> None:
    with served.websocket_connect(LIVE) as socket:
        socket.send_text(json.dumps({"seq": 1, "sample": 4, "at": [90.0]}))
        header, _ = unpack(socket.receive_bytes())
    stored = OrbitResult(run[0])
    for reference in ("truth", "consensus"):
        expected = stored.values("seed 1", "confidence", reference)[4, 2]
        assert header["metrics"]["seed 1"]["confidence"][reference] == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("{", "A question is JSON such as"),
        ("[1]", "A question is JSON such as"),
        ('{"seq": 1, "sample": 0, "at": [NaN]}', "A question is JSON such as"),
        ('{"seq": 1, "sample": 0, "at": ["0"]}', "A question is JSON such as"),
        ('{"seq": 1, "sample": 0, "at": [' + "9" * 400 + "]}", "A question is JSON such as"),
        ("[" * 60_000, "A question is JSON such as"),
        ('{"seq": 1, "sample": -1, "at": [0]}', "from 0 to 11, not -1"),
        ('{"seq": 1, "sample": 0, "at": [0, 1]}', "has the coordinates (angle)"),
        ('{"seq": 1, "sample": 0, "at": [0], "explainer": "salience"}', "Did you mean 'saliency'?"),
    ],
)
def test_a_wrong_question_is_answered_by_a_sentence_and_the_socket_stays(served: TestClient, message: str, said: str) -> None:
    with served.websocket_connect(LIVE) as socket:
        socket.send_text(message)
        assert said in unpack(socket.receive_bytes())[0]["error"]
        socket.send_text('{"seq": 2, "sample": 0, "at": [0]}')
        assert unpack(socket.receive_bytes())[0]["seq"] == 2


def test_a_model_that_raises_is_a_sentence_and_the_socket_stays(tmp_path: Path) -> None:
    made = measured(tmp_path / "run", samples=3, explainers=())

    def broken(*given: object) -> None:
        raise ValueError("no weights today")

    with client(tmp_path / "run", made) as served, served.websocket_connect(LIVE) as socket:
        hook = made.models["seed 0"].register_forward_pre_hook(broken)  # type: ignore[call-overload, index, union-attr]
        socket.send_text('{"seq": 1, "sample": 0, "at": [0]}')
        socket.send_text('{"seq": 2, "sample": 0, "at": [0]}')
        header, arrays = unpack(socket.receive_bytes())
        assert "no weights today" in header["error"]
        assert not arrays
        while header["seq"] != 2:
            header, _ = unpack(socket.receive_bytes())
        hook.remove()
        socket.send_text('{"seq": 3, "sample": 0, "at": [0]}')
        assert "error" not in unpack(socket.receive_bytes())[0]


def test_a_run_without_models_is_read_only_and_says_so(run: tuple[Path, OrbitEvaluation]) -> None:
    with client(run[0]) as served:
        known = served.get("/api/runs/0").json()
        assert (known["live"], known["why"][:28]) == (False, "This run has no live models:")
        assert served.get("/api/runs/0/samples/0").status_code == 200
        with served.websocket_connect(LIVE) as socket:
            header, _ = unpack(socket.receive_bytes())
            assert "no live models" in header["error"]
            assert socket.receive()["type"] == "websocket.close"


def test_the_models_of_a_recipe_are_made_again_when_the_first_question_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def assemble(folder: Path, scale: object) -> OrbitEvaluation:
        made.append(folder)
        return evaluation(samples=3, explainers=(), about={"recipe": "orbits-test", "scale": "smoke"})

    folder = tmp_path / "run"
    assemble(folder, "smoke").run(folder, progress=False)
    monkeypatch.setitem(RECIPES._items, "orbits-test", Recipe("orbits-test", assemble))
    made.clear()
    with client(tmp_path) as served:
        assert served.get("/api/runs/0").json()["live"] is True
        assert not made
        with served.websocket_connect(LIVE) as socket:
            for seq in (1, 2):
                socket.send_text(json.dumps({"seq": seq, "sample": 0, "at": [10]}))
                assert unpack(socket.receive_bytes())[1]["outputs/seed 0"].shape == (10,)
    assert made == [folder]


def test_what_is_measured_while_the_server_runs_is_seen(tmp_path: Path) -> None:
    made = measured(tmp_path / "run", samples=3)
    stored = next(
        path for path in (tmp_path / "run" / "orbits").iterdir() if len(path.read_bytes()) and b"equivariance" in path.read_bytes()
    )
    kept = stored.read_bytes()
    stored.unlink()
    with client(tmp_path / "run", made) as served:
        path = "/api/runs/0/values?metric=equivariance: saliency&model="
        before = [np.frombuffer(served.get(path + model).content, "<f4") for model in made.models]
        assert sorted(bool(np.isnan(one).all()) for one in before) == [False, True]
        stored.write_bytes(kept)
        after = [np.frombuffer(served.get(path + model).content, "<f4") for model in made.models]
        assert not np.isnan(after).any()


def test_a_run_that_is_not_finished_says_so(tmp_path: Path) -> None:
    made = measured(tmp_path / "run", samples=3, explainers=())
    next((tmp_path / "run" / "orbits").iterdir()).unlink()
    with client(tmp_path / "run", made) as served:
        found = served.get("/api/runs/0").json()
        assert found["kind"] == "waiting"
        assert found["state"]["sentence"].startswith("Unfinished: 1 of 2 cells is measured, and nothing is running.")
        assert found["state"] == served.get("/api/runs/0/state").json()
        assert sorted((row["state"], row["cells_measured"], row["cells"]) for row in found["rows"]) == [("done", 1, 1), ("pending", 0, 1)]
        left = next(row["model"] for row in found["rows"] if row["state"] == "pending")
        refused = served.get("/api/runs/0/values", params={"metric": "confidence", "model": left})
        assert refused.status_code == 409
        assert "1 of 2 blocks are measured" in refused.json()["error"]
        assert "run the same command again to finish" in refused.json()["error"]


def test_a_folder_of_several_runs_shows_all_of_them(
    tmp_path: Path, run: tuple[Path, OrbitEvaluation], make_audit: Callable[..., Audit]
) -> None:
    shutil.copytree(run[0], tmp_path / "b" / "deep" / "orbits")
    make_audit(explainers=["gradient"], companions=False).run(tmp_path / "a", progress=False)
    with study(RunFolder(str(tmp_path / "joint")), Kind.AUDITS, ["one"], title="Joint"):
        pass
    (tmp_path / "joint" / "report.html").write_text("<p>joint</p>")
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "manifest.json").write_text("{")
    with client(tmp_path) as served:
        runs = served.get("/api/index").json()["runs"]
        assert [(one["kind"], one["path"]) for one in runs] == [
            ("audit", "a"), ("orbits", "b/deep/orbits"), ("report", "joint"), ("damaged", "z"),
        ]  # fmt: skip
        found = served.get("/api/runs/a").json()
        assert (found["kind"], found["models"]) == ("audit", ["net"])
        assert "gradient" in found["explainers"]
        assert len(found["table"]) > 0
        assert {score["name"] for score in found["scores"]} == {row["score"] for row in found["table"]}
        report = served.get("/api/runs/a/report")
        assert "<title>" in report.text
        assert report.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert served.get("/api/runs/a/values?metric=a&model=b").status_code == 404
        assert served.get("/api/runs/b%2Fdeep%2Forbits/samples/0").status_code == 200
        assert served.get("/api/runs/0").status_code == 404, "only the only run has a number"
        joint = served.get("/api/runs/joint").json()
        assert (joint["kind"], joint["title"], joint["state"]["stage"]) == ("report", "Joint", "unfinished")
        assert served.get("/api/runs/joint/report").text == "<p>joint</p>"
        assert served.get("/api/runs/z").status_code == 409
        assert "damaged" in served.get("/api/runs/z").json()["error"]
        shutil.copytree(run[0], tmp_path / "aa")
        again = {one["path"]: one["id"] for one in served.get("/api/index").json()["runs"]}
        assert again == {path: path for path in ("a", "aa", "b/deep/orbits", "joint", "z")}, "a run keeps its name"
        shutil.rmtree(tmp_path / "a")
        for path in ("/api/runs/a", "/api/runs/a/state", "/api/runs/a/report"):
            gone = served.get(path)
            assert gone.status_code == 404
            assert gone.json()["error"].startswith("There is no run 'a' here: it was deleted, moved or renamed")
        assert len(served.get("/api/index").json()["runs"]) == 4
