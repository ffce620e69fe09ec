from __future__ import annotations

import pickle

from veracity.core.errors import SpecError


def test_an_error_is_one_line_whatever_stands_in_it() -> None:
    error = SpecError("No file 'a\n\tb\x1b[2J\ud800'.")
    assert str(error) == "No file 'a b [2J '."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert len(str(SpecError("x" * 5000))) == 1200
