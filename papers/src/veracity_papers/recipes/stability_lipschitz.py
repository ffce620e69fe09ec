"""Are explanations of 1-Lipschitz networks more stable? The paper's Tables 2 and 3."""

from __future__ import annotations

from pathlib import Path

from veracity.audit import Audit
from veracity.recipe import Scale, recipe
from veracity.trainers.small_cnn import SmallCNN
from veracity_papers.data.cifar import cifar10
from veracity_papers.data.whole import whole
from veracity_papers.recipes.stability_images import first
from veracity_papers.recipes.stability_methods import PAPER, TABLE_2, TABLE_3, TABLE_5, TINY, Effort, cross_trained_audit, described
from veracity_papers.zoo.lipschitz import Lipschitz
from veracity_papers.zoo.resnet18 import ResNet18

EFFORTS = {Scale.SMOKE: TINY, Scale.SMALL: Effort(100, masks=200), Scale.PAPER: Effort(250)}
LEARNT = {Scale.SMOKE: 400, Scale.SMALL: 3_000, Scale.PAPER: 60_000}


@recipe("stability-lipschitz", reference=f"{PAPER}, Tables 2, 3 and 5, Figures 5 and 10")
def stability_lipschitz(folder: Path, scale: Scale) -> Audit:
    """MeGe and ReCo of seven explainers on CIFAR-10, on a ResNet-18 and on a 1-Lipschitz network, beside Tables 2 and 3.

    The Lipschitz constant of each fold's network is certified from its weights and stands with the folds. Paper: all 60,000
    images are learnt from (a GPU helps), 250 are explained. Small: 3,000 and 100, by narrow networks. Smoke:
    400 and 24, two folds, narrow networks.
    """
    tables = {
        "resnet18": {"mege": TABLE_2["resnet18"], "reco": TABLE_3["resnet18"], **TABLE_5},
        "lipschitz": {"mege": TABLE_2["lipschitz"], "reco": TABLE_3["lipschitz"]},
    }
    title = "Are explanations of 1-Lipschitz networks more stable?"
    about = described("stability-lipschitz", scale, tables if scale is Scale.PAPER else None)
    return cross_trained_audit(title, trainers(scale), first(LEARNT[scale], whole(cifar10)), EFFORTS[scale], about)


def trainers(scale: Scale) -> dict[str, SmallCNN | ResNet18 | Lipschitz]:
    """A network without a bound, and one whose logits move no further than its input."""
    if scale is Scale.PAPER:
        return {"resnet18": ResNet18(epochs=10), "lipschitz": Lipschitz(batch=128, epochs=15, rate=3e-3, temperature=30.0)}
    if scale is Scale.SMALL:
        narrow = Lipschitz(batch=32, epochs=10, rate=3e-3, temperature=30.0, widths=(16, 32, 32))
        return {"small_cnn": SmallCNN(epochs=8, batch=64, width=8), "lipschitz": narrow}
    return {
        "small_cnn": SmallCNN(epochs=6, batch=16, width=6, validation=0.0),
        "lipschitz": Lipschitz(epochs=6, batch=16, widths=(8, 16, 16)),
    }
