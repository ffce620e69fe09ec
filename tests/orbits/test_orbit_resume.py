from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from orbit_small import digits_like, images, labels, linear
from stored import record
from veracity import Audit, OrbitEvaluation, OrbitResult, Result
from veracity.core.errors import StoreError
from veracity.engine.store.files import Files
from veracity.orbits import Classification, RotationOrbit
from veracity.orbits import folder as files
from veracity.perturb import Dihedral

MANY = 150
"""Three blocks of samples."""


class Killed(BaseException):
    """Nobody catches it."""


def evaluation() -> OrbitEvaluation:
    return digits_like(inputs=images(MANY), targets=labels(MANY))


def stamps(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("writes", [1, 3, 8])
def test_a_killed_run_goes_on_and_finds_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    evaluation().run(whole, progress=False)
    write, done = Files.write, []

    def dying(self: Files, name: str, data: bytes, **options: bool) -> None:
        if len(done) == writes:
            (Path(self.root) / f".{os.path.basename(name)}.0123abcd.part").write_bytes(data[:3])
            raise Killed
        done.append(name)
        write(self, name, data, **options)

    monkeypatch.setattr(Files, "write", dying)
    with pytest.raises(Killed):
        evaluation().run(part, progress=False)
    monkeypatch.setattr(Files, "write", write)
    before = stamps(part)
    result, expected = evaluation().run(part, progress=False), OrbitResult(whole)
    after = stamps(part)
    kept = {name for name in before if name.startswith(("orbits", "pictures"))}
    assert all(before[name] == after[name] for name in kept)
    assert not [name for name in after if name.endswith(".part")]
    assert {name.split(".")[0] for name in after if "/" in name} == {name.split(".")[0] for name in stamps(whole) if "/" in name}
    for model in result.models:
        assert np.array_equal(result.values(model, "confidence"), expected.values(model, "confidence"))
        assert np.array_equal(result.values(model, "confidence", "consensus"), expected.values(model, "confidence", "consensus"))


def test_a_finished_run_measures_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation().run(tmp_path, progress=False)
    created, before = OrbitResult(tmp_path).manifest["created"], stamps(tmp_path)
    monkeypatch.setattr("veracity.orbits.loop.outputs_along", lambda *given: pytest.fail("a model was asked again"))
    again = evaluation().run(tmp_path, progress=False)
    changed = {name for name, stamp in stamps(tmp_path).items() if before.get(name) != stamp}
    assert changed <= {"manifest.json", "lock"}
    assert again.manifest["created"] == created


def test_a_further_model_is_measured_beside_the_others(tmp_path: Path) -> None:
    one = replace(evaluation(), models={"a": linear(0)})
    one.run(tmp_path, progress=False)
    before = stamps(tmp_path)
    result = evaluation().run(tmp_path, progress=False)
    assert result.models == ("a", "b")
    after = stamps(tmp_path)
    assert all(after[name] == stamp for name, stamp in before.items() if name.startswith(("orbits", "outputs", "pictures")))
    assert len([name for name in after if name.startswith("orbits")]) == 6


@pytest.mark.parametrize(
    "change",
    [
        {"models": {"a": linear(5)}},
        {"inputs": images(seed=4)},
        {"targets": (labels() + 1) % 3},
        {"orbit": RotationOrbit(step=90.0)},
        {"task": Classification()},
    ],
    ids=["weights", "inputs", "truth", "orbit", "task"],
)
def test_whatever_a_number_depends_on_changes_its_key(change: dict[str, object]) -> None:
    first = digits_like(models={"a": linear(0)}).prepare()
    second = digits_like(**{"models": {"a": linear(0)}, **change}).prepare()
    assert {cell.key for cell in first.cells}.isdisjoint(cell.key for cell in second.cells)
    assert [cell.key for cell in first.cells] == [cell.key for cell in digits_like(models={"a": linear(0)}).prepare().cells]


def test_a_function_of_ones_own_is_known_by_what_it_does() -> None:
    def keys(factor: float) -> list[str]:
        net = linear()
        return [cell.key for cell in digits_like(models={"net": lambda x: net(x) * factor}).prepare().cells]

    assert keys(1.0) == keys(1.0)
    assert keys(1.0) != keys(2.0)


def test_a_damaged_table_says_what_to_do(tmp_path: Path) -> None:
    result = digits_like().run(tmp_path, progress=False)
    record(tmp_path, "orbits", result.manifest["cells"][0]["key"]).write_bytes(b"no")
    with pytest.raises(StoreError, match="is damaged: run the same command again, which makes it anew"):
        OrbitResult(tmp_path).values("a", "accuracy")


def test_damaged_outputs_say_what_to_do(tmp_path: Path) -> None:
    result = digits_like().run(tmp_path, progress=False)
    record(tmp_path, "outputs", result.manifest["cells"][0]["key"]).write_bytes(b"no")
    with pytest.raises(StoreError, match="is damaged: run the same command again, which makes it anew"):
        OrbitResult(tmp_path).outputs("a", 0)


def test_runs_of_another_kind_are_not_mixed_up(tmp_path: Path) -> None:
    audit = Audit(models=linear(), inputs=images(2), explainers=["gradient"], symmetry=Dihedral(), scores=["equivariance"], controls=False)
    audit.run(tmp_path / "audit", progress=False)
    digits_like().run(tmp_path / "orbits", progress=False)
    with pytest.raises(StoreError, match=r"holds an audit, not an orbit evaluation: read it with 'veracity show'"):
        digits_like().run(tmp_path / "audit", progress=False)
    with pytest.raises(StoreError, match=r"holds an orbit evaluation, not an audit: read it with 'veracity show'"):
        Result(tmp_path / "orbits")
    with pytest.raises(StoreError, match="not an audit"):
        audit.run(tmp_path / "orbits", progress=False)
    with pytest.raises(StoreError, match=r"has no manifest\.json"):
        OrbitResult(tmp_path)


def test_rows_are_labelled_in_the_file_itself(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    result = digits_like().run(tmp_path, progress=False)
    table = pq.read_table(record(tmp_path, "orbits", result.manifest["cells"][1]["key"]))
    assert table.column_names == [
        "sample",
        "element",
        "accuracy@truth",
        "confidence@truth",
        "accuracy@consensus",
        "confidence@consensus",
        "distance",
        "whole",
    ]
    rows = table.to_pandas().set_index(["sample", "element"])
    assert rows.loc[(4, 3), "confidence@truth"] == result.values("b", "confidence")[4, 3]
    assert {str(table.schema.field(name).type) for name in table.column_names[2:]} == {"float"}


def test_a_bucket_serves_as_well_as_a_disk(tmp_path: Path) -> None:
    root = "memory://orbits-bucket"
    result = digits_like().run(root, progress=False)
    local = digits_like().run(tmp_path, progress=False)
    assert np.array_equal(result.values("a", "confidence"), local.values("a", "confidence"))
    assert np.array_equal(result.outputs("a", 3)["outputs"], local.outputs("a", 3)["outputs"])
    assert np.array_equal(result.picture(3)["input"], local.picture(3)["input"])
    assert torch.is_tensor(result.folder.read_tensors(files.PICTURES, result.manifest["pictures"][0]["key"])["thumbnail"])
