"""Explainers of others are tried before anything is measured: do they leave the model alone, and the rows of a batch apart?"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Size, Tensor, nn

from small import series_inputs, small_net
from text_models import TEXTS, text_model, tokenizer
from veracity import Audit
from veracity.core.errors import ChangedModelError, InputError, Note
from veracity.core.explainers import Context, Cost, Explainer
from veracity.core.scores import Reads
from veracity.engine.memory import MEMORY
from veracity.engine.trial import of_others
from veracity.explain import Function, Gradient, Precomputed, Shap, SmoothGrad, Symmetrised
from veracity.explain.maps import apart
from veracity.inputs import TextInputs
from veracity.perturb import CyclicShift


def audit(explainer: Any, net: nn.Module | None = None, **settings: Any) -> Audit:
    given: dict[str, Any] = {
        "models": {"net": small_net() if net is None else net},
        "inputs": series_inputs(6),
        "explainers": {"mine": explainer},
        "symmetry": CyclicShift(axes=(-1,)),
        "scores": ["equivariance"],
        "controls": False,
    }
    return Audit(**{**given, **settings})


def notes_of(audit: Audit) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", Note)
        prepared = audit.prepare()
    assert [str(one.message).split(": ", 1)[1] for one in said] == [note["text"] for note in prepared.notes]
    return [note["text"] for note in prepared.notes]


@dataclass(frozen=True, kw_only=True)
class Mine(Explainer):
    """An explainer that somebody wrote to the protocol; what it does to the model stands in `does`."""

    name: ClassVar[str] = "mine"
    does: str = ""
    after: int = 0

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1, backward=1)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        CALLS.append(len(inputs))
        if len(CALLS) > self.after:
            change(model, self.does)
        found = Gradient().explain(model, inputs, targets, context)
        if self.does == "draw":
            return found + torch.rand_like(found)
        if self.does == "one draw":
            return found + torch.rand(())
        if self.does == "own draws":
            return found + context.draws.normal(found[0].numel(), stream="mine").reshape(found.shape)
        return found - found.mean(0) if self.does == "mix" else found


CALLS: list[int] = []


@pytest.fixture(autouse=True)
def _no_calls() -> Iterator[None]:
    CALLS.clear()
    yield
    CALLS.clear()


@torch.no_grad()
def change(model: nn.Module, does: str) -> None:
    first: Any = next(iter(model.children()))
    match does:
        case "scale":
            first.weight.mul_(1.01)
        case "data":
            first.weight.data.mul_(1.01)
        case "buffer":
            model.register_buffer("seen", torch.zeros(1)) if not hasattr(model, "seen") else model.seen.add_(1)
        case "freeze":
            first.weight.requires_grad_(False)
        case "train":
            model.train()
        case "hook":
            first.register_forward_hook(lambda *_: None)
        case "seed":
            torch.manual_seed(0)


def state(net: nn.Module) -> tuple[Any, ...]:
    flags = [(name, one.requires_grad, one.grad is None) for name, one in net.named_parameters()]
    hooks = [len(module._forward_hooks) + len(module._backward_hooks) for module in net.modules()]
    values = {name: value.numpy().tobytes() for name, value in net.state_dict().items()}
    return values, flags, hooks, [module.training for module in net.modules()]


@pytest.mark.parametrize(
    ("does", "named"),
    [
        ("scale", "'0.weight'"),
        ("data", "'0.weight'"),
        ("buffer", "its layers"),
        ("freeze", "requires_grad of its weights"),
        ("train", "its training mode"),
        ("hook", "its hooks"),
    ],
)
def test_an_explainer_that_changes_the_model_is_refused_and_the_model_comes_back(does: str, named: str, tmp_path: Path) -> None:
    net = small_net()
    before = state(net)
    with pytest.raises(ChangedModelError) as raised:
        audit(Mine(does=does), net).run(tmp_path)
    text = str(raised.value)
    assert text.startswith(f"On model 'net': mine changes the model that it explains ({named}")
    assert text.endswith("which was restored: let it work on a copy, copy.deepcopy(model).")
    assert state(net) == before


def test_a_model_comes_back_from_an_explainer_that_fails_half_way(tmp_path: Path) -> None:
    def careless(model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        kept = model[0].weight.data.clone()
        model[0].weight.data.zero_()
        if len(CALLS) > 2:
            raise ValueError("too bright")
        CALLS.append(1)
        model[0].weight.data.copy_(kept)
        return inputs

    net = small_net()
    before, alone = state(net), audit("gradient", small_net(), explainers=["gradient"]).run(tmp_path / "alone").table()
    with pytest.warns(Note, match="too bright"):
        result = audit(None, net, explainers={"a": careless, "b": "gradient"}).run(tmp_path / "both")
    assert state(net) == before
    assert result.table().set_index("explainer").loc["b", "value"].max() == alone["value"].max()


def test_an_explainer_that_sets_an_attribute_of_the_model_is_refused(tmp_path: Path) -> None:
    class Gained(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.gain = small_net(), 1.0

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.gain * self.net(x)
            return out

    def silences(model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        model.gain = 0.0
        return inputs

    net = Gained()
    with pytest.raises(ChangedModelError, match=r"mine changes the model that it explains \('gain'\)"):
        audit(silences, net).run(tmp_path)
    assert net.gain == 1.0


def trains(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """A function that explains in training mode, as a slip: batch statistics move."""
    model.train()
    leaf = inputs.requires_grad_()
    return torch.autograd.grad(model(leaf).gather(1, targets[:, None]).sum(), leaf)[0]


def steps(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """A function that takes a step of training."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model(inputs).sum().backward()
    optimiser.step()
    return inputs


