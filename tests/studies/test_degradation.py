from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from degradation_nets import SAMPLES, Burst, Fits, blobs, network, seeded
from veracity import Audit
from veracity.core.errors import InputError, SpecError, StoreError
from veracity.core.inputs import TensorInputs
from veracity.core.measures import Direction
from veracity.core.registry import RECIPES
from veracity.core.training import CrossTrained
from veracity.engine.crosstrain.training import FoldTraining
from veracity.engine.store import RunFolder
from veracity.explain import Precomputed
from veracity.perturb import ConvolutionNoise, WrongLabels, wrong_labels
from veracity.perturb.weights.copies import key
from veracity.recipe import Recipe, Scale, run_recipe
from veracity.results import Result
from veracity.statistics.trend import holm, trend
from veracity.studies import load
from veracity.studies.damaged_models import as_damages
from veracity.studies.degradation import DegradationCheck, DegradationResult

SHARES = (0.2, 0.5)


def check(**changes: Any) -> DegradationCheck:
    inputs, labels = blobs()
    given: dict[str, Any] = {"model": seeded(), "inputs": inputs, "targets": labels, "explainers": ["gradient"], "scores": ["complexity"]}
    return DegradationCheck(**{**given, "damages": ["weights"], "shares": SHARES, **changes})


def crossed(fit: Any, **changes: Any) -> DegradationCheck:
    model = CrossTrained(fit=fit, folds=2, build=network)
    return check(
        **{
            "model": model,
            "damages": ["weights", "labels"],
            "shares": (0.25,),
            "confidence": 0.85,
            "scores": ["complexity", "mege"],
            **changes,
        }
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DegradationResult]:
    folder = tmp_path_factory.mktemp("plain") / "run"
    return folder, check().run(folder, progress=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DegradationResult, Fits]:
    folder, fits = tmp_path_factory.mktemp("crossed") / "run", Fits()
    return folder, crossed(fits).run(folder, progress=False), fits


def value(result: DegradationResult, damage: str, share: float, seed: int, score: str = "complexity") -> float:
    rows = result.rows
    found = rows[(rows["damage"] == damage) & (rows["share"] == share) & (rows["seed"] == seed) & (rows["score"] == score)]
    return float(found["value"].item())


def test_every_case_is_one_run_folder(plain: tuple[Path, DegradationResult], trained: tuple[Path, DegradationResult, Fits]) -> None:
    names = {path.name for path in plain[0].iterdir() if path.is_dir()}
    assert names == {f"{case}-{seed}" for case in ("undamaged", "weights-0.2", "weights-0.5") for seed in range(3)}
    names = {path.name for path in trained[0].iterdir() if path.is_dir()}
    assert names == {f"{case}-{seed}" for case in ("undamaged", "weights-0.25", "labels-0.25") for seed in range(3)}


def test_what_the_folder_holds_is_what_was_found(plain: tuple[Path, DegradationResult]) -> None:
    kept = load(plain[0])
    assert isinstance(kept, DegradationResult)
    pd.testing.assert_frame_equal(kept.table(), plain[1].table())
    pd.testing.assert_frame_equal(kept.trends(), plain[1].trends())
    rows = kept.requirements()
    assert set(rows["score"]) == {"slope", "p_adjusted"}
    assert len(rows) == 2 * len(kept.trends())


def test_damaged_weights_by_hand(plain: tuple[Path, DegradationResult], tmp_path: Path) -> None:
    inputs, labels = blobs()
    model = seeded()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    noise = ConvolutionNoise(shares=SHARES).parameters(model, 0, 1, key("degradation", 2, "weights"))
    model.load_state_dict({**state, **noise})
    audit = Audit(models=model, inputs=inputs, targets=labels, explainers=["gradient"], scores=["complexity"], controls=False, seed=2)
    expected = audit.run(tmp_path / "by hand", progress=False)
    assert value(plain[1], "weights", 0.5, 2) == pytest.approx(expected.table()["value"].item(), abs=1e-12)
    rows = plain[1].rows
    accuracy = rows[(rows["damage"] == "weights") & (rows["share"] == 0.5) & (rows["seed"] == 2)]["accuracy"].item()
    assert accuracy == expected.manifest["models"]["model"]["accuracy"]
    assert value(plain[1], "weights", 0.5, 0) != value(plain[1], "weights", 0.5, 1)


def test_a_second_run_measures_and_trains_nothing_anew(trained: tuple[Path, DegradationResult, Fits]) -> None:
    folder, first, fits = trained
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.suffix in {".parquet", ".safetensors"}}
    count = len(fits.seen)
    second = crossed(fits).run(folder, progress=False)
    assert len(fits.seen) == count == 3 * 2 * 2
    assert {path: path.stat().st_mtime_ns for path in files} == files
    pd.testing.assert_frame_equal(first.rows, second.rows)
    pd.testing.assert_frame_equal(first.trends(), second.trends())


