from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from small import series_inputs, small_net
from text_models import TEXTS, text_model, tokenizer
from veracity import Audit
from veracity.core.errors import InputError, Note
from veracity.core.graphs import GraphInputs
from veracity.core.inputs import TensorInputs
from veracity.core.targets import ONE_OUTPUT, SUMS_DIFFER, Custom, Outputs, Predicted
from veracity.engine.admission import admit, check_mixing, check_rows, first_pass
from veracity.engine.memory import Budget
from veracity.engine.problem import AuditedModel
from veracity.inputs import TextInputs
from veracity.perturb import CyclicShift


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.randn(len(x), 3)


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class Undecided(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"one": x, "other": x}


class Field(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def test_outputs_are_recognised_and_read_as_probabilities() -> None:
    logits = torch.tensor([[1.0, -1.0], [0.0, 3.0]])
    assert Outputs.detect(logits) is Outputs.LOGITS
    assert Outputs.detect(logits.softmax(1)) is Outputs.PROBABILITIES
    assert Outputs.detect(logits[:, :1]) is Outputs.LOGITS
    assert Outputs.detect(logits[:, None]) is Outputs.RAW
    assert torch.allclose(Outputs.LOGITS.read(logits), logits.softmax(1))
    assert torch.equal(Outputs.PROBABILITIES.read(logits.softmax(1)), logits.softmax(1))
    one = Outputs.LOGITS.read(torch.tensor([[0.0], [2.0]]))
    assert torch.allclose(one, torch.tensor([[0.5, 0.5], [1 - 0.880797, 0.880797]]))
    assert Outputs.RAW.read(torch.zeros(2, 3, 4)).shape == (2, 12)


def test_the_accuracy_and_the_targets_come_from_the_unperturbed_inputs() -> None:
    net, x = small_net(), series_inputs(6)
    predicted = net(x).argmax(1)
    labels = predicted.clone()
    labels[0] = (labels[0] + 1) % 3
    model, accuracy = admit("net", net, TensorInputs(x), labels, Predicted(), None, Budget(2))
    assert accuracy == pytest.approx(5 / 6)
    assert torch.equal(model.targets, predicted)
    assert admit("net", net, TensorInputs(x), None, Predicted(), Outputs.RAW, Budget(2))[0].outputs is Outputs.RAW


def test_outputs_that_could_be_logits_or_probabilities_are_told() -> None:
    inputs, flat = TensorInputs(series_inputs(6)), nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.Sigmoid()).eval()
    model, _ = admit("net", flat, inputs, None, Predicted(), None, Budget(8))
    assert (model.outputs, model.doubt) == (Outputs.PROBABILITIES, SUMS_DIFFER)
    assert admit("net", flat, inputs, None, Predicted(), Outputs.PROBABILITIES, Budget(8))[0].doubt is None
    assert admit("net", nn.Sequential(flat[:2], nn.Softmax(1)).eval(), inputs, None, Predicted(), None, Budget(8))[0].doubt is None
    assert admit("net", small_net(), inputs, None, Predicted(), None, Budget(8))[0].doubt is None
    assert (
        admit("net", nn.Sequential(nn.Flatten(), nn.Linear(12, 1)).eval(), inputs, None, Predicted(), None, Budget(8))[0].doubt
        == ONE_OUTPUT
    )


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (
            torch.tensor([0, 1, 2, 3, 0, 4]),
            "The target of sample 3 is 3, but model 'net' has 3 classes, numbered 0 to 2 (2 of 6 name no class)",
        ),
        (torch.tensor([0, 1, -1, 1, 0, 2]), "The target of sample 2 is -1, but model 'net' has 3 classes"),
        (torch.tensor([0.0, 1.0, 2.0, 1.0, 0.5, 1.0]), "The target of sample 4 is 0.5, but model 'net' has 3 classes"),
        (torch.zeros(6), "The target of sample 0 is 0.0, but model 'net' has 3 classes, numbered 0 to 2: convert them from float32"),
    ],
)
def test_a_label_that_is_no_class_is_refused_and_not_counted_as_wrong(bad: Tensor, fault: str) -> None:
    with pytest.raises(InputError) as raised:
        admit("net", small_net(), TensorInputs(series_inputs(6)), bad, Predicted(), None, Budget(8))
    assert str(raised.value).startswith(fault)
    model, accuracy = admit("net", small_net(), TensorInputs(series_inputs(6)), bad, Predicted(), Outputs.RAW, Budget(8))
    assert accuracy is None
    assert model.correct is None


