"""The four outcomes of Figure 2B: by hand, against copies of the weights made one by one, and as counts with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.scores import Measured, Pair, Reading, Reads
from veracity.measure import l2
from veracity.perturb.weights import ParameterScaling
from veracity.results import Result
from veracity.scores import AlignedOutcomes, FastGEF
from veracity.scores.outcomes import QUADRANTS, outcomes


def linear(classes: int = 3) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(12, classes)


def points(count: int = 10) -> Tensor:
    return torch.randn(count, 12, generator=torch.Generator().manual_seed(5))


def audited(folder: Path, **settings: Any) -> Result:
    given: dict[str, Any] = {"models": linear(), "inputs": points(), "explainers": ["gradient"], "companions": False}
    return Audit(**{**given, **settings}).run(folder, progress=False)


def reading(explanation: list[list[float]], output: list[list[float]]) -> Reading:
    return Reading(torch.zeros(len(output)).long(), {Reads.EXPLANATION: torch.tensor(explanation), Reads.OUTPUT: torch.tensor(output)})


def test_an_observation_by_hand() -> None:
    before = reading([[1.0, 2.0, 3.0]] * 3, [[0.9, 0.1]] * 3)
    after = reading([[2.0, 4.0, 6.0], [3.0, 2.0, 1.0], [1.0, 1.0, 1.0]], [[0.6, 0.4], [0.2, 0.8], [float("nan"), 0.1]])
    found = AlignedOutcomes().observe(Pair(before, after, torch.zeros(3, 1), lambda x: x, lambda x: x))
    assert found[:2].tolist() == [[1.0, pytest.approx(1.0)], [0.0, pytest.approx(-1.0)]]
    assert found[2].isnan().all()


def test_shares_by_hand() -> None:
    kept, alike = np.array([[[1.0, 1.0, 0.0, 0.0]]]), np.array([[[0.9, 0.4, 0.6, 0.1]]])
    measured = Measured({"kept": kept, "similarity": alike})
    assert AlignedOutcomes(steps=4).values(measured).tolist() == [[0.5]]
    assert AlignedOutcomes(steps=4, threshold=0.3).values(measured).tolist() == [[0.75]]
    assert [part[0, 0].tolist() for part in outcomes(measured, 0.5)] == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]


def test_against_copies_made_one_by_one(tmp_path: Path) -> None:
    """Every level of every path by hand: a forward pass of the copy, its gradient, and Pearson's correlation by numpy."""
    model, x, path = linear(), points(), ParameterScaling(sigma=0.8, steps=3)
    result = audited(tmp_path, scores=[AlignedOutcomes(sigma=0.8, steps=3, draws=2)], seed=4)
    series = next(one for one in result.series if one.explainer == "gradient")
    predicted = model(x).argmax(1)
    for draw in range(2):
        for level in range(3):
            copy = path.parameters(model, draw, level, seed=4)
            kept = functional_call(model, copy, (x,)).argmax(1) == predicted
            assert series.measured["kept"][:, draw, level].tolist() == kept.double().tolist()
            for sample, label in enumerate(predicted.tolist()):
                expected = np.corrcoef(model.weight[label].detach(), copy["weight"][label].detach())[0, 1]
                assert series.measured["similarity"][sample, draw, level] == pytest.approx(expected, abs=1e-5)


def test_the_path_of_fast_gef_is_walked_once(tmp_path: Path) -> None:
    scores = {"outcomes": AlignedOutcomes(sigma=0.8), "fast_gef": FastGEF(sigma=0.8)}
    spaces = audited(tmp_path, scores=scores, controls=False).manifest["cells"]
    assert len({cell["base"] for cell in spaces}) == 1


def test_counts_add_up_and_controls_stand_beside(tmp_path: Path) -> None:
    result = audited(tmp_path, scores=[AlignedOutcomes(sigma=0.8, draws=4)])
    table = result.quadrants()
    assert set(table["outcome"]) == set(QUADRANTS)
    for (_, explainer), rows in table.groupby(["model", "explainer"]):
        by = rows.set_index("outcome")
        if explainer == "constant_map":
            assert (by["of"] == 0).all()
            assert (by["undefined"] == 10 * 4 * 5).all()
            continue
        assert by["count"].sum() == by["of"].iloc[0] == 10 * 4 * 5
        assert by["share"].sum() == pytest.approx(1.0)
        assert ((by["low"] <= by["share"]) & (by["share"] <= by["high"])).all()
    aligned = result.table().set_index("explainer")["value"]
    mine = table[table["explainer"] == "gradient"].set_index("outcome")["share"]
    assert aligned["gradient"] == pytest.approx(mine["both kept"] + mine["both changed"])
    random = table[table["explainer"] == "random_gaussian"].set_index("outcome")["count"]
    assert random["both kept"] + random["model changed alone"] < 0.15 * 200


def test_another_threshold_needs_no_other_run(tmp_path: Path) -> None:
    result = audited(tmp_path, scores=[AlignedOutcomes(sigma=0.8)], controls=False)
    counts = [result.quadrants(threshold=limit).set_index("outcome")["count"]["both kept"] for limit in (-1.0, 0.5, 0.99, 1.1)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    assert counts[0] > 0


def test_a_model_without_classes_has_no_outcomes(tmp_path: Path) -> None:
    table = audited(tmp_path, models=linear(1), outputs="raw", scores=[AlignedOutcomes(sigma=0.8)], controls=False).quadrants()
    assert (table["of"] == 0).all()
    assert (table["undefined"] == 250).all()


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="needs a similarity, such as pearson or ssim, not 'l2', a distance"):
        audited(tmp_path / "a", scores=[AlignedOutcomes(measure=l2)])
    result = audited(tmp_path / "b", scores=[FastGEF(sigma=0.5)], controls=False)
    for score in ("aligned_outcomes", "fast_gef"):
        with pytest.raises(InputError, match=f"'aligned_outcomes', and '{score}' is none of this run: add it"):
            result.quadrants(score)
