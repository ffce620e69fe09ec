"""The list of runs, bookmarks, links between reports, and a server that ends and comes back, in Chromium."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from browser_visit import Visit, served, shown, violations
from orbit_small import digits_like, images, labels, linear
from veracity import Audit
from veracity.app import server as serving
from veracity.engine.store import RunFolder
from veracity.orbits import OrbitResult
from veracity.perturb import Dihedral
from veracity.results import Result
from veracity.studies.several import Audits
from veracity.walk import Exhaustive

Begin = Callable[..., Visit]
LOOK = "() => window.dispatchEvent(new Event('focus'))"
"""Who comes back to a page sees it renewed at once."""


def audit(title: str) -> Audit:
    return Audit(
        models={"net": linear(0)}, inputs=images(), targets=labels(), symmetry=Dihedral(), walk=Exhaustive(), explainers=["saliency"],
        companions=False, controls=False, title=title,
    )  # fmt: skip


def audits(folder: Path) -> None:
    """An audit with two explainers and several scores."""
    one = audit("Ranked")
    dataclasses.replace(one, explainers=["saliency", "gradient"], scores=["equivariance", "sparseness"]).run(folder, progress=False)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A joint report of two audits, and an orbit evaluation."""
    folder = tmp_path_factory.mktemp("home")
    joint = Audits(audits={"turned": audit("Turned"), "again": audit("Again")}, title="Both").run(folder / "joint", progress=False)
    joint.save_report(folder / "joint" / "report.html")
    digits_like(title="Squares").run(folder / "squares", progress=False)
    return folder


@pytest.fixture
def folder(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "runs"))


@contextmanager
def restarted(folder: Path, port: int, token: str) -> Iterator[None]:
    """The server of a folder once more, at the same address."""
    server, listening, _ = serving.make_server(folder, port=port, token=token)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield
    server.should_exit = True
    thread.join(10)


def test_home_tells_states_and_verdicts_and_new_runs_appear(visit: Begin, folder: Path) -> None:
    half = Path(shutil.copytree(folder / "joint" / "turned", folder / "half"))
    next((half / "cells").iterdir()).unlink()
    one = visit(1440)
    page = one.page

    def cell(run: str, column: str, text: str) -> Locator:
        """A cell of a run, once it holds a text."""
        found = page.get_by_test_id(f"run-{run}").locator(f".c-{column}").filter(has_text=text)
        found.wait_for()
        return found

    with served(folder) as address:
        with RunFolder(str(half)).writing():
            page.goto(address)
            assert cell("half", "state", "running, 1 of 2 cells").locator("progress").get_attribute("value") == "1"
            cell("squares", "state", "done")
            assert page.get_by_role("heading", level=1).inner_text() == "3 runs"
            assert page.get_by_test_id("run-joint/turned").count() == 0, "parts are folded under their run"
            page.get_by_role("button", name="and 2 parts").click()
            cell("joint/turned", "verdict", "the symmetry")
            cells = page.get_by_test_id("run-joint/turned").locator("td").all_inner_texts()
            assert cells[5:8] == ["net", "saliency", "6"]
            shutil.copytree(folder / "squares", folder / "newer")
            page.evaluate(LOOK)
            page.get_by_test_id("run-newer").wait_for()
        page.evaluate(LOOK)
        cell("half", "state", "unfinished, 1 of 2 cells")
        page.get_by_test_id("search").fill("squares")
        page.get_by_test_id("found").filter(has_text="2 of 6 runs, with the parts of studies, shown").wait_for()
        assert "find=squares" in page.evaluate("location.hash")
        one.picture("home-1440")


