from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from orbit_small import digits_like, images, labels, linear
from stored import edit_manifest, record
from veracity import OrbitResult
from veracity.core.errors import StoreError
from veracity.engine.store import RunFolder
from veracity.engine.store.files import Files
from veracity.orbits import folder as files

MANY = 70
"""Two blocks of samples."""


def test_outputs_that_were_deleted_come_back(tmp_path: Path) -> None:
    whole = digits_like().run(tmp_path, progress=False).outputs("b", 2)
    shutil.rmtree(tmp_path / "outputs")
    with pytest.raises(StoreError, match=r"outputs/\w+ is not there: run the same command again"):
        OrbitResult(tmp_path).outputs("b", 2)
    again = digits_like().run(tmp_path, progress=False).outputs("b", 2)
    assert all(np.array_equal(again[name], value) for name, value in whole.items())


def test_pictures_that_were_deleted_come_back(tmp_path: Path) -> None:
    whole = digits_like().run(tmp_path, progress=False).picture(2)["input"]
    shutil.rmtree(tmp_path / "pictures")
    for ask in (lambda run: run.picture(2), lambda run: run.thumbnails()):
        with pytest.raises(StoreError, match="is not there: run the same command again"):
            ask(OrbitResult(tmp_path))
    assert np.array_equal(digits_like().run(tmp_path, progress=False).picture(2)["input"], whole)


def test_a_run_that_was_stopped_says_how_far_it_came(tmp_path: Path) -> None:
    made = digits_like(inputs=images(MANY), targets=labels(MANY))
    result = made.run(tmp_path, progress=False)
    last = [cell["key"] for cell in result.manifest["cells"] if cell["start"] > 0]
    for key in last:
        record(tmp_path, "orbits", key).unlink()
        record(tmp_path, "outputs", key).unlink()
    stopped = OrbitResult(tmp_path)
    for ask in (lambda: stopped.values("a", "accuracy"), lambda: stopped.outputs("a", MANY - 1), lambda: str(stopped)):
        with pytest.raises(StoreError, match=r"2 of 4 blocks are measured in .*: run the same command again to finish") as caught:
            ask()
        assert "damaged" not in str(caught.value)
    assert stopped.outputs("a", 0)["outputs"].shape == (8, 3)
    assert len(made.run(tmp_path, progress=False).values("a", "accuracy")) == MANY


@pytest.mark.parametrize("key", ["../../secret", "/etc/secret", "ABCDEF", "0123456789abcdef01234567/../x", "", 7])
@pytest.mark.parametrize("kind", ["cells", "pictures"])
def test_a_manifest_names_nothing_outside_its_folder(tmp_path: Path, kind: str, key: object) -> None:
    digits_like(models={"a": linear(0)}).run(tmp_path, progress=False)
    edit_manifest(tmp_path, lambda about: about[kind][0].update(key=key))
    with pytest.raises(StoreError, match=r"manifest\.json cannot be read"):
        OrbitResult(tmp_path)


@pytest.mark.parametrize("name", ["../secret", "outputs/../../secret", "/etc/passwd", ".."])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("s")
    inner = Files(str(tmp_path / "run"))
    for use in (inner.path, inner.exists, inner.read, inner.remove, inner.names):
        with pytest.raises(StoreError, match="names stay below it"):
            use(name)
    with pytest.raises(StoreError, match="names stay below it"):
        RunFolder(str(tmp_path / "run")).write_table("outputs", "../../secret", {})
    assert RunFolder(str(tmp_path / "run")).read_tensors("outputs", "../../secret") is None
    assert (tmp_path / "secret").exists()
    assert inner.path("outputs/..a.b") == str(tmp_path / "run" / "outputs/..a.b")


def test_thumbnails_are_read_without_the_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = digits_like().run(tmp_path, progress=False)
    read: list[str] = []

    class Watched:
        def __init__(self, path: str, framework: str) -> None:
            self.file = real(path, framework=framework)

        def __enter__(self) -> Watched:
            self.file.__enter__()
            return self

        def __exit__(self, *given: object) -> None:
            self.file.__exit__(*given)

        def keys(self) -> list[str]:
            return list(self.file.keys())

        def get_tensor(self, name: str) -> object:
            read.append(name)
            return self.file.get_tensor(name)

    real = files.safe_open
    monkeypatch.setattr(files, "safe_open", Watched)
    monkeypatch.setattr(RunFolder, "read_tensors", lambda *given: pytest.fail("everything was read"))
    small = result.thumbnails()
    assert small is not None
    assert small.shape == (6, 4, 4, 1)
    assert read == ["thumbnail"]


def test_tables_are_of_a_subset_as_aggregates_are(tmp_path: Path) -> None:
    result = digits_like(targets=labels(), labels=["left"] * 4 + ["right"] * 2).run(tmp_path / "all", progress=False)
    alone = digits_like(inputs=images()[4:], targets=labels()[4:]).run(tmp_path / "some", progress=False)
    for subset in ("right", 1, [4, 5]):
        for mine, own in ((result.table(subset), alone.table()), (result.gap(subset), alone.gap())):
            numbers = mine.select_dtypes("number").columns
            assert np.allclose(mine[numbers], own[numbers], atol=1e-6, equal_nan=True)
        mine, own = result.agreement(subset), alone.agreement()
        assert np.allclose(mine[["correlation", "aggregate"]], own[["correlation", "aggregate"]], atol=1e-4, equal_nan=True)
    assert result.table("right")["n"].eq(2).all()
    assert not np.allclose(result.gap("right")["value"], result.gap()["value"])
