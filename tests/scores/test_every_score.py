from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import veracity.scores  # noqa: F401 - registers the scores
from small import series_inputs, small_net
from veracity import Audit, Neuron
from veracity.core.errors import InputError
from veracity.core.registry import SCORES
from veracity.core.scores import Reads, reads_after
from veracity.explain import Precomputed
from veracity.scores import GEF, FastGEF, MaxSensitivity

STABILITY = {"mege", "reco", "reco_auc", "reco_ks"}
"""Of cross-trained models alone: tests/scores/test_stability_audit.py."""
REFITS = {"refit_gef"}
"""Of estimators alone: tests/engine/test_refits.py."""
GATES = {"fidelity_plus", "fidelity_minus", "characterisation", "unfaithfulness"}
"""Of edges, nodes and words: tests/scores/test_fidelity.py."""
SYMMETRY = {"equivariance", "symmetry", "invariance", "model_invariance", "model_equivariance", "action_floor"}

WORST = ("sol_f_hat", "sol_f_tilde", "worst_loss")
LIKELY = ("ln_p_f_hat", "ln_p_f_tilde", "ln_p_misclassified")


def images(count: int = 5) -> Tensor:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(2))


def classifier() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 6), nn.ReLU(), nn.Linear(6, 3)).eval()


def labels() -> Tensor:
    with torch.no_grad():
        found: Tensor = classifier()(images()).argmax(1)
    return found


def settings(name: str) -> dict[str, object]:
    """Of scores whose usual size does not fit eight by eight pixels."""
    small = {
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
        "fast_gef": {"sigma": 1.0, "draws": 2},
        "gef": {"sigma": 1.0, "draws": 2},
        "fast_gef_public": {"sigma": 1.0, "draws": 2},
        "gef_public": {"sigma": 1.0, "draws": 2},
        "input_alignment": {"sigma": 1.0, "draws": 2},
        "input_growth": {"sigma": 1.0},
        "weight_growth": {"sigma": 1.0},
        **{
            name: {"radius": 30.0, "range": None, "walk": {"name": "genetic", "population": 10, "generations": 3, "elites": 2}}
            for name in WORST
        },
        **{name: {"radius": 30.0, "range": None, "walk": {"name": "simple_monte_carlo", "draws": 20}} for name in LIKELY},
    }
    return {"name": name, **small.get(name, {})}


def test_every_score_runs_by_its_name_beside_the_others(tmp_path: Path) -> None:
    names = [name for name in SCORES if name not in SYMMETRY | STABILITY | REFITS | GATES and type(SCORES[name]).__module__ != __name__]
    scores = [settings(name) for name in names]
    given = {
        "models": classifier(),
        "inputs": images(),
        "targets": labels(),
        "outputs": "logits",
        "controls": False,
        "truth": images() > 0.5,
    }
    result = Audit(**given, explainers=["gradient"], scores=scores).run(tmp_path, progress=False)  # type: ignore[arg-type]
    assert result.failures().empty
    own = result.table()
    assert set(own["score"]) == set(names)
    assert np.isfinite(own.loc[own["score"] != "consistency", "value"]).all()  # no two of these five maps are the same
    for _, row in own.iterrows():
        assumed = result.manifest["assumptions"].get(row["score"])
        assert (assumed is None) == np.isnan(row["holds"])


def test_scores_together_give_what_they_give_alone(tmp_path: Path) -> None:
    names = ["relative_input_stability", "relative_output_stability", "local_lipschitz", "pixel_flipping", "mprt", "fast_gef"]
    explainers = ["gradient", {"name": "smooth_grad", "draws": 6}]
    given = {"models": classifier(), "inputs": images(), "explainers": explainers, "outputs": "logits", "controls": False}
    together = Audit(**given, scores=[settings(name) for name in names]).run(tmp_path / "all", progress=False)  # type: ignore[arg-type]
    for name in names:
        alone = Audit(**given, scores=[settings(name)]).run(tmp_path / name, progress=False)  # type: ignore[arg-type]
        for key, values in alone.draws(name).items():
            assert np.allclose(values, together.draws(name)[key], rtol=1e-6, equal_nan=True)


def test_a_neuron_may_be_explained(tmp_path: Path) -> None:
    target = Neuron(layer="3", unit=2)
    scores = [FastGEF(sigma=0.5, outputs="explained"), GEF(sigma=0.5, draws=2)]
    result = Audit(models=classifier(), inputs=images(), explainers=["gradient"], scores=scores, target=target, controls=False).run(
        tmp_path, progress=False
    )
    assert result.failures().empty
    assert result.table()["value"].between(-1, 1).all()


@pytest.mark.parametrize("name", sorted(name for name in SCORES if name not in SYMMETRY | STABILITY | GATES))
def test_maps_without_an_explainer_serve_the_scores_that_explain_nothing_anew(tmp_path: Path, name: str) -> None:
    score = SCORES.build(settings(name))
    audit = Audit(
        models=classifier(),
        inputs=images(),
        targets=labels(),
        explainers={"mine": images()},
        scores=[score],
        controls=False,
        outputs="logits",
        truth=images() > 0.5,
    )
    if Reads.EXPLANATION in reads_after(score):
        with pytest.raises(InputError, match="without their explainer"):
            audit.prepare()
    else:
        assert audit.prepare().jobs


def test_given_maps_stand_for_the_base_and_the_explainer_for_the_rest(tmp_path: Path) -> None:
    x, net = series_inputs(4), small_net()
    maps = torch.randn(4, 1, 12, generator=torch.Generator().manual_seed(0))
    explainers = {"plain": "gradient", "given": Precomputed(maps=maps, explainer="gradient")}
    result = Audit(models=net, inputs=x, explainers=explainers, scores=[MaxSensitivity(relative=False)], controls=False).run(
        tmp_path, progress=False
    )
    plain, given = (result.draws("max_sensitivity")["model", label] for label in explainers)
    assert (given > plain).all()
    with pytest.raises(InputError, match="3 maps for 4 inputs"):
        Audit(models=net, inputs=x, explainers={"given": maps[:3]}, scores=["complexity"], controls=False).prepare()
