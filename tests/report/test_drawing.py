"""Single figures and short pages for notebooks: the page's own figures, as SVG, PNG and PDF, apart from everything around them."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_pages import Page

from orbit_run import measured
from small import series_inputs, small_net
from veracity import Audit, OrbitResult, VeracityError
from veracity.perturb import CyclicShift
from veracity.report.vector import commands, flat_figure, sheet
from veracity.results import Result

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    audit = Audit(
        models={"a": small_net(), "<b>": small_net(seed=1)},
        inputs=series_inputs(),
        explainers={"saliency": "saliency", "</svg><script>": "input_x_gradient"},
        symmetry=CyclicShift(axes=(-1,)),
        scores=["equivariance", "deletion", "model_invariance"],
    )
    return audit.run(tmp_path_factory.mktemp("drawing") / "run", progress=False)


def marks(svg: str, colour: str) -> list[float]:
    """Where the marks of a model lie, from top to bottom."""
    tree = ElementTree.fromstring(svg)
    shapes = [path for path in tree.iter(f"{SVG}path") if path.get("fill") == colour and path.get("stroke")]
    return [float(re.findall(r"-?[\d.]+", path.get("d") or "")[0]) for path in shapes]


def test_marks_of_a_ranking_lie_where_the_values_are(run: Result) -> None:
    svg = run.figure("ranking", score="deletion").flat.svg()
    tree = ElementTree.fromstring(svg)  # well formed, whatever names there are
    texts = [text.text for text in tree.iter(f"{SVG}text")]
    assert {"saliency", "</svg><script>", "a", "<b>"} <= set(texts)
    axis = [text for text in tree.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    ticks = {float((text.text or "").replace("\N{MINUS SIGN}", "-")): float(text.get("x") or 0) for text in axis}
    (low, left), (high, right) = min(ticks.items()), max(ticks.items())
    rows = [row for row in run.rows if row.score == "deletion" and row.model == "a" and row.defined]
    assert len(rows) > 4
    found = [x + 4.2 for x in marks(svg, sheet()[1]["--m1"])]
    for row in rows:
        expected = left + (right - left) * (row.value - low) / (high - low)
        assert min(abs(x - expected) for x in found) < 0.2


def test_a_name_that_takes_more_than_two_lines_ends_in_dots(tmp_path: Path) -> None:
    name = "an explainer with a name that is " + "very " * 20 + "long"
    audit = Audit(models=small_net(), inputs=series_inputs(), explainers={name: "saliency"}, scores=["deletion"], controls=False)
    svg = audit.run(tmp_path, progress=False).figure("ranking", score="deletion").flat.svg()
    texts = [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    first = next(place for place, text in enumerate(texts) if text.startswith("an explainer"))
    assert texts[first + 1].endswith("…")


@pytest.mark.parametrize(
    ("name", "score"), [("ranking", None), ("boxes", "deletion"), ("curve", "deletion"), ("models", "model_invariance")]
)
def test_figures_are_saved_as_svg_png_and_pdf(run: Result, tmp_path: Path, name: str, score: str | None) -> None:
    figure = run.figure(name, score)
    starts = {"svg": b"<svg xmlns", "png": b"\x89PNG", "pdf": b"%PDF"}
    for kind, start in starts.items():
        path = figure.save(tmp_path / "new" / f"{name}.{kind}")
        assert path.read_bytes().startswith(start)
        assert path.stat().st_size < 300_000
    shown = figure._repr_svg_()
    assert "prefers-color-scheme: dark" in shown
    assert "var(" not in shown
    assert " id=" not in shown
    assert figure._repr_html_() is None


def test_mistakes_are_one_sentence(run: Result, tmp_path: Path) -> None:
    for call, said in (
        (lambda: run.figure("rankin"), "Did you mean 'ranking'"),
        (lambda: run.figure("ranking", "deletio"), "Did you mean 'deletion'"),
        (lambda: run.figure("ranking").save(tmp_path / "x.gif"), "saved as .svg, .png, .pdf or .html"),
        (lambda: flat_figure("", "<table></table>"), "save it as .html"),
    ):
        with pytest.raises(VeracityError, match=re.escape(said)):
            call()


def framed(shown: str) -> Page:
    assert shown.startswith('<iframe srcdoc="')
    assert ' sandbox=""' in shown
    assert shown.count('"') == 6  # everything else is escaped
    return Page(unescape(shown.split('"')[1]))


def test_a_notebook_shows_the_result_in_short(run: Result) -> None:
    shown = run._repr_html_()
    page = framed(shown)
    assert len(shown) < 200_000
    assert "Ranking by Deletion" in page.text
    assert "<script" not in unescape(shown.split('"')[1])


def test_a_notebook_shows_orbits_without_scripts(tmp_path: Path) -> None:
    measured(tmp_path / "run")
    result = OrbitResult(tmp_path / "run")
    shown = result._repr_html_()
    page = framed(shown)
    assert "<script" not in unescape(shown.split('"')[1])
    assert len(shown) < 200_000
    assert "Along the orbit" in page.text
    assert result.figure("orbit", "accuracy").flat.svg().count("<svg") > 2
    with pytest.raises(VeracityError, match="Unknown figure of this evaluation"):
        result.figure("ranking")


def test_arcs_become_curves_that_end_where_they_should() -> None:
    steps = commands("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z")
    assert [name for name, _ in steps] == ["M", "C", "C", "C", "C", "Z"]
    assert steps[2][1][4:] == pytest.approx((4.0, 0.0))
    assert steps[4][1][4:] == pytest.approx((-4.0, 0.0))
