from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Size, Tensor
from walk_fakes import Line, Ring

from veracity.core.errors import SpecError
from veracity.core.registry import WALKS
from veracity.core.spaces import Space
from veracity.core.walks import Ask, Searcher, Trace
from veracity.perturb import Ball, Rotation
from veracity.walk import GradientSearch
from veracity.walk.gradient import FAR, NEAR, has_slopes

CPU = torch.device("cpu")
SAMPLES = torch.tensor([12, 5, 40])
Merit = Callable[[Tensor, Tensor], Tensor]
"""From the numbers of the samples (R,) and their elements (R, p) to merits (R,)."""


def search_of(walk: GradientSearch, space: Space, samples: Tensor = SAMPLES, seed: int = 0) -> Searcher:
    return walk.searcher(space, samples, seed, 0.6, CPU)


def play(searcher: Searcher, samples: Tensor, merit: Merit, spoil: Callable[[int, Tensor, Tensor], None] | None = None) -> list[Ask]:
    """The engine by hand: judge what was asked, take its slope, tell both."""
    asked: list[Ask] = []
    while (ask := searcher.ask()) is not None:
        element = ask.element.clone().requires_grad_()
        value = merit(samples[ask.row], element)
        (slope,) = torch.autograd.grad(value.sum(), element)
        told = value.detach().clone()
        if spoil is not None:
            spoil(len(asked), told, slope)
        searcher.tell(told, torch.stack((told, element.detach()[:, 0].to(told)), dim=1), slope)
        asked.append(ask)
    return asked


def directions(samples: Tensor, size: int) -> Tensor:
    """A direction of its own for each sample, no entry close to zero."""
    place = torch.arange(1, size + 1)
    return torch.cos(samples[:, None] + place) + 0.3 * torch.cos(samples[:, None] + place).sign()


def linear(samples: Tensor, element: Tensor) -> Tensor:
    return (directions(samples, element.shape[1]).to(element) * element).sum(1)


def test_the_corner_of_a_box() -> None:
    space = Ball(radius=0.1).fit(Size([20]))
    searcher = search_of(GradientSearch(population=3, steps=20), space)
    play(searcher, SAMPLES, linear)
    ask, merit = searcher.worst()
    corner = 0.1 * directions(SAMPLES, 20).sign()
    torch.testing.assert_close(ask.element, corner.double(), atol=1e-5, rtol=0.0)
    torch.testing.assert_close(merit, linear(SAMPLES, corner).double(), rtol=1e-4, atol=0.0)
    assert ask.row.tolist() == [0, 1, 2]


def test_the_pole_of_a_ball() -> None:
    # A linear merit on the ball |z| <= r is largest at r a / |a|, where it is r |a|.
    space = Ball(radius=0.5, norm="l2").fit(Size([12]))
    searcher = search_of(GradientSearch(population=5, steps=100, rate=0.5), space)
    play(searcher, SAMPLES, linear)
    ask, merit = searcher.worst()
    most = 0.5 * directions(SAMPLES, 12).norm(dim=1)
    assert ((merit <= most + 1e-6) & (merit > 0.995 * most)).all()
    assert (ask.element.norm(dim=1) <= 0.5 + 1e-6).all()


def test_a_peak_inside_a_ball() -> None:
    peak = 0.04 * torch.cos(torch.arange(8.0))

    def quadratic(_samples: Tensor, element: Tensor) -> Tensor:
        return 1.0 - (element - peak).square().sum(1)

    for norm in ("linf", "l2", "l1"):
        space = Ball(radius=0.1 if norm != "l1" else 0.4, norm=norm).fit(Size([8]))
        searcher = search_of(GradientSearch(population=8, steps=100, rate=0.5), space)
        play(searcher, SAMPLES, quadratic)
        ask, _ = searcher.worst()
        assert float((ask.element - peak).norm(dim=1).max()) < 0.01


def test_a_rotation_is_found() -> None:
    angles = torch.tensor([0.4, 2.0, 5.5], dtype=torch.float64)

    def turned(samples: Tensor, element: Tensor) -> Tensor:
        wanted = angles[(samples[:, None] == SAMPLES).long().argmax(1)]
        return torch.cos(element[:, 0] - wanted)

    searcher = search_of(GradientSearch(population=6, steps=40, rate=0.3), Rotation().fit(Size([1, 8, 8])))
    play(searcher, SAMPLES, turned)
    ask, merit = searcher.worst()
    assert ask.element.dtype == torch.float64
    torch.testing.assert_close(ask.element[:, 0], angles, atol=0.05, rtol=0.0)
    assert float(merit.min()) > 0.998


