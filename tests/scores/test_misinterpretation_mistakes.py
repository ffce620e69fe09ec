"""Robustness of interpretation where something is wrong: it is said in a sentence, and counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from search_audits import AROUND, BOTH, GENETIC, SUBSET, audit_of, images, one, tanh_net, values
from veracity import Result
from veracity.core.errors import InputError, Note, SpecError
from veracity.core.scores import Score
from veracity.core.spaces import InputSpace
from veracity.core.targets import Class, Neuron
from veracity.measure import mse, ssim
from veracity.perturb import CyclicShift, GaussianNoise, Rotation
from veracity.perturb.weights import ParameterNoise
from veracity.scores.rare_events import LnPHat, LnPMisclassified, LnPTilde
from veracity.scores.robustness import SolHat, SolTilde, WorstLoss
from veracity.scores.sensitivity import MaxSensitivity
from veracity.scores.symmetry import Equivariance
from veracity.walk import Adaptive, Genetic, GradientSearch, MonteCarlo, Strongest, SubsetSimulation


def sentence(raised: pytest.ExceptionInfo[Exception]) -> None:
    text = str(raised.value)
    assert text.endswith((".", "?"))
    assert "\n" not in text
    assert "Traceback" not in text


def test_a_misclassified_seed_is_named_and_counted(tmp_path: Path) -> None:
    net, x = tanh_net(), images(5)
    labels = net(x).argmax(dim=1)
    labels[[1, 3]] = (labels[[1, 3]] + 1) % 3
    scores = [SolHat(**AROUND, walk=GENETIC), LnPHat(**AROUND, walk=SUBSET), LnPMisclassified(**AROUND, walk=MonteCarlo(draws=20))]
    with pytest.warns(Note, match=r"2 of 5 samples are misclassified and have no sol_f_hat, ln_p_f_hat, ln_p_misclassified: 1, 3\."):
        result = audit_of(net, x, scores, targets=labels).run(tmp_path, progress=False)
    for score in ("sol_f_hat", "ln_p_f_hat", "ln_p_misclassified"):
        assert np.isnan(values(result, score))[[1, 3]].all()
        assert np.isfinite(values(result, score))[[0, 2, 4]].all()
        assert one(result, score)["n"] == 3
        assert one(result, score)["undefined"] == 2
    assert one(result, "sol_f_hat")["evaluations"] == 3 * 100
    assert one(result, "sol_f_hat")["infeasible"] == 0
    assert any("misclassified" in note["text"] for note in result.manifest["notes"])


def test_no_seed_at_all(tmp_path: Path) -> None:
    net, x = tanh_net(), images(3)
    with pytest.raises(InputError, match="No model classifies any of the 3 samples correctly") as raised:
        audit_of(net, x, [SolHat(**AROUND, walk=GENETIC)], targets=(net(x).argmax(1) + 1) % 3).run(tmp_path, progress=False)
    sentence(raised)


def test_without_labels_the_predictions_stand_for_them(tmp_path: Path) -> None:
    with pytest.warns(Note, match="the labels are not known"):
        result = audit_of(tanh_net(), images(2), [WorstLoss(**AROUND, walk=GENETIC)], targets=None).run(tmp_path, progress=False)
    assert one(result, "worst_loss")["n"] == 2


def test_how_the_ball_was_cut_is_said(tmp_path: Path) -> None:
    x = images(2)
    result = audit_of(tanh_net(), x, [WorstLoss(radius=0.1, walk=GENETIC)]).run(tmp_path / "data", progress=False)
    assert any(f"between {float(x.min()):g} and {float(x.max()):g}" in note["text"] for note in result.manifest["notes"])
    with pytest.warns(Note, match="then clamped to the data range"):
        audit_of(tanh_net(), x, [WorstLoss(radius=0.1, norm="l2", range=(0.0, 1.0), walk=GENETIC)]).run(tmp_path / "l2", progress=False)


@pytest.mark.parametrize(
    ("score", "error", "said"),
    [
        (SolHat(radius=0.1, range=(0.4, 0.6)), InputError, r"samples leave the ball's range, 0\.4 to 0\.6"),
        (SolHat(radius=0.1, norm="l7", range=(0.0, 1.0)), SpecError, "norm of a ball"),
        (Equivariance(space=Rotation(), walk=Genetic()), SpecError, "'genetic' searches for the worst case of a robustness score"),
        (MaxSensitivity(walk=SubsetSimulation()), SpecError, "'subset_simulation' searches for the worst case of a robustness score"),
        (LnPHat(**AROUND, walk=Genetic()), SpecError, "needs a probability"),
        (SolHat(space=CyclicShift(axes=(-1,)), walk=GradientSearch()), SpecError, "use the walk 'genetic'"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_measured(
    score: SolHat, error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said) as raised:
        audit_of(tanh_net(), images(2), [score]).run(tmp_path, progress=False)
    sentence(raised)
    assert not list(tmp_path.glob("**/*.parquet"))


@pytest.mark.filterwarnings("ignore:.*is predicted for none of the")
def test_a_fixed_target_does_not_follow(tmp_path: Path) -> None:
    net, x = tanh_net(), images(2)
    with pytest.raises(SpecError, match="pass target='predicted', or give the score follow=False") as raised:
        audit_of(net, x, [SolHat(**AROUND, walk=GENETIC)], target=Class(index=1)).run(tmp_path, progress=False)
    sentence(raised)
    result = audit_of(net, x, [SolHat(**AROUND, walk=GENETIC, follow=False)], target=Class(index=1)).run(tmp_path, progress=False)
    assert np.isfinite(values(result, "sol_f_hat")).all()


def test_a_model_with_one_output(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 1)).double().eval()
    with pytest.raises(InputError, match="needs a model with one output for each of at least two classes, unlike 'net'"):
        audit_of(net, images(2), [WorstLoss(**AROUND, walk=GENETIC)], targets=None).prepare()


def test_numbers_are_no_classes() -> None:
    with pytest.raises(InputError, match=r"The target of sample 0 is 0\.5, but model 'net' has 3 classes"):
        audit_of(tanh_net(), images(2), [WorstLoss(**AROUND, walk=GENETIC)], targets=torch.tensor([0.5, 1.5])).prepare()


@pytest.mark.parametrize(
    ("score", "wrong"),
    [
        (WorstLoss(space=ParameterNoise(sigma=0.1), walk=GENETIC), "use WeightNeighbourhood"),
        (WorstLoss(space=GaussianNoise(sigma=0.1, levels=3), walk=GENETIC), "has 3 levels"),
        (SolHat(walk=Adaptive()), "stops when a mean is known"),
        (LnPHat(threshold=-2.0), "from -1 to 1, not -2.0"),
        (LnPHat(measure=mse), "give one in units of 'mse'"),
        (SolHat(walk=Strongest(searches=())), "needs at least one search"),
    ],
)
def test_settings_that_make_no_sense(score: Score, wrong: str) -> None:
    with pytest.raises(SpecError, match=wrong):
        audit_of(tanh_net(), images(2), [score]).prepare()


def test_a_neuron_has_no_label() -> None:
    with pytest.raises(SpecError, match="is about predicted classes"):
        audit_of(tanh_net(), images(2), [WorstLoss(**AROUND, walk=GENETIC)], target=Neuron(layer="1", unit=0)).prepare()


def holes(share: float) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    """Gradient times input that is NaN wherever the first pixel has moved up by a share of the radius."""
    first = images(3)[:, 0, 0, 0]

    def explain(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        leaf = inputs.detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(leaf).gather(1, targets[:, None]).sum(), leaf)
        nearest = (inputs[:, 0, 0, 0][:, None] - first).abs().argmin(dim=1)
        gone = inputs[:, 0, 0, 0] > first[nearest] + share
        return torch.where(gone[:, None, None, None], torch.nan, slope * inputs)

    return explain


def test_an_explainer_that_fails_inside_the_ball_is_counted(tmp_path: Path) -> None:
    around = {"radius": 0.05, "range": (0.0, 1.0)}
    scores = [SolHat(**around, walk=GENETIC), LnPHat(**around, threshold=0.995, walk=SubsetSimulation(population=40, steps=3, floor=-12.0))]
    result = audit_of(tanh_net(), images(3), scores, explainers={"holes": holes(0.01)}).run(tmp_path, progress=False)
    for score in ("sol_f_hat", "ln_p_f_hat"):
        (series,) = [series for series in result.series if series.score == score]
        undefined = np.nanmax(series.measured["undefined"][:, 0], axis=1)
        assert ((undefined > 0) & (undefined < np.nanmax(series.measured["evaluations"][:, 0], axis=1))).all()
        assert np.isfinite(series.per_sample).all()


def test_an_explainer_that_always_fails_away_from_the_input(tmp_path: Path) -> None:
    around = {"radius": 0.05, "range": (0.0, 1.0)}
    scores = [SolHat(**around, walk=GENETIC), LnPHat(**around, walk=SUBSET)]
    result = audit_of(tanh_net(), images(3), scores, explainers={"holes": outside}).run(tmp_path, progress=False)
    for score in ("sol_f_hat", "ln_p_f_hat"):
        assert np.isnan(values(result, score)).all()
        assert one(result, score)["undefined"] == 3
    assert one(result, "ln_p_f_hat")["stuck"] == 3


def outside(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Defined on the data alone."""
    known = (inputs[:, None] == images(3)).flatten(2).all(dim=2).any(dim=1)
    return torch.where(known[:, None, None, None], inputs, torch.nan)


