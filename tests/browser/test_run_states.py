"""The states of a run in Chromium: running, killed, finished with failures, done; the page changes by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from browser_visit import Visit, served
from gated import begin, let_go, waits
from orbit_small import digits_like
from search_audits import audit_of, images, tanh_net
from stored import signed
from veracity.core.wording import MINUS
from veracity.engine.store import SCHEMA, RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.study import study
from veracity.scores.rare_events import LnPHat
from veracity.walk import SubsetSimulation

Begin = Callable[..., Visit]
QUICK = 4
"""The cells before one waits: the first model's own, and those of three explainers on it."""


def stage(page: Page, name: str) -> str:
    """Wait until the banner tells this stage, and say how."""
    banner = page.locator(f'[data-testid="banner"][data-stage="{name}"]')
    banner.wait_for(timeout=30_000)
    assert banner.get_attribute("role") == "status"
    return banner.inner_text()


def cells_of(row: Locator) -> list[str]:
    """The texts of a table's row, once the page shows it."""
    row.wait_for()
    return row.locator("td").all_inner_texts()


def states(page: Page) -> dict[tuple[str, str], str]:
    """The state of every row of the table, by model and explainer; models themselves have none."""
    page.locator('[data-testid="scores-table"] tbody tr').first.wait_for()
    rows = [cells_of(row) for row in page.locator('[data-testid="scores-table"] tbody tr').all()]
    return {(model, explainer): state for model, explainer, _, state, *_ in rows}


def told(page: Page) -> str:
    """What the report in the frame says."""
    page.get_by_test_id("full-report").click()
    frame = page.frame_locator('[data-testid="report"] iframe')
    frame.locator(".banner").wait_for()
    said = frame.locator("header").inner_text()
    return said


def test_an_audit_is_seen_running_killed_and_finished_with_failures(visit: Begin, tmp_path: Path) -> None:
    folder = tmp_path / "slow"
    process = begin(folder)
    waits(folder, QUICK)
    with served(folder) as address:
        one = visit()
        page = one.page
        page.goto(address)
        said = stage(page, "running")
        assert said == "Running: 3 of 10 cells are measured, 1 failed. This page refreshes itself."
        assert states(page) == {
            ("first", ""): "done", ("first", "quick"): "done", ("first", "silent"): "undefined", ("first", "broken"): "failed",
            ("first", "patient"): "pending, 0 of 1 cell",
            **{("second", name): "pending, 0 of 1 cell" for name in ("", "quick", "silent", "broken", "patient")},
        }  # fmt: skip
        one.picture("state-running-app")
        report = told(page)
        assert "Running: 3 of 10 cells" in report
        assert "This page is a snapshot of" in report
        assert "Of the explainers, none of 1 on first respect the symmetry" in report
        assert "Not measured on all samples yet: 1 of 4 explainers on first and 4 of 4 on second." in report
        one.picture("state-running-report")
        page.get_by_role("button", name="Back to the scores").click()
        stage(page, "running")
        process.kill()
        process.join()
        said = stage(page, "unfinished")
        assert said.startswith(
            "Unfinished: 3 of 10 cells are measured, 1 failed, and nothing is running. Run the same command to continue."
        )
        assert states(page)["first", "patient"] == "pending, 0 of 1 cell"
        one.picture("state-killed-app")
        assert "This page shows what was measured until then." in told(page)
        one.picture("state-killed-report")
        page.get_by_role("button", name="Back to the scores").click()
        stage(page, "unfinished")
        let_go(folder)
        process = begin(folder)
        said = stage(page, "failures")
        process.join()
        assert said.startswith("Finished; 2 of 10 cells failed: RuntimeError: no memory left.")
        assert {state for (_, name), state in states(page).items() if name == "patient"} == {"done"}
        assert "RuntimeError: no memory left (1 of 1 cell)" in page.get_by_test_id("audit").inner_text()
        one.picture("state-failures-app")
        assert "Not measured on all samples yet" not in told(page)
        one.picture("state-failures-report")
        assert one.outside() == []


def test_a_running_audit_becomes_done_before_the_readers_eyes(visit: Begin, tmp_path: Path) -> None:
    folder = tmp_path / "slow"
    process = begin(folder, "quick", "patient")
    waits(folder, 2)
    with served(tmp_path) as address:
        one = visit()
        page = one.page
        page.goto(f"{address}#run=slow")
        assert "2 of 6 cells" in stage(page, "running")
        page.get_by_role("button", name="Value", exact=True).click()
        sorted_by = page.locator('th[aria-sort="ascending"]')
        assert sorted_by.inner_text() == "Value"
        let_go(folder)
        assert stage(page, "done") == "Finished: all 6 cells are measured."
        assert "1.00 (all equal, unseen ≤ 39.4 %)" in page.inner_text("[data-testid=audit]")
        process.join()
        assert set(states(page).values()) == {"done"}
        assert sorted_by.inner_text() == "Value", "the order of the table is lost"
        one.picture("state-done-app")
        assert "Finished: all 6 cells are measured." in told(page)
        one.picture("state-done-report")