def test_a_regression_may_have_any_targets() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 1)).eval()
    for targets in (torch.randn(6), torch.tensor([-3, 7, 0, 1, 2, 90])):
        assert admit("net", net, TensorInputs(series_inputs(6)), targets, Predicted(), None, Budget(8))[1] is None


def test_a_model_that_draws_is_refused() -> None:
    with pytest.raises(InputError, match="gives different outputs for the same input"):
        admit("net", Noisy(), TensorInputs(series_inputs(6)), None, Predicted(), None, Budget(8))


def test_outputs_that_are_not_scores_need_a_target() -> None:
    inputs = TensorInputs(series_inputs(6))
    with pytest.raises(InputError, match=r"outputs of shape \(1, 12, 1, 1, 1\) per sample.*pass target="):
        admit("net", nn.Sequential(Field(), nn.Unflatten(2, (12, 1, 1, 1))), inputs, None, Predicted(), None, Budget(8))
    model, _ = admit("net", Field(), inputs, None, Custom(function=lambda output: output.sum((1, 2))), None, Budget(8))
    assert model.outputs is Outputs.RAW
    view, _ = first_pass("net", Pair(), inputs, None, None)
    assert torch.equal(view(inputs.tensor), inputs.tensor)
    with pytest.raises(InputError, match="must return one tensor with a row for each input, not a dict"):
        first_pass("net", Undecided(), inputs, None, None)


class Centred(nn.Module):
    """Subtracts a share of the batch's mean."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.net, self.share = small_net(), share

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x - self.share * x.mean(0))
        return out


def unstatistical() -> nn.Module:
    """BatchNorm without running statistics, which looks at the batch in evaluation mode, too."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        norm = nn.BatchNorm1d(6, track_running_stats=False)
        return nn.Sequential(nn.Conv1d(1, 6, 3), nn.ReLU(), norm, nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(6, 3)).eval()


def run_of(model: nn.Module, **settings: Any) -> Audit:
    given = {"inputs": series_inputs(6), "explainers": ["gradient"], "symmetry": CyclicShift(axes=(-1,)), "controls": False}
    return Audit(models={"net": model}, **{**given, **settings})


def test_outputs_that_depend_on_the_batch_are_told_by_how_much(tmp_path: Path) -> None:
    model, x = Centred(0.01), series_inputs(6)
    with pytest.warns(Note, match="net / outputs: its outputs change by") as said:
        prepared = run_of(model).prepare()
    together, alone = model(x[:4]), torch.cat([model(x[row : row + 1]) for row in range(4)])
    share = float((together - alone).detach().abs().max() / torch.maximum(together.abs(), alone.abs()).max().detach())
    assert 1e-3 < share < 0.05
    assert prepared.problem.models["net"].mixing == pytest.approx(share, rel=1e-4)
    assert [str(one.message) for one in said if "when other inputs are in the batch" in str(one.message)] == [
        f"net / outputs: its outputs change by {share:.1%} when other inputs are in the batch, so that every score mixes samples and "
        "depends on the batch size: use statistics that do not depend on the batch, or audit it row by row: audit.run(folder, batch=1)."
    ]
    with pytest.warns(Note, match="when other inputs are in the batch"):
        page = run_of(model).run(tmp_path).save_report(tmp_path / "report.html").read_text()
    assert "when other inputs are in the batch" in page


@pytest.mark.parametrize(
    ("model", "says"), [(Centred(1.0), "changes its output for"), (unstatistical(), "predicts another class for")], ids=["mean", "norm"]
)
def test_outputs_that_follow_the_batch_are_refused(model: nn.Module, says: str, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=rf"^Model 'net' {says} an input when other inputs are in the batch \(its outputs change by \d+%\)"
    ):
        run_of(model).run(tmp_path)
    x = series_inputs(6)
    found = run_of(model, scores=["model_invariance"]).run(tmp_path, batch=1)
    assert found.failures().empty
    alone, moved = (torch.cat([model(one[None]).softmax(1) for one in some]) for some in (x, x.roll(1, -1)))
    cosine = torch.nn.functional.cosine_similarity(alone, moved).detach()
    assert found.draws("model_invariance")["net", ""][:, 1] == pytest.approx(cosine.numpy(), abs=1e-5)


