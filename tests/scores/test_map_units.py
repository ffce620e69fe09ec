"""Which scores change when a map is multiplied by 100: those alone that say so, and no explainers are ranked by them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veracity import Audit, CrossTrained
from veracity.app import answers
from veracity.cli.gate import check_units, requirements
from veracity.core.errors import InputError, Note, SpecError
from veracity.core.measures import Direction, Measure
from veracity.core.registry import MEASURES, SCORES
from veracity.core.scores import Reads, Score
from veracity.measure import angle, l2
from veracity.perturb import CyclicShift
from veracity.report.figures.ranking import ranking_data
from veracity.report.reading import read
from veracity.report.section import section
from veracity.results import Result
from veracity.scores.faithfulness.correlation import Infidelity
from veracity.scores.fidelity import PartScore
from veracity.scores.gef import FastGEF
from veracity.scores.sensitivity import AvgSensitivity, LocalLipschitz, MaxSensitivity, RelativeInputStability
from veracity.scores.stability import MeGe, ReCo
from veracity.scores.symmetry import Equivariance
from veracity.studies.meta import MetaEvaluation

STABILITY = {"mege", "reco", "reco_auc", "reco_ks"}
SMALL = {
    "faithfulness_correlation": {"subset_size": 8, "nr_runs": 6},
    "mu_f": {"nr_runs": 6},
    "mu_fidelity": {"nr_samples": 6, "patch_size": 2},
    "region_perturbation": {"patch_size": 4},
    "selectivity": {"patch_size": 4},
    "sensitivity_n": {"nr_runs": 6, "steps": 3},
    "faithfulness_estimate": {"features_in_step": 8},
    "monotonicity": {"features_in_step": 8},
    "irof": {"segments": 8},
    **{name: {"nr_samples": 2, "features_in_step": 8} for name in ("monotonicity_correlation", "non_sensitivity")},
    "infidelity": {"patch_size": 4},
    **{name: {"sigma": 1.0, "draws": 2} for name in ("fast_gef", "gef", "fast_gef_public", "gef_public", "input_alignment")},
    **{
        name: {"radius": 30.0, "range": None, "walk": {"name": "genetic", "population": 10, "generations": 3, "elites": 2}}
        for name in ("sol_f_hat", "sol_f_tilde")
    },
    **{
        name: {"radius": 30.0, "range": None, "walk": {"name": "simple_monte_carlo", "draws": 20}}
        for name in ("ln_p_f_hat", "ln_p_f_tilde")
    },
}
ABSOLUTE: dict[str, Score] = {
    "max_sensitivity, absolute": MaxSensitivity(relative=False),
    "avg_sensitivity, absolute": AvgSensitivity(relative=False),
    "local_lipschitz, absolute": LocalLipschitz(relative=False),
    "equivariance by distance": Equivariance(measure=l2),
}
BESIDE: dict[str, Score] = {
    "infidelity, scaled": Infidelity(patch_size=4, scaled=True),
    "max_sensitivity by angle": MaxSensitivity(measure=angle),
}
IN_UNITS = {"completeness", "infidelity", *ABSOLUTE}


def explained(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    with torch.enable_grad():
        x = inputs.detach().requires_grad_()
        scores = model(x).gather(1, targets.to(x.device)[:, None]).sum()
        (slope,) = torch.autograd.grad(scores, x)
    return (slope * inputs).detach()


def hundredfold(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return 100.0 * explained(model, inputs, targets)


def images(count: int = 5) -> Tensor:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(2))


def classifier(seed: int = 3) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, 6), nn.Tanh(), nn.Linear(6, 3)).eval()


def values(audit: Audit, folder: Path, label: str) -> tuple[np.ndarray, np.ndarray]:
    return both(audit.run(folder, progress=False), label)


def both(result: Result, label: str) -> tuple[np.ndarray, np.ndarray]:
    failures = result.failures()
    assert failures[failures["score"] == label].empty
    frame = result.samples(label)
    return tuple(frame.loc[frame["explainer"] == name, "value"].to_numpy() for name in ("plain", "hundredfold"))  # type: ignore[return-value]


def explanation_scores() -> dict[str, Score]:
    named = {
        name: SCORES.build({"name": name, **SMALL.get(name, {})}) for name in SCORES if name not in STABILITY | {"refit_gef", "consistency"}
    }
    every = {**named, **ABSOLUTE, **BESIDE}
    # scores of parts need gates: tests/scores/test_fidelity.py has the same test for them
    return {name: score for name, score in every.items() if score.reads is Reads.EXPLANATION and not isinstance(score, PartScore)}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Every score of maps and of maps a hundred times as large, in one audit."""
    x = images()
    audit = Audit(
        models=classifier(), inputs=x, targets=classifier()(x).argmax(1), explainers={"plain": explained, "hundredfold": hundredfold},
        scores=explanation_scores(), symmetry=CyclicShift(axes=(-1,)), controls=False, companions=False, outputs="logits",
        truth=x > 0.5,
    )  # fmt: skip
    return audit.run(tmp_path_factory.mktemp("units"), progress=False)


@pytest.mark.parametrize("label", sorted(explanation_scores()))
def test_a_map_times_100_scores_the_same_or_the_score_says_that_it_is_in_map_units(result: Result, label: str) -> None:
    score = explanation_scores()[label]
    plain, larger = both(result, label)
    assert np.isfinite(plain).any()
    same = np.allclose(plain, larger, rtol=1e-3, atol=1e-6, equal_nan=True)
    assert same is not score.in_map_units, f"{label}: {plain} and {larger}"
    assert score.in_map_units == (label in IN_UNITS)


