"""`gef_public` against a slow, literal re-implementation of the algorithm in the authors' public code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from torch import Size, Tensor, nn
from torch.func import functional_call

from veracity import Audit
from veracity.core.errors import SpecError
from veracity.core.explainers import Context, Cost, Explainer
from veracity.core.randomness import Draws
from veracity.core.scores import Defaults, Measured, Pair, Reading, Reads, Subject
from veracity.explain import Gradient
from veracity.measure import angle
from veracity.perturb.weights import FreshScaling
from veracity.results import Result
from veracity.scores import PublicGEF
from veracity.walk import MonteCarlo

COUNT, FEATURES = 9, 6
SMALL: dict[str, Any] = {"steps": 3, "draws": 2, "segments": 3, "repeats": 2, "sigma": 1.5}


def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 3)).eval()


def rows() -> Tensor:
    return torch.randn(COUNT, FEATURES, generator=torch.Generator().manual_seed(2))


class Shaky(Explainer):
    """The gradient with noise of its own."""

    name = "shaky"
    stochastic = True

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        plain = Gradient().explain(model, inputs, targets, context)
        return plain + 0.3 * noise(context.draws).to(plain)

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1, backward=1)


def noise(draws: Draws) -> Tensor:
    return draws.normal(FEATURES, stream="shaky").float()


def audited(folder: Path, explainers: Any, **settings: Any) -> Result:
    score = PublicGEF(**{**SMALL, **settings})
    given: dict[str, Any] = {"models": net(), "inputs": rows(), "controls": False, "companions": False}
    return Audit(**given, explainers=explainers, scores=[score]).run(folder, progress=False)


def weights(space: FreshScaling, draw: int, level: int) -> dict[str, Tensor]:
    return space.parameters(net(), draw, level, seed=0)


def literal(maps: Callable[[dict[str, Tensor], int, int], Tensor], space: FreshScaling) -> tuple[np.ndarray, np.ndarray]:
    """D_f and D_phi (samples, draws, Z), loop by loop: `maps(weights, draw, level)` are the explanations (samples, entries)."""
    model, x = net(), rows()
    own = {name: value.detach() for name, value in model.named_parameters()}
    before = model(x).detach()
    classes = before.argmax(1)

    def normalised(found: Tensor) -> Tensor:
        return found.double() / found.double().square().mean().sqrt()

    base = normalised(maps(own, -1, 0))
    moved, lengths = (np.zeros((COUNT, SMALL["draws"], SMALL["steps"])) for _ in range(2))
    for draw in range(SMALL["draws"]):
        length, level = np.zeros(COUNT), 0
        for step in range(SMALL["steps"]):
            for _ in range(SMALL["segments"]):
                noisy = weights(space, draw, level)
                change = base - normalised(maps(noisy, draw, level))
                level += 1
                repeated = []
                for _ in range(space.repeats):
                    repeated.append(base - normalised(maps(noisy, draw, level)))
                    level += 1
                jacobian = torch.stack(repeated).mean(0) if repeated else change
                for sample in range(COUNT):
                    metric = jacobian[sample][:, None] @ jacobian[sample][None]
                    length[sample] += float(change[sample] @ metric @ change[sample])
            lengths[:, draw, step] = length / ((step + 1) * SMALL["segments"])
            answer = functional_call(model, weights(space, draw, level), (x,)).detach()
            level += 1
            moved[:, draw, step] = (answer - before).gather(1, classes[:, None]).abs()[:, 0].numpy()
    return moved, lengths


def slopes(parameters: dict[str, Tensor]) -> Tensor:
    x = rows().requires_grad_()
    classes = net()(rows()).argmax(1)
    (found,) = torch.autograd.grad(functional_call(net(), parameters, (x,)).gather(1, classes[:, None]).sum(), x)
    return found


def agreed(result: Result, found: tuple[np.ndarray, np.ndarray]) -> None:
    (one,) = [one for one in result.series if not one.control]
    model, moved = PublicGEF(**SMALL).distortions(one.measured)
    assert np.allclose(model, found[0], rtol=1e-4, atol=1e-7)
    assert np.allclose(moved * FEATURES**2, found[1], rtol=1e-4)  # squares are means over the entries here
    for sample in range(COUNT):
        for draw in range(SMALL["draws"]):
            assert one.values[sample, draw] == pytest.approx(spearmanr(found[0][sample, draw], found[1][sample, draw]).statistic)


def test_it_is_the_public_algorithm_step_by_step(tmp_path: Path) -> None:
    space = FreshScaling(sigma=1.5, steps=3, segments=3, first=0.001)
    agreed(audited(tmp_path, ["gradient"]), literal(lambda parameters, draw, level: slopes(parameters), space))


def test_explainers_that_draw_are_explained_k_more_times(tmp_path: Path) -> None:
    space = FreshScaling(sigma=1.5, steps=3, segments=3, first=0.001, repeats=2)

    def maps(parameters: dict[str, Tensor], draw: int, level: int) -> Tensor:
        number = 0 if draw < 0 else draw * space.levels + level + 1
        return slopes(parameters) + 0.3 * noise(Draws.of(0, torch.arange(COUNT), number))

    agreed(audited(tmp_path, {"shaky": Shaky()}), literal(maps, space))


def reading(explanation: list[list[float]], scores: list[list[float]]) -> Reading:
    return Reading(torch.tensor([0, 0]), {Reads.EXPLANATION: torch.tensor(explanation), Reads.SCORES: torch.tensor(scores)})


def test_a_running_mean_of_fourth_powers_by_hand() -> None:
    """Two samples with one entry each, one look per level: e = 1 and 1; e' = (1, 3), (3, 1), (2, 2) at the three levels."""
    score = PublicGEF(steps=3, draws=1, segments=1)
    observed = []
    for explained, answer in (((1.0, 3.0), 1.5), ((3.0, 1.0), 3.0), ((2.0, 2.0), 9.0)):
        after = reading([[explained[0]], [explained[1]]], [[answer, 0.0]] * 2)
        before = reading([[1.0], [1.0]], [[1.0, 0.0]] * 2)
        observed.append(score.observe(Pair(before, after, torch.zeros(2, 2), lambda x: x, lambda x: x)).numpy())
    levels = np.stack([row for row in observed for _ in range(2)], axis=1)[:, None]  # a look at the explanation, one at the output
    measured = Measured({name: levels[..., place] for place, name in enumerate(score.quantities)})
    model, moved = score.distortions(measured)
    assert model[0, 0].tolist() == [0.5, 2.0, 8.0]
    root = 5**0.5  # (1, 3) and (3, 1) have a mean square of 5 over both samples, (2, 2) becomes (1, 1)
    small, large = (1 - 1 / root) ** 4, (1 - 3 / root) ** 4
    assert moved[0, 0].tolist() == pytest.approx([small, (small + large) / 2, (small + large) / 3])
    assert moved[1, 0].tolist() == pytest.approx([large, (small + large) / 2, (small + large) / 3])
    plain = PublicGEF(steps=3, draws=1, segments=1, normalise=False).distortions(measured)[1]
    assert plain[0, 0].tolist() == pytest.approx([0.0, 16 / 2, 17 / 3])


