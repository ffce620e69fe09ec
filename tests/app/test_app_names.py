"""Runs by their names, and the links between their reports."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from app_client import client
from starlette.testclient import TestClient

from orbit_small import images, labels, linear
from veracity import Audit
from veracity.app.home import seconds_left
from veracity.app.links import with_links
from veracity.app.runs import Runs
from veracity.engine.store.state import Progress
from veracity.perturb import Dihedral
from veracity.studies.several import Audits
from veracity.walk import Exhaustive

PAGE = {"authorization": "", "accept": "text/html,application/xhtml+xml"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two audits; one is called as the study is, the other as a part of an address."""
    audit = Audit(
        models={"net": linear(0)}, inputs=images(), targets=labels(), symmetry=Dihedral(), walk=Exhaustive(), explainers=["saliency"],
        companions=False, controls=False,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("joint") / "joint"
    result = Audits(audits={"joint": audit, "state": audit}, title="Joint").run(folder, progress=False)
    result.save_report(folder / "report.html")
    return folder


@pytest.fixture
def joint(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "runs" / "joint"))


@pytest.fixture
def served(joint: Path) -> Iterator[TestClient]:
    with client(joint.parent) as found:
        yield found


def test_no_two_runs_share_a_name(joint: Path, served: TestClient) -> None:
    known = {one["id"]: one["kind"] for one in served.get("/api/index").json()["runs"]}
    assert known == {"joint": "report", "joint/joint": "audit", "joint/state": "audit"}
    assert served.get("/api/runs/joint/state").json()["unit"] == "run"
    assert served.get("/api/runs/joint%2Fstate").json()["kind"] == "audit"
    assert served.get("/api/runs/joint%2Fstate/state").json()["unit"] == "cell"
    alone = Runs(joint)
    names = {one["id"]: one["kind"] for one in alone.entries()}
    assert names == {"joint/": "report", "joint": "audit", "state": "audit"}
    found = alone.get("joint/"), alone.get("joint")
    assert [one and one.folder for one in found] == [joint, joint / "joint"]


def test_runs_that_there_was_no_time_to_read_are_listed_and_found(joint: Path) -> None:
    for number in range(3):
        shutil.copytree(joint / "joint", joint.parent / f"copy {number}")
    runs = Runs(joint.parent)
    assert {one["kind"] for one in runs.entries(within=0)} == {"unread"}
    assert runs.get("joint/state") is not None
    assert runs.get("copy 1") is not None
    assert len(runs.entries()) == 6
    assert {one["kind"] for one in runs.entries(within=0)} == {"audit", "report"}


def test_a_link_of_a_joint_report_opens_that_page_and_nothing_else(served: TestClient) -> None:
    text = served.get("/api/runs/joint/report").text
    links = re.findall(r'<a href="(/api/[^"]*)"', text)
    assert [link.partition("?")[0] for link in links] == ["/api/runs/joint%2Fjoint/report", "/api/runs/joint%2Fstate/report"]
    part = served.get(links[0], headers=PAGE)
    assert part.status_code == 200
    assert "<title>" in part.text
    assert part.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    key = links[0].partition("?")[2]
    for path in ("/api/runs/joint%2Fstate/report", "/api/runs/joint/report", "/api/runs/joint%2Fjoint", "/api/index"):
        assert served.get(f"{path}?{key}", headers=PAGE).status_code == 401


def test_only_links_to_runs_change() -> None:
    page = (
        '<a class="x" href="one/report.html#s">1</a><a href="#s">2</a><a href="https://a.org/one/">3</a><!-- <a href="one/report.html"> -->'
    )
    changed = with_links(page, "joint", {"joint/one/report.html": '/a?k="1"'}.get)
    assert changed == page.replace('class="x" href="one/report.html#s"', 'href="/a?k=&quot;1&quot;#s" class="x"', 1)


def test_a_person_without_the_token_reads_a_page_and_a_program_json(served: TestClient) -> None:
    found = served.get("/api/runs/joint/report", headers=PAGE)
    assert found.status_code == 401
    assert found.headers["content-type"].startswith("text/html")
    assert "run <code>veracity app</code> on the same folder again" in found.text
    assert "default-src 'none'" in found.headers["content-security-policy"]
    assert "token" in served.get("/api/runs/joint/report", headers={"authorization": ""}).json()["error"]
    assert "There is nothing at this address" in served.get("/nothing", headers=PAGE).text


def test_the_time_left_follows_the_pace_since_the_run_went_on(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    for name, age in (("lock", 60), ("cells/old", 600), ("cells/one", 40), ("cells/two", 20)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    some = Progress(cells=7, done=frozenset(("old", "one", "two")), writer="process 1")
    assert seconds_left(tmp_path, some) == pytest.approx(4 * 60 / 2, abs=5)
    assert seconds_left(tmp_path, replace(some, writer="")) is None


def test_a_finished_run_has_a_verdict_in_words(joint: Path, served: TestClient) -> None:
    stored = served.get("/api/runs/joint%2Fstate/verdict").json()["verdict"]
    assert stored.endswith(".")
    (joint / "state" / "report.html").unlink()
    assert served.get("/api/runs/joint%2Fstate/verdict").json()["verdict"] == stored, "with and without a report"
