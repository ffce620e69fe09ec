"""The card of a model: which of its explanations can be trusted, in words that stand on numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from veracity.core.lazy import lazy

if TYPE_CHECKING:
    from veracity.cards.card import CardStudy, card
    from veracity.cards.changes import Change, Changes, changes
    from veracity.cards.checks import Check
    from veracity.cards.claim import Claim
    from veracity.cards.decide import Standing, Terms, Word
    from veracity.cards.dominate import Dominance, Use
    from veracity.cards.questions import QUESTIONS, Question
    from veracity.cards.record import CardRecord
    from veracity.cards.result import Card

__getattr__, __dir__ = lazy(__name__)
