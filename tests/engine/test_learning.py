"""What an explainer learns is learnt once, kept, and handed back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Size, Tensor, nn

from small import series_inputs, small_net
from veracity import Audit
from veracity.core.errors import InputError, Note, SpecError
from veracity.core.explainers import Context, Cost, Frame, Learner, Need
from veracity.perturb import CyclicShift

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ToMean(Learner):
    """Products with training examples, after their mean was learnt."""

    name = "to_mean"
    frame = Frame.TRAINING
    scale: float = 1.0

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.TRAINING})

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1)

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        assert context.training is not None
        LOG.warning("learnt")  # what is logged does not count for the key
        return {"examples": context.training.inputs.take(torch.arange(context.training.inputs.size())).values.flatten(1) * self.scale}

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        return [{"examples": len(learnt["examples"]), **({"warning": "scaled"} if self.scale != 1.0 else {})}]

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return inputs.flatten(1) @ context.learnt["examples"].T


def audit(**changes: Any) -> Audit:
    settings: dict[str, Any] = {
        "models": {"net": small_net()},
        "inputs": series_inputs(4),
        "explainers": [ToMean()],
        "symmetry": CyclicShift(axes=(-1,)),
        "scores": ["symmetry"],
        "training": (series_inputs(7), torch.arange(7) % 3),
        "controls": False,
    }
    return Audit(**{**settings, **changes})


def test_it_is_learnt_once_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = audit().run(tmp_path / "run", progress=False)
    assert first.facts().to_dict("records") == [{"model": "net", "explainer": "to_mean", "examples": 7}]
    (tmp_path / "run" / "cells").rename(tmp_path / "gone")
    again = audit().run(tmp_path / "run", progress=False)
    assert [one.message for one in caplog.records] == ["learnt"]
    assert again.table()["value"].tolist() == first.table()["value"].tolist()
    x, base = series_inputs(4).flatten(1), series_inputs(7).flatten(1)
    before = x @ base.T
    after = torch.stack([x.roll(shift, 1) @ base.T for shift in range(12)])
    expected = torch.cosine_similarity(after, before.expand_as(after), dim=2).mean()
    assert float(first.table()["value"].iloc[0]) == pytest.approx(float(expected), abs=1e-5)


def test_a_forecast_counts_what_must_be_learnt(tmp_path: Path) -> None:
    before = audit().forecast(tmp_path / "run")
    assert (before.lessons, before.finished) == (1, 0)
    assert not (tmp_path / "run").exists()
    with_lesson = before.forward
    audit().run(tmp_path / "run", progress=False)
    after = audit().forecast(tmp_path / "run")
    assert (after.lessons, after.finished, after.forward) == (0, before.cells, 0)
    for cell in (tmp_path / "run" / "cells").iterdir():
        cell.unlink()
    assert with_lesson - audit().forecast(tmp_path / "run").forward == 7


def test_other_training_examples_are_another_lesson(tmp_path: Path) -> None:
    one = audit().prepare()
    other = audit(training=(series_inputs(5), torch.arange(5) % 3)).prepare()
    same = audit().prepare()
    keys = [[cell.key for job in found.jobs for cell in job.cells] for found in (one, other, same)]
    assert keys[0] == keys[2]
    assert not set(keys[0]) & set(keys[1])


def test_a_warning_of_a_lesson_reaches_the_reader(tmp_path: Path) -> None:
    with pytest.warns(Note, match="net / to_mean: scaled"):
        audit(explainers=[ToMean(scale=2.0)]).run(tmp_path / "run", progress=False)


def test_what_is_missing_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"to_mean needs training examples: pass Audit\(training="):
        audit(training=None).prepare()


class Sum(nn.Module):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return torch.zeros(int(batch.max()) + 1, 3).index_add(0, batch, x)


def test_an_explainer_of_plain_tensors_refuses_graphs() -> None:
    graph = type("Graph", (), {"x": torch.ones(2, 3), "edge_index": torch.tensor([[0], [1]])})()
    pair = ([graph, graph], torch.tensor([0, 1]))
    asked = audit(models=Sum(), inputs=[graph], training=pair, symmetry=None, scores=["self_agreement"])
    with pytest.raises(InputError, match="to_mean explains plain tensors only"):
        asked.prepare()


@dataclass(frozen=True, kw_only=True)
class Refuses(ToMean):
    name = "refuses"

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        raise ValueError("no lesson today")


@dataclass(frozen=True, kw_only=True)
class Weighs(ToMean):
    """Learns from the model alone."""

    name = "weighs"
    frame = Frame.INPUT

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset()

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        return {"w": next(model.parameters()).detach().sum()}

    def facts(self, learnt: Mapping[str, Tensor], context: Context) -> list[dict[str, Any]]:
        return []

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return inputs * context.learnt["w"]


def test_one_that_cannot_learn_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    with pytest.warns(Note, match="net / symmetry, self_agreement failed for refuses: ValueError: no lesson today"):
        result = audit(explainers=[ToMean(), Refuses()]).run(tmp_path / "run", progress=False)
    table = result.table().set_index("explainer")
    assert table.loc["to_mean", "n"] == 4
    assert table.loc["refuses", "failed"] == "ValueError: no lesson today"


def test_an_explainer_may_learn_from_the_model_alone(tmp_path: Path) -> None:
    result = audit(explainers=[Weighs()], training=None).run(tmp_path / "run", progress=False)
    assert result.table()["value"].tolist() == pytest.approx([1.0])


def test_training_examples_that_the_model_cannot_take() -> None:
    with pytest.raises(InputError, match=r"cannot take training examples of shape \(1, 1, 12\) and type float64"):
        audit(training=(series_inputs(7).double(), torch.arange(7) % 3)).prepare()
