"""A card as tables for a paper, a README or a model card: its words, or the numbers behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from veracity.cards.page import SHORT, answer, groups, measured, ranked
from veracity.cards.record import CardRecord
from veracity.core.wording import number
from veracity.report.leaderboard_text import latex, latex_table, markdown, markdown_table, prose

Escape = Callable[[str], str]
NUMBERS = ["explainer", "question", "check", "value", "interval", "line", "n", "word"]


def as_markdown(card: CardRecord, *, numbers: bool = False) -> str:
    """The words of every explainer as a Markdown table, after what they say together; or the numbers behind them."""
    if numbers:
        return f"{markdown_table(NUMBERS, list(number_rows(card, markdown, prose)))}\n\n{prose(reading(card))}\n"
    head = ["explainer", *(f"{one.number} {SHORT[one.key]}" for one in card.questions)]
    rows = word_rows(card, markdown, prose, lambda heading: [heading, *[""] * len(card.questions)])
    return "\n\n".join([*map(prose, answer(card)), markdown_table(head, rows)]) + "\n"


def as_latex(card: CardRecord, *, numbers: bool = False) -> str:
    """The words of every explainer as a LaTeX table, which needs no package; or the numbers behind them.

    The columns of words are numbered, and the caption names the questions.
    """
    about = f"Model {card.model}: {measured(card)}"
    if numbers:
        return latex_table(latex(f"{card.title} {about} {reading(card)}"), NUMBERS, list(number_rows(card, latex, latex)))
    wide = len(card.questions) + 1
    rows = word_rows(card, latex, latex, lambda heading: [rf"\multicolumn{{{wide}}}{{l}}{{\emph{{{heading}}}}}"])
    asked = f"Questions: {', '.join(f'{one.number} {SHORT[one.key]}' for one in card.questions)}."
    head = ["explainer", *(str(one.number) for one in card.questions)]
    return latex_table(latex(" ".join([card.title, *answer(card), asked, about])), head, rows)


def reading(card: CardRecord) -> str:
    """How to read the numbers."""
    level = f"{100.0 - 100.0 * (1.0 - card.level):.6g} %"
    stopped = "; of what stopped early, that of its last look" if card.race else ""
    return (
        "Value: the share of the way from the reference to the ideal; of question 0, how far the agreement falls. "
        f"Intervals have {level} confidence, at which all words of the card are right together{stopped}."
    )


def word_rows(card: CardRecord, name: Escape, text: Escape, title: Callable[[str], list[str]]) -> list[list[str]]:
    """One row per explainer with its six words, under the headings of the page if there are several."""
    rows, parts = [], groups(card)
    for heading, members in parts:
        rows += [title(text(heading))] if len(parts) > 1 else []
        rows += [[name(one.name), *(text(said.word) for said in one.answers)] for one in members]
    return rows


def number_rows(card: CardRecord, name: Escape, text: Escape) -> Iterator[list[str]]:
    """One row per explainer and check, with its value, interval, line and number of samples."""
    places = {one.key: str(one.number) for one in card.questions}
    for one in ranked(card):
        for said in one.answers:
            for check in said.checks:
                value = "" if check.value is None else number(check.value, 3)
                ends = check.why if check.low is None or check.high is None else f"{number(check.low, 3)} to {number(check.high, 3)}"
                cells = [places[said.question], check.title, value, ends, number(check.line, 2), str(check.n), check.word]
                yield [name(one.name), *map(text, cells)]
