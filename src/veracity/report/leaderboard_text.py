"""A leaderboard as Markdown and as LaTeX; every name in it is escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from veracity.core.wording import AT_LEAST, AT_MOST, MINUS
from veracity.report.wording import ARROWS, frame_title

if TYPE_CHECKING:
    from veracity.report.board import Board, Column, Entry, Group
    from veracity.report.leaderboard import Leaderboard

PLAIN = re.compile(r"[\w .,:=+/()\-]+", re.ASCII)
"""Names that Markdown shows as they are in a code span."""
SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$&:@])")
LATEX = {
    **{letter: f"\\{letter}" for letter in "{}$&#_%"},
    **{letter: f"{{{letter}}}" for letter in "[*"},  # after a line break, LaTeX reads them as an argument and as a star
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    MINUS: "$-$",
    AT_MOST: r"$\le$",
    AT_LEAST: r"$\ge$",
    "\N{EN DASH}": "--",
    ARROWS["higher"]: r"$\uparrow$",
    ARROWS["lower"]: r"$\downarrow$",
}
"""What LaTeX would not print as it is."""
READING = (
    "Each cell: rank, mean or median (interval), number n of samples. Explainers that paired differences cannot tell apart share their "
    "ranks: 1\N{EN DASH}3 is rank 1, 2 or 3. Ranks compare explanations of one kind by one score on one model of one run. Controls are not "
    "ranked."
)
TALLY = (
    "On how many boards nobody is ahead of the explainer and it does better than chance, of those on which it is ranked; a board is one "
    "model of one run. Nothing is averaged over models or scores."
)
Escape = Callable[[str], str]


def markdown(text: str) -> str:
    """A user's word in Markdown, on one line: a code span if it is plain, or else escaped.

    >>> print(markdown("smooth_grad"), markdown("<b>|a`"))
    `smooth_grad` &lt;b&gt;\\|a\\`
    """
    line = " ".join(text.split())
    return f"`{line}`" if PLAIN.fullmatch(line) else SPECIAL.sub(r"\\\1", line).replace("<", "&lt;").replace(">", "&gt;")


def prose(text: str) -> str:
    """A sentence in Markdown, on one line.

    >>> prose("runs/a_b: <i>")
    'runs/a\\\\_b: &lt;i&gt;'
    """
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", " ".join(text.split())).replace("<", "&lt;").replace(">", "&gt;")


def latex(text: str) -> str:
    """A text in LaTeX, on one line.

    >>> print(latex("100 % of a_b ≤ −1"))
    100 \\% of a\\_b $\\le$ $-$1
    >>> print(latex("[2cm] *"))
    {[}2cm] {*}
    """
    return "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))


def shown(entry: Entry | None) -> str:
    """One cell: rank, value, interval and counts."""
    if entry is None:
        return ""
    ends = f" ({entry.ends})" if entry.ends else ""
    beside = "".join(f", {text}" for text in (entry.counts, entry.chance) if text)
    return (f"{entry.rank}: " if entry.rank else "") + f"{entry.value}{ends}{beside}"


def heading(column: Column) -> str:
    """What stands after the name of a score: which way is better, or that it ranks nobody."""
    return "*" if column.unranked else ARROWS.get(column.direction, "")


def group_title(group: Group, board: Board) -> str:
    """What a group of rows is called; nothing if it is the only kind and no controls."""
    kind = f"{frame_title(group.frame)}: " if board.kinds > 1 else ""
    return f"{kind}controls, not ranked".capitalize() if group.control else kind.rstrip(": ")


def remarks(board: Board) -> Iterator[str]:
    """What qualifies a board: how far its run is, and which scores rank nobody."""
    if board.standing:
        yield board.standing.rstrip(".") + "."
    for column in board.columns:
        if column.unranked:
            yield f"* {column.score}: {column.unranked}."


def as_markdown(boards: Leaderboard) -> str:
    """Every board as a table, after what they say together."""
    parts = [prose(READING)]
    if len(boards.boards) > 1 and boards.tallies:
        parts += ["### All models", prose(TALLY), markdown_table(*tally_cells(boards, markdown))]
    for board in boards.boards:
        parts += [
            f"### {markdown(board.model)}",
            f"{markdown(board.run)}: {prose(board.about)}. {' '.join(map(prose, remarks(board)))}".rstrip(),
        ]
        parts.append(markdown_table(*cells(board, markdown, prose)))
    if boards.notes:
        parts.append("\n".join(f"- {prose(note)}" for note in boards.notes))
    return "\n\n".join(parts) + "\n"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of cells that are escaped."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def as_latex(boards: Leaderboard) -> str:
    """Every board as a `table`, after what they say together."""
    parts = []
    if len(boards.boards) > 1 and boards.tallies:
        parts.append(latex_table(latex(f"All models. {TALLY}"), *tally_cells(boards, latex)))
    for board in boards.boards:
        caption = " ".join([f"{board.model}, {board.run}: {board.about}.", *remarks(board), READING])
        parts.append(latex_table(latex(caption), *cells(board, latex, latex)))
    notes = [f"% {' '.join(note.split())}" for note in boards.notes]
    return "\n".join([*notes, *parts])


def latex_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A LaTeX table of cells that are escaped."""
    lines = [" & ".join(line) + r" \\" for line in rows]
    start = [
        r"\begin{table}",
        r"\centering",
        r"\begin{tabular}{l" + "l" * (len(head) - 1) + "}",
        r"\hline",
        " & ".join(head) + r" \\",
        r"\hline",
    ]
    return "\n".join([*start, *lines, r"\hline", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}", ""])


def cells(board: Board, name: Escape, text: Escape) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows of a board, escaped; a row with a title begins the controls, or another kind."""
    head = ["explainer", *(f"{name(column.score)} {text(heading(column))}" for column in board.columns)]
    rows = []
    for group in board.groups:
        if title := group_title(group, board):
            rows.append([text(title), *[""] * len(board.columns)])
        rows += [[name(one), *(text(shown(column.entries.get(one))) for column in board.columns)] for one in group.names]
    return head, rows


def tally_cells(boards: Leaderboard, name: Escape) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows of the tallies, escaped."""
    head = ["explainer", *map(name, boards.tallied), "all scores"]
    rows = [
        [name(one.explainer), *(share(one.by_score.get(score)) for score in boards.tallied), share(one.total)] for one in boards.tallies
    ]
    return head, rows


def share(found: tuple[int, int] | None) -> str:
    """A count of a total in words; nothing without one.

    >>> share((3, 4)), share(None)
    ('3 of 4', '')
    """
    return f"{found[0]} of {found[1]}" if found else ""