@given(st.integers(0, 2**31 - 1), st.floats(0.01, 100.0))
def test_the_scale_of_explanations_does_not_matter(seed: int, scale: float) -> None:
    score = PublicGEF(steps=4, draws=2, segments=2)
    generator = np.random.default_rng(seed)
    start, after = generator.normal(size=(5, 1, 1, 7)), generator.normal(size=(5, 2, 12, 7))

    def found(factor: float) -> np.ndarray:
        maps = factor * after
        pairs = ((start, start), (maps, maps), (start, maps), (start, maps))
        products = [np.broadcast_to((one * other).mean(-1), maps.shape[:3]) for one, other in pairs]
        return score.distortions(Measured(dict(zip(score.quantities, (generator.random((5, 2, 12)), *products), strict=True))))[1]

    assert np.allclose(found(1.0), found(scale), rtol=1e-6)


def test_numbers_do_not_depend_on_the_batch_size(tmp_path: Path) -> None:
    given: dict[str, Any] = {"models": net(), "inputs": rows().repeat(9, 1)[:70], "controls": False, "companions": False}
    tables = []
    for batch in (7, 128):
        audit = Audit(**given, explainers=["gradient", {"name": "smooth_grad", "draws": 3}], scores=[PublicGEF(**SMALL)])
        tables.append(audit.run(tmp_path / str(batch), batch=batch, progress=False).table()["value"])
    assert np.allclose(tables[0], tables[1], atol=1e-9)


def test_fixed_maps_do_not_respond(tmp_path: Path) -> None:
    table = audited(tmp_path, ["gradient", "constant_map"]).table().set_index("explainer")
    assert np.isnan(table.loc["constant_map", "value"])
    assert table.loc["constant_map", "no_response"] == COUNT
    assert table.loc["gradient", "no_response"] == 0


def test_passes_are_counted_as_they_are_made(tmp_path: Path) -> None:
    class Counting(nn.Module):
        rows = 0

        def __init__(self) -> None:
            super().__init__()
            self.inner = net()

        def forward(self, x: Tensor) -> Tensor:
            Counting.rows += len(x)
            found: Tensor = self.inner(x)
            return found

    given: dict[str, Any] = {"models": Counting(), "inputs": rows(), "controls": False, "companions": False, "outputs": "logits"}
    expected, made = [], []
    for segments in (2, 3, 5):  # the first run also reads the model itself
        audit = Audit(**given, explainers=["gradient"], scores=[PublicGEF(**{**SMALL, "segments": segments})])
        forecast = audit.forecast()
        # 2 draws, 3 levels: the explanations of each and one output, and the explanation of the model itself
        assert forecast.forward == COUNT * (2 * 3 * (segments + 1) + 1)
        assert forecast.backward == COUNT * (2 * 3 * segments + 1)
        Counting.rows = 0
        audit.run(tmp_path / str(segments), progress=False)
        expected.append(forecast.forward)
        made.append(Counting.rows)
    assert made[2] - made[1] == expected[2] - expected[1]


def test_repeats_are_asked_for_where_the_explainer_draws() -> None:
    defaults = Defaults(None, MonteCarlo())
    (plain,) = PublicGEF().requests(Subject("net", Gradient(), Size((8,))), defaults)
    (shaky,) = PublicGEF().requests(Subject("net", Shaky(), Size((8,))), defaults)
    assert (plain.space.levels, shaky.space.levels) == (5 * 11, 5 * 111)


@pytest.mark.parametrize(("settings", "sentence"), [({"measure": angle}, "l2 only"), ({"independent": False}, "independent noise")])
def test_settings_that_it_does_not_have_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        PublicGEF(**settings).requests(Subject("net", Gradient(), Size((8,))), Defaults(None, MonteCarlo()))