def test_one_output_that_follows_the_batch_is_refused() -> None:
    class Ranks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            total = x.sum((1, 2))
            return (total - total.mean())[:, None]

    with pytest.raises(InputError, match=r"^Model 'net' changes its output for an input when other inputs are in the batch"):
        admit("net", Ranks(), TensorInputs(series_inputs(6)), None, Predicted(), None, Budget(8))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_rounding_is_not_taken_for_it(kind: torch.dtype) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = (nn.Flatten(), nn.Linear(12, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        wide = nn.Sequential(*layers).eval().to(kind)
    inputs = TensorInputs(series_inputs(6).to(kind))
    assert admit("net", wide, inputs, None, Predicted(), None, Budget(8))[0].mixing == 0.0


def test_a_change_just_above_the_threshold_counts_and_one_below_does_not() -> None:
    together = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert check_mixing("net", together, together + 0.0009) == 0.0
    assert check_mixing("net", together, together + 0.0021) == pytest.approx(0.0021 / 1.0021, rel=1e-3)
    assert check_mixing("net", together.half(), together.half() + 0.01) == 0.0
    assert check_mixing("net", together[:1], together[:1] + 1) == 0.0


def test_numbers_of_a_mixing_model_are_kept_apart_by_the_batch() -> None:
    def keys(model: nn.Module, batch: int) -> set[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Note)
            return {cell.key for job in run_of(model).prepare(batch=batch).jobs for cell in job.cells}

    assert not keys(Centred(0.01), 8) & keys(Centred(0.01), 9)
    assert keys(small_net(), 8) == keys(small_net(), 9)


def test_graphs_and_tokens_are_looked_at_alone_too() -> None:
    class Mean(nn.Module):
        """The mean of each graph's or text's values, with a little of the others' mixed in."""

        def forward(self, x: Tensor, *structure: Tensor) -> Tensor:
            own = torch.stack((x.flatten(1).mean(1), x.flatten(1).amax(1)), dim=1)
            return own + 0.01 * own.mean(0)

    values = series_inputs(4).transpose(1, 2)
    mask, edges = torch.ones(4, 12, dtype=torch.bool), torch.tensor([[0, 1], [1, 0]]).expand(4, 2, 2)
    graphs = GraphInputs(values, mask, edges)
    few = graphs.take(torch.arange(4))
    assert len(few.structure) > 0
    assert check_rows("net", Mean(), few) > 1e-3


class Argmax(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).argmax(1, keepdim=True)


def test_whole_numbers_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        run_of(Argmax()).run(tmp_path)
    assert str(raised.value) == (
        "Model 'net' must return scores in floating point, not torch.int64: return what comes before argmax or a threshold."
    )
    with pytest.raises(InputError, match="The target 'custom' gives int64 for model 'net', not floating point"):
        run_of(small_net(), target=Custom(function=lambda output: output.argmax(1))).run(tmp_path)


def test_sparse_inputs_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^The inputs are a sparse tensor: convert them with \.to_dense\(\)\.$"):
        run_of(small_net(), inputs=series_inputs(6).to_sparse()).run(tmp_path)


def test_a_model_that_throws_on_a_sample_as_it_is_names_the_sample(tmp_path: Path) -> None:
    class Refuses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: Tensor) -> Tensor:
            if bool((x.amax((1, 2)) > 50).any()):
                raise ArithmeticError("too large")
            out: Tensor = self.net(x)
            return out

    x = series_inputs(6)
    x[3, 0, 0] = 100.0
    with pytest.raises(InputError) as raised:
        run_of(Refuses(), inputs=x).run(tmp_path)
    text = "Model 'net' fails on sample 3 with ArithmeticError: too large: leave the sample out, or fix the model."
    assert str(raised.value) == text

    class Single(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 1:
                raise ValueError("one at a time")
            return x.flatten(1)

    with pytest.raises(InputError, match="takes every input alone, but fails on several at once with ValueError: one at a time"):
        run_of(Single()).run(tmp_path)


class Constant(nn.Module):
    """Returns fixed outputs for the first samples, whatever the inputs."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = nn.Parameter(output)

    def forward(self, x: Tensor) -> Tensor:
        return self.output[x[:, 0].long()]


def admitted(output: Tensor, labels: Tensor | None, outputs: Outputs | None = None) -> tuple[AuditedModel, float | None]:
    inputs = TensorInputs(torch.arange(float(len(output)))[:, None])
    return admit("net", Constant(output), inputs, labels, Predicted(), outputs, Budget(8))


def test_a_single_output_beside_other_labels_than_0_and_1_is_a_regression() -> None:
    values = torch.tensor([[0.5], [-2.0], [3.0], [1.0]])
    model, accuracy = admitted(values, torch.tensor([0.4, -1.7, 2.2, 1.0]))
    assert (model.outputs, accuracy, model.doubt, model.targets.tolist()) == (Outputs.RAW, None, None, [0] * 4)
    assert admitted(values, torch.tensor([3, 1, 5, 2]))[0].outputs is Outputs.RAW
    assert admitted(values, None)[0].outputs is Outputs.LOGITS


def test_one_output_classifies_by_its_sign_and_has_an_accuracy() -> None:
    logits = torch.tensor([[0.5], [-2.0], [3.0], [1.0]])
    model, accuracy = admitted(logits, torch.tensor([1, 0, 1, 0]))
    assert (model.outputs, accuracy, model.targets.tolist()) == (Outputs.LOGITS, 0.75, [0] * 4)
    share = torch.tensor([[0.6], [0.4]])
    assert admitted(share, torch.tensor([1, 1]), Outputs.PROBABILITIES)[1] == 0.5


def test_several_labels_are_counted_one_by_one_and_read_by_sigmoids() -> None:
    logits, labels = torch.tensor([[2.0, -1.0, 3.0], [-1.0, -2.0, 0.0]]), torch.tensor([[1, 0, 0], [0, 0, 0]])
    model, accuracy = admitted(logits, labels)
    assert model.outputs is Outputs.MULTILABEL
    assert accuracy == pytest.approx(5 / 6)
    assert model.correct is None
    assert torch.allclose(model.outputs.read(logits), logits.sigmoid())
    unit, accuracy = admitted(logits.sigmoid(), labels)
    assert (unit.outputs, unit.doubt, accuracy) == (Outputs.PROBABILITIES, None, pytest.approx(5 / 6))
    with pytest.raises(InputError, match=r"The targets have the shape \(2,\) per sample, but model 'net' returns \(3,\): pass one class"):
        admitted(logits, labels[:, :2])


def test_pixels_have_an_accuracy_and_void_labels_do_not_count() -> None:
    maps = torch.zeros(2, 3, 2, 2)
    maps[:, 1, 0] = 2.0
    labels = torch.tensor([[[1, 0], [0, 0]], [[1, 1], [255, 2]]])
    model, accuracy = admitted(maps, labels)
    assert accuracy == pytest.approx(5 / 7)
    assert (model.outputs, model.classes, model.targets.tolist()) == (Outputs.LOGITS, None, [1, 1])
    assert admitted(maps.softmax(1), labels)[0].outputs is Outputs.PROBABILITIES
    with pytest.raises(InputError, match="one label per pixel, 4 per sample"):
        admitted(maps, torch.tensor([0, 1]))


def test_next_tokens_are_classes() -> None:
    output = torch.zeros(2, 3, 5)
    output[0, 2, 4], output[1, 2, 1] = 1.0, 1.0
    model, accuracy = admitted(output, torch.tensor([4, 2]))
    assert (model.targets.tolist(), model.classes, accuracy) == ([4, 1], 5, 0.5)


def test_an_adapter_says_what_its_outputs_are() -> None:
    net = Constant(torch.tensor([[0.5], [-2.0]]))
    net.outputs = Outputs.RAW
    assert admit("net", net, TensorInputs(torch.tensor([[0.0], [1.0]])), None, Predicted(), None, Budget(8))[0].outputs is Outputs.RAW


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_network_without_a_head_is_refused_unless_a_target_reads_it(wrapped: bool) -> None:
    pytest.importorskip("transformers")
    body = text_model().distilbert
    given: dict[str, Any] = {"models": body, "inputs": TextInputs(TEXTS, tokenizer()), "explainers": ["gradient"], "scores": ["insertion"]}
    if wrapped:
        given.update(models=Headless(), inputs=torch.rand(4, 5))
    for target in ("predicted", 0):
        with pytest.raises(InputError, match=r"Model 'model' \(\w+\) has no classification head, and its output is hidden states: load it"):
            Audit(**given, target=target, controls=False).prepare()
    Audit(**given, target=lambda hidden: hidden[:, 0, 0], controls=False).prepare()


class Headless(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"last_hidden_state": x[:, :, None] * torch.ones(1, 1, 3)}
