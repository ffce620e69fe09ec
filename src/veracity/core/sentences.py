"""Every sentence that a result can say about its data, with the counts that it needs: with less data, it is not said.

The sentences are in sentences.toml. Add a new sentence about data there; `tell` says it as plain text and `veracity.report.wording.say`
on a page.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CATALOGUE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
COUNT_WORDS: Mapping[str, list[str]] = CATALOGUE["counts"]
"""The name of each count in singular and plural."""


@dataclass(frozen=True)
class Sentence:
    """A template with places for its parts, and the smallest counts that it needs."""

    template: str
    needs: Mapping[str, int]

    @property
    def words(self) -> str:
        """The counts that it needs, in words.

        >>> Sentence("{} is ahead of {}.", {"explainers": 2, "apart": 1}).words
        'at least 2 explainers with a value, at least 1 paired difference that excludes zero'
        """
        return ", ".join(f"at least {least} {COUNT_WORDS[what][least > 1]}" for what, least in self.needs.items())


SENTENCES = {key: Sentence(**entry) for key, entry in CATALOGUE["sentences"].items()}
"""Every sentence by its key."""


def template_for(key: str, **found: int) -> str:
    """The template of a sentence, or "" if a count in `found` is too small; `found` must hold exactly the counts of the table."""
    sentence = SENTENCES[key]
    if set(found) != set(sentence.needs):
        raise TypeError(f"The sentence '{key}' needs the counts {', '.join(sentence.needs)}, not {', '.join(found) or 'none'}.")
    return sentence.template if all(found[what] >= least for what, least in sentence.needs.items()) else ""


def tell(key: str, *parts: object, **found: int) -> str:
    """A sentence as plain text, or "" if a count in `found` is too small.

    >>> tell("order.single", "equivariance", "", "saliency", "0.5", explainers=1)
    'By equivariance, saliency scores 0.5.'
    >>> tell("order.single", "equivariance", "", "saliency", "0.5", explainers=0)
    ''
    """
    return template_for(key, **found).format(*parts)
