"""What the robustness scores see, how bad it is, and how traces and draws become numbers: by hand, without a model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Size, Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.measures import Direction
from veracity.core.scores import Defaults, Measured, Pair, Reading, Reads, Subject
from veracity.explain import Gradient, Occlusion
from veracity.measure import mse, ssim
from veracity.perturb import Ball, Rotation
from veracity.scores.rare_events import LnPHat, LnPMisclassified, LnPTilde, by_counting, by_levels
from veracity.scores.robustness import Misinterpretation, SolHat, SolTilde, WorstLoss, loss
from veracity.walk import Genetic, GradientSearch, MonteCarlo, SimpleMonteCarlo, Strongest, SubsetSimulation

NAN = math.nan
DEFAULTS = Defaults(None, MonteCarlo())


def pair(before: list[float], after: list[float], scores: list[float], said: tuple[float, ...] = (1.0, 0.0, 0.0)) -> Pair:
    def reading(maps: list[float], logits: tuple[float, ...] | list[float]) -> Reading:
        found = {Reads.EXPLANATION: torch.tensor([maps]), Reads.SCORES: torch.tensor([list(logits)])}
        return Reading(torch.tensor([0]), found)

    return Pair(reading(before, said), reading(after, scores), torch.zeros(1, 1), lambda x: x, lambda x: x)


def seen(*rows: tuple[float, float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


# What is seen


def test_the_prediction_loss_by_hand() -> None:
    scores = torch.tensor([[2.0, 5.0, 1.0], [2.0, 5.0, 1.0], [4.0, 4.0, 0.0]])
    assert loss(scores, torch.tensor([1, 0, 0])).tolist() == [-3.0, 3.0, 0.0]
    with pytest.raises(InputError, match="at least two outputs"):
        loss(torch.ones(3, 1), torch.zeros(3, dtype=torch.int64))


def test_agreement_is_of_sizes_unless_signed() -> None:
    # |(1, -2, 3)| and |(-1, 2, -3)| are the same; with their signs they are opposites.
    both = pair([1.0, -2.0, 3.0], [-1.0, 2.0, -3.0], [3.0, 1.0, 0.0])
    assert SolHat().observe(both)[0].tolist() == pytest.approx([1.0, -2.0])
    assert SolHat(signed=True).observe(both)[0].tolist() == pytest.approx([-1.0, -2.0])
    by_hand = np.corrcoef([1.0, 2.0, 3.0], [1.0, 5.0, 0.5])[0, 1]
    assert SolTilde().observe(pair([1.0, -2.0, 3.0], [1.0, 5.0, -0.5], [0.0, 2.0, 0.0]))[0].tolist() == pytest.approx([by_hand, 2.0])


def test_the_label_is_the_class_that_was_predicted_before() -> None:
    assert SolHat().observe(pair([1.0, 2.0], [1.0, 2.0], [0.0, 1.0, 5.0], said=(0.0, 9.0, 0.0)))[0, 1].item() == 4.0
    assert WorstLoss().observe(pair([1.0], [1.0], [0.0, 1.0, 5.0])).tolist() == [[5.0]]


def test_undefined_agreement_is_nan_and_so_is_its_merit() -> None:
    found = SolHat().observe(pair([1.0, 2.0], [NAN, 2.0], [3.0, 0.0, 0.0]))
    assert found[0, 0].isnan()
    assert SolHat().merit(found).isnan().all()
    assert SolHat().merit(seen((0.3, NAN))).isnan().all()


# How bad it is


def test_the_least_alike_point_with_the_label_is_worst_for_f_hat() -> None:
    points = seen((-0.9, -1.0), (0.0, -0.001), (0.99, -5.0), (-1.0, 0.0), (-1.0, 2.0))
    merit = SolHat().merit(points)
    assert merit[:3].tolist() == pytest.approx([1.9, 1.0, 0.01])
    assert (merit.argsort(descending=True) == torch.arange(5)).all()
    assert ((merit >= 0) == torch.tensor([True, True, True, False, False])).all()


def test_the_most_alike_point_with_another_label_is_worst_for_f_tilde() -> None:
    points = seen((0.9, 0.0), (0.0, 3.0), (-1.0, 0.5), (1.0, -0.001), (1.0, -2.0))
    merit = SolTilde().merit(points)
    assert merit[:3].tolist() == pytest.approx([1.9, 1.0, 0.0])
    assert merit[3:].tolist() == [-0.001, -2.0]
    assert (merit.argsort(descending=True) == torch.arange(5)).all()


@pytest.mark.parametrize("score", [SolHat(), SolTilde(), LnPHat(), LnPTilde()])
def test_the_event_begins_at_the_threshold(score: Misinterpretation) -> None:
    inside, outside = (0.399, 0.401) if score.same_label else (0.601, 0.599)
    kept = -1.0 if score.same_label else 1.0
    assert score.merit(seen((inside, kept))).item() > score.event > score.merit(seen((outside, kept))).item()
    assert score.merit(seen((inside, -kept))).item() < score.event


def test_thresholds_of_other_measures() -> None:
    assert SolHat(measure=ssim, threshold=0.2).event == pytest.approx(0.8)
    assert SolTilde(measure=ssim, threshold=0.2).event == pytest.approx(1.2)
    # A distance: F-hat is a distance above the threshold, F-tilde one below it.
    assert SolHat(measure=mse, threshold=0.25).event == pytest.approx(0.25)
    assert SolTilde(measure=mse, threshold=0.25).event == pytest.approx(0.8)
    far, near = SolHat(measure=mse, threshold=0.25), SolTilde(measure=mse, threshold=0.25)
    assert far.merit(seen((0.3, -1.0))).item() > far.event > far.merit(seen((0.2, -1.0))).item()
    assert near.merit(seen((0.2, 1.0))).item() > near.event > near.merit(seen((0.3, 1.0))).item()
    assert near.merit(seen((1e9, 1.0))).item() >= 0.0


def test_directions() -> None:
    assert SolHat().direction is Direction.HIGHER
    assert SolTilde().direction is Direction.LOWER
    assert SolHat(measure=mse, threshold=1.0).direction is Direction.LOWER
    assert SolTilde(measure=mse, threshold=1.0).direction is Direction.HIGHER
    assert {score.direction for score in (LnPHat(), LnPTilde(), LnPMisclassified(), WorstLoss())} == {Direction.LOWER}
    assert LnPHat().centre == "median"
    assert SolHat().centre == "mean"
    assert WorstLoss().event == LnPMisclassified().event == 0.0


def test_the_smooth_merit_slopes_towards_the_constraint() -> None:
    point = seen((0.5, 0.3)).requires_grad_()
    (slope,) = torch.autograd.grad(SolHat().smooth(point).sum(), point)
    assert slope.tolist() == [[-1.0, -1.0]]
    point = seen((0.5, -0.3)).requires_grad_()
    (slope,) = torch.autograd.grad(SolTilde().smooth(point).sum(), point)
    assert slope.tolist() == [[1.0, 1.0]]
    assert SolHat().smooth(seen((0.5, -0.3))).item() == SolHat().merit(seen((0.5, -0.3))).item() == 0.5


# From what was kept to numbers


def traced(**quantities: list[list[float]]) -> Measured:
    return Measured({name: np.array(value)[:, None, :] for name, value in quantities.items()})


def test_the_worst_feasible_point_of_all_searches() -> None:
    # Two searches (draws) of two steps (levels) each; the third sample has no feasible point, the fourth was not searched.
    agreement = np.array([[[0.9, 0.5], [0.7, 0.2]], [[0.1, 0.3], [NAN, 0.4]], [[0.1, 0.2], [0.3, 0.4]], [[NAN, NAN], [NAN, NAN]]])
    lost = np.array([[[-1, -1], [-1, 1]], [[1, -1], [-1, -1]], [[1, 1], [0, 2]], [[NAN, NAN], [NAN, NAN]]], dtype=float)
    measured = Measured({"agreement": agreement, "loss": lost})
    assert SolHat().values(measured)[:, 0].tolist() == pytest.approx([0.5, 0.3, NAN, NAN], nan_ok=True)
    assert SolHat().remarks(measured)["infeasible"].tolist() == [False, False, True, False]
    assert SolTilde().values(measured)[:, 0].tolist() == pytest.approx([0.2, 0.1, 0.4, NAN], nan_ok=True)
    assert SolTilde().remarks(measured)["infeasible"].tolist() == [False, False, False, False]
    assert WorstLoss().values(measured)[:, 0].tolist() == pytest.approx([1.0, 1.0, 2.0, NAN], nan_ok=True)


def test_levels_multiply_and_their_variances_add() -> None:
    measured = traced(
        probability=[[0.1, 0.1, 0.3], [0.5, NAN, NAN], [0.1, 0.1, 0.1], [0.1, NAN, NAN], [0.01, NAN, NAN], [NAN, NAN, NAN]],
        variance=[[0.09, 0.07, 0.09], [0.04, NAN, NAN], [0.1, 0.1, 0.1], [0.1, NAN, NAN], [NAN, NAN, NAN], [NAN, NAN, NAN]],
        state=[[0, 0, 1], [1, NAN, NAN], [0, 0, 3], [0, 2, NAN], [2, NAN, NAN], [NAN, NAN, NAN]],
    )
    found = by_levels(measured, floor=-6.0)
    assert found.value.tolist() == pytest.approx([math.log(0.003), math.log(0.5), -6.0, math.log(0.1), math.log(0.01), NAN], nan_ok=True)
    assert found.error.tolist() == pytest.approx([0.5, 0.2, NAN, NAN, NAN, NAN], nan_ok=True)
    assert found.censored.tolist() == [False, False, True, False, False, False]
    assert found.failed.tolist() == [False, False, False, True, True, False]
    remarks = LnPHat(walk=SubsetSimulation(floor=-6.0)).remarks(measured)
    assert remarks["censored"].tolist() == [False, False, True, True, True, False]
    assert remarks["stuck"].tolist() == [False, False, False, True, True, False]


def test_a_sample_about_which_nothing_is_known_has_no_value() -> None:
    nothing = traced(probability=[[NAN]], variance=[[NAN]], state=[[2.0]])
    assert np.isnan(LnPHat().values(nothing)).all()
    assert LnPHat().remarks(nothing)["stuck"].tolist() == [True]
    assert LnPHat().remarks(nothing)["censored"].tolist() == [False]


def test_counting_by_hand() -> None:
    inside = np.array([[True, False, False, False], [False] * 4, [False] * 4, [True, True, False, False]])
    drawn = np.array([[True] * 4, [True] * 4, [False] * 4, [True, True, False, False]])
    found = by_counting(inside, drawn, drawn)
    assert found.value.tolist() == pytest.approx([math.log(0.25), math.log(0.75), NAN, 0.0], nan_ok=True)
    assert found.error.tolist() == pytest.approx([math.sqrt(0.75 / (0.25 * 4)), NAN, NAN, 0.0], nan_ok=True)
    assert found.censored.tolist() == [False, True, False, False]


def test_draws_of_plain_monte_carlo_are_counted() -> None:
    agreement = np.array([[[0.3], [0.5], [0.2], [NAN]], [[0.9], [0.9], [0.9], [0.9]]])
    lost = np.array([[[-1.0], [-1.0], [1.0], [-1.0]], [[-1.0], [-1.0], [-1.0], [2.0]]])
    measured = Measured({"agreement": agreement, "loss": lost})
    walk = MonteCarlo(draws=4)
    assert LnPHat(walk=walk).values(measured)[:, 0].tolist() == pytest.approx([math.log(1 / 4), math.log(3 / 4)])
    assert LnPHat(walk=walk).remarks(measured)["censored"].tolist() == [False, True]
    assert LnPTilde(walk=walk).values(measured)[:, 0].tolist() == pytest.approx([math.log(3 / 4), math.log(1 / 4)])
    assert LnPTilde(walk=walk).remarks(measured)["censored"].tolist() == [True, False]
    assert LnPMisclassified(walk=walk).values(Measured({"loss": lost}))[:, 0].tolist() == pytest.approx([math.log(1 / 4)] * 2)


# Where they look


def request(score: Misinterpretation | WorstLoss | LnPMisclassified, explainer: object = None) -> object:
    (found,) = score.requests(Subject("net", explainer, Size([1, 6, 6])), DEFAULTS)
    return found


def test_they_ask_for_a_ball_or_for_what_is_given() -> None:
    plain = request(SolHat(radius=0.2, norm="l2", range=(0.0, 1.0)), Gradient())
    assert plain.space == Ball(radius=0.2, norm="l2", range=(0.0, 1.0)).fit(Size([1, 6, 6]))
    assert plain.follow
    assert plain.common_draws
    assert not request(SolHat(follow=False), Gradient()).follow
    assert request(SolHat(space=Rotation(), walk=Genetic()), Gradient()).space == Rotation()
    assert SolHat().requests(Subject("net", None, Size([3])), DEFAULTS) == ()
    assert WorstLoss().requests(Subject("net", Gradient(), Size([3])), DEFAULTS) == ()
    assert request(LnPMisclassified()).walk == SubsetSimulation()


def test_searches_without_slopes_where_there_are_none() -> None:
    both = Strongest(searches=(Genetic(), GradientSearch()))
    assert request(SolHat(walk=both), Gradient()).walk == both
    assert request(SolHat(walk=both), Occlusion()).walk == Strongest(searches=(Genetic(),))
    assert request(SolHat(walk=both, space=Ball(radius=0.1)), Gradient()).walk == both
    with pytest.raises(SpecError, match="'occlusion' has none: use the walk 'genetic'"):
        request(SolHat(walk=GradientSearch()), Occlusion())


@pytest.mark.parametrize("walk", [Genetic(), GradientSearch(), Strongest()])
@pytest.mark.parametrize("score", [LnPHat, LnPTilde])
def test_a_probability_needs_a_walk_that_tells_one(walk: Genetic, score: type[LnPHat]) -> None:
    with pytest.raises(SpecError, match=f"'{walk.name}' looks for the worst point, but"):
        request(score(walk=walk), Gradient())
    with pytest.raises(SpecError, match="needs a probability"):
        request(LnPMisclassified(walk=walk))
    assert request(score(walk=SimpleMonteCarlo()), Gradient()).walk == SimpleMonteCarlo()
