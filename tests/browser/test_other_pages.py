"""Every form of plot and every kind of run, in Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from browser_visit import Visit, served
from orbit_small import detection, digits_like, flow, images, labels, linear
from veracity import Audit, Classification, Dihedral, DiskOrbit, OrbitEvaluation
from veracity.walk import Exhaustive
from veracity.zoo.sets import deep_sets
from veracity.zoo.train import initialised

Begin = Callable[..., Visit]
FORMS = ("detection", "disk", "flow", "line")


def disk() -> OrbitEvaluation:
    clouds = torch.randn(6, 20, 3, generator=torch.Generator().manual_seed(5))
    models: dict[str, nn.Module] = {f"seed {seed}": initialised(lambda: deep_sets(3, 8), seed=seed).eval() for seed in (0, 1)}
    task = Classification(classes=("bench", "chair", "monitor"))
    return OrbitEvaluation(models=models, inputs=clouds, targets=labels(), orbit=DiskOrbit(step=45.0), task=task, title="Clouds")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One folder with four orbit evaluations, one audit and one folder of another kind."""
    folder = tmp_path_factory.mktemp("several")
    for name, made in zip(FORMS, (detection(title="Spots"), disk(), flow(title="Flows"), digits_like(title="Squares")), strict=True):
        made.run(folder / name, progress=False)
    audit = Audit(
        models={"a": linear(0)},
        inputs=images(),
        targets=labels(),
        symmetry=Dihedral(),
        walk=Exhaustive(),
        explainers=["saliency"],
        title="Maps",
    )
    audit.run(folder / "maps", progress=False).save_report(folder / "maps" / "report.html")
    (folder / "other").mkdir()
    (folder / "other" / "degradation.json").write_text('{"title": "Damage"}')
    (folder / "other" / "report.html").write_text("<p id='found'>A report</p><script>document.title = 'ran'</script>")
    with served(folder) as found:
        yield found


@pytest.fixture
def runs(visit: Begin, address: str) -> Visit:
    one = visit()
    one.page.goto(address)
    one.page.wait_for_selector('[data-testid="runs"]')
    return one


def choose(one: Visit, title: str) -> None:
    one.page.get_by_test_id("runs").get_by_text(title, exact=True).click()


@pytest.mark.parametrize(("title", "layout"), [("Spots", "heatmap"), ("Clouds", "disk"), ("Flows", "tiles"), ("Squares", "line")])
def test_every_form_is_drawn_and_moved_along(runs: Visit, title: str, layout: str) -> None:
    page = runs.page
    choose(runs, title)
    page.wait_for_selector(f'[data-testid="orbit"][data-layout="{layout}"]')
    for panel in ("aggregate", "scatter", "individual", "input", "detail"):
        page.wait_for_selector(f'[data-testid="{panel}"][data-state="ready"]')
    assert "Read-only" in page.get_by_test_id("status").inner_text()
    before = page.locator('[data-testid="detail"] .subtitle').inner_text()
    page.evaluate("document.activeElement.blur()")
    for key in ("ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    page.wait_for_function("before => document.querySelector('[data-testid=detail] .subtitle').textContent !== before", arg=before)
    assert "at=" in page.evaluate("location.hash")
    runs.picture(f"{layout}-light-1280")
    assert runs.outside() == []


def test_an_audit_shows_its_scores_and_its_report(runs: Visit) -> None:
    page = runs.page
    choose(runs, "Maps")
    page.wait_for_selector('[data-testid="audit"]')
    assert "saliency" in page.get_by_test_id("score-equivariance").inner_html()
    page.get_by_test_id("full-report").click()
    page.wait_for_selector('[data-testid="report"] iframe')
    runs.picture("audit-light-1280")


def test_a_report_is_shown_and_runs_nothing(runs: Visit) -> None:
    page = runs.page
    choose(runs, "Damage")
    page.frame_locator('[data-testid="report"] iframe').locator("#found").wait_for()
    assert page.title() != "ran"
    assert all(frame.title() != "ran" for frame in page.frames)
    runs.complaints.clear()
