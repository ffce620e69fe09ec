"""Draws of audits that a server computes again: the engine's numbers, one sentence for what cannot be had, and nobody without the token."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app_client import LIVE, SOCKET, client
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from torch import nn

from orbit_small import SIDE, images, labels, linear
from veracity import Audit
from veracity.cli.measure import audits_at_hand
from veracity.core.errors import SpecError
from veracity.core.registry import RECIPES
from veracity.perturb import Dihedral
from veracity.recipe import Recipe
from veracity.report.interactive.packed import unpack
from veracity.results import Result
from veracity.walk import Adaptive, MonteCarlo

ASKED = {"seq": 1, "sample": 3, "draw": 2, "model": "two", "explainer": "smooth_grad", "score": "equivariance"}
FILE = """
data = "tiny_draws:data"
explainers = ["gradient"]
scores = ["equivariance"]
controls = false
companions = false
out = "runs/tiny"
walk = {name = "monte_carlo", draws = 3}
symmetry = {name = "d4"}
[models.net]
build = "tiny_draws:net"
"""
CODE = """
from orbit_small import images, labels, linear
def data(): return images(), labels()
def net(): return linear(0)
"""


def curved(seed: int) -> nn.Module:
    """A small network whose gradient depends on its input."""
    return nn.Sequential(linear(seed, classes=SIDE * SIDE), nn.Tanh(), linear(seed + 10)).eval()


def audit(**settings: Any) -> Audit:
    given: dict[str, Any] = {"explainers": ["smooth_grad", "gradient"], "scores": ["equivariance", "max_sensitivity", "sparseness"]}
    given |= {"models": {"one": curved(0), "two": curved(1)}, "symmetry": Dihedral(), "walk": MonteCarlo(draws=5), "controls": False}
    return Audit(inputs=images(), targets=labels(), **{**given, **settings})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("draws") / "run"
    audit().run(found, progress=False)
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[TestClient]:
    with client(folder, audit()) as found:
        yield found


def ask(server: TestClient, *texts: str) -> list[dict[str, Any]]:
    with server.websocket_connect(LIVE) as socket:
        found = []
        for text in texts:
            socket.send_text(text)
            found.append(dict(unpack(socket.receive_bytes())[0]))
        return found


@pytest.mark.parametrize("score", ["equivariance", "max_sensitivity"])
@pytest.mark.parametrize("explainer", ["gradient", "smooth_grad"])
def test_every_draw_has_the_value_of_the_runs_table(server: TestClient, folder: Path, explainer: str, score: str) -> None:
    known = Result(folder).draws(score)["two", explainer][3]
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    asked = {**ASKED, "explainer": explainer, "score": score}
    found = ask(server, *(json.dumps({**asked, "draw": draw}) for draw in range(len(known))))
    assert [one["value"] for one in found] == pytest.approx(known, rel=1e-5)
    assert [one["stored"] for one in found] == list(known)
    assert len({one["value"] for one in found}) > 1, "draws differ"
    assert {one["draws"] for one in found} == {len(known)}
    for draw, one in enumerate(found):
        assert (one["pair"]["draw"], one["pair"]["value"]) == (draw, one["value"])
        assert {one["pair"][what]["kind"] for what in ("moved", "expected", "found")} == {"picture"}
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before, "nothing is written"


def test_a_draw_of_an_adaptive_walk_is_that_of_the_run(tmp_path: Path) -> None:
    made = audit(scores=["equivariance"], walk=Adaptive(width=1.2, block=2))
    result = made.run(tmp_path / "run", progress=False)
    with client(tmp_path / "run", made) as server:
        (last,) = ask(server, json.dumps({**ASKED, "draw": 3}))
    assert last["value"] == pytest.approx(result.draws("equivariance")["two", "smooth_grad"][3][3], rel=1e-5)


def test_what_cannot_be_drawn_is_one_sentence_and_the_server_goes_on(server: TestClient) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"draw": 5}, "There is no draw 5: sample 3 has the draws 0 to 4"),
        ({"draw": -1}, "There is no draw -1"),
        ({"sample": 6}, "There is no sample 6: this run has the samples 0 to 5."),
        ({"score": "sparseness"}, "The score 'sparseness' has no pairs to show"),
        ({"score": "cosine"}, "Unknown score of this run 'cosine'"),
        ({"explainer": "lime"}, "Unknown explainer of this run 'lime'"),
        ({"model": "three"}, "Unknown model of this run 'three'"),
        ({"draw": "0"}, "A question is JSON such as"),
        ({"draw": True}, "A question is JSON such as"),
        ({"explainer": None}, "A question is JSON such as"),
    ]
    found = ask(server, *(json.dumps({**ASKED, **part}) for part, _ in wrong), "{", "[]", json.dumps(ASKED))
    for one, (_, sentence) in zip(found[: len(wrong)], wrong, strict=True):
        assert sentence in one["error"]
        assert one["seq"] == 1
    assert ["A question is JSON" in one["error"] for one in found[-3:-1]] == [True, True]
    assert found[-1]["value"] is not None


def test_who_may_ask_is_as_with_orbits(server: TestClient) -> None:
    for address, headers in ((SOCKET, {}), (LIVE, {"origin": "http://evil.example"}), (LIVE, {"host": "evil.example"})):
        with (
            pytest.raises(WebSocketDisconnect),
            server.websocket_connect(address, headers={"authorization": "", **headers}) as socket,
        ):
            socket.receive_bytes()


def test_without_models_or_with_others_the_page_says_what_to_do(server: TestClient, folder: Path) -> None:
    assert server.get("/api/runs/0").json()["live"] is True
    with client(folder) as alone:
        about = alone.get("/api/runs/0").json()
        assert about["live"] is False
        assert f"'veracity app {folder} --audit FILE'" in about["why"]
        assert f'veracity.app.serve(audit, "{folder}")' in about["why"]
        assert ask_once(alone) == about["why"]
    with client(folder, audit(models={"one": curved(0), "two": curved(2)})) as other:
        assert "is not the one that made this run" in ask_once(other)
        assert "value" in ask(other, json.dumps({**ASKED, "model": "one"}))[0], "the other model is the same"


def ask_once(server: TestClient) -> str:
    with server.websocket_connect(LIVE) as socket:
        socket.send_text(json.dumps(ASKED))
        return str(unpack(socket.receive_bytes())[0]["error"])


def test_a_recipe_is_put_together_for_a_run_of_ones_own_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = audit(scores=["equivariance"], explainers=["gradient"], about={"recipe": "tiny", "scale": "smoke"})
    monkeypatch.setenv("VERACITY_STATE", str(tmp_path / "state"))
    monkeypatch.setitem(RECIPES._items, "tiny", Recipe("tiny", lambda folder, scale: made))
    made.run(tmp_path / "run", progress=False)
    own = audits_at_hand(tmp_path, None)(tmp_path / "run")
    assert own is not None
    assert own() is made
    (tmp_path / "run").rename(tmp_path / "moved")
    assert audits_at_hand(tmp_path, None)(tmp_path / "moved") is None


def test_the_audit_file_is_given_or_that_of_an_own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from veracity.cli.main import main

    monkeypatch.setenv("VERACITY_STATE", str(tmp_path / "state"))
    (tmp_path / "tiny_draws.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "tiny.toml").write_text(FILE, encoding="utf-8")
    with pytest.raises(SystemExit, match="0"):
        main(["audit", str(tmp_path / "tiny.toml"), "--workers", "1"])
    run = tmp_path / "runs" / "tiny"
    own = audits_at_hand(tmp_path / "runs", None)(run)
    assert own is not None
    assert list(own().models) == ["net"]
    monkeypatch.setenv("VERACITY_STATE", str(tmp_path / "another"))
    assert audits_at_hand(tmp_path / "runs", None)(run) is None, "a folder from elsewhere"
    for served in (run, tmp_path / "runs"):
        assert audits_at_hand(served, tmp_path / "tiny.toml")(run) is not None
    with pytest.raises(SpecError, match=r"is not in .*: give its folder"):
        audits_at_hand(tmp_path / "state", tmp_path / "tiny.toml")
    audit(models={"another": curved(0)}, scores=["equivariance"], explainers=["gradient"]).run(tmp_path / "other", progress=False)
    with pytest.raises(SpecError, match=r"tiny.toml made no run in .*other: no audit there has one of its models"):
        audits_at_hand(tmp_path / "other", tmp_path / "tiny.toml")
