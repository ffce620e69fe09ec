"""Shifts and rotations together in Chromium: a slice of all shifts at the chosen angle, and one of all angles at the chosen shift."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from browser_visit import Visit, served, violations
from orbit_run import evaluation
from veracity.orbits import OrbitResult, RigidOrbit

Begin = Callable[..., Visit]


def wait_for_values(page: Page, result: OrbitResult, at: tuple[float, float, float]) -> None:
    """Until both models' values of sample 3 at a place stand above the individual orbit."""
    k = result.coordinates.tolist().index(list(at))
    page.wait_for_function("at => location.hash.includes(`at=${at}`)", arg="_".join(f"{one:g}" for one in at))
    places = page.locator('[data-testid="individual"] .plot-place')
    expect(places).to_have_text(result.elements[k])
    shown = page.locator('[data-testid="individual"] .plot-row .plot-value').all_inner_texts()[:2]
    expected = [float(result.values(model, "confidence")[3, k]) for model in result.models]
    assert [float(one) for one in shown] == pytest.approx(expected, rel=6e-3, abs=6e-4)


def room(page: Page, part: int) -> dict[str, float]:
    """The heat map (0) or the bar of angles (1) of the first model's individual orbit."""
    found = page.locator('[data-testid="individual"] svg .plot-rim').nth(part)
    found.scroll_into_view_if_needed()
    box = found.bounding_box()
    assert box is not None
    return {name: box[name] for name in ("x", "y", "width", "height")}


def test_shift_and_angle_are_chosen_in_their_slices(visit: Begin, axe: str, tmp_path: Path) -> None:
    made = evaluation(samples=6, orbit=RigidOrbit(reach=2, shift_step=1, angle_step=45.0))
    made.run(tmp_path / "run", progress=False)
    result = OrbitResult(tmp_path / "run")
    assert result.values("seed 0", "confidence").shape == (6, 200)
    with served(tmp_path / "run", made) as address:
        page = visit(1440).open(f"{address}#sample=3&at=0_0_0&metric=confidence&large=individual")
        wait_for_values(page, result, (0, 0, 0))
        bar = room(page, 1)
        page.mouse.click(bar["x"] + 2.5 / 8 * bar["width"], bar["y"] + bar["height"] / 2)
        wait_for_values(page, result, (0, 0, 90))
        heat = room(page, 0)
        page.mouse.click(heat["x"] + 4.5 / 5 * heat["width"], heat["y"] + 1.5 / 5 * heat["height"])
        wait_for_values(page, result, (2, -1, 90))
        page.evaluate("document.activeElement.blur()")
        for key, place in (
            (".", (2, -1, 135)),
            ("ArrowLeft", (1, -1, 135)),
            ("ArrowDown", (1, 0, 135)),
            (",", (1, 0, 90)),
            ("Home", (0, 0, 0)),
        ):
            page.keyboard.press(key)
            wait_for_values(page, result, place)
        page.evaluate(axe)
        assert violations(page) == []
    page.goto(result.save_report(tmp_path / "orbits.html").as_uri() + "#sample=3&at=1_-2_90&metric=confidence&view=references")
    wait_for_values(page, result, (1, -2, 90))
    moved = page.locator('[data-testid="input"]')
    expect(moved).to_have_attribute("data-state", "ready")
    expect(moved).not_to_contain_text("Not shown moved")
    mean = result.table([3]).query("metric == 'confidence' and reference == 'truth' and model == 'seed 0'")["value"].item()
    assert f"{mean:.3f}" in page.get_by_test_id("references-table").inner_text()
    assert np.isfinite(result.reduce("confidence", "pca")).all()