@pytest.mark.parametrize(("function", "named"), [(trains, "'1.running_mean'"), (steps, "'0.weight'")])
def test_a_function_that_moves_weights_or_statistics_is_refused(function: Callable[..., Tensor], named: str, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv1d(1, 3, 3), nn.BatchNorm1d(3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(3, 3)).eval()
    before = state(net)
    with pytest.raises(ChangedModelError, match=f"mine changes the model that it explains \\({named}"):
        audit(function, net).run(tmp_path)
    assert state(net) == before


def test_what_it_changes_only_later_is_a_record_that_spares_the_others(tmp_path: Path) -> None:
    net = small_net()
    before, alone = state(net), audit("gradient", small_net(), explainers=["gradient"]).run(tmp_path / "alone").table()
    later = audit(None, net, explainers={"mine": Mine(does="data", after=5), "gradient": "gradient"}, scores=["equivariance", "invariance"])
    with pytest.warns(Note, match="failed for mine: mine changes the model that it explains"):
        result = later.run(tmp_path / "both")
    table = result.table().set_index(["explainer", "score"])
    assert state(net) == before
    assert table.loc["mine", "equivariance"]["state"] == "failed"
    assert table.loc["gradient", "equivariance"]["value"] == pytest.approx(alone["value"].iloc[0], abs=1e-12)
    maps = audit("gradient", small_net(), explainers=["gradient"]).run(tmp_path / "alone").explanations("net", "gradient")
    assert torch.equal(result.explanations("net", "gradient"), maps)


def test_outputs_of_a_changed_model_are_forgotten() -> None:
    MEMORY.recall("key", frozenset({Reads.SCORES}), lambda _: {Reads.SCORES: torch.ones(3)})
    MEMORY.forget()
    assert MEMORY.held == 0
    assert MEMORY.recall("key", frozenset({Reads.SCORES}), lambda _: {Reads.SCORES: torch.zeros(3)})[Reads.SCORES].sum() == 0
    MEMORY.forget()


class Counting(nn.Module):
    """A model that counts its own passes in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        out: Tensor = self.net(x)
        return out


def test_what_a_models_own_pass_changes_is_nobodys_fault(tmp_path: Path) -> None:
    net = Counting()
    result = audit(Mine(), net).run(tmp_path)
    assert result.failures().empty
    assert net.passes == 0


def test_explainers_of_this_package_are_trusted() -> None:
    assert not of_others(Gradient())
    assert not of_others(Symmetrised(explainer=SmoothGrad()))
    assert of_others(Mine())
    assert of_others(Function(function=steps))
    assert of_others(Symmetrised(explainer=Mine()))
    assert of_others(Precomputed(maps=torch.zeros(2, 1, 12), explainer=Mine()))


def per_row(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return Gradient().explain(model, inputs, targets, Context(None, 512))  # type: ignore[arg-type]


def centred(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    found = per_row(model, inputs, targets)
    return found - 0.1 * found.mean(0)


def reseeds(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """SmoothGrad as many write it."""
    torch.manual_seed(0)
    return per_row(model, inputs + 0.5 * torch.randn_like(inputs), targets)


def test_rows_that_depend_on_each_other_are_told_with_the_size_of_it() -> None:
    (text,) = notes_of(audit(centred))
    assert text.startswith("mine explains an input differently when other inputs are in the batch, by ")
    x, net = series_inputs(6)[:2], small_net()
    targets = net(x).argmax(1)
    together, alone = centred(net, x, targets), torch.cat([centred(net, x[row : row + 1], targets[row : row + 1]) for row in (0, 1)])
    share = max(float((a - b).norm() / max(a.norm(), b.norm())) for a, b in zip(together, alone, strict=True))
    assert f"by {share:.0%} on a trial" in text
    (text,) = notes_of(audit(Mine(does="mix")))
    assert "explains an input differently" in text


def test_an_explainer_that_seeds_the_global_generator_is_told_and_the_callers_state_comes_back() -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    (text,) = notes_of(audit(reseeds))
    assert "explains an input differently when other inputs are in the batch" in text
    assert "without torch.manual_seed" in text
    assert notes_of(audit(Mine(does="seed"))) == []
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("does", ["draw", "one draw"])
def test_an_explainer_that_reads_the_global_generator_is_told(does: str, tmp_path: Path) -> None:
    (text,) = notes_of(audit(Mine(does=does)))
    assert text.startswith("mine draws from the global random state")
    torch.manual_seed(1)
    state, array = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    with pytest.warns(Note, match="draws from the global random state"):
        first = audit(Mine(does=does)).run(tmp_path / "first").table()
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == array).all()  # noqa: NPY002
    torch.rand(7)
    with pytest.warns(Note, match="draws from the global random state"):
        again = audit(Mine(does=does)).run(tmp_path / "again").table()
    assert again["value"].tolist() == first["value"].tolist()


def test_a_global_draw_is_told_once() -> None:
    (text,) = notes_of(audit(lambda model, inputs, targets: per_row(model, inputs, targets) + torch.rand_like(inputs)))
    assert "draws from the global random state" in text


@pytest.mark.parametrize("explainer", [Mine(), Mine(does="own draws"), per_row, Function(function=per_row, random=False)])
def test_explainers_that_treat_rows_apart_are_not_noted(explainer: Any) -> None:
    assert notes_of(audit(explainer)) == []


def test_numbers_that_depend_on_the_batch_are_kept_apart_by_it() -> None:
    def keys(explainer: Any, batch: int) -> set[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Note)
            return {cell.key for job in audit(explainer).prepare(batch=batch).jobs if job.explainer for cell in job.cells}

    assert not keys(centred, 8) & keys(centred, 9)
    assert keys(per_row, 8) == keys(per_row, 9)


def test_a_trial_costs_a_handful_of_rows() -> None:
    audit(Mine()).prepare()
    assert CALLS == [2, 1, 1, 2]


def test_a_failing_trial_is_left_to_the_cells(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Fails(Mine):
        def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
            change(model, self.does)
            raise ValueError("not today")

    with pytest.warns(Note, match="failed for mine: ValueError: not today"):
        assert audit(Fails()).run(tmp_path).table()["state"].tolist() == ["failed"]
    net = small_net()
    before = copy.deepcopy(state(net))
    with pytest.raises(ChangedModelError, match="mine changes the model"):
        audit(Fails(does="scale"), net).run(tmp_path / "changed")
    assert state(net) == before


def test_the_share_of_a_change() -> None:
    assert apart(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 4.0]])) == 0.0
    assert apart(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[0.0, 0.0], [0.0, 0.0]])) == 1.0
    assert apart(torch.zeros(2, 3), torch.zeros(2, 4)) == 0.0


@pytest.mark.parametrize(
    ("explainer", "told"),
    [
        (Shap(kind="kernel"), r"mine explains plain tensors only, .* for texts use kernel_shap, partition_shap or integrated_gradients"),
        (Mine(), r"mine explains plain tensors only, .* an Explainer for them sets structured = True"),
    ],
)
def test_an_explainer_that_cannot_read_texts_is_told_with_what_to_do(explainer: Explainer, told: str) -> None:
    pytest.importorskip("transformers")
    texts = TextInputs(TEXTS, tokenizer())
    with pytest.raises(InputError, match=told):
        audit(explainer, text_model(), inputs=texts, symmetry=None, scores=["insertion"]).prepare()
