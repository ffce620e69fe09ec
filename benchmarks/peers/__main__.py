"""Print the comparisons and the faults; exit with 1 if anything is neither equal nor explained."""

from __future__ import annotations

import sys
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.peers.compare import EQUAL, EQUAL_TO, EXPLAINED, Row
from benchmarks.peers.faults import FAULTS
from benchmarks.peers.replay import quantus
from benchmarks.peers.subject import case


def main() -> int:
    """Three tables."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    given, wrong = case(), 0
    same = Table(title=f"Quantus {quantus.__version__} on the same inputs, masks, noise and weights", title_justify="left")
    for name in ("metric", "ours", "theirs", "apart", "verdict"):
        same.add_column(name, justify="left" if name in ("metric", "verdict") else "right")
    for compare in EQUAL:
        row = compare(given)
        wrong += row.apart > EQUAL_TO
        same.add_row(*figures(row), f"equal to {EQUAL_TO:.0e}" if row.apart <= EQUAL_TO else "[red]differs")
    console.print(same)
    console.print("Means over samples; apart: the largest difference of a sample's two values over the largest value.\n")
    other = Table(title="Where our defaults go another way", title_justify="left")
    for name in ("metric", "ours", "theirs", "apart", "because"):
        other.add_column(name, justify="left" if name in ("metric", "because") else "right")
    for compare in EXPLAINED:
        row = compare(given)
        wrong += not row.holds
        other.add_row(*figures(row), row.reason if row.holds else f"[red]not shown: {row.reason}")
    console.print(other)
    console.print()
    faults = Table(
        title=f"Faults of Quantus {quantus.__version__}, each shown by a few lines of benchmarks/peers/faults.py", title_justify="left"
    )
    faults.add_column("fault")
    faults.add_column("seen")
    for sentence, show in FAULTS.items():
        shown, seen = show()
        wrong += not shown
        faults.add_row(sentence, seen if shown else f"[red]not shown: {seen}")
    console.print(faults)
    console.print(f"{wrong} rows are neither equal nor explained." if wrong else "Every row is equal or explained.")
    return int(wrong > 0)


def figures(row: Row) -> list[str]:
    """The metric, both means, and the largest difference."""
    return [row.metric, f"{np.nanmean(row.ours):.6g}", f"{np.nanmean(row.theirs):.6g}", f"{row.apart:.1e}"]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
