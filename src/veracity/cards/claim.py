"""What a test asserts: true or false, with the card's own sentence."""

from __future__ import annotations

from dataclasses import dataclass

from veracity.cards.decide import Word


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