def test_a_search_in_vain_is_counted(tmp_path: Path) -> None:
    around = {"radius": 1e-4, "range": (0.0, 1.0)}
    scores = [SolTilde(**around, walk=GENETIC), LnPTilde(**around, walk=SUBSET), SolHat(**around, walk=GENETIC)]
    result = audit_of(tanh_net(), images(3), scores).run(tmp_path, progress=False)
    row = one(result, "sol_f_tilde")
    assert (row["infeasible"], row["n"], row["undefined"]) == (3, 0, 3)
    assert math.isnan(row["value"])
    assert one(result, "ln_p_f_tilde")["censored"] == 3
    assert values(result, "ln_p_f_tilde") == [-12.0] * 3
    assert one(result, "sol_f_hat")["infeasible"] == 0
    assert result.worst("sol_f_tilde") == []


def test_a_search_without_slopes_is_said(tmp_path: Path) -> None:
    with pytest.warns(Note, match="'sol_f_hat' is searched without gradients"):
        result = audit_of(tanh_net(), images(2), [SolHat(**AROUND, walk=BOTH)], explainers={"holes": outside}).run(tmp_path, progress=False)
    assert one(result, "sol_f_hat")["evaluations"] == 2 * 100


@dataclass(frozen=True, kw_only=True)
class Brighter(InputSpace):
    """A space of one's own, which nobody registered: every pixel brighter by up to a tenth."""

    name = "brighter"

    @property
    def latents(self) -> int:
        return 1

    def decode(self, latent: Tensor) -> Tensor:
        return 0.1 * torch.special.ndtr(latent)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        return x + elements.to(x).reshape(-1, 1, 1, 1)


