from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from veracity.core.errors import InputError, SpecError
from veracity_papers.data import files
from veracity_papers.data.tabular import CLASSES, adult, columns, compas, german, heloc, openxai, rescale

LOADERS = {"adult": adult, "compas": compas, "german": german, "heloc": heloc}
SIZES = {"adult": (36_177, 9_045, 13), "compas": (4_937, 1_235, 7), "german": (800, 200, 60), "heloc": (7_896, 1_975, 23)}
REAL = files.locate("openxai_tabular/adult-train.csv") is not None
real = pytest.mark.skipif(not REAL, reason="needs OpenXAI's tables")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a small table in the place of each."""
    (tmp_path / "openxai_tabular").mkdir()
    for name in CLASSES:
        (tmp_path / "openxai_tabular" / f"{name}-train.csv").write_text("age,same,sum,label\n10,4,1.5,0\n30,4,-0.5,1\n20,4,0.5,1\n")
        (tmp_path / "openxai_tabular" / f"{name}-test.csv").write_text("age,same,sum,label\n35,5,-1,0\n")
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path))
    return tmp_path / "openxai_tabular"


@pytest.mark.parametrize("name", CLASSES)
def test_columns_are_scaled_by_the_training_rows(name: str, folder: Path) -> None:
    train, test = LOADERS[name]("train"), LOADERS[name]("test")
    assert train.features == test.features == ("age", "same", "sum")
    assert train.classes == CLASSES[name]
    assert torch.allclose(train.values, torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]))
    assert torch.allclose(test.values, torch.tensor([[1.25, 1.0, -0.25]]))
    assert train.labels.tolist() == [0, 1, 1]
    assert (test.labels.tolist(), len(train), test.values.dtype) == ([0], 3, torch.float32)
    assert torch.equal(train.labelled.inputs.take(torch.tensor([1])).values[0], train.values[1])


def test_scaling_against_counting() -> None:
    rng = np.random.default_rng(0)
    rows, train = rng.normal(size=(7, 4)), rng.normal(size=(11, 4))
    slow = [[(row[i] - min(train[:, i])) / (max(train[:, i]) - min(train[:, i])) for i in range(4)] for row in rows]
    assert np.allclose(rescale(rows, train), slow, atol=1e-6)


def test_what_is_wrong_is_one_sentence(folder: Path) -> None:
    with pytest.raises(SpecError, match=r"Unknown table 'adlt'. Did you mean 'adult'\?"):
        openxai("adlt")
    (folder / "german-train.csv").write_text("age,label\n10,4,1\n")
    with pytest.raises(InputError, match=r"german-train.csv has 3 columns of numbers, but its first line names 2"):
        german()


@real
@pytest.mark.parametrize("name", ["adult", "compas", "german", "heloc"])
def test_the_real_tables_fill_the_unit_interval(name: str) -> None:
    train, test = openxai(name, "train"), openxai(name)
    assert (len(train), len(test), len(train.features)) == SIZES[name]
    assert train.values.shape[1] == test.values.shape[1] == len(train.features)
    assert torch.equal(train.values.amin(dim=0), torch.zeros(len(train.features)))
    assert torch.equal(train.values.amax(dim=0), torch.ones(len(train.features)))
    assert train.labels.unique().tolist() == [0, 1]


@real
def test_what_the_classes_are_called_fits_the_features() -> None:
    for name, feature, sign in (("adult", "education-num", 1), ("compas", "priors_count", -1), ("heloc", "ExternalRiskEstimate", 1)):
        features, rows = columns(name, "test")
        assert sign * np.corrcoef(rows[:, features.index(feature)], rows[:, -1])[0, 1] > 0.2
    assert float(german("train").labels.float().mean()) == pytest.approx(0.70, abs=0.01)
