"""Other samples: each of them, never the sample itself."""

import json

import pytest
import torch

from veracity.core.errors import InputError, SpecError
from veracity.core.spaces import SampleSpace
from veracity.perturb import OtherSample
from veracity.walk import Exhaustive, MonteCarlo


def visited(walk, size):
    space = OtherSample().among(size, "")
    walker = walk.start(space, torch.arange(size), 0, (0.0, 1.0))
    seen = [[] for _ in range(size)]
    while (ask := walker.ask()) is not None:
        for row, other in zip(ask.row.tolist(), space.instead_of(ask.row, ask.element).tolist(), strict=True):
            seen[row].append(other)
    return seen


@pytest.mark.parametrize("size", [2, 3, 11])
def test_all_others_once(size):
    for walk in (Exhaustive(), MonteCarlo(draws=50)):
        for sample, others in enumerate(visited(walk, size)):
            assert sorted(others) == [other for other in range(size) if other != sample]


def test_some_others_are_distinct():
    for sample, others in enumerate(visited(MonteCarlo(draws=4), 20)):
        assert len(set(others)) == 4
        assert sample not in others


def test_what_the_loop_reads():
    space = OtherSample()
    assert isinstance(space, SampleSpace)
    assert json.loads(json.dumps(space.among(5, "").spec()))["size"] == 5
    assert space.among(5, "").order == 4


def test_misuse_is_refused():
    with pytest.raises(SpecError, match=r"^The space 'others' does not know how many samples there are yet: call among"):
        _ = OtherSample().order
    for size in (0, 1):
        with pytest.raises(InputError, match=f"needs at least 2 samples, not {size}: pass more inputs"):
            OtherSample().among(size, "")