def test_wrong_labels_are_learnt_and_true_ones_audited(trained: tuple[Path, DegradationResult, Fits]) -> None:
    folder, result, fits = trained
    _, labels = blobs()
    for seed in range(3):
        learnt = [targets for used, targets in fits if used == seed]
        assert len(learnt) == 4
        right, wrong = (Result(folder / f"{name}-{seed}") for name in ("undamaged", "labels-0.25"))
        assert sum(int((targets == 0).sum()) for targets in learnt[:2]) == int((labels == 0).sum())
        expected = wrong_labels(labels, 0.25, seed)
        assert int((expected != labels).sum()) == SAMPLES // 4
        assert sum(int(targets.sum()) for targets in learnt[2:]) == int(expected.sum())
        samples = [[fold["held_out"] for fold in one.manifest["folds"]] for one in (right, wrong)]
        assert samples[0] == samples[1]
    rows = result.rows.drop_duplicates(["damage", "share", "seed"]).set_index(["damage", "seed"])["accuracy"]
    assert rows[("", 0)] > rows[("labels", 0)]


def test_damaged_folds_are_the_undamaged_ones_with_noise(trained: tuple[Path, DegradationResult, Fits], tmp_path: Path) -> None:
    folder, result, fits = trained
    inputs, labels = blobs()
    base = CrossTrained(fit=fits, folds=2, build=network, seed=1)
    before = len(fits.seen)
    found = FoldTraining(base, TensorInputs(inputs), labels).train(RunFolder(str(folder / "undamaged-1")), progress=False)
    assert len(fits.seen) == before
    space, made = ConvolutionNoise(shares=(0.25,)), []
    for fold, module in enumerate(found.modules):
        copy = network().eval()
        copy.load_state_dict({**module.state_dict(), **space.parameters(module, fold, 0, key("degradation", 1, "weights"))})
        made.append(copy)
    audit = Audit(
        models=CrossTrained(models=made, folds=found.members), inputs=inputs, targets=labels, explainers=["gradient"], scores=["mege"],
        controls=False, companions=False, seed=1,
    )  # fmt: skip
    expected = audit.run(tmp_path / "by hand", progress=False).table()["value"].item()
    assert value(result, "weights", 0.25, 1, "mege") == pytest.approx(expected, abs=1e-12)


def test_the_model_comes_back_untouched(tmp_path: Path) -> None:
    model = seeded()
    state, modes = {name: tensor.clone() for name, tensor in model.state_dict().items()}, [part.training for part in model.modules()]
    random = torch.get_rng_state()
    check(model=model, shares=(0.5,), confidence=0.85).run(tmp_path, progress=False)
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert modes == [part.training for part in model.modules()]
    assert torch.equal(torch.get_rng_state(), random)


def test_a_model_that_bursts_is_counted(tmp_path: Path) -> None:
    result = check(damages={"burst": Burst()}).run(tmp_path, progress=False)
    assert sorted(result.lost) == ["burst-0.5-0", "burst-0.5-1", "burst-0.5-2"]
    table = result.table().set_index("share")
    assert (table.loc[0.5, "n"], table.loc[0.5, "undefined"], table.loc[0.2, "n"]) == (0, 3, 3)
    (row,) = result.trends().to_dict("records")
    assert (row["verdict"], row["undefined"], np.isnan(row["p"])) == ("undefined", 3, True)
    assert "burst-0.5-0, burst-0.5-1, burst-0.5-2 failed: " in str(result)
    assert list(result.failures()["case"]) == sorted(result.lost)
    assert "burst-0.5-2" in result.save_report(tmp_path / "report.html").read_text(encoding="utf-8")


def by_hand() -> DegradationResult:
    """Two explainers under one damage: one falls with it, the other does not move."""
    rows = []
    for seed in range(3):
        for share in (0.0, 0.1, 0.3):
            for explainer, number in (("down", 1.0 - share * (1 + seed)), ("flat", 0.5)):
                head = {"damage": "weights" if share else "", "share": share, "seed": seed, "score": "mege", "explainer": explainer}
                rows.append({**head, "value": number, "accuracy": 0.9 - share, "direction": "higher", "least": 0.2, "most": 2.0})
    return DegradationResult(pd.DataFrame(rows), ("weights",), {}, pd.DataFrame())


