from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from small import LENGTH
from veracity import Audit
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import SmoothGrad
from veracity.perturb import CyclicShift
from veracity.scores.symmetry import Equivariance
from veracity.walk import MonteCarlo


def literal(net: nn.Module, x: Tensor, explain: Callable[[Tensor, int, int], Tensor], move: bool) -> np.ndarray:
    """Equations (1) and (2), one sample and one group element at a time."""
    values = np.zeros((len(x), LENGTH))
    for sample in range(len(x)):
        base = explain(x[sample : sample + 1], sample, 0)
        for shift in range(LENGTH):
            moved = explain(x[sample : sample + 1].roll(shift, -1), sample, shift + 1)
            expected = base.roll(shift, -1) if move else base
            values[sample, shift] = float(cosine_similarity(moved.flatten(1).double(), expected.flatten(1).double()))
    return values


@pytest.mark.parametrize("score", ["equivariance", "invariance"])
def test_the_engine_equals_the_literal_equations(
    make_audit: Callable[..., Audit], net: nn.Module, x: Tensor, tmp_path: Path, score: str
) -> None:
    result = make_audit(scores=[score], explainers=[SmoothGrad(draws=6)]).run(tmp_path, batch=7)
    target = net(x).argmax(1)

    def explain(one: Tensor, sample: int, draw: int) -> Tensor:
        draws = Draws(0, torch.tensor([sample]), torch.tensor([draw]))
        return SmoothGrad(draws=6).explain(net, one, target[sample : sample + 1], Context(draws, 100))

    expected = literal(net, x, explain, move=score == "equivariance")
    found = next(one for one in result.series if one.explainer == "smooth_grad" and one.score == score)
    assert np.allclose(found.values, expected, atol=1e-6)
    assert np.allclose(result.samples(score).query("explainer == 'smooth_grad'")["value"], expected.mean(axis=1), atol=1e-6)


def test_scores_that_share_their_passes_pay_once(make_audit: Callable[..., Audit], net: nn.Module, tmp_path: Path) -> None:
    rows = 0

    def count(_module: nn.Module, args: tuple[Tensor, ...]) -> None:
        nonlocal rows
        rows += len(args[0])

    def passes(name: str, scores: list[str]) -> int:
        nonlocal rows
        audit = make_audit(scores=scores, explainers=["gradient"], controls=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("veracity.audit.try_explainers", lambda problem, budgets, heard: (problem, []))
            handle = net.register_forward_pre_hook(count)
            rows = 0
            audit.run(tmp_path / name)
            handle.remove()
        return rows

    one, both = passes("one", ["equivariance"]), passes("both", ["equivariance", "invariance"])
    assert one == both
    # A look at the model (2 rows), its outputs (6, and 4 twice together and once alone), 6 base maps, 72 moved, 6 for self-agreement.
    assert one == 2 + 6 + 12 + 6 + 72 + 6


def test_common_draws_tell_noise_from_asymmetry(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    apart = make_audit(explainers=["gradient_shap"], scores=[Equivariance()]).run(tmp_path / "apart").table()
    common = make_audit(explainers=["gradient_shap"], scores=[Equivariance(common_draws=True)]).run(tmp_path / "common").table()
    noisy, exact = apart.iloc[0], common.iloc[0]
    assert noisy["value"] < 0.999
    assert abs(noisy["value"] - noisy["self_agreement"]) < 0.05
    assert exact["value"] > 0.9999


def test_a_score_carries_its_own_space_and_walk(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    own = Equivariance(space=CyclicShift(axes=(-1,)), walk=MonteCarlo(draws=3))
    table = make_audit(symmetry=None, explainers=["gradient"], scores=[own], controls=False).run(tmp_path).table()
    assert table["draws"].tolist() == [3.0]