@pytest.mark.parametrize("name", sorted(STABILITY))
def test_scores_of_stability_too(tmp_path: Path, name: str) -> None:
    x = images(12)
    labels = torch.arange(12) // 4
    models = CrossTrained(models=[classifier(seed) for seed in range(3)], folds=[k % 3 for k in range(12)])
    audit = Audit(
        models={"model": models}, inputs=x, targets=labels, explainers={"plain": explained, "hundredfold": hundredfold}, scores=[name],
        controls=False, companions=False, outputs="logits",
    )  # fmt: skip
    with pytest.warns(Note, match="folds"):
        result = audit.run(tmp_path, progress=False)
    table = result.table().set_index("explainer")["value"]
    assert table["plain"] == pytest.approx(table["hundredfold"], nan_ok=True)
    assert not SCORES[name]().in_map_units


def test_what_a_score_says_follows_its_settings() -> None:
    assert MeGe(measure=l2).in_map_units
    assert not ReCo(measure=l2).in_map_units
    assert not FastGEF().in_map_units
    assert RelativeInputStability(floor=0).in_map_units
    assert not RelativeInputStability().in_map_units
    assert MaxSensitivity(relative=False).about()["in_map_units"]
    assert "in_map_units" not in MaxSensitivity().about()


@pytest.mark.parametrize("name", sorted(name for name in MEASURES if name != "categorical_agreement"))
def test_measures_too(name: str) -> None:
    measure: Measure = MEASURES[name]
    a, b = torch.randn(2, 4, 1, 12, 12, generator=torch.Generator().manual_seed(1)).double()
    same = torch.allclose(measure(100 * a, 100 * b), measure(a, b), rtol=1e-6)
    assert same is not measure.in_map_units


def test_a_measure_may_say_it_itself() -> None:
    function = MEASURES["l2"].function
    bounded = Measure(name="near", function=function, direction=Direction.HIGHER, range=(0.0, 1.0), units=True)
    free = Measure(name="ratio", function=function, direction=Direction.LOWER, range=(0.0, float("inf")), units=False)
    assert bounded.in_map_units
    assert not free.in_map_units


# --- who may compare what


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    audit = Audit(
        models={"a": classifier(3), "b": classifier(4)}, inputs=images(8), explainers={"plain": explained, "small": hundredth},
        scores={"absolute": MaxSensitivity(relative=False), "max_sensitivity": MaxSensitivity()}, controls=False, outputs="logits",
    )  # fmt: skip
    return audit.run(tmp_path_factory.mktemp("units"), progress=False)


def hundredth(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return explained(model, inputs, targets) / 100.0


def test_a_map_divided_by_100_is_not_better(run: Result) -> None:
    table = run.table().set_index(["score", "model", "explainer"])["value"]
    assert table["absolute", "a", "small"] == pytest.approx(table["absolute", "a", "plain"] / 100, rel=1e-3)
    assert table["max_sensitivity", "a", "small"] == pytest.approx(table["max_sensitivity", "a", "plain"], rel=1e-3)


def test_differences_between_explainers_are_refused_and_between_models_given(run: Result) -> None:
    with pytest.raises(InputError, match="The score 'absolute' is in the map's own units, so that explainers cannot be compared by it"):
        run.differences("absolute")
    models = run.differences("absolute", between="models")
    assert len(models) == 2
    assert np.isfinite(models["difference"]).all()
    assert len(run.differences("max_sensitivity")) == 2


def test_the_report_names_nobody_by_it(run: Result) -> None:
    reading = read(run)
    (absolute,) = [section(reading, "absolute")]
    assert absolute.first.in_map_units
    assert absolute.matrices == ()
    told = [str(one.striptags()) for one in absolute.answer.sentences]
    assert told == ["Absolute has the units of the map, so it compares samples and models, not explainers."]
    assert [row.explainer for row in ranking_data(reading.rows, "absolute", reading.models).explainers] == ["plain", "small"]


def test_one_bound_does_not_hold_for_several_explainers(run: Result) -> None:
    with pytest.raises(SpecError, match="in each map's own units, so one bound cannot hold for 2 explainers"):
        check_units(requirements(run)[0], ["absolute<=1"], [])
    check_units(requirements(run)[0], ["absolute<=1"], ["plain"])
    check_units(requirements(run)[0], ["max_sensitivity<=1"], [])


def test_meta_evaluation_ranks_nobody_by_it(tmp_path: Path) -> None:
    meta = MetaEvaluation(
        model=classifier(), inputs=images(), explainers=["gradient", "saliency"], scores=[MaxSensitivity(relative=False)], outputs="logits"
    )
    with pytest.raises(InputError, match="The score 'max_sensitivity' is in the map's own units, and meta-evaluation ranks explainers"):
        meta.run(tmp_path, progress=False)


def test_the_interface_says_no_better_direction(run: Result) -> None:
    shown = {one["name"]: one for one in answers.audit_numbers(Path(run.path), (0,))["scores"]}
    assert shown["absolute"]["direction"] == ""
    assert "in each map's own units" in shown["absolute"]["title"]
    assert shown["max_sensitivity"]["direction"] == "lower"
