"""What the faithfulness recipes share: the paper's local methods, and its networks with their test samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

from veracity import explain
from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.recipe import Scale
from veracity_papers.data.labelled import Labelled
from veracity_papers.data.mnist import fashion_mnist, mnist
from veracity_papers.data.tabular import avila, compas
from veracity_papers.zoo import lenet, tabular

PAPER = "Hedström et al. 2025"
SAMPLES = {Scale.SMOKE: 6, Scale.SMALL: 48, Scale.PAPER: 250}
"""How many explanations are scored; the paper scores 250."""

SIGMA = {Scale.SMOKE: 2.0, Scale.SMALL: None, Scale.PAPER: None}
"""The strength of the noise at a path's end; None finds it for the model and the data, which takes longer than a smoke test should."""


def local_methods(layer: str | None = None) -> dict[str, Explainer]:
    """The local methods with the settings of section 6; and Grad-CAM if a layer with maps is named.

    >>> list(local_methods())[:3], local_methods("conv2")["grad_cam"].layer
    (['gradient', 'saliency', 'input_x_gradient'], 'conv2')
    """
    found: dict[str, Explainer] = {
        "gradient": explain.Gradient(),
        "saliency": explain.Saliency(),
        "input_x_gradient": explain.InputXGradient(),
        "integrated_gradients": explain.IntegratedGradients(steps=10, method="riemann_right"),
        "gradient_shap": explain.GradientShap(draws=10),
        "smooth_grad": explain.SmoothGrad(draws=10, noise=0.1),
        "guided_backprop": explain.GuidedBackprop(),
        "lrp_epsilon": explain.LRPEpsilon(epsilon=1e-6),
        "lrp_z_plus": explain.LRPZPlus(),
    }
    return found if layer is None else {**found, "grad_cam": explain.GradCam(layer=layer)}


def first_two(methods: Mapping[str, Explainer], scale: Scale) -> dict[str, Explainer]:
    """All methods, or the first two for a smoke test."""
    return dict(list(methods.items())[: 2 if scale is Scale.SMOKE else None])


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


TASKS = {
    "mnist": Task("lenet", lambda: lenet.pretrained("mnist"), lambda: Labelled.of(mnist("test")), IMAGES, 2.2),
    "fashion-mnist": Task("lenet", lambda: lenet.pretrained("fashion-mnist"), lambda: Labelled.of(fashion_mnist("test", 0)), IMAGES, 2.4),
    "avila": Task("avila-sigmoid", lambda: tabular.pretrained("avila-sigmoid"), lambda: avila("test").labelled, ROWS, 1.9),
    "compas": Task("compas-mlp3", lambda: tabular.pretrained("compas-mlp3"), lambda: compas("test").labelled, ROWS, 0.8),
}
