"""The pytest plugin: `veracity_card` makes a card whose run folder lies in pytest's cache, and assertions fail with the card's sentence.

    @pytest.fixture(scope="session")
    def card(veracity_card):
        return veracity_card(load_model(), inputs, targets, explainers=["integrated_gradients"])

    def test_integrated_gradients_is_faithful(card):
        assert card.holds("faithful", explainer="integrated_gradients")

pytest imports this module at every start, so that everything heavy is imported when a test asks for a card.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from veracity.cards.result import Card

FOLDER = "veracity"
"""The folder in pytest's cache; one folder of cards for each name."""


LONGEST = 60
"""Letters of a name, each of which may take nine in the name of a folder."""


def alike(one: Any, other: Any) -> bool:
    """Whether two settings are the same object, or equal lists, numbers or texts."""
    plain = (str, int, float, list, tuple, dict, type(None))
    return one is other or (isinstance(one, plain) and type(one) is type(other) and repr(one) == repr(other))


class CardMaker:
    """Makes cards, each in a folder of its own that the next session goes on with."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: dict[str, tuple[list[str], tuple[Any, ...]]] = {}

    def __call__(self, model: Any, inputs: Any, targets: Any = None, *, name: str = "model", **settings: Any) -> Card:
        """`veracity.card(model, inputs, targets, name=name, **settings)`, measured at most once as long as nothing of it changes.

        `name` names the model and the folder, so every model of a test session needs its own.
        """
        __tracebackhide__ = True
        from veracity.cards.card import card
        from veracity.core.errors import SpecError, VeracityError

        if not isinstance(name, str) or not 0 < len(name) <= LONGEST:
            raise SpecError(f"The name of a card is a text of at most {LONGEST} letters, not {name!r:.60}.")
        given = (model, inputs, targets, *(settings[key] for key in sorted(settings)))
        before = self.made.setdefault(name, (sorted(settings), given))
        if before[0] != sorted(settings) or not all(map(alike, before[1], given)):
            raise SpecError(
                f"Two cards of this session are called '{name}', and the second would overwrite the first: make it once in a fixture "
                f"of scope='session', or give it another name: veracity_card(..., name='{name}-2')."
            )
        folder = self.root / quote(name, safe=" ").replace(".", "%2E")
        try:
            with taking_turns(folder):
                return card(model, inputs, targets, name=name, **{"folder": folder, "progress": False, **settings})
        except VeracityError as error:
            raise error.with_traceback(None) from None  # the sentence, and the line of the test


@contextmanager
def taking_turns(folder: Path) -> Iterator[None]:
    """Wait for other processes that make the same card, such as workers of pytest-xdist: they find it measured."""
    import fcntl  # not on every system that pytest runs on

    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.turn", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def veracity_card(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> CardMaker:
    """Make a card: veracity_card(model, inputs, targets, ...) takes what `veracity.card` takes. It is kept in pytest's cache."""
    cache = getattr(pytestconfig, "cache", None)
    return CardMaker(tmp_path_factory.mktemp(FOLDER) if cache is None else cache.mkdir(FOLDER))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the whole sentence of a failed claim, of which pytest shows the first and the last letters only."""
    report = yield
    if report.failed and call.excinfo is not None and call.excinfo.errisinstance(AssertionError):
        report.sections += [("veracity card", said) for said in false_claims(call.excinfo) if said not in report.longreprtext]
    return report


def false_claims(failure: pytest.ExceptionInfo[BaseException]) -> list[str]:
    """The false claims in the frame whose assertion failed, in words."""
    known = sys.modules.get("veracity.cards.claim")
    if known is None:
        return []
    *_, last = failure.traceback
    return list(dict.fromkeys(str(one) for one in last.frame.f_locals.values() if isinstance(one, known.Claim) and not one))
