"""Running the command line inside a test."""

from __future__ import annotations

import pytest

from veracity.cli import main


def code(*arguments: object) -> int:
    """What the command line ends with."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return int(caught.value.code or 0)
