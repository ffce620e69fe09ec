"""How much do GEF's own settings matter? Its draws M, levels Z and segments T, one at a time, as in the paper's Figure A.8."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from veracity.audit import Audit
from veracity.core.scores import Score
from veracity.explain import RandomUniform, Saliency
from veracity.recipe import Scale, recipe
from veracity.results import Result
from veracity.scores import GEF, FastGEF
from veracity.scores.common import as_score
from veracity.scores.gef import Alignment
from veracity.studies.several import Audits
from veracity_papers.data.avila import avila
from veracity_papers.data.mnist import mnist
from veracity_papers.recipes.faithfulness_methods import PAPER, SAMPLES, SIGMA
from veracity_papers.recipes.faithfulness_tabular import ROWS
from veracity_papers.zoo.lenet import pretrained as lenet
from veracity_papers.zoo.tabular import pretrained as table_network

LETTERS = {"M": "draws", "Z": "steps", "T": "segments"}
VALUES: dict[Scale, tuple[int, dict[str, tuple[int, ...]]]] = {
    Scale.SMOKE: (3, {"M": (1, 3), "T": (2,)}),
    Scale.SMALL: (5, {"M": (1, 3, 5, 10), "Z": (3, 5, 10), "T": (1, 2, 5, 10)}),
    Scale.PAPER: (10, {"M": (1, 2, 3, 5, 10, 15, 20), "Z": (3, 5, 10, 15, 20), "T": (1, 2, 3, 5, 10, 15, 20)}),
}
"""What the other settings are fixed at, and the values that each one takes."""


def ablated(scale: Scale) -> dict[str, Score]:
    """GEF with one setting changed at a time, and Fast-GEF, which has no segments; labels such as "gef, M = 3".

    >>> list(ablated(Scale.SMOKE))
    ['gef, M = 1', 'gef, M = 3', 'gef, T = 2', 'fast_gef, M = 1', 'fast_gef, M = 3']
    """
    fixed, values = VALUES[scale]
    settings: dict[str, Any] = {"draws": fixed, "steps": fixed, "sigma": SIGMA[scale]}
    found: dict[str, Score] = {}
    for letter, numbers in values.items():
        for number in numbers:
            found[f"gef, {letter} = {number}"] = GEF(**{**settings, "segments": fixed, LETTERS[letter]: number})
    for letter in [letter for letter in values if letter != "T"]:
        for number in values[letter]:
            found[f"fast_gef, {letter} = {number}"] = FastGEF(**{**settings, LETTERS[letter]: number})
    return found


def distortions(results: Mapping[str, Result]) -> pd.DataFrame:
    """The curves of Figure A.8: each score, both distortions with their spread over samples, and the copies of the model it took."""
    return pd.DataFrame([row for name, one in results.items() for row in curve(name, one)])


def curve(name: str, result: Result) -> list[dict[str, Any]]:
    """One row a setting."""
    rows = []
    values = result.table().set_index("score")["value"]
    for one in result.series:
        score = as_score(result.manifest["score_specs"][one.score]["spec"])
        if isinstance(score, Alignment):
            moved = [part.mean(axis=(1, 2)) for part in score.distortions(one.measured)]
            model, explanation = ((np.nanmean(part), np.nanstd(part)) for part in moved)
            rows.append(
                {
                    "audit": name,
                    "score": one.score,
                    "value": values[one.score],
                    "D_f": model[0],
                    "sd D_f": model[1],
                    "D_phi": explanation[0],
                    "sd D_phi": explanation[1],
                    "copies": score.draws * score.steps * score.segments,
                }
            )
    return rows


@recipe("faithfulness-ablation", reference=f"{PAPER}, appendix A.7 and Figure A.8")
def faithfulness_ablation(folder: Path, scale: Scale) -> Audits:
    """GEF and Fast-GEF with more and fewer draws M, levels Z and segments T: saliency on Avila, random explanations on MNIST.

    The paper's fourth setting, K, is the number of samples for a Jacobian that is not needed here. Its time grows with the
    copies of the model, M Z T, which are counted. Small: the others fixed at 5, 48 digits. Paper: the others fixed at 10,
    250 digits.
    """
    rows = avila("test").labelled.some(ROWS[scale])
    x, y = (part[: SAMPLES[scale]] for part in mnist("test"))
    shared: dict[str, Any] = {"scores": ablated(scale), "controls": False, "companions": False}
    about = {"series": "faithfulness-ablation", "scale": scale.value}
    title = "How much do GEF's own settings matter?"
    return Audits(
        audits={
            "avila": Audit(
                title=f"{title} Saliency on Avila",
                models={"avila-sigmoid": table_network("avila-sigmoid")},
                inputs=rows.inputs,
                targets=rows.labels,
                explainers={"saliency": Saliency()},
                about=about,
                **shared,
            ),
            "mnist": Audit(
                title=f"{title} Random explanations on MNIST",
                models={"lenet": lenet("mnist")},
                inputs=x,
                targets=y,
                explainers={"random_uniform": RandomUniform()},
                about=about,
                **shared,
            ),
        },
        title=title,
        summary=distortions,
    )
