"""Prediction gaps under noise on important and on unimportant features."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc
from torch import Tensor, nn

from masked import DEFAULTS, bare, explained, inputs, linear, small_mlp, value
from text_models import text_model, tokenizer
from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.features import Features
from veracity.core.measures import Direction
from veracity.core.randomness import Draws
from veracity.core.scores import Measured, Score
from veracity.inputs import TableInputs, TextInputs
from veracity.perturb.noisy_features import NoisyFeatures
from veracity.scores import PGI, PGU
from veracity.scores.common import as_score
from veracity.testing import ScoreConformance

ALL = (PGI, PGU)


def test_by_hand() -> None:
    gaps = Measured({"gap": np.array([[[0.1, 0.3, 0.2], [0.3, 0.5, 0.4]]])})
    for kind in ALL:
        assert kind().values(gaps).tolist() == [pytest.approx([0.225, 0.425])]
        assert kind().reduce(kind().values(gaps)).item() == pytest.approx(0.325)
        assert kind().values(Measured({"gap": np.array([[[0.1]]])})).item() == pytest.approx(0.1)


@pytest.mark.parametrize(("k", "largest"), [(3, 3), (0.5, 4), (1, 1)])
@pytest.mark.parametrize("kind", ALL)
def test_draw_by_draw_as_openxai_defines_it(kind: type[Any], k: Any, largest: int) -> None:
    x, maps, net, target = inputs(3, 8), inputs(3, 8, seed=2) - 0.5, small_mlp(8), torch.tensor([0, 2, 1])
    found = value(kind(k=k, sigma=0.3, nr_samples=5, softmax=True), net, x, target, maps)
    for i in range(3):
        before = net(x[i][None]).softmax(1)[0, target[i]].item()
        order, means = maps[i].abs().argsort(descending=True).tolist(), []
        for important in range(1, largest + 1):
            chosen = order[:important] if kind is PGI else order[important:]
            gaps = []
            for draw in range(5):
                z = Draws.of(0, torch.tensor([i]), draw).normal(8, stream="walk")[0]
                moved = x[i].clone()
                for place in chosen:
                    moved[place] += 0.3 * z[place]
                gaps.append(abs(before - net(moved[None]).softmax(1)[0, target[i]].item()))
            means.append(np.mean(gaps))
        expected = auc(np.arange(largest) / (largest - 1), means) if largest > 1 else means[0]
        assert found[i] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("size", "most", "steps", "counts"),
    [
        (100, 0.25, 20, [*range(1, 26, 2)]),
        (10, 0.25, 20, [1, 2, 3]),
        (10, 4, 2, [2, 4]),
        (7, 1.0, 3, [1, 4, 7]),
        (784, 0.25, 20, [*range(6, 197, 10)]),
    ],
)
def test_numbers_of_features_by_hand(size: int, most: float, steps: int, counts: list[int]) -> None:
    space = NoisyFeatures(most=most, steps=steps).fit(torch.Size([size]))
    assert space.count(torch.arange(space.levels)).tolist() == counts


@given(size=st.integers(1, 900), share=st.floats(0.01, 1.0), steps=st.integers(1, 40))
def test_steps_are_equal_and_reach_the_largest_number(size: int, share: float, steps: int) -> None:
    space = NoisyFeatures(most=share, steps=steps).fit(torch.Size([size]))
    found = space.count(torch.arange(space.levels)).tolist()
    assert found[-1] == space.largest
    assert 1 <= found[0] <= space.stride
    assert len({later - earlier for earlier, later in itertools.pairwise(found)}) <= 1
    assert len(found) <= steps


def test_the_right_map_has_the_larger_gap() -> None:
    net, x, target = linear(6), inputs(4, 6), torch.zeros(4, dtype=torch.long)
    net.weight[0] = torch.tensor([3.0, 0.0, 0.0, 0.0, 0.0, -2.0])
    right, wrong = net.weight[:1].expand(4, 6), 4.0 - net.weight[:1].abs().expand(4, 6)
    for softmax in (True, False):
        given = {"k": 2, "nr_samples": 20, "softmax": softmax}
        assert (value(PGI(**given), net, x, target, right) > value(PGI(**given), net, x, target, wrong)).all()  # type: ignore[arg-type]
        assert (value(PGU(**given), net, x, target, right) < value(PGU(**given), net, x, target, wrong)).all()  # type: ignore[arg-type]
    assert value(PGI(k=1, softmax=False), net, x, target, wrong).tolist() == pytest.approx([0.0] * 4, abs=1e-12)


def table() -> Features:
    rows = torch.tensor([[1.0, 1.0, 0.0, 0.0, 4.0], [3.0, 0.0, 1.0, 0.0, 7.0], [5.0, 0.0, 0.0, 1.0, 7.0]])
    kinds = torch.tensor([False, True, True, True, True])
    return Features.measured(rows, names=["age", "job", "code"], groups=torch.tensor([0, 1, 1, 1, 2]), categorical=kinds)


def test_amounts_move_in_units_of_their_column_and_categories_change_their_level() -> None:
    space, count = NoisyFeatures(most=3, sigma=0.5).fit(torch.Size([5])).over(table()), 4000
    assert space.units == 3
    x = torch.tensor([[2.0, 0.0, 1.0, 0.0, 7.0]]).expand(count, 5)
    drawn = Draws.of(0, torch.arange(count)).normal(3, stream="test")
    guide = space.guide(x, torch.tensor([[3.0, 1.0, 0.5, 0.5, 1.0]]).expand(count, 5))
    moved = [space.act(space.steer(space.at(drawn, torch.full((count,), level)), guide), x) for level in range(3)]
    assert torch.allclose(moved[0][:, 0], 2.0 + 0.5 * table().scales[0] * drawn[:, 0].float(), atol=1e-5)
    assert float(moved[0][:, 0].std()) == pytest.approx(0.5 * math.sqrt(8 / 3), rel=0.05)
    assert torch.equal(moved[0][:, 1:], x[:, 1:])
    change, jobs = math.sqrt(2 / math.pi) * 0.5, moved[1][:, 1:4]
    assert set(map(tuple, jobs.tolist())) == {(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)}
    assert float((jobs != x[:, 1:4]).any(1).float().mean()) == pytest.approx(change, abs=0.03)
    assert float(jobs[:, 0].mean()) == pytest.approx(change / 2, abs=0.03)
    assert float((moved[2][:, 4] == 4.0).float().mean()) == pytest.approx(change, abs=0.03)
    assert torch.equal(moved[2][:, :4], moved[1][:, :4])  # all k share their noise


def test_a_level_that_the_background_does_not_have_and_a_category_of_one_level() -> None:
    rows = torch.tensor([[1.0, 5.0], [2.0, 5.0]])
    known = Features.measured(rows, names=["a", "b"], categorical=torch.tensor([True, True]))
    space = NoisyFeatures(most=2, sigma=5.0).fit(torch.Size([2])).over(known)  # every level changes
    x = torch.tensor([[9.0, 5.0]]).expand(200, 2)
    drawn = Draws.of(0, torch.arange(200)).normal(2, stream="test")
    moved = space.act(space.steer(space.at(drawn, torch.ones(200, dtype=torch.long)), space.guide(x, x)), x)
    assert set(moved[:, 0].tolist()) == {1.0, 2.0}
    assert set(moved[:, 1].tolist()) == {5.0}


def test_a_table_of_a_frame(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 10, 30), "hours": rng.normal(0, 1e-3, 30), "job_cook": 1.0, "job_clerk": 0.0})
    frame.loc[::2, ["job_cook", "job_clerk"]] = [0.0, 1.0]
    net = nn.Linear(4, 2).eval()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.1, 0.0, 0.0, 0.0], [-0.1, 0.0, 0.0, 0.0]]))
        net.bias.copy_(torch.tensor([-4.0, 4.0]))
    scores = [PGI(k=1, nr_samples=30), PGU(k=1, nr_samples=30)]
    given: dict[str, Any] = {
        "models": net,
        "inputs": TableInputs(frame, groups="_"),
        "explainers": ["gradient"],
        "scores": scores,
        "controls": False,
    }
    result = Audit(**given).run(tmp_path, progress=False)
    assert result.failures().empty
    found = result.table().set_index("score")["value"]
    assert found["pgi"] > 0.02
    assert found["pgu"] == pytest.approx(0.0, abs=1e-7)


def test_words_are_removed_once(tmp_path: Path) -> None:
    texts = TextInputs(["a fine film", "a dull film with no heart at all", "dull"], tokenizer())
    result = Audit(models=text_model(), inputs=texts, explainers=["gradient"], scores=["pgi", "pgu"], controls=False).run(
        tmp_path, progress=False
    )
    assert result.failures().empty
    assert result.samples("pgi")["value"].notna().all()
    assert result.draws("pgi")[next(iter(result.draws("pgi")))].shape[1] == 1


def test_a_baseline_makes_one_replacement() -> None:
    (request,) = PGI(perturb_baseline="black", k=2).for_subject(explained((6,))).requests(explained((6,)), DEFAULTS)
    assert request.walk.length(request.space) == 1
    x = inputs(2, 6)
    space: Any = request.space
    moved = space.act(space.steer(space.at(torch.rand(2, 6), torch.tensor([1, 1])), space.guide(x, x)), x)
    assert ((moved != x).sum(1) == 2).all()
    assert torch.equal(moved.amin(1), x.amin(1))


def test_how_to_read_them() -> None:
    assert [kind().direction for kind in ALL] == [Direction.HIGHER, Direction.LOWER]
    assert [kind().bounds for kind in ALL] == [(0.0, 1.0)] * 2
    assert PGI(softmax=False).bounds == (0.0, np.inf)
    for kind in ALL:
        assert kind.reference
        assert kind().assumption is None
        assert not kind().requests(bare((6,)), DEFAULTS)
        assert len(kind().requests(explained((6,)), DEFAULTS)) == 1
        assert as_score(kind().about()["spec"]) == kind()
        assert len(kind().curve((6,), 3).places) == 3


def test_bad_settings_are_told() -> None:
    with pytest.raises(InputError, match="k=7 is more than the 6 features of a sample: give pgi a smaller k, or a share"):
        PGI(k=7).requests(explained((6,)), DEFAULTS)
    with pytest.raises(SpecError, match="The setting 'sigma' of score 'pgu'"):
        PGU(sigma=0.0)
    with pytest.raises(SpecError, match="The setting 'k' of score 'pgi'"):
        PGI(k=1.5)
    with pytest.raises(SpecError, match="Unknown baseline of the space 'noisy_features' 'grey'"):
        PGI(perturb_baseline="grey").requests(explained((6,)), DEFAULTS)
    with pytest.raises(InputError, match="perturbs in the order of an explanation, and there is none"):
        NoisyFeatures(most=1).fit(torch.Size([3])).guide(torch.zeros(1, 3), None)


class Rows(ScoreConformance):
    def model(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return nn.Sequential(nn.Linear(9, 6), nn.Tanh(), nn.Linear(6, 3)).eval()

    def inputs(self) -> Tensor:
        return Draws.of(0, torch.arange(4)).normal(9, stream="score conformance").float()


class TestPGI(Rows):
    def score(self) -> Score:
        return PGI(nr_samples=4)


class TestPGU(Rows):
    def score(self) -> Score:
        return PGU(nr_samples=4)
