"""Captum's LLMAttribution objects, against our explainers over gates, which ask the same questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from captum.attr import FeatureAblation, LayerIntegratedGradients, LLMAttribution, LLMGradientAttribution, RemoteLLMAttribution

from language_models import llm_tokenizer, tiny_llama
from veracity import Audit, Continuation, Token
from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Context
from veracity.core.randomness import Draws
from veracity.explain import CaptumLLM, as_explainer
from veracity.inputs import TextInputs
from veracity.scores import FastGEF

pytest.importorskip("transformers")

TEXTS = ["The film", "a very dull film with no heart", "not finely"]
TWO = Continuation(tokens=((12, 16, 20), (13,)))


def ablation(model: Any) -> LLMAttribution:
    return LLMAttribution(FeatureAblation(model), llm_tokenizer())


def gradients(model: Any) -> LLMGradientAttribution:
    return LLMGradientAttribution(LayerIntegratedGradients(model, model.model.embed_tokens), llm_tokenizer())


def maps(explainer: Any, target: Any, model: Any, gates: torch.Tensor | None = None, **settings: Any) -> torch.Tensor:
    inputs = TextInputs(TEXTS, llm_tokenizer(), removal="blank", **settings)
    x, view = inputs.take(torch.arange(3)), target.view(inputs.adapt(model))
    context = Context(Draws.of(0, torch.arange(3)), 8, x.structure, present=x.present, inputs=inputs)
    values = x.values if gates is None else gates * x.values
    found = as_explainer(explainer).explain(view, values, torch.tensor([0, 1, 0]), context)
    return found * x.present


@pytest.mark.parametrize("unit", ["token", "word"])
def test_feature_ablation_is_ours(unit: str) -> None:
    model = tiny_llama()
    if unit == "token":
        torch.testing.assert_close(maps(ablation(model), TWO, model), maps("feature_ablation", TWO, model), atol=1e-5, rtol=1e-4)
    tokens, words = maps(ablation(model), TWO, model), maps(ablation(model), TWO, model, unit="word")
    assert words[2, 1] == pytest.approx(float(tokens[2, 1:3].sum()), abs=1e-5)  # fine, ##ly


def test_integrated_gradients_are_ours() -> None:
    model = tiny_llama()
    expected = maps({"name": "integrated_gradients", "steps": 50}, TWO, model)
    torch.testing.assert_close(maps(gradients(model), TWO, model), expected, atol=1e-4, rtol=1e-3)


def test_the_next_token_is_explained_by_its_log_probability() -> None:
    model = tiny_llama()
    found, expected = maps(ablation(model), Token(), model), maps(ablation(model), Continuation(tokens=((0,), (1,))), model)
    torch.testing.assert_close(found, expected)


def test_closed_gates_reach_the_model() -> None:
    model, gates = tiny_llama(), torch.ones(3, 7)
    gates[1, 2], gates[1, 4] = 0.0, 0.5
    found, expected = maps(ablation(model), TWO, model, gates), maps("feature_ablation", TWO, model, gates)
    torch.testing.assert_close(found[1, [0, 1, 3, 5, 6]], expected[1, [0, 1, 3, 5, 6]], atol=1e-5, rtol=1e-4)
    assert found[1, 2] == 0
    assert not torch.allclose(found, maps(ablation(model), TWO, model))


@pytest.mark.parametrize("make", [ablation, gradients])
def test_copies_of_the_model_are_explained(make: Any) -> None:
    first, second = tiny_llama(0), tiny_llama(1)
    torch.testing.assert_close(maps(make(first), TWO, second), maps(make(second), TWO, second))


def test_an_audit_takes_the_objects_as_they_are(tmp_path: Path) -> None:
    model = tiny_llama()
    result = Audit(
        models={"llm": model},
        inputs=TextInputs(TEXTS, llm_tokenizer(), removal="blank"),
        explainers=[ablation(model), "feature_ablation"],
        scores=[FastGEF(steps=3, draws=2, sigma=0.2)],
        target=TWO,
        controls=False,
    ).run(tmp_path, progress=False)
    table = result.table().set_index("explainer")
    assert table.loc["llm_feature_ablation", "value"] == pytest.approx(table.loc["feature_ablation", "value"], abs=1e-6)


def test_another_model_target_or_inputs_are_refused() -> None:
    model = tiny_llama()
    common: dict[str, Any] = {"inputs": TextInputs(TEXTS, llm_tokenizer(), removal="blank"), "scores": ["sparseness"], "controls": False}
    with pytest.raises(InputError, match="was made for another model than the audited one"):
        Audit(models={"llm": tiny_llama(1)}, explainers=[ablation(model)], target=TWO, **common).prepare()
    with pytest.raises(InputError, match=r"explains the log-probability of tokens after a text: pass target=Token\(\)"):
        Audit(models={"llm": model}, explainers=[ablation(model)], target=lambda output: output[:, 0, 0], **common).prepare()
    assert isinstance(as_explainer(ablation(model)), CaptumLLM)

    class Provider:
        def get_logprobs(self, *given: Any, **settings: Any) -> list[float]:
            return []

    with pytest.raises(SpecError, match=r"is a class: pass an object, LLMAttribution\(FeatureAblation\(model\), tokenizer\)"):
        as_explainer(LLMAttribution)
    remote = RemoteLLMAttribution.__new__(RemoteLLMAttribution)
    remote.model = Provider()
    with pytest.raises(InputError, match="asks a model that runs elsewhere"):
        as_explainer(remote)