def test_the_list_follows_a_run_from_its_beginning_to_its_end(visit: Begin, tmp_path: Path) -> None:
    digits_like(title="Squares").run(tmp_path / "squares", progress=False)
    folder = tmp_path / "slow"
    with served(tmp_path) as address:
        page = visit(1440).page
        process = begin(folder, "quick", "patient")
        waits(folder, 2)
        page.goto(f"{address}#sort=state&group=folder")
        row = page.get_by_test_id("run-slow")
        state = row.locator(".c-state")
        expect(state).to_contain_text("running, 2 of 6 cells", timeout=30_000)
        bar = state.locator("progress")
        assert [bar.get_attribute(name) for name in ("value", "max")] == ["2", "6"]
        assert page.locator(".runs tbody tr:not(.group)").first.get_attribute("data-testid") == "run-slow", "running runs come first"
        expect(row.locator(".small-figure")).to_have_count(0)
        let_go(folder)
        expect(state).to_have_text("done", timeout=30_000)
        process.join()
        expect(bar).to_be_hidden()
        expect(row.locator(".c-verdict")).not_to_be_empty()
        expect(row.locator(".small-figure")).to_have_count(1)


def test_an_orbit_evaluation_waits_until_its_models_are_measured(visit: Begin, tmp_path: Path) -> None:
    folder = tmp_path / "orbits"
    digits_like(title="Squares").run(folder, progress=False)
    stored = next((folder / "orbits").iterdir())
    kept = stored.read_bytes()
    stored.unlink()
    one = visit()
    page = one.page
    with served(folder) as address:
        with RunFolder(str(folder)).writing():
            page.goto(address)
            assert stage(page, "running") == "Running: 1 of 2 cells is measured. This page refreshes itself."
            page.get_by_test_id("waiting-table").wait_for()
            texts = page.locator('[data-testid="waiting-table"] tbody tr td:nth-child(3)').all_inner_texts()
            assert sorted(texts) == ["done", "pending, 0 of 1 cell"]
            one.picture("state-running-orbits")
            stored.write_bytes(kept)
        page.wait_for_selector('[data-testid="orbit"]')
        page.wait_for_selector('[data-testid="aggregate"][data-state="ready"]')
        assert page.get_by_test_id("banner").is_hidden()


def test_a_study_without_a_report_is_unfinished_not_damaged(visit: Begin, tmp_path: Path) -> None:
    with suppress(KeyboardInterrupt), study(RunFolder(str(tmp_path / "joint")), Kind.AUDITS, ["a", "b"], title="Joint"):
        raise KeyboardInterrupt
    with served(tmp_path) as address:
        page = visit().page
        page.goto(f"{address}#run=joint")
        assert stage(page, "unfinished").startswith("Unfinished: 0 of 2 runs are measured, and nothing is running.")
        page.get_by_test_id("waiting").wait_for()


def test_a_damaged_run_is_listed_with_what_is_wrong(visit: Begin, tmp_path: Path) -> None:
    digits_like(title="Squares").run(tmp_path / "good", progress=False)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "manifest.json").write_bytes(signed({"schema": SCHEMA, "kind": "audit", "title": "x"}))
    with served(tmp_path) as address:
        page = visit().page
        page.goto(address)
        cells = cells_of(page.get_by_test_id("run-bad"))
        assert cells[:2] == ["bad", "Damaged"]
        assert cells[2] == "cannot be read"
        assert "is damaged: manifest.json cannot be read (seed: field required)" in cells[4]
        assert cells_of(page.get_by_test_id("run-good"))[:3] == ["Squares\ngood", "Orbits", "done"]


def test_a_bound_is_a_bound_in_the_table_and_in_the_plot(visit: Begin, tmp_path: Path) -> None:
    score = LnPHat(radius=0.3, range=(0.0, 1.0), threshold=0.8, walk=SubsetSimulation(population=40, steps=3, floor=-7.0))
    result = audit_of(tanh_net(), images(12), [score], explainers=["gradient"], seed=1).run(tmp_path / "rare", progress=False)
    row = result.table().iloc[0]
    assert (row["bound"], row["value"], row["low"]) == (True, -7.0, -math.inf)
    with served(tmp_path / "rare") as address:
        one = visit()
        page = one.page
        page.goto(address)
        cells = cells_of(page.locator('[data-testid="scores-table"] tbody tr').first)
        high = cells[6]
        assert cells[:6] == ["net", "gradient", "ln_p_f_hat", "done", f"≤ {MINUS}7.00", "not known"]
        assert high.startswith(f"≤ {MINUS}")
        page.locator('[data-testid="score-ln_p_f_hat"] path.at-most').wait_for(state="attached")
        beside = page.locator('[data-testid="score-ln_p_f_hat"] .number').text_content()
        assert beside is not None
        assert beside.startswith(f"≤ {MINUS}7.00 ({high})")
        one.picture("bound-app")
