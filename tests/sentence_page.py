"""The page docs/report-sentences.md: every sentence that a result can say, with what it needs.

PYTHONPATH=src:tests python -m sentence_page > docs/report-sentences.md
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import veracity
from veracity.core.sentences import SENTENCES

SOURCE = Path(veracity.__file__).parent
SPOKEN = ("report", "results", "orbits", "scores", "studies", "core/wording.py", "engine/store/state.py", "cli/tables.py")
"""Where sentences of results are made."""
PARTS = r"({%.*?%}|{{.*?}}|</?(?:p|li|h[1-6]|summary|td|th|figcaption|small|b|dt|dd)\b[^>]*>)"
"""Where a page's text is cut: tags of the template, and ends of paragraphs."""
WORDS = 3
"""Fewer words are no sentence."""
OPENING = """# What the report may say

A sentence about data is printed only if there are enough of them. The first table holds every such sentence and what it needs; it is
`SENTENCES` in `veracity.core.sentences`, through which all of them are said. Texts that hold whatever the data are, such as how to read
a figure, what a score is and what to change, stand in the second table, and those of the pages in the third, with the conditions
under which they appear.

This page is made by `PYTHONPATH=src:tests python -m sentence_page > docs/report-sentences.md`, and a test compares it with the code.
"""


def page() -> str:
    """The whole page."""
    said = [[f"`{key}`", one.template.strip(), one.words] for key, one in SENTENCES.items()]
    fixed = [[f"`{where}`", text] for where, text in dict.fromkeys(fixed_texts())]
    shown = [[f"`{where}`", text, f"`{condition}`" if condition else "always"] for where, text, condition in template_texts()]
    parts = [
        OPENING,
        f"## Sentences about data ({len(said)})\n",
        table(["key", "sentence", "needs"], said),
        f"## Texts that hold whatever the data are ({len(fixed)})\n",
        table(["where", "text"], fixed),
        f"## Texts of the pages ({len(shown)})\n",
        table(["page", "text", "where"], shown),
    ]
    return "\n".join(parts)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def sources() -> Iterator[Path]:
    """Every file that makes sentences."""
    for place in SPOKEN:
        found = SOURCE / place
        yield from sorted(found.rglob("*.py")) if found.is_dir() else [found]


def fixed_texts() -> Iterator[tuple[str, str]]:
    """Every literal of the sources that reads as a sentence, with its file: docstrings and what is raised left out."""
    for path in sources():
        for text in literals(path.read_text(encoding="utf-8")):
            yield path.relative_to(SOURCE).as_posix(), text


def literals(code: str) -> Iterator[str]:
    """Every literal that ends like a sentence, in the order of the code.

    >>> list(literals('x = f"It is {y} too much."\\nz = "no sentence"'))
    ['It is {} too much.']
    """
    tree = ast.parse(code)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            skipped |= {id(part.value) for part in node.body if isinstance(part, ast.Expr)}
        if isinstance(node, ast.Raise):
            skipped |= {id(part) for part in ast.walk(node)}
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
    kept = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and id(node) not in skipped]
    for _, _, text in sorted((node.lineno, node.col_offset, written(node)) for node in kept):
        if text.rstrip().endswith((".", "!", "?")) and len(text.split()) >= WORDS:
            yield " ".join(text.split())


def written(node: ast.expr) -> str:
    """A literal with {} for its parts; "" of anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if not isinstance(node, ast.JoinedStr):
        return ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def template_texts() -> Iterator[tuple[str, str, str]]:
    """Every text of the pages that reads as a sentence, with its page and the conditions around it."""
    for path in sorted((SOURCE / "report").glob("*.j2")):
        yield from ((path.name, text, condition) for text, condition in conditions(path.read_text(encoding="utf-8")))


def conditions(code: str) -> Iterator[tuple[str, str]]:
    """The sentences of a page, each with the conditions that hold where it ends.

    >>> list(conditions("<p>{% if a %}This is {{ b }} now.{% else %}It is not so.{% endif %}</p>"))
    [('This is {} now.', 'a'), ('It is not so.', 'not (a)')]
    """
    stack: list[str] = []
    text = ""
    for part in re.split(PARTS, code):
        if not part.startswith("{%"):
            closing = part.startswith("<")
            text += "" if closing else "{}" if part.startswith("{{") else re.sub(r"<[^>]*>", "", part)
            *whole, rest = re.split(r"(?<=[.!?])\s+(?=[A-Z{])", text) if not closing else [text, ""]
            yield from ((" ".join(one.split()), " and ".join(stack)) for one in whole if sentence(one))
            text = rest
            continue
        word, _, rule = part[2:-2].strip(" -").partition(" ")
        if word in ("if", "else", "elif", "endif") and sentence(text):
            yield " ".join(text.split()), " and ".join(stack)
            text = ""
        if word in ("for", "endfor") or (word == "else" and stack and stack[-1].startswith("for ")):
            text = ""
        if word == "if":
            stack.append(rule)
        elif word in ("else", "elif") and stack:
            stack[-1] = f"not ({stack[-1]})" + (f" and {rule}" if rule else "")
        elif word == "endif":
            stack.pop()
        elif word == "for":
            stack.append(f"for {rule}")
        elif word == "endfor":
            stack.pop()


def sentence(text: str) -> bool:
    """Whether a text ends like a sentence and has enough words."""
    return text.rstrip().endswith((".", "!", "?")) and len(text.split()) >= WORDS


if __name__ == "__main__":
    sys.stdout.write(page())