def test_steps_are_those_of_the_formula() -> None:
    walk, space = GradientSearch(population=2, steps=4, rate=0.8), Ball(radius=0.1).fit(Size([5]))
    asked = play(search_of(walk, space), SAMPLES, linear)
    latent = [torch.special.ndtri(0.5 * (ask.element.double() / 0.1 + 1.0)) for ask in asked]
    sign = directions(SAMPLES[asked[0].row], 5).sign().double()
    for step in range(3):
        expected = (latent[step] + 0.8 * (1 - step / 4) * sign).clamp(-FAR, FAR)
        torch.testing.assert_close(latent[step + 1], expected, atol=2e-3, rtol=0.0)


def test_starts_are_the_centre_and_uniform_points() -> None:
    asked = search_of(GradientSearch(population=400), Line(width=50), torch.arange(5)).ask()
    assert asked is not None
    spread = asked.element.reshape(5, 400, 50).std(dim=2)
    torch.testing.assert_close(spread[:, 0], torch.full((5,), NEAR, dtype=torch.float64), atol=0.05, rtol=0.0)
    assert float(spread[:, 1:].mean()) == pytest.approx(1.0, abs=0.02)


def test_many_samples_at_once_are_the_samples_one_by_one() -> None:
    space, walk = Ball(radius=0.1).fit(Size([30])), GradientSearch(population=4, steps=6)

    def curved(samples: Tensor, element: Tensor) -> Tensor:
        return torch.sin(40 * directions(samples, 30).to(element) * element).sum(1)

    together = search_of(walk, space)
    asked = play(together, SAMPLES, curved)
    ask, merit = together.worst()
    trace = together.trace()
    for number, sample in enumerate(SAMPLES):
        alone = search_of(walk, space, sample[None])
        for own, whole in zip(play(alone, sample[None], curved), asked, strict=True):
            assert torch.equal(own.element, whole.element[whole.row == number])
            assert torch.equal(own.draw, whole.draw[whole.row == number])
        one, own_merit = alone.worst()
        assert torch.equal(one.element[0], ask.element[number])
        assert (one.draw[0], own_merit[0]) == (ask.draw[number], merit[number])
        for name, values in alone.trace().quantities.items():
            assert torch.equal(values, trace.quantities[name][trace.row == number])


def test_seeds_and_samples_differ() -> None:
    first, second = (search_of(GradientSearch(), Line(), seed=seed).ask() for seed in (0, 1))
    assert first is not None
    assert second is not None
    assert not torch.equal(first.element, second.element)
    assert len(torch.unique(first.element[:, 0])) == 30


def test_evaluations_are_exact_and_numbered() -> None:
    walk, space = GradientSearch(population=4, steps=7), Ball(radius=0.1).fit(Size([3]))
    searcher = search_of(walk, space)
    asked = play(searcher, SAMPLES, linear)
    assert searcher.ask() is None
    assert walk.length(space) == 28
    assert [len(ask) for ask in asked] == [12] * 7
    for ask in asked:
        assert ask.row.tolist() == [0] * 4 + [1] * 4 + [2] * 4
        assert ask.level.tolist() == [0] * 12
        assert not ask.element.requires_grad
    for row in range(3):
        assert torch.cat([ask.draw[ask.row == row] for ask in asked]).tolist() == list(range(28))
    assert searcher.trace().quantities["evaluations"].reshape(7, 3)[-1].tolist() == [28.0] * 3


def by_sample(trace: Trace, name: str, samples: int) -> Tensor:
    """A quantity, (samples, steps)."""
    return torch.stack([trace.quantities[name][trace.row == row] for row in range(samples)])


def test_the_trace_only_rises_and_ends_at_the_worst() -> None:
    space = Ball(radius=0.1).fit(Size([10]))

    def wavy(samples: Tensor, element: Tensor) -> Tensor:
        return torch.sin(100 * directions(samples, 10).to(element) * element).sum(1)

    searcher = search_of(GradientSearch(population=3, steps=15), space)
    asked = play(searcher, SAMPLES, wavy)
    ask, worst = searcher.worst()
    merit = by_sample(searcher.trace(), "merit", 3)
    every = torch.stack([wavy(SAMPLES[one.row], one.element).reshape(3, 3).amax(1) for one in asked], dim=1)
    torch.testing.assert_close(merit, every.cummax(dim=1).values.double())
    assert torch.equal(merit[:, -1], worst)
    assert torch.equal(by_sample(searcher.trace(), "seen0", 3)[:, -1], worst)
    assert torch.equal(by_sample(searcher.trace(), "seen1", 3)[:, -1], ask.element[:, 0].double())
    torch.testing.assert_close(wavy(SAMPLES, ask.element).double(), worst)
    first = torch.cat([one.element[(one.row == 0) & (one.draw == ask.draw[0])] for one in asked])
    assert torch.equal(first[0], ask.element[0])
    assert searcher.trace().level[searcher.trace().row == 1].tolist() == list(range(15))


