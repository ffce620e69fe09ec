"""A score from outside the package gets its section of the report, with its own words and its own figure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from markupsafe import Markup
from report_pages import Page, drawings
from torch import Tensor, nn

from veracity import Audit
from veracity.core.errors import SpecError
from veracity.core.measures import Direction
from veracity.core.registry import FIGURES, RENDERERS, SCORES
from veracity.core.scores import Defaults, Pair, Request, Score, Subject
from veracity.perturb.noise import GaussianNoise
from veracity.report import Figure, Plot, Renderer, RunReading
from veracity.results import Result
from veracity.results.pages import page_of
from veracity.walk import MonteCarlo

TITLE, DEFINITION = "sign-flip rate", "How often an attribution changes its sign under small noise."


@dataclass(frozen=True, kw_only=True)
class SignFlips(Score):
    """The share of attributions whose sign changes."""

    name = "sign_flips"
    title = TITLE
    definition = DEFINITION
    figures: ClassVar[tuple[str, ...]] = ("sign_ladder",)
    reference = "A. Stranger, Signs of the times (2026)"
    direction = Direction.LOWER
    bounds = (0.0, 1.0)
    sigma: float = 0.5

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        if subject.explainer is None:
            return ()
        return (Request(GaussianNoise(sigma=self.sigma).fit(subject.shape), MonteCarlo(draws=3)),)

    def observe(self, pair: Pair) -> Tensor:
        return (pair.before.explanation.sign() != pair.after.explanation.sign()).double().flatten(1).mean(dim=1)

    def setting(self) -> str:
        return f"Here the noise has a standard deviation of {self.sigma:g}."


class SignLadder(Figure):
    """One rung per explainer."""

    name = "sign_ladder"

    def data(self, reading: RunReading, label: str) -> Mapping[str, float] | None:
        return {row.explainer: row.value for row in reading.of(label) if row.defined and not row.control} or None

    def plot(self, reading: RunReading, label: str, data: Mapping[str, float]) -> Plot:
        rungs = Markup("").join(Markup('<line class="rung" x2="{}"/>').format(value) for value in data.values())
        return Plot(title="Ladder of signs", note="Short rungs are good.", drawing=Markup("<svg>{}</svg>").format(rungs))


@pytest.fixture
def plugin() -> Iterator[None]:
    """The score and its figure as an installed distribution registers them."""
    SCORES.add(SignFlips)
    FIGURES.add(SignLadder)
    yield
    del SCORES._items["sign_flips"], FIGURES._items["sign_ladder"]


def audit(folder: Path) -> Result:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).eval(), torch.randn(6, 6)
    explainers = ["gradient", "integrated_gradients"]
    return Audit(models={"net": net}, inputs=x, explainers=explainers, scores={"flips": SignFlips()}).run(folder, progress=False)


def section_of(html: str, title: str) -> str:
    return next(part for part in html.split("<section ") if f"<h2>{title}</h2>" in part)


@pytest.mark.usefixtures("plugin")
def test_a_score_from_outside_gets_its_section_and_its_figure(tmp_path: Path) -> None:
    result = audit(tmp_path / "run")
    html = result.save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    part = section_of(html, "Flips")
    assert DEFINITION in part
    assert "Here the noise has a standard deviation of 0.5." in part
    assert "lower is better" in part
    assert "<h3>Ladder of signs</h3>" in part
    assert re.findall(r'class="rung" x2="([\d.]+)"', part) == [str(row.value) for row in result.rows if row.explainer and not row.control]
    assert "A. Stranger" in html
    assert Page(html).unbalanced == []
    assert drawings(html)


@pytest.mark.usefixtures("plugin")
def test_a_score_is_called_by_the_title_that_it_declares(tmp_path: Path) -> None:
    from veracity.report.wording import title_of, word_of

    assert word_of("sign_flips, strong") == f"{TITLE}, strong"
    assert title_of("sign_flips") == "Sign-flip rate"


def test_without_its_distribution_the_score_still_has_a_section(tmp_path: Path, plugin: None) -> None:
    audit(tmp_path / "run")
    del SCORES._items["sign_flips"]
    html = page_of("audit", Result(tmp_path / "run"))
    SCORES.add(SignFlips)
    part = section_of(html, "Flips")
    assert DEFINITION not in part
    assert "Ladder of signs" not in part
    assert "gradient" in part


def test_every_figure_that_a_score_names_is_registered() -> None:
    named = {name for score in SCORES.values() for name in score.figures}
    assert named <= set(FIGURES)


def test_a_renderer_from_outside_makes_pages_of_its_own_kind() -> None:
    with pytest.raises(SpecError, match="Unknown renderer 'poster'"):
        page_of("poster", {})
    RENDERERS.add(Renderer("poster", lambda result, **options: f"<h1>{result['title']}</h1>"))
    made: Any = page_of("poster", {"title": "Big"})
    del RENDERERS._items["poster"]
    assert made == "<h1>Big</h1>"
