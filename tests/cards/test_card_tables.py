"""A card as LaTeX and Markdown: the page's words under its headings, and the numbers behind them; every name escaped."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_card_page import BAD, CARD, CONTROL, GOOD, WORSE, explainer, record

from veracity.cards.tables import as_latex, as_markdown
from veracity.cli import main

HOSTILE = record(explainer("a_b & 50%", *["holds"] * 6), explainer("<i>|x", *["holds"] * 6))


def test_every_explainer_has_its_six_words_under_its_heading() -> None:
    text = as_latex(CARD)
    rows = [line.removesuffix(r" \\") for line in text.splitlines() if line.endswith(r" \\")]
    assert rows[0] == "explainer & 0 & 1 & 2 & 3 & 4 & 5"
    assert rows[1] == r"\multicolumn{7}{l}{\emph{Not surely dominated}}"
    assert rows[2] == "good & holds & holds & holds & holds & cannot tell yet & cannot tell yet"
    assert rows[-2].endswith(r"{\emph{Out: they fall short on question 0}}")
    assert rows[-1].startswith("bad & falls short & holds")
    assert "Questions: 0 depends on the model, 1 faithful" in text
    assert CONTROL["name"] not in text


def test_numbers_have_one_row_per_check() -> None:
    lines = as_markdown(CARD, numbers=True).splitlines()
    own = [line for line in lines if line.startswith("| `")]
    assert len(own) == sum(len(said["checks"]) for one in (GOOD, WORSE, BAD) for said in one["answers"])
    assert own[1] == "| `good` | 1 | deletion | 0.500 | 0.400 to 0.600 | 0.10 | 9 | holds |"
    assert "99.95 % confidence" in lines[-1]


def test_names_are_escaped() -> None:
    assert r"a\_b \& 50\% & holds" in as_latex(HOSTILE)
    assert "&lt;i&gt;\\|x | holds" in as_markdown(HOSTILE)


def test_show_prints_the_tables_of_a_card(folder: Path, known: object, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, start in (
        (["latex"], r"\begin{table}"),
        (["markdown"], "exact holds"),
        (["markdown", "--numbers"], "| explainer | question"),
    ):
        with pytest.raises(SystemExit):
            main(["show", str(folder), "--format", *arguments])
        assert capsys.readouterr().out.startswith(start)
    assert (folder / "card.tex").read_text().startswith(r"\begin{table}")
