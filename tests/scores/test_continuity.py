"""Continuity, consistency and input invariance."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from masked import DEFAULTS, bare, explained, inputs, pair, reading
from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.inputs import Signals
from veracity.core.measures import Direction
from veracity.core.scores import Measured, Score
from veracity.perturb.compensated import CompensatedShift, Entrance
from veracity.perturb.translation import Translation
from veracity.scores import Consistency, Continuity, InputInvariance
from veracity.scores.common import as_score
from veracity.testing import ScoreConformance
from veracity.walk import Exhaustive, MonteCarlo


def network(padding: int = 0, bias: bool = True) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        size = 4 * (4 + 2 * padding) ** 2
        return nn.Sequential(nn.Conv2d(1, 4, 3, padding=padding, bias=bias), nn.Tanh(), nn.Flatten(), nn.Linear(size, 3)).eval()


def gradient(net: nn.Module, x: Tensor, target: int) -> Tensor:
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(net(leaf[None])[0, target], leaf)[0]


def test_continuity_by_hand() -> None:
    before = reading(explanation=torch.tensor([[[1.0, -3.0]]]), input=torch.tensor([[[0.0, 1.0]]]))
    after = reading(explanation=torch.tensor([[[2.0, -1.0]]]), input=torch.tensor([[[3.0, 5.0]]]))
    assert Continuity(relative=False).observe(pair(before, after)).item() == pytest.approx(3.0 / 5.0)
    assert Continuity().observe(pair(before, after)).item() == pytest.approx(3.0 / 5.0 / 4.0)
    assert Continuity().observe(pair(before, before)).isnan().all()
    assert Continuity().reduce(np.array([[0.2, np.nan, 0.7]])).tolist() == [0.7]


def test_translations_position_by_position() -> None:
    x = inputs(6, 2, 3, 4)
    space = Translation(steps=100, baseline="white").fit(x.shape[1:])
    assert space.enumerate().flatten().tolist() == [-4, -3, -2, -1, 1, 2, 3, 4]
    assert Translation(steps=3).fit(x.shape[1:]).enumerate().flatten().tolist() == [-4, 1, 4]
    moves = torch.tensor([[-4], [-1], [1], [3], [4], [2]])
    moved = space.act(moves, x)
    for i, (move,) in enumerate(moves.tolist()):
        expected = torch.full_like(x[i], x[i].max().item())
        for place in range(4):
            if 0 <= place + move < 4:
                expected[..., place + move] = x[i][..., place]
        assert torch.equal(moved[i], expected)


def test_continuity_step_by_step(tmp_path: Path) -> None:
    net, x = network(), inputs(2, 1, 6, 6).float()
    audit = Audit(models=net, inputs=x, explainers=["gradient"], scores=[Continuity(nr_steps=5)], controls=False, companions=False)
    found = audit.run(tmp_path, progress=False).samples("continuity")["value"].tolist()
    for i in range(2):
        target = int(net(x[i : i + 1]).argmax())
        e, ratios = gradient(net, x[i], target), []
        for (move,) in Translation(steps=5).fit(x.shape[1:]).enumerate().tolist():
            there = torch.full_like(x[i], x[i].min().item())
            for place in range(6):
                if 0 <= place + move < 6:
                    there[..., place + move] = x[i][..., place]
            ratios.append(((gradient(net, there, target) - e).abs().sum() / (there - x[i]).norm() / e.abs().sum()).item())
        assert found[i] == pytest.approx(max(ratios), rel=1e-4)


def test_consistency_by_hand() -> None:
    maps = torch.tensor([[5.0, -4.0, 1.0, 0.5], [5.0, -4.0, 1.0, 0.5], [5.0, -4.0, 1.0, 0.5]])
    others = torch.tensor([[4.0, -5.0, -1.0, 0.0], [5.0, 4.0, 1.0, 0.5], [9.0, -4.0, 1.0, 0.2]])
    before = reading(torch.tensor([[2.0, 0.0]] * 3), explanation=maps)
    after = reading(torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), explanation=others)
    for score, apart in (
        (Consistency(features=2), [0.0, 1.0, 0.0]),
        (Consistency(discretise="sign"), [1.0, 1.0, 0.0]),
        (Consistency(discretise="rank"), [1.0, 1.0, 0.0]),
    ):
        seen = score.observe(pair(before, after))
        assert seen[:, 0].tolist() == apart
        assert seen[:, 1].tolist() == [1.0, 1.0, 0.0]
    measured = Measured({"apart": np.array([[[0.0], [0.0], [1.0]], [[1.0], [1.0], [1.0]]]), "same": np.array([[[1.0], [0.0], [1.0]]] * 2)})
    assert Consistency().values(measured)[:, 0].tolist() == pytest.approx([0.5, np.nan], nan_ok=True)


def test_consistency_sample_by_sample(tmp_path: Path) -> None:
    net, x, maps = network(), inputs(12, 1, 6, 6).float(), inputs(12, 1, 6, 6, seed=7).round().float() - 0.5
    maps[:, :, 1:] = 0.0
    maps[:, :, 0, 2:] = 0.0
    score = Consistency(discretise="sign", walk=Exhaustive())
    audit = Audit(models=net, inputs=x, explainers={"mine": lambda m, i, t: signs(i, x, maps)}, scores=[score], controls=False)
    found = audit.run(tmp_path, progress=False).samples("consistency")["value"].tolist()
    classes = net(x).argmax(1)
    for i in range(12):
        same = [classes[j] == classes[i] for j in range(12) if j != i and torch.equal(maps[j].sign(), maps[i].sign())]
        assert found[i] == pytest.approx(np.mean(same) if same else np.nan, nan_ok=True)
    assert np.isfinite(found).sum() > 6


def signs(given: Tensor, x: Tensor, maps: Tensor) -> Tensor:
    """The map of each input."""
    return torch.stack([maps[int((x - one).flatten(1).abs().sum(1).argmin())] for one in given])


@pytest.mark.parametrize(("padding", "bias"), [(0, True), (0, False), (1, True)])
def test_a_compensated_model_predicts_the_same(padding: int, bias: bool) -> None:
    net, x = network(padding, bias), inputs(3, 1, 6, 6).float()
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    copy = CompensatedShift(shift=2.0).compensate(net, Signals(x))
    torch.testing.assert_close(copy(x + 2.0), net(x), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(copy(x), net(x))
    assert isinstance(copy, Entrance) == (padding == 1)
    assert padding or copy[0].bias is not net[0].bias  # type: ignore[index]
    assert all(torch.equal(value, weights[name]) for name, value in net.state_dict().items())
    assert not net._forward_pre_hooks


def test_gradients_are_invariant_and_gradient_times_input_is_not(tmp_path: Path) -> None:
    for padding in (0, 1):
        audit = Audit(
            models=network(padding),
            inputs=inputs(4, 1, 6, 6).float(),
            explainers=["gradient", "input_x_gradient"],
            scores=[InputInvariance(input_shift=2.0)],
            companions=False,
        )
        result = audit.run(tmp_path / str(padding), progress=False)
        assert result.failures().empty
        value = result.table().set_index("explainer")["value"]
        assert (value["gradient"], value["input_x_gradient"], value["random_uniform"]) == (1.0, 0.0, 0.0)


class Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 0.25


class Skip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, self.layer(x))


class Locked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.lock = nn.Linear(8, 3), threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        with self.lock:
            return torch.tanh(self.layer(x))


def small_outputs(*first: nn.Module) -> nn.Module:
    last = nn.Linear(16, 1, bias=False)
    with torch.no_grad():
        last.weight.mul_(1e-3)
    return nn.Sequential(*first, nn.Linear(8, 16), nn.Tanh(), last).eval()


def invariance(net: nn.Module, x: Tensor, folder: Path, *explainers: str, **settings: Any) -> pd.DataFrame:
    audit = Audit(
        models=net,
        inputs=x,
        explainers=explainers or ("gradient",),
        scores=["input_invariance"],
        controls=False,
        companions=False,
        **settings,
    )
    result = audit.run(folder, progress=False)
    assert result.failures().empty
    return result.samples("input_invariance")


@pytest.mark.parametrize("first", [Scaled, Skip])
def test_a_bias_that_takes_only_a_part_of_the_shift_away_is_not_used(first: type[nn.Module], tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = small_outputs(first()), torch.randn(6, 8)
    assert isinstance(CompensatedShift().compensate(net, Signals(x)), Entrance)
    assert invariance(net, x, tmp_path, outputs="raw")["value"].tolist() == [1.0] * 6


def test_lrp_notices_a_shift_in_the_first_bias(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = small_outputs(nn.Flatten()), torch.randn(6, 2, 4)
    assert not isinstance(CompensatedShift().compensate(net, Signals(x)), Entrance)
    found = invariance(net, x, tmp_path, "gradient", "lrp_epsilon", outputs="raw").groupby("explainer")["value"].mean()
    assert found["gradient"] == 1.0
    assert found.drop("gradient").tolist() == [0.0]


def test_models_that_cannot_be_copied(tmp_path: Path) -> None:
    found = invariance(Locked().eval(), inputs(4, 8).float(), tmp_path)
    assert found["value"].tolist() == [1.0] * 4


def test_no_sample_is_lost_in_half_precision(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 5)).to(torch.bfloat16).eval()
        x = torch.rand(4, 16).bfloat16()
    assert invariance(net, x, tmp_path)["value"].notna().all()


def test_input_invariance_by_hand() -> None:
    change = Measured({"change": np.array([[[0.0005]], [[0.002]], [[np.nan]]])})
    assert InputInvariance().values(change)[:, 0].tolist() == pytest.approx([1.0, 0.0, np.nan], nan_ok=True)
    before, after = reading(explanation=torch.tensor([[3.0, 4.0]])), reading(explanation=torch.tensor([[3.0, 4.5]]))
    assert InputInvariance().observe(pair(before, after)).item() == pytest.approx(0.1)


def test_how_to_read_them() -> None:
    assert [score().direction for score in (Continuity, Consistency, InputInvariance)] == [
        Direction.LOWER,
        Direction.HIGHER,
        Direction.HIGHER,
    ]
    assert Continuity(relative=False).in_map_units
    assert "own units" in Continuity(relative=False).setting()
    assert not Continuity().in_map_units
    for score in (Continuity(nr_steps=3), Consistency(discretise="rank"), InputInvariance(input_shift=0.5)):
        assert not score.requests(bare((1, 6, 6)), DEFAULTS)
        assert as_score(score.about()["spec"]) == score
        assert score.reference


def test_bad_input_is_told() -> None:
    with pytest.raises(InputError, match=r"moves positions, which inputs of shape \(6,\) do not have"):
        Continuity().requests(explained((6,)), DEFAULTS)
    with pytest.raises(SpecError, match=r"Unknown baseline of the space 'translation' 'blak'. Did you mean 'black'"):
        Continuity(perturb_baseline="blak").requests(explained((1, 6, 6)), DEFAULTS)
    with pytest.raises(SpecError, match=r"Unknown discretisation of score 'consistency' 'signs'. Did you mean 'sign'"):
        Consistency(discretise="signs").requests(explained((1, 6, 6)), DEFAULTS)
    with pytest.raises(SpecError, match="The setting 'tolerance' of score 'input_invariance'"):
        InputInvariance(tolerance=0.0)
    with pytest.raises(InputError, match=r"the inputs are whole numbers \(torch.int64\)"):
        CompensatedShift().check(torch.tensor([[1, 2]]))
    short = Signals(torch.tensor([[1.0, 0.0]]), present=torch.tensor([[True, False]]))
    with pytest.raises(InputError, match="looks at values beyond the end of a sample"):
        CompensatedShift().compensate(nn.Linear(2, 2), short)


class TestContinuity(ScoreConformance):
    def score(self) -> Score:
        return Continuity(nr_steps=4)


class TestConsistency(ScoreConformance):
    def score(self) -> Score:
        return Consistency(features=1, walk=MonteCarlo(draws=3))


class TestInputInvariance(ScoreConformance):
    def score(self) -> Score:
        return InputInvariance()
