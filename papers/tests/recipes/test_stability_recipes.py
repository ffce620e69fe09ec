from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from veracity.audit import Audit
from veracity.core.registry import RECIPES, TRAINERS
from veracity.recipe import Scale, run_recipe
from veracity.results import Result
from veracity.studies.degradation import DegradationResult
from veracity_papers.data import files
from veracity_papers.recipes.stability_methods import SHORT, TABLE_2, TABLE_3, TABLE_5, TABLE_6, TABLE_7, published, some_of_each

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
FILES = {
    "stability-digits": (),
    "stability-fashion-mnist": ("fashion_mnist/train-images-idx3-ubyte.gz",),
    "stability-eurosat": ("eurosat/eurosat_rgb_240perclass.zip",),
    "stability-lipschitz": ("cifar10/train.safetensors",),
    "stability-degradation": (),
}
SEVEN = {"saliency", "input_x_saliency", "integrated_gradients", "smooth_grad", "grad_cam", "grad_cam_plus_plus", "rise"}


@pytest.fixture(scope="module", autouse=True)
def decoded_once() -> Iterator[None]:
    """Satellite images are decoded once for all the recipes here."""
    images = import_module("veracity_papers.recipes.stability_folds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "eurosat", cache(images.eurosat))
        yield


@pytest.fixture
def less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second row and column of photographs, and every third digit that is learnt from for the damage."""
    images, lipschitz, damage = (
        import_module(f"veracity_papers.recipes.stability_{part}") for part in ("images", "lipschitz", "degradation")
    )
    eurosat, cifar10, digits = images.eurosat, lipschitz.cifar10, damage.digits

    def coarse(data: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return data[0][..., ::2, ::2], data[1]

    def sparse(data: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return data[0][::3], data[1][::3]

    monkeypatch.setattr(images, "eurosat", lambda split: coarse(eurosat(split)))
    monkeypatch.setattr(lipschitz, "cifar10", lambda split: coarse(cifar10(split)))
    monkeypatch.setattr(damage, "digits", lambda split, padding: sparse(digits(split, padding)))


def at_hand(name: str) -> None:
    for file in FILES[name]:
        if files.locate(file) is None:
            pytest.skip(f"{file} is not at hand")


def ran(name: str, folder: Path) -> Any:
    at_hand(name)
    return run_recipe(name, folder, Scale.SMOKE, progress=False)


@pytest.mark.usefixtures("less")
@pytest.mark.parametrize("name", ["stability-digits", "stability-fashion-mnist", "stability-eurosat", "stability-lipschitz"])
def test_recipes_measure_eight_explainers_across_folds(tmp_path: Path, name: str) -> None:
    result: Result = ran(name, tmp_path / "run")
    table = result.table()
    assert result.failures().empty
    assert set(table["explainer"]) >= SEVEN | {"random_uniform"}
    assert set(table["score"]) == {"mege", "reco", "reco_auc", "reco_ks", "mu_f"}
    mege = table[(table["score"] == "mege") & table["explainer"].isin(SEVEN | {"random_uniform"})]
    assert mege["value"].between(0.5, 1.0).all()
    assert set(result.folds()["fold"]) == {0, 1}
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    constants = result.folds().set_index("model")["lipschitz"]
    assert (constants["small_cnn"] > 1.5).all()
    if name == "stability-lipschitz":
        assert (constants["lipschitz"] <= 1.01).all()


@pytest.mark.usefixtures("less")
def test_scores_are_checked_by_damage(tmp_path: Path) -> None:
    result: DegradationResult = ran("stability-degradation", tmp_path / "run")
    trends = result.trends()
    assert set(trends["score"]) == {"mege", "reco", "mu_f"}
    assert set(trends["damage"]) == {"weights", "mild", "labels"}
    table = result.table()
    assert set(table["share"]) == {0.0, 0.1, 0.3}


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("scale", list(Scale))
def test_every_scale_can_be_put_together(tmp_path: Path, name: str, scale: Scale) -> None:
    at_hand(name)
    if name == "stability-lipschitz" and scale is not Scale.SMOKE:
        pytest.skip("all 60,000 photographs of CIFAR-10 as floats are 740 MB in every worker")
    assert RECIPES[name].assemble(tmp_path, scale) is not None


def test_all_digits_are_learnt_from_and_an_equal_part_of_every_fold_is_explained(tmp_path: Path) -> None:
    audit = RECIPES["stability-digits"].assemble(tmp_path, Scale.SMALL)
    assert isinstance(audit, Audit)
    (model,) = audit.models.values()  # type: ignore[union-attr]
    assert len(model.data[1]) == 1797
    assert torch.bincount(model.folds[model.place]).tolist() == [100] * 5
    assert model.fit.spec() == TRAINERS.build({"name": "small_cnn", "width": 4, "epochs": 6}).spec()


def test_parts_of_folds_are_spread() -> None:
    found = some_of_each(torch.arange(100) % 4, 20)
    assert len(found) == 20
    assert np.bincount(found.numpy() % 4).tolist() == [5] * 4
    assert int(found.max()) > 90


def test_published_figures_stand_under_our_names() -> None:
    rows = {(row["model"], row["explainer"], row["score"]): row["value"] for row in published({"resnet18": TABLE_7})}
    assert rows["resnet18", "integrated_gradients", "mege"] == 0.90
    assert rows["resnet18", "grad_cam", "reco"] == 0.52
    assert set(SHORT) == SEVEN
    for table in (TABLE_2, TABLE_3, TABLE_5, TABLE_6, TABLE_7):
        assert {len(row) for row in table.values()} == {7}
