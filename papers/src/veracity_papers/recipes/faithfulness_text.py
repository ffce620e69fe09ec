"""GEF and Fast-GEF of explanations of texts, uncut and cut to the words that they name first (Table A.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from veracity import explain
from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.core.scores import Score
from veracity.inputs import TextInputs
from veracity.recipe import Scale, recipe
from veracity.scores import GEF, FastGEF, PublicFastGEF
from veracity.studies.several import Audits
from veracity_papers.data.imdb import imdb_texts
from veracity_papers.data.texts import balanced, sms, sst2
from veracity_papers.recipes.faithfulness_methods import PAPER
from veracity_papers.recipes.published import published
from veracity_papers.zoo.causal import load_causal
from veracity_papers.zoo.smollm2 import is_installed, load_smollm2
from veracity_papers.zoo.transformers import load_text

Load = Callable[[str], tuple[list[str], Tensor]]
WRITTEN = "written"
CUTS = (5, 10)
"""How many tokens an explanation names, as in Table A.6."""
LONGEST = {"imdb": 80}
"""The longest texts in words, if not 30: only 15 of the 5,000 reviews of IMDb are so short."""


@dataclass(frozen=True)
class Effort:
    """Texts that are explained, evaluations of PartitionSHAP, copies and levels of a path, segments of GEF, the strength of the noise
    at the end (None finds it), texts in which words are counted, the methods that are measured (None for all), the texts about which a
    language model is asked, and how, and the seeds."""

    samples: int
    evaluations: int = 500
    draws: int = 5
    levels: int = 5
    segments: int = 5
    sigma: float | None = None
    counted: int = 60_000
    methods: tuple[str, ...] | None = None
    asked: int = 0
    modes: tuple[Literal["rank", "generate"], ...] = ("rank",)
    seeds: int = 1


EFFORTS = {
    Scale.SMOKE: Effort(
        3, evaluations=16, draws=1, levels=3, segments=1, sigma=0.5, counted=100, methods=("integrated_gradients", "attn_lrp")
    ),
    Scale.SMALL: Effort(8, evaluations=60, draws=2, segments=2, counted=2000, asked=2),
    Scale.PAPER: Effort(250, asked=250, modes=("rank", "generate"), seeds=5),
}
TASKS = {"sst2": ("judge the sentiment of a film review", ("negative", "positive")), "sms": ("find spam", ("no spam", "spam"))}
"""What a language model is told about a classifier: its task, and its classes."""


@recipe("faithfulness-text", reference=f"{PAPER}, Figure 9 and Table A.6")
def faithfulness_text(folder: Path, scale: Scale) -> Audits:
    """GEF and Fast-GEF of explanations of sentences (SST-2), messages (SMS) and film reviews (IMDb), uncut and cut to 5 and 10 tokens.

    L-INTG is `integrated_gradients` over the gates of tokens, with 10 steps, and SHAP-P is `partition_shap`. Beside them stand gradient x
    input, AttnLRP, attention rollout, random tokens, and the rarity of tokens, which no model changes: an explanation that never changes
    is undefined, and counted. The paper's BERT-tiny is not available, so a DistilBERT of about its size stands in for it. IMDb is not in
    the paper: its network is a small causal language model with a head, and its reviews have up to 80 words. The published figures of
    L-INTG and SHAP-P are the same for 5 and 10 tokens, as if they were never cut: they stand beside the uncut ones. If SmolLM2 is
    installed (extra `llm`), it explains the two DistilBERTs too (LLM-x), in audits of their own with Fast-GEF alone. Smoke: 3 sentences,
    two methods. Small: 8 texts per data set, 60 evaluations of SHAP-P, 2 texts for SmolLM2. Paper: 250 texts, 500 evaluations (on a
    GPU); Fast-GEF alone under four more seeds.
    """
    loads: tuple[Load, ...] = (sst2,) if scale is Scale.SMOKE else (sst2, sms, imdb_texts)
    audits: dict[str, Audit] = {}
    for load in loads:
        audits |= seeded(name_of(load), text_audit(load, scale), EFFORTS[scale].seeds)
    if EFFORTS[scale].asked and is_installed():
        llm = load_smollm2()
        for load in (sst2, sms):
            audits |= seeded(f"{load.__name__}-llm", language_model_audit(load, scale, llm), EFFORTS[scale].seeds)
    return Audits(
        audits=audits,
        title="Do explanations of texts change as much as the network does, also if they only name a few words?",
    )


def name_of(load: Load) -> str:
    """The name of a data set.

    >>> name_of(sst2), name_of(imdb_texts)
    ('sst2', 'imdb')
    """
    return load.__name__.removesuffix("_texts")


def seeded(name: str, audit: Audit, seeds: int) -> dict[str, Audit]:
    """The audit under its name, and Fast-GEF alone under further seeds, without what a language model writes.

    >>> list(seeded("sms", Audit(models={}, inputs=[], scores={"fast_gef": FastGEF()}), 3))
    ['sms', 'sms-1', 'sms-2']
    """
    named = {label: one for label, one in dict(audit.explainers or {}).items() if WRITTEN not in label}
    short = replace(audit, explainers=named, scores={"fast_gef": dict(audit.scores)["fast_gef"]})
    return {name: audit} | {f"{name}-{seed}": replace(short, seed=seed) for seed in range(1, seeds)}


def text_audit(load: Load, scale: Scale) -> Audit:
    """The audit of the network for the texts of one data set."""
    effort, data = EFFORTS[scale], name_of(load)
    model, tokenizer = load_causal() if data == "imdb" else load_text(data)
    label = "llama" if data == "imdb" else "distilbert"
    texts, labels = balanced(load("test"), effort.samples, longest=LONGEST.get(data, 30))
    counted = TextInputs(load("train")[0][: effort.counted], tokenizer, length=128, truncate=True)
    return Audit(
        title="Do explanations of a text classifier change as much as the network does?",
        models={label: model},
        inputs=TextInputs(texts, tokenizer),
        targets=labels,
        explainers=cut(text_methods(effort, explain.WordFrequency().with_data(counted))),
        scores=path_scores(effort),
        about={"recipe": "faithfulness-text", "scale": scale.value, "published": published("faithfulness A.6", {data: label})},
    )


def language_model_audit(load: Load, scale: Scale, llm: explain.LanguageModel) -> Audit:
    """The audit of what a language model says about the network, which names the words itself, beside random tokens."""
    effort, data = EFFORTS[scale], load.__name__
    model, tokenizer = load_text(data)
    texts, labels = balanced(load("test"), effort.asked)
    task, classes = TASKS[data]
    asked: dict[str, Any] = {"model": llm.model, "tokenizer": llm.tokenizer, "task": task, "classes": classes, "batch": 64}
    found: dict[str, Explainer] = {f"random, top {k}": explain.RandomTopK(k=k) for k in CUTS}
    for mode in effort.modes:
        label = "llm_x" if mode == "rank" else f"llm_x, {WRITTEN}"
        found |= {f"{label}, top {k}": explain.LanguageModelExplainer(**asked, k=k, mode=mode) for k in CUTS}
    scores = path_scores(effort)
    return Audit(
        title="Does a language model's explanation of a text classifier change as the network does?",
        models={"distilbert": model},
        inputs=TextInputs(texts, tokenizer),
        targets=labels,
        explainers=found,
        scores={name: scores[name] for name in ("fast_gef", "fast_gef_public")},
        about={"recipe": "faithfulness-text", "scale": scale.value, "published": published("faithfulness A.6", {data: "distilbert"})},
    )


def text_methods(effort: Effort, rarity: explain.WordFrequency) -> dict[str, Explainer]:
    """The explainers of texts."""
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
    return found


def path_scores(effort: Effort) -> dict[str, Score]:
    """Fast-GEF, its public variant, with which published figures are compared, and GEF."""
    path: dict[str, Any] = {"draws": effort.draws, "steps": effort.levels, "sigma": effort.sigma}
    return {
        "fast_gef": FastGEF(**path),
        "fast_gef_public": PublicFastGEF(**path),
        "gef": GEF(**path, segments=effort.segments),
    }
