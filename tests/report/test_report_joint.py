from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from report_pages import Page

from report_runs import faithful_run
from search_audits import AROUND, BOTH, images, tanh_net
from veracity import Audit
from veracity.app.home import plain_text
from veracity.report.joint import readable
from veracity.report.page import answer_of
from veracity.scores import SolHat
from veracity.studies.several import JointResult


def test_several_audits_are_answered_drawn_and_escaped(tmp_path: Path) -> None:
    names = {"<b>mine</b>": 0.9, "saliency": 0.05}
    found = {
        "<script>": faithful_run(tmp_path / "a", ("fast_gef", "pixel_flipping"), samples=8, draws=3, names=names),
        "two": faithful_run(tmp_path / "b", ("fast_gef",), ("<i>vgg</i>",), samples=8, draws=3, names=names),
    }
    summary = pd.DataFrame({"mean_value": [0.12345], "published": [float("nan")]})
    html = JointResult(found, summary, title="Both", path=str(tmp_path)).save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert page.unbalanced == []
    assert not [text for text in ("<script", "<b>mine", "<i>vgg") if text in html]
    assert "On <script> , of 2 scores, <b>mine</b> is ahead of every other explainer in 2." in page.text
    assert "By Fast-GEF on two , <b>mine</b> is ahead of every other explainer." in page.text
    assert [values["aria-label"] for _, values in page.tags if values.get("role") == "group"] == [
        "Ranking by Fast-GEF",
        "Ranking by pixel flipping",
    ]
    assert page.tables[0] == [["Mean value", "Published"], ["0.123", ""]]


def test_audits_of_a_search_are_answered_by_what_each_of_them_says(tmp_path: Path) -> None:
    made = {}
    for seed, name in enumerate(("first", "second")):
        with torch.no_grad():
            targets = tanh_net(seed)(images()).argmax(dim=1)
        audit = Audit(
            models={"net": tanh_net(seed)}, inputs=images(), targets=targets, explainers=["gradient", "input_x_gradient"],
            scores={"sol_f_hat": SolHat(walk=BOTH, **AROUND)},
        )  # fmt: skip
        made[name] = audit.run(tmp_path / name, progress=False)
    page = Page(JointResult(made, title="Robustness", path=str(tmp_path)).save_report(tmp_path / "report.html").read_text(encoding="utf-8"))
    for name, run in made.items():
        sentences = plain_text(" ".join(str(one) for part in answer_of(run) for one in part))
        assert sentences
        assert f"{name}. {sentences}" in " ".join(page.text.split())
    assert "hold no scores" not in page.text
    assert "Ranking by sol F-hat" in [values["aria-label"] for _, values in page.tags if values.get("role") == "group"]


def test_columns_and_scores_have_names_that_can_be_read() -> None:
    table = pd.DataFrame({"explainer": ["mine"], "score": ["fast_gef"], "value": [0.12345], "low": [0.1], "undefined": [3]})
    columns, found = readable(table, "95 %")
    assert columns == ["Explainer", "Score", "Value", "95 % from", "Undefined"]
    assert found == [["mine", "Fast-GEF", "0.123", "0.100", "3"]]
