"""Networks of the faithfulness paper with their test samples, and how much noise on the input leaves nothing of their predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.inputs import TensorInputs
from veracity.recipe import Scale
from veracity_papers.data.avila import avila
from veracity_papers.data.fashion import fashion_mnist
from veracity_papers.data.labelled import Labelled
from veracity_papers.data.mnist import mnist
from veracity_papers.data.tabular import compas
from veracity_papers.zoo import lenet, tabular

IMAGES = {Scale.SMOKE: 4, Scale.SMALL: 32, Scale.PAPER: 250}
ROWS = {Scale.SMOKE: 8, Scale.SMALL: 250, Scale.PAPER: 250}


@dataclass(frozen=True)
class Task:
    """A network under its label, its data, how many samples each scale takes, and the noise at the strong end of a path.

    `noise` is a standard deviation, where nine tenths of the way are gone from full agreement with the original predictions
    to what is left of it in noise of any strength: .11 for MNIST, .10 for FashionMNIST, .11 for Avila and .61 for COMPAS,
    on 1,000 test samples or more. Chance is lower: networks give noise to a few classes. The noise at which a sample of
    digits happens to reach chance lies between 3 and 25; Avila and COMPAS never do.
    """

    label: str
    network: Callable[[], nn.Module]
    data: Callable[[], Labelled]
    samples: dict[Scale, int]
    noise: float

    def audit(self, scale: Scale) -> Audit:
        """The network and its samples, with nothing asked yet."""
        chosen = self.data().some(self.samples[scale])
        return Audit(models={self.label: self.network()}, inputs=chosen.inputs, targets=chosen.labels)


def images(data: tuple[Tensor, Tensor]) -> Labelled:
    """Images (N, ...) with labels (N,) as samples."""
    return Labelled(TensorInputs(data[0]), data[1])


TASKS = {
    "mnist": Task("lenet", lambda: lenet.pretrained("mnist"), lambda: images(mnist("test")), IMAGES, 2.2),
    "fashion-mnist": Task("lenet", lambda: lenet.pretrained("fashion-mnist"), lambda: images(fashion_mnist("test", 0)), IMAGES, 2.4),
    "avila": Task("avila-sigmoid", lambda: tabular.pretrained("avila-sigmoid"), lambda: avila("test").labelled, ROWS, 1.9),
    "compas": Task("compas-mlp3", lambda: tabular.pretrained("compas-mlp3"), lambda: compas("test").labelled, ROWS, 0.8),
}
