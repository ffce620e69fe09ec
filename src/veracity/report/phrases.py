"""Sentences with their parts, escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from veracity.core.sentences import template_for


def say(key: str, *parts: object, **found: int) -> Markup:
    """A sentence of the table with its parts, escaped where they are not markup already; empty if less was found than it needs."""
    return piece(template_for(key, **found), *parts)


def piece(template: str, *parts: object) -> Markup:
    """A part of a sentence with parts of its own, escaped where they are not markup already."""
    return Markup(template).format(*parts)


def sentences(*said: Markup) -> list[Markup]:
    """Those that are said."""
    return [one for one in said if one]


def name(text: str) -> Markup:
    """A user's word in a sentence, set apart."""
    return piece('<span class="id">{}</span>', text)


def listing(parts: Iterable[Markup], link: str = "and") -> Markup:
    """Parts as a sentence has them; nothing of no parts.

    >>> print(listing([Markup("a"), Markup("b"), Markup("c")], "or"))
    a, b or c
    """
    found = list(parts)
    return piece("{} {} {}", Markup(", ").join(found[:-1]), link, found[-1]) if len(found) > 1 else Markup("").join(found)
