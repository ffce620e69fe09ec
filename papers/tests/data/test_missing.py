"""What every data set says where its file, or the split asked for, does not exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from veracity.core.errors import InputError
from veracity_papers.data import bccd, files
from veracity_papers.data.ecg import ecg
from veracity_papers.data.eurosat import eurosat
from veracity_papers.data.imagenet import imagenet
from veracity_papers.data.imdb import imdb
from veracity_papers.data.mnist import fashion_mnist, mnist
from veracity_papers.data.modelnet import modelnet
from veracity_papers.data.mutagenicity import mutagenicity
from veracity_papers.data.particles import piv
from veracity_papers.data.pneumonia import pneumonia_mnist
from veracity_papers.data.tabular import avila, heloc

FILES: dict[Callable[..., object], str] = {
    avila: "avila-ts.txt .* get it from archive.ics.uci.edu",
    bccd.photographs: "BCCD.zip .* get it from github.com/Shenggan/BCCD_Dataset",
    ecg: "mitdb_mlii_beats180_test.* get it from physionet",
    eurosat: "eurosat_rgb_240perclass.zip .* get it from github.com/phelber",
    fashion_mnist: "t10k-images-idx3-ubyte.gz .* get it from github.com/zalandoresearch/fashion-mnist",
    heloc: "heloc-train.csv .* get it from github.com/AI4LIFE-GROUP/OpenXAI",
    imagenet: "imagenet_samples .* get it from github.com/EliSchwartz",
    imdb: "imdb_train_5000.jsonl.gz .* get it from ai.stanford.edu",
    mnist: "t10k-images-idx3-ubyte.gz .* get it from yann",
    modelnet: "modelnet40_bench.* get it from modelnet.cs.princeton.edu",
    mutagenicity: "Mutagenicity.zip .* get it from chrsmrrs.github.io",
    piv: "piv_six_flows_10each.npz .* get it from github.com/zhuokaizhao",
    pneumonia_mnist: "pneumoniamnist/pneumoniamnist.npz .* get it from medmnist.com",
}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("read", FILES, ids=lambda read: read.__name__)
def test_a_missing_file_is_one_sentence(read: Callable[..., object]) -> None:
    with pytest.raises(InputError, match=rf"Looked for .*{FILES[read]}"):
        read()


@pytest.mark.parametrize("read", [read for read in FILES if read not in (imagenet, piv)], ids=lambda read: read.__name__)
def test_an_unknown_split_is_one_sentence(read: Callable[..., object]) -> None:
    with pytest.raises(InputError, match="There is no split 'dev': choose train or "):
        read("dev")


def test_without_a_data_folder_the_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERACITY_DATA")
    monkeypatch.setattr(files, "BESIDE", [tmp_path])
    with pytest.raises(InputError, match="no VERACITY_DATA is set"):
        mnist()