def test_thumbnails_hold_the_numbers_of_the_runs_and_groups_stand_in_the_address(visit: Begin, axe: str, folder: Path) -> None:
    audits(folder / "cards" / "ranked")
    one = visit(1440)
    page = one.page

    def order() -> list[str]:
        rows = page.locator(".runs tbody tr").all()
        return [row.inner_text() if row.get_attribute("class") == "group" else row.get_attribute("data-testid") or "" for row in rows]

    with served(folder) as address:
        page.goto(address)
        drawing = page.get_by_test_id("run-cards/ranked").locator(".small-figure")
        drawing.wait_for()
        row = Result(folder / "cards" / "ranked").table().set_index(["explainer", "score"]).loc[("gradient", "equivariance")]
        assert f"gradient {shown(row['value'])} ({shown(row['low'])} to {shown(row['high'])})" in (
            drawing.get_attribute("aria-label") or ""
        )
        assert drawing.locator("circle").count() == 2
        curves = page.get_by_test_id("run-squares").locator(".small-figure.curves")
        curves.wait_for()
        squares = OrbitResult(folder / "squares")
        means = squares.values(squares.models[0], squares.metrics[0]["name"], squares.references[0]).astype(float).mean(axis=0)
        assert f"{squares.models[0]} from {shown(means.min())} to {shown(means.max())}" in (curves.get_attribute("aria-label") or "")
        assert page.get_by_test_id("run-joint").locator(".small-figure").count() == 0, "a joint report has no figure of its own"
        page.get_by_role("button", name="and 2 parts").wait_for()  # runs inside a study are known once it is read
        page.wait_for_function("() => !document.querySelector('[data-stage=unread]')")
        page.get_by_test_id("group").select_option("folder")
        page.locator(".runs .group").first.wait_for()
        page.get_by_role("button", name="Run", exact=True).click()
        page.wait_for_function("() => location.hash.includes('sort=run') && location.hash.includes('group=folder')")
        runs = {"cards": ["cards/ranked"], "This folder": ["joint", "squares"]}
        titles = {name: f"{name} ({len(inside)} run{'s' * (len(inside) > 1)})" for name, inside in runs.items()}
        assert order() == [text for name, inside in runs.items() for text in (titles[name], *(f"run-{run}" for run in inside))]
        page.get_by_role("button", name="and 2 parts").click()
        page.wait_for_function("() => location.hash.includes('parts=joint')")
        page.reload()
        page.locator(".runs .group").first.wait_for()
        unfolded = ["This folder (2 runs)", "run-joint", "run-joint/again", "run-joint/turned", "run-squares"]
        page.get_by_test_id("run-joint/turned").wait_for()
        assert order()[-5:] == unfolded
        page.get_by_test_id("search").fill("turned")
        page.get_by_test_id("found").filter(has_text="1 of 5 runs, with the parts of studies, shown").wait_for()
        assert order() == ["joint (1 run)", "run-joint/turned"], "the search finds parts too"
        page.get_by_test_id("search").fill("")
        page.get_by_test_id("found").filter(has_text="shown").wait_for(state="detached")
        assert order()[-5:] == unfolded
        page.get_by_role("button", name="Hide its 2 parts").click()
        page.wait_for_function("() => !location.hash.includes('parts')")
        page.get_by_test_id("group").select_option("kind")
        page.get_by_text("Orbits (1 run)").wait_for()
        page.get_by_test_id("search").fill("squares")
        page.get_by_test_id("found").filter(has_text="1 of 5 runs, with the parts of studies, shown").wait_for()
        assert order() == ["Orbits (1 run)", "run-squares"]
        page.get_by_test_id("search").fill("")
        page.get_by_test_id("found").filter(has_text="shown").wait_for(state="detached")
        page.evaluate(axe)
        one.picture("home-groups-1440")
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                assert violations(page) == []
        one.picture("home-groups-dark-390")


def test_a_bookmark_stays_with_its_run_and_a_deleted_run_is_one_sentence(visit: Begin, folder: Path) -> None:
    one = visit()
    with served(folder) as address:
        one.page.goto(address)
        one.page.get_by_test_id("runs").get_by_text("Squares", exact=True).click()
        one.page.wait_for_selector('[data-testid="orbit"]')
        bookmark = one.page.url
        shutil.copytree(folder / "joint" / "turned", folder / "a newer run")
        one.page.goto("about:blank")
        one.open(bookmark)
        assert one.page.title() == "Squares · veracity"
        shutil.rmtree(folder / "squares")
        one.page.evaluate(LOOK)
        said = one.page.get_by_test_id("error")
        said.wait_for()
        assert "There is no run 'squares' here: it was deleted" in said.inner_text()
        one.page.get_by_test_id("away").click()
        one.page.get_by_test_id("run-a newer run").wait_for()
        one.page.close()
    assert {text for text in one.complaints if "404 (Not Found)" not in text} == set()
    one.complaints.clear()


def test_the_links_of_a_joint_report_lead_to_its_parts(visit: Begin, folder: Path) -> None:
    one = visit()
    page = one.page
    with served(folder) as address:
        page.goto(f"{address}#run=joint")
        frame = page.frame_locator('[data-testid="report"] iframe')
        page.wait_for_function("() => document.activeElement.tagName === 'IFRAME'")  # keys scroll the report at once
        frame.get_by_role("link", name="turned").click()
        frame.get_by_role("heading", name="Turned", level=1).wait_for()
        page.get_by_test_id("first-report").click()
        frame.get_by_role("heading", name="Both", level=1).wait_for()
        page.get_by_test_id("parts").get_by_text("again").click()
        page.wait_for_selector('[data-testid="audit"]')
        assert page.evaluate("location.hash") == "#run=joint%2Fagain"


def test_a_page_goes_on_when_its_server_is_back(visit: Begin, folder: Path) -> None:
    one = visit()
    page = one.page
    with served(folder) as address:
        page.goto(address)
        page.wait_for_selector('[data-testid="runs"]')
        token = parse_qs(urlsplit(address).query)["token"][0]
    page.evaluate(LOOK)
    page.get_by_test_id("lost").wait_for()
    shutil.copytree(folder / "squares", folder / "meanwhile")
    with restarted(folder, urlsplit(address).port or 0, token):
        page.get_by_test_id("run-meanwhile").wait_for()
        assert page.get_by_test_id("lost").is_hidden()
    one.complaints.clear()


def test_a_part_that_a_finished_study_left_is_not_called_unfinished(visit: Begin, folder: Path) -> None:
    """The test writes the sign that a study is over although one of its parts measured less, as a race of explainers leaves it."""
    store = RunFolder(str(folder / "joint"))
    with store.writing():
        store.write_manifest({**store.manifest(None), "finished": True})
    next((folder / "joint" / "turned" / "cells").iterdir()).unlink()
    page = visit(1440).page
    with served(folder) as address:
        page.goto(f"{address}#parts=joint")
        page.get_by_test_id("run-joint/turned").get_by_text("done as far as the study needed it, 1 of 2 cells").wait_for()
        page.get_by_test_id("run-joint/again").locator(".c-state").get_by_text("done", exact=True).wait_for()
        page.get_by_test_id("run-joint/turned").get_by_role("link").first.click()
        words = "Done as far as the study needed it: 1 of 2 cells measured."
        expect(page.get_by_test_id("banner")).to_have_text(words)
