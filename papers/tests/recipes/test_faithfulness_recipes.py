from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import nn

from veracity import Audit
from veracity.core.errors import InputError, StoreError
from veracity.core.registry import RECIPES
from veracity.inputs import as_inputs
from veracity.recipe import Scale, run_recipe
from veracity.results import Result
from veracity.scores.gef import GEF, FastGEF
from veracity.studies.several import Audits, JointResult
from veracity_papers.data import files
from veracity_papers.recipes.faithfulness_methods import local_methods
from veracity_papers.recipes.gef_checks import UNFLOORED, Agreement, agreement, agreements
from veracity_papers.recipes.published import published

FILES = {
    "faithfulness-mnist": ("mnist/t10k-images-idx3-ubyte.gz", "weights/gef/mnist_lenet"),
    "faithfulness-fashion-mnist": ("fashion_mnist/t10k-images-idx3-ubyte.gz", "weights/gef/fmnist_lenet"),
    "faithfulness-adult": ("openxai_tabular/adult-train.csv", "weights/gef/ann_adult.pt"),
    "faithfulness-compas": ("openxai_tabular/compas-train.csv",),
    "faithfulness-avila": ("avila/avila-ts.txt",),
    "faithfulness-german": ("openxai_tabular/german-train.csv",),
    "faithfulness-heloc": ("openxai_tabular/heloc-train.csv",),
    "faithfulness-controls": ("pneumoniamnist/pneumoniamnist_28_rebuilt.npz",),
    "faithfulness-tabular": ("openxai_tabular/adult-train.csv", "weights/gef/ann_adult.pt", "avila/avila-ts.txt"),
    "faithfulness-ablation": ("avila/avila-ts.txt", "mnist/t10k-images-idx3-ubyte.gz", "weights/gef/mnist_lenet"),
    "gef-agreement": ("mnist/t10k-images-idx3-ubyte.gz", "weights/gef/mnist_lenet", "avila/avila-ts.txt"),
}


def at_hand(name: str) -> None:
    for file in FILES[name]:
        if files.locate(file) is None:
            pytest.skip(f"{file} is not at hand")


def ran(name: str, folder: Path) -> Any:
    at_hand(name)
    return run_recipe(name, folder, Scale.SMOKE, progress=False)


def written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("*/cells/*")}


@pytest.mark.parametrize(("name", "figure"), [("faithfulness-mnist", 0.79), ("faithfulness-fashion-mnist", 0.76)])
def test_a_lenet_stands_beside_the_published_figures(name: str, figure: float, tmp_path: Path) -> None:
    result = ran(name, tmp_path)
    short = "The published figures of saliency come from a path that ends at a strength of 0.34"
    assert str(result).count(short) == (tmp_path / "report.html").read_text().count(short) == 1
    assert result.caveats("fast_gef") == []
    table = result.table().set_index(["explainer", "score"])
    assert table.loc[("gradient", "fast_gef_public"), "published"] == figure
    assert table.loc[("gradient", "fast_gef_public"), "null"] == pytest.approx(0.5)
    assert np.isnan(table.loc[("gradient", "fast_gef"), "published"])
    assert np.isnan(float(table.loc[("gradient", "fast_gef"), "null"]))
    assert table.loc[("gradient", "fast_gef"), "value"] > 0.6
    assert abs(table.loc[("random_uniform", "fast_gef"), "value"]) < 0.5
    assert table.loc[("constant_map", "fast_gef"), ["undefined", "no_response"]].tolist() == [6, 6]
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_tables_are_audited_one_after_the_other(tmp_path: Path) -> None:
    rows = ran("faithfulness-tabular", tmp_path).table().set_index(["audit", "model", "explainer", "score"])
    assert rows.loc[("adult", "adult-mlp3", "gradient", "gef_public"), "published"] == 0.86
    assert rows.loc[("avila", "avila-sigmoid", "saliency", "gef_public"), "published"] == 0.69
    assert rows.loc[("avila", "avila-sigmoid", "gradient", "gef"), "value"] > 0.4
    assert rows.loc[("avila", "avila-sigmoid", "edge_filter", "gef"), "no_response"] == 12


def test_controls_are_seen_through(tmp_path: Path) -> None:
    table = ran("faithfulness-controls", tmp_path).table().set_index(["explainer", "score"])
    assert table.loc[("constant_map", "fast_gef"), "no_response"] == 3
    assert table.loc[("edge_filter", "fast_gef"), "no_response"] == 3
    assert table.loc[("edge_filter", "mprt"), "value"] == pytest.approx(1.0)
    assert table.loc[("edge_filter", "mprt"), "published"] == 1.0
    assert table.loc[("constant_map", UNFLOORED), "value"] == 0.0
    assert table.loc[("gradient", UNFLOORED), "published"] == 1764.60
    assert np.isnan(table.loc[("gradient", "relative_input_stability"), "published"])
    assert table.loc[("gradient", "fast_gef"), "value"] > table.loc[("random_uniform", "fast_gef"), "value"]


