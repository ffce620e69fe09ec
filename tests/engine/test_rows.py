from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from small import series_inputs, small_net
from veracity import Audit
from veracity.core.inputs import Signals, TensorInputs
from veracity.engine import memory, stored_rows
from veracity.engine.memory import measured_rows, row_bytes
from veracity.engine.plan import block_size
from veracity.engine.store import RunFolder
from veracity.engine.stored_rows import ROWS, known_rows, remember_rows
from veracity.orbits import Classification, GroupOrbit, OrbitEvaluation
from veracity.perturb import CyclicShift

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


def test_rows_of_a_large_network_take_about_two_fifths_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, {0: 0.0008}, 1000 * MEGA) == (512, [32, 16, 16, 32])


def test_a_trial_stays_within_its_share_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    each = row_bytes(small_net(), ROW)
    assert measured(monkeypatch, {0: 0.0008}, 8 * each)[1] == [8, 4, 4, 8]
    assert max(measured(monkeypatch, {0: 0.0008}, each)[1]) == 2


def test_memory_limits_rows_to_a_power_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, {0: 0.0007}, 200 * MEGA)[0] == 128
    assert measured(monkeypatch, {0: 0.0007}, 137 * MEGA)[0] == 64
    assert measured(monkeypatch, {0: 0.0007}, 5 * MEGA)[0] == 1


def test_a_network_bound_by_launches_is_tried_with_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, tried = measured(monkeypatch, {0: 1e-6, 16: 0.001, 32: 0.001}, 10**6 * MEGA)
    assert tried == [32, 16, 16, 32, 16384]
    assert rows == 16384


def test_fewer_rows_are_tried_if_these_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, tried = measured(monkeypatch, {0: 0.0007}, 1000 * MEGA, fits=20)
    assert tried[:2] == [32, 16]
    assert rows > 1
    assert measured(monkeypatch, {0: 0.0007}, 1000 * MEGA, fits=1)[0] == 1
    assert measured(monkeypatch, {0: 0.0007}, 1000 * MEGA, fits=0)[0] == 1


class ForwardOnly(nn.Module):
    """A model that breaks a gradient."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x -= 0.5
        return x.flatten(1)[:, :3]


def test_a_model_without_gradients_has_a_cost_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, found in {"synchronize": None, "reset_peak_memory_stats": None, "memory_allocated": 5, "max_memory_allocated": 9}.items():
        monkeypatch.setattr(torch.cuda, name, lambda _device, found=found: found)
    cost = memory.cost_of_pass(ForwardOnly(), ROW, 4)
    assert cost is not None
    assert cost[0] == 4
    assert ROW.values.abs().max() == 0.0


def pretend_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs take the rows of the CPU for measured ones."""
    monkeypatch.setattr(stored_rows, "device_of", lambda _model: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "a GPU")


def audit() -> Audit:
    return Audit(models={"net": small_net()}, inputs=series_inputs(4), explainers=["gradient"], scores=["max_sensitivity"])


def test_a_resumed_run_takes_the_rows_that_were_measured_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_measured(monkeypatch)
    store = RunFolder(str(tmp_path / "run"))
    assert known_rows(store) == {}
    audit().run(tmp_path / "run", progress=False)
    (key,) = known_rows(store)
    assert known_rows(store) == {key: 512}
    with store.writing():
        remember_rows(store, {key: 7})
    assert audit().prepare(rows=known_rows(store)).budgets["net"].rows == 7
    assert audit().prepare(rows=known_rows(store), batch=3).budgets["net"].rows == 3
    assert audit().prepare(rows=known_rows(store), memory=2**20).budgets["net"].rows > 7


def test_given_batches_and_cpus_leave_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit().run(tmp_path / "cpu", progress=False)
    pretend_measured(monkeypatch)
    audit().run(tmp_path / "given", progress=False, batch=3)
    assert [known_rows(RunFolder(str(tmp_path / name))) for name in ("cpu", "given")] == [{}, {}]


def test_another_model_of_the_same_name_is_measured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_measured(monkeypatch)
    inputs = TensorInputs(series_inputs(4))
    keys = {
        stored_rows.rows_key("net", small_net(), inputs, None),
        stored_rows.rows_key("net", nn.Flatten(), inputs, None),
        stored_rows.rows_key("net", small_net(), TensorInputs(torch.rand(2, 1, 24)), None),
        stored_rows.rows_key("net", small_net(), inputs, 2**30),
        stored_rows.rows_key("net", small_net(), inputs, None, workers=2),
    }
    assert len(keys) == 5


def test_a_damaged_record_of_rows_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_measured(monkeypatch)
    audit().run(tmp_path / "run", progress=False)
    before = known_rows(RunFolder(str(tmp_path / "run")))
    (record,) = (tmp_path / "run" / ROWS).glob("*.json")
    record.write_bytes(b"")
    audit().run(tmp_path / "run", progress=False)
    assert known_rows(RunFolder(str(tmp_path / "run"))) == before


def test_orbits_keep_their_rows_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_measured(monkeypatch)
    orbit = GroupOrbit(space=CyclicShift(axes=(-1,)))
    evaluation = OrbitEvaluation(models={"net": small_net()}, inputs=series_inputs(4), orbit=orbit, task=Classification())
    evaluation.run(tmp_path / "run", progress=False)
    (key,) = known_rows(RunFolder(str(tmp_path / "run")))
    assert evaluation.prepare(rows={key: 5}).budgets["net"].rows == 5


def test_blocks_of_a_gpu_have_a_bounded_size() -> None:
    images, volumes = TensorInputs(torch.zeros(1, 3, 224, 224)), TensorInputs(torch.zeros(1, 160, 160, 160))
    assert (block_size(images, 512), block_size(volumes, 512), block_size(volumes)) == (512, 64, 64)
    table = TensorInputs(torch.zeros(1, 14))
    assert (block_size(table, 512), block_size(table)) == (4096, 64)