def test_a_restart_without_a_merit_or_a_slope_stays_and_spoils_nothing() -> None:
    space, walk = Ball(radius=0.1).fit(Size([6])), GradientSearch(population=3, steps=5)
    clean = play(search_of(walk, space), SAMPLES, linear)

    def spoil(step: int, merit: Tensor, slope: Tensor) -> None:
        merit[1] = math.nan
        slope[4, 2] = math.nan
        slope[8] = math.inf
        merit[5] = math.nan if step == 0 else merit[5]

    searcher = search_of(walk, space)
    spoilt = play(searcher, SAMPLES, linear, spoil)
    others = [row for row in range(9) if row not in (1, 4, 5, 8)]
    for step in range(5):
        assert torch.equal(spoilt[step].element[others], clean[step].element[others])
        assert torch.equal(spoilt[step].element[[1, 4, 8]], clean[0].element[[1, 4, 8]])
    assert torch.equal(spoilt[1].element[5], spoilt[0].element[5])
    assert not torch.equal(spoilt[2].element[5], spoilt[1].element[5])
    assert searcher.worst()[1].isfinite().all()


def test_a_sample_without_any_merit_is_left_out() -> None:
    def spoil(_step: int, merit: Tensor, _slope: Tensor) -> None:
        merit[3:6] = math.nan

    searcher = search_of(GradientSearch(population=3, steps=4), Ball(radius=0.1).fit(Size([6])))
    play(searcher, SAMPLES, linear, spoil)
    ask, merit = searcher.worst()
    assert ask.row.tolist() == [0, 2]
    assert len(merit) == len(ask.element) == 2
    for name in ("merit", "seen0", "seen1"):
        kept = by_sample(searcher.trace(), name, 3)
        assert kept[1].isnan().all()
        assert kept[[0, 2]].isfinite().all()


def test_violations_lead_back_to_what_is_allowed() -> None:
    # Allowed where z_0 <= 0; the merit is minus the violation elsewhere. The slope outside points back.
    def fenced(_samples: Tensor, element: Tensor) -> Tensor:
        return torch.where(element[:, 0] <= 0, 1.0 + element.sum(1), -element[:, 0])

    searcher = search_of(GradientSearch(population=6, steps=60), Ball(radius=0.1).fit(Size([4])))
    play(searcher, SAMPLES, fenced)
    ask, merit = searcher.worst()
    assert (ask.element[:, 0] <= 0).all()
    assert float(merit.min()) > 1.28  # of at most 1.3


def test_slopes_in_double_precision_and_no_samples() -> None:
    searcher = search_of(GradientSearch(population=2, steps=2), Ball(radius=0.1).fit(Size([4])))
    ask = searcher.ask()
    assert ask is not None
    assert ask.element.dtype == torch.float64
    searcher.tell(torch.zeros(6, dtype=torch.float64), torch.zeros(6, 2), torch.ones(6, 4, dtype=torch.float64))
    after = searcher.ask()
    assert after is not None
    assert after.element.dtype == torch.float64
    assert (after.element > ask.element).all()
    assert search_of(GradientSearch(), Line(), torch.arange(0)).ask() is None


def test_it_needs_slopes() -> None:
    walk = GradientSearch(population=2)
    assert walk.follows_slopes
    assert walk.without_slopes() is None
    assert walk.points == 2
    searcher = search_of(walk, Line())
    searcher.ask()
    with pytest.raises(SpecError, match="The walk 'gradient' needs the slopes of the merit, but got none: use the walk 'genetic'"):
        searcher.tell(torch.zeros(6), torch.zeros(6, 1))


@pytest.mark.parametrize("space", [Ring(size=5), Line(width=0)], ids=["counted", "empty"])
def test_a_space_without_slopes_is_one_sentence(space: Space) -> None:
    assert not has_slopes(space)
    with pytest.raises(SpecError, match=r"follows slopes, but the elements of '(ring|line)' do not change smoothly"):
        search_of(GradientSearch(), space)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("population", 0), ("steps", 0), ("steps", 2.5), ("rate", 0.0), ("rate", math.nan), ("rate", math.inf), ("rate", True)],
)
def test_settings_that_lead_nowhere(setting: str, value: object) -> None:
    with pytest.raises(SpecError, match=f"The setting '{setting}' of walk 'gradient' must be a"):
        search_of(GradientSearch(**{setting: value}), Line())  # type: ignore[arg-type]


def test_it_can_be_written_down() -> None:
    walk = GradientSearch(population=3, steps=7, rate=0.5)
    assert walk.spec() == {"name": "gradient", "population": 3, "steps": 7, "rate": 0.5}
    assert WALKS.build(walk.spec()) == walk