def test_the_published_controls_say_that_they_are_for_other_images(tmp_path: Path) -> None:
    at_hand("faithfulness-controls")
    audit = RECIPES["faithfulness-controls"].assemble(tmp_path, Scale.SMOKE)
    assert {entry["where"] for entry in audit.about["published"]} == {"Table A.3, DermaMNIST"}
    assert {entry["score"] for entry in audit.about["published"]} <= set(audit.scores) | {"gef_public"}


def test_an_ablation_counts_copies_and_shares_paths(tmp_path: Path) -> None:
    found = ran("faithfulness-ablation", tmp_path).summary.set_index(["audit", "score"])
    copies = found.loc["avila", "copies"]
    assert copies.to_dict() == {"gef, M = 1": 9, "gef, M = 3": 27, "gef, T = 2": 18, "fast_gef, M = 1": 3, "fast_gef, M = 3": 9}
    for audit in ("avila", "mnist"):
        model = found.loc[audit, "D_f"]
        assert model["gef, M = 3"] == pytest.approx(model["gef, T = 2"], rel=1e-5)
        assert model["gef, M = 3"] == pytest.approx(model["fast_gef, M = 3"], rel=1e-5)
        assert model["gef, M = 3"] != pytest.approx(model["gef, M = 1"], rel=1e-3)
    assert found.loc[("avila", "gef, M = 3"), "D_phi"] > found.loc[("avila", "gef, T = 2"), "D_phi"]


def test_gef_and_its_fast_form_rank_explainers(tmp_path: Path) -> None:
    result = ran("gef-agreement", tmp_path)
    assert result.summary[["audit", "model", "explainers"]].to_numpy().tolist() == [["mnist", "lenet", 2], ["avila", "avila-sigmoid", 2]]
    table = result.table()
    for row in result.summary.to_dict("records"):
        means = table[table["audit"] == row["audit"]].pivot(index="explainer", columns="score", values="value")
        signs = [np.sign(means[score].diff().iloc[-1]) for score in ("gef", "fast_gef")]
        alike, tied = signs[0] == signs[1], 0.0 in signs
        assert row["spearman"] == pytest.approx(math.nan if tied else 1.0 if alike else -1.0, nan_ok=True)
        assert row["same_rank"] == (2 if alike else 0)
        assert row["moved"] == ("" if alike else "gradient, saliency")
    assert "Taken together" in (tmp_path / "report.html").read_text(encoding="utf-8")
    kept = written(tmp_path)
    assert ran("gef-agreement", tmp_path).table().equals(table)
    assert written(tmp_path) == kept


SCORES = st.lists(st.integers(-3, 3).map(lambda value: value / 10), min_size=2, max_size=8)


def slow_agreement(first: list[float], second: list[float]) -> Agreement:
    def rank(values: list[float], own: float) -> float:
        return sum(other > own for other in values) + (1 + sum(other == own for other in values)) / 2

    same = sum(rank(first, one) == rank(second, other) for one, other in zip(first, second, strict=True))
    told = len(set(first)) > 1 and len(set(second)) > 1
    return Agreement(len(first), float(spearmanr(first, second).statistic) if told else float("nan"), same)


@settings(max_examples=40, deadline=None)
@given(SCORES, st.randoms(use_true_random=False))
def test_agreement_is_what_counting_says(first: list[float], random: Any) -> None:
    second = random.sample(first, len(first))
    found, slow = agreement(first, second), slow_agreement(first, second)
    assert (found.explainers, found.same_rank) == (slow.explainers, slow.same_rank)
    assert found.spearman == pytest.approx(slow.spearman, nan_ok=True, abs=1e-9)


def test_agreement_by_hand() -> None:
    assert agreement([0.8, 0.7, 0.6, 0.1], [0.7, 0.8, 0.6, 0.1]) == Agreement(4, pytest.approx(0.8), 2)
    assert agreement([0.3, 0.1 + 0.2, 0.9], [0.5, 0.5, 0.6]) == Agreement(3, pytest.approx(1.0), 3)
    assert agreement([0.9, np.nan, 0.1], [0.1, 0.5, 0.9]) == Agreement(2, pytest.approx(-1.0), 0)
    assert np.isnan(agreement([0.5], [0.2]).spearman)
    with pytest.raises(InputError, match="same explainers"):
        agreement([0.1, 0.2], [0.1, 0.2, 0.3])


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).eval()


def two_audits(**changes: Any) -> Audits:
    def one(seed: int) -> Audit:
        x = torch.randn(5, 6, generator=torch.Generator().manual_seed(seed))
        scores = {"gef": GEF(sigma=0.5, draws=2, segments=2), "fast_gef": FastGEF(sigma=0.5, draws=2)}
        explainers = ["gradient", "input_x_gradient", "saliency"]
        return Audit(models={"net": network()}, inputs=x, explainers=explainers, scores=scores, controls=False, companions=False)

    return Audits(**{"audits": {"first": one(1), "second": one(2)}, "title": "Two <audits>", "summary": agreements, **changes})


