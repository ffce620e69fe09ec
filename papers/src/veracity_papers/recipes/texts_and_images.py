"""Transformers for texts and satellite images: are their explanations faithful, robust, and the same after training again?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from veracity.audit import Audit
from veracity.core.inputs import SelectedSamples
from veracity.core.training import CrossTrained
from veracity.explain import GradCam, InputXGradient, IntegratedGradients, KernelShap
from veracity.inputs import TextInputs
from veracity.perturb import EmbeddingNoise
from veracity.recipe import Scale, recipe
from veracity.scores import FaithfulnessCorrelation, FastGEF, MaxSensitivity
from veracity.walk import MonteCarlo
from veracity_papers.data.eurosat import eurosat
from veracity_papers.data.texts import balanced, sms, sst2
from veracity_papers.zoo.transformers import SmallDistilBert, load_images, load_text


@dataclass(frozen=True)
class Effort:
    """How many samples are explained, of at most how many words, how carefully, and on how many texts networks are trained again, in how
    many folds."""

    samples: int
    longest: int = 30
    steps: int = 20
    coalitions: int = 200
    subsets: int = 100
    draws: int = 5
    learnt: int = 0
    folds: int = 0
    trainer: SmallDistilBert | None = None


TINY = SmallDistilBert(width=16, layers=1, heads=2, epochs=8, batch=16, rate=5e-3, validation=0.0)
EFFORTS = {
    Scale.SMOKE: Effort(4, longest=12, steps=2, coalitions=24, subsets=10, draws=2, learnt=60, folds=2, trainer=TINY),
    Scale.SMALL: Effort(
        16,
        steps=10,
        coalitions=100,
        subsets=50,
        learnt=900,
        folds=3,
        trainer=SmallDistilBert(width=32, layers=1, heads=2, epochs=6, batch=64, rate=3e-3),
    ),
    Scale.PAPER: Effort(250, subsets=200, learnt=60_000, folds=5, trainer=SmallDistilBert()),
}


@recipe("text-sst2", reference="Socher et al. 2013 (SST-2); Sanh et al. 2019 (DistilBERT)")
def text_sst2(folder: Path, scale: Scale) -> Audit:
    """Integrated gradients, gradient x input, attention rollout and SHAP over the words of film reviews, on a small DistilBERT.

    Every word has a gate at its embedding. Scores: faithfulness, robustness to noise on word vectors, Fast-GEF, and MeGe of a network
    of the same kind that is trained again without each fold. Smoke: 4 sentences of up to 12 words, a network of width 16. Small: 16
    sentences, 3 folds of 900. Paper: 250 sentences, 5 folds of 60,000 (a GPU helps).
    """
    return text_audit("text-sst2", "Which explanations of film reviews can be trusted?", sst2, scale)


@recipe("text-sms", reference="Almeida et al. 2011 (SMS Spam Collection); Sanh et al. 2019 (DistilBERT)")
def text_sms(folder: Path, scale: Scale) -> Audit:
    """As text-sst2, on messages that are spam or not: which words give spam away, and do explanations find them?"""
    return text_audit("text-sms", "Which explanations of spam filters can be trusted?", sms, scale)


def text_audit(name: str, title: str, load: Callable[[str], tuple[list[str], Tensor]], scale: Scale) -> Audit:
    """An audit of the stored network, and of networks that are trained again without each fold of the training texts."""
    effort, data = EFFORTS[scale], load.__name__
    model, tokenizer = load_text(data)
    test, truth = balanced(load("test"), effort.samples, longest=effort.longest)
    learnt, labels = balanced(load("train"), effort.learnt, longest=effort.longest)
    both, every = TextInputs([*test, *learnt], tokenizer, unit="word"), torch.cat((truth, labels))
    folds = dealt_folds(every, effort.folds)
    place = torch.arange(len(test))
    again = CrossTrained(fit=effort.trainer.on(data) if effort.trainer else None, folds=folds, data=(both, every), place=place)
    return Audit(
        title=title,
        models={"distilbert": model, "trained again": again},
        inputs=SelectedSamples(both, place),
        targets=truth,
        explainers={
            "integrated_gradients": IntegratedGradients(steps=effort.steps),
            "input_x_gradient": InputXGradient(),
            "attention_rollout": "attention_rollout",
            "kernel_shap": KernelShap(samples=effort.coalitions),
        },
        scores={
            "faithfulness_correlation": FaithfulnessCorrelation(nr_runs=effort.subsets),
            "deletion": "deletion",
            "embedding_sensitivity": MaxSensitivity(space=EmbeddingNoise(sigma=0.1), walk=MonteCarlo(draws=effort.draws)),
            "fast_gef": FastGEF(sigma=0.5, draws=effort.draws),
            "mege": "mege",
        },
        about={"recipe": name, "scale": scale.value, "trained_on": len(learnt)},
    )


def dealt_folds(labels: Tensor, folds: int) -> Tensor:
    """The fold of each sample: the samples of every class are dealt out in turn, so that the first ones lie in all folds.

    >>> dealt_folds(torch.tensor([0, 1, 0, 1]), 2)
    tensor([0, 0, 1, 1])
    """
    found = torch.zeros_like(labels)
    for one in labels.unique():
        rows = (labels == one).nonzero()[:, 0]
        found[rows] = torch.arange(len(rows)) % folds
    return found


IMAGES = {Scale.SMOKE: (2, 4, 10), Scale.SMALL: (20, 20, 50), Scale.PAPER: (200, 50, 100)}


@recipe("vision-eurosat", reference="Abnar and Zuidema 2020 (rollout); Helber et al. 2019 (EuroSAT); Dosovitskiy et al. 2021 (ViT)")
def vision_eurosat(folder: Path, scale: Scale) -> Audit:
    """Integrated gradients, Grad-CAM and attention rollout of a vision transformer on satellite images.

    Grad-CAM reads the patch embedding, the transformer's only convolution. Smoke: 2 images. Small: 20, two per class. Paper: 200.
    """
    return image_audit("vision-eurosat", "Where does a transformer look on satellite images?", "vit", scale, "attention_rollout")


@recipe("vision-eurosat-resnet", reference="Helber et al. 2019 (EuroSAT); He et al. 2016 (ResNet)")
def vision_eurosat_resnet(folder: Path, scale: Scale) -> Audit:
    """Integrated gradients and Grad-CAM of a residual network, on the images of vision-eurosat; it has no attention."""
    return image_audit("vision-eurosat-resnet", "Where does a residual network look on satellite images?", "resnet", scale)


def image_audit(name: str, title: str, network: str, scale: Scale, *more: str) -> Audit:
    """An audit of one network on images spread over all classes."""
    count, steps, subsets = IMAGES[scale]
    images, labels = eurosat("test")
    rows = torch.linspace(0, len(labels) - 1, count).round().long()
    return Audit(
        title=title,
        models={network: load_images(f"eurosat-{network}")},
        inputs=images[rows],
        targets=labels[rows],
        explainers={
            "integrated_gradients": IntegratedGradients(steps=steps),
            "grad_cam": GradCam(),
            **{one: one for one in more},
        },
        scores={"faithfulness_correlation": FaithfulnessCorrelation(nr_runs=subsets, perturb_baseline="mean"), "deletion": "deletion"},
        about={"recipe": name, "scale": scale.value},
    )
