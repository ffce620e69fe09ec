from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veracity import Audit
from veracity.core.errors import InputError
from veracity.core.registry import RECIPES
from veracity.inputs import as_inputs
from veracity.measure import pearson
from veracity.recipe import Scale, run_recipe
from veracity.studies.several import Audits
from veracity.walk import Genetic, SubsetSimulation
from veracity_papers.data import files
from veracity_papers.recipes.published import published
from veracity_papers.recipes.robustness_cifar import FOUR, ONE, WHOLE
from veracity_papers.recipes.robustness_lenet import SUPERPIXEL_EFFORT as SLOW
from veracity_papers.recipes.robustness_methods import EFFORT, METHODS, Effort, first_correct, methods, robustness_table
from veracity_papers.recipes.robustness_settings import EXTENT, TRUTH, VARIED
from veracity_papers.recipes.robustness_spaces import EXTENT as SPACES

DIGITS = ("mnist/t10k-images-idx3-ubyte.gz", "weights/eval_xai_robustness/LeNet-mnist")
PHOTOGRAPHS = ("cifar10/test.safetensors", "weights/resnet_cifar10/resnet20-12fca82f.th")
FILES = {
    "robustness-mnist": DIGITS,
    "robustness-fashion-mnist": ("fashion_mnist/t10k-images-idx3-ubyte.gz", "weights/gef/fmnist_lenet"),
    "robustness-cifar10": PHOTOGRAPHS,
    "robustness-architectures": (*PHOTOGRAPHS, "weights/resnet_cifar10/resnet32-d509ac18.th"),
    "robustness-lime-shap": DIGITS,
    "robustness-training": DIGITS[:1],
    "robustness-convergence": DIGITS,
    "robustness-discrepancy": DIGITS,
    "robustness-spaces": (),
}
SMOKE_WORST = 8 + 7 + 2 * 2
"""Evaluations of a seed at the smallest scale: a genetic search with one generation, and two restarts of two steps."""


def at_hand(name: str) -> None:
    for file in FILES[name]:
        if files.locate(file) is None:
            pytest.skip(f"{file} is not at hand")


@pytest.fixture
def ran(tmp_path: Path) -> Callable[[str], Any]:
    def run(name: str) -> Any:
        at_hand(name)
        found = run_recipe(name, tmp_path, Scale.SMOKE, progress=False)
        assert found.failures().empty
        assert (tmp_path / "report.html").stat().st_size > 3_000
        return found

    return run


def test_digits_are_searched_by_four_explainers_and_at_several_radii(ran: Callable[[str], Any]) -> None:
    result = ran("robustness-mnist")
    table = result.table().set_index(["audit", "explainer", "score"])
    near = table.loc["explainers"]
    assert set(near.index.get_level_values("explainer")) == {"", *METHODS}
    assert near.loc[(METHODS[0], "sol_f_hat"), "evaluations"] == 2 * SMOKE_WORST
    assert near.loc[("", "worst_loss"), "evaluations"] == 2 * SMOKE_WORST
    assert near.loc[(METHODS[0], "ln_p_f_tilde"), "censored"] == 2
    assert near.loc[("integrated_gradients", "sol_f_hat"), "value"] > near.loc[("input_x_gradient", "sol_f_hat"), "value"]
    profile = table.loc["radii"].loc["input_x_gradient", "value"]
    assert profile["sol_f_hat, r = 0.4"] < profile["sol_f_hat, r = 0.1"]
    assert ("integrated_gradients", "ln_p_f_tilde") not in table.loc["wider"].index
    summary = result.summary.set_index(["audit", "explainer"])
    assert summary.loc[("explainers", "deep_lift"), "sol_f_hat"] == f"{near.loc[('deep_lift', 'sol_f_hat'), 'value']:.3f}"
    own = near.loc["deep_lift"]
    assert summary.loc[("explainers", "deep_lift"), "evaluations"] == own["evaluations"].sum()
    assert summary.loc[("explainers", "deep_lift"), "F-tilde found"] == 2 - own.loc["sol_f_tilde", "infeasible"]
    assert summary.loc[("explainers", "deep_lift"), "ln_p_f_tilde censored"] == own.loc["ln_p_f_tilde", "censored"]


def test_clothing_is_searched(ran: Callable[[str], Any]) -> None:
    table = ran("robustness-fashion-mnist").table().set_index(["explainer", "score"])
    assert table.loc[("", "worst_loss"), "value"] > 0
    assert (table["n"] + table["undefined"] == 2).all()
    assert table["published"].isna().all()


def test_networks_for_photographs_stand_beside_table_8(ran: Callable[[str], Any]) -> None:
    found = ran("robustness-architectures")
    table = found.table().set_index(["audit", "explainer", "score"])
    assert table.loc[("resnet20", "grad_cam", "sol_f_hat"), "published"] == 0.0044
    assert table.loc[("vgg", "input_x_gradient", "ln_p_f_tilde"), "published"] == -59.74
    assert found.summary["evaluations"].tolist() == [2 * (4 + 3 + 1) + 2 * 10] * 4


