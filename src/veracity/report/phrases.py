"""Sentences with their parts, escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup


def say(template: str, *parts: object) -> Markup:
    """A sentence with its parts, escaped where they are not markup already."""
    return Markup(template).format(*parts)


def name(text: str) -> Markup:
    """A user's word in a sentence, set apart."""
    return say('<span class="id">{}</span>', text)


def listing(parts: Iterable[Markup], link: str = "and") -> Markup:
    """Parts as a sentence has them.

    >>> print(listing([Markup("a"), Markup("b"), Markup("c")], "or"))
    a, b or c
    """
    *first, last = parts
    return say("{} {} {}", Markup(", ").join(first), link, last) if first else last
