"""Captum's `LLMAttribution` and `LLMGradientAttribution` as explainers of causal language models on texts.

They attribute the log-probability of the tokens that the audit's target names: a next token, or a continuation. The features are the
tokens of the text that have gates, and a missing token is the baseline of the inputs. Attributions of the tokens of a word are added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from captum.attr import LLMAttribution, LLMGradientAttribution, TextTokenInput
from torch import Tensor, nn

from veracity.core.dense_targets import ContinuationScores, PositionScores
from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Context
from veracity.core.models import View, layer_of, unwrap, word_embedding
from veracity.explain.captum_methods import Remade, gated_text
from veracity.explain.foreign import Foreign, display_name
from veracity.explain.passes import Structure, hooks, select
from veracity.explain.wrapper import computed


class RemadeLLM(Remade):
    """An LLMAttribution that was made for one language model, made again for others, with its method and layer."""

    def check(self, model: nn.Module) -> None:
        """Raise if the object was made for another model than this one."""
        if unwrap(self.model) is not unwrap(model):
            raise InputError(
                f"The {self.kind.__name__} was made for another model than the audited one: make one for every model, and audit them apart."
            )

    def __call__(self, model: nn.Module, forward: Any = None) -> Any:
        """The same for another language model of `transformers`."""
        made, inner = unwrap(model), copy(self.instance.attr_method)
        names = {id(part): name for name, part in unwrap(self.model).named_modules()}
        if isinstance(layer := getattr(inner, "layer", None), nn.Module):
            inner.layer = layer_of(made, names[id(layer)])
        inner.forward_func = made
        more = {"attr_target": self.instance.attr_target} if isinstance(self.instance, LLMAttribution) else {}
        return self.kind(inner, self.instance.tokenizer, **more)


@dataclass(frozen=True, kw_only=True)
class CaptumLLM(Foreign):
    """An `LLMAttribution` or `LLMGradientAttribution` object of Captum, which explains one text at a time."""

    name: ClassVar[str] = computed(lambda self: self.label or f"llm_{display_name(type(self.attribution.instance.attr_method))}")
    structured: ClassVar[bool] = True
    attribution: RemadeLLM

    @staticmethod
    def accepts(value: Any) -> bool:
        """Objects that attribute answers of a language model to its prompt, and their classes."""
        kind = value if isinstance(value, type) else type(value)
        return issubclass(kind, (LLMAttribution, LLMGradientAttribution))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """As for all foreign code; raises if the object was made for another model, or the target is no token."""
        self.attribution.check(model)
        tokens_of(self.name, model, 0)
        return super().check(model, inputs, targets, context)

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure) -> Tensor:
        """One row at a time: Captum takes no batch of texts."""
        text, method = gated_text(model), self.attribution(model)
        if text is None:
            raise InputError(f"{self.name} explains a causal language model on texts: pass inputs=TextInputs(prompts, tokenizer).")
        rows = []
        for row in range(len(inputs)):
            gates, (ids, units, *carried) = inputs[row : row + 1], select(structure, slice(row, row + 1))
            real = text.real_positions(gates, ids, units, *carried)[0]
            ids, units = ids[:, real], units[:, real]
            given = PromptTokens(ids, units >= 0, text.baseline, method.tokenizer)
            answer = torch.tensor(tokens_of(self.name, model, int(targets[row])))
            strength = torch.where(units < 0, 1.0, gates.gather(1, units.clamp(min=0))).detach()
            with gating(unwrap(model), strength, text.baseline):
                settings = {"forward_in_tokens": False} if isinstance(method, LLMAttribution) else {}
                found = method.attribute(given, target=answer, **settings).seq_attr.to(inputs)
            rows.append(torch.zeros_like(gates).scatter_add_(1, units[units >= 0].unsqueeze(0), found.reshape(1, -1)))
        return torch.cat(rows)


class PromptTokens(TextTokenInput):  # type: ignore[misc]
    """The tokens (1, T) of a text as Captum's input, of which those with gates are features."""

    def __init__(self, ids: Tensor, free: Tensor, baseline: int, tokenizer: Any) -> None:
        self.inp_tensor, self.itp_mask, self.itp_tensor = ids, free, ids[free].unsqueeze(0)
        self.baselines, self.tokenizer, self.skip_tokens = baseline, tokenizer, None
        self.values = tokenizer.convert_ids_to_tokens(self.itp_tensor[0].tolist())
        self.n_itp_features = len(self.values)


def tokens_of(name: str, model: nn.Module, target: int) -> tuple[int, ...]:
    """The tokens whose log-probability a target stands for; raises if the target is about something else."""
    while isinstance(model, View):
        if isinstance(model, ContinuationScores):
            return model.tokens[target]
        if isinstance(model, PositionScores) and model.position == -1:
            return (target,)
        model = model.model
    raise InputError(
        f"{name} explains the log-probability of tokens after a text: pass target=Token(), or target=Continuation.of(text, tokenizer)."
    )


@contextmanager
def gating(model: nn.Module, strength: Tensor, baseline: int) -> Iterator[None]:
    """Move the embeddings of the first T tokens by their gates (1, T); nothing is done if all are open."""
    if bool((strength == 1).all()):
        yield
        return
    embedding = word_embedding(model)

    def gate(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        floor, count = embedding.weight[baseline], strength.shape[1]
        moved = floor + strength.to(output).unsqueeze(-1) * (output[:, :count] - floor)
        return torch.cat((moved, output[:, count:]), dim=1)

    with hooks([embedding.register_forward_hook(gate)]):
        yield


def from_llm_attribution(value: Any) -> CaptumLLM:
    """The explainer around an object of Captum; raises on a class, and on an object whose model runs elsewhere."""
    if isinstance(value, type):
        method = "FeatureAblation(model)" if issubclass(value, LLMAttribution) else "LayerIntegratedGradients(model, layer)"
        raise SpecError(f"captum.attr.{value.__name__} is a class: pass an object, {value.__name__}({method}, tokenizer).")
    if not isinstance(getattr(value, "model", None), nn.Module):
        raise InputError(
            f"The {type(value).__name__} asks a model that runs elsewhere, whose copies cannot be perturbed: make an LLMAttribution for a "
            "model of transformers."
        )
    return CaptumLLM(attribution=RemadeLLM(value))
