from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

from veracity import Audit
from veracity.explain import DeepViz, Fourier
from veracity.report.figures.classes import CLASSES, class_pictures
from veracity.results import Result, Visualised
from veracity.scores import GEF, FastGEF

STRENGTHS = (0.0, 0.4, 0.8, 1.2, 1.6, 2.0)


def measured(folder: Path, steps: tuple[int, ...] = (1, 2)) -> Result:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3)).eval()
    explainers = {f"fourier-{one.steps}": one for one in Fourier().at(*steps)} | {"deep": DeepViz(steps=2, common=False)}
    scores = {"fast_gef": FastGEF(draws=2, sigma=2.0), "gef": GEF(draws=1, sigma=2.0, segments=2)}
    audit = Audit(
        models={"net": net},
        inputs=torch.rand(6, 1, 8, 8),
        targets=torch.tensor([0, 2] * 3),
        target="label",
        explainers=explainers,
        scores=scores,
        companions=False,
    )
    return audit.run(folder, progress=False)


def test_the_report_shows_classes_and_the_first_draw_of_the_shortest_path(tmp_path: Path) -> None:
    result = measured(tmp_path / "run")
    found = result.visualisations()
    assert [one.explainer for one in found] == ["fourier-1", "fourier-2", "deep"]
    for one in found:
        assert one.classes == (0, 2)
        assert one.images.shape == (6, 2, 1, 8, 8)
        assert all(abs(a - b) < 1e-9 for a, b in zip(one.strengths, STRENGTHS, strict=True) if a is not None)
        assert torch.equal(one.images[0], result.explanations("net", one.explainer)[:2])
        assert not torch.equal(one.images[0], one.images[1])
    page = result.save_report(tmp_path / "report.html").read_text()
    (section,) = re.findall(r'<section id="classes">.*?</section>', page, re.DOTALL)
    tables = re.findall(r"<table.*?</table>", section, re.DOTALL)
    assert [table.count("<img") for table in tables] == [3 * 2] + [2 * 6] * 3
    assert "\N{GREEK SMALL LETTER SIGMA} = 0.4" in tables[1]


def test_pictures_of_other_settings_under_the_same_label_are_not_shown(tmp_path: Path) -> None:
    measured(tmp_path / "run")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3)).eval()
    inputs, targets = torch.rand(6, 1, 8, 8), torch.tensor([0, 2] * 3)
    settings = {"explainers": {"deep": DeepViz(steps=3)}, "scores": {"fast_gef": FastGEF(draws=1, sigma=1.0)}, "companions": False}
    again = Audit(models={"net": net}, inputs=inputs, targets=targets, target="label", **settings).run(tmp_path / "run", progress=False)
    (one,) = again.visualisations()
    assert one.strengths[-1] == 1.0
    assert torch.equal(one.images[0], again.explanations("net", "deep")[:2])


def test_many_classes_and_lost_files_are_told(tmp_path: Path) -> None:
    many = Visualised("net", "fourier", tuple(range(CLASSES + 3)), (0.0,), torch.rand(1, CLASSES + 3, 3, 4, 4))
    data = class_pictures([many], "net")
    assert data is not None
    assert (data.classes_left, data.explainers_left, len(data.overview.columns), data.paths) == (3, 0, CLASSES, ())
    assert class_pictures([many], "other") is None
    result = measured(tmp_path / "run")
    for file in (tmp_path / "run" / "learnt").iterdir():
        file.unlink()
    assert Result(tmp_path / "run").visualisations() == []
    assert 'id="classes"' not in result.save_report(tmp_path / "report.html").read_text()
