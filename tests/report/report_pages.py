"""A page taken apart, so that tests can look at what a reader sees."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "wbr", "line", "path", "rect", "circle"}
EVIL = "<script>alert('x')</script>"
EVIL_TOO = '"><img src=x onerror=alert(1)>'


class Page(HTMLParser):
    """A page taken apart: its tags in order, its text, and its tables as lists of cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.unbalanced: list[str] = []
        self.feed(html)
        self.unbalanced += self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in {"td", "th"}:
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.words.append(data)
        if {"td", "th"} & set(self.open) and self.tables:
            self.tables[-1][-1][-1] += data

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    @property
    def attributes(self) -> list[tuple[str, str]]:
        return [pair for _, attributes in self.tags for pair in attributes.items()]


def drawings(html: str) -> list[str]:
    """Every outermost SVG of a page."""
    found, depth, start = [], 0, 0
    for match in re.finditer(r"<svg\b|</svg>", html):
        if match.group() == "</svg>":
            depth -= 1
            if depth == 0:
                found.append(html[start : match.end()])
        else:
            start = match.start() if depth == 0 else start
            depth += 1
    return found
