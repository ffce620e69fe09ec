from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from veracity.audit import Audit
from veracity.core.registry import RECIPES, TRAINERS
from veracity.recipe import Scale, run_recipe
from veracity.results import Result
from veracity.studies.degradation import DegradationResult
from veracity_papers.data import files
from veracity_papers.recipes import stability_checks, stability_folds
from veracity_papers.recipes.published import published
from veracity_papers.recipes.stability_methods import spread_over_folds

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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stability_folds, "eurosat", cache(stability_folds.eurosat))
        yield


@pytest.fixture
def less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second (of satellite images, every fourth) row and column, and every sixth digit that is learnt from for the damage."""
    for name, step in {"eurosat": 4, "cifar10": 2, "fashion_mnist": 2}.items():
        read = getattr(stability_folds, name)

        def coarse(split: str, read: Any = read, step: int = step, **settings: Any) -> tuple[torch.Tensor, torch.Tensor]:
            inputs, labels = read(split, **settings)
            return inputs[..., ::step, ::step], labels

        monkeypatch.setattr(stability_folds, name, coarse)
    digits = stability_checks.digits
    monkeypatch.setattr(stability_checks, "digits", lambda split, padding: tuple(part[::6] for part in digits(split, padding)))


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
@pytest.mark.parametrize("scale", [Scale.SMALL, Scale.PAPER])
def test_larger_scales_can_be_put_together(tmp_path: Path, name: str, scale: Scale) -> None:
    at_hand(name)
    if name == "stability-lipschitz":
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
    found = spread_over_folds(torch.arange(100) % 4, 20)
    assert len(found) == 20
    assert np.bincount(found.numpy() % 4).tolist() == [5] * 4
    assert int(found.max()) > 90


@pytest.mark.parametrize("table", ["stability 2, 3, 5", "stability 6", "stability 7"])
def test_published_figures_stand_under_our_names(table: str) -> None:
    rows = {(row["model"], row["explainer"], row["score"]): row["value"] for row in published(table)}
    assert {explainer for _, explainer, _ in rows} == SEVEN
    assert len(rows) == (35 if table == "stability 2, 3, 5" else 14)
    if table == "stability 7":
        assert rows["resnet18", "integrated_gradients", "mege"] == 0.90
        assert rows["resnet18", "grad_cam", "reco"] == 0.52
