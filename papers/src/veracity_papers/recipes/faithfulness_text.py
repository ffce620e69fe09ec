"""GEF and Fast-GEF of explanations of texts, uncut and cut to the words that they name first (Table A.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from veracity import explain
from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.core.scores import Score
from veracity.inputs import TextInputs
from veracity.recipe import Scale, recipe
from veracity.scores import GEF, FastGEF, PublicFastGEF
from veracity.studies.several import Audits
from veracity_papers.data.texts import balanced, sms, sst2
from veracity_papers.recipes.faithfulness_methods import PAPER
from veracity_papers.recipes.published import published
from veracity_papers.zoo.transformers import load_text

Load = Callable[[str], tuple[list[str], Tensor]]
CUTS = (5, 10)
"""How many tokens an explanation names, as in Table A.6."""


@dataclass(frozen=True)
class Effort:
    """Texts that are explained, evaluations of PartitionSHAP, copies and levels of a path, segments of GEF, the strength of the noise
    at the end (None finds it), texts in which words are counted, and the methods that are measured (None for all)."""

    samples: int
    evaluations: int = 500
    draws: int = 5
    levels: int = 5
    segments: int = 5
    sigma: float | None = None
    counted: int = 60_000
    methods: tuple[str, ...] | None = None


EFFORTS = {
    Scale.SMOKE: Effort(
        3, evaluations=16, draws=1, levels=3, segments=1, sigma=0.5, counted=100, methods=("integrated_gradients", "attn_lrp")
    ),
    Scale.SMALL: Effort(8, evaluations=60, draws=2, segments=2, counted=2000),
    Scale.PAPER: Effort(250),
}


@recipe("faithfulness-text", reference=f"{PAPER}, Figure 9 and Table A.6")
def faithfulness_text(folder: Path, scale: Scale) -> Audits:
    """GEF and Fast-GEF of explanations of film reviews (SST-2) and short messages (SMS), uncut and cut to 5 and 10 tokens.

    L-INTG is `integrated_gradients` over the gates of tokens, with 10 steps, and SHAP-P is `partition_shap`. Beside them stand gradient x
    input, AttnLRP, attention rollout, random tokens, and the rarity of tokens, which no model changes: an explanation that never changes
    is undefined, and counted. The paper's BERT-tiny is not to be had, so a DistilBERT of about its size stands in for it. The published
    figures of L-INTG and SHAP-P are the same for 5 and 10 tokens, as if they were never cut: they stand beside the uncut ones. Smoke:
    3 reviews, two methods. Small: 8 texts, 60 evaluations of SHAP-P. Paper: 250 texts, 500 evaluations (on a GPU).
    """
    loads = (sst2,) if scale is Scale.SMOKE else (sst2, sms)
    return Audits(
        audits={load.__name__: text_audit(load, scale) for load in loads},
        title="Do explanations of texts change as much as the network does, also if they only name a few words?",
    )


def text_audit(load: Load, scale: Scale) -> Audit:
    """The audit of the network for the texts of one data set."""
    effort, data = EFFORTS[scale], load.__name__
    model, tokenizer = load_text(data)
    texts, labels = balanced(load("test"), effort.samples)
    counted = TextInputs(load("train")[0][: effort.counted], tokenizer, length=128, truncate=True)
    return Audit(
        title="Do explanations of a text classifier change as much as the network does?",
        models={"distilbert": model},
        inputs=TextInputs(texts, tokenizer),
        targets=labels,
        explainers=cut(text_methods(effort, explain.WordFrequency().with_data(counted))),
        scores=path_scores(effort),
        about={"recipe": "faithfulness-text", "scale": scale.value, "published": published("faithfulness A.6", {data: "distilbert"})},
    )


def text_methods(effort: Effort, rarity: explain.WordFrequency) -> dict[str, Explainer]:
    """The explainers of texts. One that names words itself, as a language model does, goes into `cut` beside the random tokens."""
    found: dict[str, Explainer] = {
        "integrated_gradients": explain.IntegratedGradients(steps=10),
        "partition_shap": explain.PartitionShap(evaluations=effort.evaluations),
        "input_x_gradient": explain.InputXGradient(),
        "attn_lrp": explain.AttnLrp(),
        "attention_rollout": explain.AttentionRollout(),
        "word_frequency": rarity,
    }
    return found if effort.methods is None else {name: found[name] for name in effort.methods}


def cut(methods: Mapping[str, Explainer]) -> dict[str, Explainer]:
    """Every method uncut and cut to its first tokens, and random tokens.

    >>> list(cut({"gradient": explain.Gradient()}))
    ['gradient', 'gradient, top 5', 'random, top 5', 'gradient, top 10', 'random, top 10']
    """
    found = dict(methods)
    for k in CUTS:
        found |= {f"{name}, top {k}": explain.TopK(explainer=one, k=k) for name, one in methods.items()}
        found[f"random, top {k}"] = explain.RandomTopK(k=k)
        # LLM-x: found[f"llm_x, top {k}"] = ..., which names k tokens itself; the published rows already have this label
    return found


def path_scores(effort: Effort) -> dict[str, Score]:
    """Fast-GEF, its public variant, with which published figures are compared, and GEF."""
    path: dict[str, Any] = {"draws": effort.draws, "steps": effort.levels, "sigma": effort.sigma}
    return {
        "fast_gef": FastGEF(**path),
        "fast_gef_public": PublicFastGEF(**path),
        "gef": GEF(**path, segments=effort.segments),
    }
