"""From one orbit run to another in Chromium: planes of rotation in one page, and what stays chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect
from torch import nn

from browser_visit import PANELS, Visit, served
from veracity import OrbitEvaluation
from veracity.orbits import Classification, DiskOrbit, OrbitResult
from veracity.trainers.training import initialised

Begin = Callable[..., Visit]
POINTS, SHAPES = 10, 5


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * POINTS, 3))


def measured(folder: Path, plane: str, seed: int = 0, models: tuple[str, ...] = ("one", "two")) -> None:
    clouds = torch.randn(SHAPES, POINTS, 3, generator=torch.Generator().manual_seed(seed))
    OrbitEvaluation(
        models={name: initialised(network, seed=number) for number, name in enumerate(models)},
        inputs=clouds,
        targets=torch.arange(SHAPES) % 3,
        orbit=DiskOrbit(plane=plane, step=45),
        task=Classification(classes=("cup", "chair", "car")),
        title=f"{folder.name} in {plane}",
    ).run(folder, progress=False)


def ready(page: Page, *parts: str) -> None:
    page.wait_for_function("parts => parts.every(one => location.hash.includes(one))", arg=list(parts))
    for panel in PANELS:
        page.wait_for_selector(f'[data-testid="{panel}"][data-state="ready"]')


def test_planes_are_switched_in_one_page_and_choices_stay(visit: Begin, tmp_path: Path) -> None:
    for plane in ("xy", "xz", "yz"):
        measured(tmp_path / f"shapes-{plane}", plane)
    measured(tmp_path / "others", "xy", seed=1, models=("two", "three"))
    with served(tmp_path) as address:
        page = visit(1440).open(
            f"{address}#run=shapes-xy&metric=confidence&view=samples&sample=2&at=90_45&model=two&fit=yes&colour=variance"
        )
        planes = page.get_by_test_id("plane")
        expect(planes.locator("option")).to_have_text(["xy", "xz", "yz"])
        planes.select_option(label="xz")
        kept = ("metric=confidence", "view=samples", "model=two", "fit=yes", "colour=variance")
        ready(page, "run=shapes-xz", "sample=2", "at=90_45", *kept)
        expect(planes).to_have_value("shapes-xz")
        result = OrbitResult(tmp_path / "shapes-xz")
        k = result.coordinates.tolist().index([90.0, 45.0])
        shown = page.locator('[data-testid="individual"] .plot-value').first
        expect(shown).not_to_be_empty()
        assert float(shown.inner_text()) == pytest.approx(float(result.values("two", "confidence")[2, k]), rel=6e-3)
        page.get_by_test_id("run").select_option("others")
        ready(page, "run=others", *kept)
        assert "sample=2" not in page.url, "sample 2 is another one there"
        expect(planes).to_be_hidden()
        page.get_by_test_id("run").select_option("shapes-yz")
        ready(page, "run=shapes-yz", *kept)
        page.get_by_test_id("theme").click()
        page.evaluate("location.hash = '#run=others&model=three'")
        page.get_by_test_id("run").select_option("shapes-xy")
        ready(page, "run=shapes-xy")
        assert "model=" not in page.url, "there is no such model"
