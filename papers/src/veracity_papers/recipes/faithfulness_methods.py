"""What the faithfulness recipes share: the paper's local methods, its published figures, and its networks with their test samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.core.inputs import TensorInputs
from veracity.explain import (
    GradCam,
    Gradient,
    GradientShap,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    LRPEpsilon,
    LRPZPlus,
    Saliency,
    SmoothGrad,
)
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

Figures = Mapping[str, tuple[tuple[float, float], ...]]
A4_MODELS = ("adult-mlp3", "adult-lr", "avila-sigmoid", "compas-mlp3", "compas-lr")
A4: Figures = {
    "smooth_grad": ((0.86, 0.00), (0.69, 0.00), (0.72, 0.01), (0.81, 0.01), (0.73, 0.01)),
    "gradient_shap": ((0.78, 0.00), (0.84, 0.01), (0.75, 0.01), (0.84, 0.00), (0.66, 0.01)),
    "saliency": ((0.84, 0.00), (0.76, 0.00), (0.69, 0.01), (0.75, 0.01), (0.70, 0.01)),
    "random_uniform": ((0.00, 0.02), (0.00, 0.02), (0.00, 0.02), (0.02, 0.02), (0.02, 0.02)),
    "lrp_epsilon": ((0.66, 0.01), (0.61, 0.01), (0.52, 0.01), (0.74, 0.01), (0.59, 0.01)),
    "lrp_z_plus": ((0.79, 0.00), (0.75, 0.00), (0.66, 0.01), (0.78, 0.00), (0.70, 0.01)),
    "input_x_gradient": ((0.84, 0.00), (0.77, 0.01), (0.69, 0.01), (0.74, 0.00), (0.72, 0.00)),
    "integrated_gradients": ((0.82, 0.00), (0.82, 0.00), (0.69, 0.01), (0.81, 0.00), (0.80, 0.00)),
    "gradient": ((0.86, 0.00), (0.74, 0.00), (0.69, 0.01), (0.81, 0.01), (0.67, 0.01)),
    "guided_backprop": ((0.80, 0.00), (0.60, 0.01), (0.68, 0.01), (0.78, 0.01), (0.70, 0.01)),
}
"""Table A.4: exact GEF on tables, mean and standard error."""

A5_DATA = ("fashion-mnist", "mnist")
A5: Figures = {
    "smooth_grad": ((0.69, 0.01), (0.73, 0.01)),
    "gradient_shap": ((0.74, 0.01), (0.77, 0.01)),
    "saliency": ((0.76, 0.01), (0.74, 0.01)),
    "random_uniform": ((0.00, 0.01), (0.00, 0.01)),
    "lrp_epsilon": ((0.70, 0.01), (0.73, 0.01)),
    "lrp_z_plus": ((0.73, 0.01), (0.73, 0.01)),
    "input_x_gradient": ((0.72, 0.01), (0.73, 0.01)),
    "integrated_gradients": ((0.73, 0.01), (0.77, 0.01)),
    "gradient": ((0.76, 0.01), (0.79, 0.01)),
    "guided_backprop": ((0.76, 0.01), (0.77, 0.01)),
}
"""Table A.5: Fast-GEF on images with a LeNet, mean and standard error."""

SHORT_PATHS = ("saliency", "input_x_gradient", "smooth_grad", "lrp_z_plus")
SHORT_PATH = "come from a path that ends at a strength of 0.34, where accuracy is still {}: it never reaches chance, as the path here does"
A5_CAVEATS = {
    (explainer, data): SHORT_PATH.format(kept)
    for explainer in SHORT_PATHS
    for data, kept in (("mnist", "0.91 to 0.96"), ("fashion-mnist", "0.80 to 0.92"))
}
"""What must be said of figures of Table A.5, by explainer and data: in the authors' stored results some paths are short."""


def local_methods(layer: str | None = None) -> dict[str, Explainer]:
    """The local methods with the settings of section 6; and Grad-CAM if a layer with maps is named.

    >>> list(local_methods())[:3], local_methods("conv2")["grad_cam"].layer
    (['gradient', 'saliency', 'input_x_gradient'], 'conv2')
    """
    found: dict[str, Explainer] = {
        "gradient": Gradient(),
        "saliency": Saliency(),
        "input_x_gradient": InputXGradient(),
        "integrated_gradients": IntegratedGradients(steps=10, method="riemann_right"),
        "gradient_shap": GradientShap(draws=10),
        "smooth_grad": SmoothGrad(draws=10, noise=0.1),
        "guided_backprop": GuidedBackprop(),
        "lrp_epsilon": LRPEpsilon(epsilon=1e-6),
        "lrp_z_plus": LRPZPlus(),
    }
    return found if layer is None else {**found, "grad_cam": GradCam(layer=layer)}


def some(methods: Mapping[str, Explainer], scale: Scale) -> dict[str, Explainer]:
    """All methods, or the first two for a smoke test."""
    return dict(list(methods.items())[: 2 if scale is Scale.SMOKE else None])


def published(
    table: Figures,
    columns: tuple[str, ...],
    labels: Mapping[str, str],
    score: str,
    where: str,
    caveats: Mapping[tuple[str, str], str] | None = None,
) -> list[dict[str, Any]]:
    """Figures of some columns of a published table, under the labels of our models, with their caveats.

    >>> published(A5, A5_DATA, {"mnist": "lenet"}, "fast_gef_public", "Table A.5")[-2]
    {'model': 'lenet', 'explainer': 'gradient', 'score': 'fast_gef_public', 'value': 0.79, 'error': 0.01, 'where': 'Table A.5'}
    """
    known = caveats or {}
    return [
        {
            "model": labels[column],
            "explainer": explainer,
            "score": score,
            "value": value,
            "error": error,
            "where": where,
            **({"caveat": known[explainer, column]} if (explainer, column) in known else {}),
        }
        for explainer, figures in table.items()
        for column, (value, error) in zip(columns, figures, strict=True)
        if column in labels
    ]


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
