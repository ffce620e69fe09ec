from __future__ import annotations

from pathlib import Path

import pytest
import torch

from small import series_inputs, small_net
from veracity import Audit
from veracity.core.inputs import Signals
from veracity.engine import memory
from veracity.engine.memory import Budget, measured_rows
from veracity.engine.store import RunFolder
from veracity.engine.stored_rows import ROWS, known_rows, remember_rows
from veracity.orbits import Classification, GroupOrbit, OrbitEvaluation
from veracity.perturb import CyclicShift
from veracity.perturb.weights.copies import LATEST, ScratchModel, forget_copies

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
ROW = Signals(torch.zeros(1, 1, 12))
MEGA = 1 << 20


def measured(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], share: int, most: int = 16384, fits: int = 10**9
) -> tuple[int, list[int]]:
    """The rows for a network whose passes of so many rows take so many seconds, and 1 MiB per row beside 10 MiB; and what was tried."""
    tried: list[int] = []

    def cost(_model: object, _row: object, rows: int) -> tuple[int, float] | None:
        tried.append(rows)
        return None if rows > fits else ((10 + rows) * MEGA, seconds.get(rows, rows * seconds[0]))

    monkeypatch.setattr(memory, "cost_of_pass", cost)
    return measured_rows(small_net(), ROW, share, most), tried


def test_rows_of_a_large_network_take_about_a_sixth_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, {0: 0.0007}, 1000 * MEGA) == (256, [16, 32, 16, 32])


def test_memory_limits_rows_to_a_power_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, {0: 0.0007}, 200 * MEGA)[0] == 128
    assert measured(monkeypatch, {0: 0.0007}, 137 * MEGA)[0] == 64
    assert measured(monkeypatch, {0: 0.0007}, 5 * MEGA)[0] == 1


def test_a_network_bound_by_launches_is_tried_with_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, tried = measured(monkeypatch, {0: 1e-6, 16: 0.001, 32: 0.001}, 10**6 * MEGA)
    assert tried == [16, 32, 16, 32, 8192]
    assert rows == 16384


def test_rows_that_do_not_fit_are_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, {0: 0.001}, 1000 * MEGA, fits=16)[0] == 1


def test_a_resumed_run_takes_the_rows_that_were_measured_before(tmp_path: Path) -> None:
    audit = Audit(models={"net": small_net()}, inputs=series_inputs(4), explainers=["gradient"], scores=["max_sensitivity"])
    store = RunFolder(str(tmp_path / "run"))
    assert known_rows(store) == {}
    audit.run(tmp_path / "run", progress=False)
    assert known_rows(store) == {"net": 512}
    with store.writing():
        remember_rows(store, {"net": Budget(7)})
    assert audit.prepare(rows=known_rows(store)).budgets["net"].rows == 7
    assert audit.prepare(rows=known_rows(store), batch=3).budgets["net"].rows == 3


def test_a_damaged_record_of_rows_is_measured_anew(tmp_path: Path) -> None:
    audit = Audit(models={"net": small_net()}, inputs=series_inputs(4), explainers=["gradient"], scores=["max_sensitivity"])
    audit.run(tmp_path / "run", progress=False)
    (record,) = (tmp_path / "run" / ROWS).glob("*.json")
    record.write_bytes(b"")
    audit.run(tmp_path / "run", progress=False)
    assert known_rows(RunFolder(str(tmp_path / "run"))) == {"net": 512}


def test_jobs_share_a_scratch_copy_until_the_run_ends(tmp_path: Path) -> None:
    model, other = small_net(), small_net(seed=1)
    first = ScratchModel.of(model, 0)
    assert ScratchModel.of(model, 0) is first
    assert ScratchModel.of(model, 1) is not first
    assert ScratchModel.of(other, 1).model is other
    forget_copies()
    assert LATEST == []
    Audit(models=model, inputs=series_inputs(4), explainers=["gradient"], scores=["mprt"]).run(tmp_path / "run", progress=False)
    assert LATEST == []


def test_orbits_keep_their_rows_too(tmp_path: Path) -> None:
    evaluation = OrbitEvaluation(
        models={"net": small_net()}, inputs=series_inputs(4), orbit=GroupOrbit(space=CyclicShift(axes=(-1,))), task=Classification()
    )
    evaluation.run(tmp_path / "run", progress=False)
    store = RunFolder(str(tmp_path / "run"))
    assert known_rows(store) == {"net": 512}
    assert evaluation.prepare(rows={"net": 5}).budgets["net"].rows == 5
