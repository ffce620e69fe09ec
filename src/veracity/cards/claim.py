"""What a test asserts: true or false, with the card's own sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from veracity.cards.decide import Word
from veracity.cards.record import CardRecord
from veracity.core.errors import SpecError
from veracity.core.settings import short_repr


@dataclass(frozen=True, repr=False, eq=False)
class Claim:
    """Whether an explainer holds on a question. It is true or false, and says why.

    >>> claim = Claim("lime", "Is it calm?", "falls short", "Made again, it covers 0.71 of the way.")
    >>> bool(claim), claim
    (False, Is it calm? lime: falls short. Made again, it covers 0.71 of the way.)
    """

    explainer: str
    title: str
    word: str
    sentence: str

    def __bool__(self) -> bool:
        return self.word == Word.HOLDS

    def __eq__(self, other: object) -> bool:
        """Equal to another claim with the same words, and to its own truth."""
        if isinstance(other, Claim):
            return repr(self) == repr(other)
        return bool(self) is other if isinstance(other, bool) else NotImplemented

    def __hash__(self) -> int:
        return hash(bool(self))

    def __repr__(self) -> str:
        return f"{self.title} {self.explainer}: {self.word}. {self.sentence}"


def check_asked(record: CardRecord, question: Any, explainer: Any) -> None:
    """Raise if a question is no name, or if nobody says which explainer is meant."""
    keys = [one.key for one in record.questions]
    own = [one.name for one in record.explainers if not one.control]
    if not isinstance(question, str):
        number = question if isinstance(question, int) and not isinstance(question, bool) and 0 <= question < len(keys) else None
        known = f"question {number} is called '{keys[number]}'" if number is not None else f"the questions are {', '.join(keys)}"
        raise SpecError(f"A question is asked by its name, not as {short_repr(question)}: {known}.")
    if not explainer or not isinstance(explainer, str):
        first = own[0] if own else "saliency"
        raise SpecError(f"An answer is about one explainer: name it, as in card.holds('{question}', explainer='{first}').")
