from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from orbit_small import detection, digits_like, flow
from veracity import OrbitEvaluation
from veracity.engine.store import RunFolder
from veracity.orbits import loop, metrics


@pytest.mark.parametrize("made", [digits_like, detection, flow], ids=["classification", "detection", "flow"])
def test_numbers_and_details_do_not_depend_on_the_memory(tmp_path: Path, made: Callable[[], OrbitEvaluation]) -> None:
    much, little = (made().run(tmp_path / str(memory), batch=16, memory=memory, progress=False) for memory in (1 << 30, 700))
    for model in much.models:
        assert np.array_equal(much.distances(model), little.distances(model), equal_nan=True)
        for metric in (one["name"] for one in much.metrics):
            for reference in much.references:
                assert np.array_equal(much.values(model, metric, reference), little.values(model, metric, reference), equal_nan=True)
        for sample in range(much.samples):
            first, second = much.outputs(model, sample), little.outputs(model, sample)
            assert list(first) == list(second)
            assert all(np.array_equal(value, second[name], equal_nan=True) for name, value in first.items())


@pytest.mark.parametrize(("memory", "shown"), [(1 << 30, [2]), (6 * 8 * 3 * 4 * 2, [1, 1])])
def test_models_share_moved_inputs_only_while_there_is_room_for_their_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, shown: list[int]
) -> None:
    along, seen = loop.outputs_along, []

    def watched(models: Any, *given: Any) -> Any:
        seen.append(len(models))
        return along(models, *given)

    monkeypatch.setattr(loop, "outputs_along", watched)
    digits_like().run(tmp_path, memory=memory, progress=False)
    assert seen == shown


def test_a_long_orbit_is_judged_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared, seen = metrics.columns_of, []

    def watched(task: Any, space: Any, elements: Any, outputs: Any, held: Any) -> Any:
        seen.append(tuple(outputs.shape[:2]))
        return compared(task, space, elements, outputs, held)

    monkeypatch.setattr(metrics, "columns_of", watched)
    pieces = 3
    flow().run(tmp_path, memory=pieces * metrics.COPIES * 4 * 2 * 8 * 8, progress=False)
    measured = [shape for shape in seen if shape != (2, 1)]  # the metrics are tried on two unmoved samples first
    assert set(measured) == {(1, 3), (1, 1)}
    assert sum(length for _, length in measured) == 2 * 3 * 16


def test_tensors_that_share_memory_are_stored_each_by_itself(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    store = RunFolder(str(tmp_path))
    store.write_tensors("outputs", "a", {"whole": whole, "same": whole, "part": whole[:, 1:3], "row": whole[1]})
    found = store.read_tensors("outputs", "a")
    assert found is not None
    assert torch.equal(found["same"], whole)
    assert torch.equal(found["part"], whole[:, 1:3])
    assert torch.equal(found["row"], whole[1])