def test_a_residual_network_stands_beside_table_8(ran: Callable[[str], Any]) -> None:
    table = ran("robustness-cifar10").table().set_index(["explainer", "score"])
    assert table.loc[("input_x_gradient", "ln_p_f_hat"), "published"] == -20.32
    assert np.isnan(table.loc[("", "worst_loss"), "published"])


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_fixed_segments_make_lime_and_shap_robust(ran: Callable[[str], Any]) -> None:
    value = ran("robustness-lime-shap").table().set_index(["explainer", "score"])["value"]
    for method in ("lime+20", "shap+20"):
        assert value[method, "sol_f_hat"] < 0.4 < value[f"{method}, fixed", "sol_f_hat"]
        assert value[method, "ln_p_f_hat"] > value[f"{method}, fixed", "ln_p_f_hat"]


def test_all_four_trainings_are_searched_around_the_same_digits(ran: Callable[[str], Any]) -> None:
    table = ran("robustness-training").table().set_index(["model", "explainer", "score"])
    value = table["value"]
    assert value["pgd", "input_x_gradient", "sol_f_hat"] > value["plain", "input_x_gradient", "sol_f_hat"]
    assert (table["n"] + table["undefined"] == 2).all()
    assert table.loc[("hessian", "", "ln_p_misclassified, r = 0.3"), "evaluations"] == 2 * 10


def test_convergence_is_read_off_traces_and_counts(ran: Callable[[str], Any]) -> None:
    found = ran("robustness-convergence")
    summary = found.summary.set_index("score")
    bred = summary.loc["sol_f_hat, n = 6"].set_index("generations")
    assert bred["evaluations"].to_dict() == {1: 11, 2: 16}
    assert bred.loc[2, "value"] <= bred.loc[1, "value"]
    worst = found.results["worst-case"].table().set_index("score")
    assert bred.loc[2, "value"] == worst.loc["sol_f_hat, n = 6", "value"]
    counted = found.results["probability"].samples(TRUTH)
    hits = np.where(counted["censored"], 0.0, np.exp(counted["value"]) * 400)
    assert hits.sum() == pytest.approx(round(hits.sum()))
    assert summary.loc[TRUTH, "truth"] == pytest.approx(math.log(hits.sum() / 800))
    runs = found.results["probability"].samples("ln_p_f_hat, M = 1")["value"]
    row = summary.loc["ln_p_f_hat, M = 1"]
    assert row["bias"] == pytest.approx(runs.mean() - row["truth"])
    assert row["spread"] == pytest.approx(runs.std(ddof=1))
    assert runs.nunique() == 2


def test_every_search_is_judged_by_every_measure(ran: Callable[[str], Any]) -> None:
    found = ran("robustness-discrepancy")
    summary = found.summary.set_index("led by")
    table = found.table().set_index("score")["value"]
    for name in ("pcc", "ssim", "mse"):
        assert summary.loc[f"sol_f_hat, {name}", name] == pytest.approx(table[f"sol_f_hat, {name}"], rel=1e-4)
    assert summary["mse"].idxmax() == "sol_f_hat, mse"
    assert summary["ssim"].idxmin() == "sol_f_hat, ssim"
    assert robustness_table(found.results).empty
    pairs = found.results["digits"].worst("sol_f_hat, ssim", 2)
    by_hand = [float(pearson(pair.found[None].abs(), pair.explanation[None].abs())) for pair in pairs]
    assert summary.loc["sol_f_hat, ssim", "pcc"] == pytest.approx(np.mean(by_hand))
    assert summary.loc["sol_f_hat, ssim", "pcc varies"] == pytest.approx(np.std(by_hand) / np.mean(by_hand))


def test_rotations_and_weights_are_searched_like_balls(ran: Callable[[str], Any]) -> None:
    table = ran("robustness-spaces").table().set_index(["explainer", "score"])
    assert table.loc[("", "worst_loss, rotations"), "value"] > 0
    simulated, counted = (table.loc[("", f"ln_p_misclassified, rotations{how}"), "value"] for how in ("", ", counted"))
    assert simulated == pytest.approx(counted, abs=1.0)
    assert table.loc[("saliency", "sol_f_hat, rotations"), "value"] < table.loc[("saliency", "sol_f_hat, weights"), "value"] < 1.0
    assert table.loc[("saliency", "sol_f_hat, weights"), "evaluations"] == 2 * (8 + 2 * 7)


