"""What became of a case."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from veracity.core.errors import VeracityError


@dataclass
class Outcome:
    """A case of a kind: whether it measured something, the sentence that refused it, and what was found wrong."""

    kind: str
    measured: bool = False
    refused: str = ""
    findings: list[str] = field(default_factory=list)
    hostile: bool = False
    seconds: float = 0.0


def judged(kind: str, case: Callable[[Outcome], None]) -> Outcome:
    """Run a case: a VeracityError of one sentence refuses it, any other exception is a finding."""
    seen = Outcome(kind)
    try:
        case(seen)
    except VeracityError as error:
        seen.refused = str(error)
        if "\n" in seen.refused or len(seen.refused) > 1200 or not seen.refused:
            seen.findings.append(f"a refusal that is not one sentence: {seen.refused[:200]!r}")
    except (Exception, RecursionError) as error:
        seen.findings.append(told(error))
    return seen


def told(error: BaseException) -> str:
    """An exception with the innermost line of the package that it passed through."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "/veracity/" in one.filename]
    where = f"{frames[-1].filename.split('/veracity/')[-1]}:{frames[-1].lineno} {frames[-1].name}" if frames else "outside"
    return f"{type(error).__name__} at {where}: {' '.join(str(error).split())[:200]}"
