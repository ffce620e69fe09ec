"""Print the comparisons and the faults; exit with 1 if a metric of Quantus has neither, or if a row does not show what it should."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.peers import faithfulness, localisation, properties, randomisation, robustness  # noqa: F401 - they keep their rows
from benchmarks.peers.replay import quantus
from benchmarks.peers.rows import DEFAULTS, EQUAL, EQUAL_TO, FAULTS, Comparison, Row
from benchmarks.peers.subject import Case, case
from veracity.core.aliases import SAME, squeezed

CONSOLE = Console(width=None if sys.stdout.isatty() else 160)
LISTED = [one.__name__ for group in quantus.AVAILABLE_METRICS.values() for one in group.values()]
"""The metrics of Quantus, by class, from its own list."""


def main() -> int:
    """Three tables, and the count over Quantus's own list."""
    given = case()
    equal, differ = equal_rows(given)
    unexplained = default_rows(given)
    faulty, not_shown = fault_rows()
    wrong = differ + unexplained + not_shown
    missing = [name for name in LISTED if name not in equal | faulty]
    without_score = [name for name in LISTED if squeezed(name) not in SAME]
    unknown = sorted((equal | faulty) - set(LISTED))
    sections = {
        "Equal": [name for name in LISTED if name in equal],
        "With a fault shown": [name for name in LISTED if name in faulty],
        "With a fault only": [name for name in LISTED if name in faulty - equal],
        "Neither equal nor with a fault": missing,
        "Without a score of this name here": without_score,
        "Compared, but not in Quantus's list": unknown,
    }
    for title, names in sections.items():
        if names:
            CONSOLE.print(f"{title} ({len(names)}): {', '.join(names)}.\n")
    CONSOLE.print(f"{wrong} rows are neither equal nor explained." if wrong else "Every row is equal or explained.")
    shown = f"{len(FAULTS) - not_shown} faults shown, in {len(faulty)} metrics"
    CONSOLE.print(f"{len(LISTED) - len(missing)} of {len(LISTED)}: {len(equal)} equal, {shown}.")
    return int(bool(wrong or missing or without_score or unknown))


def equal_rows(given: Case) -> tuple[set[str], int]:
    """Print what should be equal; the metrics of which every row is, and the number of rows that differ."""
    table = empty(f"Quantus {quantus.__version__} on the same inputs, masks, noise and weights", "ours", "theirs", "apart", "verdict")
    rows = [(one, run(one, given)) for one in in_order(EQUAL)]
    for one, row in rows:
        table.add_row(*one.metrics, one.how, *figures(row), f"equal to {EQUAL_TO:.0e}" if row.apart <= EQUAL_TO else "[red]differs")
    CONSOLE.print(table)
    CONSOLE.print("Means over samples, in double precision; apart: the largest difference of two values over the largest value.\n")
    differ = [name for one, row in rows for name in one.metrics if not row.apart <= EQUAL_TO]
    return {name for one, _ in rows for name in one.metrics} - set(differ), len(differ)


def default_rows(given: Case) -> int:
    """Print where our defaults go another way; the number of rows whose reason was not seen."""
    table, wrong = empty("Where our defaults go another way", "ours", "theirs", "apart", "because"), 0
    for one in in_order(DEFAULTS):
        row = run(one, given)
        wrong += not row.holds
        table.add_row(*one.metrics, one.how, *figures(row), row.reason if row.holds else f"[red]not shown: {row.reason}")
    CONSOLE.print(table)
    CONSOLE.print()
    return wrong


def fault_rows() -> tuple[set[str], int]:
    """Print the faults; the metrics of which one was shown, and the number of faults that were not."""
    table = Table(title=f"Faults of Quantus {quantus.__version__}, each on a minimal case with a known answer", title_justify="left")
    for name, width in {"metric": 31, "fault": 40, "the case, and its right answer": 36, "theirs": 14, "ours": 10, "right": 10}.items():
        table.add_column(name, width=width)
    found, wrong = set[str](), 0
    for one in in_order(FAULTS):
        seen = run(one)
        wrong += not seen.shown
        found |= set(one.metrics) if seen.shown else set()
        says = one.how if seen.shown else f"[red]not shown: {one.how}"
        table.add_row("\n".join(one.metrics), says, seen.case, *(text(answer) for answer in (seen.theirs, seen.ours, seen.right)))
        table.add_section()
    CONSOLE.print(table)
    CONSOLE.print()
    return found, wrong


def in_order(comparisons: list[Comparison]) -> list[Comparison]:
    """In the order of Quantus's list; a metric that is not in it comes last."""
    return sorted(comparisons, key=lambda one: LISTED.index(one.metrics[0]) if one.metrics[0] in LISTED else len(LISTED))


def run(comparison: Comparison, *given: Case) -> Any:
    """What a comparison gives; an error says which one it was."""
    try:
        return comparison.run(*given)
    except Exception as error:
        error.add_note(f"In the comparison of {', '.join(comparison.metrics)}: {comparison.how}")
        raise


def empty(title: str, *columns: str) -> Table:
    """A table of comparisons without rows."""
    table = Table(title=title, title_justify="left")
    for name in ("metric", "how", *columns):
        table.add_column(name, justify="right" if name in ("ours", "theirs", "apart") else "left")
    return table


def figures(row: Row) -> list[str]:
    """Both means, and the largest difference."""
    return [f"{np.nanmean(row.ours):.6g}", f"{np.nanmean(row.theirs):.6g}", f"{row.apart:.1e}"]


def text(answer: Any) -> str:
    """Numbers with four digits, and how many there are if more than two are all equal; words as they are."""
    if isinstance(answer, str):
        return escape(answer)
    found = ["undefined" if np.isnan(one) else f"{one:.4g}" for one in np.ravel(answer)]
    return f"{found[0]}, {len(found)} times" if len(found) > 2 and len(set(found)) == 1 else ", ".join(found)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
