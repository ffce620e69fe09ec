from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Context, Explainer
from veracity.core.randomness import Draws
from veracity.explain import DeepViz, Fourier, Maco, RandomGlobal, Visualisation
from veracity.explain.visualise.images import (
    COLOURS,
    NAdam,
    blur,
    boxes,
    crop,
    mean_amplitude,
    picture,
    resized_amplitude,
    with_colours,
    without_colours,
    without_smallest,
)
from veracity.testing.explainers import CountingModel, ExplainerConformance

METHODS = [Fourier, partial(Maco, amplitude=torch.rand(1, 12, 7, generator=torch.Generator().manual_seed(0))), DeepViz]
Kind = Callable[..., Visualisation]


def image_net(channels: int = 1, side: int = 12, classes: int = 5) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layers = [nn.Conv2d(channels, 4, 3, padding=1), nn.Tanh(), nn.AvgPool2d(4), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(4 * (side // 4) ** 2, classes)).eval()


def lesson(one: Visualisation, net: nn.Module, like: Tensor, classes: int = 5, copy: int = 0, batch: int = 512) -> dict[str, Tensor]:
    context = Context(Draws.of(7, torch.arange(classes), copy), batch, example=like)
    return dict(one.lesson.learn(net, context))


class VisualisationConformance(ExplainerConformance):
    """Inputs of five classes, so that every input has an image of its own."""

    tolerance = 1e-3
    test_cost_is_counted = test_calls_are_full_and_fit = None  # costs are those of lessons, which have tests of their own

    def model(self) -> nn.Module:
        return image_net(2, 9)

    def inputs(self) -> Tensor:
        return super().inputs()


class TestVisualisations(VisualisationConformance):
    @pytest.fixture(
        autouse=True, params=[kind(steps=3, common=common) for kind in METHODS for common in (True, False)], ids=lambda one: one.name
    )
    def choose(self, request: pytest.FixtureRequest) -> None:
        self.one = request.param

    def explainer(self) -> Explainer:
        return self.one


class TestRandomGlobal(VisualisationConformance):
    test_leaves_no_trace_after_an_error = None

    def explainer(self) -> Explainer:
        return RandomGlobal()


@pytest.mark.parametrize("kind", METHODS)
def test_every_input_of_a_class_has_the_class_image_and_each_class_is_explained_once(kind: Kind) -> None:
    net, one = CountingModel(image_net()), kind(steps=4)
    inputs, targets = torch.randn(20, 1, 12, 12), torch.arange(20) % 2 * 3
    found = one.explain(net, inputs, targets, Context(Draws.of(7, torch.arange(20)), 512))
    assert (found[targets == 3] == found[1]).all()
    assert not torch.equal(found[0], found[1])
    cost = one.lesson_cost(inputs.shape[1:], 2)
    assert {name: sum(rows) for name, rows in net.log.items()} == {"forward": cost.forward, "backward": cost.backward}
    assert cost.backward == 4 * 2


@pytest.mark.parametrize("kind", METHODS)
def test_one_trajectory_can_be_read_at_every_stop(kind: Kind) -> None:
    """The images at a stop are those of a shorter trajectory, bit by bit, and cost nothing more."""
    net, like = CountingModel(image_net()), torch.zeros(1, 1, 12, 12)
    shared = kind().at(6, 2, 3)
    assert [one.steps for one in shared] == [2, 3, 6]
    assert len({repr(one.lesson.spec()) for one in shared}) == 1
    learnt = lesson(shared[0], net, like)
    assert sum(net.log["backward"]) == 6 * 5
    for one in shared:
        alone = lesson(replace(one, stops=()), image_net(), like)
        assert torch.equal(one.read(learnt, torch.arange(5)), alone[f"step {one.steps}"])


@pytest.mark.parametrize("kind", METHODS)
def test_scores_grow_along_the_trajectory(kind: Kind) -> None:
    net, like = image_net(), torch.zeros(1, 1, 12, 12)
    learnt = lesson(kind().at(0, 40)[0], net, like)
    before, after = (net(learnt[f"step {step}"]).diagonal() for step in (0, 40))
    assert (after > before).all()


def test_random_numbers_belong_to_classes_and_are_common_to_all_copies() -> None:
    net, like = image_net(), torch.zeros(1, 1, 12, 12)
    some = Context(Draws.of(7, torch.tensor([1, 4])), 512, example=like)
    for one in (Fourier(steps=3), METHODS[1](steps=3), DeepViz(steps=3)):
        base, copy = (lesson(one, net, like, copy=copy)["step 3"] for copy in (0, 9))
        assert torch.equal(base, copy)
        torch.testing.assert_close(one.learn(net, some)["step 3"], base[[1, 4]], rtol=1e-3, atol=1e-4)
        fresh = lesson(replace(one, common=False), net, like, copy=9)["step 3"]
        assert not (fresh == base).flatten(1).all(1).any()
        assert torch.equal(lesson(replace(one, common=False), net, like)["step 3"], base)


def test_a_batch_that_is_too_small_for_all_classes_gives_the_same_images() -> None:
    net, like = image_net(1, 32), torch.zeros(1, 1, 32, 32)
    for one in (Fourier(steps=3), DeepViz(steps=3)):
        large, small = (lesson(one, net, like, batch=batch)["step 3"] for batch in (512, 3))
        torch.testing.assert_close(large, small, rtol=1e-3, atol=1e-3)


def test_a_lesson_answers_for_its_classes_and_others_are_explained_at_once() -> None:
    net, inputs = image_net(), torch.zeros(3, 1, 12, 12)
    one = Fourier(steps=2)
    learnt = one.learn(net, Context(Draws.of(7, torch.tensor([0, 3])), 512, example=inputs[:1]))
    counting = CountingModel(net)
    context = Context(Draws.of(7, torch.arange(3)), 512, learnt=learnt)
    assert torch.equal(one.explain(counting, inputs, torch.tensor([3, 0, 3]), context), learnt["step 2"][[1, 0, 1]])
    assert counting.log["forward"] == []
    found = one.explain(counting, inputs, torch.tensor([3, 0, 2]), context)
    assert torch.equal(found[:2], learnt["step 2"][[1, 0]])
    assert sum(counting.log["forward"]) == 2  # the steps of class 2 alone


def test_fourier_is_the_formula() -> None:
    """One step, written the slow way: NAdam moves every number of the spectrum by about its rate against the gradient's sign."""
    net, like = image_net(3, 8), torch.zeros(1, 3, 8, 8)
    one, draws = Fourier(steps=1, noise=0.0), Draws.of(7, torch.tensor([2]))
    start = one.start(draws, like)[0].float().requires_grad_()

    def slow(parameters: Tensor) -> Tensor:
        scaled = torch.zeros(3, 8, 5, dtype=torch.complex64)
        for row in range(8):
            for column in range(5):
                frequency = np.hypot(min(row, 8 - row) / 8, column / 8)
                scaled[:, row, column] = torch.complex(*parameters[:, row, column].unbind(-1)) / max(frequency, 1 / 8) ** 1.5
        image = torch.fft.irfft2(scaled, s=(8, 8), norm="ortho")
        image = (image - image.mean()) / (image.std() + 1e-4)
        image = torch.stack([sum(image[k] * COLOURS[k][c] for k in range(3)) for c in range(3)])
        return 5.0 / (1.0 + torch.exp(-image)) - 2.5

    found = one.learn(net, Context(draws, 512, example=like))["step 1"][0]
    (gradient,) = torch.autograd.grad(-net(slow(start)[None])[0, 2], start)
    momentum, next_momentum = (0.9 * (1 - 0.5 * 0.96 ** (0.004 * step)) for step in (1, 2))
    hat = next_momentum * 0.1 * gradient / (1 - momentum * next_momentum) + (1 - momentum) * gradient / (1 - momentum)
    with torch.no_grad():
        expected = slow(start - hat / (gradient.abs() + 1e-8))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-3)
    assert found.abs().max() < 2.5


def test_maco_keeps_the_amplitudes() -> None:
    """Up to the mean, and to the sigmoid, which bends large values alone: a small span of standardised values is nearly straight."""
    given = torch.rand(1, 12, 7, generator=torch.Generator().manual_seed(0)) + 0.5
    one = Maco(steps=3, amplitude=given)
    like = torch.zeros(1, 1, 12, 12)
    parameters = one.start(Draws.of(7, torch.arange(4)), like).float()
    inner = slice(1, 6)  # columns that have no mirror image in a real image's spectrum
    spectrum = one.spectrum(like)(parameters)
    assert torch.allclose(spectrum.abs(), given.expand(4, 1, 12, 7), atol=1e-5)
    image = torch.fft.irfft2(spectrum, s=(12, 12), norm="ortho")
    torch.testing.assert_close(torch.fft.rfft2(image, norm="ortho").abs()[..., inner], given.expand(4, 1, 12, 7)[..., inner])
    learnt = lesson(one, image_net(), like)["step 3"]
    assert learnt.shape == (5, 1, 12, 12)


def test_maco_takes_the_mean_amplitude_of_the_audits_inputs_or_a_spectrum_of_any_size() -> None:
    x = torch.randn(6, 3, 12, 10, generator=torch.Generator().manual_seed(0))
    prepared = Maco().prepare(x)
    assert isinstance(prepared, Maco)
    by_hand = sum(torch.fft.rfft2(without_colours(one[None])[0], norm="ortho").abs() for one in x) / 6
    torch.testing.assert_close(prepared.amplitude, by_hand)
    assert Maco(amplitude=by_hand).prepare(x).amplitude is by_hand
    assert resized_amplitude(torch.rand(3, 512, 257), 1, (28, 28)).shape == (1, 28, 15)
    with pytest.raises(InputError, match="maco has no amplitudes yet"):
        Maco().explain(image_net(3), x, torch.zeros(6).long(), Context(Draws.of(0, torch.arange(6)), 5))
    with pytest.raises(InputError, match="The amplitude of maco must be"):
        Maco(amplitude=-by_hand).check(image_net(), x, torch.zeros(6))


def test_deep_viz_is_the_formula_and_keeps_the_best_image() -> None:
    net, like = image_net(3, 8), torch.zeros(1, 3, 8, 8)
    draws = Draws.of(7, torch.tensor([2]))
    image = draws.uniform(3, 8, 8, stream="visualisation start")[0].float()
    scored: list[tuple[float, Tensor]] = []
    for step in range(6):
        leaf = image.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(net(leaf[None])[0, 2], leaf)
        moved = ((image + 50.0 * gradient) * 0.9).detach().numpy()
        if step % 4 == 0:
            moved = np.stack([gaussian_filter(channel, 1.0) for channel in moved])
        norm = np.linalg.norm(moved, axis=0)
        moved = moved * ~np.tile(norm < np.percentile(norm, 30), (3, 1, 1))
        moved = moved * ~(np.abs(moved) < np.percentile(np.abs(moved), 30))
        image = torch.from_numpy(moved).float()
        scored.append((net(image[None])[0, 2].item(), image))
    context = Context(draws, 512, example=like)
    for steps in (1, 3, 6):
        best = max(scored[:steps], key=lambda pair: pair[0])[1]
        torch.testing.assert_close(DeepViz(steps=steps).learn(net, context)[f"step {steps}"][0], best, rtol=1e-4, atol=1e-4)


def test_nadam_is_torchs() -> None:
    ours = torch.randn(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    theirs = ours.clone().requires_grad_()
    optimiser, own = torch.optim.NAdam([theirs], lr=0.3), NAdam(ours, 0.3)
    for _ in range(20):
        optimiser.zero_grad()
        (theirs**4).sum().backward()
        optimiser.step()
        ours = ours + own.change(4 * ours**3)
    torch.testing.assert_close(ours, theirs.detach())


def test_blur_is_scipys() -> None:
    x = torch.randn(2, 3, 9, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = np.stack([[gaussian_filter(channel, 1.3) for channel in image] for image in x.numpy()])
    torch.testing.assert_close(blur(x, 1.3), torch.from_numpy(expected))


def test_small_values_go_as_with_numpys_percentile() -> None:
    x = torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = without_smallest(x, x.abs(), 0.3)
    for row, image in zip(found, x.numpy(), strict=True):
        assert np.array_equal(row.numpy(), np.where(np.abs(image) < np.percentile(np.abs(image), 30), 0.0, image))


def test_crops_lie_around_the_middle_and_have_the_right_sizes() -> None:
    found = boxes(Draws.of(0, torch.arange(4000)), (0.20, 0.25), 224)
    assert (found[:, 2] >= 0.20).all()
    assert (found[:, 2] <= 0.25).all()
    assert abs(float(found[:, 2].mean()) - 0.225) < 0.001
    assert (found[:, :2].mean(0) - 0.5).abs().max() < 0.01
    assert (found[:, :2].std(0) - 0.15).abs().max() < 0.01
    assert (boxes(Draws.of(0, torch.arange(50)), (0.20, 0.25), 32)[:, 2] == 0.25).all()  # 8 pixels at least
    x = torch.arange(64.0).reshape(1, 1, 8, 8)
    torch.testing.assert_close(crop(x, torch.tensor([[0.5, 0.5, 1.0]])), x)
    quarter = crop(x, torch.tensor([[0.25, 0.25, 0.5]]))  # the upper left, enlarged
    place = torch.arange(8) / 2 - 0.25  # in pixels of the image
    torch.testing.assert_close(quarter[0, 0, 1:, 1:], 8 * place[1:, None] + place[None, 1:])
    views = [Fourier().views(torch.Size((1, side, side))) for side in (28, 32)]
    assert views == [1, 6]


def test_pictures_are_bounded_and_colours_have_an_inverse() -> None:
    spectrum = torch.complex(*torch.randn(2, 4, 3, 9, 6, generator=torch.Generator().manual_seed(0)).unbind())
    assert picture(spectrum, (9, 11), 2.5).shape == (4, 3, 9, 11)
    assert picture(spectrum, (9, 11), 2.5).abs().max() < 2.5
    x = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(with_colours(without_colours(x)), x, rtol=1e-4, atol=1e-4)
    assert torch.equal(with_colours(x[:, :2]), x[:, :2])
    assert mean_amplitude(torch.zeros(2, 1, 4, 4)).shape == (1, 4, 3)


def test_misuse_is_told_in_one_sentence() -> None:
    net = image_net()
    with pytest.raises(InputError, match=r"makes images.*shape \(5,\): leave it out, or use natural_activation"):
        Fourier().check(net, torch.zeros(2, 5), torch.zeros(2))
    with pytest.raises(SpecError, match="'stops' of 'fourier_visualisation' must be increasing"):
        Fourier(steps=7, stops=(5, 10)).check(net, torch.zeros(2, 1, 12, 12), torch.zeros(2))
    with pytest.raises(SpecError, match="'stops'"):
        Fourier(steps=5, stops=(10, 5)).explain(net, torch.zeros(2, 1, 12, 12), torch.zeros(2), Context(Draws.of(0, torch.arange(2)), 5))
    with pytest.raises(InputError, match="learns about classes"):
        Fourier().learn(net, Context(Draws.of(0, torch.arange(2)), 5))


def test_grey_images_are_the_mean_over_colours() -> None:
    net, like = image_net(3), torch.zeros(1, 3, 12, 12)
    colour, grey = (lesson(Fourier(steps=2, grey=grey), net, like)["step 2"] for grey in (False, True))
    torch.testing.assert_close(grey[:, 0], colour.mean(1))
