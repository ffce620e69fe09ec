"""Do GEF and Fast-GEF rank explainers of text alike? The text panels of Figure A.9."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from veracity.audit import Audit
from veracity.core.errors import missing_extra
from veracity.core.explainers import Explainer
from veracity.explain import Gradient, IntegratedGradients, KernelShap, Saliency
from veracity.inputs import TextInputs
from veracity.recipe import Scale, recipe
from veracity.scores import GEF, FastGEF
from veracity.studies.several import Audits
from veracity_papers.data.texts import balanced, sms, sst2
from veracity_papers.recipes.faithfulness_methods import PAPER, first_two
from veracity_papers.recipes.gef_checks import agreements

SIZES = {Scale.SMOKE: (4, 1, 50), Scale.SMALL: (24, 2, 50), Scale.PAPER: (250, 5, 200)}
"""Texts, copies of the path, and coalitions of SHAP."""

STRENGTH = 0.5
"""Where a path ends, as in `text-sst2`."""


@recipe("gef-agreement-text", reference=f"{PAPER}, appendix A.8.2 and Figure A.9")
def gef_agreement_text(folder: Path, scale: Scale) -> Audits:
    """Do GEF and Fast-GEF agree on the ranking of explainers of text? Small DistilBERTs on film reviews and messages, gates per word.

    The paper found the same ranks, with one path (M = 1). Here there are four explainers: integrated gradients (its L-INTG, 10 steps),
    KernelSHAP in the place of PartitionSHAP, the gradient and its size. Needs the extra "transformers". Smoke: two explainers, 4 texts
    of one data set. Small: 24 texts, M = 2. Paper: 250 texts, M = 5.
    """
    data = {"sst2": sst2, "sms": sms}
    names = ("sst2",) if scale is Scale.SMOKE else tuple(data)
    return Audits(
        audits={name: text_audit(name, data[name], scale) for name in names},
        title="Does Fast-GEF rank explainers of text as GEF does?",
        summary=agreements,
    )


def text_audit(name: str, load: Callable[[str], tuple[list[str], Tensor]], scale: Scale) -> Audit:
    """The audit of one classifier."""
    try:
        from veracity_papers.zoo.transformers import load_text

        model, tokenizer = load_text(name)
    except ImportError as error:
        raise missing_extra("transformers", "transformers", "veracity-papers") from error
    count, draws, coalitions = SIZES[scale]
    texts, labels = balanced(load("test"), count)
    path: dict[str, Any] = {"sigma": STRENGTH, "draws": draws}
    return Audit(
        title=f"Does Fast-GEF rank explainers of {name.upper()} as GEF does?",
        models={"distilbert": model},
        inputs=TextInputs(texts, tokenizer, unit="word"),
        targets=labels,
        explainers=first_two(explainers(coalitions), scale),
        scores={"gef": GEF(segments=2 if scale is Scale.SMOKE else 5, **path), "fast_gef": FastGEF(**path)},
        controls=False,
        companions=False,
        about={"series": "gef-agreement-text", "scale": scale.value},
    )


def explainers(coalitions: int) -> dict[str, Explainer]:
    """Four that take gates.

    >>> list(explainers(20))
    ['gradient', 'integrated_gradients', 'saliency', 'kernel_shap']
    """
    return {
        "gradient": Gradient(),
        "integrated_gradients": IntegratedGradients(steps=10, method="riemann_right"),
        "saliency": Saliency(),
        "kernel_shap": KernelShap(samples=coalitions),
    }