@pytest.mark.parametrize(
    ("name", "scale", "seeds", "figures"),
    [
        ("robustness-cifar10", Scale.SMOKE, 1, 8),
        ("robustness-cifar10", Scale.SMALL, 5, 16),
        ("robustness-architectures", Scale.SMALL, 2, 48),
        ("robustness-lime-shap", Scale.SMALL, 2, 20),
        ("robustness-lime-shap", Scale.PAPER, 5, 28),
    ],
)
def test_published_figures_point_at_labels_that_exist(name: str, scale: Scale, seeds: int, figures: int, tmp_path: Path) -> None:
    at_hand(name)
    assembled = RECIPES[name].assemble(tmp_path, scale)
    audits: list[Audit] = list(assembled.audits.values()) if isinstance(assembled, Audits) else [assembled]
    entries = [(audit, one) for audit in audits for one in audit.about["published"]]
    assert len(entries) == figures
    for audit, one in entries:
        assert one["model"] in audit.models  # type: ignore[operator]
        assert one["explainer"] in audit.explainers
        assert one["score"] in audit.scores
    for audit in audits:
        assert as_inputs(audit.inputs).size() == seeds
        torch.testing.assert_close(audit.inputs, audits[0].inputs)


def test_published_figures_are_those_of_their_tables() -> None:
    def values(table: str, explainer: str, **given: Any) -> list[float]:
        return [one["value"] for one in published(table, explainers=[explainer], **given)]

    assert values("robustness 8", "integrated_gradients", models={"resnet20": "net"}) == [0.0375, 0.8308, -45.05, -87.64]
    assert {one["model"] for one in published("robustness 8")} == {"resnet20", "mobile", "vgg"}
    assert values("robustness 6", "lime+200") == [6.88e-05, 0.9350, -0.37, -14.59]
    assert values("robustness 7", "lime+200, fixed") == [0.3632, 0.8892, -34.22, -17.38]


def budget(effort: Effort) -> tuple[list[int], int, int, float]:
    worst, rare = effort.worst, effort.rare
    assert isinstance(rare, SubsetSimulation)
    parts = [worst] if isinstance(worst, Genetic) else worst.parts()  # type: ignore[attr-defined]
    return [one.length(None) for one in parts], rare.population, rare.steps, rare.floor  # type: ignore[arg-type]


def test_budgets_are_those_that_the_recipes_state() -> None:
    assert budget(EFFORT[Scale.SMALL]) == ([570, 100], 50, 3, -40.0)
    assert budget(EFFORT[Scale.PAPER]) == ([3700, 500], 150, 5, -100.0)
    assert budget(ONE[Scale.SMALL]) == ([200, 60], 20, 2, -20.0)
    assert budget(FOUR[Scale.SMALL]) == ([55, 20], 20, 2, -10.0)
    assert budget(WHOLE) == ([3700, 500], 100, 5, -100.0)
    assert budget(SLOW[Scale.SMALL]) == ([46], 20, 2, -10.0)
    assert budget(SLOW[Scale.PAPER]) == ([200], 50, 3, -20.0)
    assert [SPACES[scale].worst.length(None) for scale in (Scale.SMALL, Scale.PAPER)] == [950, 5500]  # type: ignore[attr-defined]
    assert EXTENT[Scale.PAPER].draws * EXTENT[Scale.PAPER].repeats == 10**6
    assert [EFFORT[scale].seeds for scale in Scale] == [2, 10, 100]
    assert [VARIED[name] for name in ("M = 10", "rho = 0.5")] == [{"steps": 10}, {"rho": 0.5}]


class Parity(nn.Module):
    """Says 1 for numbers that are a multiple of `of`, else 0."""

    def __init__(self, of: int) -> None:
        super().__init__()
        self.of = of

    def forward(self, x: Tensor) -> Tensor:
        hit = (x[:, 0] % self.of == 0).float()
        return torch.stack((1.0 - hit, hit), dim=1)


def test_seeds_are_the_first_that_every_model_gets_right() -> None:
    x = torch.arange(100.0)[:, None]
    y = torch.ones(100, dtype=torch.long)
    seeds, labels = first_correct([Parity(2), Parity(3)], (x, y), 4)
    assert seeds[:, 0].tolist() == [0.0, 6.0, 12.0, 18.0]
    assert labels.tolist() == [1, 1, 1, 1]
    assert len(first_correct([Parity(7)], (x, 1 - y), 100)[0]) == 100 - 15


def test_the_four_explainers() -> None:
    found: dict[str, Any] = methods("conv2", steps=7)
    assert tuple(found) == METHODS
    assert (found["grad_cam"].layer, found["integrated_gradients"].steps) == ("conv2", 7)


@pytest.mark.parametrize("name", [name for name, needed in FILES.items() if needed])
def test_a_recipe_names_the_file_that_is_missing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="nowhere"):
        run_recipe(name, tmp_path / "run", Scale.SMOKE, progress=False)
    assert not (tmp_path / "run").exists()
