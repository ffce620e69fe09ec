"""Plain functions and Captum's methods of a layer on texts, whose tokens are carried along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import captum.attr
import pytest
import torch
from torch import Tensor, nn

from text_models import TEXTS, text_model, tokenizer
from veracity import Audit
from veracity.core.errors import InputError, Note
from veracity.core.explainers import Context, Explainer
from veracity.core.inputs import Signals
from veracity.core.randomness import Draws
from veracity.explain import CaptumMethod, Function, InputXGradient, IntegratedGradients
from veracity.explain.captum_methods import Remade
from veracity.inputs import TextInputs

DRAWS = 6


@pytest.fixture(scope="module")
def gated() -> tuple[nn.Module, Signals]:
    inputs = TextInputs(TEXTS, tokenizer())
    return inputs.adapt(text_model()), inputs.take(torch.arange(len(TEXTS)))


def explain(explainer: Explainer, model: nn.Module, x: Signals) -> Tensor:
    targets = torch.tensor([0, 1, 1, 0])[: len(x)]
    return explainer.explain(model, x.values, targets, context(x))


def context(x: Signals) -> Context:
    return Context(Draws.of(0, torch.arange(len(x))), 64, x.structure, present=x.present)


def slopes(model: Any, x: Tensor, targets: Tensor, *carried: Tensor) -> Tensor:
    leaf = x.detach().requires_grad_()
    (found,) = torch.autograd.grad(model(leaf, *carried).gather(1, targets[:, None]).sum(), leaf)
    return found


def by_hand(model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    return inputs * slopes(model, inputs, targets)


def noise(shape: Any) -> Tensor:
    return torch.randn(DRAWS, *shape, generator=torch.Generator().manual_seed(1))


def smooth(model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    """SmoothGrad, with all draws of all rows in one batch."""
    moved = inputs.repeat_interleave(DRAWS, 0) + 0.1 * noise(inputs.shape[1:]).repeat(len(inputs), 1)
    return slopes(model, moved, targets.repeat_interleave(DRAWS)).reshape(len(inputs), DRAWS, -1).mean(1)


def twice(model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    """Every row alone, twice in one batch: by chance as many rows as in a trial."""
    rows = range(len(inputs))
    return torch.stack([slopes(model, inputs[[row, row]], targets[[row, row]]).mean(0) for row in rows])


def test_a_function_of_three_arguments_gets_a_model_that_knows_the_tokens(gated: tuple[nn.Module, Signals]) -> None:
    mine = Function(function=by_hand)
    torch.testing.assert_close(explain(mine, *gated), explain(InputXGradient(), *gated))
    model, x = gated
    assert not [note for note in mine.check(model, x.values, torch.tensor([0, 1, 1, 0]), context(x)) if "one row" in note]


def test_a_function_that_repeats_rows_explains_one_row_at_a_time(gated: tuple[nn.Module, Signals]) -> None:
    model, x = gated
    targets, mine = torch.tensor([0, 1, 1, 0]), Function(function=smooth)
    wanted = torch.stack([slopes(model, x.values + 0.1 * draw, targets, *x.structure) for draw in noise(x.values.shape[1:])]).mean(0)
    torch.testing.assert_close(explain(mine, *gated), wanted)
    assert any("smooth calls the model with other rows" in note for note in mine.check(model, x.values, targets, context(x)))


def test_rows_that_fit_by_chance_are_found_by_the_trial(gated: tuple[nn.Module, Signals]) -> None:
    model, x = gated
    targets = torch.tensor([0, 1, 1, 0])
    found = Function(function=twice).specialise(model, x.values, targets, context(x))
    torch.testing.assert_close(explain(found, model, x[:2]), slopes(model, x.values, targets, *x.structure)[:2])


@pytest.mark.parametrize("layer", [None, "distilbert.embeddings.word_embeddings"])
def test_layer_integrated_gradients_are_those_over_gates(gated: tuple[nn.Module, Signals], layer: str | None) -> None:
    method = CaptumMethod(attribution=captum.attr.LayerIntegratedGradients, layer=layer, settings={"n_steps": 8}, random=False)
    torch.testing.assert_close(explain(method, *gated), explain(IntegratedGradients(steps=8), *gated), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_an_object_of_a_layer_is_made_again_for_tokens_and_for_copies(seed: int) -> None:
    model, inputs = text_model(), TextInputs(TEXTS, tokenizer())
    made, copy = captum.attr.LayerIntegratedGradients(model, model.get_input_embeddings()), inputs.adapt(text_model(seed))
    x, settings = inputs.take(torch.arange(len(TEXTS))), {"n_steps": 4}
    mine, wanted = (
        CaptumMethod(attribution=one, settings=settings, random=False) for one in (Remade(made), captum.attr.LayerIntegratedGradients)
    )
    torch.testing.assert_close(explain(mine, copy, x), explain(wanted, copy, x))
    assert made.forward_func is model


def test_a_layer_that_the_model_does_not_have(gated: tuple[nn.Module, Signals]) -> None:
    with pytest.raises(InputError, match="no layer 'word_embedding'"):
        explain(CaptumMethod(attribution=captum.attr.LayerIntegratedGradients, layer="word_embedding"), *gated)


def test_an_audit_takes_both(tmp_path: Path) -> None:
    explainers = {"mine": by_hand, "smooth": smooth, "ours": "input_x_gradient", "captum": captum.attr.InputXGradient}
    asked = Audit(models=text_model(), inputs=TextInputs(TEXTS, tokenizer()), explainers=explainers, scores=["sparseness"], controls=False)
    with pytest.warns(Note, match="smooth: .* so it explains one row at a time"):
        run = asked.run(tmp_path, progress=False)
    found = run.samples("sparseness").pivot(index="sample", columns="explainer", values="value")
    assert found["mine"].to_numpy() == pytest.approx(found["ours"].to_numpy(), abs=1e-6)
    assert found["captum"].to_numpy() == pytest.approx(found["ours"].to_numpy(), abs=1e-6)
    assert found["smooth"].to_numpy() != pytest.approx(found["ours"].to_numpy(), abs=1e-3)