def values(result: JointResult | Result) -> NDArray[np.float64]:
    return result.table()["value"].to_numpy(dtype=np.float64)


def test_several_audits_are_what_each_is_alone(tmp_path: Path) -> None:
    audits = two_audits()
    joint = audits.run(tmp_path / "joint", progress=False)
    alone = [audit.run(tmp_path / name, progress=False) for name, audit in audits.audits.items()]
    np.testing.assert_array_equal(values(joint), np.concatenate([values(one) for one in alone]))
    assert joint.table()["audit"].unique().tolist() == ["first", "second"]
    assert joint.failures().empty
    assert joint.summary is not None
    assert joint.summary["explainers"].tolist() == [3, 3]
    assert "second / net" in str(joint)
    page = joint.save_report(tmp_path / "joint" / "report.html").read_text(encoding="utf-8")
    assert "Two &lt;audits&gt;" in page
    assert '<a href="first/report.html">Report of first</a>' in page
    assert (tmp_path / "joint" / "second" / "report.html").exists()


def test_several_audits_go_on_where_they_were_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audits, whole = two_audits(), Audit.run

    def stopped(self: Audit, folder: str, **given: Any) -> Result:
        if str(folder).endswith("second"):
            raise KeyboardInterrupt
        return whole(self, folder, **given)

    monkeypatch.setattr(Audit, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        audits.run(tmp_path, progress=False)
    monkeypatch.undo()
    kept = written(tmp_path)
    assert kept
    assert set(audits.run(tmp_path, progress=False).results) == {"first", "second"}
    assert kept.items() < written(tmp_path).items()


def test_several_audits_want_a_folder_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(StoreError, match="choose an empty or a new folder"):
        two_audits().run(tmp_path, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failure_in_one_audit_is_named(tmp_path: Path) -> None:
    def broken(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if (inputs == 7.0).any():
            raise ValueError("no more")
        return inputs

    audits = two_audits(summary=None)
    x = torch.eye(5, 6)
    x[4, 0] = 7.0
    second = replace(audits.audits["second"], inputs=x, explainers={"broken": broken}, scores=["max_sensitivity"])
    with pytest.warns(match="no more"):
        joint = replace(audits, audits={**audits.audits, "second": second}).run(tmp_path, progress=False)
    assert set(joint.failures()["audit"]) == {"second"}
    assert "no more" in str(joint)
    assert joint.summary is None


@pytest.mark.parametrize("name", FILES)
def test_a_recipe_names_the_file_that_is_missing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    looked_for = "pneumoniamnist/pneumoniamnist.npz" if name == "faithfulness-controls" else FILES[name][0]
    with pytest.raises(InputError, match="VERACITY_DATA") as caught:
        run_recipe(name, tmp_path / "run", Scale.SMOKE, progress=False)
    assert looked_for.split("/")[0] in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("faithfulness-tabular", "faithfulness-ablation", "gef-agreement")])
def test_the_papers_scale_is_the_papers(name: str, tmp_path: Path) -> None:
    at_hand(name)
    audit: Audit = RECIPES[name].assemble(tmp_path, Scale.PAPER)
    assert as_inputs(audit.inputs).size() == (200 if name == "faithfulness-german" else 250)
    exact = audit.scores["gef"]  # type: ignore[call-overload]
    assert (exact.steps, exact.draws, exact.segments, exact.sigma) == (5, 5, 5, None)
    labels = {(entry["model"], entry["explainer"], entry["score"]) for entry in audit.about["published"]}
    assert {model for model, _, _ in labels} <= set(audit.models)  # type: ignore[arg-type]
    assert {score for _, _, score in labels} <= set(audit.scores)


def test_the_papers_methods_have_its_settings() -> None:
    methods: dict[str, Any] = local_methods("conv2")
    assert (methods["smooth_grad"].draws, methods["smooth_grad"].noise) == (10, 0.1)
    assert (methods["integrated_gradients"].steps, methods["integrated_gradients"].baseline) == (10, None)
    assert methods["gradient_shap"].draws == 10
    assert methods["lrp_epsilon"].epsilon == 1e-6
    assert len(methods) == 10
    for table in ("faithfulness A.4", "faithfulness A.5"):
        assert {entry["explainer"] for entry in published(table)} == {*local_methods(), "random_uniform"}


def test_published_figures_are_those_of_their_column() -> None:
    found = published("faithfulness A.4", {"compas-lr": "lr"})
    assert len(found) == 10
    assert {"model": "lr", "explainer": "gradient_shap", "score": "gef_public", "value": 0.66, "error": 0.01, "where": "Table A.4"} in found
    assert published("faithfulness A.5", {"derma": "x"}) == []
