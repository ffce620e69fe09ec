"""How far a run has come: which cells are measured, which failed, which are pending, and whether somebody is measuring."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from veracity.core.sentences import tell

NAMED = 3
"""How many different errors one sentence quotes."""
STATE = ["state", "cells", "cells_measured", "cells_failed"]
"""Columns of a table: the state of a row, and how many of its cells are measured and failed."""
COMMAND: ContextVar[str] = ContextVar("command", default="")
"""The command that is running, as a user would type it again."""


class State(StrEnum):
    """Where one row of a table stands."""

    PENDING = "pending"
    FAILED = "failed"
    UNDEFINED = "undefined"
    DONE = "done"


class Stage(StrEnum):
    """Where a whole run stands."""

    RUNNING = "running"
    UNFINISHED = "unfinished"
    FAILURES = "failures"
    DONE = "done"


@contextmanager
def commanded(command: str) -> Iterator[None]:
    """Within this block, runs remember the command that started them."""
    before = COMMAND.set(command)
    try:
        yield
    finally:
        COMMAND.reset(before)


def row_state(*, cells: int, measured: int, failed: int, value: float) -> State:
    """The state of a row by its cells and its value.

    Pending while a cell is neither measured nor failed; failed if no cell is measured; undefined if no sample has a value.

    >>> [str(row_state(cells=8, measured=n, failed=m, value=v)) for n, m, v in ((3, 5, 0.5), (3, 1, 0.5), (0, 8, math.nan))]
    ['done', 'pending', 'failed']
    >>> str(row_state(cells=8, measured=8, failed=0, value=math.nan))
    'undefined'
    """
    if measured + failed < cells:
        return State.PENDING
    if not measured:
        return State.FAILED
    return State.UNDEFINED if math.isnan(value) else State.DONE


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The cells of a run at one moment: how many there are, which are measured, and why others failed, by their keys.

    `writer` is the process that is measuring, "" if there is none; `command` goes on with the run, where it is known. A study
    counts its runs instead of cells: then `unit` is "run". With `shards`, it is filled by shards, each
    of which does its share alone.
    """

    cells: int
    done: frozenset[str] = frozenset()
    failures: Mapping[str, str] = field(default_factory=dict)
    writer: str = ""
    command: str = ""
    unit: str = "cell"
    shards: bool = False

    @property
    def measured(self) -> int:
        """How many cells are measured."""
        return len(self.done)

    @property
    def failed(self) -> int:
        """How many cells failed."""
        return len(self.failures)

    @property
    def pending(self) -> int:
        """How many cells are neither measured nor failed."""
        return self.cells - self.measured - self.failed

    @property
    def stage(self) -> Stage:
        """Where the run stands."""
        if self.writer:
            return Stage.RUNNING
        if self.pending:
            return Stage.UNFINISHED
        return Stage.FAILURES if self.failed else Stage.DONE

    @property
    def settled(self) -> bool:
        """Whether all that can be measured is, and nobody is measuring."""
        return self.stage in (Stage.FAILURES, Stage.DONE)

    def sentence(self, *, errors: bool = True) -> str:
        """The state in words; `errors=False` leaves out the errors.

        >>> Progress(cells=3, done=frozenset("a"), command="veracity demo").sentence()
        'Unfinished: 1 of 3 cells is measured, and nothing is running. Run the same command to continue: veracity demo'
        >>> Progress(cells=3, done=frozenset("ab"), failures={"c": "ValueError: no"}).sentence()
        'Finished; 1 of 3 cells failed: ValueError: no. Run the same command to try again.'
        >>> print(Progress(cells=3, done=frozenset("a"), shards=True).sentence().partition("running. ")[2])
        Run the shards that are left, or one that does whatever is free: audit.run(folder, shard='auto').
        >>> Progress(cells=2, done=frozenset("ab")).sentence()
        'Finished: all 2 cells are measured.'
        """
        again = f": {self.command}" if self.command else "."
        whole = self._count(self.cells)
        share = f"{self.measured} of {whole} {'is' if 1 in (self.measured, self.cells) else 'are'} measured"
        share += f", {self.failed} failed" if self.failed else ""
        if self.stage is Stage.RUNNING:
            return tell("run.running", share, writers=1)
        if self.stage is Stage.UNFINISHED and self.shards:
            return tell("run.shards", share, self.command or "audit.run(folder, shard='auto').", left=self.pending)
        if self.stage is Stage.UNFINISHED:
            return tell("run.unfinished", share, again, left=self.pending)
        if self.stage is Stage.FAILURES:
            return tell("run.failures", f"{self.failed} of {whole}", self._why() if errors else "see below", again, failures=self.failed)
        return tell("run.done", f"{whole} is" if self.cells == 1 else f"all {whole} are", cells=self.cells)

    def plain(self) -> dict[str, Any]:
        """The state as JSON can write it."""
        counts = {"cells": self.cells, "measured": self.measured, "failed": self.failed, "pending": self.pending, "unit": self.unit}
        return {"stage": self.stage.value, **counts, "command": self.command, "sentence": self.sentence()}

    def _count(self, number: int) -> str:
        return f"{number:,} {self.unit}{'' if number == 1 else 's'}"

    def _why(self) -> str:
        """The most frequent errors, each with its number where there are several."""
        first = Counter(self.failures.values()).most_common()
        if len(first) == 1:
            return first[0][0].rstrip(".")
        said = [f"{error.rstrip('.')} ({number})" for error, number in first[:NAMED]]
        return "; ".join([*said, *([f"{len(first) - NAMED} other errors"] if len(first) > NAMED else [])])
