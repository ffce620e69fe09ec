"""What an orbit evaluation says in words, and where its page opens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from veracity import OrbitEvaluation, OrbitResult
from veracity.orbits import Classification, GroupOrbit
from veracity.perturb import CyclicShift
from veracity.report.interactive import answers
from veracity.report.interactive.subset import Subset
from veracity.report.orbit_answer import along, orbit_answer

Model = Callable[[Tensor], Tensor]
PLACES = 4


def total(x: Tensor) -> Tensor:
    """Probabilities of two classes that no shift changes."""
    share = x.sum(dim=1) / x.shape[1]
    return torch.stack((share, 1 - share), dim=1)


def first(x: Tensor) -> Tensor:
    """Probabilities of two classes that follow the first number, which shifts replace."""
    return torch.stack((x[:, 0], 1 - x[:, 0]), dim=1)


def run(folder: Path, models: dict[str, Model], samples: int = 30, *, labelled: bool = True) -> OrbitResult:
    x = torch.rand(samples, PLACES, generator=torch.Generator().manual_seed(0))
    x[:, 0] = 0.9 + 0.1 * x[:, 0]
    made = OrbitEvaluation(
        models=models,
        inputs=x,
        targets=torch.zeros(samples, dtype=torch.long) if labelled else None,
        orbit=GroupOrbit(space=CyclicShift(axes=(-1,))),
        task=Classification(),
    )
    return made.run(folder / "run", progress=False)


def test_the_steadier_model_is_named_with_its_gap(tmp_path: Path) -> None:
    result = run(tmp_path, {"first": first, "total": total})
    first_sentence, steadiest, *_ = orbit_answer(result)
    table = result.table().query("metric == 'accuracy' and reference == 'truth'").set_index("model")
    assert first_sentence.startswith("Mean accuracy along the orbit: first ")
    value, worst = (float(table[name]["first"]) for name in ("value", "worst"))
    assert f"first {value:.3f} (1.000 unmoved, {worst:.3f} at worst, shifted by" in first_sentence
    assert steadiest.startswith("The outputs of total change least as the input moves: its equivariance gap is ")
    assert steadiest.endswith(f"against {float(result.gap().set_index('model')['value']['first']):.3f} for first.")


def test_numbers_have_their_unit() -> None:
    row = {"model": "net", "value": 0.5, "identity": 0.4, "worst": 0.75, "worst_at": "turned by 90°, reversed"}
    said = "Mean RMSE along the orbit: net 0.500 px (0.400 px unmoved, 0.750 px at worst, turned by 90°, reversed)."
    assert along([row], {"label": "RMSE", "unit": "px"}, "truth") == said


def test_models_that_cannot_be_told_apart_are_not_ranked(tmp_path: Path) -> None:
    same = run(tmp_path, {"one": first, "two": lambda x: first(x)})
    assert "With 30 samples, it cannot be told whether the outputs of one or those of two change less" in " ".join(orbit_answer(same))


def test_of_many_models_that_cannot_be_told_apart_the_rest_is_counted(tmp_path: Path) -> None:
    same = run(tmp_path, {name: (lambda x: first(x)) for name in "abcdefgh"})
    said = " ".join(orbit_answer(same))
    assert re.search(r"the outputs of a or those of b, c, .* or \d more change less", said), said


def test_one_sample_has_a_gap_without_an_interval(tmp_path: Path) -> None:
    said = " ".join(orbit_answer(run(tmp_path, {"net": first}, samples=1)))
    assert "undefined" not in said
    assert re.search(r"change by \d?\.\d+ on average", said), said


def test_the_consensus_is_said_to_mislead_where_it_does(tmp_path: Path) -> None:
    result = run(tmp_path, {"net": lambda x: torch.stack((x[:, 0] ** 4, 1 - x[:, 0] ** 4), dim=1)})
    found = result.agreement().set_index("metric").loc["accuracy"]
    said = " ".join(orbit_answer(result))
    assert ("the consensus misleads about net" in said) == (found["high"] < 0)
    assert ("can stand in for the truth of net" in said) == (found["low"] >= 0.5)
    assert "the consensus misleads about net (r = \N{MINUS SIGN}" in said


def test_a_correlation_of_few_samples_that_agree_is_not_believed(tmp_path: Path) -> None:
    result = run(tmp_path, {"net": lambda x: torch.stack((x[:, 0] ** 4, 1 - x[:, 0] ** 4), dim=1)}, samples=4)
    found = result.agreement().set_index("metric").loc["accuracy"]
    assert found["high"] < 0.0
    assert found["unseen"] > 0.05
    assert "misleads" not in " ".join(orbit_answer(result))


def test_without_truth_the_answer_says_by_what_it_measured(tmp_path: Path) -> None:
    said = orbit_answer(run(tmp_path, {"net": first}, labelled=False))
    assert said[0].startswith("Mean accuracy along the orbit, measured by the models' own consensus: net ")
    assert said[1].startswith("The outputs of net change by ")
    assert len(said) == 2


def test_the_page_opens_where_two_models_differ_most(tmp_path: Path) -> None:
    result = run(tmp_path, {"first": first, "total": total})
    plots = [result.values(model, "confidence") for model in result.models]
    far = np.abs(plots[0] - plots[1])
    sample, element = np.unravel_index(int(far.argmax()), far.shape)
    assert answers.telling(result) == {"sample": sample, "element": element}
    few = Subset(result, np.array([4, 7]))
    assert answers.telling(few) == {"sample": int(far[[4, 7]].max(axis=1).argmax()), "element": int(far[[4, 7]].max(axis=0).argmax())}
    assert answers.meta(few, "0")["answer"] == orbit_answer(result), "a file of some samples says what the whole run says"


def test_with_one_model_it_opens_where_most_is_lost(tmp_path: Path) -> None:
    values = (result := run(tmp_path, {"net": first})).values("net", "confidence")
    sample, element = np.unravel_index(int((values[:, [0]] - values).argmax()), values.shape)
    assert answers.telling(result) == {"sample": sample, "element": element}
