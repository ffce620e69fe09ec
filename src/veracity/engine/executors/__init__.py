"""Where jobs run: in this process, in worker processes of this machine, or wherever a plugin's executor sends them."""

from __future__ import annotations

from veracity.core.errors import SpecError
from veracity.core.registry import EXECUTORS
from veracity.core.settings import short_repr
from veracity.engine.executors.base import Executor
from veracity.engine.executors.inline import Inline
from veracity.engine.executors.local import Local, check_main


def as_executor(given: Executor | str | None, workers: int) -> Executor:
    """The executor of a run: the given one, the one of a name, or by the number of workers, in this process for one.

    >>> as_executor(None, 1).name, as_executor(None, 2).name, as_executor("local", 3).workers
    ('inline', 'local', 3)
    """
    if given is None:
        return Inline() if workers <= 1 else Local(workers=workers)
    if isinstance(given, str):
        made: Executor = EXECUTORS.build({"name": given, "workers": workers})
        return made
    if not isinstance(given, Executor):
        raise SpecError(f"An executor is a name or an Executor, not {short_repr(given)}. See: veracity ls executors")
    return given
