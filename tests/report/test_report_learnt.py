from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from report_pages import EVIL, EVIL_TOO, Page

from report_runs import advice, concept_fact
from veracity.report.figures.advice import advice_data, robust_sentence
from veracity.report.figures.facts import facts_data, facts_sentence
from veracity.report.html import draw


def facts(*rows: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


def test_an_accuracy_stands_with_its_interval_and_trust_comes_last() -> None:
    (table,) = facts_data(facts(concept_fact("net", "cav", "top")), "90 %")
    assert table.columns == ("Model", "Explainer", "Concept", "Positives", "Negatives", "Held out", "Accuracy (90 % interval)", "Trusted")
    assert table.facts[0].cells == ("net", "cav", "top", "100", "100", "200", "0.920 (0.850 to 0.970)", "yes")
    assert (table.facts[0].trusted, table.facts[0].warning) == (True, "")


def test_what_is_not_trusted_is_marked_with_its_warning() -> None:
    tables = facts_data(facts(*(concept_fact("net", name, "striped") for name in ("cav-equiv", "cav-inv"))))
    assert facts_sentence(tables) == "Of 2 rows, 1 cannot be trusted and is not used."
    html = str(draw("learnt", tables))
    assert re.findall(r'<tr class="doubtful"><td>(.*?)</td><td>(.*?)</td>', html) == [("net", "cav-equiv")]
    assert (
        '<tr class="warning"><td colspan="8">The concept &#39;striped&#39; cannot be told from the layer &#39;conv3&#39;.</td></tr>' in html
    )
    ElementTree.fromstring(f"<div>{html}</div>")


def test_facts_of_another_shape_get_a_table_of_their_own() -> None:
    rows = [
        concept_fact("net", "cav", "top"),
        {
            "model": "net",
            "explainer": "influence",
            "damping": 0.001,
            "exact": True,
            "residual": np.float64(1e-9),
            "solver": "cholesky",
            "rows": 3,
        },
        concept_fact("net", "car", "top"),
    ]
    first, second = facts_data(facts(*rows))
    assert [fact.cells[1] for fact in first.facts] == ["cav", "car"]
    assert second.columns == ("Model", "Explainer", "Damping", "Exact", "Residual", "Solver", "Rows")
    assert second.facts[0].cells == ("net", "influence", "0.001", "yes", "1e\N{MINUS SIGN}09", "cholesky", "3")
    assert second.facts[0].trusted is None
    assert facts_sentence((second,)) == ""
    assert facts_sentence((first,)) == "All 2 can be trusted."


def test_an_accuracy_that_could_not_be_measured_is_undefined() -> None:
    row = {**concept_fact("net", "cav", "rare"), "held_out": 0, "accuracy": math.nan, "low": 0.0, "high": 1.0, "trusted": False}
    (table,) = facts_data(facts(row, concept_fact("net", "cav", "top")))
    assert [fact.cells[6] for fact in table.facts] == ["undefined", "0.920 (0.850 to 0.970)"]
    bare = {"model": "net", "explainer": "probe", "accuracy": 0.5}
    assert facts_data(facts(bare))[0].columns == ("Model", "Explainer", "Accuracy")


def test_long_tables_fold_away_but_doubts_stay_in_the_open() -> None:
    rows = [concept_fact(f"net-{place}", "cav-equiv", concept) for place in range(8) for concept in ("top", "striped")]
    html = str(draw("learnt", facts_data(facts(*rows))))
    head, folded = html.split("<details>")
    assert head.count("<tr") == 1 + 2 * 8
    assert "<summary>All 16 rows</summary>" in folded


def test_nothing_learnt_is_nothing_shown() -> None:
    assert facts_data(pd.DataFrame()) == ()
    assert draw("learnt", ()) == ""


def test_cases_that_call_for_one_change_stand_together() -> None:
    records = [
        advice("m"), advice("n", before=0.5), advice("m", explainer="car-equiv"), advice("m", change="Average over 64 transforms."),
        advice("m", explainer="influence", robust=True),
    ]  # fmt: skip
    data = advice_data(records, ["m", "n"])
    assert [[(item.model, item.explainer) for item in group] for group in data.remedies] == [
        [("m", "cav-equiv"), ("n", "cav-equiv"), ("m", "car-equiv")],
        [("m", "cav-equiv")],
    ]
    assert data.remedies[0][1].before.value == 0.5
    assert [item.explainer for item in data.robust] == ["influence"]


def test_a_remedy_shows_branch_assumption_change_and_gain() -> None:
    html = str(draw("remedies", advice_data([advice("m")], ["m"])))
    page = Page(html)
    assert re.findall(r"<h3>(.*?)</h3>", html) == ["Use the layer &#39;dense1&#39;."]
    assert re.findall(r"<dt>(.*?)</dt>", html) == ["Branch", "What fails", "Why", "Guideline"]
    assert "3. Concept classifiers keep still on an invariant layer." in page.text
    (table,) = page.tables
    assert table[0] == ["Explainer", "Measured", "Before and after", "Before", "After", "Gain"]
    cells = [cell.strip() for cell in table[1]]
    assert cells[0] == "cav-equiv"
    assert cells[3:] == ["0.6600.620 to 0.700", "1.0001.000 to 1.000cav on dense1", "0.3400.300 to 0.380"]
    places = re.findall(r'<svg x="([\d.]+)%" y="[-\d.]+" overflow="visible"><path class="(ring|dot)"', html)
    assert places == [("66.0", "ring"), ("100.0", "dot")]
    ElementTree.fromstring(html)


@pytest.mark.parametrize("empty", [None, math.nan])
def test_what_was_not_measured_again_says_so(empty: float | None) -> None:
    names = ("after", "after_low", "after_high", "gain", "gain_low", "gain_high")
    html = str(draw("remedies", advice_data([advice("m", after_label=None, guideline=empty, **dict.fromkeys(names, empty))], ["m"])))
    assert "not measured again" in html
    assert 'class="dot"' not in html
    assert "Guideline" not in html
    assert not re.search(r"\b(nan|None)\b", html)


def test_advice_without_a_change_or_an_interval() -> None:
    html = str(draw("remedies", advice_data([advice("m", change="", before_low=None, before_high=None)], ["m"])))
    assert "Nothing is known that would help" in html
    assert "0.660</td>" in html


def test_robust_explainers_share_a_sentence() -> None:
    def said(*records: dict[str, object], models: tuple[str, ...] = ("m", "n")) -> str:
        return re.sub("<[^>]*>", "", str(robust_sentence(advice_data(list(records), models))))

    ok = {"robust": True}
    assert said(advice("m", "a", **ok), models=("m",)) == "No change is needed for a: it respects the symmetry."
    both = [advice(model, name, **ok) for model in "mn" for name in "ab"]
    assert said(*both) == "No change is needed for a and b on m and n: they respect the symmetry."
    assert said(*both[:3]) == "No change is needed for a and b on m; a on n: they respect the symmetry."
    assert robust_sentence(advice_data([], ["m"])) == ""
    assert not advice_data([], ["m"]).remedies


def test_advice_and_facts_are_escaped() -> None:
    hostile = dict.fromkeys(("branch", "assumption", "measured", "reason", "change", "after_label"), EVIL)
    html = str(draw("remedies", advice_data([advice(EVIL_TOO, EVIL, **hostile)], [EVIL_TOO, "n"])))
    html += str(robust_sentence(advice_data([advice(EVIL, EVIL_TOO, robust=True)], [EVIL, "n"])))
    html += str(draw("learnt", facts_data(facts({"model": EVIL, "explainer": EVIL_TOO, EVIL: EVIL, "warning": EVIL, "trusted": False}))))
    page = Page(html)
    assert not [tag for tag, attributes in page.tags if tag in {"script", "img"} or "onerror" in attributes]
    assert page.unbalanced == []
    assert page.text.count(EVIL) >= 9
