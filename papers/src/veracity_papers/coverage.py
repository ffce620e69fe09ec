"""Which tables and figures of the papers are made here: `python -m veracity_papers.coverage > papers/COVERAGE.md`."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

HEAD = """# Coverage

Every table and figure of the five papers: the recipe that makes it, our value (with its 95 % interval in brackets where there is one), the
published value, and the stand-in or the reason where something is missing. `python -m veracity_papers.coverage > papers/COVERAGE.md` writes
this page from `papers/src/veracity_papers/coverage.toml`; edit that file.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One table or figure; `published` is "-" for a diagram or a list, which has nothing to reproduce."""

    item: str
    title: str
    published: str
    recipes: tuple[str, ...] = ()
    ours: str = ""
    note: str = ""

    def gaps(self) -> Iterator[str]:
        """What is missing in this row, in sentences."""
        for field in ("item", "title", "published"):
            if not getattr(self, field).strip():
                yield f"{self.item or 'A row'} has no {field}."
        if not self.recipes and not self.note:
            yield f"{self.item} has neither a recipe nor a reason for having none."
        if not self.ours and not self.note:
            yield f"{self.item} has neither a value of ours nor a reason for having none."

    def cells(self) -> tuple[str, ...]:
        """The row's six columns on the page."""
        recipes = ", ".join(f"`{name}`" for name in self.recipes)
        return (self.item, self.title, recipes or "none", self.ours or "none", self.published, self.note or "none needed")


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper's rows, and the page of docs/ that explains what is measured."""

    title: str
    reference: str
    guide: str
    rows: tuple[Row, ...]


def stored() -> dict[str, Any]:
    """The content of coverage.toml."""
    return tomllib.loads(files("veracity_papers").joinpath("coverage.toml").read_text(encoding="utf-8"))


def papers() -> tuple[Paper, ...]:
    """All papers, as coverage.toml lists them."""
    return tuple(
        Paper(**{**paper, "rows": tuple(Row(**{**row, "recipes": tuple(row.get("recipes", ()))}) for row in paper["rows"])})
        for paper in stored()["paper"]
    )


def page() -> str:
    """The Markdown page, with one table per paper and a count of what is covered.

    >>> page().splitlines()[0]
    '# Coverage'
    """
    found = papers()
    counts = ["| paper | tables and figures | with a result | made by a recipe | with a stored value |", "|---|---|---|---|---|"]
    for paper in found:
        results = [row for row in paper.rows if row.published != "-"]
        made = [row for row in results if row.recipes]
        counts.append(f"| {paper.title} | {len(paper.rows)} | {len(results)} | {len(made)} | {sum(bool(row.ours) for row in results)} |")
    parts = [HEAD, "\n".join(counts), ""]
    for paper in found:
        parts += [f"## {paper.title}\n", f"{paper.reference}. See [docs/{paper.guide}](../docs/{paper.guide}).\n"]
        parts += ["| | shows | recipe | ours | published | stand-in, or reason |", "|---|---|---|---|---|---|"]
        parts += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row.cells()) + " |" for row in paper.rows]
        parts.append("")
    parts += ["## Recipes beyond the papers\n", "| recipe | shows |", "|---|---|"]
    parts += [f"| `{name}` | {text} |" for name, text in stored()["further"].items()]
    return "\n".join([*parts, ""])


if __name__ == "__main__":
    sys.stdout.write(page())
