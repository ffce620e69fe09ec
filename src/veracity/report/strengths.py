"""Where the calibrated paths of a run end, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def between(record: Mapping[str, Any]) -> str:
    """The 95 % range of a calibrated strength in words; "" where none was kept.

    >>> between({"low": 5.412, "high": 11.75}), between({})
    ('95 % range 5.41 to 11.8', '')
    """
    return f"95 % range {record['low']:.3g} to {record['high']:.3g}" if "low" in record else ""


def chance_in_words(record: Mapping[str, Any]) -> str:
    """What stands for chance where it is not 1/C; "" where it is.

    >>> chance_in_words({"levels_off": True, "chance": 0.12, "classes": 10, "independent": 0.104})
    'agreement levels off at 0.12, which is used as the chance level instead of 1/10; unrelated predictions would agree on 0.104'
    """
    if not record.get("levels_off"):
        return ""
    return (
        f"agreement levels off at {record['chance']:.3g}, which is used as the chance level instead of 1/{record['classes']}; "
        f"unrelated predictions would agree on {record['independent']:.3g}"
    )


def strength_lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line per calibrated path: its strength, the range of that strength, and what stands for chance if it is not 1/C."""
    lines = []
    for record in records:
        inside = f" ({between(record)})" if between(record) else ""
        beside = f"; {chance_in_words(record)}" if chance_in_words(record) else ""
        space = str(record["space"]).replace("_", " ")
        lines.append(f"{record['model']}: paths of {space} end at strength {record['sigma']:.3g}{inside}{beside}")
    return lines
