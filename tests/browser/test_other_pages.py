"""Every form of plot and every kind of run, in Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect
from torch import Tensor, nn

from browser_visit import Visit, served, shown, violations
from orbit_small import Brightest, detection, digits_like, flow, images, labels, linear
from small import series_inputs, set_net, small_net
from veracity import Audit, OrbitEvaluation
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.study import study
from veracity.orbits import Classification, DiskOrbit, GroupOrbit, Regression
from veracity.perturb import CyclicShift, Dihedral
from veracity.studies.symmetry_scan import scan
from veracity.walk import Exhaustive

Begin = Callable[..., Visit]
FORMS = ("detection", "disk", "flow", "line")
WEIGHTS = torch.randn(16, 14, generator=torch.Generator().manual_seed(1))


class Twice(nn.Module):
    """Finds the brightest pixel twice, the second time with half the confidence."""

    def forward(self, x: Tensor) -> Tensor:
        found = Brightest()(x)
        return torch.cat((found, found * torch.tensor([1.0, 1.0, 1.0, 1.0, 0.5, 1.0])), dim=1)


def detectors() -> OrbitEvaluation:
    return detection(title="Spots", models={"twice": Twice(), "once": Brightest(), "blind": Brightest(least=2.0)})


def numbers() -> OrbitEvaluation:
    x = torch.rand(4, 16, generator=torch.Generator().manual_seed(0))
    orbit = GroupOrbit(space=CyclicShift(axes=(-1,)))
    return OrbitEvaluation(models={"sums": lambda x: x @ WEIGHTS}, inputs=x, targets=x @ WEIGHTS, orbit=orbit, task=Regression())


def disk() -> OrbitEvaluation:
    clouds = torch.randn(6, 20, 3, generator=torch.Generator().manual_seed(5))
    models: dict[str, nn.Module] = {f"seed {seed}": set_net(seed=seed) for seed in (0, 1)}
    task = Classification(classes=("bench", "chair", "monitor"))
    return OrbitEvaluation(models=models, inputs=clouds, targets=labels(), orbit=DiskOrbit(step=45.0), task=task, title="Clouds")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One folder with four orbit evaluations, one audit and one folder of another kind."""
    folder = tmp_path_factory.mktemp("several")
    for name, made in zip(FORMS, (detectors(), disk(), flow(title="Flows"), digits_like(title="Squares")), strict=True):
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
    with study(RunFolder(str(folder / "other")), Kind.DEGRADATION, [], title="Damage"):
        pass
    (folder / "other" / "report.html").write_text("<p id='found'>A report</p><script>document.title = 'ran'</script>")
    with served(folder) as found:
        yield found


@pytest.fixture
def runs(visit: Begin, address: str) -> Visit:
    one = visit()
    one.page.goto(address)
    one.page.wait_for_selector('[data-testid="runs"]')
    expect(one.page.get_by_test_id("found")).to_have_text("", timeout=20_000)  # all runs are read, so that none moves under a click
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


def test_detections_of_every_model_stand_first(runs: Visit) -> None:
    page = runs.page
    choose(runs, "Spots")
    page.wait_for_selector('[data-testid="detail"] .detail-own tbody th')
    assert page.locator('[data-testid="detail"] .detail-own tbody th').all_inner_texts() == ["twice", "once", "twice"]
    page.get_by_test_id("metric").select_option("precision")
    for name in ("twice", "once"):
        page.get_by_role("button", name=name).click()
    page.wait_for_selector('[data-testid="scatter"][data-state="empty"]')
    assert "undefined along every orbit" in page.locator('[data-testid="scatter"] .message').inner_text()


def test_numbers_are_shown_with_their_consensus(visit: Begin, tmp_path: Path) -> None:
    made, folder = numbers(), tmp_path / "sums"
    result = made.run(folder, progress=False)
    kept = {name: result.outputs("sums", 0)[name] for name in ("outputs", "consensus")}
    for evaluation, status in ((None, "Read-only"), (made, "Live models")):
        with served(folder, evaluation) as address:
            page = visit().open(f"{address}#at=3")
            page.wait_for_function("text => document.querySelector('[data-testid=status]').textContent.startsWith(text)", arg=status)
            assert "first 12 of 14 numbers" in page.locator('[data-testid="detail"] .plot-legend').inner_text()
            rows = page.locator('[data-testid="detail"] .detail-own tbody tr').all()
            for row, expected in zip(rows, (kept["outputs"][0], kept["outputs"][3], kept["consensus"]), strict=True):
                shown = [float(cell.replace("\N{MINUS SIGN}", "-")) for cell in row.locator("td").all_inner_texts()[1:]]
                assert shown == pytest.approx(expected[:12].tolist(), rel=6e-3, abs=6e-4)
            page.close()


def test_an_address_of_no_run_leads_to_those_there_are(runs: Visit) -> None:
    page = runs.page
    page.evaluate("location.hash = 'run=99'")
    page.get_by_test_id("away").click()
    page.wait_for_selector('[data-testid="runs"]')
    assert "run=" not in page.evaluate("location.hash")
    runs.complaints.clear()


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


def test_a_report_fills_the_window_and_opens_on_its_own_to_be_printed(runs: Visit) -> None:
    page = runs.page
    choose(runs, "Maps")
    page.get_by_test_id("full-report").click()
    frame = page.locator('[data-testid="report"] iframe')
    frame.wait_for()
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 844})
        box = frame.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] == pytest.approx(844, abs=1)
        assert page.evaluate("document.documentElement.scrollHeight") == 844
    page.emulate_media(media="print")
    assert not frame.is_visible()
    expect(page.get_by_text("To print this report")).to_be_visible()
    page.emulate_media(media="screen")
    with page.expect_popup() as opened:
        page.get_by_test_id("report-alone").click()
    expect(opened.value.get_by_role("heading", level=1)).to_have_text("Maps")
    opened.value.close()


def test_a_finished_study_without_a_report_leads_to_its_runs(visit: Begin, axe: str, tmp_path: Path) -> None:
    audit = Audit(models={"a": linear(0)}, inputs=images(), targets=labels(), explainers=["saliency"], scores=["sparseness"], title="Maps")
    with study(RunFolder(str(tmp_path / "damage")), Kind.DEGRADATION, ["one"], title="Damage"):
        audit.run(tmp_path / "damage" / "one", progress=False)
    with served(tmp_path) as address:
        page = visit(390).page
        page.goto(f"{address}#run=damage")
        expect(page.get_by_test_id("waiting")).to_contain_text("This study has no report. Its runs have pages of their own.")
        page.evaluate(axe)
        assert violations(page) == []
        page.get_by_test_id("parts").get_by_text("one").click()
        expect(page.get_by_test_id("audit")).to_contain_text("Maps")


def test_a_finished_study_without_a_report_shows_its_table(visit: Begin, axe: str, tmp_path: Path) -> None:
    found = scan(small_net(), series_inputs(8), draws=4, folder=tmp_path / "symmetries", progress=False).table()
    with served(tmp_path) as address:
        page = visit(1440).page
        page.goto(f"{address}#run=symmetries")
        expect(page.get_by_test_id("waiting")).to_contain_text("This is what the study found. Its runs have pages of their own.")
        rows = page.get_by_test_id("found-table").locator("tbody tr")
        expect(rows).to_have_count(len(found))
        for row, known in zip(rows.all(), found.to_dict("records"), strict=True):
            cells = row.locator("td").all_inner_texts()
            assert (cells[0], cells[2], cells[3]) == (known["symmetry"], known["verdict"], shown(known["invariance"]))
        page.evaluate(axe)
        assert violations(page) == []