def test_a_space_of_ones_own_is_searched_and_read(tmp_path: Path) -> None:
    scores = [SolHat(space=Brighter(), walk=GENETIC), LnPMisclassified(space=Brighter(), walk=SUBSET)]
    audit_of(tanh_net(), images(2), scores).run(tmp_path, progress=False)
    result = Result(tmp_path)
    assert one(result, "sol_f_hat")["evaluations"] == 2 * 100
    assert "2 of 2 feasible" in str(result)
    assert "2 of 2 censored" in str(result)


def test_a_ball_has_no_say_in_another_space() -> None:
    with pytest.raises(SpecError, match="looks in the space 'brighter', and not in a ball: leave out radius"):
        audit_of(tanh_net(), images(2), [SolHat(space=Brighter(), radius=0.3, walk=GENETIC)]).prepare()


def test_a_window_that_does_not_fit_is_said_before_anything_runs() -> None:
    with pytest.raises(InputError, match="The window of 'ssim'"):
        audit_of(tanh_net(), images(2), [SolHat(measure=ssim, **AROUND, walk=GENETIC)]).prepare()


def test_a_map_without_variance_is_undefined_and_not_in_vain(tmp_path: Path) -> None:
    around = {"radius": 5.0, "range": None}
    result = audit_of(tanh_net(), images(3), [SolTilde(**around, walk=GENETIC)], explainers=["constant_map", "input_x_gradient"]).run(
        tmp_path, progress=False
    )
    table = result.table().set_index("explainer")
    assert table.loc["constant_map", ["infeasible", "undefined"]].tolist() == [0, 3]
    assert table.loc["input_x_gradient", "n"] == 3


def test_labels_that_are_no_classes() -> None:
    targets = torch.tensor([20, 21])
    with pytest.raises(InputError, match="The target of sample 0 is 20, but model 'net' has 3 classes"):
        audit_of(tanh_net(), images(2), [WorstLoss(**AROUND, walk=GENETIC)], targets=targets).prepare()
    with pytest.raises(InputError, match="the score 'worst_loss' needs to know which samples it gets right"):
        audit_of(tanh_net(), images(2), [WorstLoss(**AROUND, walk=GENETIC)], targets=targets, outputs="raw").prepare()