def test_tables_of_known_rows() -> None:
    result = by_hand()
    table = result.table().set_index(["explainer", "share"])
    assert table.loc[("down", 0.3), "value"] == pytest.approx(0.4)
    assert table.loc[("down", 0.3), "high"] == pytest.approx(0.4 + 4.302653 * 0.3 / np.sqrt(3), abs=1e-6)
    assert table.loc[("down", 0.3), "low"] == 0.2
    assert table.loc[("flat", 0.1), ["low", "high", "n", "accuracy"]].tolist() == pytest.approx([0.5, 0.5, 3, 0.8])
    trends = result.trends().set_index("explainer")
    assert trends.loc["down", "slope"] == pytest.approx(-2.0)
    assert trends["accuracy_drop"].tolist() == pytest.approx([0.3, 0.3])
    values = np.array([[1.0, 1 - 0.1 * s, 1 - 0.3 * s] for s in (1, 2, 3)])
    p = trend(values, [0.0, 0.1, 0.3], Direction.HIGHER).p
    assert trends["p"].tolist() == pytest.approx([p, 1.0])
    assert trends["p_adjusted"].tolist() == pytest.approx(holm(np.array([p, 1.0])).tolist())
    assert trends["verdict"].tolist() == ["follows", "does not follow"]


def test_lower_is_better_turns_the_direction() -> None:
    result = by_hand()
    turned = DegradationResult(result.rows.assign(direction="lower"), ("weights",), {}, pd.DataFrame())
    assert turned.trends().set_index("explainer").loc["down", ["p", "verdict"]].tolist() == [pytest.approx(1.0), "goes the other way"]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"seeds": 2}, InputError, "at least 3 seeds per level, not 2"),
        ({"damages": ["labels"]}, InputError, r"CrossTrained\(fit=...\), or damages=\['weights'\]"),
        ({"damages": "weights"}, SpecError, r"such as \['weights'\]"),
        ({"damages": []}, SpecError, "no damage to check"),
        ({"damages": ["weight"]}, SpecError, "Did you mean 'weights'"),
        ({"damages": [nn.Linear(2, 2)]}, SpecError, "A damage is 'weights'"),
        ({"damages": [ConvolutionNoise(), ConvolutionNoise(sigma=1.0)]}, SpecError, "a name of its own"),
        ({"damages": {"a/b": "weights"}}, SpecError, "a name of its own"),
        ({"damages": [Burst()], "shares": (0.1, 0.2, 0.3)}, SpecError, "has 2 levels for 3 shares"),
        ({"shares": (0.3, 0.1)}, SpecError, "ascending"),
        ({"shares": (0.3,)}, InputError, "no trend can be told from chance"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(6, 3))}, InputError, "no convolution"),
        ({"model": {"a": seeded()}}, InputError, "not dict"),
        ({"explainers": {"maps": Precomputed(maps=torch.zeros(SAMPLES, 1, 6))}}, InputError, "'maps' is maps without"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_a_sentence_before_anything_is_written(
    changes: dict[str, Any], error: type, words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        check(**changes).run(tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_network_without_convolutions_is_found_before_its_training(tmp_path: Path) -> None:
    fits = Fits()
    model = CrossTrained(fit=fits, folds=2, build=lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 3)))
    with pytest.raises(InputError, match="no convolution"):
        crossed(fits, model=model).run(tmp_path / "run", progress=False)
    assert not fits.seen


def test_given_models_cannot_learn_wrong_labels() -> None:
    model = CrossTrained(models=[seeded(0), seeded(1)], folds=torch.arange(SAMPLES) // 2 % 2)
    with pytest.raises(InputError, match="trained anew"):
        crossed(None, model=model).check()


def test_other_files_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(StoreError, match="holds other files"):
        check().run(tmp_path, progress=False)


def test_damages_have_names() -> None:
    found = as_damages([ConvolutionNoise(sigma=0.2), "labels"])
    assert found == {"convolution_noise": ConvolutionNoise(sigma=0.2), "labels": WrongLabels()}
    assert as_damages({"strong": ConvolutionNoise(sigma=2.0)}) == {"strong": ConvolutionNoise(sigma=2.0)}


def test_a_check_moves_to_a_device() -> None:
    one = check()
    assert one.on("cpu").model is one.model
    model = crossed(Fits()).on("cpu").model
    assert isinstance(model, CrossTrained)
    assert model.device == "cpu"


def test_a_recipe_may_be_a_degradation_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Recipe("damage", lambda folder, scale: check(shares=(0.5,), confidence=0.85))
    monkeypatch.setattr(RECIPES, "_items", {**RECIPES._items, "damage": asked})
    for _ in range(2):
        found = run_recipe("damage", tmp_path / "run", Scale.SMOKE, progress=False)
    assert isinstance(found, DegradationResult)
    assert (tmp_path / "run" / "report.html").stat().st_size > 5_000
