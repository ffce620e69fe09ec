"""One bad folder stops neither the app nor the listing of the others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from app_client import client

from hostile import AUDIT_REFUSED, HARMLESS, OPENED, ORBIT_REFUSED, STUDIES, build, in_time, whole_runs
from stored import signed
from veracity.engine.store import SCHEMA


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_runs(tmp_path_factory.mktemp("good"))


def test_the_app_lists_every_bad_folder_with_a_sentence_and_serves_the_others(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {**AUDIT_REFUSED, **{f"harmless {kind}": change for kind, change in HARMLESS.items()}}
    for place, (kind, change) in enumerate(whole.items()):
        build(good / "audit", tmp_path / f"{place:03} {kind}", change)
    for place, (kind, change) in enumerate(ORBIT_REFUSED.items()):
        build(good / "orbits", tmp_path / f"orbits {place:03} {kind}", change)
    for kind, data in STUDIES.items():
        (tmp_path / f"study {kind}").mkdir()
        (tmp_path / f"study {kind}" / "manifest.json").write_bytes(data)
    build(good / "audit", tmp_path / "zz good audit", lambda folder: None)
    build(good / "orbits", tmp_path / "zz good orbits", lambda folder: None)
    monkeypatch.syspath_prepend(str(next(tmp_path.glob("*names of modules"))))
    OPENED.clear()
    with in_time(), client(tmp_path, raise_server_exceptions=False) as served:
        runs = {one["path"]: one for one in served.get("/api/index").json()["runs"]}
        assert len(runs) == len(whole) + len(ORBIT_REFUSED) + len(STUDIES) + 2
        for path, one in runs.items():
            if one["kind"] == "damaged":
                assert one["why"].endswith("."), path
                assert len(one["why"]) < 1000
        wrong = [path for path, one in runs.items() if path.startswith("study") and one["kind"] != "damaged"]
        assert not wrong
    with client(tmp_path, raise_server_exceptions=False) as served:
        for path, one in runs.items():
            with in_time():
                for part in ("", "/state", "/report", "/thumbnails", "/samples/0", "/values?model=seed 0&metric=accuracy"):
                    found = served.get(f"/api/runs/{one['id']}{part}")
                    assert found.status_code in (200, 404, 409), (path, part, found.text)
                    assert part != "/report" or "<script>alert" not in found.text
        for path, kind in (("zz good audit", "audit"), ("zz good orbits", "orbits")):
            found = served.get(f"/api/runs/{runs[path]['id']}")
            assert found.status_code == 200
            assert found.json()["kind"] == kind
    assert not [path for path in OPENED if "/outside-" in path]
    assert not list(tmp_path.rglob("tripped"))


def test_a_folder_that_may_not_be_looked_into_stops_nobody(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(good / "audit", tmp_path / "closed", lambda folder: None)
    build(good / "audit", tmp_path / "good", lambda folder: None)
    real = os.stat

    def refused(path: Any, *rest: Any, **named: Any) -> os.stat_result:
        if isinstance(path, (str, os.PathLike)) and "/closed/" in os.fspath(path):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return real(path, *rest, **named)

    monkeypatch.setattr(os, "stat", refused)
    with client(tmp_path) as served:
        runs = {one["path"]: one for one in served.get("/api/index").json()["runs"]}
    assert runs["good"]["kind"] == "audit"
    assert runs["closed"]["kind"] == "damaged"


def test_names_that_are_no_text_are_listed(good: Path, tmp_path: Path) -> None:
    os.makedirs(os.fsencode(tmp_path) + b"/\xff\xfe")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe/manifest.json")).write_text("{")
    with client(tmp_path) as served:
        (one,) = json.loads(served.get("/api/index").content)["runs"]
    assert one["kind"] == "damaged"


def test_a_folder_that_is_mended_is_listed_as_whole_again(good: Path, tmp_path: Path) -> None:
    folder = build(good / "audit", tmp_path / "run", lambda folder: None)
    whole = (folder / "run.json").read_bytes()
    (folder / "run.json").write_bytes(signed({"schema": SCHEMA, "run": "another"}))
    with client(tmp_path) as served:
        assert served.get("/api/index").json()["runs"][0]["kind"] == "damaged"
        (folder / "run.json").write_bytes(whole)
        assert served.get("/api/index").json()["runs"][0]["kind"] == "audit"
