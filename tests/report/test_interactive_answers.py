from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from orbit_run import evaluation
from veracity import OrbitEvaluation, OrbitResult
from veracity.core.errors import SpecError
from veracity.orbits import Classification, Flow, FlowOrbit, GroupOrbit, Regression
from veracity.orbits.live import LiveAnswer
from veracity.perturb import CyclicShift
from veracity.report.interactive import answers, render_offline
from veracity.report.interactive.packed import plain, unpack
from veracity.report.interactive.subset import Subset


class Halves(nn.Module):
    """A flow that moves everything by half a pixel to the right, whatever it sees."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([torch.full_like(x[:, 0], 0.5), torch.zeros_like(x[:, 0])], dim=1)


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> OrbitResult:
    generator = torch.Generator().manual_seed(0)
    pairs, truth = torch.rand(3, 2, 16, 16, generator=generator), torch.zeros(3, 2, 16, 16)
    made = OrbitEvaluation(
        models={"halves": Halves()}, inputs=pairs, targets=truth, orbit=FlowOrbit(), task=Flow(), labels=["calm", "wild", "calm"]
    )
    return made.run(tmp_path_factory.mktemp("fields") / "run", progress=False)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> OrbitResult:
    x = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))
    made = OrbitEvaluation(
        models={"mean": lambda x: x.mean(dim=-1, keepdim=True)},
        inputs=x,
        orbit=GroupOrbit(space=CyclicShift(axes=(-1,))),
        task=Regression(),
    )
    return made.run(tmp_path_factory.mktemp("numbers") / "run", progress=False)


def test_a_flow_has_errors_and_arrows_of_every_element(fields: OrbitResult) -> None:
    about = answers.meta(fields, "3")
    assert (about["id"], about["layout"], about["task"], about["input"]["kind"]) == ("3", "tiles", "flow", "pair")
    assert (about["groups"], about["classes"], about["labels"]) == (["calm", "wild"], [], [0, 1, 0])
    header, arrays = unpack(answers.sample(fields, 1, frames=True))
    assert (header["label"], header["truth_class"]) == (1, None)
    assert {name: array.shape for name, array in arrays.items()} == {
        "input": (2, 16, 16), "truth": (16, 2, 16, 16), "consensus/halves": (2, 16, 16), "errors/halves": (16, 64, 64),
        "consensus_errors/halves": (16, 64, 64), "quiver/halves": (16, 2, 16, 16),
    }  # fmt: skip
    np.testing.assert_array_equal(arrays["consensus_errors/halves"], fields.outputs("halves", 1)["consensus_errors"])
    assert arrays["errors/halves"] == pytest.approx(np.full((16, 64, 64), 0.5), abs=1e-3)
    assert arrays["quiver/halves"][:, 0] == pytest.approx(np.full((16, 16, 16), 0.5), abs=1e-3)


def test_a_run_without_truth_has_the_consensus_alone(numbers: OrbitResult) -> None:
    about = plain(answers.meta(numbers, "0"))
    assert {tuple(metric["references"]) for metric in about["metrics"]} == {("consensus",)}
    assert (about["agreement"], about["labels"], about["thumbnail"], about["groups"]) == ([], None, None, [])
    assert about["gaps"][0]["value"] == pytest.approx(0.0, abs=1e-6)
    assert about["input"]["kind"] == "series"
    with pytest.raises(SpecError, match="no small pictures"):
        answers.thumbnails(numbers)


def test_a_series_is_moved_for_a_file(numbers: OrbitResult) -> None:
    _, arrays = unpack(answers.sample(numbers, 2, frames=True))
    assert arrays["frames"].shape == (6, 1, 6)
    np.testing.assert_array_equal(arrays["frames"][2, 0], np.roll(arrays["input"][0], 2))
    assert "/api/runs/0/thumbnails" not in render_offline(numbers).partition('id="payload"')[2].partition("</script>")[0]


def test_groups_that_are_classes_are_numbered_as_classes(tmp_path: Path) -> None:
    words = ["7", "zero", "7", "3"]
    result = evaluation(samples=4, explainers=(), labels=words).run(tmp_path / "run", progress=False)
    about = answers.meta(result, "0")
    assert about["groups"] == about["classes"]
    assert [about["classes"][label] for label in about["labels"]] == words
    assert [unpack(answers.sample(result, number))[0]["label"] for number in range(4)] == about["labels"]


def test_groups_of_another_kind_keep_their_own_names(tmp_path: Path) -> None:
    result = evaluation(samples=3, explainers=(), labels=["new", "old", "new"]).run(tmp_path / "run", progress=False)
    about = answers.meta(result, "0")
    assert (about["groups"], about["labels"], about["classes"][0]) == (["new", "old"], [0, 1, 0], "zero")


def test_a_sample_without_a_class_has_no_label(tmp_path: Path) -> None:
    made = evaluation(samples=3, explainers=())
    targets = made.targets.clone()
    targets[1] = -1
    result = evaluation(samples=3, explainers=(), targets=targets).run(tmp_path / "run", progress=False)
    assert answers.meta(result, "0")["labels"] == [int(targets[0]), None, int(targets[2])]
    assert unpack(answers.sample(result, 1))[0]["label"] is None


def test_what_failed_is_said_once() -> None:
    rows = [{"model": "net", "explainer": "lime", "samples": f"{start}-", "error": "no luck"} for start in (0, 64)]
    view: Any = SimpleNamespace(failures=lambda: pd.DataFrame(rows))
    assert answers.failure_sentences(view) == ["net failed for lime: no luck"]


def test_a_live_answer_leaves_large_fields_out() -> None:
    one = np.zeros((2, 4, 4), dtype=np.float32)
    classified = LiveAnswer(at=(90.0,), label="turned", input=None, outputs={"net": one}, metrics={})
    assert list(answers.live(classified)[1]) == ["outputs/net"]
    field = replace(classified, errors={"net": one[0]}, consensus_errors={"net": one[1]}, quiver={"net": one})
    assert list(answers.live(field)[1]) == ["errors/net", "consensus_errors/net", "quiver/net"]


def test_groups_are_never_taken_for_classes(tmp_path: Path) -> None:
    made = evaluation(samples=4, explainers=(), task=Classification(), labels=["day", "night", "day", "night"])
    result = made.run(tmp_path / "run", progress=False)
    about = answers.meta(result, "0")
    assert about["classes"] == [str(number) for number in range(10)]
    assert (about["groups"], about["labels"]) == (["day", "night"], [0, 1, 0, 1])
    headers = [unpack(answers.sample(result, number))[0] for number in range(4)]
    assert [header["truth_class"] for header in headers] == made.targets.tolist()
    assert [header["label"] for header in headers] == [0, 1, 0, 1]
    few = Subset(result, np.array([1, 3]))
    assert unpack(answers.sample(few, 1))[0]["truth_class"] == int(made.targets[3])
